"""Types: public functions are annotated, mypy is clean, and users see the types."""

import inspect
import pathlib
import subprocess
import sys

import pytest
from cases import each
from test_docs import PUBLIC

import meshsolve as ms
from meshsolve.factor.cholesky import CholeskyFactor
from meshsolve.factor.ildl import IldlFactor
from meshsolve.factor.lu import LUFactor
from meshsolve.factor.parac import ParacFactor

ROOT = pathlib.Path(__file__).resolve().parents[1]
METHODS = {f"{c.__name__}.{name}": getattr(c, name) for c in (CholeskyFactor, LUFactor, IldlFactor, ParacFactor)
           for name in ("solve", "refactor", "__call__") if hasattr(c, name)}


@each("name", [n for n, f in (PUBLIC | METHODS).items() if inspect.isfunction(f)])
def test_public_functions_are_annotated(name):
    signature = inspect.signature((PUBLIC | METHODS)[name])
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name not in ("self", "cls")]
    assert not bare and signature.return_annotation is not signature.empty, f"{bare} or the result of {name} has no type"


@pytest.mark.parametrize("constructed", [ms.Mesh, ms.PatchMesh, ms.Ordering, ms.torch.Solver], ids=lambda c: c.__name__)
def test_constructors_are_annotated(constructed):
    """Without annotations a call is an error under mypy --strict."""
    assert all(p.annotation is not p.empty for p in inspect.signature(constructed).parameters.values())


def mypy(*arguments):
    pytest.importorskip("mypy")
    return subprocess.run([sys.executable, "-m", "mypy", *arguments], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_mypy_is_clean():
    done = mypy()
    assert done.returncode == 0, done.stdout + done.stderr


SOLVERS = """
import numpy as np
import meshsolve as ms

A = ms.datasets.grid2d(3, 3, boundary="dirichlet")
F = ms.cholesky(A, "nd", precision="mixed", fixed=[0])
reveal_type(F)
reveal_type(F.refactor(A).perm)
reveal_type(ms.factorized(A))
reveal_type(ms.load_mesh("scan.obj").edges)
x, info = ms.solve(A, np.ones(9))
reveal_type(info)
reveal_type(ms.apps.circuit.read("deck.sp").op())
ms.cholesky(A, precision="quadruple")
ms.mass_matrix(ms.datasets.icosphere(1), kind="lumpy")
F.solve(np.ones(9), system="U")
ms.cholesky(A, presision="mixed")
reveal_type(ms.Mesh(np.zeros((3, 3)), [[0, 1, 2]]).components)
reveal_type(F.shape)
reveal_type(F.report.seconds)
reveal_type(info.report.seconds)
"""
CIRCUITS = """
import meshsolve as ms
c = ms.apps.circuit.read("deck.sp")
v, w = c.op(), c.transient(1, 2)
reveal_type(v["out"])
reveal_type(v.get("out"))
reveal_type(dict(v))
reveal_type(v.voltages)
reveal_type(w.time)
reveal_type(c.ac("dec", 1, 1, 10).frequency)
reveal_type(c.dc("v1", 0, 1, 1).sweep)
reveal_type(w["out"])
reveal_type([name for name in w])
reveal_type(c.nodes + w.nodes)
reveal_type(c.title)
reveal_type(w.report)
reveal_type(c.run()[1])
for name, values in w.items():
    print(name, values.max(), w.get("out", values), len(w))
w.times
"""


@pytest.mark.slow
def test_strict_type_checkers_see_types_and_wrong_names(tmp_path):
    """In two programs of users, by one run because each reads the package and numpy."""
    assert (ROOT / "meshsolve" / "py.typed").exists() and ms.__all__
    files = [tmp_path / name for name in ("user_of_solvers.py", "user_of_circuits.py")]
    for file, text in zip(files, (SOLVERS, CIRCUITS)):
        file.write_text(text)
    done = mypy("--strict", "--config-file", str(ROOT / "pyproject.toml"), *map(str, files))          # a checkout has errors of its own
    lines = [[line for line in done.stdout.splitlines() if f"{file.name}:" in line] for file in files]
    seen, faults = ([[line for line in of_file if word in line] for of_file in lines] for word in ("Revealed", ": error:"))
    revealed, of_circuits = ([line.split('"')[1].replace("builtins.", "") for line in of_file] for of_file in seen)
    factors = ["cholesky.CholeskyFactor", "ildl.IldlFactor", "lu.LUFactor"]
    assert revealed[0] == "meshsolve.factor.cholesky.CholeskyFactor" and "ndarray" in revealed[1] and "ndarray" in revealed[3]
    assert all(f in revealed[2] for f in factors) and revealed[4] == "meshsolve.krylov.info.Info"
    assert revealed[5] == "meshsolve.apps.circuit.results.OperatingPoint"
    assert "ndarray" in revealed[6] and revealed[7:] == ["tuple[int, int]", "dict[str, float]", "dict[str, float]"]
    words = ["precision", "kind", "system", "presision"]
    assert len(faults[0]) == 4 and all(word in line for word, line in zip(words, faults[0])), done.stdout
    assert of_circuits[:3] == ["float", "float | None", "dict[str, float]"]
    assert all("ndarray" in text and "float64" in text.replace("floating[numpy._typing._nbit_base._64Bit]", "float64") for text in of_circuits[3:7])
    assert "ndarray" in of_circuits[7] and of_circuits[8:11] == ["list[str]", "list[str]", "str"]
    assert of_circuits[11] == "meshsolve.report.Report" and of_circuits[12] == "list[str] | None"
    assert len(faults[1]) == 1 and '"Waveforms" has no attribute "times"' in faults[1][0], done.stdout
