"""All tests that need a GPU, whatever becomes of it: ``python tests/on_gpu.py [PYTEST ARGUMENTS]``, by default ``-m gpu tests``.

After an illegal address every later call of a process fails, and a kernel that does not end is waited for for ever: one fault
would hide what all other tests find. So pytest runs in a process of its own. One that has lost the device ends itself, one that is
stuck in a test is killed, and the next goes on with the tests that have not begun. This file is also the plugin in that process.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
BEGUN = "MESHSOLVE_TESTS_BEGUN"                             # names the file that lists the tests that have begun
PATIENCE = 150                                              # seconds for a test; the first of a process compiles kernels
STARTS = 60                                                 # seconds that loading and collecting may take
NO_TESTS = 5                                                # pytest's status, as are:
ENDED = (0, 1, 4, NO_TESTS)                                 # all passed, some failed, wrong usage


def main(arguments, patience=PATIENCE, clock=time.monotonic):
    """Run pytest until no test is left; returns 0 where all passed."""
    with tempfile.TemporaryDirectory() as folder:
        begun, worst = pathlib.Path(folder) / "begun", 0
        begun.touch()
        while True:
            before = tests_in(begun)
            status = run(arguments or ["-m", "gpu", str(HERE)], begun, patience, clock)
            if before and status == NO_TESTS:               # none was left for this process
                return worst
            worst = max(worst, abs(status))
            if status in ENDED:
                return worst
            if len(tests_in(begun)) == len(before):
                print(f"pytest ended with status {status} before any test")
                return worst
            print(f"\n==== the device was lost in {tests_in(begun)[-1]}: the other tests go on in a new process", flush=True)


def run(arguments, begun, patience, clock):
    """The status of one process of pytest, negative where it was killed."""
    command = [sys.executable, "-m", "pytest", "-p", "on_gpu", "-p", "no:cacheprovider", "--continue-on-collection-errors",
               "-o", f"faulthandler_timeout={patience}", *arguments]
    path = os.pathsep.join(filter(None, (str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH"))))
    child = subprocess.Popen(command, env=os.environ | {BEGUN: str(begun), "PYTHONPATH": path})
    size, end = begun.stat().st_size, clock() + patience + STARTS
    try:
        while child.poll() is None:
            if begun.stat().st_size != size:
                size, end = begun.stat().st_size, clock() + patience + 10      # by then its stack has been written
            if clock() > end:
                child.kill()
            time.sleep(0.1)
    finally:
        child.kill()
        child.wait()
    return child.returncode


def tests_in(begun):
    """The tests that have begun, in their order."""
    return begun.read_text().splitlines()


# ---- the plugin -------------------------------------------------------------------------------------------------------


def pytest_collection_modifyitems(config, items):
    begun = set(tests_in(pathlib.Path(os.environ[BEGUN])))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in begun])
    items[:] = [item for item in items if item.nodeid not in begun]


def pytest_runtest_logstart(nodeid):
    with open(os.environ[BEGUN], "a") as file:
        file.write(nodeid + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed and is_lost():
        item.session.shouldstop = "the device is lost"
    return report


def is_lost():
    """Whether the process can use its device no more."""
    try:
        if "cupy" in sys.modules:
            sys.modules["cupy"].cuda.runtime.deviceSynchronize()
    except Exception:                                       # whatever is left of the driver raises
        return True
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
