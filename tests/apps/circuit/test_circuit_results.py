"""Results as mappings: keys, names that can be looked up, and errors of unknown names."""

import collections.abc
import pickle

import numpy as np
import pytest

import meshsolve as ms

TEXT = "V1 in 0 PULSE(0 1 0 1n 1n 1 2) DC 5 AC 1\nR1 in out 1k\nL1 out end 1m\nC1 end 0 1u\nR2 end 0 1k\nD1 0 end dm\n.model dm d(rs=1)"
KEYS = ["in", "out", "end", "i(v1)", "i(l1)"]


@pytest.fixture
def circuit(deck):
    return deck(TEXT)


def every(circuit):
    return {"op": circuit.op(), "time": circuit.transient(1e-4, 1e-3), "frequency": circuit.ac("dec", 5, 1, 1e5), "sweep": circuit.dc("v1", 0, 5, 1)}


# ---- mappings ---------------------------------------------------------------------------------------------------------------


def test_results_are_mappings(circuit):
    """The node inside the diode has no name and is no key."""
    for kind, result in every(circuit).items():
        assert isinstance(result, collections.abc.Mapping) and list(result) == list(result.keys()) == KEYS and len(result) == 5
        for name, value in result.items():
            assert np.array_equal(value, result[name]) and name in result
        assert list(dict(result)) == KEYS and len(list(result.values())) == 5
        shape = () if kind == "op" else (len(getattr(result, kind)),)
        assert all(np.shape(value) == shape for value in dict(result).values())
    v = circuit.op()
    assert all(type(value) is float for value in v.values()) and v == dict(v) and dict(v)["in"] == 5


def test_keys_are_the_kept_signals(circuit):
    w = circuit.transient(1e-4, 1e-3, nodes=["i(L1)", "v(in,OUT)"])
    assert list(w) == ["in", "out", "i(l1)"] and len(w) == 3 and w.nodes == ["in", "out", "end"]
    assert "end" not in w and "v(in,end)" not in w and "v(in,out)" in w and "gnd" in w and w.get("end") is None
    with pytest.raises(KeyError, match=r"'end' was not kept: add it to nodes= of the analysis, which kept 'in', 'out', 'i\(l1\)'"):
        w["end"]
    assert len(circuit.transient(1e-4, 1e-3, nodes=[])) == 0


def test_kept_signals_are_written(deck, tmp_path):
    """Tables without given names have the kept currents as well."""
    circuit = deck("V1 in 0 1\nR1 in out 1k\nC1 out 0 1u")
    for nodes, head in ((None, "time,v(in),v(out)"), (["i(v1)"], "time,i(v1)"), (["out", "i(v1)", "in"], "time,v(in),v(out),i(v1)")):
        circuit.transient(1e-4, 1e-3, nodes=nodes).to_csv(tmp_path / "out.csv")
        assert (tmp_path / "out.csv").read_text().splitlines()[0] == head


def test_get(circuit):
    v, w = circuit.op(), circuit.transient(1e-4, 1e-3)
    assert v.get("IN") == 5 and v.get("nowhere") is None and v.get("nowhere", 7) == 7 and v.get("nowhere", default=7) == 7
    assert w.get("v(in,out)").shape == (11,) and w.get("vdb(in)") is None and v.get(0) is None and 0 not in v and None not in w


def test_waveforms_are_equal_only_to_themselves(circuit):
    """A mapping compares its values, which arrays do not allow."""
    first, second = circuit.transient(1e-4, 1e-3), circuit.transient(1e-4, 1e-3)
    assert first == first and first != second and len({first, second, first}) == 2


def test_results_are_pickled(circuit):
    for kind, result in every(circuit).items():
        again = pickle.loads(pickle.dumps(result))
        assert list(again) == KEYS and all(np.array_equal(again[name], result[name]) for name in KEYS)
        assert kind == "op" or np.array_equal(getattr(again, kind), getattr(result, kind))


# ---- names ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, words", [
    ("ouut", "there is no node 'ouut': did you mean 'out'?"), ("v(in,ouut)", "there is no node 'ouut': did you mean 'out'?"),
    ("L1", "there is no node 'L1'; the current of that element is 'i(l1)'"), ("i(r1)", "there is no current i(r1), only"), (0, "must be a string, got 0"),
    (None, "must be a string, got None"), ("", "there is no node ''"), ("v()", "no node 'v()'"), ("v(in,out,end)", "no node 'v(in,out,end)'"),
    ("v(in", "no node 'v(in'"), ("vx(in)", "no node 'vx(in)'")])
def test_unknown_names(name, words, circuit):
    for result in every(circuit).values():
        assert name not in result
        with pytest.raises(ms.InvalidInputError) as caught:
            result[name]
        assert isinstance(caught.value, KeyError) and isinstance(caught.value, ValueError)
        assert words in str(caught.value) and not str(caught.value).startswith(("'v", '"'))
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_up_to_three_similar_names_are_offered(deck):
    v = deck("V1 node1 0 1\nR1 node1 node2 1\nR2 node2 node3 1\nR3 node3 node4 1\nR4 node4 0 1\nVsense node4 x 0\nR5 x 0 1").op()
    for name, close in (("node9", r"'node\d', 'node\d' or 'node\d'\?"), ("i(vsens)", r"'i\(vsense\)'\?"), ("vsense", r"element is 'i\(vsense\)'")):
        with pytest.raises(KeyError, match=close):
            v[name]


def test_membership_does_not_search_similar_names(circuit, monkeypatch):
    """The search takes a second among many names."""
    v = circuit.op()
    monkeypatch.setattr("difflib.get_close_matches", lambda *_: pytest.fail("looked for"))
    assert "nowhere" not in v and v.get("nowhere") is None and "i(nowhere)" not in v and "v(in,nowhere)" not in v


def test_indexing_accepts_the_names_of_tables(circuit, tmp_path):
    r = circuit.ac("dec", 5, 1, 1e5)
    z = r["out"]
    expected = {"vm(out)": np.abs(z), "vdb(OUT)": 20 * np.log10(np.abs(z)), "vp(out)": np.degrees(np.unwrap(np.angle(z))), "vr(out)": z.real,
                "VI(out)": z.imag, "vm(in,out)": np.abs(r["in"] - z), "im(v1)": np.abs(r["i(v1)"]), "idb( l1 )": 20 * np.log10(np.abs(r["i(l1)"]))}
    r.to_csv(tmp_path / "out.csv", list(expected))
    columns = np.genfromtxt(tmp_path / "out.csv", delimiter=",", skip_header=1).T[1:]
    for (name, values), column in zip(expected.items(), columns, strict=True):
        assert name in r and np.allclose(r[name], values, rtol=1e-12) and r[name].tolist() == column.tolist()
    kept = circuit.ac("dec", 5, 1, 1e5, nodes=["vdb(out)", "im(v1)"])
    assert list(kept) == ["out", "i(v1)"] and kept["vdb(out)"].tolist() == r["vdb(out)"].tolist() and "vm(in)" not in kept
    with pytest.raises(KeyError, match="no node 'zz'"):
        r["vm(zz)"]


def test_parts_of_real_values_are_an_error(circuit, tmp_path):
    for result in (circuit.op(), circuit.transient(1e-4, 1e-3)):
        for look_up in (lambda r=result: r["vdb(out)"], lambda r=result: r.to_csv(tmp_path / "out.csv", ["vdb(out)"])):
            with pytest.raises(ms.InvalidInputError, match=r"only results over frequency are complex: use 'v\(out\)'"):
                look_up()
        assert "vdb(out)" not in result


@pytest.mark.parametrize("names, words", [("out", "names must be a list of names, got one string"), (7, "names must be a list of names, got 7")])
def test_lists_of_names(names, words, circuit, tmp_path):
    for write in (circuit.op().to_csv, circuit.op().plot, circuit.transient(1e-4, 1e-3).to_csv, circuit.transient(1e-4, 1e-3).plot):
        with pytest.raises(ms.InvalidInputError, match=words):
            write(tmp_path / "out.png", names)
    with pytest.raises(ms.InvalidInputError, match=words.replace("names must", "nodes must")):
        circuit.transient(1e-4, 1e-3, nodes=names)


# ---- points -------------------------------------------------------------------------------------------------------


def test_results_have_only_the_points_of_their_analysis(circuit):
    axes = {"time", "frequency", "sweep"}
    for kind, result in every(circuit).items():
        if kind == "op":
            continue
        assert getattr(result, kind).dtype == np.float64 and [a for a in sorted(axes) if hasattr(result, a)] == [kind]
        for other in axes - {kind}:
            with pytest.raises(AttributeError, match=f"results over .* have no .{other}: their points are .{kind}"):
                getattr(result, other)
