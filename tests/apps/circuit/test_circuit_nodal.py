"""Operating points by Cholesky and by ParAC compared with LU of the modified nodal equations, and the choice among them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve.apps.circuit import choice
from meshsolve.apps.circuit.nodal import Forest

METHODS = ["cholesky", "parac"]
FILES = ["ibmpg1.spice.gz", "irdrop_map38.sp.gz", "irdrop_testcase1.sp.gz", "irdrop_testcase2.sp.gz", "irdrop_testcase11.sp.gz",
         "irdrop_testcase13.sp.gz"]


def random_circuit(seed, n=12):
    """A deck with a spanning tree of R, L and V, whose rest is R, C and I: no loop of ideal branches, and a path to ground."""
    rng, lines = np.random.default_rng(seed), []
    value = {"r": lambda: 10 ** rng.uniform(-2, 4), "l": lambda: 1e-6, "c": lambda: 1e-9, "i": lambda: rng.normal(),
             "v": lambda: rng.choice([0.0, 1.8, rng.normal()])}
    kinds = rng.choice(list("rlv"), n, p=rng.dirichlet([1, 1, 1]))
    tree = [(kind, k, int(rng.integers(k))) for k, kind in enumerate(kinds, 1)]
    others = [(rng.choice(list("rci")), *rng.integers(0, n + 1, 2).tolist()) for _ in range(int(rng.integers(0, 3 * n)))]
    for k, (kind, a, b) in enumerate(tree + others):
        a, b = (a, b) if rng.random() < 0.5 else (b, a)
        lines.append(f"{kind}{k} {a} {b} {float(value[kind]())!r}")
    return "a test\n" + "\n".join(lines) + "\n.end\n"


def grid(n, supply="Vdd m0_0 0 1.1"):
    """n x n nodes with a load at each."""
    lines = [f"R{k}{i}_{j} m{i}_{j} m{i + (k == 0)}_{j + (k == 1)} 0.1" for i in range(n) for j in range(n) for k in (0, 1)
             if (i, j)[k] + 1 < n]
    lines += [f"I{i}_{j} m{i}_{j} 0 {1e-4 * (1 + (3 * i + 5 * j) % 7)}" for i in range(n) for j in range(n)]
    return ms.apps.circuit.parse("\n".join(["a grid", *lines, supply, ".end\n"]))


def close(v, reference, tolerance):
    assert list(v) == list(reference)
    size = max(1.0, *(abs(x) for x in reference.values()))
    for name, value in reference.items():
        assert v[name] == pytest.approx(value, abs=tolerance * size), name


@given(seed=st.integers(0, 2**32 - 1))
def test_random_circuits(seed):
    circuit = ms.apps.circuit.parse(random_circuit(seed))
    reference = circuit.op(solver="lu")
    close(circuit.op(solver="cholesky"), reference, 1e-8)
    close(circuit.op(solver="parac"), reference, 1e-5)


@pytest.mark.filterwarnings("ignore:.*the first line, a title in SPICE")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("method", METHODS)
def test_power_grids(name, method, data_dir):
    circuit = ms.apps.circuit.read(data_dir / "netlists" / name)
    v, reference = circuit.op(solver=method), circuit.op(solver="lu")
    assert np.abs(v.voltages - reference.voltages).max() < {"cholesky": 1e-11, "parac": 1e-9}[method]
    currents = np.array([[r[k] for k in r if k.startswith("i(")] for r in (v, reference)])
    assert np.abs(currents[0] - currents[1]).max() < {"cholesky": 1e-10, "parac": 1e-8}[method]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("text", [
    "V1 a 0 1\nV2 a b 0\nR1 b 0 2",                                                             # no unknown is left
    "V1 a 0 1\nL1 a b 1u\nL2 b c 1u\nR1 c 0 4\nR2 b d 1\nV2 d e 0.5\nR3 e 0 2",                  # chains of shorts
    "V1 p 0 3\nR1 p a 1\nR2 a 0 1\nV2 q 0 -2\nR3 q b 1\nR4 b 0 3\nV3 a x 10\nR5 x 0 100",         # two rails, a floating source
    "V1 a b 5\nR1 a 0 1\nR2 b 0 1\nV2 c d 1\nR3 c a 1\nR4 d b 7\nI1 0 d 1m",                      # no source at ground
    "R1 a 0 1\nI1 0 a 2\nR2 b 0 1\nI2 b 0 1\nC1 a b 1u",                                         # no ideal branch at all
    "R1 a 0 1e3\nR2 a 0 1e3\nR3 0 gnd 5\nV1 b 0 1\nR4 b b 2\nI1 0 a 1",                           # parallel, and without effect
    "V1 a 0 1\nC1 a 0 1u"])
def test_small_circuits(text, method, deck):
    circuit = deck(text)
    reference = circuit.op(solver="lu")
    close(circuit.op(solver=method), reference, 1e-9 if method == "cholesky" else 1e-6)


def test_a_chain_of_sources_is_summed_without_a_loop_over_nodes(deck):
    n = 3000
    circuit = deck("\n".join(f"V{k} {k + 1} {k} {1 if k % 3 else 0}" for k in range(n)) + f"\nR1 {n} 0 2\nI1 0 {n // 2} 1")
    v = circuit.op(solver="cholesky")
    steps = np.cumsum([1 if k % 3 else 0 for k in range(n)])
    assert np.array_equal([v[str(k + 1)] for k in range(n)], steps)
    assert v["i(v0)"] == pytest.approx(1 - steps[-1] / 2) and v[f"i(v{n - 1})"] == pytest.approx(-steps[-1] / 2)
    assert len(Forest(n, np.array([[k, k - 1] for k in range(n)]))._ancestors) == 12


def test_drops_keep_their_digits_behind_resistive_pads():
    """The error is far below that of a tolerance relative to the supply voltage."""
    circuit = grid(40, "Vdd p 0 1000\nRp p m0_0 1u\nRq p m39_39 1u")
    v = circuit.op(solver="parac")
    exact = grid(40, "Vdd p 0 0\nRp p m0_0 1u\nRq p m39_39 1u").op(solver="cholesky")
    drops = np.array([1000 - v[f"m{i}_{i}"] for i in range(40)]), np.array([-exact[f"m{i}_{i}"] for i in range(40)])
    assert np.abs(drops[0] - drops[1]).max() < 1e-8 and drops[1].max() > 1e-3 and v.report.facts["iterations"] < 60


@pytest.mark.parametrize("method", METHODS)
def test_sweeps_factor_once(method, deck):
    circuit = deck("V1 a 0 1\nR1 a b 1\nR2 b c 2\nR3 c 0 3\nI1 0 c 1\nR4 b 0 5")
    for source in ("v1", "i1"):
        w, reference = (circuit.dc(source, -2, 2, 0.5, solver=s) for s in (method, "lu"))
        assert np.allclose(w["c"], reference["c"], atol=1e-7) and np.allclose(w["i(v1)"], reference["i(v1)"], atol=1e-7)
        assert w.report.counts["analyze"] == 1 and w.report.counts["solve"] == 9


def test_samples_of_one_circuit_have_the_bits_of_a_new_factor():
    """Earlier samples have no effect on results, and each sample costs one refactorization."""
    circuit = grid(40)
    values = {name: 0.1 + 1e-3 * (k % 17) for k, name in enumerate(n for n in circuit.values if n.startswith("r"))}
    sample = circuit.with_values(values)
    first = sample.op().voltages
    circuit.with_values(dict.fromkeys(values, 0.3)).op()
    again = sample.op()
    assert again.report.facts["solver"] == "cholesky" and again.report.counts["refactor"] == 1 and "analyze" not in again.report.counts
    assert np.array_equal(again.voltages, first) and np.allclose(first, circuit.with_values(values).op(solver="lu").voltages, atol=1e-12)


def test_the_choice_and_its_report():
    v = grid(10).op()
    assert v.report.facts["solver"] == "lu" and v.report.facts["solver_reason"] == "fewer than 1,000 nodes"
    v = grid(40).op()
    assert v.report.facts["solver"] == "cholesky" and v.report.facts["solver_reason"] == "fewer than 20,000 unknowns"
    assert "solver_reason" in str(v.report) and v.report.as_dict()["solver"] == "cholesky"
    assert grid(10).op(solver="parac").report.facts["solver_reason"] == "requested"


@pytest.mark.parametrize("size, method", [
    ((900, 900, 4, 1), "lu"), ((19_000, 19_000, 8, 1), "cholesky"), ((90_000, 90_000, 4, 1), "cholesky"), ((400_000, 400_000, 4, 1), "parac"),
    ((400_000, 400_000, 4, 100), "cholesky"), ((90_000, 90_000, 6, 1), "parac"), ((90_000, 90_000, 6, 3), "cholesky"),
    ((400_000, 19_000, 4, 1), "cholesky"), ((90_000, 90_000, 6, 2), "parac")])
def test_the_rules(size, method):
    assert next(m for m, _, fits in choice.RULES if fits(choice.Size(*size))) == method


@pytest.mark.parametrize("element, words", [
    ("D1 a 0 dm\n.model dm d", "deck.sp:4: d1 is nonlinear"), ("E1 b 0 a 0 2\nR2 b 0 1", "e1 is a controlled source"),
    ("G1 a 0 b 0 2\nR2 b 0 1", "g1 is a controlled source"), ("F1 a 0 v1 2", "f1 is a controlled source"),
    ("H1 b 0 v1 2\nR2 b 0 1", "h1 is a controlled source"), ("R2 a 0 -5", "deck.sp:4: r2 is negative"),
    ("L1 a b -1u\nR2 b 0 1", "l1 is negative"), ("R2 a b 1e-12\nR3 b 0 1k", "r2 is far smaller than the largest resistance")])
def test_circuits_that_need_lu(element, words, deck):
    circuit = deck(f"V1 a 0 1\nR1 a 0 1k\n{element}")
    assert words in circuit.op().report.facts["solver_reason"] and circuit.op().report.facts["solver"] == "lu"
    for method in METHODS:
        with pytest.raises(ms.InvalidInputError, match=f"{words}: solver='{method}' needs positive R, C and L"):
            circuit.op(solver=method)
    with pytest.raises(ms.DeviceUnavailableError, match=f"{words}: LU is needed, which runs on the CPU only"):
        circuit.op(device="cuda")
    with pytest.raises(ms.InvalidInputError, match=words):
        circuit.dc("v1", 0, 1, 1, solver="cholesky")


def test_bad_options(deck):
    circuit = deck("V1 a 0 1\nR1 a b 1\nR2 b 0 1")
    with pytest.raises(ms.InvalidInputError, match="solver must be"):
        circuit.op(solver="klu")
    with pytest.raises(ms.InvalidInputError, match="device must be"):
        circuit.op(device="tpu")
    with pytest.raises(ms.DeviceUnavailableError, match='LU of circuits runs on the CPU only in this version: use device="cpu"'):
        circuit.op(solver="lu", device="cuda")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("text, words", [
    ("V1 a 0 1\nV2 a 0 2\nR1 a 0 1", "v2 and v1 form a loop of voltage sources"), ("V1 a 0 1\nR1 a 0 1\nI1 0 b 1\nC1 b 0 1", "node b has no path"),
    ("V1 a 0 1\nL1 a 0 1u\nR1 a 0 1", "l1 and v1 form a loop of voltage sources and inductors")])
def test_the_topology_is_checked_first(text, words, method, deck):
    with pytest.raises(ms.SingularMatrixError, match=words):
        deck(text).op(solver=method)


@pytest.mark.parametrize("method", METHODS)
def test_values_out_of_range(method, deck):
    for text in ("I1 0 a 1e300\nR1 a 0 1e300", "V1 a 0 1e300\nR1 a b 1e-300\nR2 b 0 1e-300", "R1 a 0 1e-308\nR2 a 0 1e-308\nR3 a 0 1e-308"):
        words = "values are too large or too small for double precision|conjugate gradients did not reach"
        with pytest.raises(ms.InvalidInputError if method == "cholesky" else ms.MeshsolveError, match=words):
            deck(text).op(solver=method)


def test_a_conductance_that_is_lost_to_rounding(deck):
    with pytest.raises(ms.SingularMatrixError, match="deck.sp: the equations are singular to working precision at node b"):
        deck("R1 a b 1e-5\nR2 b 0 1e14\nI1 0 a 1").op(solver="cholesky")


def test_conjugate_gradients_without_convergence(deck, monkeypatch):
    monkeypatch.setattr("meshsolve.apps.circuit.nodal._Watch.is_settled", lambda self: False)
    monkeypatch.setattr("meshsolve.krylov.cg", lambda A, b, **k: (b, ms.krylov.Info))
    monkeypatch.setattr("meshsolve.krylov.Info.converged", False, raising=False)
    with pytest.raises(ms.MeshsolveError, match="conjugate gradients did not reach 1e-09 V"):
        deck("R1 a 0 1\nR2 a b 1\nI1 0 a 1").op(solver="parac")


@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_on_the_gpu(method, cuda):
    """Cholesky and ParAC factor and solve on the GPU: operating points, a sweep, and samples that refactor."""
    circuit = grid(9, "Vdd m0_0 p 1.1\nRp p x 0.01\nV2 x 0 0\nL1 m8_8 y 1n\nR1 y 0 500")
    v, reference = circuit.op(solver=method, device="cuda"), circuit.op(solver="lu")
    close(v, reference, 1e-9)
    assert v.report.facts["device"] == "cuda" and v.report.facts["solver"] in METHODS
    w = circuit.dc("vdd", 0, 1, 0.5, solver=method, device="cuda")
    assert np.allclose(w["m8_8"], circuit.dc("vdd", 0, 1, 0.5, solver="lu")["m8_8"], atol=1e-9)
    sample = circuit.with_values({"r1": 300.0})
    for _ in range(2):
        close(sample.op(solver=method, device="cuda"), sample.op(solver="lu"), 1e-9)


RLC = "V1 a 0 PULSE(0 1 0 1n 1n 1 2)\nR1 a b 10\nL1 b c 1u\nC1 c 0 1n\nV2 c d 0\nR2 d 0 1k\nC2 d e 2n\nR3 e 0 5\nI1 0 e SIN(0 1m 1meg)"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [{}, {"fixed_step": True}, {"method": "be"}, {"uic": True}], ids=str)
def test_time_steps(method, options, deck):
    """The same steps and results as by LU."""
    circuit = deck(RLC)
    w, reference = (circuit.transient(1e-8, 2e-6, solver=s, **options) for s in (method, "lu"))
    assert list(w) == list(reference) and np.array_equal(w.time, reference.time)
    for name in w:
        assert np.allclose(w[name], reference[name], atol=1e-11 if method == "cholesky" else 1e-6), name
    assert w.report.facts["solver"] == method and w.report.facts["time_steps"] == reference.report.facts["time_steps"]


def test_a_constant_step_has_one_factor_at_rest_and_two_for_steps(deck):
    w = deck(RLC).transient(1e-8, 2e-6, solver="cholesky", fixed_step=True)
    assert w.report.counts["analyze"] == 2 and "refactor" not in w.report.counts and w.report.facts["time_steps"] == 200
    assert deck(RLC).transient(1e-8, 1e-6).report.facts["solver_reason"] == "time steps on the CPU"


@pytest.mark.parametrize("element, words", [("C9 d 0 -1p", "c9 is negative"), ("L9 d 0 0", "l9 is 0"), ("D1 d 0 dm\n.model dm d", "d1 is nonlinear")])
def test_time_steps_that_need_lu(element, words, deck):
    with pytest.raises(ms.InvalidInputError, match=words):
        deck(f"{RLC}\n{element}").transient(1e-8, 1e-6, solver="cholesky", uic=True)


def test_held_voltages_at_the_start(deck):
    circuit = deck(RLC + "\n.ic v(d)=0.3")
    w, reference = (circuit.transient(1e-8, 1e-6, solver=s) for s in ("cholesky", "lu"))
    assert np.allclose(w["d"], reference["d"], atol=1e-11) and w["d"][0] == pytest.approx(0.3, abs=1e-6)


def test_time_steps_on_the_gpu(deck, cuda):
    w, reference = (deck(RLC).transient(1e-8, 2e-7, solver=s, device=d, fixed_step=True) for s, d in (("auto", "cuda"), ("lu", "cpu")))
    assert w.report.facts["solver"] == "cholesky" and w.report.facts["device"] == "cuda"
    assert np.allclose(w["d"], reference["d"], atol=1e-11)
