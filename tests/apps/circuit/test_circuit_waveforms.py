"""Waveforms of sources: values, corners, and defaults."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsolve.apps.circuit import sources


@given(st.lists(st.floats(0.01, 1), min_size=4, max_size=4), st.floats(0, 20))
def test_corners_of_pulses(lengths, t):
    delay, rise, fall, width = lengths
    pulses = sources.pulses([np.array([0, 1, delay, rise, fall, width, rise + fall + width + 0.5])], 1.0, 100.0)
    corner = pulses.next_corner(t)
    assert t < corner < t + rise + fall + width + 2
    inside = np.linspace(t, corner, 9)[1:-1]                # linear up to the corner
    assert np.allclose(np.diff([pulses.at(x)[0] for x in inside], 2), 0, atol=1e-9)


def test_defaults_of_waveforms_are_tstep_and_tstop():
    tstep, tstop = 0.5, 4.0
    exponential, sine = sources.exponentials([np.array([0, 1, 2.0, 1.0])], tstep, tstop), sources.sines([np.array([0, 1.0])], tstep, tstop)
    assert exponential.at(2.4)[0] == pytest.approx(1 - np.exp(-0.4))
    assert exponential.at(3.0)[0] == pytest.approx(np.exp(-(3.0 - 2.5) / tstep) - np.exp(-1))
    assert [sine.at(t)[0] for t in (0, 1, 2, 3)] == pytest.approx([0, 1, 0, -1], abs=1e-12)


def test_the_default_period_of_a_pulse_is_tstop(deck):
    """As in SPICE, the default period is tstop."""
    w = deck("V1 a 0 PULSE(0 1 -2 1 1 1)\nR1 a 0 1").transient(0.25, 8, tmax=0.25)
    assert np.allclose(w["a"], np.interp(w.time, [0, 1, 6, 7, 8], [1, 0, 0, 1, 1]))


def test_a_pulse_longer_than_its_period_is_cut_off():
    pulses = sources.pulses([np.array([0, 1, 0, 0.1, 0.1, 5.0, 1.0])], 0.01, 10.0)
    assert [pulses.at(t)[0] for t in (0.05, 0.5, 1.0, 1.05, 2.0)] == pytest.approx([0.5, 1, 1, 0.5, 1])


def test_waveforms_that_begin_before_the_time_0(deck):
    v = deck("V1 a 0 PULSE(0 1 -2.3n 0.1n 0.1n 0.3n 1n)\nV2 b 0 PWL(-0.5n 1 1.5n 3)\nR1 a b 1").op()
    assert v["a"] == pytest.approx(1) and v["b"] == pytest.approx(1.5)


def test_a_jump_of_a_piecewise_linear_source_is_exact(deck):
    """A step that ends at the jump has the value before it, also if the jump is not a multiple of the steps."""
    for jump in (2e-4, 2.3e-4):
        w = deck(f"V1 a 0 PWL(0 0 {jump} 0 {jump} 1)\nR1 a b 1k\nC1 b 0 100n").transient(1e-4, 1e-3)
        assert np.abs(w["b"] - np.where(w.time > jump, 1 - np.exp(-(w.time - jump) / 1e-4), 0)).max() < 1e-3
        assert w["a"].tolist() == [0.0] * 3 + [1.0] * 8
        assert w.report.facts["rejected_steps"] < 20


@given(st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=6), min_size=1, max_size=5), st.floats(-1, 8))
def test_piecewise_linear_sources(heights, t):
    lines = sources.lines([np.stack([np.arange(len(h)) * 1.0, h], axis=1).ravel() for h in heights], 1.0, 1.0)
    assert np.allclose(lines.at(t), [np.interp(t, np.arange(len(h)), h) for h in heights])
