"""Decks in the syntax of other simulators: meaning, warnings for ignored lines, and errors for unsupported ones."""

import pathlib
import re
import sys
import warnings

import numpy as np
import pytest
from cases import each

import meshsolve as ms

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from syntax import OURS, SYNTAX, I, R, V

pytestmark = pytest.mark.native
circuit = ms.apps.circuit


def parsed(body, title="a deck"):
    return circuit.parse(f"{title}\n{body.strip()}\n.end\n")


def error_of(body):
    with pytest.raises(ms.InvalidInputError) as caught:
        parsed(body)
    return str(caught.value)


@each("name", SYNTAX | OURS)
def test_operating_points(name):
    body, volt = (SYNTAX | OURS)[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ms.MeshsolveWarning)
        assert parsed(body).op()["n"] == pytest.approx(volt, rel=1e-5 if "D" in name else 1e-9, abs=1e-12)


# ---- titles ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", ["Bob's divider", "A divider {first draft", 'The "old" divider', "5' of cable", "", "* comment", "R1 a 0 5", "R1 n {x 5", "$ money", "V1 n 0 dc=2", "=", "'", "{"])
def test_a_title_is_not_parsed(title, recwarn):
    c = parsed("R1 n 0 2\nI1 0 n 1", title)
    assert c.op()["n"] == 2 and c.title == title and not len(recwarn)


@pytest.mark.parametrize("title", [".include nowhere.inc", ".param x=1", ".subckt s", ".control", ".end", ".lib nowhere.lib"])
def test_a_title_like_a_control_line_is_warned_about(title):
    with pytest.warns(ms.MeshsolveWarning, match="<text>:1: the first line of a deck is its title: .* has no effect"):
        assert parsed("R1 n 0 2\nI1 0 n 1", title).op()["n"] == 2


def test_lines_that_continue_the_title_belong_to_it():
    with pytest.warns(ms.MeshsolveWarning, match=r"<text>:2: .* belongs to the title \(and 1 more\)"):
        c = parsed("+ R1 n 0 5\n* between\n+ more\nR1 n 0 2\nI1 0 n 1")
    assert c.op()["n"] == 2 and c.title == "a deck"


# ---- libraries ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def library(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Corner s.lib").write_text("* corners\n.lib typ\n.param r=3\n.lib 'parts/more.lib' base\n.endl typ\n.LIB FF\n.param r=4 s=0\n.endl\nR9 not read\n.lib cut\n.param r=1\n")
    (tmp_path / "self.lib").write_text(".lib a\n.lib self.lib b\n.endl\n.lib b\n.param r=8 s=0\n.endl\n.lib c\n.lib self.lib c\n.endl\n")
    (tmp_path / "plain.lib").write_text(".param r=5 s=0\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "more.lib").write_text(".lib 'base'\n.param s=1\n.endl\n")
    return lambda line: parsed(f"{line}\nI1 0 n 1\nR1 n 0 {{r+s}}")


@pytest.mark.parametrize("line, ohm", [
    (".lib 'Corner s.lib' typ", 4), ('.LIB "Corner s.lib" \'TYP\' ; typical', 4), (".lib 'Corner s.lib' ff $ fast", 4), (".lib self.lib a", 8), (".lib plain.lib", 5), (".lib 'plain.lib'", 5)])
def test_sections_of_libraries(line, ohm, library):
    assert library(line).op()["n"] == ohm


@pytest.mark.parametrize("line, words", [
    (".lib 'Corner s.lib' ss", "<text>:2: Corner s.lib has no section 'ss'"), (".lib self.lib c", "self.lib:8: section 'c' of self.lib includes itself"), (".lib none.lib x", "<text>:2: none.lib: there is no such file"),
    (".lib", "<text>:2: .lib needs the name of a file"), (".lib 'Corner s.lib' cut", "Corner s.lib:10: .lib cut has no .endl: was the file cut?"), (".endl", "<text>:2: .endl without .lib")])
def test_wrong_sections(line, words, library):
    with pytest.raises(ms.InvalidInputError, match=re.escape(words)):
        library(line)


def test_sections_of_a_file_read_whole_are_ignored():
    with pytest.warns(ms.MeshsolveWarning, match="<text>:2: a section of a library is ignored"):
        assert parsed(".lib slow\nR1 n 0 7\n.endl\nR1 n 0 2\nI1 0 n 1").op()["n"] == 2


# ---- subcircuits ----------------------------------------------------------------------------------------------------------


PARTS = """
.subckt part a b c
R1 a m 1k
C1 m b 1u ic=0.5
L1 b d 1m ic=2m
R4 d c 10
D1 m c dm
G1 a b m c 1m
Vs m p 0
R2 p b 3k
F1 b c Vs 2
H1 q c Vs 100
R3 q b 2k
B1 c b i={v(a)/1k+i(Vs)}
I1 c a PULSE(0 1m 0 1u 1u 1)
.ends
.model dm d(is=1e-12 rs=1 cjo=1n)
V1 x 0 1 AC 1
Rl y 0 500
Rk z 0 200
"""


@pytest.mark.parametrize("copies", [2, 3])
def test_m_is_that_many_subcircuits_in_parallel(copies):
    one = parsed(f"{PARTS}Xa x y z part m={copies}")
    many = parsed(PARTS + "\n".join(f"X{k} x y z part" for k in range(copies)))
    for run in (lambda c: c.op(), lambda c: c.ac("dec", 2, 10, 1e5), lambda c: c.transient(1e-5, 2e-3), lambda c: c.transient(1e-5, 1e-4, uic=True)):
        a, b = run(one), run(many)
        for node in "xyz":
            assert np.allclose(a[node], b[node], rtol=2e-3, atol=1e-5), node


def test_nodes_that_only_pins_name_are_no_nodes():
    c = parsed("V1 1 0 1\nX1 1 nc t\nR3 1 q 1\nR4 q 0 1\n.subckt t a c\nX1 a c s\n.ends\n.subckt s a c\nR2 a d 1\nR1 d 0 1\n.ends")
    assert c.nodes == ["1", "x1.x1.d", "q"] and c.op()["q"] == 0.5


@pytest.mark.parametrize("body, words", [
    ("X1 n q s\nV2 q 0 1\n.subckt s a gnd\nR1 a gnd 1\n.ends\nV1 n 0 1", "<text>:2: the node '0' or 'gnd' of a .subckt line is ground inside"), (I + "R1 n 0 rm 1k\n.model rm r(foo=3)", "<text>:4: the parameter 'foo' of the model 'rm' is unknown"),
    (I + "R1 n 0 1k temp=3 dtemp=4", "<text>:3: an element has temp= and dtemp=: dtemp= is ignored")])
def test_warnings(body, words):
    with pytest.warns(ms.MeshsolveWarning, match=re.escape(words)):
        parsed(body)


# ---- controlled sources -----------------------------------------------------------------------------------------------------


def test_the_elements_of_a_linear_expression():
    c = parsed(V + "E1 n 0 value={2*v(a)-3*v(b)+v(a,b)+4}\nG1 0 g cur={2*v(a,b)}\nRg g 0 1" + R)
    assert c.nodes == ["a", "b", "n", "e1#1", "e1#2", "g"] and c.op()["n"] == pytest.approx(3 * 2 - 4 * 3 + 4) and c.op()["g"] == pytest.approx(-2)
    assert {k: v for k, v in c.values.items() if k[0] in "eg"} == {"e1": 3, "e1#2": -4, "e1#3": 4, "g1": 2}
    assert c.op()["i(e1)"] == pytest.approx(2) and c.with_values({"e1": 4}).op()["n"] == pytest.approx(0)


@pytest.mark.parametrize("line", [
    "E1 n 0 value={v(a)*v(b)}", "E1 n 0 value={sin(v(a))}", "E1 n 0 value={v(a)**2}", "E1 n 0 value={1/v(a)}", "E1 n 0 value={time*2}", "E1 n 0 value={v(a)>1 ? 1 : 2}", "G1 n 0 cur={max(v(a),0)}",
    "B1 n 0 v={if(v(a), 1, 2)}", "B1 n 0 i=abs(v(a))", "E1 n 0 poly(1) a 0 0 1 1", "F1 n 0 poly(2) v1 v2 0 1 1 1", ".func f(x) {x*x}\nB1 n 0 v=f(v(a))"])
def test_nonlinear_sources_are_an_error_with_their_name(line):
    name = line.split("\n")[-1].split()[0].lower()
    assert f"controlled sources that are not linear: 1, the first is '{name}' in <text>:" in error_of(V + line + R)


@each("line, words", [
    ("E1 n 0 value={v(a)*2} foo=1", "the element has no parameter 'foo'"), ("E1 n 0 value={v(a)*2} m=2", "the element has no parameter 'm'"), ("B1 n 0 v=v(zz", "v() needs one or two names of nodes"), ("B1 n 0 v=v(a,b,c)", "v() needs one or two names of nodes"),
    ("B1 n 0 v=i(v1,v2)", "i() needs the name of one source, got two"), ("B1 n 0 v=i(r1)", "there is no voltage source 'r1'"), ("B1 n 0", "'b1' has no expression"), ("B1 n 0 q=3", "the element has no parameter 'q'"), ("B1 n 0 v=1 i=2", "the element has no parameter 'i'"),
    ("E1 n 0 poly(0) 1", "the number of controls of poly must be an integer from 1 to 1000, got 0"), ("E1 n 0 poly(2) a 0 b", "ends before the last control"), ("E1 n 0 poly(1) a 0", "has no coefficients"), ("F1 n 0 value={v(a)}", "'value' of 'f1' is not supported: write the source as E, G or B"),
    ("I2 0 n 1 m=0", "m must be positive, got 0"), ("V9 n 0 1 m=2", "unexpected 'm': DC, AC"), ("H1 n 0 v1 2 m=3", "the element has no parameter 'm'"), ("G1 n 0 a 0 1 m=-1", "m must be positive, got -1")])
def test_wrong_controlled_sources(line, words):
    assert words in (said := error_of(V + line + R)) and said.startswith("<text>:4: ")


# ---- parameters, functions, models, waveforms ---------------------------------------------------------------------------------


@each("body, words", [
    (".param x={undefined}", "<text>:2: there is no parameter 'undefined'"), (".param x=undefined", "<text>:2: 'undefined' is neither a number nor a parameter"), ("X1 n s\n.subckt s a\n.param q={u}\nV1 a 0 1\n.ends", "<text>:4: there is no parameter 'u' (in x1)"),
    (".param s=\"a\"\nV1 q 0 {s}", "the text '\"a\"' is not a number"), (".func f(x) {f(x)+1}\nV1 q 0 {f(1)}", "<text>:2: the function 'f' calls itself"), (".func f(x) {g(x)}\n.func g(x) {f(x)}\nV1 q 0 {f(1)}", "calls itself"),
    (".func f(x,y) {x}\nV1 q 0 {f(1)}", "<text>:3: the function 'f' needs 2 arguments"), (".func f(x)", "the function 'f' has no expression"), (".func 1(x) {x}", "a function must have the form name(arguments)"), (".param =3", "a name is needed before '='"), (".param a= b=3", "'a' has no value"),
    (".param a 3", "a '=' is needed after 'a'"), ("X1 n s m=0\n.subckt s a\nR1 a 0 1\n.ends", "m must be positive, got 0"), ("R1 n 0 dm\n.model dm d", "the model 'dm' is of type 'd', not R"), ("R1 n 0 rm\n.model rm r(tc1=1)", "'r1' has no value"), ("C1 n 0 cm\n.model cm c", "'c1' has no value"),
    ("R1 n 0 1 ac=3", "the element has no parameter 'ac'"), ("R1 n 0 1 temp=-300", "the temperature of 'r1' is out of range: -300"), ("V1 n 0 PWL(0 1 1 2) r=0", "a PWL waveform that repeats"), ("V1 n 0 SFFM(0 1 1 1 1)", "SFFM waveforms: 1, the first is 'v1' in <text>:2")])
def test_wrong_elements_and_definitions(body, words):
    assert words in error_of(f"{body}\nR0 n 0 1\nI0 0 n 1")


def test_an_unknown_function_is_an_error_where_it_is_used():
    assert parsed(".param s={agauss(1,0.1,3)} t={2*s}\nV1 n 0 1" + R).op()["n"] == 1
    assert "<text>:2: there is no function 'agauss' of 3 arguments" in error_of(".param s={agauss(1,0.1,3)}\nV1 n 0 {s}" + R)


def test_capacitor_and_inductor_models():
    """The numbers are those of ngspice 39: the response of a current source at 1 / (2 pi) Hz."""
    for line, farad in (("cm l=20u w=5u\n.model cm c(cj=1m cjsw=2n narrow=1u short=2u)", 1e-3 * 4e-6 * 18e-6 + 2e-9 * 2 * 22e-6), ("cm\n.model cm c(cap=3u)", 3e-6), ("cm 1u\n.model cm c(cap=3u tc1=0.01)", 1.23e-6),
                        ("c='2u' m=3 scale=2", 12e-6), ("1u tc1=0.01 tc2=1e-4 dtemp=-13", 1.11e-6)):
        assert parsed(f".temp 50\nC1 n 0 {line}").values["c1"] == pytest.approx(farad, rel=1e-12)
    for line, henry in (("lm\n.model lm l(ind=3u)", 3e-6), ("1u tc1=0.01 m=2", 1.23e-6 / 2), ("l={1u+1u}", 2e-6), ("lm 1u temp=37\n.model lm l(tc1=0.02 tnom=17)", 1.4e-6)):
        assert parsed(f".temp 50\nL1 n 0 {line}").values["l1"] == pytest.approx(henry, rel=1e-12)


def test_waveforms_with_a_multiplier_and_a_delay():
    w = parsed("I1 0 n PWL(0 1 1 3) td=1 m=2" + R).transient(0.5, 3)
    assert np.allclose(w["n"], [2, 2, 2, 4, 6, 6, 6], rtol=1e-6)
    for shape in ("PULSE(0 1 0.5 1 1 1 9)", "SIN(1 2 1 0.2 0.5)", "EXP(0 1 0.2 0.5 2 1)"):
        one, two = (parsed(f"I1 0 n {shape} AC 1 90 {m}" + R) for m in ("", "m=2"))
        assert np.allclose(2 * one.transient(0.1, 3)["n"], two.transient(0.1, 3)["n"], rtol=1e-3, atol=1e-6)
        assert np.allclose(2 * one.ac("lin", 1, 1, 1)["n"], two.ac("lin", 1, 1, 1)["n"])


def test_all_kinds_that_are_not_supported_are_named_once():
    said = error_of("Q1 a b c q\nM1 a b c d m\nQ2 a b c q\nS1 a b c d s\nK1 l1 l2 0.9\n.subckt unused a\nJ1 a b c j\n.ends\n.subckt used a\nT1 a 0 a 0 z0=50\n.ends\nX1 a used\n.if (1)\n.endif\nV1 a 0 SFFM(0 1)\nE1 a 0 table {v(a)} = (0,0)\nB1 a 0 v=v(a)**2\n"
                    "R1 a 0 1")
    for words in ("Q elements (bipolar transistors): 2, the first is 'q1' in <text>:2", "M elements (MOSFETs): 1, the first is 'm1' in <text>:3", "S elements (switches): 1", "K elements (coupled inductors): 1", "T elements (transmission lines): 1, the first is 't1' in <text>:11",
                  ".if lines: 1, the first is '.if' in <text>:14", ".endif lines: 1", "SFFM waveforms: 1", "controlled sources with table: 1", "controlled sources that are not linear: 1, the first is 'b1' in <text>:18", ". Supported are the elements R C L V I D, linear E F G H B, and X"):
        assert words in said, words
    assert "J elements" not in said and said.startswith("<text>:2: the deck has unsupported elements or lines: ") or said.startswith("<text>:14: ")
