"""The tests marked `sanitize` again, their kernels built for AddressSanitizer and ThreadSanitizer."""

import pathlib

import pytest
from kernel_harness import sanitized

TESTS = pathlib.Path(__file__).resolve().parents[1]
MARKED = [str(file) for file in sorted(TESTS.rglob("test_*.py")) if "@pytest.mark.sanitize" in file.read_text() and file != pathlib.Path(__file__)]


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_marked_tests_are_clean(sanitizer):
    if sanitized.runtime(sanitizer) is None:
        pytest.skip(f"the compiler has no {sanitized.RUNTIMES[sanitizer]}")
    child = sanitized.python(["-m", "pytest", "-x", "-m", "sanitize", "-p", "no:cacheprovider", *MARKED], sanitizer, timeout=600)
    assert child.returncode == 0 and "passed" in child.stdout, child.stdout[-3000:] + child.stderr[-5000:]
