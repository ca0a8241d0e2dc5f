"""Small signals need only the operating point of nonlinear devices. Undetermined voltages and currents are errors with names."""

import pathlib
import sys

import numpy as np
import pytest

import meshsolve as ms

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from decks import THERMAL

F = 1e6
S = 2j * np.pi * F
DIODE = ".model dm d(is=1e-14)"


def at(deck, text, frequency=F):
    return deck(text).ac("lin", 1, frequency, frequency)


@pytest.mark.parametrize("text, signal, value", [
    ("V1 a 0 AC 1\nC1 a b 1n\nC2 b 0 1n", "b", 0.5), ("I1 0 a AC 1\nC1 a 0 1n", "a", 1 / (S * 1e-9)), ("V1 a 0 AC 1\nL1 a 0 1m", "i(l1)", 1 / (S * 1e-3)),
    ("V1 a 0 AC 1\nR1 a b 50\nL1 b 0 10u\nL2 b 0 10u", "b", S * 5e-6 / (50 + S * 5e-6)),
    ("V1 a 0 AC 1\nC1 a b 1n\nC2 b c 1n\nC3 b 0 1n\nR1 c 0 50", "c", 1 / (2 + 3 / (50 * S * 1e-9))),
    ("V1 a 0 AC 1\nV2 b 0 0\nL1 a b 1u", "i(l1)", 1 / (S * 1e-6)), ("I1 0 a AC 1\nR1 a 0 3\nL1 a b 1u\nL2 b c 1u\nL3 c a 1u", "b", 3.0),
    ("I1 0 a AC 1\nC1 a 0 1n\nI2 0 a DC 5", "a", 1 / (S * 1e-9)), ("V1 a 0 AC 1\nC1 a b 1n\nE1 c 0 b 0 2\nR1 c 0 1\nC2 b 0 3n", "c", 0.5)])
def test_linear_circuits(text, signal, value, deck):
    assert at(deck, text)[signal][0] == pytest.approx(value, rel=1e-9)


def test_voltages_that_no_frequency_determines_are_named(deck):
    with pytest.raises(ms.SingularMatrixError, match="deck.sp:2: node a has no path to ground: only current sources"):
        at(deck, "I1 0 a AC 1\nR1 b 0 1")
    with pytest.raises(ms.SingularMatrixError, match="deck.sp:3: v2 and v1 form a loop of voltage sources"):
        at(deck, "V1 a 0 AC 1\nV2 a 0 1\nR1 a 0 1")


@pytest.mark.parametrize("text", ["I1 0 a AC 1\nL1 a 0 1m\nC1 a 0 1n", "V1 a 0 AC 1\nL1 a b 1m\nC1 b 0 1n"])
def test_errors_name_the_frequency_of_a_lossless_resonance(text, deck):
    with pytest.raises(ms.SingularMatrixError, match=r"deck.sp: .* singular at .*; at this frequency, 159154.9431 Hz, a resonance without losses"):
        at(deck, text, 1 / (2 * np.pi * 1e-6))
    assert abs(at(deck, text, 159e3)["a"][0]) > 0


def slope(deck, text, node):
    """The conductance of the diode at an operating point, with undetermined nodes in another part of the circuit."""
    return 1e-14 * np.exp(deck(text).op()[node] / 0.025865) / 0.025865


def test_diodes_in_a_circuit_with_undetermined_voltages(deck):
    plain = f"V1 a 0 0.7 AC 1\nR1 a b 100\nD1 b 0 dm\n{DIODE}"
    g = slope(deck, plain, "b")
    w = at(deck, plain + "\nC1 b c 1n\nC2 c 0 1n")
    assert w["b"][0] == pytest.approx(1 / (1 + 100 * (g + S * 0.5e-9)), rel=1e-4) and w["c"][0] == pytest.approx(w["b"][0] / 2, rel=1e-9)
    w = at(deck, plain + "\nV2 x 0 5\nL1 x 0 1m")           # in another part: a current that would grow without limit
    assert w["b"][0] == pytest.approx(1 / (1 + 100 * g), rel=1e-4)
    w = at(deck, plain + "\nL1 b e 1u\nL2 b e 2u\nR2 e 0 1k")
    g = slope(deck, plain + "\nR2 b 0 1k", "b")
    z = 1e3 + S * 2e-6 / 3
    assert w["b"][0] == pytest.approx(1 / (1 + 100 * (g + 1 / z)), rel=1e-4) and w["i(l1)"][0] == pytest.approx(2 * w["i(l2)"][0], rel=1e-9)


@pytest.mark.parametrize("text, words", [
    ("V1 a 0 0.7 AC 1\nC1 a c 1n\nC2 c 0 1n\nE1 e 0 c 0 1\nR1 e f 100\nD1 f 0 dm", "node c has no path for a direct current"),
    ("V1 a 0 0.7 AC 1\nL1 a b 1u\nL2 b 0 1u\nD1 b 0 dm", "l2 and l1 and v1 form a loop")])
def test_diodes_at_an_undetermined_voltage_are_an_error(text, words, deck):
    with pytest.raises(ms.SingularMatrixError, match=f"deck.sp:.: {words}.*nonlinear devices depend on it"):
        at(deck, f"{text}\n{DIODE}")


def test_an_operating_point_is_still_an_error(deck):
    for text in ("V1 a 0 1\nC1 a b 1n\nC2 b 0 1n", "V1 a 0 1\nR1 a b 1\nL1 b 0 1u\nL2 b 0 1u"):
        with pytest.raises(ms.SingularMatrixError, match="no path for a direct current|form a loop"):
            deck(text).op()


def test_transients_from_initial_states(deck):
    """Circuits without an operating point start from given states: with uic, or with .ic at nodes between capacitors."""
    w = deck("V1 a 0 SIN(0 1 1k)\nC1 a b 1n\nC2 b 0 1n").transient(1e-5, 2.5e-4, uic=True)
    assert np.allclose(w["b"], w["a"] / 2, atol=1e-6)
    w = deck("V1 a 0 SIN(0 1 1k)\nC1 a b 1n\nC2 b 0 1n\n.ic v(b)=0.3").transient(1e-5, 2.5e-4)
    assert np.allclose(w["b"], 0.3 + w["a"] / 2, atol=1e-6)
    w = deck("I1 0 a 1m\nC1 a 0 1u").transient(1e-5, 1e-3, uic=True)
    assert np.allclose(w["a"], 1e3 * w.time, atol=1e-6)
    w = deck("V1 a 0 2\nL1 a 0 1m").transient(1e-5, 1e-3, uic=True)
    assert np.allclose(w["i(l1)"], 2e3 * w.time, atol=1e-4)
    w = deck("V1 a 0 1\nR1 a b 1k\nL1 b 0 1m\nL2 b 0 3m").transient(1e-7, 1e-5, uic=True)
    assert np.allclose(w["i(l1)"], 3 * w["i(l2)"], rtol=1e-9) and w["i(l1)"][-1] == pytest.approx(0.75e-3, rel=1e-4)


@pytest.mark.native
def test_resonance(deck):
    w = deck("V1 in 0 AC 2 30\nR1 in a 10\nL1 a out 1m\nC1 out 0 1u").ac("lin", 201, 1e3, 1e4)
    s = 2j * np.pi * w.frequency
    assert np.allclose(w["out"], 2 * np.exp(1j * np.pi / 6) / (1 + s * 1e-6 * 10 + s**2 * 1e-9), rtol=1e-10)
    assert w.report.facts["refactorizations"] >= 200


def test_small_signals_of_a_current_source_and_octaves(deck):
    w = deck("I1 0 a AC 1m\nR1 a 0 1k\nC1 a 0 1u").ac("oct", 1, 100, 800, nodes=["a"])
    assert np.allclose(w.frequency, [100, 200, 400, 800]) and np.allclose(w["a"], 1 / (1 + 2j * np.pi * w.frequency * 1e-3))


def test_a_biased_diode(deck):
    c = deck("V1 a 0 DC 5 AC 1\nR1 a k 1k\nD1 k 0 dm\n.model dm d(is=1e-14 tt=10n)")
    g = 1e-14 * np.exp(c.op()["k"] / THERMAL) / THERMAL
    w = c.ac("dec", 1, 1, 1e8)
    assert np.allclose(w["k"], 1 / (1 + 1e3 * g * (1 + 2j * np.pi * w.frequency * 1e-8)), rtol=1e-6)


def test_a_sweep(deck):
    w = deck("V1 a 0 0\nR1 a b 1k\nR2 b 0 1k\nI1 0 b 0").dc("V1", 1, -1, -0.25)
    assert np.allclose(w.sweep, np.linspace(1, -1, 9)) and np.allclose(w["b"], w.sweep / 2)


def test_frequencies_over_more_than_the_range_of_doubles(deck):
    r = deck("V1 a 0 AC 1\nR1 a b 1k\nR2 b 0 1k").ac("dec", 1, 1e-200, 1e200)
    assert len(r.frequency) == 401 and np.allclose(r.frequency, 10.0 ** np.arange(-200, 201), rtol=1e-12, atol=0)
