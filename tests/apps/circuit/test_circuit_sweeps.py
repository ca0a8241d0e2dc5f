"""Sweeps of small circuits in C++ against single points, dense solves and other numbers of threads."""

import numpy as np
import pytest
from cases import each

import meshsolve as ms
from meshsolve.apps.circuit import newton, sweeps

LADDER = "V1 n0 0 AC 1\n" + "".join(f"R{k} n{k} n{k + 1} 1k\nC{k} n{k + 1} 0 1n\n" for k in range(30))
DIODES = "V1 a 0 0\nR1 a b 10\nD1 b c dm\nD2 0 c dm\nR2 c 0 1k\nD3 b 0 dz\n.model dm d(rs=1 cjo=1p)\n.model dz d(bv=5 nbv=0.1)"


def test_frequencies_have_the_same_bits_on_any_number_of_threads(deck):
    one, four = (deck(LADDER).ac("lin", 3000, 1e3, 1e7, threads=t) for t in (1, 4))
    assert all(one[name].tobytes() == four[name].tobytes() for name in one)
    s = 2j * np.pi * one.frequency * 1e-6                   # of one section, with its own impedance
    x, y = np.zeros_like(s), np.ones_like(s)                # current and voltage from the open end on
    for _ in range(30):
        x = x + s * y
        y = y + x
    assert np.allclose(one["n30"] * y, 1, rtol=1e-9)


@each("text", [LADDER, LADDER + "".join(f"R{k} n{k} n{k + 1} 100\nC{k} n{k + 1} 0 1n\n" for k in range(30, 400)), DIODES.replace("V1 a 0 0", "V1 a 0 2 AC 1"), "I1 0 a AC 1\nL1 a b 1m\nC1 b 0 1n\nR1 a 0 1k\nE1 c 0 b 0 3\nR2 c b 5"])
def test_loops_in_cpp_and_python_agree(text, deck, monkeypatch):
    native = deck(text).ac("dec", 7, 1, 1e9)
    monkeypatch.setattr(sweeps, "small_part", lambda *args: None)
    other = deck(text).ac("dec", 7, 1, 1e9)
    for name in native:
        assert np.allclose(native[name], other[name], rtol=1e-9, atol=1e-12 * abs(other[name]).max()), name


@each("text, source", [(DIODES, "v1"), ("I1 0 b 0\nR1 b 0 1k\nD1 b 0 dm\n.model dm d(is=1e-12 n=1.3)", "i1"), ("I1 b 0 1m\nR1 b 0 1k\nR2 b c 1\nV1 c 0 1", "i1"), ("V1 a 0 0\nR1 a b 1\nR2 b 0 3", "v1")])
def test_each_point_is_an_operating_point(text, source, deck):
    body = ".options reltol=1e-6 vntol=1e-9 abstol=1e-15\n" + text
    c = deck(body)
    for start, stop in ((-12, 12), (12, -12)):
        w = c.dc(source, start, stop, np.sign(stop) * 1.5)
        for k, value in enumerate(w.sweep):
            v = c.with_values({source: float(value)}).op()
            assert all(w[name][k] == pytest.approx(v[name], rel=1e-5, abs=1e-9) for name in v), (value, dict(v))


def test_a_point_that_newtons_method_does_not_reach(deck, monkeypatch):
    """The search for an operating point follows, as for the first one."""
    calls, search = [], newton.operating_point

    def counted(*args):
        calls.append(args)
        return search(*args)

    monkeypatch.setattr(newton, "operating_point", counted)
    w = deck(".options itl1=6\n" + DIODES).dc("v1", -40, 40, 40)
    assert len(calls) > 1 and np.all(np.isfinite(w["b"])) and w["b"].min() > -6 and w["b"].max() < 3


def test_a_sweep_reports_its_work(deck):
    facts = deck(DIODES).dc("v1", 0, 1, 0.01).report.facts
    assert facts["newton_steps"] >= 101 and facts["refactorizations"] >= 100
    assert len(deck(DIODES).dc("v1", 1, 1, 1).sweep) == 1


def test_no_frequency_is_wrong_without_a_message(deck):
    with pytest.raises(ms.InvalidInputError, match="values are too large or too small"):
        deck("I1 0 a AC 1e300\nR1 a 0 1e20").ac("lin", 3, 1, 2)
