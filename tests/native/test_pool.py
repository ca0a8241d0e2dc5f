"""The thread pool where the system gives fewer threads than asked for."""

import subprocess
import sys

import pytest

CROWDED = """
import resource
import numpy as np
import meshsolve as ms

L = ms.datasets.grid2d(100, 100)
one = ms.order.nested_dissection(L, threads=1).perm
with open("/proc/self/statm") as f:
    used = int(f.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), resource.RLIM_INFINITY))      # room for a few stacks
for _ in range(2):
    assert np.array_equal(ms.order.nested_dissection(L, threads=200).perm, one)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_fewer_threads_than_asked_for_do_the_work():
    """With a thread lost and still waited for, this would never end."""
    done = subprocess.run([sys.executable, "-c", CROWDED], timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
