"""Loops of voltage sources and of resistors of 0 ohm: the voltages must fit, and the currents are divided as between equal resistances."""

import numpy as np
import pytest
from cases import each

import meshsolve as ms

LINKS = "V1 a 0 6\nRa a b 1e-3\nR1 b c 0\nR2 b c 0\nR3 c b 0\nR4 c d 0\nR5 d b 0\nRl c 0 2k"
TOTAL = 6 / 2000.001


@each("solver", ["lu", "cholesky", "parac"])
def test_links_in_parallel(solver, deck):
    with pytest.warns(ms.MeshsolveWarning, match="deck.sp:5: r2 and r1 form a loop of voltage sources or resistors of 0 ohm, as 2 others do: their current is divided"):
        v = deck(LINKS).op(solver=solver)
    shares = np.array([2, 2, -2, -1, -1]) / 7 * TOTAL       # the path over d has twice the resistance
    assert np.allclose([v["c"], v["d"], v["i(v1)"]], [TOTAL * 2000, TOTAL * 2000, -TOTAL], rtol=1e-12)
    assert np.allclose([v[f"i(r{k})"] for k in range(1, 6)], shares, rtol=1e-9)


@each("text, current", [
    ("V1 a 0 5\nV2 a 0 5\nR1 a 0 1", -2.5), ("V1 a 0 5\nV2 0 a -5\nR1 a 0 1", -2.5), ("V1 b 0 3.3\nV2 a 0 1.1\nV3 b a 2.2\nR1 b 0 1", -2.2), ("V1 a 0 1\nR0 a a 0\nR1 a 0 1", -1)])
@pytest.mark.filterwarnings("ignore:.*form a loop")
def test_sources_that_fit(text, current, deck):
    c = deck(text)
    assert c.op()["i(v1)"] == pytest.approx(current, rel=1e-12) and c.transient(1, 2)["i(v1)"][-1] == pytest.approx(current, rel=1e-12)


@each("text, call, words", [
    ("V1 a 0 5\nR0 a 0 0", lambda c: c.op(), "deck.sp:3: r0 and v1 form a loop of voltage sources that differ by 5 V"), ("V1 a 0 5\nV2 a 0 5", lambda c: c.dc("v2", 4, 6, 1), "differ by 1 V"), ("V1 a a 1\nR1 a 0 1", lambda c: c.op(), "both ends of v1 are the same node, a"),
    ("V1 a 0 5\nV2 a 0 5", lambda c: c.with_values({"v1": 6}).op(), "differ by 1 V"), ("V1 a 0 5\nV2 a 0 5", lambda c: c.with_values({"v1": 6}).transient(1, 2), "differ over time"),
    ("V1 a 0 SIN(0 1 1)\nV2 a 0 SIN(0 1 2)", lambda c: c.transient(0.01, 1), "differ over time"), ("V1 a 0 5 AC 1\nV2 a 0 5", lambda c: c.ac("lin", 1, 1, 1), "differ by 1 V"),
    ("V1 a 0 1\nL1 a 0 1m", lambda c: c.op(), "l1 and v1 form a loop of voltage sources and inductors")])
@pytest.mark.filterwarnings("ignore:.*form a loop")
def test_sources_that_differ(text, call, words, deck):
    with pytest.raises(ms.SingularMatrixError, match=words):
        call(deck(text + "\nR9 a 0 1"))


@pytest.mark.filterwarnings("ignore:.*form a loop")
def test_loops_with_waveforms_devices_and_frequencies(deck):
    c = deck("V1 a 0 0 SIN(0 5 1k) AC 1\nV2 a 0 0 SIN(0 5 1k) AC 1\nR1 a b 0\nR2 b a 0\nR3 b c 100\nD1 c 0 dm\nC1 c 0 1n\n.model dm d")
    plain = deck("V1 a 0 0 SIN(0 5 1k) AC 1\nR1 a b 0\nR3 b c 100\nD1 c 0 dm\nC1 c 0 1n\n.model dm d")
    for call in (lambda c: c.transient(1e-5, 1e-3), lambda c: c.ac("dec", 2, 1, 1e6)):
        w, v = call(c), call(plain)
        assert np.allclose(w["c"], v["c"], rtol=1e-9, atol=1e-12) and np.allclose(2 * w["i(v1)"], v["i(v1)"], rtol=1e-9, atol=1e-12) and np.allclose(w["i(r1)"], -w["i(r2)"])


@pytest.mark.filterwarnings("ignore:.*form a loop")
def test_a_long_loop(deck):
    n = 300
    text = "".join(f"R{k} n{k} n{k + 1} 0\nQ{k} n{k} n{k + 1} 1\n".replace("Q", "RB") for k in range(n))
    c = deck(f"V1 n0 0 1\n{text}RX n0 n{n} 0\nRL n{n} 0 1")
    for solver in ("lu", "cholesky"):
        v = c.op(solver=solver)
        assert v["i(rx)"] == pytest.approx(n / (n + 1), rel=1e-9) and v["i(r5)"] == pytest.approx(1 / (n + 1), rel=1e-9)
