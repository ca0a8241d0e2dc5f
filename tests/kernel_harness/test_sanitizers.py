"""The tests marked `sanitize`, with kernels built for the detector of races, AddressSanitizer and ThreadSanitizer."""

import pathlib
import re

import pytest

from kernel_harness import sanitized

TESTS = pathlib.Path(__file__).resolve().parents[1]
MARKED = [file for file in sorted(TESTS.rglob("test_*.py"))
          if re.search(r"@pytest\.mark\.(sanitize|races)\b", file.read_text()) and file != pathlib.Path(__file__)]


LIMIT = "Thread limit"                                      # of ThreadSanitizer: 8128 threads in the life of a process


def run(sanitizer, *tests, more=()):
    """Run the marked tests of a file, or these tests, in a process. Blocks as they are launched on a GPU take longest: not all run them."""
    fewer = [] if sanitizer == "address" else ["-k", "not as-launched"]
    marks = "sanitize or races" if sanitizer == "races" else "sanitize"
    return sanitized.python(["-m", "pytest", "-x", "-s", "-m", marks, *fewer, "-p", "no:cacheprovider", *more, *map(str, tests)], sanitizer,
                            timeout=3600)


def one_by_one(sanitizer, file):
    """Run each marked test of a file in a process of its own. Return the first process that failed, or the last, and the tests that
    create too many threads for ThreadSanitizer."""
    listed = run(sanitizer, file, more=["--collect-only"]).stdout.splitlines()
    tests, too_large, last = [file.parent / line.rpartition("/")[2] for line in listed if "::" in line], [], None
    assert tests
    for test in tests:
        child = run(sanitizer, test)
        if LIMIT in child.stderr:
            too_large.append(test.name)
            continue
        last = child
        if child.returncode:
            break
    return last, too_large


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["races", "address", "thread"])
@pytest.mark.parametrize("file", MARKED, ids=lambda file: file.stem)
def test_marked_tests_are_clean(file, sanitizer):
    if sanitizer != "races" and sanitized.runtime(sanitizer) is None:
        pytest.skip(f"the compiler has no {sanitized.RUNTIMES[sanitizer]}")
    child = run(sanitizer, file)
    too_large = []
    if LIMIT in child.stderr:
        child, too_large = one_by_one(sanitizer, file)
        if child is None:
            pytest.skip(f"ThreadSanitizer holds 8128 threads; more are created by {', '.join(too_large)}")
    assert child.returncode == 0 and "passed" in child.stdout, child.stdout[-3000:] + child.stderr[-5000:]
    if too_large:
        pytest.skip(f"the others are clean; ThreadSanitizer holds 8128 threads, and more are created by {', '.join(too_large)}")
