"""Transients compared with formulas: steps, corners, initial states, and kept signals."""

import pathlib
import sys

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.apps.circuit.newton import NoConvergence, Solver

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import decks
from decks import CHARGING, TAU


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


def test_a_linear_circuit_of_constant_step_is_factored_once(deck):
    w = deck(decks.power_grid(8)).transient(1e-10, 2e-8, fixed_step=True)
    facts = w.report.as_dict()
    assert facts["analyses"] == 1 and facts.get("refactorizations", 0) == 0 and facts["time_steps"] == 200  # at rest
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


@pytest.mark.filterwarnings("ignore:.*miss its waves")
@pytest.mark.parametrize("method", ["trap", "be"])
@pytest.mark.parametrize("periods", [0.5, 1, 3])
def test_sines_with_whole_periods_in_a_step(periods, method, deck):
    """At whole periods the sine is always 0, so differences of states would show no error."""
    w = deck(f"V1 a 0 SIN(0 1 {periods * 1e4})\nR1 a b 1k\nC1 b 0 10n").transient(1e-4, 5e-4, method=method)
    omega = 2 * np.pi * periods * 1e4
    response = 1 / (1 + 1j * omega * 1e-5)
    assert np.abs(w["b"] - (response * np.exp(1j * omega * w.time)).imag + response.imag * np.exp(-w.time / 1e-5)).max() < 0.01


@pytest.mark.filterwarnings("ignore:.*miss its waves")
def test_only_sines_that_swing_shorten_the_steps(deck):
    steps = {}
    for name, shape in {"late": "1meg 0.9m", "faded": "1meg 0 1e6", "none": "1"}.items():
        facts = deck(f"V1 a 0 SIN(0 1 {shape})\nR1 a b 1k\nC1 b 0 10n").transient(1e-5, 1e-3).report.facts
        steps[name] = facts["time_steps"]
    assert steps["none"] < 150 and 1600 < steps["late"] < 3200 and 320 < steps["faded"] < 1600
    assert deck("V1 a 0 SIN(0 1 1meg)\nR1 a 0 1k").transient(1e-5, 1e-4).report.facts["time_steps"] == 10      # nothing is stored


@pytest.mark.filterwarnings("ignore:.*miss its waves")
def test_a_sine_far_too_fast_for_the_steps_is_an_error(deck):
    with pytest.raises(ms.MeshsolveError, match="steps of 6.25e-14 s at time 0.001 s, too short compared with the longest step of 0.001 s"):
        deck("V1 a 0 SIN(0 1 1t 1m)\nR1 a b 1k\nC1 b 0 10n").transient(1e-3, 1e-2)


STEP = "V1 in 0 PULSE(0 1 0 1n 1n 1 2)\nR1 in a 10\nL1 a out 1m\nC1 out 0 1u"


@pytest.mark.parametrize("method", ["trap", "be"])
@pytest.mark.parametrize("tstep", [2e-3, 1e-2, 0.1, 1, 1e9])
def test_a_step_longer_than_the_run_is_cut_to_it(tstep, method, deck):
    """Differences below 1e-9 tstep must not count as 0: with a tstep of 1e9 only the state at 0 would remain."""
    circuit = deck(STEP)
    w, expected = circuit.transient(tstep, 1e-3, method=method), circuit.transient(1e-3, 1e-3, method=method)
    assert w.time.tolist() == [0, 1e-3] and w["out"].tolist() == expected["out"].tolist()
    a, b = 5e3, np.sqrt(1e9 - 25e6)
    assert w["out"][-1] == pytest.approx(1 - np.exp(-a * 1e-3) * (np.cos(b * 1e-3) + a / b * np.sin(b * 1e-3)), abs=0.01)
    assert circuit.transient(tstep, 1e-3, uic=True, method=method)["out"][-1] == pytest.approx(expected["out"][-1], abs=1e-9)
    fixed = circuit.transient(tstep, 1e-3, method=method, fixed_step=True)
    assert fixed.report.facts["time_steps"] == 1 and np.isfinite(fixed["out"]).all()


@pytest.mark.parametrize("tstep, volt", [(10e-3, 0.1), (0.1, 0.01), (1, 1e-3)])
def test_edges_without_a_length_take_tstep(tstep, volt, deck):
    """As in ngspice: tran 1 1m of PULSE(0 1) ends at a thousandth of the rise."""
    assert deck("V1 a 0 PULSE(0 1)\nR1 a 0 1k\nC1 a 0 1p").transient(tstep, 1e-3)["a"][-1] == pytest.approx(volt, rel=1e-9)


@pytest.mark.parametrize("tstep, tstop", [(1e-2, 1e-2), (1e-2, 1), (0.1, 0.1), (1, 1)])
@pytest.mark.parametrize("method", ["trap", "be"])
def test_a_long_run_of_a_circuit_that_begins_fast(method, tstep, tstop, deck):
    """The current begins as t^2 and exceeds the tolerance within a step of 1e-9 tstep."""
    w = deck(STEP).transient(tstep, tstop, method=method)
    assert w["out"][1:] == pytest.approx(np.ones(len(w.time) - 1), abs=1e-3)


def test_a_start_after_the_end_is_an_error(deck):
    circuit = deck(STEP)
    with pytest.raises(ms.InvalidInputError, match="tstart = 0.002 must be at most tstop = 0.001"):
        circuit.transient(1e-5, 1e-3, tstart=2e-3)
    with pytest.raises(ms.InvalidInputError, match="tstart = 0.002 must be at most tstop = 0.001"):
        circuit.transient(1e7, 1e-3, tstart=2e-3)
    assert circuit.transient(1e-5, 1e-3, tstart=1e-3).time.tolist() == [1e-3]


def test_the_error_of_too_small_steps_names_remedies(deck):
    with pytest.raises(ms.MeshsolveError, match="too small at time .*: .* Decrease tstep, or increase reltol"):
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
    """The charges of junctions begin at the initial voltages, not at 0 V."""
    w = deck(f"R1 out {'x' if 'V1' in element else 0} 1k\n{element}\n{line}\n.model dm d(is=1e-14 cjo=1u m=0{series})").transient(1e-5, 1e-3, uic=True)
    v = 1 - w["out"] if "V1" in element else w["out"]
    tau = TAU * (1.01 if series else 1)
    assert np.abs(v + 2 * np.exp(-w.time / tau) / (1.01 if series else 1))[1:].max() < 1e-3


@pytest.mark.parametrize("model, tolerance", [("is=2.7e-10 n=1.76 tt=0.6n", 1e-3), ("is=2.7e-10 n=1.76 tt=0.6n", 1e-6), ("is=1e-15 cjo=2f", 1e-3)])
@pytest.mark.parametrize("extra", ["", "R3 in c 1k\nC3 c 0 1n\nV3 d 0 SIN(0 1 5meg)\nR4 d e 1k\nC4 e 0 100p"])
@pytest.mark.parametrize("fixed", [False, True])
def test_a_junction_at_rest_does_not_ring(model, tolerance, extra, fixed, deck):
    """The plain trapezoidal rule would oscillate by volts if a charge hardly depends on the voltage or is below chgtol."""
    w = deck(f"V1 in 0 PULSE(1 -5 1n 1p 1p 1u 2u)\nR1 in out 8.7k\nD1 out 0 dm\n.model dm d({model})\nR2 in b 1k\nC2 b 0 1f\n{extra}\n.options reltol={tolerance}").transient(
        1e-8, 1e-6, fixed_step=fixed)
    assert np.abs(w["out"][6:] + 5).max() < 1e-2 and w["out"][0] == pytest.approx(0.55, abs=0.05 if "tt" in model else 0.3)


def test_oscillating_charging_currents_are_smoothed(deck):
    """A sine source keeps the steps too long for backward Euler, so the slopes of the charge are smoothed instead."""
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


def test_initial_states_with_capacitances_that_hide_conductances(deck):
    """In the very short step from the initial states, a and b are numerically one node without a conductance."""
    w = deck("L1 0 a 1\nR1 a b 42k\nR2 c a 1k\nC1 b a 180n ic=1\nR3 c 0 1g\nI1 0 a 1m").transient(2e-7, 4.5e-5, uic=True)
    assert np.allclose((w["b"] - w["a"])[1:], np.exp(-w.time[1:] / (42e3 * 180e-9)), rtol=1e-4)
    assert np.isfinite(w["a"]).all()


def test_voltages_that_overflow_are_an_error(deck, recwarn):
    with pytest.raises(ms.MeshsolveError, match="deck.sp: "):
        deck("I1 0 a 1\nC1 a 0 1p\nG1 0 a a 0 1\nR1 a 0 1k\nD1 b 0 dm\nR2 a b 1k\n.model dm d(cjo=1p)\n.options reltol=0.5").transient(1e-9, 1e-6, uic=True)
    assert not len(recwarn)


def test_initial_states_that_a_source_overrules(deck):
    """A supply with a capacitor across it, and a current source in series with an inductor: the sources determine both states."""
    w = deck("V1 s 0 5\nC0 s 0 1n\nR1 s out 1k\nC1 out 0 1u").transient(1e-5, 1e-3, uic=True)
    assert np.abs(w["out"] - 5 * (1 - np.exp(-w.time / TAU))).max() < 5e-4 and np.allclose(w["s"], 5, rtol=1e-9)
    w = deck("I1 0 a 2\nL1 a b 1m\nR1 b 0 3\nC1 b 0 1u").transient(1e-7, 2e-5, uic=True)
    assert np.abs(w["b"] - 6 * (1 - np.exp(-w.time / 3e-6))).max() < 1e-2
    w = deck("V1 s 0 3\nC1 s m 2u ic=1\nC2 m 0 1u\nR1 m 0 1").transient(1e-7, 2e-5, uic=True)    # they divide 2 V
    assert np.abs(w["m"] - 4 / 3 * np.exp(-w.time / 3e-6)).max() < 2e-3


@pytest.mark.parametrize("method", ["trap", "be"])
@pytest.mark.parametrize("source, uic", [("1", True), ("PWL(0 0 1u 0 1u 1)", False)])
def test_slopes_that_jump(source, uic, method, deck):
    """With the slope from before the jump, the error estimate of backward Euler would be too large in every step."""
    w = deck(f"V1 a 0 {source}\nR1 a b 1\nL1 b 0 1u\n.options reltol=1e-4").transient(1e-7, 5e-6, uic=uic, method=method)
    exact = -np.expm1(-np.maximum(w.time - (0 if uic else 1e-6), 0) / 1e-6)
    assert np.abs(w["i(l1)"] - exact).max() < (2e-3 if method == "trap" else 2e-2)


@pytest.mark.parametrize("failures, words", [(1, None), (9, "deck.sp: no voltages were found for the states in ic= and .ic: too many steps")])
def test_initial_states_from_which_newton_does_not_converge(failures, words, deck, monkeypatch):
    """With tight tolerances, rounding errors of charges over a very short step are currents that never converge."""
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
    for volt, found in ((0.8, up), (-0.8, down)):           # also at the first point of a sweep, from which the others start
        w = deck(text + f".nodeset v(a)={volt}").dc("I1", 0, 1e-5, 1e-6)
        assert w["a"][0] == pytest.approx(found, rel=1e-3) and np.ptp(w["a"]) < 0.01


def test_kept_signals(deck):
    circuit = deck(CHARGING)
    w = circuit.transient(1e-4, 1e-3, nodes=["OUT", "i(v1)", "0"], tstart=5e-4)
    assert w.time[0] == pytest.approx(5e-4) and len(w.time) == len(w["out"]) == 6 and "out" in w and "in" not in w and np.all(w["gnd"] == 0)
    with pytest.raises(ms.InvalidInputError, match="'in' was not kept"):
        w["in"]
    with pytest.raises(ms.InvalidInputError, match="got one string"):
        circuit.transient(1e-4, 1e-3, nodes="out")
    odd = circuit.transient(3e-4, 1e-3)
    assert np.allclose(odd.time, [0, 3e-4, 6e-4, 9e-4, 1e-3])
    short = circuit.transient(1e-3, 3e-3, tmax=1e-5)
    assert short.report.facts["time_steps"] >= 300 and np.allclose(short["out"], 1 - np.exp(-short.time / TAU), atol=1e-4)


@pytest.mark.parametrize("call, words", [
    (lambda c: c.transient(0, 1), "tstep .* a finite number above 0"), (lambda c: c.transient(1e-3, -1), "tstop"),
    (lambda c: c.transient(1e-3, 1, method="gear"), "method .* one of"), (lambda c: c.transient(1e-12, 1e3), "increase tstep"),
    (lambda c: c.dc("v1", 0, 1, 1e-12), "increase the step"), (lambda c: c.dc("v1", 0, 1e300, 1e-300), "increase the step"),
    (lambda c: c.ac("dec", 2**31 - 1, 1, 1e9), "decrease points"), (lambda c: c.ac("lin", 2**31 - 1, 1, 1e9), "decrease points"),
    (lambda c: c.ac("dec", 10**6, 1e-300, 1e300), "decrease points"),
    (lambda c: c.transient(1e-3, 1, nodes=["zz"]), "there is no node 'zz'"), (lambda c: c.ac("dec", 0, 1, 10), "points .* integer"),
    (lambda c: c.ac("log", 1, 1, 10), "spacing .* one of"), (lambda c: c.ac("dec", 1, 10, 1), "at least fstart"),
    (lambda c: c.ac("dec", 1, 0, 1), "fstart .* a finite number"), (lambda c: c.dc("v9", 0, 1, 0.1), "no source 'v9'"),
    (lambda c: c.dc("v1", 0, 1, -0.1), "does not lead"), (lambda c: c.run("noise"), "kind .* one of"), (lambda c: c.run("ac"), "no .ac line")])
def test_arguments(call, words, deck):
    with pytest.raises(ms.InvalidInputError, match=words):
        call(deck(CHARGING))


def test_results_that_do_not_fit_into_memory(deck, monkeypatch):
    from meshsolve import memory

    monkeypatch.setattr(memory, "NEGLIGIBLE", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(ms.OutOfMemoryError, match="nodes= selects signals"):
        deck(CHARGING).transient(1e-6, 1e-3)
