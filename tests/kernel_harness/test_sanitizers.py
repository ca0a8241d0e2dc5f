"""The tests marked `sanitize` again, their kernels built for AddressSanitizer and ThreadSanitizer."""

import concurrent.futures
import functools
import os
import pathlib

import pytest

from kernel_harness import sanitized

TESTS = pathlib.Path(__file__).resolve().parents[1]
MARKED = [file for file in sorted(TESTS.rglob("test_*.py"))
          if "@pytest.mark.sanitize" in file.read_text() and file != pathlib.Path(__file__)]


def run(sanitizer, file):
    return sanitized.python(["-m", "pytest", "-x", "-m", "sanitize", "-p", "no:cacheprovider", str(file)], sanitizer, timeout=900)


@functools.cache
def children():
    """All of them, as many at a time as there are processors. A process each: ThreadSanitizer holds 8128 threads in its life."""
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1)
    return {(sanitizer, file): pool.submit(run, sanitizer, file)
            for file in MARKED for sanitizer in sanitized.RUNTIMES if sanitized.runtime(sanitizer) is not None}


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("file", MARKED, ids=lambda file: file.stem)
def test_marked_tests_are_clean(file, sanitizer):
    if sanitized.runtime(sanitizer) is None:
        pytest.skip(f"the compiler has no {sanitized.RUNTIMES[sanitizer]}")
    child = children()[sanitizer, file].result()
    assert child.returncode == 0 and "passed" in child.stdout, child.stdout[-3000:] + child.stderr[-5000:]
