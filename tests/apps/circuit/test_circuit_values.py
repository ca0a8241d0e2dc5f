"""Decks given as text, and parameters and values given from Python, compared with decks that have these values."""

import concurrent.futures
import copy
import pickle

import numpy as np
import pytest
from cases import each

import meshsolve as ms

circuit = ms.apps.circuit
DIVIDER = "a divider\nV1 in 0 {u} AC 1\nR1 in out {r}\nR2 out 0 1k\nC1 out 0 {c}\n.param u=1 r=1k\n.param c=1u\n.end\n"


# ---- parse and params -------------------------------------------------------------------------------------------------------


def test_a_deck_given_as_text(tmp_path):
    (tmp_path / "deck.sp").write_text(DIVIDER)
    made, read = circuit.parse(DIVIDER), circuit.read(tmp_path / "deck.sp")
    assert made.title == "a divider" and made.nodes == read.nodes and dict(made.op()) == dict(read.op())
    assert made.transient(1e-5, 1e-4)["out"].tolist() == read.transient(1e-5, 1e-4)["out"].tolist()


def test_errors_in_a_text_name_its_lines():
    with pytest.raises(ms.InvalidInputError, match="^<text>:3: there is no model 'dm'"):
        circuit.parse("title\nR1 a 0 1\nD1 a 0 dm\n.end\n")
    with pytest.warns(ms.MeshsolveWarning, match="^<text>:2: the file ends within a line"):
        circuit.parse("title\nR1 a 0 1")


@pytest.mark.parametrize("text", [b"title\nR1 a 0 1\n.end\n", None, 3, ["title"]])
def test_a_deck_must_be_a_string(text):
    with pytest.raises(ms.InvalidInputError, match="the text of a deck must be a string, got"):
        circuit.parse(text)


def test_a_text_that_includes_a_file(tmp_path, monkeypatch):
    (tmp_path / "models.inc").write_text("R2 b 0 {r}\n.param r=3k\n")
    monkeypatch.chdir(tmp_path)
    text = "title\nV1 a 0 4\nR1 a b 1k\n.include models.inc\n.end\n"
    assert circuit.parse(text).op()["b"] == pytest.approx(3) and circuit.parse(text, {"R": 1e3}).op()["b"] == pytest.approx(2)


def test_the_error_of_a_text_as_path_names_parse(tmp_path):
    with pytest.raises(ms.InvalidInputError, match=r"the path of a deck must not contain line breaks.*circuit\.parse\(text\)"):
        circuit.read("* t\nR1 a 0 1\n.end\n")
    odd = tmp_path / "two\nlines.sp"
    odd.write_text(DIVIDER)
    assert circuit.read(str(odd)).op()["out"] == pytest.approx(0.5)


@pytest.mark.parametrize("params, volt", [({"u": 3}, 1.5), ({"U": 2, "R": 3e3}, 0.5), ({"r": np.float64(0.25e3)}, 0.8), ({}, 0.5), (None, 0.5),
                                          ({"u": -1e-30}, -5e-31), ({"u": np.int32(5)}, 2.5)])
def test_parameters(params, volt, tmp_path):
    (tmp_path / "deck.sp").write_text(DIVIDER)
    for made in (circuit.parse(DIVIDER, params), circuit.read(tmp_path / "deck.sp", params=params)):
        assert made.op()["out"] == pytest.approx(volt, rel=1e-12)


def test_parameters_used_by_other_parameters():
    text = "title\nV1 a 0 {u}\nR1 a 0 1\n.param u={2*w+1}\n.param w=1\n.end\n"
    assert circuit.parse(text, {"w": 2}).op()["a"] == 5 and circuit.parse(text, {"u": 4}).op()["a"] == 4


def test_parameters_of_subcircuits_keep_their_values():
    text = ("title\nV1 a 0 1\nX1 a b half\nR3 b 0 {r}\n.subckt half in out\n.param r=1k\nR1 in out {r}\n.ends\n.param r=1k\n.end\n")
    assert circuit.parse(text, {"r": 3e3}).op()["b"] == pytest.approx(0.75)
    only_inside = text.replace("{r}\n.subckt", "1k\n.subckt").replace(".ends\n.param r=1k", ".ends")
    with pytest.raises(ms.InvalidInputError, match="there is no parameter 'r'"):
        circuit.parse(only_inside, {"r": 1})


@pytest.mark.parametrize("lines", [
    ".param other=1\n+ u=1", ".PARAM other={1==1 ? 2 : 3}, u = 1", "  .params u=1 $ v=3", ".param other=1 ; x=1\n* between\n\n+ u=1 // y=1",
    ".control\n.end\nlet q=1\n.endc\n.param u=1"])
@pytest.mark.filterwarnings("ignore:.*the block from .control")
def test_how_a_deck_may_write_its_parameters(lines):
    text = f"title\nV1 a 0 {{u}}\nR1 a 0 1\n{lines}\n.end\nrest that is not read\n"
    assert circuit.parse(text).op()["a"] == 1 and circuit.parse(text, {"u": 7}).op()["a"] == 7
    for wrong in ("v", "x", "y", "q", "1"):
        with pytest.raises(ms.InvalidInputError, match=f"<text>: there is no parameter '{wrong}' in a .param line"):
            circuit.parse(text, {wrong: 7})


def test_given_parameters_change_no_line_numbers():
    text = "title\nV1 a 0 {u}\n.param u=1\nR1 a 0 0\nR2 a b 1\n.end\n"
    v = circuit.parse(text, {"u": 2})
    assert v._netlist.where("r", 0) == "<text>:5"
    with pytest.warns(ms.MeshsolveWarning, match="ends within a line"):
        assert circuit.parse("title\nV1 a 0 {u}\n.param u=1\nR1 a 0 1", {"u": 2}).op()["a"] == 2


@each("params, words", [
    ({"uu": 1}, "there is no parameter 'uu' .*: did you mean 'u'"), ({"u": np.nan}, "the parameter u .* a finite number"), ({"u": "1k"}, "finite number, (not|got) '1k'"),
    ({"u": True}, "finite number"), ({"u": np.inf}, "finite number"), ({"u": None}, "finite number"), ({"u": 1j}, "finite number"), ([("u", 1)], "params must be a mapping"),
    ({1: 1}, "parameter names must be strings, got 1"), ({"u": 1, "U ": 2}, "params has 'U ' twice"), ({"a b": 1}, "there is no parameter 'a b'"),
    ({"u=2 r": 1}, "there is no parameter 'u=2 r'"), ({"u\n.end": 1}, "there is no parameter"), ({"": 1}, "there is no parameter ''"), ({"ü": 1}, "there is no parameter 'ü'")])
def test_wrong_parameters(params, words):
    with pytest.raises(ms.InvalidInputError, match=words):
        circuit.parse(DIVIDER, params)


# ---- values of elements -----------------------------------------------------------------------------------------------------


ALL = """everything
V1 a 0 {v1} AC 1
V2 s 0 SIN(0 1 1k)
I1 0 b {i1}
R1 a b {r1}
R2 b 0 2k
C1 b 0 {c1}
L1 b m {l1}
R3 m 0 1k
E1 e 0 b 0 {e1}
R4 e 0 1k
G1 0 g b 0 {g1}
R5 g 0 1k
F1 0 f V1 {f1}
R6 f 0 1k
H1 h 0 V1 {h1}
R7 h d 1k
D1 d 0 dm {d1}
.model dm d(is=1e-12 rs=10 cjo=10p)
X1 s t cell
.subckt cell p q
R1 p q 1k
C1 q 0 1u
.ends
.end
"""
NOMINAL = {"v1": 5.0, "i1": 1e-3, "r1": 1e3, "c1": 1e-6, "l1": 1e-3, "e1": 2.0, "g1": 1e-3, "f1": 3.0, "h1": -500.0, "d1": 1.0}
OTHER = {"v1": 3.0, "i1": 2e-3, "r1": 2e3, "c1": 2e-6, "l1": 2e-3, "e1": -1.0, "g1": 2e-3, "f1": 2.0, "h1": -900.0, "d1": 3.0}


def written(values):
    return circuit.parse(ALL.format(**{name: repr(value) for name, value in values.items()}))


def agree(a, b):
    return all(np.allclose(a[name], b[name], rtol=1e-9, atol=1e-12) for name in b)


@pytest.mark.parametrize("names", [*([name] for name in NOMINAL), list(NOMINAL)], ids="-".join)
def test_with_values_equals_a_deck_of_these_values(names):
    changed = {name: OTHER[name] for name in names}
    got, expected = written(NOMINAL).with_values(changed), written(NOMINAL | changed)
    assert agree(got.op(), expected.op())
    assert agree(got.ac("dec", 2, 10, 1e5), expected.ac("dec", 2, 10, 1e5))
    assert agree(got.transient(1e-5, 2e-4, uic=True), expected.transient(1e-5, 2e-4, uic=True))
    assert agree(got.dc("i1", 0, 1e-3, 5e-4), expected.dc("i1", 0, 1e-3, 5e-4))


def test_the_first_circuit_stays_as_it_is():
    first = written(NOMINAL)
    before = dict(first.op())
    other = first.with_values(OTHER)
    assert dict(other.op()) != before and dict(first.op()) == before and first.values["r1"] == 1e3 and other.values["r1"] == 2e3
    back = other.with_values(NOMINAL)
    assert agree(back.op(), before) and back.values == first.values


def test_values():
    values = written(NOMINAL).values
    assert NOMINAL.items() <= values.items() and values["x1.r1"] == 1e3 and "v2" not in values and len(values) == 18
    assert written(NOMINAL).with_values({" X1.R1 ": 5, "C1": 1}).values == values | {"x1.r1": 5.0, "c1": 1.0}
    assert circuit.parse("t\nV1 a 0 1\nR1 a 0 0\nR2 a 0 1\n.end\n").values == {"v1": 1.0, "r2": 1.0}


def test_copies_refactor_without_an_analysis():
    first = written(NOMINAL)
    first.with_values(OTHER).op()
    for k in range(3):
        facts = first.with_values({"r1": 100.0 + k}).op().report.facts
        assert "analyses" not in facts and facts["refactorizations"] >= 1
    linear = circuit.parse(DIVIDER)
    calls = (lambda c: c.op(), lambda c: c.ac("lin", 3, 10, 30), lambda c: c.transient(1e-5, 1e-3), lambda c: c.dc("v1", 0, 1, 0.5))
    for call in calls:
        call(linear.with_values({"r1": 2e3}))
        assert "analyses" not in call(linear.with_values({"r1": 3e3})).report.facts


def test_copies_do_not_repeat_warnings(recwarn):
    first = circuit.parse("t\nV1 a 0 1\nR1 a b 1k\nD1 b 0 dm\n.model dm d(is=1e-12 foo=1)\n.end\n")
    assert len(recwarn) == 1
    first.with_values({"d1": 2.0}).with_values({"r1": 2.0}).op()
    assert len(recwarn) == 1 and dict(first.with_values({}).op()) == pytest.approx(dict(first.op()))


def test_the_topology_is_checked_once(monkeypatch):
    from meshsolve.apps.circuit import topology

    looked, check = [], topology.check
    monkeypatch.setattr(topology, "check", lambda netlist: (looked.append(1), check(netlist)))
    first = circuit.parse(DIVIDER)
    for k in range(3):
        first.with_values({"r1": 1.0 + k}).op()
    assert len(looked) == 1
    floating = circuit.parse("t\nV1 a 0 1\nR1 a 0 1\nC1 a b 1\nC2 b 0 1\n.end\n")
    for _ in range(2):
        with pytest.raises(ms.SingularMatrixError, match="node b has no path"):
            floating.with_values({"r1": 2}).op()


def test_results_do_not_depend_on_the_samples_before():
    """The same bits in any order and on several threads."""
    rng = np.random.default_rng(3)
    samples = [{name: value * rng.uniform(0.5, 2) for name, value in NOMINAL.items()} for _ in range(12)]

    def results(order, threads=1):
        first = written(NOMINAL)
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(lambda k: dict(first.with_values(samples[k]).op()), order))
        return {k: v for k, v in zip(order, found)}

    expected = results(range(12))
    assert results(range(11, -1, -1)) == expected and results(range(12), threads=4) == expected


def test_copies_of_copies_and_pickles():
    first = written(NOMINAL)
    one = first.with_values({"r1": 2e3})
    two = one.with_values({"c1": 2e-6})
    expected = dict(written(NOMINAL | {"r1": 2e3, "c1": 2e-6}).op())
    for again in (two, pickle.loads(pickle.dumps(two)), copy.deepcopy(two)):
        assert agree(again.op(), expected) and again.values["c1"] == 2e-6


def test_a_resistance_that_becomes_tiny():
    """Its current becomes an unknown: the unknowns change, and the copy shares nothing."""
    first = circuit.parse("t\nV1 a 0 1\nR1 a b 1k\nR2 b c 1\nR3 c 0 1k\n.end\n")
    tiny = first.with_values({"r2": 1e-9})
    assert tiny.op()["b"] == pytest.approx(0.5, rel=1e-9) and tiny._system.n == first._system.n + 1
    assert tiny.with_values({"r2": 1e3, "r1": 2e3}).op()["b"] == pytest.approx(0.5) and first.op()["b"] == pytest.approx(1001 / 2001)
    assert tiny.with_values({"r1": 3e3}).op()["c"] == pytest.approx(0.25, rel=1e-9)


def test_a_first_circuit_whose_matrix_is_singular():
    """There is no analysis to share: each copy has its own."""
    first = circuit.parse("t\nV1 a 0 1\nR1 a 0 1\nG1 b 0 a 0 1\nG2 b 0 b 0 0\nR2 b c 1k\nR3 c b 1k\n.end\n")
    with pytest.raises(ms.SingularMatrixError):
        first.op()
    assert first.with_values({"g2": 2.0}).op()["b"] == pytest.approx(-0.5)


@each("values, words", [
    ({"rx1": 1}, "<text>: there is no element 'rx1': did you mean"), ({"r1": np.nan}, "the value of r1 .* a finite number, (not|got) nan"), ({"r1": "1k"}, "finite number, (not|got) '1k'"),
    ({"r1": True}, "finite number"), ({"r1": None}, "finite number"), ({"c1": np.inf}, "finite number"), ({"r1": 10**400}, "finite number"), ({"r1": np.ones(2)}, "finite number"),
    ({3: 1}, "element names must be strings, got 3"), ({"r1": 1, "R1": 2}, "'R1' is given twice"), ([("r1", 1)], "values must be a mapping"),
    ({"r1": 0}, "<text>:5: r1 cannot be 0: a resistor of 0 ohm"), ({"d1": 0}, "<text>:18: d1 cannot be 0: the area of a diode must be positive"), ({"d1": -1}, "d1 cannot be -1"),
    ({"d1": 1e200}, "area of d1"), ({"v2": 1}, "<text>:3: v2 has a waveform"), ({"x1": 1}, "there is no element 'x1'")])
def test_wrong_values(values, words):
    first = written(NOMINAL)
    with pytest.raises(ms.InvalidInputError, match=words):
        first.with_values({"r2": 5.0} | values if isinstance(values, dict) else values)
    assert first.values["r2"] == 2e3


def test_a_resistor_of_0_ohm_keeps_its_value():
    first = circuit.parse("t\nV1 a 0 1\nR1 a b 0\nX1 b c sub\nR2 c 0 1\n.subckt sub p q\nR1 p q 0\n.ends\n.end\n")
    for name in ("r1", "x1.r1"):
        with pytest.raises(ms.InvalidInputError, match=f"{name} is 0 ohm in the deck, a source of 0 V"):
            first.with_values({name: 1})


def test_an_operating_point_keeps_the_nodes_that_are_named(tmp_path):
    v = written(NOMINAL).op(nodes=["B", "i(v1)", "v(a,e)", "0"])
    whole = written(NOMINAL).op()
    assert list(v) == ["a", "b", "e", "i(v1)"] and all(v[name] == whole[name] for name in v) and v["v(a,e)"] == whole["v(a,e)"] and v["gnd"] == 0
    for wrong, words in (("g", "'g' was not kept"), ("zz", "no node 'zz'")):
        with pytest.raises(ms.InvalidInputError, match=words):
            v[wrong]
    with pytest.raises(ms.InvalidInputError, match="not all voltages were kept"):
        v.voltages                                          # noqa: B018
    v.to_csv(tmp_path / "op.csv")
    assert (tmp_path / "op.csv").read_text().splitlines()[1:] == [f"{head},{v[name]!r}" for head, name in (("v(a)", "a"), ("v(b)", "b"), ("v(e)", "e"), ("i(v1)", "i(v1)"))]
    v.plot(tmp_path / "op.png")
    with pytest.raises(ms.InvalidInputError, match="there is no node 'zz'"):
        written(NOMINAL).op(nodes=["zz"])
    assert written(NOMINAL).op(nodes=whole.nodes).voltages.tolist() == whole.voltages.tolist()
