"""Tests on a GPU continue after a test that loses the device, kills its process, or does not end."""

import pathlib

import on_gpu
import pytest
from clocks import ClockOfHangs

TESTS = """
import os, pathlib, sys, time, types
import pytest

class Runtime:
    lost = False
    def deviceSynchronize(self):
        if self.lost: raise RuntimeError("cudaErrorIllegalAddress")

sys.modules["cupy"] = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=Runtime()))

def test_first(): pass
def test_loses():
    sys.modules["cupy"].cuda.runtime.lost = True
    assert False, "lost here"
def test_finds_another_fault(): assert not sys.modules["cupy"].cuda.runtime.lost, "never seen"
def test_dies(): os._exit(139)
def test_fails(): assert False, "a fault of its own"
def test_hangs():
    pathlib.Path(__file__).with_name("hangs").write_text(f"{os.getpid()}\\n")
    time.sleep(1000)
def test_last(): pass
"""


@pytest.fixture
def run(tmp_path, capfd):
    def run(names):
        (tmp_path / "test_these.py").write_text(TESTS)
        status = on_gpu.main([str(tmp_path), "-v", "-k", names], patience=50, clock=ClockOfHangs(tmp_path / "hangs"))
        return status, capfd.readouterr().out
    return run


@pytest.mark.slow
def test_one_fault_hides_no_other(run):
    status, said = run("first or loses or another or dies or fails or last")
    assert status and "lost here" in said and "a fault of its own" in said and "never seen" not in said
    assert said.count("the device was lost in") == 2 and "test_dies: the other tests continue" in said
    assert [said.count(f"test_{name} PASSED") for name in ("first", "finds_another_fault", "last")] == [1, 1, 1]


@pytest.mark.slow
def test_a_test_that_does_not_end_is_killed(run):
    status, said = run("hangs or last")
    assert status and "test_hangs: the other tests continue" in said and "test_last PASSED" in said


def test_a_run_without_faults_is_one_process(run):
    status, said = run("first or last")
    assert status == 0 and "continue in" not in said and said.count("session starts") == 1


@pytest.mark.slow
def test_a_run_without_tests_ends(run, tmp_path):
    assert on_gpu.main([str(tmp_path / "nowhere")]) == 4 and on_gpu.main(["-k", "nothing", str(pathlib.Path(__file__))]) == 5
