"""The parallel loop of the row solves: chunks in segments, errors of one worker, Ctrl-C."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from meshsolve import _core
from meshsolve.errors import InvalidInputError

SEGMENTS = np.array([0, 2, 3, 40], np.int32)        # first chunk of each of three segments, and the number of chunks

FAILS = """
import numpy as np
from meshsolve import _core
from meshsolve.errors import InvalidInputError
for up in (False, True):
    try:
        _core.run_chunks(np.array([0, 2, 3, 40], np.int32), 39 if up else 0, 50, up, 2)
    except InvalidInputError as e:
        print(e)
"""


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("up", [False, True])
def test_every_chunk_is_visited(up, threads):
    assert _core.run_chunks(SEGMENTS, -1, 0, up, threads) == 40


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_a_chunk_is_raised(threads):
    with pytest.raises(InvalidInputError, match="bad chunk"):
        _core.run_chunks(SEGMENTS, 17, 0, False, threads)


def test_workers_that_wait_for_a_failed_chunk_stop():
    """The bad chunk takes so long that the other worker waits for its segment."""
    done = subprocess.run([sys.executable, "-c", FAILS], capture_output=True, text=True, timeout=300,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.stdout.split("\n")[:2] == ["bad chunk"] * 2, done.stderr


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_between_chunks(threads):
    """A hundred seconds of work, interrupted early."""
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        _core.run_chunks(np.array([0, 10_000], np.int32), -1, 10 * threads, False, threads)
    timer.join()
