"""Reading decks: every construct of the language, and the messages of wrong decks."""

import gzip

import numpy as np
import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve import _core
from meshsolve.apps.circuit.netlist import read_netlist

pytestmark = pytest.mark.native


@pytest.fixture
def net(tmp_path):
    """The netlist of a deck given as lines between title and .end."""

    def make(text):
        path = tmp_path / "deck.sp"
        path.write_text(f"a test\n{text.strip()}\n.end\n")
        return read_netlist(path)

    return make


def values(netlist, letter):
    return netlist[letter].values[:, 0].tolist()


def error_of(text, tmp_path, title="a test\n", end=".end\n"):
    path = tmp_path / "bad.sp"
    path.write_text(f"{title}{text}\n{end}")
    with pytest.raises(ms.InvalidInputError) as caught:
        read_netlist(path)
    return str(caught.value)


# ---- numbers and expressions ------------------------------------------------------------------------------------------


@each("text, value", [
    ("1", 1), ("-2.5", -2.5), ("+3", 3), (".5", 0.5), ("4.7k", 4700), ("2MEG", 2e6), ("2meg", 2e6), ("3g", 3e9), ("1t", 1e12),
    ("1m", 1e-3), ("1mil", 25.4e-6), ("10u", 1e-5), ("22p", 22e-12), ("5n", 5e-9), ("1f", 1e-15), ("1A", 1), ("3amp", 3), ("5mA", 5e-3), ("-1k$comment", -1000), ("2$", 2), ("2,$two", 2), ("10uF", 1e-5),
    ("1e-9", 1e-9), ("1E3k", 1e6), ("100ohm", 100), ("1kOhm", 1000), ("1e-400", 0), ("12V", 12), ("4k7", 4700), ("2u2", 2.2e-6), ("1meg05ohm", 1.05e6)])
def test_numbers(text, value, net):
    assert values(net(f"R1 a 0 {text}" if value else f"C1 a 0 {text}"), "r" if value else "c") == [value]


@each("text", ["abc", "1..2", "1.5k2", "4r7", "2mil5", "--1", "1e999", "nan", "inf", "1_000", "0x10", "1,5k2", "$"])
def test_invalid_numbers(text, tmp_path):
    assert "bad.sp:2: " in error_of(f"R1 a 0 {text}", tmp_path)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_survives(x):
    assert _core.spice_number(repr(x)) == x


@each("text, value", [
    ("1+2*3", 7), ("(1+2)*3", 9), ("2**3**2", 64), ("2^3^2^0.5", 8), ("-2^2", -4), ("2**-1", 0.5), ("2**--1*3", 6), ("2*-3", -6), ("7/2", 3.5), ("1k/2", 500), ("sqrt(16)", 4),
    ("max(1,2)+min(3,4)", 5), ("1<2 ? 10 : 20", 10), ("1==2 || 3>=3", 1), ("!(1&&0)", 1), ("pow(2,10)", 1024), ("log10(1000)", 3),
    ("abs(-3)", 3), ("int(-2.7)", -2), ("cos(pi)", -1), ("7%4", 3), ("width*2", 6), ("half", 1.5), ("sgn(0)", 0), ("sgn(-2)", -1), ("half < 0 ? sqrt(-1) : 5", 5), ("0 ? 1 : 0 ? 2 : 3", 3)])
def test_expressions(text, value, net):
    n = net(f".param half={{width/2}}\n.param width=3\nR1 a 0 {{({text}) + 100}}\nR2 a 0 '({text}) + 100'")
    assert np.allclose(values(n, "r"), value + 100)


@each("text, words", [
    ("{1+}", "ends where a value is needed"), ("{(1}", "')' is missing"), ("{1 2}", "unexpected '2'"), ("{what}", "no parameter 'what'"),
    ("{foo(1)}", "no function 'foo' of 1"), ("{if(1,2,3,4)}", "too many arguments of 'if'"), ("{1/0}", "not finite"), ("{1?2}", "':' is needed"), ("{sqrt(-1)}", "not finite"),
    ("{min(sqrt(-1),3)}", "not finite"), ("{max(3,0/0)}", "not finite"), ("{sqrt(-1) > 0 ? 1 : 2}", "not finite"), ("{1 == log(-1) ? 1 : 2}", "not finite"), ("{!sqrt(-1)}", "not finite"), ("{0 || sqrt(-1)}", "not finite"),
    ("{sqrt(-1) ? 1 : 2}", "not finite"), ("{if(sqrt(-1),1,2)}", "not finite"), ("{sgn(sqrt(-1))}", "not finite"),
    ("{1", "no closing '}'"), ("{" + "(" * 5000 + "}", "more than 200 deep"), ("{" + "-" * 5000 + "1}", "more than 200 deep"), ("{}", "ends where a value is needed")])
def test_bad_expressions(text, words, tmp_path):
    message = error_of(f"R1 a 0 {text}", tmp_path)
    assert "bad.sp:2: " in message and words in message


def test_parameters_that_depend_on_themselves(tmp_path):
    assert "depends on itself" in error_of(".param a={b}\n.param b={a+1}\nR1 x 0 {a}", tmp_path)
    ring = "\n".join(f".param p{k}={{p{(k + 1) % 3000}}}" for k in range(3000))
    assert "bad.sp:3001: the parameter 'p0' depends on itself" in error_of(f"{ring}\nR1 x 0 {{p0}}", tmp_path)


@pytest.mark.parametrize("order", [1, -1])
def test_chains_of_parameters_may_be_long(order, net):
    chain = [".param p0=1", *(f".param p{k}={{(p{k - 1} + min(1, 2k)) * 1e-0}}" for k in range(1, 20_000))]
    assert values(net("\n".join(chain[::order]) + "\nR1 a 0 {p19999}\nR2 a 0 p7"), "r") == [20_000, 8]


# ---- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", ["R1 a 0 1e-320", "R1 a 0 1e-300 m=1e20", "C1 a 0 1e300 m=1e30"])
def test_values_out_of_range_are_named(element, tmp_path):
    """An infinite conductance must not lead to a message about a matrix. Found by damaged files."""
    assert "bad.sp:2: " in (said := error_of(element, tmp_path)) and "1' is out of range: " in said


@pytest.mark.parametrize("text, encoding, value", [
    ("10µF", "utf-8", 1e-5), ("10µF", "latin-1", 1e-5), ("10\u03bcF", "utf-8", 1e-5), ("4.7kΩ", "utf-8", 4700), ("3\u2126", "utf-8", 3),
    ("{2*10µF}", "utf-8", 2e-5), ("f", "utf-8", 3e-6)])
def test_the_signs_for_micro_and_ohm(text, encoding, value, tmp_path):
    path = tmp_path / "deck.sp"
    path.write_bytes(f"title\n.param f={{3µF}}\nR1 a 0 {text}\n.end\n".encode(encoding))
    assert values(read_netlist(path), "r") == [value]


def test_an_expression_without_braces_is_reported(tmp_path):
    assert "bad.sp:3: 'w*2' is neither a number nor a parameter: write expressions in { }" in error_of(".param w=1\nR1 a 0 w*2", tmp_path)


def test_names_in_a_foreign_encoding(tmp_path):
    """Names of model parameters may be no UTF-8. Found by damaged files."""
    path = tmp_path / "deck.sp"
    path.write_bytes(b"title\nR1 a 0 1\nD1 a 0 m\n.model m D(is=1e-14 b\xe4r=2 \xe4=1)\n.end\n")
    assert len(read_netlist(path).models) == 1


def test_comments_continuations_case_and_blank_lines(net):
    n = net("* comment\nR1 A b\n* between\n+ 1K ; end of line\n// full\n+ m=2//no blank\n   \nr2 b 0 2k $ another\n; full\n$ full\nC1 b gnd 1u ic=3\n.OPTIONS reltol=1e-4\n")
    assert n.node_names == ["a", "b"] and n.element_names == ["r1", "r2", "c1"]
    assert values(n, "r") == [500, 2000] and n["c"].values.tolist() == [[1e-6, 3]] and n["c"].nodes.tolist() == [[1, -1]]
    assert n.controls[0][0] == ".options reltol=1e-4" and n.controls[0][1].endswith("deck.sp:13")


def test_windows_line_ends_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "deck.sp"
    path.write_bytes(b"\xef\xbb\xbftitle\r\nR1 a 0 1k\r\n+ m=2\r\nV1 a 0 1\r\n.end\r\n")
    n = read_netlist(path)
    assert n.title == "title" and values(n, "r") == [500] and values(n, "v") == [1]


def test_a_gzipped_deck_with_text_after_the_end(tmp_path):
    path = tmp_path / "deck.sp.gz"
    path.write_bytes(gzip.compress(b"title\nR1 a 0 1k\n.end\nnonsense after the end\n"))
    assert values(read_netlist(path), "r") == [1000]


def test_a_first_line_like_an_element_gives_a_warning(tmp_path):
    path = tmp_path / "deck.sp"
    path.write_text("R0 a b 3\nR1 a 0 1\nV1 b 0 1\n.end\n")
    with pytest.warns(ms.MeshsolveWarning, match=r"deck\.sp:1: the first line, a title in SPICE, has the form of an element"):
        assert sorted(values(read_netlist(path), "r")) == [1, 3]
    for title in ("Rectifier with diode 5", "R0 a a 5"):
        path.write_text(f"{title}\nR1 a 0 1\n.end\n")
        assert values(read_netlist(path), "r") == [1]


def test_errors_name_the_continuation_line(tmp_path):
    assert "bad.sp:5: 'oops' is neither" in error_of("R2 a 0 1\nV1 a 0 PULSE(0 1\n* comment\n+ 0 oops)", tmp_path)


# ---- elements -----------------------------------------------------------------------------------------------------------


def test_sources(net):
    n = net("V1 a 0 5\nV2 b 0 DC 1 AC 2 90\nV3 c 0 AC\nV4 d 0 PULSE(0, 1, 1n 2n) AC 1\nV5 e 0\nI1 a b PWL(0 0 1u {1+1})\nV6 f 0 sin ( 0 1 1k )")
    assert np.array_equal(n["v"].values, [[5, 0, 0], [1, 2, 90], [0, 1, 0], [np.nan, 1, 0], [0, 0, 0], [np.nan, 0, 0]], equal_nan=True)
    assert n["v"].refs.tolist() == [-1, -1, -1, 0, -1, 2] and n["i"].refs.tolist() == [1]
    jump = net("V1 a 0 PWL(0 0 1u 0 1u 5)")
    assert np.array_equal(jump.waveforms[0][1], [0, 0, 1e-6, 0, 1e-6, 5])
    assert [(kind, w.tolist()) for kind, w in n.waveforms] == [("p", [0, 1, 1e-9, 2e-9]), ("w", [0, 0, 1e-6, 2]), ("s", [0, 1, 1000])]


def test_controlled_sources(net):
    n = net("E1 a 0 b c 2\nG1 a 0 b c 1m m=2\nF1 a 0 VX 3\nH1 d 0 vx 4\nVx b 0 1\nR1 c 0 1")
    assert n["e"].nodes.tolist() == [[0, -1, 1, 2]] and values(n, "g") == [2e-3]
    assert (values(n, "f"), values(n, "h")) == ([3], [4]) and n["f"].refs.tolist() == n["h"].refs.tolist() == [0]


def test_a_resistor_of_no_ohm_is_a_source_of_no_volt(net):
    n = net("R1 a b 0\nR2 b 0 1\nV1 a 0 1\nF1 c 0 R1 1")
    assert len(n["r"]) == 1 and n.name("v", 0) == "r1" and n["f"].refs.tolist() == [0]


def test_diodes_and_models(net):
    n = net("D1 a 0 dm\nD2 a 0 DM 3\nD3 a 0 dm area=2 m=2\nD4 a 0 dm off\n.param isat=2f\n.model DM D(IS={isat} N=1.1)")
    assert values(n, "d") == [1, 3, 4, 1] and n["d"].refs.tolist() == [0] * 4
    assert n.models[0].values == {"is": 2e-15, "n": 1.1}


def test_subcircuits(net):
    n = net("""
.global vdd
.subckt inner a b r=1k
R1 a m {r}
R2 m b {2*r}
R3 m vdd 1
.ends inner
.subckt outer p PARAMS: scale=1
.param inside={scale*10}
X1 p q inner r={inside}
X2 q 0 local
.subckt local s t
R1 s t {scale}
.ends
.ends outer
Xa top outer
Xb top outer scale=5
V1 vdd 0 1
""")
    assert dict(zip((n.name("r", k) for k in range(8)), values(n, "r"))) == {
        "xa.x1.r1": 10, "xa.x1.r2": 20, "xa.x1.r3": 1, "xa.x2.r1": 1, "xb.x1.r1": 50, "xb.x1.r2": 100, "xb.x1.r3": 1, "xb.x2.r1": 5}
    assert n.node_names == ["top", "xa.q", "xa.x1.m", "vdd", "xb.q", "xb.x1.m"]
    assert n["r"].nodes[3].tolist() == [1, -1]


@pytest.mark.parametrize("inner, outer, value", [
    ("a\nR1 a 0 {z}", "a z=2k", 2000), ("a\nR1 a 0 {z}", "a\n.param z=2k", 2000), ("a r={z}\nR1 a 0 {r}", "a z=2k", 2000),
    ("a\n.param r={z}\nR1 a 0 {r}", "a z=2k", 2000), ("a\nR1 a 0 {y}", "a z=2k", 9000), ("a z=1k\nR1 a 0 {z}", "a z=2k", 1000)])
def test_parameters_of_the_calling_instance_are_seen(inner, outer, value, net):
    """As in ngspice they take precedence over those of the deck. `y` is defined in the deck and uses the deck's z."""
    n = net(f".param z=9k y={{z}}\n.subckt in {inner}\n.ends\n.subckt mid a\nX1 a in\n.ends\n.subckt out {outer}\nX1 a mid\n.ends\nX1 n out")
    assert values(n, "r") == [value]


def test_values_of_an_x_line_are_evaluated_in_its_scope(net):
    assert values(net(".param p=7\n.subckt s a r=1 p=5\nR1 a 0 {r}\n.ends\nX1 n s r={p}"), "r") == [7]


def test_how_deep_subcircuits_may_be_nested(net, tmp_path):
    chain = "\n".join(f".subckt s{k} a\nX1 a s{k + 1}\n.ends" for k in range(101)) + "\n.subckt s101 a\nR1 a 0 3\n.ends\n"
    assert values(net(f"{chain}X1 n s2"), "r") == [3]
    assert "subcircuits are nested more than 100 deep" in error_of(f"{chain}X1 n s1", tmp_path)


@pytest.mark.parametrize("inner, value", [("a r={r}\n", 2000), ("a r='r*2'\n", 4000), ("a r=r\n", 2000), ("a\n.param r={r*3} q={r}\n", 6000)])
def test_subcircuit_parameters_refer_to_outer_ones_of_that_name(inner, value, net):
    assert values(net(f".param r=2k\n.subckt s {inner}R1 a 0 {{r}}\n.ends\nX1 n s"), "r") == [value]


def test_a_cyclic_subcircuit_parameter(tmp_path):
    for text in (".subckt s a r={r}\nR1 a 0 {r}\n.ends\nX1 n s", ".subckt s a r={q} q={r}\nR1 a 0 {r}\n.ends\n.param r=1\nX1 n s"):
        assert "bad.sp:2: the parameter 'r' depends on itself (in x1)" in error_of(text, tmp_path)


def test_models_inside_subcircuits(net):
    n = net(".model dm d(is=1)\n.subckt s a is=3\n.model dm d(is={is})\nD1 a 0 dm\n.ends\nD1 a 0 dm\nX1 a s\nX2 a s is=4\nX3 a t\n.subckt t a\nD1 a 0 dm\n.ends")
    assert [n.models[k].values["is"] for k in n["d"].refs] == [1, 3, 4, 1]


def test_includes(tmp_path):
    (tmp_path / "Lib").mkdir()
    (tmp_path / "Lib" / "Part.inc").write_text(".param r=3\n.include values.inc\n.end\nnot read\n")
    (tmp_path / "Lib" / "values.inc").write_text("R2 b 0 {r}\n")
    path = tmp_path / "deck.sp"
    path.write_text("title\nR1 a b 1\n.INCLUDE Lib/Part.inc // parts\nV1 a 0 1\n.end\n")
    n = read_netlist(path)
    assert values(n, "r") == [1, 3] and n.where("r", 1).endswith("values.inc:1") and n.where("v", 0).endswith("deck.sp:4")


# ---- wrong decks ----------------------------------------------------------------------------------------------------------


@each("text, line, words", [
    ("R1 a 0", 2, "'r1' has no value"), ("R1 a", 2, "ends before its last node"), ("R1 a 0 1\nR1 b 0 2", 3, "already an element 'r1', in"),
    ("Q1 a b c mod", 2, "unsupported elements or lines: Q elements (bipolar transistors): 1, the first is 'q1' in "), ("C1 a 0 1u foo=2", 2, "the element has no parameter 'foo'"), ("R1 a 0 1 2", 2, "unexpected '2'"),
    ("V1 a 0 PULSE(1)", 2, "'pulse' needs 2 to 8 values, got 1 numbers"), ("V1 a 0 PWL(0 1 2)", 2, "'pwl' needs pairs of a time and a value, got 3 numbers"), ("V1 a 0 PWL(1 1 0 2)", 2, "must ascend, got 0 after 1"), ("V1 a 0 PULSE(0 1 0 0 0 1 2 1.5)", 2, "number of pulses must be an integer of at least 0, got 1.5"),
    ("V1 a 0 PULSE(0 1 0 0 0 1 2 1 1)", 2, "'pulse' needs 2 to 8 values, got 9 numbers"), ("R1 a 0 1k$comment two", 2, "unexpected 'two'"), ("R1 a 0 1k $two\n.func f {x}", 3, "a function must have the form name(arguments)"),
    (".if (1)\nV1 a 0 1\n.else\nV1 a 0 2\n.endif", 2, "unsupported elements or lines: .if lines: 1, the first is '.if' in "), ("D1 a 0 dm\n.lib models.lib", 3, "models.lib: there is no such file"),
    (".subckt s a\n.if (1)\n.endif\n.ends", 3, "unsupported elements or lines: .if lines: 1, the first is '.if' in "),
    ("V1 a 0 1 what", 2, "unexpected 'what'"), ("V1 a 0 0 dc = 1", 2, "the source has a second dc value"), ("I1 a 0 dc 1 sin(0 1)\n+ dc 2", 3, "the source has a second dc value"), ("V1 a 0 ac 1 dc 0 ac 1", 2, "the source has a second ac value"),
    (".param 1=2", 2, "the name of a parameter must not begin with a digit, got '1'"), (".include none.sp ; what", 2, "none.sp: there is no such file"), (".include 'none.sp' what", 2, "none.sp: there is no such file"), (".include a//none.sp $ what", 2, "a//none.sp: there is no such file"), ("V1 a 0 SIN(0 1) SIN(0 1)", 2, "the source has a second waveform"), ("F1 a 0 vx 1", 2, "no voltage source 'vx'"), ("E1 b 0 a 0 2\nF1 a 0 e1 1", 3, "no voltage source 'e1'"),
    ("F1 a 0", 2, "no controlling voltage source"), ("E1 a 0 b 0", 2, "the gain is missing"), ("E1 a 0 b 0 3 m=2", 2, "the element has no parameter 'm'"), ("D1 a 0", 2, "has no model"), ("D1 a 0 dm", 2, "no model 'dm'"),
    ("D1 a 0 dm\n.model dm npn(is=1)", 2, "of type 'npn', not of a diode"), (".model dm d(is)\nD1 a 0 dm", 2, "the parameter 'is' of the model 'dm' has no value"), (".model dm d(is=1f silent)\nD1 a 0 dm", 2, "a '=' is needed after the name"),
    ("D1 a 0 dm -1\n.model dm d", 2, "area of a diode must be positive, got -1"), ("X1 a b sub", 2, "no subcircuit 'sub'"), (".subckt s a b\n.ends\nX1 a s", 4, "has 1 nodes, but the subcircuit 's' has 2"),
    (".subckt s a\nX1 a s\n.ends\nX1 a s", 3, "contains itself"), (".subckt s a\nR1 a 0 1", 2, "has no .ends: was the file cut?"), (".ends", 2, ".ends without .subckt"),
    (".subckt t a\n.subckt s a\n.ends t", 4, "comes before the .ends of .subckt s"),
    ("X1 p q r s\n.subckt s a b a\nR1 a b 1\n.ends", 4, "the subcircuit 's' has the node 'a' twice (in x1)"),
    ("V1 a 0 PULSE(0 1 0 -1n)", 2, "must be at least 0, got -1e-09"), ("V1 a 0 PULSE(0 1 -1 1 1 1 -2)", 2, "'pulse' after the delay"), ("V1 a 0 EXP(0 1 0 1 2 -1)", 2, "'exp' after the delay"), ("V1 a 0 EXP(0 1 3 1 2 1)", 2, "second delay of 'exp' must be at least the first"),
    (".subckt s a r=1 b\n.ends", 2, "the node 'b' must come before the parameters"),
    ("\n".join(f".subckt s{k} a" for k in range(102)), 102, "subcircuits are nested more than 100 deep"), (".subckt s a\nR1 a 0 {x}\n.ends\nX1 b s", 3, "(in x1)"),
    (".subckt s a\n.ends\nX1 b s w=1", 4, "has no parameter 'w'"), (".subckt s a\n.tran 1 2\n.ends", 3, "must not be inside a subcircuit"), (".param a", 2, "'=' is needed"),
    ("R1 a 0 1\n.control\n.endc\n+ m=2", 5, "continuation line (+) must follow"), (".include none.sp", 2, "none.sp: there is no such file"), (".include bad.sp", 2, "includes itself"), (".include", 2, "needs the name"),
    ("E1 a 0 POLY(1) b 0 0 1 2", 2, "unsupported elements or lines: controlled sources that are not linear: 1, the first is 'e1' in "),
    ("* two\nF1 a 0 poly(2) v1 v2 0 1 1", 3, "there is no voltage source 'v1'"), ("G1 a 0 value={v(b)**2}", 2, "controlled sources that are not linear: 1, the first is 'g1' in "),
    ("G1 a 0 table {v(b)} = (0,0) (1,1)", 2, "controlled sources with table: 1, the first is 'g1' in "), (".subckt s a\nE1 a 0 pwl(1) a 0 1 1 2 2\n.ends\nX1 b s", 3, "controlled sources with pwl: 1, the first is 'e1' in "),
    (".control\nrun", 2, ".control without .endc"), ("R1 a 0 1 m=-1", 2, "m must be positive, got -1"), ("C1 a 0 1u m=0", 2, "m must be positive, got 0"), ("\0", 1, "not a text file")])
def test_errors_name_file_and_line(text, line, words, tmp_path):
    message = error_of(text, tmp_path)
    assert f"bad.sp:{line}: " in message and words in message


def test_nodes_may_be_called_like_formulas(tmp_path):
    path = tmp_path / "deck.sp"
    path.write_text("* x\nE1 a 0 value 0 {1+1}\nG1 a 0 table freq 3\nR1 value 0 1\nR2 table freq 1\nR3 freq 0 1\n.end\n")
    n = read_netlist(path)
    assert values(n, "e") == [2] and values(n, "g") == [3]


def test_a_file_that_is_cut(tmp_path):
    whole = "title\nV1 a 0 1\n.subckt s a b\nR1 a b 1k\n.ends\nX1 a b s\nR2 b 0 1.25k\n.end\n"
    path = tmp_path / "cut.sp"
    for length in range(len(whole) - 5):
        path.write_text(whole[:length])
        with pytest.raises((ms.MeshsolveError, ms.MeshsolveWarning), match="cut.sp"):
            read_netlist(path)
    path.write_text(whole[:-7])
    with pytest.warns(ms.MeshsolveWarning, match="cut.sp:7: the file ends within a line and without .end: was it cut"):
        assert values(read_netlist(path), "r") == [1000, 1.25]
    path.write_text(whole[:-5])
    with pytest.warns(ms.MeshsolveWarning, match="cut.sp:7: the file ends without .end: was it cut"):
        assert values(read_netlist(path), "r") == [1000, 1250]
    path.write_text(whole)
    assert values(read_netlist(path), "r") == [1000, 1250]


def test_includes_in_a_circle(tmp_path):
    (tmp_path / "a.inc").write_text(".include b.inc\n")
    (tmp_path / "b.inc").write_text("R1 a 0 1\n.include ./a.inc\n")
    assert "b.inc:2: " in error_of(".include a.inc", tmp_path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ms.InvalidInputError, match="no such file"):
        read_netlist(tmp_path / "none.sp")
    with pytest.raises(ms.InvalidInputError, match="this is a folder"):
        read_netlist(tmp_path)
    (tmp_path / "bad.sp.gz").write_bytes(b"no gzip")
    with pytest.raises(ms.InvalidInputError, match="cannot be read"):
        read_netlist(tmp_path / "bad.sp.gz")


ALPHABET = st.text(alphabet="rcldvefghx.+*0123456789 ab=({})'\n$;kmup-", max_size=200)


@given(ALPHABET)
def test_any_text_is_read_or_an_error(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "deck.sp"
    path.write_text(f"title\n{text}\n.end\n")
    try:
        read_netlist(path)
    except (ms.MeshsolveError, ms.MeshsolveWarning) as e:
        assert "deck.sp:" in str(e) or ".sp" in str(e)


def test_many_elements(tmp_path):
    n = 20_000
    path = tmp_path / "deck.sp"
    path.write_text("title\n" + "".join(f"R{k} n{k} n{k + 1} {k + 1}\n" for k in range(n)) + ".end\n")
    net = read_netlist(path)
    assert values(net, "r") == list(range(1, n + 1)) and len(net.node_names) == n + 1
    assert np.array_equal(net["r"].nodes, np.stack([np.arange(n), np.arange(1, n + 1)], axis=1))


@given(st.integers(1, 12), st.data())
def test_triplets_are_summed_by_pattern(n, data):
    triplets = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40))
    rows, columns = (np.array([t[k] for t in triplets], np.int32) for k in (0, 1))
    indptr, indices, slot = _core.circuit_pattern(n, rows, columns)
    assert list(zip(np.repeat(np.arange(n), np.diff(indptr)).tolist(), indices.tolist())) == sorted(set(triplets))
    assert [indices[s] for s in slot] == columns.tolist() and np.all(np.searchsorted(indptr, slot, side="right") - 1 == rows)
