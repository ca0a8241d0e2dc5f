"""The true cause of a failure: unbounded growth, singular steps, devices without convergence, results that miss the waves."""

import numpy as np
import pytest
from cases import each

import meshsolve as ms
from meshsolve.apps.circuit import transient
from meshsolve.apps.circuit.jacobian import Jacobian

NEGATIVE = "I1 0 a PULSE(0 1m 1u 1u 1u 1 2)\nC1 a 0 1n\nR1 a 0 -1k"
AMPLIFIER = """E1 o 0 p m 1e5
R1 o c 1k
D1 c x dz
D2 0 x dz
R2 c p 10k
R3 p 0 10k
R4 c m 10k
C1 m 0 10n ic=0.1
C2 p 0 10p ic=1
.model dz D(is=1e-14 n=1.1 rs=2 bv=5.1 ibv=5m cjo=50p)"""


@each("text, node, native", [
    (NEGATIVE, "a", 256), (NEGATIVE + "\nD1 b a dm\nR2 b 0 1k\n.model dm D", "a", 256), (AMPLIFIER, "o", 256), (NEGATIVE, "a", 0), (NEGATIVE + "\nD1 b a dm\nR2 b 0 1k\n.model dm D", "a", 0)])
@pytest.mark.filterwarnings("ignore:.*singular in rounding")
def test_growth_without_bound_is_named(text, node, native, deck, monkeypatch, recwarn):
    monkeypatch.setattr(transient, "NATIVE", native)
    with pytest.raises(ms.MeshsolveError, match=rf"its voltages or currents grow without bound: node {node} has more than .* from .* s on, and there is no solution after") as caught:
        deck(text).transient(1e-6, 2e-3, uic=True)
    assert not isinstance(caught.value, ms.SingularMatrixError) and len(recwarn) <= 1
    assert not any("F.rcond" in str(w.message) for w in recwarn)


def test_an_unstable_circuit_has_a_result_while_it_is_finite(deck):
    w = deck(NEGATIVE).transient(1e-7, 1e-5)
    assert np.all(np.isfinite(w["a"])) and abs(w["a"][-1]) > 1e3


def singular_once(monkeypatch, times):
    """The first factorizations of Newton's method fail."""
    factor, count = Jacobian.factor, [0]

    def failing(self, conductance):
        count[0] += 1
        if count[0] in times:
            raise ms.SingularMatrixError("planted", 0)
        return factor(self, conductance)

    monkeypatch.setattr(Jacobian, "factor", failing)


@each("times", [{1}, {1, 2}, {2}, {1, 2, 3, 4}])
def test_a_singular_step_at_an_operating_point_is_a_failed_step(times, deck, monkeypatch):
    text = "V1 a 0 5\nR1 a b 1k\nD1 b 0 dm\n.model dm d"
    right = deck(text).op()["b"]
    singular_once(monkeypatch, times)
    assert deck(text).op()["b"] == pytest.approx(right, rel=1e-4)


def test_a_singular_step_of_time_is_repeated_with_a_shorter_one(deck, monkeypatch):
    monkeypatch.setattr(transient, "NATIVE", 0)
    text = "V1 a 0 SIN(0 5 1k)\nR1 a b 1k\nD1 b 0 dm\nC1 b 0 1n\n.model dm d"
    right = deck(text).transient(1e-5, 1e-3)
    singular_once(monkeypatch, {20, 21, 22})
    w = deck(text).transient(1e-5, 1e-3)
    assert w.report.facts["rejected_steps"] > 0 and np.abs(w["b"] - right["b"]).max() < 2e-3


def test_equations_that_are_always_singular_are_still_named(deck):
    text = "V1 a 0 1\nR1 a d 1k\nD1 d 0 dm\n.model dm d\nR2 b 0 1\nE1 b 0 b 0 1"
    with pytest.raises(ms.SingularMatrixError, match=r"singular at (node b|the current of e1)"):
        deck(text).op()
    with pytest.raises(ms.SingularMatrixError, match=r"singular at (node b|the current of e1)"):
        deck(text).transient(1e-6, 1e-5, uic=True)


def test_steps_without_convergence_are_not_called_inaccurate(deck, monkeypatch):
    monkeypatch.setattr(transient, "NATIVE", 0)
    c = deck("V1 a 0 SIN(0 5 1k)\nR1 a b 1k\nD1 b 0 dm\nC1 b 0 1n\n.model dm d")
    monkeypatch.setattr(transient, "_solved", lambda *a: None)
    with pytest.raises(ms.MeshsolveError, match="Newton's method did not converge in 20 steps at time 0 s, also with a time step of"):
        c.transient(1e-5, 1e-3, uic=False)


def test_a_device_whose_current_nothing_limits(deck):
    c = deck("V1 a 0 0\nD1 a 0 dm\n.model dm d")
    with pytest.warns(ms.MeshsolveWarning, match="a nonlinear device carries .* A, since no resistance limits its current"):
        c.dc("v1", 0, 9, 1)
    with pytest.warns(ms.MeshsolveWarning, match="a nonlinear device carries .* A"):
        c.with_values({"v1": 9}).op()


def test_results_that_miss_the_waves_of_a_source(deck):
    c = deck("V1 a 0 SIN(0 1 50)\nR1 a 0 1")
    with pytest.warns(ms.MeshsolveWarning, match="the results are 0.01 s apart, half a period or more of a source of 50 Hz, and miss its waves: decrease tstep below 0.001 s"):
        assert abs(c.transient(0.01, 0.1)["a"]).max() < 1e-9
    c.transient(1e-3, 0.1)
    c.transient(0.01, 0.1, tmax=0.02)                       # results at the ends of steps


def test_one_of_several_analyses_is_run(deck, recwarn):
    c = deck("V1 a 0 1 AC 1\nR1 a 0 1\n.op\n.ac dec 1 1 10\n.ac dec 1 10 100\n.dc v1 0 1 1")
    c.run("dc")
    assert not recwarn
    with pytest.warns(ms.MeshsolveWarning, match="one analysis is run, the first .ac line. Not run: .ac, .dc"):
        c.run()
    with pytest.warns(ms.MeshsolveWarning, match="the first .ac line. Not run: .ac. "):
        c.run("ac")


def test_a_map_leaves_out_nodes_without_coordinates(deck, tmp_path, monkeypatch):
    from meshsolve.apps.circuit import results

    seen = []
    monkeypatch.setattr(results, "_map", lambda axes, x, y, values, others: seen.append((len(x), values.max(), others)))
    text = "V1 pad 0 9\nRp pad n_0_0 1\n" + "".join(f"R{k} n_{k}_0 n_{k + 1}_0 1\n" for k in range(6)) + "R9 n_6_0 0 1"
    deck(text).op().plot(tmp_path / "map.png")
    assert seen == [(7, 9 * 7 / 8, 1)]
