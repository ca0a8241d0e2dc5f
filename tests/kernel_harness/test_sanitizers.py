"""The tests marked `sanitize`, with kernels built for AddressSanitizer and ThreadSanitizer."""

import pathlib

import pytest

from kernel_harness import sanitized

TESTS = pathlib.Path(__file__).resolve().parents[1]
MARKED = [file for file in sorted(TESTS.rglob("test_*.py"))
          if "@pytest.mark.sanitize" in file.read_text() and file != pathlib.Path(__file__)]


def run(sanitizer, file):
    """A process for each file: ThreadSanitizer holds 8128 threads in its life. It takes longest with blocks as they are launched on a GPU."""
    fewer = ["-k", "not as-launched"] if sanitizer == "thread" else []
    return sanitized.python(["-m", "pytest", "-x", "-m", "sanitize", *fewer, "-p", "no:cacheprovider", str(file)], sanitizer, timeout=3600)


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("file", MARKED, ids=lambda file: file.stem)
def test_marked_tests_are_clean(file, sanitizer):
    if sanitized.runtime(sanitizer) is None:
        pytest.skip(f"the compiler has no {sanitized.RUNTIMES[sanitizer]}")
    child = run(sanitizer, file)
    assert child.returncode == 0 and "passed" in child.stdout, child.stdout[-3000:] + child.stderr[-5000:]
