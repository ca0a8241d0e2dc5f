"""Measurements: rounds, medians, peak memory, the description of a run."""

import json
import math
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import measure

ROOT = pathlib.Path(measure.__file__).resolve().parents[1]


def test_summary_and_geometric_mean():
    s = measure.summary([3.0, 1.0, 2.0, 5.0, 4.0])
    assert (s["median"], s["min"], s["q1"], s["q3"], s["runs"]) == (3.0, 1.0, 2.0, 4.0, 5)
    assert measure.summary([2.0])["q3"] == 2.0
    assert math.isclose(measure.geometric_mean([1.0, 4.0]), 2.0) and math.isnan(measure.geometric_mean([]))
    with pytest.raises(ValueError):
        measure.summary([])


def test_disturbed_rounds_are_repeated(monkeypatch):
    calls, stolen = [], iter([0, 5, 5, 5, 5, 9, 9, 9, 9, 9, 9, 9])          # before and after each: the first and the third are disturbed
    monkeypatch.setattr(measure, "stolen_seconds", lambda: next(stolen))
    _, seconds = measure.interleave({"a": lambda: calls.append(0)}, 3)
    assert len(calls) == 5 and len(seconds["a"]["wall"]) == 3
    calls.clear()
    monkeypatch.setattr(measure, "stolen_seconds", lambda: 5 * len(calls))                # disturbed in every attempt: accepted
    _, seconds = measure.interleave({"a": lambda: calls.append(0)}, 3)
    assert len(calls) == 6 and len(seconds["a"]["wall"]) == 3


def test_interleave_takes_turns(monkeypatch):
    monkeypatch.setattr(measure, "stolen_seconds", lambda: 0.0)
    order = []
    results, seconds = measure.interleave({"a": lambda: order.append("a") or 1, "b": lambda: order.append("b") or 2}, 3)
    assert order == ["a", "b"] * 3 and results == {"a": 1, "b": 2} and len(seconds["b"]["cpu"]) == 3


PEAK = """
import numpy as np
from benchmarks import measure
big = np.ones(1 << 24)                           # 128 MiB freed before the measurement must not hide the peak
del big
memory = measure.PeakMemory()
block = np.ones(1 << 23)
del block
print(memory.grown() if memory.reset else "")
"""


def test_peak_memory_includes_freed_memory():
    """In a separate process, as in the benchmarks: the heap of other tests already has space for the block."""
    done = subprocess.run([sys.executable, "-c", PEAK], cwd=ROOT, capture_output=True, text=True, check=True)
    if not done.stdout.strip():
        pytest.skip("the system does not let the high-water mark be reset")
    assert 60e6 < int(done.stdout) < 100e6


def test_vectors_are_the_widest_of_the_processor():
    assert [measure._vectors(flags) for flags in ("fma avx2 avx512f", "avx avx2", "avx", "")] == ["AVX-512", "AVX2", None, None]


def test_library_threads_restores_the_environment(monkeypatch):
    monkeypatch.setenv("MESHSOLVE_NUM_THREADS", "5")
    with measure.library_threads(2):
        assert measure.os.environ["MESHSOLVE_NUM_THREADS"] == "2"
    assert measure.os.environ["MESHSOLVE_NUM_THREADS"] == "5"


def test_json_has_the_description_of_the_run(tmp_path):
    path = measure.write_json(measure.describe("order", [1, 2], "wall"), tmp_path / "a.json")
    run = json.loads(path.read_text())
    assert run["machine"]["cores"] >= 1 and run["versions"]["numpy"] == np.__version__ and run["threads"] == [1, 2]
