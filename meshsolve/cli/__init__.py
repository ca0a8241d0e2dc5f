"""The command line: meshsolve mcf | smooth | denoise | spectrum | geodesics | param | batch | solve | order | circuit | view | info |
completion.

Exit codes: 0 success, 2 wrong usage, 130 interrupted, 1 any other error. An error prints one line on standard error that begins
with "meshsolve: error:". A warning also prints one line, with the name of the input file. A solution that misses its tolerance
is written, and the exit code is 1. If the reader of standard output closes the pipe (`meshsolve info A.mtx | head -1`), the exit
code is 0, because all files are complete by then.
The output files of a command are all written completely, or none of them. The file name ``-`` is standard input or output.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
import warnings

from meshsolve.cli.arguments import parser, with_task
from meshsolve.cli.many import run_each
from meshsolve.cli.pipes import misuse, piped, plain
from meshsolve.cli.words import in_the_shell
from meshsolve.errors import MeshsolveError
from meshsolve.options import thread_count
from meshsolve.report import showing_progress
from meshsolve.startup import INTERRUPTED, release


def main(argv=None):
    """Run the command line; returns the exit code."""
    args = None
    try:
        release()
        for stream in (sys.stdout, sys.stderr):             # names of files may hold bytes that are not UTF-8
            with contextlib.suppress(AttributeError, ValueError):
                stream.reconfigure(errors="backslashreplace")
        commands = parser()
        args = commands.parse_args(with_task(sys.argv[1:] if argv is None else argv))
        if args.command is None:
            commands.print_help(sys.stderr)
            return 2
        if problem := misuse(args):
            commands.error(problem)
        with warnings.catch_warnings(), _progress(args.quiet) as args.label:
            warnings.showwarning = _one_line_warning(args)
            args.threads = thread_count(args.threads)
            _run(args)
        if sys.stdout is not None:                          # None if the caller closed it
            sys.stdout.flush()
        return 0
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:                                 # the reader closed the pipe, as head does
        _discard(sys.stdout)
        return 0
    except (MeshsolveError, OSError) as e:
        return _fail(in_the_shell(str(e), args))
    except MemoryError:
        return _fail("not enough memory")
    except Exception as e:                                  # a bug of meshsolve: one line with the type
        return _fail(f"{type(e).__name__}: {e}")


def _run(args):
    """Run the command of ``args``, on each mesh if it takes several."""
    with piped(args):
        if isinstance(getattr(args, "mesh", None), list):
            run_each(args, lambda text: _print_error(in_the_shell(text, args)))
        else:
            args.run(args)


def _fail(message, code=1):
    _print_error(f"error: {' '.join(str(message).split()) or 'unknown error'}")
    return code


def _one_line_warning(args):
    """Make a function for ``warnings.showwarning`` that prints one line with the name of the input file."""
    def show(message, category, filename, lineno, file=None, line=None):
        given = next((path for path in (getattr(args, name, None) for name in ("mesh", "matrix", "deck", "input")) if path), "")
        given = given[0] if isinstance(given, list) and len(given) == 1 else given
        text = in_the_shell(" ".join(str(message).split()), args)
        _print_error(f"warning: {text}" if not given or given in text else f"warning: {given}: {text}")

    return show


def _print_error(text):
    """Print one line on standard error; a closed pipe is ignored."""
    try:
        print(f"meshsolve: {plain(text)}", file=sys.stderr)
    except BrokenPipeError:
        _discard(sys.stderr)


def _discard(stream):
    """Redirect a stream with a closed pipe to the null device, so that Python's flush at exit does not fail either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def _progress(quiet):
    """Show a progress bar if standard error is a terminal. Yields a function that sets the label before the phase, or None."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    columns, rows = shutil.get_terminal_size()              # tqdm draws nothing if the terminal reports no size
    bar = tqdm(total=1, leave=False, ncols=columns, nrows=rows, bar_format="{desc:<20} {percentage:3.0f}% |{bar}| {elapsed}")
    label, drawn = "", 0.0

    def set_label(text):
        nonlocal label
        label = text

    def update(phase, done, total):
        nonlocal drawn
        if time.monotonic() - drawn > 0.05:
            bar.set_description_str(label + phase, refresh=False)
            bar.total, bar.n = max(total, 1), min(done, max(total, 1))
            bar.refresh()
            drawn = time.monotonic()

    try:
        with showing_progress(update):
            yield set_label
    finally:
        bar.close()
