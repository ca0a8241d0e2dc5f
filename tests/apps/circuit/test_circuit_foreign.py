"""Decks as other programs and vendors write them, and decks whose expansion would not end."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from cases import each

import meshsolve as ms

parse = ms.apps.circuit.parse
DIODE = "V1 in 0 5\nR1 in out 1k\nD1 out 0 part\n.model part D(is=2.5n rs=0.6 n=1.75{})"


def deck(text, **params):
    return parse(f"a test\n{text}\n.end\n", params=params or None)


def op(text, **params):
    return deck(text, **params).op()


@each("extra, words", [
    (" mfg=Acme type=silicon", "texts of the model 'part' have no effect: 'mfg', 'type'"), (' mfg="Acme" type="fast silicon" bv=75', "'mfg', 'type'"),
    (" noiseless", "texts of the model 'part' have no effect: 'noiseless'"), (" mfg=On Semi type=x", "'mfg', 'type'"), (" mfg= type=silicon", "'mfg', 'type'"), (" iave=1 vpk=75", "ratings of the model 'part' have no effect: 'iave', 'vpk'"),
    (" isx=3", "parameter 'isx' of the model 'part' is unknown and has no effect: did you mean 'is' or 'isr'")])
def test_words_of_vendors_change_nothing(extra, words):
    with pytest.warns(ms.MeshsolveWarning, match=words):
        assert op(DIODE.format(extra))["out"] == op(DIODE.format(""))["out"]


@each("extra, words", [
    (" bv=foo", "the parameter 'bv' of the model 'part' must be a number, got 'foo'"), (" bv", "the parameter 'bv' of the model 'part' has no value"), (" noisless", "the word 'noisless' of the model 'part' is unknown"),
    (' bv="9"', "the parameter 'bv' of the model 'part' must be a number")])
def test_other_words_of_models_are_refused(extra, words):
    with pytest.raises(ms.InvalidInputError, match=f"<text>:5: {words}"):
        op(DIODE.format(extra))


@each("word", [" ron=0.1", " Roff=1g", " vfwd=0.6", " vrev=5", " rrev=0.1 epsilon=0.1"])
def test_diodes_of_straight_lines_are_refused(word):
    with pytest.raises(ms.InvalidInputError, match=f"<text>:5: the model 'part' has {word.strip().split('=')[0].lower()} and is not the exponential one"):
        op(DIODE.format(word))


def test_parameters_without_a_blank_before_them():
    assert op("V1 a 0 6\nX1 a b s PARAMS:p=1k q={2*1k}\n.subckt s a b PARAMS:p=1 q=1\nR1 a b {p}\nR2 b 0 {q}\n.ends")["b"] == pytest.approx(4)


def test_models_of_passive_elements_with_texts():
    with pytest.warns(ms.MeshsolveWarning, match="texts of the model 'rm' have no effect: 'mfg'"):
        assert op("I1 0 n 1\nR1 n 0 rm\n.model rm r(r=3 mfg=x)")["n"] == 3
    assert op(DIODE.format("").replace("is=2.5n", "is 2.5n"))["out"] == op(DIODE.format(""))["out"]         # as in SPICE2


def test_a_model_that_uses_parameters_without_braces():
    """Each instance has its own value."""
    v = op("I1 0 a 1m\nI2 0 b 1m\nX1 a s p=1e-14\nX2 b s p=1e-10\n.subckt s n p=1\nD1 n 0 dm\n.model dm d(is=p)\n.ends")
    assert v["a"] - v["b"] == pytest.approx(0.0258649 * np.log(1e4), rel=1e-4)


def test_initial_voltages_in_a_subcircuit():
    text = "X1 a pair\nX2 b pair v=2\nR1 a 0 1k\nR2 b 0 1k\n.subckt pair top v=1\nC1 top 0 1u\nR2 top n 1k\nC2 n 0 1u\n.ic v(top)={v} v(n)=3\n.nodeset v(n)=1\n.ends\n"
    for more, start in (("", [1, 2, 3, 3]), (".ic v(x2.n)=7", [1, 2, 3, 7])):
        w = deck(text + more).transient(1e-5, 1e-4)
        assert np.allclose([w[n][0] for n in ("a", "b", "x1.n", "x2.n")], start, atol=1e-4)
    with pytest.raises(ms.InvalidInputError, match=r"<text>:4: 'x' of .ic does not have the form v\(node\)=value \(in x1\)"):
        deck("X1 a s\n.subckt s a\n.ic x=3\nR1 a 0 1\n.ends")


def test_pins_without_a_connection():
    part = "\n.subckt part in out ? ?\nR1 in out 1k\n.ends\nV1 a 0 6\nR2 b 0 2k"
    assert op("X1 a b ? ? part" + part)["b"] == pytest.approx(4) and op("X1 a b p q part" + part)["b"] == pytest.approx(4)
    both = "\n.subckt s x x\nR1 x 0 1\n.ends\nI1 0 p 1"
    assert op("X1 p p s" + both)["p"] == 1
    with pytest.raises(ms.InvalidInputError, match="<text>:4: the subcircuit 's' has the node 'x' twice .in x1"):
        op("X1 p q s" + both)


def test_parameters_of_a_step_line():
    text = "V1 a 0 6\nR1 a b 1k\nR2 b 0 {rx}\n"
    for line in (".step param rx list 2k 5k", ".step param rx 2k 5k 1k", ".step dec param RX 2k 5k 3"):
        with pytest.warns(ms.MeshsolveWarning, match="<text>:5: .step is not run: there is one run, in which rx has the value"):
            assert op(text + line)["b"] == pytest.approx(4)
        with pytest.warns(ms.MeshsolveWarning, match="is not run"):
            assert op(text + line, rx=5e3)["b"] == pytest.approx(5)
        with pytest.warns(ms.MeshsolveWarning, match="is not run"):
            assert op(".param rx=5k\n" + text + line)["b"] == pytest.approx(5)


@each("data, v", [
    (b"V1 a 0 6\r\n.include part.lib\r\nX1 a b part\r\nR2 b 0 2k\r\n.end\r\n\x1a", 4), (b"V1 a 0 6\n.include part.lib\n\xc2\xa0\xc2\xa0R2 b 0 2k\n\xa0X1 a b part\n.end\n", 4),
    (b"V1\ta\v0\f6\n\fX1 a b part\nR2 b 0 2k\n.include part.lib\n.end\n", 4), (b"V1 a 0 6\rX1 a b part\rR2 b 0\r+ 2k\r.include mac.lib\r.end\r", 4),
    (b"V1 a 0 6\n\xe3\x80\x80R1 a b\xe2\x80\x891k\n\xef\xbb\xbfR2 b 0 2k\n.end\n\x1a\x1a\0", 4)])
def test_ends_of_text_and_spaces(data, v, tmp_path):
    (tmp_path / "part.lib").write_bytes(b"\xef\xbb\xbf.subckt part a b\r\nR1 a b 1k\r\n.ends\r\n\x1a")
    (tmp_path / "mac.lib").write_bytes(b"* a part\r.subckt part a b\rR1 a b 1k\r.ends\r")
    end = b"\n" if b"\n" in data else b"\r"
    (tmp_path / "deck.sp").write_bytes(b"* title" + end + data)
    assert ms.apps.circuit.read(tmp_path / "deck.sp").op()["b"] == pytest.approx(v)


def test_text_after_its_end_has_a_warning():
    with pytest.warns(ms.MeshsolveWarning, match="<text>:3: the text after a Ctrl-Z"), pytest.warns(ms.MeshsolveWarning, match="without .end"):
        assert parse("t\nR1 a 0 1\n\x1aR2 a 0 1\n.end\n").op()["a"] == 0


def test_a_polynomial_with_one_coefficient():
    with pytest.warns(ms.MeshsolveWarning, match=r"<text>:3: poly\(1\) with one coefficient is a constant here"):
        assert op("V1 a 0 2\nE1 b 0 poly(1) a 0 3\nR1 b 0 1")["b"] == 3


@each("text, words", [("R1 a b", "'r1' has no value in the line 'r1 a b'"), ("R1 a", "ends before its last node in the line 'r1 a'"), ("D1 a 0", "'d1' has no model in the line 'd1 a 0'")])
def test_messages_have_the_line(text, words):
    with pytest.raises(ms.InvalidInputError, match=f"<text>:2: .*{words}"):
        deck(text)


DOUBLING = {
    "functions": ["".join(f".func f{k}(x) {{f{k - 1}(x)+f{k - 1}(x)}}\n" for k in range(1, 30)) + ".func f0(x) {x}\nR1 a 0 {f29(1)}", "too many calls of .func functions"],
    "terms": ["".join(f".func f{k}(x) {{f{k - 1}(x+x)}}\n" for k in range(1, 60)) + ".func f0(x) {x}\nV1 a 0 1\nE1 b 0 value={f59(v(a))}", "too many calls of .func functions"],
    "subcircuits": ["".join(f".subckt s{k} a\nx1 a s{k - 1}\nx2 a s{k - 1}\n.ends\n" for k in range(1, 90)) + ".subckt s0 a\nR1 a 0 1\n.ends\nX1 n s89", "expand to too many elements"],
}


@pytest.mark.parametrize("name", ["functions", "terms", pytest.param("subcircuits", marks=pytest.mark.slow)])
def test_decks_that_double_many_times_are_refused(name):
    text, words = DOUBLING[name]
    with pytest.raises(ms.InvalidInputError, match=words):
        deck(text)


def test_functions_that_use_one_another_often():
    """Each body is searched for names once; calls are bounded, but those of ordinary decks are not."""
    text = "".join(f".func f{k}(x) {{f{k - 1}(x)+f{k - 1}(x)}}\n" for k in range(1, 12)) + ".func f0(x) {x}\nR1 a 0 {f11(1)}\nI1 0 a 1"
    assert op(text)["a"] == 2048


def test_files_that_include_others_twice(tmp_path):
    for k in range(40):
        (tmp_path / f"f{k}.inc").write_text(f".include f{k + 1}.inc\n.include f{k + 1}.inc\n")
    (tmp_path / "f40.inc").write_text("* end\n")
    (tmp_path / "deck.sp").write_text("t\n.include f0.inc\nR1 a 0 1\n.end\n")
    with pytest.raises(ms.InvalidInputError, match="include each file once"):
        ms.apps.circuit.read(tmp_path / "deck.sp")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_the_reader():
    text = "t\n" + "".join(f".subckt s{k} a\nx1 a s{k - 1}\nx2 a s{k - 1}\n.ends\n" for k in range(1, 90)) + ".subckt s0 a\n.ends\n" + "* x\n" * 10**6 + "X1 n s89\nR1 n 0 1\n.end\n"
    code = "import sys\nfrom meshsolve.apps import circuit\ntext = sys.stdin.read()\nprint(1, flush=True)\ntry:\n    circuit.parse(text)\nexcept KeyboardInterrupt:\n    sys.exit(7)\n"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child.stdin.write(text)
    child.stdin.close()
    child.stdout.readline()
    os.kill(child.pid, signal.SIGINT)
    assert child.wait(60) in (7, -signal.SIGINT)
