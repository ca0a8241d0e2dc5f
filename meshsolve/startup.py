"""Ctrl-C while the command line starts: one line and exit code 130, as later, instead of a traceback from the middle of an import.

The imports of numpy, scipy and the core take most of the start. They run before ``cli.main`` can catch an exception, and no file has been
written by then. Other programs that import meshsolve are not affected.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

INTERRUPTED = 130           # exit code of shells: 128 + the number of the signal SIGINT
PROGRAMS = ("meshsolve", "meshsolve.exe", "meshsolve-script.py")


def guard() -> None:
    """Exit at Ctrl-C until :func:`release`, if this process runs the command line."""
    first = threading.current_thread() is threading.main_thread()
    if first and _is_program() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def release() -> None:
    """Raise KeyboardInterrupt at Ctrl-C again."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_program() -> bool:
    """True for ``meshsolve ...`` and ``python -m meshsolve ...``, False for processes that they start."""
    words = sys.orig_argv[1:]
    if sys.argv[:1] == ["-m"]:                              # Python's mark while it looks for the module
        return words[words.index("-m") + 1:][:1] == ["meshsolve"] if "-m" in words else "-mmeshsolve" in words
    return bool(sys.argv) and sys.argv[0] in words and os.path.basename(sys.argv[0]) in PROGRAMS


def _exit(number, frame):
    os.write(2, b"meshsolve: error: interrupted\n")
    os._exit(INTERRUPTED)


guard()
