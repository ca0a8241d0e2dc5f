"""The command line: meshsolve mcf | smooth | solve | order | circuit | view | info.

Exit codes: 0 done, 2 wrong usage, 130 interrupted, 1 anything else, with one line on standard error that begins with
"meshsolve: error:". A warning is one line as well, with the name of the input file. A
solution that misses its tolerance is 1, and is written. Where the reader of what is printed ends early (`meshsolve info A.mtx |
head -1`) it is 0: files are complete before anything is printed.
The output files of a command are written whole, and together or not at all.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
import warnings

from meshsolve.cli.arguments import parser
from meshsolve.errors import MeshsolveError
from meshsolve.options import thread_count
from meshsolve.report import showing_progress

INTERRUPTED = 130           # 128 + the number of the signal SIGINT, as shells have it


def main(argv=None):
    """Run the command line; returns the exit code."""
    try:
        commands = parser()
        args = commands.parse_args(argv)
        if args.command is None:
            commands.print_help(sys.stderr)
            return 2
        with warnings.catch_warnings(), _progress(args.quiet) as args.label:
            warnings.showwarning = _one_line_warning(args)
            args.threads = thread_count(args.threads)
            args.run(args)
        if sys.stdout is not None:                          # closed by who called: print() says nothing then
            sys.stdout.flush()
        return 0
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:                                 # whoever read the printed text has seen enough
        _leave(sys.stdout)
        return 0
    except (MeshsolveError, OSError) as e:
        return _fail(str(e))
    except MemoryError:
        return _fail("not enough memory")
    except Exception as e:                                  # a fault of ours: still one line, with its type
        return _fail(f"{type(e).__name__}: {e}")


def _fail(message, code=1):
    _say(f"error: {' '.join(str(message).split()) or 'unknown error'}")
    return code


def _one_line_warning(args):
    """A function for ``warnings.showwarning``: one line that begins with the name of the file that the command reads."""
    given = next((path for path in (getattr(args, name, None) for name in ("mesh", "matrix", "deck", "input")) if path), "")

    def show(message, category, filename, lineno, file=None, line=None):
        text = " ".join(str(message).split())
        _say(f"warning: {text}" if not given or given in text else f"warning: {given}: {text}")

    return show


def _say(text):
    """One line on standard error. Nobody may be reading there: that is no reason not to go on."""
    try:
        print(f"meshsolve: {text}", file=sys.stderr)
    except BrokenPipeError:
        _leave(sys.stderr)


def _leave(stream):
    """What is still to be written to a stream whose reader has gone goes nowhere, that of the end of Python included."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def _progress(quiet):
    """A bar on standard error where a person looks at it; yields a function that sets what stands before the phase, or None."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    columns, rows = shutil.get_terminal_size()              # tqdm draws nothing where a terminal does not say its size
    bar = tqdm(total=1, leave=False, ncols=columns, nrows=rows, bar_format="{desc:<20} {percentage:3.0f}% |{bar}| {elapsed}")
    label, drawn = "", 0.0

    def set_label(text):
        nonlocal label
        label = text

    def tell(phase, done, total):
        nonlocal drawn
        if time.monotonic() - drawn > 0.05:
            bar.set_description_str(label + phase, refresh=False)
            bar.total, bar.n = max(total, 1), min(done, max(total, 1))
            bar.refresh()
            drawn = time.monotonic()

    try:
        with showing_progress(tell):
            yield set_label
    finally:
        bar.close()
