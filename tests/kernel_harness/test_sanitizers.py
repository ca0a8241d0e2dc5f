"""The tests marked `sanitize`, with kernels built for the detector of races, AddressSanitizer and ThreadSanitizer."""

import pathlib
import re

import pytest

from kernel_harness import sanitized

TESTS = pathlib.Path(__file__).resolve().parents[1]
MARKED = [file for file in sorted(TESTS.rglob("test_*.py"))
          if re.search(r"@pytest\.mark\.(sanitize|races)\b", file.read_text()) and file != pathlib.Path(__file__)]
PACKAGES = sorted({file.parent.relative_to(TESTS).as_posix() for file in MARKED})


def run(sanitizer, package):
    """A process for each package. Block sizes as they are launched on a GPU take longest; addresses do not depend on other blocks."""
    files = [str(file) for file in MARKED if file.parent == TESTS / package]
    fewer = ["-k", "not crowded" if sanitizer == "address" else "not as-launched"]
    marks = "sanitize or races" if sanitizer == "races" else "sanitize"
    return sanitized.python(["-m", "pytest", "-x", "-m", marks, *fewer, "-p", "no:cacheprovider", *files], sanitizer, timeout=3600)


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["races", "address", "thread"])
@pytest.mark.parametrize("package", PACKAGES)
def test_marked_tests_are_clean(package, sanitizer):
    if sanitizer != "races" and sanitized.runtime(sanitizer) is None:
        pytest.skip(f"the compiler has no {sanitized.RUNTIMES[sanitizer]}")
    child = run(sanitizer, package)
    assert child.returncode == 0 and "passed" in child.stdout, child.stdout[-3000:] + child.stderr[-5000:]
