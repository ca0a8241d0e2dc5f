"""Run all tests that need a GPU, despite crashes: ``python tests/on_gpu.py [PYTEST ARGUMENTS]``, by default ``-m gpu tests``.

After an illegal address every later call of a process fails, and a kernel may never end. Either fault would hide the results of all
other tests. Therefore pytest runs in a child process. A process that has lost the device exits, one that hangs in a test is killed, and
another one continues with the remaining tests. This file is also the pytest plugin of that process.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
BEGUN = "MESHSOLVE_TESTS_BEGUN"                             # environment variable: file that lists the started tests
PATIENCE = 150                                              # timeout of a test, seconds; the first one compiles kernels
STARTS = 60                                                 # timeout of import and collection, seconds
NO_TESTS = 5                                                # pytest's status without tests
ENDED = (0, 1, 4, NO_TESTS)                                 # pytest's status: all passed, some failed, wrong usage, no tests


def main(arguments, patience=PATIENCE, clock=time.monotonic):
    """Run pytest until no test is left. Returns 0 if all tests passed."""
    with tempfile.TemporaryDirectory() as folder:
        begun, worst = pathlib.Path(folder) / "begun", 0
        begun.touch()
        while True:
            before = tests_in(begun)
            status = run(arguments or ["-m", "gpu", str(HERE)], begun, patience, clock)
            if before and status == NO_TESTS:               # the previous process ran the last test
                return worst
            worst = max(worst, abs(status))
            if status in ENDED:
                return worst
            if len(tests_in(begun)) == len(before):
                print(f"pytest ended with status {status} before any test")
                return worst
            print(f"\n==== the device was lost in {tests_in(begun)[-1]}: the other tests continue in a new process", flush=True)


def run(arguments, begun, patience, clock):
    """Run one process of pytest and return its status, negative if it was killed."""
    command = [sys.executable, "-m", "pytest", "-p", "on_gpu", "-p", "no:cacheprovider", "--continue-on-collection-errors",
               "-o", f"faulthandler_timeout={patience}", *arguments]
    path = os.pathsep.join(filter(None, (str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH"))))
    child = subprocess.Popen(command, env=os.environ | {BEGUN: str(begun), "PYTHONPATH": path})
    size, end = begun.stat().st_size, clock() + patience + STARTS
    try:
        while child.poll() is None:
            if begun.stat().st_size != size:
                size, end = begun.stat().st_size, clock() + patience + 10      # faulthandler prints the stack before that
            if clock() > end:
                child.kill()
            time.sleep(0.1)
    finally:
        child.kill()
        child.wait()
    return child.returncode


def tests_in(begun):
    """Return the started tests, in order."""
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
    """True if the process can no longer use its device."""
    try:
        if "cupy" in sys.modules:
            sys.modules["cupy"].cuda.runtime.deviceSynchronize()
    except Exception:                                       # any type, depending on the fault
        return True
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
