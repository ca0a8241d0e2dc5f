"""Run tests or a script in a child process with a sanitizer's runtime preloaded; Python itself is not instrumented."""

import functools
import os
import subprocess
import sys

RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so"}


@functools.cache
def runtime(sanitizer):
    """Return the path of the sanitizer's runtime, or None if the compiler has none."""
    named = subprocess.run(["g++", f"-print-file-name={RUNTIMES[sanitizer]}"], capture_output=True, text=True).stdout.strip()
    return named if os.path.isabs(named) else None


def python(arguments, sanitizer=None, timeout=3600, **variables):
    """Run ``python arguments`` with the harness's kernels built for the sanitizer; returns the completed process.

    "races" needs no runtime. The variables are added to the environment.
    """
    folders = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *sys.path]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, folders)))
    if sanitizer:
        environment["MESHSOLVE_HARNESS_SANITIZE"] = sanitizer
    if sanitizer in RUNTIMES:
        environment |= {
            "LD_PRELOAD": runtime(sanitizer),
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "halt_on_error=1",
            "TSAN_OPTIONS": "report_signal_unsafe=0 ignore_noninstrumented_modules=1 exitcode=66 atexit_sleep_ms=0",
        }
    environment |= variables
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=timeout)
