"""Time steps: the longest step, the times of results, corners, long runs, progress and interruption."""

import pathlib
import signal
import sys

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.apps.circuit import jacobian, transient
from meshsolve.apps.circuit.transient import multiples

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import decks

RC = "V1 a 0 {}\nR1 a b 1k\nC1 b 0 1n"
TAU = 1e-6
RINGING = "V1 in 0 PULSE(0 1 0 1n 1n 1 2)\nR1 in a 10\nL1 a out 1m\nC1 out 0 1u"


def charged(t, after):
    return np.where(t > after, -np.expm1(-np.maximum(t - after, 0) / TAU), 0)


# ---- the longest step and the results ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("line, steps", [(".tran 2n 10m 0 20u", 500), (".TRAN 2ns 10ms 2ms 2.0e-5", 500), (".tran 1p 10m 0 20u", 500)])
def test_a_fourth_number_is_the_longest_step(line, steps, deck):
    """Not every multiple of the first number is a step and a result: these would be 5 million."""
    w, _ = deck("V1 a 0 SIN(0 5 1k)\nD1 a b dm\nR1 b 0 1k\nC1 b 0 1u\n.model dm D\n" + line).run()
    assert steps <= w.report.facts["time_steps"] < 2 * steps and len(w.time) <= w.report.facts["time_steps"] + 1
    assert np.all(np.diff(w.time) > 0) and w.time[-1] == 10e-3 and w.time[0] == (2e-3 if "2ms" in line else 0)
    fine = deck("V1 a 0 SIN(0 5 1k)\nD1 a b dm\nR1 b 0 1k\nC1 b 0 1u\n.model dm D\n.options reltol=1e-5").transient(5e-6, 10e-3)
    assert np.abs(w["b"] - np.interp(w.time, fine.time, fine["b"])).max() < 5e-3 * np.ptp(fine["b"])


@pytest.mark.parametrize("tmax", [20e-6, 1e-3])
def test_a_coarse_longest_step_leaves_no_error(tmax, deck):
    """A ringing with period 0.2 ms is within the tolerance for any longest step. The error of ngspice is 4 to 7 %."""
    w = deck(RINGING).transient(1e-9, 2e-3, tmax=tmax)
    a, b = 5e3, np.sqrt(1e9 - 25e6)
    exact = 1 - np.exp(-a * w.time) * (np.cos(b * w.time) + a / b * np.sin(b * w.time))
    assert np.abs(w["out"] - exact).max() < 1e-2 and w.report.facts["time_steps"] < 400


def test_corners_are_not_stepped_over(deck):
    """Pulses of 5 us in a period of 13 us with steps of up to 100 us, and a single one far from the start."""
    w = deck(RC.format("PULSE(0 1 0 1n 1n 5u 13u)")).transient(1e-9, 1e-3, tmax=1e-4)
    corners = 13e-6 * np.arange(76)[:, None] + np.array([1e-9, 5.001e-6, 5.002e-6])
    nearest = np.abs(w.time[:, None] - corners.ravel()).min(axis=0)
    assert nearest.max() < 1e-14 and w["a"].max() == 1 and w.report.facts["time_steps"] < 6000
    w = deck(RC.format("PULSE(0 1 0.7m 1p 1p 5u)")).transient(1e-9, 1e-3, tmax=1e-4)
    assert np.abs(w["b"] - charged(w.time, 0.7e-3) + charged(w.time, 0.705e-3)).max() < 3e-3 and w.report.facts["time_steps"] < 200


def test_results_are_a_step_apart_except_at_corners(deck):
    w = deck(RC.format("PULSE(0 1 100u 1n 1n 1 2)")).transient(5e-7, 1e-3, tmax=5e-5)
    close = np.diff(w.time) < 5e-7 * (1 - 1e-6)
    assert 0 < np.count_nonzero(close) <= 2 and w.report.facts["time_steps"] > len(w.time)      # the two corners, and steps between results
    assert w.time[np.flatnonzero(close) + 1] == pytest.approx([100.001e-6], rel=1e-9) and np.abs(w["b"] - charged(w.time, 100e-6)).max() < 3e-3


def test_results_begin_at_tstart(deck):
    w = deck(RC.format("PULSE(0 1 0 1p 1p 1)")).transient(1e-9, 1e-5, tstart=1.5e-6, tmax=1e-6)
    assert w.time[0] == 1.5e-6 and w.time[-1] == 1e-5 and np.abs(w["b"] - charged(w.time, 0)).max() < 3e-3
    assert deck(RC.format("1")).transient(1e-9, 1e-5, tstart=1e-5, tmax=1e-6).time.tolist() == [1e-5]
    with pytest.raises(ms.InvalidInputError, match="tstart = 0.002 must be at most tstop = 0.001"):
        deck(RC.format("1")).transient(1e-9, 1e-3, tstart=2e-3, tmax=1e-5)


def test_steps_over_twelve_decades(deck):
    """A tstep of 1 ps in a run of 1 s: 1e12 multiples, but 1,000 steps."""
    w = deck(RC.format("PULSE(0 1 0.25 1n 1n 0.5)")).transient(1e-12, 1.0, tmax=1e-3)
    assert 1000 <= w.report.facts["time_steps"] < 2000 and np.abs(w["b"] - charged(w.time, 0.25) + charged(w.time, 0.75)).max() < 3e-3


def test_a_resistive_circuit_follows_its_sine(deck):
    """Results at the ends of steps are at most a sixteenth of a period apart, also without a capacitor."""
    w = deck("V1 a 0 SIN(0 1 1k)\nR1 a 0 1k").transient(1e-6, 4e-3, tmax=1e-3)
    assert np.diff(w.time).max() < 1.001e-3 / 16 and w["a"].min() == pytest.approx(-1)


def test_a_resistive_circuit_takes_the_longest_steps(deck):
    w = deck("V1 a 0 SIN(0 1 1k)\nR1 a b 1k\nR2 b 0 1k").transient(1e-9, 1e-3, tmax=5e-5)
    assert w.report.facts["time_steps"] < 50 and np.allclose(w["b"], 0.5 * np.sin(2e3 * np.pi * w.time), atol=1e-12)


def test_default_results_are_at_multiples_of_tstep(deck):
    w = deck(RC.format("1")).transient(1e-7, 1e-5)
    assert np.array_equal(w.time[:-1], 1e-7 * np.arange(100)) and w.time[-1] == 1e-5
    assert len(deck(RC.format("1")).transient(1e-7, 1e-5, tmax=1e-8).time) == 101
    assert len(deck(RC.format("1")).transient(1e-7, 1e-5, tmax=1e-6, fixed_step=True).time) == 101


@pytest.mark.parametrize("tstep, tstop, count", [(0.1, 1.0, 10), (1 / 3, 1.0, 3), (0.333333, 1.0, 3), (0.333333e-6, 1e-3, 3000), (0.3, 1.0, 4),
                                                 (1e-3, 1.00001, 1000), (1e-3, 0.99999, 1000), (1.0, 1.0, 1), (0.7, 1.0, 2), (1e-6, 1.0, 10**6)])
def test_a_rounded_step_adds_no_tiny_one_at_the_end(tstep, tstop, count):
    times = multiples(tstep, tstop)
    assert len(times) == count + 1 and times[-1] == tstop and np.diff(times).min() > 0.09 * tstep and np.diff(times).max() < 1.02 * tstep


# ---- long runs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.native
def test_a_long_run_solves_in_native_code(deck):
    """In Python a step of three resistors would take 200 microseconds."""
    w = deck("V1 g 0 3\nR1 n 0 1\nR2 g n 2").transient(1e-9, 20e-6)
    assert len(w.time) == 20_001 and np.all(w["n"] == 1) and w.report.counts["solve"] == w.report.counts["steps"] == 1      # at rest
    w = deck("V1 in 0 SIN(0 10 500)\nD1 in r dm\nR1 r out 100\nC1 out 0 100u\nR2 out 0 1k\n.model dm D(IS=1e-14 N=1.05 RS=0.5)").transient(1e-7, 2e-3)
    facts = w.report.facts
    assert facts["time_steps"] == 20_000 and facts["newton_steps"] < 1.1 * 20_000 and w.report.counts["solve"] < 30


@pytest.mark.parametrize("text, step, end", [(decks.power_grid(6), 1e-10, 1e-8), (decks.CONTROLLED, 1e-5, 2e-3), (decks.ladder(20), 1e-11, 1e-9),
                                             (RINGING, 1e-5, 1e-3), (decks.RECOVERY, 2e-9, 1e-6)],
                         ids=["grid", "controlled", "ladder", "ringing", "recovery"])
def test_small_and_large_circuits_take_the_same_steps(text, step, end, deck, monkeypatch):
    small = deck(text).transient(step, end)
    monkeypatch.setattr(transient, "NATIVE", 0)
    monkeypatch.setattr(jacobian, "NEAR", 0.0)
    large = deck(text).transient(step, end)
    assert large.report.counts["solve"] > 10 >= small.report.counts["solve"] or "D1" in text
    for name in ("time_steps", "rejected_steps"):
        assert small.report.facts[name] == large.report.facts[name]
    for name in small:
        assert np.abs(small[name] - large[name]).max() < 1e-6 * max(np.abs(small[name]).max(), 1e-9)


def test_a_small_matrix_that_is_singular_is_named(deck):
    with pytest.raises(ms.SingularMatrixError, match=r"singular at (node b|the current of e1)"):
        deck("V1 a 0 1\nR1 a 0 1\nC1 a 0 1n\nR2 b 0 1\nE1 b 0 b 0 1").transient(1e-6, 1e-5, uic=True)


def test_pivots_of_a_small_matrix_are_chosen_again(deck):
    """Switching diodes change entries by fifteen decades, which needs another pivot order."""
    w = deck("V1 a 0 PULSE(400 -400 1u 1u 1u 3u 10u)\nR1 a c 0.01\nD1 c x dm\nD2 x y dm\nD3 y 0 dm\n.model dm d(is=1e-12)").transient(1e-7, 1e-5)
    closed, opened = w["a"] > 200, w["a"] < 0
    assert np.allclose(w["c"][closed], 1.5 * w["x"][closed], rtol=1e-3) and np.allclose(w["c"][opened], w["a"][opened], rtol=1e-6)


class StoppedError(Exception):
    pass


ENDLESS = {"tstep": 1e-9, "tstop": 1.0, "tmax": 1e-8, "nodes": ["b"]}


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_long_run_shows_progress(size, deck, monkeypatch):
    """A hundred million steps; the first reported count ends the run."""
    if size == "large":
        monkeypatch.setattr(transient, "NATIVE", 0)
    seen = []

    def progress(phase, done, total):
        seen.append((phase, done, total))
        if total:
            raise StoppedError

    with pytest.raises(StoppedError), ms.showing_progress(progress):
        deck(RC.format("1")).transient(**ENDLESS)
    phase, done, total = seen[-1]
    assert phase == "steps" and 0 <= done < total == 10**6


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer signal")
def test_a_long_run_can_be_interrupted(deck):
    def stop(*_):
        raise StoppedError

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(StoppedError):
            deck(RC.format("1")).transient(**ENDLESS)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
