"""Newton's method: numbers of steps and factorizations, the test of convergence, and its parts compared with plain implementations."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve.apps.circuit import jacobian, newton, transient
from meshsolve.apps.circuit.jacobian import Dense
from meshsolve.apps.circuit.mna import Matrix
from meshsolve.apps.circuit.sources import Sources
from meshsolve.factor.lu import LUFactor

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import decks
from decks import THERMAL

# ---- steps and factorizations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, step, end", [(decks.RECTIFIER, 1e-4, 4e-2), (decks.multiplier(4), 1e-5, 3e-3), (decks.diode_grid(10), 1e-5, 1e-3), (decks.CLIPPER, 5e-6, 2e-3)],
                         ids=["rectifier", "multiplier", "grid", "clipper"])
def test_newton_steps_in_a_time_step(text, step, end, deck):
    """An additional step to detect convergence and a linear guess would take 2.2 to 2.9 steps."""
    facts = deck(text).transient(step, end).report.facts
    assert facts["newton_steps"] < 1.7 * (facts["time_steps"] + facts["rejected_steps"])


def test_small_circuits_are_refactored_densely(deck, monkeypatch):
    calls, refactor = [], LUFactor.refactor
    monkeypatch.setattr(LUFactor, "refactor", lambda F, A: (calls.append(1), refactor(F, A))[1])
    facts = deck(decks.RECTIFIER).transient(1e-4, 2e-2).report.facts
    assert not calls and facts["refactorizations"] > 100 and facts["analyses"] == 1      # at rest


def test_a_factor_is_reused_while_conductances_change_little(deck, monkeypatch):
    monkeypatch.setattr(transient, "NATIVE", 0)
    facts = deck(decks.diode_grid(10)).transient(1e-5, 1e-3).report.facts
    assert 0 < facts["refactorizations"] < 0.7 * facts["newton_steps"]


def test_a_factor_of_slow_convergence_is_not_reused(deck, monkeypatch):
    """With tight tolerances each step with an old factor gains one digit: 344 steps instead of 187."""
    monkeypatch.setattr(jacobian, "SMALL", 0)
    monkeypatch.setattr(newton, "SMALL", 0)
    monkeypatch.setattr(transient, "NATIVE", 0)
    facts = deck(".options reltol=1e-10 vntol=1e-12 abstol=1e-18\n" + decks.diode_grid(4)).transient(1e-5, 5e-4, fixed_step=True).report.facts
    assert facts["newton_steps"] < 250


def test_matrices_have_the_index_type_of_the_factor(deck):
    """Other index types would be checked entry by entry at each refactorization."""
    A = Matrix(deck(decks.diode_grid(3))._system, True).linear(1.0)
    assert A.indices.dtype == A.indptr.dtype == np.int32


# ---- the same solutions by all methods --------------------------------------------------------------------------------------


COUNTS = ("time_steps", "rejected_steps", "newton_steps")


@pytest.mark.parametrize("way", ["sparse", "no factor is good", "exact"])
def test_dense_and_sparse_factors_find_the_same(way, deck, monkeypatch):
    texts = [(decks.RECTIFIER, 1e-4, 2e-2), (decks.multiplier(3), 1e-5, 1e-3), (decks.diode_grid(4), 1e-5, 5e-4), (decks.RECOVERY, 2e-9, 1e-6)]
    expected = [deck(text).transient(step, end) for text, step, end in texts]
    monkeypatch.setattr(transient, "NATIVE", 0)
    if way == "no factor is good":
        monkeypatch.setattr(Dense, "factor", lambda *arguments: False)
    else:
        monkeypatch.setattr(jacobian, "SMALL", 0)
        monkeypatch.setattr(newton, "SMALL", 0)
    if way == "exact":
        monkeypatch.setattr(jacobian, "NEAR", 0.0)
    for (text, step, end), w in zip(texts, expected):
        other = deck(text).transient(step, end)
        apart = max(np.abs(other[name] - w[name]).max() for name in w.nodes) / max(np.abs(w[name]).max() for name in w.nodes)
        assert apart < (2e-3 if way == "sparse" else 1e-5)
        if way == "exact":                                  # the same method: the same steps
            assert [other.report.facts[k] for k in COUNTS] == [w.report.facts[k] for k in COUNTS]


@pytest.mark.slow
def test_results_do_not_depend_on_threads(tmp_path):
    """LAPACK uses several threads for large matrices only. Its matrices in this test are small enough for one thread."""
    text = decks.diode_grid(8)                              # 64 + 22 + 1 unknowns
    (tmp_path / "deck.sp").write_text(f"title\n{text}\nR1 a 0 1\nD1 a m0_0 dm\n.end\n")
    code = ("import meshsolve as ms, hashlib\nc = ms.apps.circuit.read('deck.sp'); w = c.transient(1e-5, 1e-3)\n"
            "print(c._system.n, hashlib.sha256(b''.join(w[k].tobytes() for k in w)).hexdigest())")
    found = set()
    for threads in "14":
        environment = os.environ | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "MESHSOLVE_NUM_THREADS": threads,
                                    "PYTHONPATH": os.pathsep.join(filter(None, [str(pathlib.Path(ms.__file__).parents[1]), os.environ.get("PYTHONPATH")]))}
        found.add(subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(found) == 1 and jacobian.SMALL - 10 <= int(found.pop().split()[0]) <= jacobian.SMALL


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_dense_solves(n, seed):
    """Equations and unknowns that differ by decades, and diodes between random nodes."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.uniform(-9, 9, (2, n))
    pattern = (rng.random((n, n)) < 0.5) | np.eye(n, dtype=bool)
    A = np.where(pattern, rng.standard_normal((n, n)), 0.0) + 4 * n * np.eye(n)
    A = 10.0 ** rows[:, None] * A * 10.0 ** columns
    i, j = np.nonzero(A)
    matrix = Matrix.__new__(Matrix)
    matrix.n, matrix.indices, matrix.indptr = n, j.astype(np.int32), np.searchsorted(i, np.arange(n + 1)).astype(np.int32)
    k = int(rng.integers(0, 4))
    matrix.slots, matrix.which, matrix.sign = rng.integers(0, len(i), 2 * k), rng.integers(0, max(k, 1), 2 * k), rng.choice([-1.0, 1.0], 2 * k)
    extra = 1e-3 * np.abs(A).min(where=A != 0, initial=np.inf) * rng.random(max(k, 1))
    whole = A.copy()
    np.add.at(whole, (i[matrix.slots], j[matrix.slots]), matrix.sign * extra[matrix.which])
    dense, x = Dense(matrix, 10.0 ** -rows, 10.0 ** -columns), 10.0 ** -columns * rng.uniform(1, 2, n)
    assert dense.factor((1.0, 0.0), A[i, j], extra) and np.allclose(dense.solve(whole @ x), x, rtol=1e-9)
    assert not dense.factor((2.0, 0.0), 0 * A[i, j], 0 * extra) and not dense.factor((3.0, 0.0), np.nan * A[i, j], extra)


def test_pivots_at_rounding_level_need_the_sparse_factor():
    matrix = Matrix.__new__(Matrix)
    matrix.n, matrix.indices, matrix.indptr = 2, np.array([0, 1, 0, 1]), np.array([0, 2, 4])
    matrix.slots, matrix.which, matrix.sign = np.array([0]), np.array([0]), np.array([1.0])
    dense = Dense(matrix, np.ones(2), np.ones(2))
    data = np.array([0.1, 0.3, 0.3, 0.9 * (1 + 2e-16)])     # the diode adds 1e-3
    assert dense.factor((0.0, 0.0), data, np.array([1e-3])) and not dense.factor((0.0, 0.0), data, np.array([0.0]))


@pytest.mark.parametrize("text", [
    "V1 a 0 1\nR1 a 0 1\nD1 a 0 dm\nR2 b 0 1\nE1 b 0 b 0 1\n.model dm d", "V1 a 0 1\nD1 a 0 dm\nG1 b 0 a 0 1\nR2 b c 3\nR3 c b 7\n.model dm d"])
def test_singular_circuits_with_diodes_are_named(text, deck):
    with pytest.raises(ms.SingularMatrixError, match=r"singular at (node [bc]|the current of e1)|node(s)? .*have no path"):
        deck(text).op()


# ---- convergence ------------------------------------------------------------------------------------------------------------


def test_currents_agree_over_a_sweep(deck):
    """Each point starts from the one before. Solutions satisfy Kirchhoff's law to reltol."""
    w = deck("V1 a 0 0\nR1 a k 1k\nD1 k 0 dm\n.model dm d(is=1e-14 n=1.2)").dc("V1", -3, 30, 0.25)
    current = 1e-14 * np.expm1(w["k"] / (1.2 * THERMAL)) + 1e-12 * w["k"]
    assert np.abs((w.sweep - w["k"]) / 1e3 - current).max() < 1e-3 * np.abs(current).max()
    on = w.sweep > 1
    assert np.allclose(((w.sweep - w["k"]) / 1e3)[on], current[on], rtol=1e-3)


@pytest.mark.parametrize("volt", [0.3, 1, 5, 50])
@pytest.mark.parametrize("saturation", [1e-15, 1e-13, 3e-12])
def test_a_node_between_diodes_that_block(volt, saturation, deck):
    """Their currents are below abstol for any voltage of the node between them, so small currents alone are not convergence."""
    v = deck(f"V1 a 0 {volt}\nD1 m a da\nD2 0 m db\n.model da d(is=1e-14)\n.model db d(is={saturation})").op()["m"]

    def current(u, saturation):
        return saturation * np.expm1(u / THERMAL) + 1e-12 * u

    exact = scipy.optimize.brentq(lambda m: current(m - volt, 1e-14) - current(-m, saturation), 0, volt, xtol=1e-15)
    assert v == pytest.approx(exact, rel=2e-3, abs=1e-5)


# ---- parts ------------------------------------------------------------------------------------------------------------------


MODELS = [{}, {"bv": 5.0}, {"bv": [5.0, 1e99], "is": [1e-14, 1e-9]}, {"cjo": 1e-12, "m": [1.0, 0.33]}, {"cjo": [0, 1e-12], "tt": [1e-9, 0], "bv": 4.0}]
volts = st.lists(st.floats(-12, 12), min_size=2, max_size=2)


def knees(given):
    """(2,) knee voltages of breakdown, see decks.knee."""
    return np.array([decks.knee(*np.broadcast_to(np.stack(np.broadcast_arrays(given.get("is", 1e-14), given["n"], given.get("bv", 1e100), 1e-3)), (4, 2))[:, k])
                     for k in range(2)])


def one_limited(v, before, vt, critical):
    """The junction voltage after limiting (Nagel 1975, section 4.3)."""
    if v <= critical or abs(v - before) <= 2 * vt:
        return v
    if before <= 0:
        return vt * np.log(v / vt)
    step = (v - before) / vt
    return before + vt * (2 + np.log(step - 2)) if step > 0 else before - vt * (2 + np.log(2 - step))


@given(st.sampled_from(MODELS), volts, volts)
def test_limits_of_junction_voltages(model, v, before):
    given, v, before = {"n": [1.0, 1.5]} | model, np.array(v), np.array(before)
    d = decks.devices(**given)
    limited, edges, critical_voltages = d.limited(v, before), knees(given), d.native.start()
    for k in range(2):
        vt, critical, edge = given["n"][k] * THERMAL, critical_voltages[k], edges[k]
        forward = one_limited(v[k], before[k], vt, critical)
        mirrored = one_limited(-v[k] - edge, -before[k] - edge, vt, critical)
        reverse = -mirrored - edge if v[k] < before[k] and mirrored != -v[k] - edge else v[k]
        assert limited[k] == pytest.approx(forward if forward != v[k] else reverse, rel=1e-12)
    assert (limited is v) == bool((limited == v).all())


@given(st.sampled_from(MODELS), volts)
def test_the_law_is_that_of_currents_and_charges(model, v):
    given, v = {"n": [1.0, 1.0]} | model, np.array(v)
    law, edge = decks.devices(**given).at(v), knees(given)
    with np.errstate(all="ignore"):
        broken = -np.exp(np.minimum(-(v + edge) / THERMAL, 200))
        blocked = -1 - (3 * THERMAL / (v * np.e)) ** 3      # SPICE's law, which ends at -1 like the exponential
    expected = np.where(v >= -3 * THERMAL, np.expm1(v / THERMAL), np.where(v >= -edge, blocked, broken)) * given.get("is", 1e-14)
    calm = (v < 3) & (v + edge > -3)
    assert np.allclose(law.current[calm], (expected + 1e-12 * v)[calm], rtol=1e-9, atol=1e-26)


@given(st.lists(st.floats(0, 30e-6), min_size=1, max_size=30), st.booleans())
def test_corners_and_steps_are_the_same_in_any_order(times, ascending):
    """The sources keep corners and steps from one look-up to the next."""
    text = ("V1 a 0 PULSE(0 1 1u 1u 2u 3u 9u)\nV2 b 0 SIN(0 1 100k 4u)\nV3 c 0 SIN(0 1 10k 2u 1e5)\nV4 d 0 PWL(0 0 5u 1 11u 0)\nV5 e 0 EXP(0 1 3u 1u 7u 1u)\nR1 a 0 1\n"
            "R2 b 0 1\nR3 c 0 1\nR4 d 0 1\nR5 e 0 1")
    netlist = ms.apps.circuit.parse(f"t\n{text}\n.end\n")._netlist
    make = lambda: Sources(netlist["v"], netlist.waveforms, 1e-6, 3e-5)
    kept = make().native
    for t in sorted(times) if ascending else times:
        fresh = make()
        assert kept.next_corner(t) == pytest.approx(min(wave.next_corner(t) for _, wave in fresh.waves), rel=1e-12)
        assert kept.longest_step(t) == fresh.native.longest_step(t)


@pytest.mark.parametrize("text, found", [
    ("V2 1 0 -3.38\nH1 3 1 V2 -3.7\nD4 3 0 da\n.model da d(rs=0.0722 bv=2.29474 n=1.54681 ibv=232u is=1.1e-16)", {"3": 1.578624}),
    ("H1 1 0 V1 -19.83\nD3 2 0 da\nF1 1 2 V1 -0.137\nD1 1 2 da\nD2 2 0 db\nR1 2 0 23.7\nV1 2 1 2.91\n.model da d(ibv=2.4m n=1.72 bv=5.706 rs=0.218919 is=4.48181e-13)\n.model db d(n=1.723 is=7.21e-14 rs=0.6437)",
     {"1": -8.880283, "2": -5.970283})])
def test_operating_points_beyond_a_fold(text, found, deck):
    """Source stepping reaches a fold, and gmin stepping must begin above 0.01 S.

    ngspice starts from conducting junctions and adapts the steps of gmin."""
    v = deck(text).op()
    assert {name: pytest.approx(volt, abs=1e-5) for name, volt in found.items()} == {name: v[name] for name in found}
