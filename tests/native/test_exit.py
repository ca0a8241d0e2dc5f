"""The end of the interpreter while threads are in native work: the exit code is that of the program."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, time
import numpy as np
import meshsolve as ms
from meshsolve.report import showing_progress

A = ms.datasets.grid3d({size}, boundary="dirichlet")
b, ready = np.ones(A.shape[0]), threading.Event()

def work():
    while True:
        {call}
        ready.set()

for _ in range({threads}):
    threading.Thread(target=work, daemon=True).start()
ready.wait()
time.sleep({seconds})
sys.exit(3)
"""
CALLS = {"cholesky": "ms.cholesky(A, threads=1)", "threads": "ms.cholesky(A, threads=2)", "lu": "ms.lu(A, threads=1)",
         "progress": "\n        with showing_progress(lambda *state: time.sleep(0.001)): ms.cholesky(A, threads=1)"}


@pytest.mark.parametrize("call", ["cholesky", *(pytest.param(name, marks=pytest.mark.slow) for name in CALLS if name != "cholesky")])
def test_a_busy_daemon_thread_does_not_change_the_exit_code(call):
    """Python 3.11 ends such a thread by pthread_exit when it takes the GIL: unwinding must not meet a destructor."""
    program = PROGRAM.format(size=20, call=CALLS[call], threads=2, seconds=0.06)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (3, "")
