"""The table of devices: what the core exports, and that no other file names a device."""

import ast
import pathlib
import pickle
import re

import numpy as np
import pytest

import meshsolve as ms
from meshsolve import _core
from meshsolve.apps.circuit.devices import RANGES, TABLE
from meshsolve.apps.circuit.mna import Matrix

SOURCES = pathlib.Path(__file__).resolve().parents[3] / "meshsolve" / "apps" / "circuit"      # the C++ files are not installed
UNITS = {"", "A", "V", "F", "s", "ohm", "eV", "C", "1/K", "1/K2", "V/K", "m", "m2", "S"}


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_declarations(kind):
    """Names are unique, defaults lie in their ranges, and branches and resistances refer to terminals and parameters."""
    names, line = ([name for name, *_ in part] for part in (kind.parameters, kind.line))
    assert len({*names, *kind.aliases, *kind.ignored}) == len(names) + len(kind.aliases) + len(kind.ignored) and set(kind.aliases.values()) <= set(names)
    assert len(set(line)) == len(line) and len(kind.letter) == 1 and kind.level >= 1 and kind.types and len(set(kind.terminals)) == len(kind.terminals) >= 2
    for name, unit, otherwise, which, *_ in kind.parameters + kind.line:
        assert name == name.lower() and unit in UNITS and (np.isnan(otherwise) or RANGES[which][0](otherwise))
    assert all(0 <= end < 2 * len(kind.terminals) for branch in kind.branches for end in branch[:2]) and any(conducts for *_, conducts in kind.branches)
    assert all(parameter in names and 0 <= terminal < len(kind.terminals) for parameter, terminal in kind.series)
    assert all(-1 <= initial < len(kind.branches) for *_, initial in kind.line)


def test_the_first_entry():
    kind = _core.device_table()[0]
    assert (kind["name"], kind["letter"], kind["terminals"], kind["branches"], kind["series"]) == ("diode", "d", ["anode", "cathode"], [(0, 1, True)], [("rs", 0)])
    defaults = {name: (unit, otherwise) for name, unit, otherwise, _ in kind["parameters"]}
    assert len(defaults) == 29 and defaults["is"] == ("A", 1e-14) and defaults["tt"] == ("s", 0) and defaults["bv"] == ("V", np.inf) and np.isnan(defaults["nbv"][1])
    assert [name for name, *_ in kind["line"]] == ["area", "ic"]


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_equations_follow_from_the_declaration(kind):
    """Matrix rows, inner nodes and current directions of each device in the table, with all its resistances."""
    nodes = [f"n{k}" for k in range(len(kind.terminals))]
    resistances = " ".join(f"{parameter}={k + 2}" for k, (parameter, _) in enumerate(kind.series))
    text = "\n".join(["t", f"{kind.letter}1 {' '.join(nodes)} dm", *(f"R{k} {node} 0 1" for k, node in enumerate(nodes)), f".model dm {kind.types[0]}({resistances})", ".end\n"])
    system = ms.apps.circuit.parse(text)._system
    devices, count = system.devices, len(kind.branches)
    inside = list(range(len(nodes)))
    for k, (_, terminal) in enumerate(kind.series):
        inside[terminal] = len(nodes) + k
        assert system.describe(len(nodes) + k).startswith(f"a node inside {kind.letter}1")
    ends = [(inside + list(range(len(nodes))))[end] for branch in kind.branches for end in branch[:2]]
    assert devices.nodes.tolist() == np.reshape(ends, (count, 2)).tolist() and devices.ohm.tolist() == [k + 2.0 for k in range(len(kind.series))]
    assert np.asarray(system.across @ np.eye(system.n)).tolist() == np.asarray(system.through.T @ np.eye(system.n)).tolist()
    g = np.random.default_rng(0).uniform(1, 2, count * count)
    matrix = Matrix(system, False)
    expected = system.through @ g.reshape(count, count) @ system.across
    added = matrix.with_devices(0.0, g).toarray() - matrix.with_devices(0.0, 0 * g).toarray()
    assert np.allclose(added, expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_derivatives(kind):
    """Derivatives of currents and charges by voltages: with default parameters, and with capacitances and times above 0."""
    charged = " ".join(f"{name}={1e-9 if unit == 's' else 1e-12}" for name, unit, *_ in kind.parameters if unit in ("s", "F"))
    nodes = " ".join(f"n{k}" for k in range(len(kind.terminals)))
    text = f"t\n{kind.letter}1 {nodes} dm\nR1 n0 0 1\n.model dm {kind.types[0]}({charged})\n.end\n"
    devices, count, h = ms.apps.circuit.parse(text)._system.devices, len(kind.branches), 1e-6
    for seed in range(20):
        v = np.random.default_rng(seed).uniform(-1, 0.6, count)
        law = devices.at(v)
        for j in range(count):
            high, low = (devices.at(v + sign * h * (np.arange(count) == j)) for sign in (1, -1))
            for slope, value in (("conductance", "current"), ("capacitance", "charge")):
                exact, got = (getattr(high, value) - getattr(low, value)) / (2 * h), getattr(law, slope)[j::count]
                assert np.allclose(got, exact, rtol=1e-4, atol=4e-15 * np.abs(getattr(law, value)).max() / h + 1e-20)


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_bad_parameters_are_named(kind):
    """A value outside of a declared range is an error."""
    nodes = " ".join(f"n{k}" for k in range(len(kind.terminals)))
    text = f"t\n{kind.letter}1 {nodes} dm\nR1 n0 0 1\n.model dm {kind.types[0]}({{}})\n.end\n"
    refused = 0
    for name, _, _, which in kind.parameters:
        fits, must = RANGES[which]
        for value in (-300.0, -1.0, 0.0, 0.5, 1.0, 2.0):
            if not fits(value):
                refused += 1
                with pytest.raises(ms.InvalidInputError, match=re.escape(f"<text>:4: the {kind.name} parameter {name} must {must}, got {value:g}")):
                    ms.apps.circuit.parse(text.format(f"{name}={value}"))
    assert refused


def code_of(path):
    """A source without its comments and docstrings."""
    text = path.read_text()
    if path.suffix != ".py":
        return re.sub(r"//.*|case '.': return \" \(.*", "", text)        # without the names of unsupported elements
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, clean=False):
            node.body[0].value = ast.Constant("")
    return ast.unparse(tree)


def test_no_other_file_names_a_device():
    """A device has its own file and a line in the table. No other source quotes its name, its terminals or its parameters."""
    files = [path for path in sorted(SOURCES.iterdir()) if path.suffix in (".py", ".cpp", ".hpp")]
    own = [path for path in files if path.name == "devices.cpp" or re.search(r"^Kind \w+\(\) \{", path.read_text(), re.MULTILINE)]
    sources = [path for path in files if path not in own]
    assert len(sources) > 30 and len(own) == len(TABLE) + 1
    for path in sources:
        code = code_of(path)
        for kind in TABLE:
            assert kind.name not in code.lower(), f"{path.name} has the name of the {kind.name}"
            quoted = {*kind.terminals, *(name for name, *_ in kind.parameters if len(name) > 2)} - {"tnom"}
            assert not quoted & set(re.findall(r"[\"']([a-z0-9]+)[\"']", code)), f"{path.name} names the {kind.name}"


def test_copies_and_pickles_of_devices_compute_the_same():
    devices = ms.apps.circuit.parse("t\nR1 a 0 1\nD1 a 0 dm 3\n.model dm d(rs=1 cjo=1p)\n.end\n")._system.devices
    again = pickle.loads(pickle.dumps(devices))
    assert [x.tolist() for x in again.at([0.5])] == [x.tolist() for x in devices.at([0.5])] and again.at([0.5]).current[0] > 3e-7
