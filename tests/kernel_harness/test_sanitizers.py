"""The tests marked `sanitize`, with kernels built for the detector of races, AddressSanitizer and ThreadSanitizer."""

import pathlib
import re

import pytest

from kernel_harness import sanitized

TESTS = pathlib.Path(__file__).resolve().parents[1]
MARKED = [file for file in sorted(TESTS.rglob("test_*.py"))
          if re.search(r"@pytest\.mark\.(sanitize|races)\b", file.read_text()) and file != pathlib.Path(__file__)]


def run(sanitizer, file):
    """A process for each file: ThreadSanitizer holds 8128 threads in its life. Blocks as they are launched on a GPU take longest."""
    fewer = [] if sanitizer == "address" else ["-k", "not as-launched"]
    marks = "sanitize or races" if sanitizer == "races" else "sanitize"
    return sanitized.python(["-m", "pytest", "-x", "-m", marks, *fewer, "-p", "no:cacheprovider", str(file)], sanitizer, timeout=3600)


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["races", "address", "thread"])
@pytest.mark.parametrize("file", MARKED, ids=lambda file: file.stem)
def test_marked_tests_are_clean(file, sanitizer):
    if sanitizer != "races" and sanitized.runtime(sanitizer) is None:
        pytest.skip(f"the compiler has no {sanitized.RUNTIMES[sanitizer]}")
    child = run(sanitizer, file)
    assert child.returncode == 0 and "passed" in child.stdout, child.stdout[-3000:] + child.stderr[-5000:]
