"""Runs tests or a script in a child process that begins with a sanitizer's runtime: python itself is not instrumented."""

import functools
import os
import subprocess
import sys

RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so"}


@functools.cache
def runtime(sanitizer):
    """The path of the sanitizer's runtime, or None where the compiler has none."""
    named = subprocess.run(["g++", f"-print-file-name={RUNTIMES[sanitizer]}"], capture_output=True, text=True).stdout.strip()
    return named if os.path.isabs(named) else None


def python(arguments, sanitizer=None, timeout=3600):
    """A finished child: ``python arguments``, kernels of the harness built for the sanitizer."""
    folders = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *sys.path]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, folders)))
    if sanitizer:
        environment |= {
            "MESHSOLVE_HARNESS_SANITIZE": sanitizer,
            "LD_PRELOAD": runtime(sanitizer),
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "halt_on_error=1",
            "TSAN_OPTIONS": "report_signal_unsafe=0 ignore_noninstrumented_modules=1 exitcode=66",
        }
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=timeout)
