"""The deck's own analyses, control lines, tables and pictures."""

import contextlib
import csv
import pathlib
import sys

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.apps.circuit import results
from meshsolve.apps.circuit.mna import System

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import decks
from decks import CHARGING, TAU

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
        with pytest.warns(ms.MeshsolveWarning, match="one analysis is run, the first .tran line. Not run: .dc, .ac") if kind is None else contextlib.nullcontext():
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
    (".tran 1p 1k", "1e+15 points are more than 1e+08: increase tstep"), (".tran 1e-310 1e-309", "must lie between 1e-60 and 1e+60 s"), (".tran 1e300 1e301", "between 1e-60"),
    (".ac lin 1e18 1 10", "1e+18 points are more than 1e+08: decrease"), (".dc v1 0 1 1e-300", "1e+300 points are more than 1e+08: increase the step"),
    (".foo", "unsupported elements or lines: .foo lines: 1, the first is '.foo' in "), (".tran 1 x", "the end of .tran 'x' is not a number"), (".tran 2 1", "the step of .tran must be at most its end 1, got 2"),
    (".ac dec 10 0 1", "positive ascending frequencies, got 10 points from 0 to 1 Hz"), (".ac log 1 1 2", "needs dec, oct or lin"), (".dc v1 0 1", "needs a source"), (".dc v1 0 1 -1", "a step of -1 does not lead from 0 to 1"),
    (".ic v(out)", "does not have the form v(node)=value"),
    (".ic v(zz)=1", "no node 'zz'"), (".nodeset v(out)=1 v(zz)=1", "no node 'zz'"), (".nodeset v(out)=q", "'q' is not a number"), (".temp 20 85", ".temp takes one temperature"), (".temp -300", "must be above -273.15 and below 1e4 degrees Celsius, got -300"), (".options tnom=1e9", "degrees Celsius, got 1e+09"), (".ic(v(out)=1)", "does not have the form v(node)=value"), (".options reltol=0", "reltol must be positive, got 0"),
    (".opt gmin 1e-3", "'gmin' needs a value: gmin=..."), (".options reltol=", "'reltol' has no value"),
    (".options method", "'method' needs a value"), (".options vntol=x", "vntol 'x' is not a number")])
def test_bad_control_lines(line, words, deck):
    with pytest.raises(ms.InvalidInputError) as caught:
        deck(f"{CHARGING}\n{line}")
    assert words in str(caught.value) and "deck.sp:5: " in str(caught.value)


def test_options_with_and_without_effect(deck):
    circuit = deck(f"{CHARGING}\n.options post=2 acct, reltol=1e-5 itl2=50 list\n+ chgtol = 1e-15 temp=27 tnom=27 method=euler\n.opti nopage\n.temp 27")
    options = circuit._deck.options
    assert (options.reltol, options.chgtol, options.method, options.vntol) == (1e-5, 1e-15, "be", 1e-6)


def test_a_sweep_of_an_unknown_source_names_its_line(deck):
    with pytest.raises(ms.InvalidInputError, match="deck.sp:5: there is no source 'r1'"):
        deck(f"{CHARGING}\n.dc R1 0 1 1").run()


@pytest.mark.parametrize("line, words, kept", [
    (".print tran v(out) v(zz)", "deck.sp:6: v(zz) of .print is ignored: there is no node 'zz'", ["v(out)"]),
    (".print tran i(r1)", "deck.sp:6: i(r1) of .print is ignored", None)])
def test_a_print_line_with_unknown_signals_is_a_warning(line, words, kept, deck):
    circuit = deck(f"{CHARGING}\n.tran 0.1m 1m\n{line}")
    with pytest.warns(ms.MeshsolveWarning) as caught:
        result, names = circuit.run()
    assert str(caught[0].message).split("/")[-1].startswith(words) and names == kept and ("in" in result) == (kept is None)


@pytest.mark.parametrize("line", [
    ".meas tran top max v(out)", ".measure tran top find par('v(out)*2') at=1m", ".four 1k {v(out)*2}", ".meas tran b param='a*2'", ".step param r 1 2 1", ".tf v(out) v1",
    ".sens v(out)", ".noise v(out) v1 dec 1 1 10", ".pz 1 0 3 0 vol pz", ".disto dec 1 1 10", ".print", ".print noise onoise", ".print op", ".ac list 1 2", ".options nonlin reltol=7"])
def test_ignored_requests_have_a_warning(line, deck):
    with pytest.warns(ms.MeshsolveWarning, match=f"deck.sp:5: {line.split()[0]} (.* )?is (passed over|ignored|not run)"):
        assert deck(f"{CHARGING}\n{line}\n{line}").op()["out"] == 0


def test_each_kind_is_warned_about_once(deck, recwarn):
    deck(CHARGING + "\n.meas tran a max v(out)" * 7 + "\n.tf v(out) v1\n.options reltoll=1 rshunt=2\n.print tran {v(out)*2}\n.print tran {v(out)*2}")
    said = [str(w.message).split("deck.sp:")[1] for w in recwarn]
    assert [words[:words.index(":")] for words in said] == ["5", "12", "13", "13", "14"]
    assert said[0].startswith("5: .meas is passed over") and said[0].endswith("(and 6 more)") and said[4].endswith("(and 1 more)")
    assert "'reltoll' is ignored: did you mean 'reltol' or " in said[2] and "'rshunt' is ignored: supported are reltol, " in said[3]


@pytest.mark.parametrize("asked, names", [
    ("all", None), ("v(*)", None), ("v(in) all", None), ("v(in)-v(out)", ["v(in,out)"]), ("v(in) - v(out), v( out )", ["v(in,out)", "v(out)"]), ("v(in),v(out,in)", ["v(in)", "v(out,in)"]),
    ("format=noindex file='a b.txt' v(out)", ["v(out)"]), ("width = 20 v(out)", ["v(out)"])])
def test_items_of_print(asked, names, deck, recwarn):
    circuit = deck(f"{CHARGING}\n.tran 0.1m 1m\n.print tran {asked}")
    assert circuit.run()[1] == names and not len(recwarn)


@pytest.mark.parametrize("asked", ["{v(out)*2}", "v(in)-v(out)+1", "2*v(in)-v(out)", "par('v(in) * 2')", "foo", "vm(out)", "i(*)", "v(in)-i(v1)", "v(out", "'v(out)"])
def test_unsupported_items_of_print(asked, deck):
    with pytest.warns(ms.MeshsolveWarning, match=r"deck.sp:6: .* of .print tran is ignored: supported are v\(node\)"):
        circuit = deck(f"{CHARGING}\n.tran 0.1m 1m\n.print tran v(in) {asked}")
    assert circuit.run()[1] == ["v(in)"]


@pytest.mark.parametrize("line, arguments, keywords", [
    (".tran 0 1m", (1e-6, 1e-3), {"uic": False}), (".tran 1m", (1e-6, 1e-3), {"uic": False}), (".tran 1m uic", (1e-6, 1e-3), {"uic": True}), (".tran 0 2m 1m", (1e-6, 2e-3), {"uic": False, "tstart": 1e-3}),
    (".tran 0 1m 0 1u", (1e-6, 1e-3), {"uic": False, "tstart": 0, "tmax": 1e-6}), (".tran 1u 1m noop", (1e-6, 1e-3), {"uic": True}), (".tran 1u 1m 0 0", (1e-6, 1e-3), {"uic": False, "tstart": 0})])
def test_how_tran_may_be_written(line, arguments, keywords, deck):
    a, = deck(f"{CHARGING}\n{line}").analyses
    assert np.allclose(a.arguments, arguments) and a.keywords == keywords
    with pytest.warns(ms.MeshsolveWarning, match="'startup' of .tran is ignored"):
        assert deck(f"{CHARGING}\n{line} startup").analyses[0].arguments == a.arguments


def test_currents_have_an_axis_of_their_own(deck, tmp_path, monkeypatch):
    labels = []
    monkeypatch.setattr(results, "_curves", lambda axes, points, signals, unit, axis: labels.append((unit, list(signals))))
    w = deck(CHARGING).transient(1e-4, 1e-3)
    w.plot(tmp_path / "out.png", ["v(in)", "I(V1)", "out"])
    assert labels == [("V", ["v(in)", "out"]), ("A", ["I(V1)"])]


def test_tables_restore_every_double(deck, tmp_path):
    """Seventeen digits, for transients as for operating points."""
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


def test_many_printed_currents_are_found_at_once(deck, tmp_path, monkeypatch):
    """One table of all names serves all printed currents."""
    n, made, table = 2000, [], System.__dict__["current_numbers"]
    monkeypatch.setattr(table, "func", lambda system, make=table.func: (made.append(system), make(system))[1])
    lines = "".join(f"V{k} a{k} 0 {k}\nR{k} a{k} 0 1\n" for k in range(n))
    result, names = deck(lines + ".print op " + " ".join(f"i(v{k})" for k in range(0, n, 10))).run()
    result.to_csv(tmp_path / "out.csv", names)
    assert len(made) == 1
    assert np.allclose([result[name] for name in names], -np.arange(0.0, n, 10))


def test_pictures_of_a_power_grid(deck, tmp_path):
    deck(decks.power_grid(5)).op().plot(tmp_path / "map.png", [f"v(n_{i}_{j})" for i in range(5) for j in range(5)])
    assert (tmp_path / "map.png").stat().st_size > 5000
    with pytest.raises(ms.InvalidInputError, match="written as .png"):
        deck("V1 a 0 1\nR1 a 0 1").op().plot(tmp_path / "map.jpg")
