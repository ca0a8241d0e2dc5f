"""Operating points, small signals and transients against formulas, and what is said where a circuit has no solution."""

import csv
import pathlib
import re
import sys
import time

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve.apps.circuit import results
from meshsolve.apps.circuit.devices import DEFAULTS, THERMAL, Diodes
from meshsolve.apps.circuit.newton import NoConvergence, Solver
from meshsolve.apps.circuit.sources import Exponentials, Lines, Pulses, Sines

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import decks

TAU = 1e-3
CHARGING = "V1 in 0 PULSE(0 1 0 1n 1n 1 2)\nR1 in out 1k\nC1 out 0 1u"


# ---- operating points -----------------------------------------------------------------------------------------------------


def dense_grid(n, seed):
    """A random network of conductances with a source at node 0, as a deck and as its node voltages by dense algebra."""
    rng = np.random.default_rng(seed)
    edges = [(i, j) for i in range(n) for j in range(i + 1, n) if j == i + 1 or rng.random() < 0.3]
    r = rng.uniform(1, 10, len(edges))
    G = np.diag(np.r_[np.zeros(n - 1), 0.1])
    for (i, j), x in zip(edges, r):
        G[[i, j], [i, j]] += 1 / x
        G[[i, j], [j, i]] -= 1 / x
    draw = rng.uniform(0, 1e-3, n)
    lines = [f"R{k} n{i} n{j} {float(x)!r}" for k, ((i, j), x) in enumerate(zip(edges, r))] + [f"I{k} n{k} 0 {float(x)!r}" for k, x in enumerate(draw)]
    inner = np.linalg.solve(G[1:, 1:], -draw[1:] - G[1:, 0] * 2.0)
    return "\n".join([*lines, f"Rg n{n - 1} 0 10", "V1 n0 0 2"]), np.r_[2.0, inner]


@pytest.mark.parametrize("seed", range(4))
def test_resistive_networks(seed, deck):
    text, expected = dense_grid(9, seed)
    v = deck(text).op()
    assert np.allclose([v[f"N{k}"] for k in range(9)], expected, atol=1e-12)
    assert np.allclose(v.voltages, [v[name] for name in v.nodes])


def test_look_up(deck):
    v = deck("V1 In 0 10\nR1 in OUT 1k\nR2 out 0 3k\nL1 out x 1\nR3 x 0 1meg").op()
    assert v["in"] == v["IN"] == v["v(In)"] == pytest.approx(10) and v["0"] == v["gnd"] == 0
    assert v["v(in, out)"] == pytest.approx(10 - v["out"]) and v["i(v1)"] == pytest.approx(-(10 - v["out"]) / 1e3)
    assert v["i(L1)"] == pytest.approx(v["x"] / 1e6) and "in" in v and "nowhere" not in v
    with pytest.raises(ms.InvalidInputError, match="no node 'oout': did you mean 'out'"):
        v["oout"]
    for bad in ("i(r1)", "i(v2)", 3, "", "v()", "v(a,b,c)"):
        with pytest.raises(ms.InvalidInputError):
            v[bad]


def test_names_outside_ascii(deck, tmp_path):
    """Letters of ASCII are lower-cased, all others are kept as they are."""
    circuit = deck("V1 ÄB 0 10 AC 1\nRß Äb \u0130 1k\nR2 \u0130 0 1k\n.print op v(Äb)\n.print dc v(Äb,\u0130)\n.dc V1 0 2 1\n.nodeset v(Äb)=1")
    v = circuit.op()
    assert circuit.nodes == ["Äb", "\u0130"] and v["ÄB"] == v["v(Äb)"] == 10 and v["\u0130"] == 5 and "äb" not in v
    v.to_csv(tmp_path / "op.csv")
    assert (tmp_path / "op.csv").read_text(encoding="utf-8").splitlines()[1:] == ["v(Äb),10.0", "v(\u0130),5.0"]
    assert circuit.run("op")[1] == ["v(Äb)"] and circuit.run("dc")[0]["v(Äb,\u0130)"][-1] == 1
    circuit.ac("lin", 1, 1, 1).to_csv(tmp_path / "ac.csv", ["vm(ÄB)", "vdb(\u0130)"])
    assert (tmp_path / "ac.csv").read_text(encoding="utf-8").startswith("frequency,vm(ÄB),vdb(\u0130)")


@pytest.mark.native
@pytest.mark.parametrize("ohm", [1e-7, 1e-9, 1e-12, 1e-20, -1e-15])
def test_resistances_far_smaller_than_others(ohm, deck):
    """Their conductances left the others of a node no digits: 40 ppm were lost at 1 nOhm, and less was called singular."""
    v = deck(f"V1 in 0 1\nR1 in a 1k\nR2 a b {ohm}\nR3 b 0 1k\nR4 b c {ohm}\nR5 c 0 1meg").op()
    assert np.allclose([v["a"], v["b"], v["c"]], 1 / (2 + 1e-3), rtol=1e-9) and np.isclose(v["i(v1)"], -(1 - v["b"]) / 1e3, rtol=1e-9)
    text = f"V1 in 0 PULSE(0 1 0 1n 1n 1 2) AC 1\nR1 in a 1k\nR2 a b {ohm}\nC1 b 0 1u"
    w, r = deck(text).transient(1e-5, 1e-3), deck(text).ac("dec", 3, 1, 1e4)
    assert np.abs(w["b"] - (1 - np.exp(-w.time / TAU))).max() < 1e-3
    assert np.allclose(r["b"], 1 / (1 + 2j * np.pi * r.frequency * TAU), rtol=1e-9)
    d = ".model dm d(is=1e-12 rs={})"
    diodes = [deck(f"V1 in 0 1\nR1 in a 1k\nD1 a 0 dm\n{d.format(rs)}").op()["a"] for rs in (0, abs(ohm))]
    assert diodes[0] == pytest.approx(diodes[1], rel=1e-6)


def test_a_loop_of_tiny_resistances_is_named(deck):
    with pytest.raises(ms.SingularMatrixError, match=r"(current of|node inside) (r2|r3|r4|d1)|node [abc]"):
        deck("V1 in 0 1\nR1 in a 1k\nR2 a b 1e-18\nR3 b c 1e-18\nR4 c a 1e-18\nR5 b 0 1k").op()
    system = deck("R1 a b 1e-9\nV1 a 0 1\nR2 b 0 1k\nD1 b 0 dm\nD2 a 0 dm\nD3 a 0 hot\n.model dm d(rs=1)\n.model hot d(rs=1e-9)")._system
    assert [re.sub(r"[(].*/", "(", system.describe(k)) for k in range(system.n)] == [
        "node a", "node b", "a node inside d1 (deck.sp:5)", "a node inside d2 (deck.sp:6)", "a node inside d3 (deck.sp:7)",
        "the current of v1 (deck.sp:3)", "the current of r1 (deck.sp:2)", "a node inside d3 (deck.sp:7)"]


@pytest.mark.parametrize("volt", [-20, -1, 0, 0.3, 0.7, 5, 1000])
def test_a_diode_and_a_resistor(volt, deck):
    v = deck(f"V1 a 0 {volt}\nR1 a k 1k\nD1 k 0 dm 2\n.model dm d(is=1e-14 n=1.2)").op()

    def excess(x):
        return (volt - x) / 1e3 - 2e-14 * np.expm1(x / (1.2 * THERMAL)) - 1e-12 * x

    assert v["k"] == pytest.approx(scipy.optimize.brentq(excess, min(volt, 0) - 1, min(max(volt, 0), 2) + 1e-9, xtol=1e-14), rel=2e-3, abs=2e-6)


@pytest.mark.parametrize("volt", [5, 200, 1000, 1e4])
@pytest.mark.parametrize("anode, cathode", [("b", "c"), ("c", "b")])
def test_a_diode_between_nodes_that_stand_high(volt, anode, cathode, deck):
    """A thousandth of their voltages let the junction's be wrong by as much as doubles its current. Forward, and in breakdown at 3 V."""
    v = deck(f"V1 a 0 {volt}\nR1 a b 1\nD1 {anode} {cathode} dm\nR2 c 0 1\n.model dm d(is=1e-14 bv=3)").op()
    drop = v[anode] - v[cathode]
    offset = 3 - THERMAL * np.log(1e-3 / 1e-14)                 # where breakdown begins, so that 1 mA flow at 3 V
    current = 1e-14 * (np.expm1(drop / THERMAL) - np.exp(-(drop + offset) / THERMAL))
    assert abs(current) == pytest.approx(v["c"], rel=1e-3)


def test_many_diodes_need_stepping(deck):
    """A chain of diodes between two stiff sources, far from where Newton's method begins."""
    chain = "\n".join(f"D{k} n{k} n{k + 1} dm" for k in range(30))
    v = deck(f"V1 n0 0 25\n{chain}\nR1 n30 0 1\n.model dm d(is=1e-15)").op()
    drops = np.diff([v[f"n{k}"] for k in range(31)])
    assert np.ptp(drops) < 1e-3 and v["n30"] == pytest.approx(25 + drops.sum(), abs=1e-9) and v["n30"] > 0.05


@pytest.mark.parametrize("volt, ohm", [(10, 1), (100, 0.1), (400, 0.01)])
def test_diodes_in_series_that_open_and_close(volt, ohm, deck):
    """Conductances change by fifteen decades: scales of the first matrix do not fit the others."""
    text = f"V1 a 0 PULSE({volt} -{volt} 1u 1u 1u 3u 10u)\nR1 a c {ohm}\nD1 c x dm\nD2 x 0 dm\n.model dm d(is=1e-12)"
    w = deck(text).transient(1e-7, 1e-5)
    closed, opened = w["a"] > volt / 2, w["a"] < 0
    assert np.allclose((volt - w["c"][0]) / ohm, 1e-12 * np.exp(w["x"][0] / THERMAL), rtol=1e-2)
    assert np.allclose(w["c"][closed], 2 * w["x"][closed], rtol=1e-3) and np.allclose(w["c"][opened], w["a"][opened], rtol=1e-6)


@pytest.mark.parametrize("text, index, words", [
    ("C1 qq7 b 1p\nV1 c 0 1\nR1 c 0 1", 0, "deck.sp:2: nodes qq7, b have no path for a direct current to ground"),
    ("V1 a 0 1\nR1 a 0 1\nI1 0 b 1\nC1 b 0 1", 1, "deck.sp:4: node b has no path"),
    ("V1 a 0 1\nE1 o 0 a nn 2\nR1 o 0 1", None, "deck.sp:3: node nn has no path"),
    ("V1 a 0 1\nR1 a 0 1\nR2 b c 1\nV2 b c 1", None, "nodes b, c have no path"),
    ("V1 a 0 1\nV2 a 0 1\nR1 a 0 1", None, "v2 and v1 form a loop of voltage sources"),
    ("V1 a 0 1\nL1 a 0 1u\nR1 a 0 1", None, "l1 and v1 form a loop of voltage sources and inductors"),
    ("V1 a 0 1\nR1 a 0 1\nV3 a a 1", None, "deck.sp:4: both ends of v3 are the same node, a: its current is not determined"),
    ("V1 a 0 1\nR1 a 0 1\nL1 0 gnd 1", -1, "both ends of l1 are the same node, ground"),
    ("V1 a 0 1\nL1 a b 1\nV2 b c 1\nR1 a 0 1\nV3 c 0 1\nV4 d 0 1\nR2 d 0 1", None, "v3 and v2 and l1 and v1 form a loop"),
    ("V1 a 0 1\nR1 a 0 1\nG1 b 0 a 0 1\nC1 b 0 1u", 1, "singular, which shows at node b"),
    ("V1 a 0 1\nR1 a b 1\nR2 b 0 1\nE1 b 0 b 0 1", None, "singular")])
def test_circuits_without_a_solution(text, index, words, deck):
    with pytest.raises(ms.SingularMatrixError) as caught:
        deck(text).op()
    assert words in str(caught.value)
    if index is not None:
        assert caught.value.index == index


def test_no_ground_and_no_element(deck):
    with pytest.raises(ms.InvalidInputError, match="no element is connected to ground"):
        deck("V1 a b 1\nR1 a b 1").op()
    with pytest.raises(ms.InvalidInputError, match="no element between two nodes"):
        deck("R1 0 gnd 1").op()


@pytest.mark.parametrize("text, words", [
    ("I1 0 a 1e300\nR1 a 0 1e300", "node a"), ("V1 a 0 1e300\nE1 b 0 a 0 1e300\nR1 a b 1", "node [ab]"),
    ("V1 a 0 1\nR1 a 0 1\nG1 b 0 a 0 1e300\nR2 b 0 1e300", "node b")])
@pytest.mark.filterwarnings("ignore")
def test_values_that_leave_the_range_are_named(text, words, deck):
    """They came back as infinity and NaN, in tables as well."""
    with pytest.raises(ms.InvalidInputError, match=f"deck.sp: values are too large or too small to compute with, which shows at {words}"):
        deck(text).op()


@pytest.mark.filterwarnings("ignore")
def test_waveforms_and_frequencies_that_leave_the_range_are_named(deck):
    w = deck("V1 a 0 SIN(0 1 1k 0 -1e9) AC 1\nR1 a b 1\nC1 b 0 1\nD1 0 b dm\n.model dm d")
    for call in (lambda: w.ac("lin", 1, 1e308, 1e308), lambda: deck("V1 a 0 SIN(0 1 1k 0 -1e9)\nR1 a 0 1").transient(1e-6, 1e-3)):
        with pytest.raises(ms.InvalidInputError, match="deck.sp: values are too large or too small"):
            call()
    with pytest.raises(ms.MeshsolveError, match="deck.sp: no operating point"):
        deck("V1 a 0 1e308\nR1 a b 1e-9\nD1 b 0 dm\n.model dm d").op()


def test_a_gyrator_needs_no_resistor(deck):
    """Two controlled current sources: no resistor anywhere, yet one solution."""
    v = deck("I1 0 a 1m\nG1 a 0 b 0 2m\nG2 0 b a 0 2m\nI2 0 b 2m").op()
    assert (v["b"], v["a"]) == (pytest.approx(0.5), pytest.approx(-1.0))


# ---- transients -----------------------------------------------------------------------------------------------------------


@pytest.mark.native
@pytest.mark.parametrize("method, error", [("trap", 2e-5), ("be", 2e-3)])
def test_charging(method, error, deck):
    w = deck(CHARGING).transient(1e-5, 5e-3, method=method)
    assert np.allclose(w.time, np.arange(501) * 1e-5) and w.time[-1] == 5e-3
    assert np.abs(w["out"] - (1 - np.exp(-w.time / TAU))).max() < error


@pytest.mark.parametrize("method, order", [("trap", 2), ("be", 1)])
def test_fixed_steps_converge_with_their_order(method, order, deck):
    circuit, errors = deck("V1 in 0 SIN(0 1 500)\nR1 in a 10\nL1 a out 10m\nC1 out 0 1u"), []
    exact = circuit.transient(2e-7, 2e-3, fixed_step=True)["out"][-1]
    for step in (8e-6, 4e-6, 2e-6):
        errors.append(abs(circuit.transient(step, 2e-3, method=method, fixed_step=True)["out"][-1] - exact))
    assert np.allclose(np.log2(np.divide(errors[:-1], errors[1:])), order, atol=0.3)


def test_a_linear_circuit_with_a_constant_step_is_factored_once(deck):
    w = deck(decks.power_grid(8)).transient(1e-10, 2e-8, fixed_step=True)
    facts = w.report.as_dict()
    assert facts["analyses"] == 1 and facts.get("refactorizations", 0) == 0 and facts["time_steps"] == 200     # the one at rest
    assert w.report.seconds["steps"] > 0


def test_corners_on_the_grid_need_no_other_step(deck):
    """Backward Euler steps of half the length share the matrix of the trapezoidal step."""
    facts = deck(".options reltol=1\n" + decks.power_grid(8)).transient(1e-10, 2e-8).report.as_dict()
    assert facts["analyses"] == 1 and facts.get("refactorizations", 0) == 0


def test_error_control_refines_where_it_matters(deck):
    text = "V1 in 0 PULSE(0 1 50u 1n 1n 1 2)\nR1 in out 10\nC1 out 0 1u"
    exact = lambda t: np.where(t > 50e-6, 1 - np.exp(-np.maximum(t - 50e-6, 0) / 1e-5), 0)
    errors = {}
    for reltol in (1e-2, 1e-4):
        w = deck(f".options reltol={reltol}\n{text}").transient(2e-5, 2e-4)
        errors[reltol] = np.abs(w["out"] - exact(w.time)).max(), w.report.facts["time_steps"]
    assert errors[1e-4][0] < 5e-4 < errors[1e-2][0] < 5e-2 and errors[1e-2][1] < errors[1e-4][1]


@pytest.mark.parametrize("method", ["trap", "be"])
@pytest.mark.parametrize("periods", [0.5, 1, 3])
def test_sines_with_whole_periods_in_a_step(periods, method, deck):
    """States a whole period apart are all 0: no error would be seen."""
    w = deck(f"V1 a 0 SIN(0 1 {periods * 1e4})\nR1 a b 1k\nC1 b 0 10n").transient(1e-4, 5e-4, method=method)
    omega = 2 * np.pi * periods * 1e4
    response = 1 / (1 + 1j * omega * 1e-5)
    assert np.abs(w["b"] - (response * np.exp(1j * omega * w.time)).imag + response.imag * np.exp(-w.time / 1e-5)).max() < 0.01


def test_only_sines_that_swing_shorten_the_steps(deck):
    steps = {}
    for name, shape in {"late": "1meg 0.9m", "faded": "1meg 0 1e6", "none": "1"}.items():
        facts = deck(f"V1 a 0 SIN(0 1 {shape})\nR1 a b 1k\nC1 b 0 10n").transient(1e-5, 1e-3).report.facts
        steps[name] = facts["time_steps"]
    assert steps["none"] < 150 and 1600 < steps["late"] < 3200 and 320 < steps["faded"] < 1600
    assert deck("V1 a 0 SIN(0 1 1meg)\nR1 a 0 1k").transient(1e-5, 1e-4).report.facts["time_steps"] == 10      # nothing is stored


def test_a_sine_far_too_fast_for_the_steps_is_told(deck):
    with pytest.raises(ms.MeshsolveError, match="at time 0.001 steps of 6.25e-14 are needed, too short relative to the longest, 0.001"):
        deck("V1 a 0 SIN(0 1 1t 1m)\nR1 a b 1k\nC1 b 0 10n").transient(1e-3, 1e-2)


STEP = "V1 in 0 PULSE(0 1 0 1n 1n 1 2)\nR1 in a 10\nL1 a out 1m\nC1 out 0 1u"


@pytest.mark.parametrize("method", ["trap", "be"])
@pytest.mark.parametrize("tstep", [2e-3, 1e-2, 0.1, 1, 1e9])
def test_a_step_above_the_length_of_the_run_counts_as_that(tstep, method, deck):
    """Times below 1e-9 of tstep counted as none: the step became too small from 10 ms on, and 1e9 gave the state at 0 only."""
    circuit = deck(STEP)
    w, expected = circuit.transient(tstep, 1e-3, method=method), circuit.transient(1e-3, 1e-3, method=method)
    assert w.time.tolist() == [0, 1e-3] and w["out"].tolist() == expected["out"].tolist()
    a, b = 5e3, np.sqrt(1e9 - 25e6)
    assert w["out"][-1] == pytest.approx(1 - np.exp(-a * 1e-3) * (np.cos(b * 1e-3) + a / b * np.sin(b * 1e-3)), abs=0.01)
    assert circuit.transient(tstep, 1e-3, uic=True, method=method)["out"][-1] == pytest.approx(expected["out"][-1], abs=1e-9)
    fixed = circuit.transient(tstep, 1e-3, method=method, fixed_step=True)
    assert fixed.report.facts["time_steps"] == 1 and np.isfinite(fixed["out"]).all()


@pytest.mark.parametrize("tstep, volt", [(10e-3, 0.1), (0.1, 0.01), (1, 1e-3)])
def test_edges_without_a_length_take_the_step_that_was_given(tstep, volt, deck):
    """As in ngspice: tran 1 1m of PULSE(0 1) ends at a thousandth of the rise."""
    assert deck("V1 a 0 PULSE(0 1)\nR1 a 0 1k\nC1 a 0 1p").transient(tstep, 1e-3)["a"][-1] == pytest.approx(volt, rel=1e-9)


@pytest.mark.parametrize("tstep, tstop", [(1e-2, 1e-2), (1e-2, 1), (0.1, 0.1), (1, 1)])
@pytest.mark.parametrize("method", ["trap", "be"])
def test_a_long_run_of_a_circuit_that_begins_fast(method, tstep, tstop, deck):
    """The current begins as t^2, and is above the tolerance before a step of 1e-9 of tstep ends: that was called too small."""
    w = deck(STEP).transient(tstep, tstop, method=method)
    assert w["out"][1:] == pytest.approx(np.ones(len(w.time) - 1), abs=1e-3)


def test_a_start_after_the_end_is_told(deck):
    circuit = deck(STEP)
    with pytest.raises(ms.InvalidInputError, match="tstart, 0.002, is after tstop, 0.001"):
        circuit.transient(1e-5, 1e-3, tstart=2e-3)
    with pytest.raises(ms.InvalidInputError, match="tstart, 0.002, is after tstop, 0.001"):
        circuit.transient(1e7, 1e-3, tstart=2e-3)
    assert circuit.transient(1e-5, 1e-3, tstart=1e-3).time.tolist() == [1e-3]


def test_a_step_that_became_too_small_says_what_helps(deck):
    with pytest.raises(ms.MeshsolveError, match="too small at time .*: .* a shorter tstep, or a larger reltol"):
        deck(f"{STEP}\n.options reltol=1e-9 abstol=1e-30 vntol=1e-30").transient(1, 1)


def test_the_longest_step_is_a_fiftieth_of_the_time(deck):
    circuit = deck(CHARGING)
    assert 50 <= circuit.transient(1e-3, 1e-3).report.facts["time_steps"] < circuit.transient(1e-3, 1e-3, tmax=5e-6).report.facts["time_steps"]
    late = circuit.transient(1e-3, 2e-3, tstart=1.9e-3).report.facts["time_steps"]
    assert late >= 2e-3 / (1e-4 / 50)


def test_initial_conditions(deck):
    t = np.arange(101) * 1e-5
    decay = np.exp(-t / TAU)
    assert np.abs(deck("R1 out 0 1k\nC1 out 0 1u ic=2").transient(1e-5, 1e-3, uic=True)["out"] - 2 * decay).max() < 1e-4
    assert np.abs(deck("R1 out 0 1k\nC1 out 0 1u\n.ic V(OUT)=2").transient(1e-5, 1e-3, uic=True)["out"] - 2 * decay).max() < 1e-4
    assert np.abs(deck("R1 out 0 1k\nC1 out 0 1u\n.ic v(out) = 2").transient(1e-5, 1e-3)["out"] - 2 * decay).max() < 1e-4
    w = deck("R1 out 0 1\nL1 out 0 1m ic=3").transient(1e-5, 1e-3, uic=True)
    assert np.abs(w["i(l1)"] - 3 * decay).max() < 1e-3 and w["out"][1] == pytest.approx(-3 * decay[1], rel=1e-3)


@pytest.mark.parametrize("series", ["", " rs=10"])
@pytest.mark.parametrize("element, line", [("D1 out 0 dm", ".ic v(out)=-2"), ("D1 out 0 dm ic=-2", ""), ("D1 out 0 dm ic=-2", ".ic v(out)=7"), ("D1 x out dm\nV1 x 0 1", ".ic v(out)=3 v(x)=1")])
def test_initial_voltages_of_junctions(element, line, series, deck):
    """The charges of junctions began as those of 0 V, whatever the deck said."""
    w = deck(f"R1 out {'x' if 'V1' in element else 0} 1k\n{element}\n{line}\n.model dm d(is=1e-14 cjo=1u m=0{series})").transient(1e-5, 1e-3, uic=True)
    v = 1 - w["out"] if "V1" in element else w["out"]
    tau = TAU * (1.01 if series else 1)
    assert np.abs(v + 2 * np.exp(-w.time / tau) / (1.01 if series else 1))[1:].max() < 1e-3


@pytest.mark.parametrize("model, tolerance", [("is=2.7e-10 n=1.76 tt=0.6n", 1e-3), ("is=2.7e-10 n=1.76 tt=0.6n", 1e-6), ("is=1e-15 cjo=2f", 1e-3)])
@pytest.mark.parametrize("extra", ["", "R3 in c 1k\nC3 c 0 1n\nV3 d 0 SIN(0 1 5meg)\nR4 d e 1k\nC4 e 0 100p"])
@pytest.mark.parametrize("fixed", [False, True])
def test_a_junction_at_rest_does_not_ring(model, tolerance, extra, fixed, deck):
    """A charge that hardly depends on the voltage, or is below chgtol, let the trapezoidal rule ring by volts, to the end of the run."""
    w = deck(f"V1 in 0 PULSE(1 -5 1n 1p 1p 1u 2u)\nR1 in out 8.7k\nD1 out 0 dm\n.model dm d({model})\nR2 in b 1k\nC2 b 0 1f\n{extra}\n.options reltol={tolerance}").transient(
        1e-8, 1e-6, fixed_step=fixed)
    assert np.abs(w["out"][6:] + 5).max() < 1e-2 and w["out"][0] == pytest.approx(0.55, abs=0.05 if "tt" in model else 0.3)


def test_charging_currents_that_ring_end_where_no_damped_step_is_exact_enough(deck):
    """A sine elsewhere keeps the steps too long for backward Euler: the slopes of the charge are smoothed instead."""
    for reltol in (1e-3, 1e-5, 1e-6):
        w = deck(f"C4 0 c 20n\nD4 n1 c d1 2.9\nD2 0 c d0 0.6\nD5 out c d1 off\nI1 out 0 0.5175m\nD3 c 0 d0\nR1 n1 0 17\nR2 0 out 8.7k\nV1 n1 0 4.677\nR3 c n1 13.8\n"
                 "I2 c 0 SIN(0.37m -1.93m 1500k)\n.model d0 d(cjo=805p m=0.385 n=1.3 vj=0.303 is=1.47n)\n.model d1 d(is=268p rs=0.12 tt=0.6n n=1.761)\n"
                 f".options reltol={reltol} vntol=1e-8 abstol=1e-13").transient(4.22e-8, 4.22e-6, uic=True)
        assert np.abs(w["out"][1:] + 0.5175e-3 * 8.7e3).max() < 1e-2


@pytest.mark.parametrize("load", ["C2 out 0 1p", "R9 out x 1\nC2 x 0 1p", "C2 out x 1p\nC3 x 0 3p\nR9 x 0 1g"])
@pytest.mark.parametrize("source, slope", [("PULSE(0 1 1.03u 1u 1u 3u 10u)", lambda t: 1e6 * (((t > 1.03e-6) & (t < 2.03e-6)) * 1.0 - ((t > 5.03e-6) & (t < 6.03e-6)))), ("SIN(0 1 100k)", lambda t: 2e5 * np.pi * np.cos(2e5 * np.pi * t))])
def test_a_capacitor_that_follows_a_slope_jumps_with_it(source, slope, load, deck):
    """The output of a differentiator jumps at the corners of its input, in a step of any length."""
    w = deck(f"V1 in 0 {source}\nC1 in s 1n\nVs s 0 0\nH1 out 0 Vs 1k\n{load}").transient(1e-7, 1e-5)
    assert np.abs(w["out"] - 1e-6 * slope(w.time))[1:].max() < 5e-3 and w.report.facts["time_steps"] < 1000


def test_initial_states_beside_capacitances_that_leave_resistors_no_digits(deck):
    """In the very short step that the initial states are found with, b and a were one node, and that had no conductance."""
    w = deck("L1 0 a 1\nR1 a b 42k\nR2 c a 1k\nC1 b a 180n ic=1\nR3 c 0 1g\nI1 0 a 1m").transient(2e-7, 4.5e-5, uic=True)
    assert np.allclose((w["b"] - w["a"])[1:], np.exp(-w.time[1:] / (42e3 * 180e-9)), rtol=1e-4)
    assert np.isfinite(w["a"]).all()


def test_voltages_that_grow_beyond_all_numbers_end_in_an_error(deck, recwarn):
    with pytest.raises(ms.MeshsolveError, match="deck.sp: "):
        deck("I1 0 a 1\nC1 a 0 1p\nG1 0 a a 0 1\nR1 a 0 1k\nD1 b 0 dm\nR2 a b 1k\n.model dm d(cjo=1p)\n.options reltol=0.5").transient(1e-9, 1e-6, uic=True)
    assert not len(recwarn)


def test_initial_states_that_a_source_overrules(deck):
    """A supply with a capacitor across it, and a current source in series with an inductor, which begin elsewhere without ic=."""
    w = deck("V1 s 0 5\nC0 s 0 1n\nR1 s out 1k\nC1 out 0 1u").transient(1e-5, 1e-3, uic=True)
    assert np.abs(w["out"] - 5 * (1 - np.exp(-w.time / TAU))).max() < 5e-4 and np.allclose(w["s"], 5, rtol=1e-9)
    w = deck("I1 0 a 2\nL1 a b 1m\nR1 b 0 3\nC1 b 0 1u").transient(1e-7, 2e-5, uic=True)
    assert np.abs(w["b"] - 6 * (1 - np.exp(-w.time / 3e-6))).max() < 1e-2
    w = deck("V1 s 0 3\nC1 s m 2u ic=1\nC2 m 0 1u\nR1 m 0 1").transient(1e-7, 2e-5, uic=True)    # they share 2 V by their sizes
    assert np.abs(w["m"] - 4 / 3 * np.exp(-w.time / 3e-6)).max() < 2e-3


@pytest.mark.parametrize("method", ["trap", "be"])
@pytest.mark.parametrize("source, uic", [("1", True), ("PWL(0 0 1u 0 1u 1)", False)])
def test_slopes_that_jump(source, uic, method, deck):
    """The slope from before the jump made the error of backward Euler too large for any step."""
    w = deck(f"V1 a 0 {source}\nR1 a b 1\nL1 b 0 1u\n.options reltol=1e-4").transient(1e-7, 5e-6, uic=uic, method=method)
    exact = -np.expm1(-np.maximum(w.time - (0 if uic else 1e-6), 0) / 1e-6)
    assert np.abs(w["i(l1)"] - exact).max() < (2e-3 if method == "trap" else 2e-2)


@pytest.mark.parametrize("failures, words", [(1, None), (9, "deck.sp: nothing follows from the initial states: too many steps")])
def test_initial_states_from_which_newton_does_not_converge(failures, words, deck, monkeypatch):
    """Under tight tolerances the rounding of charges, over a very short step, was a current that never settled."""
    newton, calls = Solver.newton, []

    def failing(*arguments, **named):
        calls.append(1)
        if len(calls) <= failures:
            raise NoConvergence("too many steps")
        return newton(*arguments, **named)

    monkeypatch.setattr(Solver, "newton", failing)
    circuit = deck("V1 a 0 1\nR1 a b 1k\nD1 b 0 dm\nC1 b 0 1n ic=0.3\n.model dm d(cjo=1p)")
    if words is None:
        assert circuit.transient(1e-7, 1e-5, uic=True)["b"][0] == pytest.approx(0.3, abs=1e-3)
    else:
        with pytest.raises(ms.MeshsolveError, match=words):
            circuit.transient(1e-7, 1e-5, uic=True)


def test_a_node_guess_picks_the_state_of_a_bistable_circuit(deck):
    """A negative resistance in parallel with a diode has several operating points."""
    text = "I1 0 a 0\nG1 a 0 a 0 -1m\nD1 a 0 dm\nD2 0 a dm\nR1 a 0 1meg\n.model dm d(is=1e-14)\n"
    up, down = deck(text + ".nodeset v(a)=0.8").op()["a"], deck(text + ".nodeset v(a)=-0.8").op()["a"]
    assert up > 0.5 and down == pytest.approx(-up, rel=1e-3)
    for volt, found in ((0.8, up), (-0.8, down)):           # also at the first point of a sweep, which the others follow
        w = deck(text + f".nodeset v(a)={volt}").dc("I1", 0, 1e-5, 1e-6)
        assert w["a"][0] == pytest.approx(found, rel=1e-3) and np.ptp(w["a"]) < 0.01


def test_what_is_kept(deck):
    circuit = deck(CHARGING)
    w = circuit.transient(1e-4, 1e-3, nodes=["OUT", "i(v1)", "0"], tstart=5e-4)
    assert w.time[0] == pytest.approx(5e-4) and len(w.time) == len(w["out"]) == 6 and "out" in w and "in" not in w and np.all(w["gnd"] == 0)
    with pytest.raises(ms.InvalidInputError, match="'in' was not kept"):
        w["in"]
    with pytest.raises(ms.InvalidInputError, match="not one string"):
        circuit.transient(1e-4, 1e-3, nodes="out")
    odd = circuit.transient(3e-4, 1e-3)
    assert np.allclose(odd.time, [0, 3e-4, 6e-4, 9e-4, 1e-3])
    short = circuit.transient(1e-3, 3e-3, tmax=1e-5)
    assert short.report.facts["time_steps"] >= 300 and np.allclose(short["out"], 1 - np.exp(-short.time / TAU), atol=1e-4)


@pytest.mark.parametrize("call, words", [
    (lambda c: c.transient(0, 1), "tstep has to be a finite number above 0"), (lambda c: c.transient(1e-3, -1), "tstop"),
    (lambda c: c.transient(1e-3, 1, method="gear"), "method has to be one of"), (lambda c: c.transient(1e-12, 1e3), "a larger tstep"),
    (lambda c: c.dc("v1", 0, 1, 1e-12), "a larger step"), (lambda c: c.dc("v1", 0, 1e300, 1e-300), "a larger step"),
    (lambda c: c.ac("dec", 2**31 - 1, 1, 1e9), "fewer are needed"), (lambda c: c.ac("lin", 2**31 - 1, 1, 1e9), "fewer are needed"),
    (lambda c: c.ac("dec", 10, 1e-300, 1e300), "fewer are needed"),
    (lambda c: c.transient(1e-3, 1, nodes=["zz"]), "there is no node 'zz'"), (lambda c: c.ac("dec", 0, 1, 10), "points has to be"),
    (lambda c: c.ac("log", 1, 1, 10), "spacing has to be one of"), (lambda c: c.ac("dec", 1, 10, 1), "at least fstart"),
    (lambda c: c.ac("dec", 1, 0, 1), "fstart has to be"), (lambda c: c.dc("v9", 0, 1, 0.1), "no source 'v9'"),
    (lambda c: c.dc("v1", 0, 1, -0.1), "do not lead"), (lambda c: c.run("noise"), "kind has to be one of"), (lambda c: c.run("ac"), "no .ac line")])
def test_arguments(call, words, deck):
    with pytest.raises(ms.InvalidInputError, match=words):
        call(deck(CHARGING))


def test_results_that_do_not_fit_into_memory(deck, monkeypatch):
    from meshsolve import memory

    monkeypatch.setattr(memory, "NEGLIGIBLE", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(ms.OutOfMemoryError, match="nodes= names those to keep"):
        deck(CHARGING).transient(1e-6, 1e-3)


# ---- small signals and sweeps ------------------------------------------------------------------------------------------------


@pytest.mark.native
def test_resonance(deck):
    w = deck("V1 in 0 AC 2 30\nR1 in a 10\nL1 a out 1m\nC1 out 0 1u").ac("lin", 201, 1e3, 1e4)
    s = 2j * np.pi * w.frequency
    assert np.allclose(w["out"], 2 * np.exp(1j * np.pi / 6) / (1 + s * 1e-6 * 10 + s**2 * 1e-9), rtol=1e-10)
    assert w.report.facts["analyses"] == 1 and w.report.facts["refactorizations"] == 200


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


# ---- the deck's own analyses, tables and pictures ---------------------------------------------------------------------------


DECK = f"""{CHARGING.replace("V1 in 0", "V1 in 0 AC 1")}
.tran 0.1m 1m
.op
.dc v1 0 1 0.5
.ac dec 5 10 1k
.print tran v(out) v(in,out) i(v1)
.print ac vm(out) vp(out) vdb(out) v(out)
.options reltol=1e-5 method=gear acct nopage
.width out=80
"""


def table(path):
    with open(path) as f:
        rows = list(csv.reader(f))
    return rows[0], np.array(rows[1:])


def test_the_deck_runs(deck, tmp_path):
    with pytest.warns(ms.MeshsolveWarning, match="method=gear"):
        circuit = deck(DECK)
    assert [a.kind for a in circuit.analyses] == ["tran", "op", "dc", "ac"]
    for kind, head in {None: ["time", "v(out)", "v(in,out)", "i(v1)"], "op": ["name", "value"], "dc": ["sweep", "v(in)", "v(out)"],
                       "ac": ["frequency", "vm(out)", "vp(out)", "vdb(out)", "vr(out)", "vi(out)"]}.items():
        result, names = circuit.run(kind)
        result.to_csv(tmp_path / "out.csv", names)
        result.plot(tmp_path / "out.png", names, title="test")
        got, cells = table(tmp_path / "out.csv")
        assert got == head and (tmp_path / "out.png").read_bytes()[:4] == b"\x89PNG"
        if kind is None:
            assert np.allclose(cells[:, 1].astype(float), result["out"], rtol=1e-9) and len(cells) == 11
        if kind == "ac":
            z = 1 / (1 + 2j * np.pi * cells[:, 0].astype(float) * TAU)
            assert np.allclose(cells[:, 1:].astype(float).T, [np.abs(z), np.degrees(np.angle(z)), 20 * np.log10(np.abs(z)), z.real, z.imag])


@pytest.mark.parametrize("line, words", [
    (".tran 1p 1k", "1e+15 steps from 0 to tstop"), (".tran 1e-310 1e-309", "between 1e-60 and 1e+60 s"), (".tran 1e300 1e301", "between 1e-60"),
    (".ac lin 1e18 1 10", "1e+18 points: fewer"), (".dc v1 0 1 1e-300", "1e+300 points of a sweep"),
    (".foo", "not supported: .foo lines: 1, the first is '.foo' in "), (".tran 1 x", "the end of .tran 'x' is not a number"), (".tran 2 1", "end that is not before"),
    (".ac dec 10 0 1", "positive and ascend"), (".ac log 1 1 2", "needs dec, oct or lin"), (".dc v1 0 1", "needs a source"), (".dc v1 0 1 -1", "in steps of -1"),
    (".ic v(out)", "is not v(node)=value"),
    (".ic v(zz)=1", "no node 'zz'"), (".nodeset v(out)=1 v(zz)=1", "no node 'zz'"), (".nodeset v(out)=q", "'q' is not a number"), (".temp 20 85", ".temp takes one temperature"), (".temp -300", "out of range"), (".options tnom=1e9", "out of range"), (".ic(v(out)=1)", "is not v(node)=value"), (".options reltol=0", "reltol has to be positive"),
    (".opt gmin 1e-3", "'gmin' needs a value: gmin=..."), (".options reltol=", "'reltol' has no value"),
    (".options method", "'method' needs a value"), (".options vntol=x", "vntol 'x' is not a number")])
def test_bad_control_lines(line, words, deck):
    with pytest.raises(ms.InvalidInputError) as caught:
        deck(f"{CHARGING}\n{line}")
    assert words in str(caught.value) and "deck.sp:5: " in str(caught.value)


def test_options_that_are_obeyed_and_those_that_change_nothing(deck):
    circuit = deck(f"{CHARGING}\n.options post=2 acct, reltol=1e-5 itl2=50 list\n+ chgtol = 1e-15 temp=27 tnom=27 method=euler\n.opti nopage\n.temp 27")
    options = circuit._deck.options
    assert (options.reltol, options.chgtol, options.method, options.vntol) == (1e-5, 1e-15, "be", 1e-6)


def test_a_sweep_of_a_source_that_is_not_there_is_named_with_its_line(deck):
    with pytest.raises(ms.InvalidInputError, match="deck.sp:5: there is no source 'r1'"):
        deck(f"{CHARGING}\n.dc R1 0 1 1").run()


@pytest.mark.parametrize("line, words, kept", [
    (".print tran v(out) v(zz)", "deck.sp:6: .print: v(zz) is passed over: there is no node 'zz'", ["v(out)"]),
    (".print tran i(r1)", "deck.sp:6: .print: i(r1) is passed over", None)])
def test_a_print_line_that_names_nothing_is_named(line, words, kept, deck):
    circuit = deck(f"{CHARGING}\n.tran 0.1m 1m\n{line}")
    with pytest.warns(ms.MeshsolveWarning) as caught:
        result, names = circuit.run()
    assert str(caught[0].message).split("/")[-1].startswith(words) and names == kept and ("in" in result) == (kept is None)


@pytest.mark.parametrize("line", [
    ".meas tran top max v(out)", ".measure tran top find par('v(out)*2') at=1m", ".four 1k {v(out)*2}", ".meas tran b param='a*2'", ".step param r 1 2 1", ".tf v(out) v1",
    ".sens v(out)", ".noise v(out) v1 dec 1 1 10", ".pz 1 0 3 0 vol pz", ".disto dec 1 1 10", ".print", ".print noise onoise", ".print op", ".ac list 1 2", ".options nonlin reltol=7"])
def test_what_a_deck_wants_computed_is_not_dropped_in_silence(line, deck):
    with pytest.warns(ms.MeshsolveWarning, match=f"deck.sp:5: {line.split()[0]} .*is passed over|deck.sp:5: {line.split()[0]} is passed over"):
        assert deck(f"{CHARGING}\n{line}\n{line}").op()["out"] == 0


def test_each_kind_is_warned_about_once(deck, recwarn):
    deck(CHARGING + "\n.meas tran a max v(out)" * 7 + "\n.tf v(out) v1\n.options reltoll=1 rshunt=2\n.print tran {v(out)*2}\n.print tran {v(out)*2}")
    said = [str(w.message).split("deck.sp:")[1] for w in recwarn]
    assert [words[:words.index(":")] for words in said] == ["5", "12", "13", "13", "14"]
    assert said[0].startswith("5: .meas is passed over") and said[0].endswith("(and 6 more)") and said[4].endswith("(and 1 more)")
    assert "'reltoll' is passed over: did you mean 'reltol' or " in said[2] and "'rshunt' is passed over: supported are reltol, " in said[3]


@pytest.mark.parametrize("asked, names", [
    ("all", None), ("v(*)", None), ("v(in) all", None), ("v(in)-v(out)", ["v(in,out)"]), ("v(in) - v(out), v( out )", ["v(in,out)", "v(out)"]), ("v(in),v(out,in)", ["v(in)", "v(out,in)"]),
    ("format=noindex file='a b.txt' v(out)", ["v(out)"]), ("width = 20 v(out)", ["v(out)"])])
def test_what_print_may_ask_for(asked, names, deck, recwarn):
    circuit = deck(f"{CHARGING}\n.tran 0.1m 1m\n.print tran {asked}")
    assert circuit.run()[1] == names and not len(recwarn)


@pytest.mark.parametrize("asked", ["{v(out)*2}", "v(in)-v(out)+1", "2*v(in)-v(out)", "par('v(in) * 2')", "foo", "vm(out)", "i(*)", "v(in)-i(v1)", "v(out", "'v(out)"])
def test_what_print_asks_for_and_is_not_understood(asked, deck):
    with pytest.warns(ms.MeshsolveWarning, match=r"deck.sp:6: .print tran: .* is passed over: known are v\(node\)"):
        circuit = deck(f"{CHARGING}\n.tran 0.1m 1m\n.print tran v(in) {asked}")
    assert circuit.run()[1] == ["v(in)"]


@pytest.mark.parametrize("line, arguments, keywords", [
    (".tran 0 1m", (1e-6, 1e-3), {"uic": False}), (".tran 1m", (1e-6, 1e-3), {"uic": False}), (".tran 1m uic", (1e-6, 1e-3), {"uic": True}), (".tran 0 2m 1m", (1e-6, 2e-3), {"uic": False, "tstart": 1e-3}),
    (".tran 0 1m 0 1u", (1e-6, 1e-3), {"uic": False, "tstart": 0, "tmax": 1e-6}), (".tran 1u 1m noop", (1e-6, 1e-3), {"uic": True}), (".tran 1u 1m 0 0", (1e-6, 1e-3), {"uic": False, "tstart": 0})])
def test_how_tran_may_be_written(line, arguments, keywords, deck):
    a, = deck(f"{CHARGING}\n{line}").analyses
    assert np.allclose(a.arguments, arguments) and a.keywords == keywords
    with pytest.warns(ms.MeshsolveWarning, match="'startup' of .tran is passed over"):
        assert deck(f"{CHARGING}\n{line} startup").analyses[0].arguments == a.arguments


def test_currents_have_an_axis_of_their_own(deck, tmp_path, monkeypatch):
    labels = []
    monkeypatch.setattr(results, "_curves", lambda axes, points, signals, unit, axis: labels.append((unit, list(signals))))
    w = deck(CHARGING).transient(1e-4, 1e-3)
    w.plot(tmp_path / "out.png", ["v(in)", "I(V1)", "out"])
    assert labels == [("V", ["v(in)", "out"]), ("A", ["I(V1)"])]


def test_tables_restore_every_double(deck, tmp_path):
    """Ten digits were written over time, seventeen at rest."""
    circuit = deck(f"{CHARGING.replace('V1 in 0', 'V1 in 0 DC 0.1 AC 1')}\nR2 out 0 7k")
    w, r, s, v = circuit.transient(1e-4, 1e-3), circuit.ac("dec", 3, 1, 1e4), circuit.dc("v1", 0, 1, 0.1), circuit.op()
    for result, points in ((w, w.time), (r, r.frequency), (s, s.sweep)):
        result.to_csv(tmp_path / "out.csv", ["out", "i(v1)"])
        columns = [z for name in ("out", "i(v1)") for z in ([result[name].real, result[name].imag] if result is r else [result[name]])]
        assert table(tmp_path / "out.csv")[1].astype(float).T.tolist() == [points.tolist(), *(column.tolist() for column in columns)]
    v.to_csv(tmp_path / "op.csv", ["out", "i(v1)"])
    assert table(tmp_path / "op.csv")[1][:, 1].astype(float).tolist() == [v["out"], v["i(v1)"]]


def test_a_node_named_as_the_points_keeps_its_column(deck, tmp_path):
    w = deck("V1 time 0 3\nR1 time 0 1").transient(1e-3, 2e-3)
    w.to_csv(tmp_path / "out.csv", ["time"])
    assert (tmp_path / "out.csv").read_text().splitlines() == ["time,time", "0.0,3.0", "0.001,3.0", "0.002,3.0"]


def test_tables_hold_no_negative_zero(deck, tmp_path):
    circuit = deck("V1 a 0 0\nR1 a 0 -1\nV2 0 b 0\nR2 b 0 1")
    circuit.op().to_csv(tmp_path / "op.csv")
    circuit.transient(1, 2).to_csv(tmp_path / "tran.csv", ["v(a)", "i(v1)", "v(b)", "i(v2)"])
    assert "-0" not in (tmp_path / "op.csv").read_text() + (tmp_path / "tran.csv").read_text()


def test_many_printed_currents_are_found_at_once(deck, tmp_path):
    """Each of them made a table of all names, which took far longer than to read and solve the deck."""
    n = 20_000
    lines = "".join(f"V{k} a{k} 0 {k}\nR{k} a{k} 0 1\n" for k in range(n))
    start = time.process_time()
    result, names = deck(lines + ".print op " + " ".join(f"i(v{k})" for k in range(0, n, 10))).run()
    middle = time.process_time()
    result.to_csv(tmp_path / "out.csv", names)
    assert time.process_time() - middle < middle - start
    assert np.allclose([result[name] for name in names], -np.arange(0.0, n, 10))


def test_pictures_of_a_power_grid(deck, tmp_path):
    deck(decks.power_grid(5)).op().plot(tmp_path / "map.png", [f"v(n_{i}_{j})" for i in range(5) for j in range(5)])
    assert (tmp_path / "map.png").stat().st_size > 5000
    with pytest.raises(ms.InvalidInputError, match="written as .png"):
        deck("V1 a 0 1\nR1 a 0 1").op().plot(tmp_path / "map.jpg")


def test_diode_models(deck):
    text = "V1 a 0 1\nR1 a 0 1\nD1 a 0 dm\n.model dm d({})"
    with pytest.warns(ms.MeshsolveWarning, match=r"deck.sp:5: the diode parameter 'ttt' is not known and has no effect: did you mean .*'tt'"):
        deck(text.format("ttt=1"))
    assert deck(text.format("tnom=27 xti=3 level=1")).op()["a"] == 1
    for wrong in ("is=1e-320", "rs=1e-200", "cjo=1e300", "is=0", "n=-1", "rs=-1", "m=2", "fc=1", "tlev=2", "nbv=0", "level=2"):
        with pytest.raises(ms.InvalidInputError, match="deck.sp:5: .*(the diode parameter|tlev=2: only|level=2: only)"):
            deck(text.format(wrong))


def test_areas_out_of_range(deck):
    with pytest.raises(ms.InvalidInputError, match="deck.sp:3: the area of d1, 1e[+]200, is out of range"):
        deck("R1 a 0 1\nD1 a 0 dm area=1e200\n.model dm d")


@pytest.mark.parametrize("volt", [-3, -1, 0.7, 2, 20])
def test_a_diode_of_area_3_is_three_in_parallel(volt, deck):
    """But for breakdown: there IBV is the current of the diode, whatever its area, as in ngspice. In small signals its charge as well."""
    text = f"V1 a 0 {volt} AC 1\nR1 a b 10\n{{}}\n.model dm d(rs=5 cjo=10p tt=5n bv=4 ibv=1m)"
    large, three = (deck(text.format(diode)) for diode in ("D1 b 0 dm 3", "D1 b 0 dm\nD2 b 0 dm\nD3 b 0 dm"))
    assert large.op()["b"] == pytest.approx(three.op()["b"], rel=1e-6)
    assert np.allclose(large.ac("lin", 1, 1e8, 1e8)["b"], three.ac("lin", 1, 1e8, 1e8)["b"], rtol=1e-4)


# ---- devices and waveforms -----------------------------------------------------------------------------------------------------


def diodes(**given):
    return Diodes(np.zeros((1, 2), int), {key: np.array([given.get(key, value)]) for key, value in DEFAULTS.items()}, 1e-12)


@given(st.floats(-8, 1.2), st.sampled_from([{}, {"bv": 5.0}, {"cjo": 1e-12, "m": 1.0}, {"cjo": 1e-12, "tt": 1e-9, "n": 1.5}, {"cjo": 2e-12, "vj": 0.6, "m": 0.33}]))
def test_slopes_are_the_derivatives(v, parameters):
    d, h = diodes(**parameters), 1e-6
    at, low, high = (np.array([x]) for x in (v, v - h, v + h))
    for function, scale in ((d.current, 1e-10), (d.charge, 1e-20)):
        value = (function(high)[0] - function(low)[0]) / (2 * h)
        assert np.allclose(value, function(at)[1], rtol=1e-4, atol=scale)


def test_breakdown_draws_its_current_at_its_voltage():
    assert diodes(bv=5.0, ibv=1e-3).current(np.array([-5.0]))[0] == pytest.approx(-1e-3, rel=1e-6)


def test_diodes_with_and_without_breakdown_in_one_deck(deck):
    models = ".model zener d(is=1e-14 bv=5)\n.model plain d(is=1e-14)"
    v = deck(f"V1 a 0 8\nR1 a b 1k\nD1 0 b zener\nD2 c b plain\nR2 c 0 1k\n{models}").op()
    assert v["b"] == pytest.approx(5 + 0.02585 * np.log(3), abs=1e-3) and abs(v["c"]) < 1e-8


@given(st.lists(st.floats(0.01, 1), min_size=4, max_size=4), st.floats(0, 20))
def test_corners_of_pulses(lengths, t):
    delay, rise, fall, width = lengths
    pulses = Pulses([np.array([0, 1, delay, rise, fall, width, rise + fall + width + 0.5])], 1.0, 100.0)
    corner = pulses.next_corner(t)
    assert t < corner < t + rise + fall + width + 2
    inside = np.linspace(t, corner, 9)[1:-1]                # linear up to the corner
    assert np.allclose(np.diff([pulses.at(x)[0] for x in inside], 2), 0, atol=1e-9)


def test_what_a_waveform_leaves_out_stands_for_tstep_and_tstop():
    tstep, tstop = 0.5, 4.0
    exponential, sine = Exponentials([np.array([0, 1, 2.0, 1.0])], tstep, tstop), Sines([np.array([0, 1.0])], tstep, tstop)
    assert exponential.at(2.4)[0] == pytest.approx(1 - np.exp(-0.4))
    assert exponential.at(3.0)[0] == pytest.approx(np.exp(-(3.0 - 2.5) / tstep) - np.exp(-1))
    assert [sine.at(t)[0] for t in (0, 1, 2, 3)] == pytest.approx([0, 1, 0, -1], abs=1e-12)


def test_a_pulse_without_a_period_that_begins_before_the_time_0_comes_again(deck):
    """As in SPICE, where a period that is left out is tstop."""
    w = deck("V1 a 0 PULSE(0 1 -2 1 1 1)\nR1 a 0 1").transient(0.25, 8, tmax=0.25)
    assert np.allclose(w["a"], np.interp(w.time, [0, 1, 6, 7, 8], [1, 0, 0, 1, 1]))


def test_a_pulse_longer_than_its_period_is_cut_off_there():
    pulses = Pulses([np.array([0, 1, 0, 0.1, 0.1, 5.0, 1.0])], 0.01, 10.0)
    assert [pulses.at(t)[0] for t in (0.05, 0.5, 1.0, 1.05, 2.0)] == pytest.approx([0.5, 1, 1, 0.5, 1])


def test_waveforms_that_begin_before_the_time_0(deck):
    v = deck("V1 a 0 PULSE(0 1 -2.3n 0.1n 0.1n 0.3n 1n)\nV2 b 0 PWL(-0.5n 1 1.5n 3)\nR1 a b 1").op()
    assert v["a"] == pytest.approx(1) and v["b"] == pytest.approx(1.5)


def test_a_jump_of_a_piecewise_linear_source_is_exact(deck):
    """The step that ends at the jump does not see what follows, also where the jump is no multiple of the steps."""
    for jump in (2e-4, 2.3e-4):
        w = deck(f"V1 a 0 PWL(0 0 {jump} 0 {jump} 1)\nR1 a b 1k\nC1 b 0 100n").transient(1e-4, 1e-3)
        assert np.abs(w["b"] - np.where(w.time > jump, 1 - np.exp(-(w.time - jump) / 1e-4), 0)).max() < 1e-3
        assert w["a"].tolist() == [0.0] * 3 + [1.0] * 8
        assert w.report.facts["rejected_steps"] < 20


@given(st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=6), min_size=1, max_size=5), st.floats(-1, 8))
def test_piecewise_linear_sources(heights, t):
    lines = Lines([np.stack([np.arange(len(h)) * 1.0, h], axis=1).ravel() for h in heights], 1.0, 1.0)
    assert np.allclose(lines.at(t), [np.interp(t, np.arange(len(h)), h) for h in heights])


# ---- real power grids -------------------------------------------------------------------------------------------------------------


def test_the_published_solution_of_a_power_grid(data_dir):
    import gzip

    v = ms.apps.circuit.read(data_dir / "netlists" / "ibmpg1.spice.gz").op()
    with gzip.open(data_dir / "netlists" / "ibmpg1.solution.gz", "rt") as f:
        pairs = [line.split()[:2] for line in f]
    assert max(abs(v[node] - float(value)) for node, value in pairs if node not in ("G", "0")) < 1e-5


def test_the_power_grid_over_time(data_dir):
    circuit = ms.apps.circuit.read(data_dir / "netlists" / "ibmpg1t.spice.gz")
    w, names = circuit.run("tran")
    assert len(w.time) == 1001 and len(names) == len(w) == 20
    first = circuit.op()
    assert all(w[n][0] == pytest.approx(first[n], abs=1e-9) for n in names) and max(np.ptp(w[n]) for n in names) > 0.01
