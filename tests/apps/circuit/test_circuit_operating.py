"""Operating points compared with formulas and published voltages, and the errors of circuits without one."""

import pathlib
import re
import sys

import numpy as np
import pytest
import scipy.optimize

import meshsolve as ms

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from decks import TAU, THERMAL


def dense_grid(n, seed):
    """A random network of conductances with a source at node 0: the deck, and its node voltages by dense algebra."""
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


def test_names_of_signals(deck):
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
    """A to Z become lower case, other letters do not change."""
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
    """As conductances they would cancel the digits of the others: an error of 40 ppm at 1 nOhm."""
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
def test_a_diode_between_nodes_of_high_voltage(volt, anode, cathode, deck):
    """A tolerance relative to the node voltages would double the junction current. Forward, and in breakdown at 3 V."""
    v = deck(f"V1 a 0 {volt}\nR1 a b 1\nD1 {anode} {cathode} dm\nR2 c 0 1\n.model dm d(is=1e-14 bv=3)").op()
    drop = v[anode] - v[cathode]
    offset = 3 - THERMAL * np.log(1e-3 / 1e-14)                 # breakdown voltage for 1 mA at 3 V
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
    """Conductances change by fifteen decades, so the scaling of the first matrix does not suit later ones."""
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
    ("V1 a 0 1\nV2 a 0 2\nR1 a 0 1", None, "v2 and v1 form a loop of voltage sources"),
    ("V1 a 0 1\nL1 a 0 1u\nR1 a 0 1", None, "l1 and v1 form a loop of voltage sources and inductors"),
    ("V1 a 0 1\nR1 a 0 1\nV3 a a 1", None, "deck.sp:4: both ends of v3 are the same node, a, but its voltage is not 0"),
    ("V1 a 0 1\nR1 a 0 1\nL1 0 gnd 1", -1, "both ends of l1 are the same node, ground"),
    ("V1 a 0 1\nL1 a b 1\nV2 b c 1\nR1 a 0 1\nV3 c 0 1\nV4 d 0 1\nR2 d 0 1", None, "v3 and v2 and l1 and v1 form a loop"),
    ("V1 a 0 1\nR1 a 0 1\nG1 b 0 a 0 1\nC1 b 0 1u", 1, "singular at node b"),
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
    """An error, not infinity or NaN in results and tables."""
    with pytest.raises(ms.InvalidInputError, match=f"deck.sp: values are too large or too small for double precision at {words}"):
        deck(text).op()


@pytest.mark.filterwarnings("ignore")
def test_waveforms_and_frequencies_out_of_range(deck):
    w = deck("V1 a 0 SIN(0 1 1k 0 -1e9) AC 1\nR1 a b 1\nC1 b 0 1\nD1 0 b dm\n.model dm d")
    for call in (lambda: w.ac("lin", 1, 1e308, 1e308), lambda: deck("V1 a 0 SIN(0 1 1k 0 -1e9)\nR1 a 0 1").transient(1e-6, 1e-3)):
        with pytest.raises(ms.InvalidInputError, match="deck.sp: values are too large or too small"):
            call()
    with pytest.raises(ms.MeshsolveError, match="deck.sp: no operating point"):
        deck("V1 a 0 1e308\nR1 a b 1e-9\nD1 b 0 dm\n.model dm d").op()


def test_a_gyrator_needs_no_resistor(deck):
    """Two controlled current sources without a resistor have one solution."""
    v = deck("I1 0 a 1m\nG1 a 0 b 0 2m\nG2 0 b a 0 2m\nI2 0 b 2m").op()
    assert (v["b"], v["a"]) == (pytest.approx(0.5), pytest.approx(-1.0))


def test_the_published_solution_of_a_power_grid(data_dir):
    import gzip

    v = ms.apps.circuit.read(data_dir / "netlists" / "ibmpg1.spice.gz").op()
    with gzip.open(data_dir / "netlists" / "ibmpg1.solution.gz", "rt") as f:
        pairs = [line.split()[:2] for line in f]
    assert max(abs(v[node] - float(value)) for node, value in pairs if node not in ("G", "0")) < 1e-5


@pytest.mark.slow
def test_the_power_grid_over_time(data_dir):
    circuit = ms.apps.circuit.read(data_dir / "netlists" / "ibmpg1t.spice.gz")
    w, names = circuit.run("tran")
    assert len(w.time) == 1001 and len(names) == len(w) == 20
    first = circuit.op()
    assert all(w[n][0] == pytest.approx(first[n], abs=1e-9) for n in names) and max(np.ptp(w[n]) for n in names) > 0.01


def test_the_matrix_of_the_equations(deck):
    A = deck("V1 a 0 2\nR1 a b 1k\nC1 b 0 1u\nD1 b 0 dm\n.model dm D(IS=1e-12)").matrix().toarray()
    branch, capacitor = 1e-3, 2e6 * np.pi * 1e-6
    assert np.allclose(A, [[branch, -branch, 1], [-branch, branch + capacitor + 1e-3, 0], [1, 0, 0]], atol=1e-15)
