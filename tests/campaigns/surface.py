"""The public calls of meshsolve that return numbers or files, and the reasons of those without an attack.

A call is public if an ``__all__`` names it, or if it is a method or property of a public class and its name has no underscore in
front. Attributes of plain data (dataclass fields) belong to the call that returns them.
"""

from __future__ import annotations

import fnmatch
import functools
import inspect
from typing import Any

import meshsolve as ms

MODULES = ("", "operators", "order", "apps", "apps.circuit", "datasets", "batch", "petsc", "torch", "jax")

# name, or pattern of names: why no attack tries it
REASONS = {
    "petsc.*": "PETSc is not installed everywhere; tests/petsc compares with its own solvers on one process and on several",
    "show_config": "returns text and versions",
    "showing_progress": "draws progress bars",
    "Info": "read by the attacks on solve, cg, gmres and sqmr",
    "EigenInfo": "read by the attacks on eigsh",
    "Eigenpairs": "read by the attacks on eigsh",
    "QuadraticInfo": "read by the attacks on Quadratic.minimize",
    "Report": "phases and times of the calls that return it",
    "Report.*": "phases and times of the calls that return it",
    "*Factor.matmat": "matvec of several columns; solve is attacked with any number of columns",
    "CholeskyFactor.capture": "CUDA graphs: needs a GPU; tests/factor/cholesky compares bits on the harness",
    "CholeskyFactor.check": "waits for captured work of a GPU",
    "CholeskyFactor.can_be_captured": "says whether capture takes the factor",
    "*.on_device": "says where the factor lies",
    "*.apply_columns": "internal: what the iterations call; attacked through cg, gmres and sqmr",
    "*.apply_inside": "internal: as apply_columns",
    "*.apply_on_device": "internal: as apply_columns, on a GPU",
    "*.check_device": "internal: waits for a GPU",
    "*.project": "internal: removes means in the iterations",
    "*.project_on_device": "internal: as project, on a GPU",
    "*.settled": "internal: a factor after the trial of doubtful symmetry; attacked in symmetry.py",
    "IldlFactor.warn_if_undecided": "warns if is_undecided, which is attacked",
    "LUFactor.trial": "internal: residuals of systems with known solutions, read by ms.lu",
    "Symbolic.*_on_device": "internal: copies on a GPU",
    "Symbolic.*_in": "internal: arrays where a matrix lies",
    "Symbolic.matrix_pattern": "internal: the pattern that values_of, attacked, orders by",
    "Symbolic.native": "internal: the analysis in the C++ core",
    "Symbolic.build": "internal: makes the object",
    "Symbolic.nbytes": "a count of bytes",
    "Symbolic.boundary": "internal: rows that a Schur complement keeps",
    "PatchMesh.kernel": "compiles CUDA code: tests/patches runs it on the harness",
    "PatchMesh.tables": "internal: the arrays that queries, attacked, read",
    "Mesh.from_meshio": "converted by the attacks on files",
    "Mesh.to_meshio": "converted by the attacks on files",
    "TetMesh.from_meshio": "converted by the attacks on files",
    "order.resolve": "internal: chooses a method; attacked through ordering= of the factors",
    "order.SeparatorTree": "attacked as order.SeparatorTree.partition",
    "torch.Solver.*": "attacked as torch.Solver",
    "batch.Table": "read by the attacks on batch.meshes",
    "batch.Table.*": "read by the attacks on batch.meshes",
    "apps.circuit.*.plot": "draws; the waveforms are attacked",
    "apps.circuit.*.values": "a mapping's method",
    "apps.circuit.Waveforms": "read by the attacks on the analyses that return them",
    "apps.circuit.OperatingPoint": "read by the attacks on Circuit.op",
    "apps.circuit.Waveforms.*": "read by the attacks on the analyses that return them",
    "apps.circuit.OperatingPoint.*": "read by the attacks on Circuit.op",
}


def public() -> list[str]:
    """Names of all public calls below ``meshsolve``, sorted. Factors and results are listed once, under their shortest name."""
    names = {}
    for module in MODULES:
        owner = functools.reduce(getattr, filter(None, module.split(".")), ms)
        for name in owner.__all__:
            thing = getattr(owner, name)
            path = f"{module}.{name}" if module else name
            if inspect.ismodule(thing) or name.startswith("_") or (inspect.isclass(thing) and issubclass(thing, BaseException)):
                continue
            names.setdefault(id(thing), path)
            if inspect.isclass(thing):
                names.update({(id(thing), member): f"{names[id(thing)]}.{member}" for member in members(thing)})
    return sorted(set(names.values()))


def members(thing: type) -> list[str]:
    """Methods and properties that meshsolve defines in a class or its bases, without names with an underscore in front."""
    return [name for base in thing.__mro__ if base.__module__.startswith("meshsolve") for name, value in vars(base).items()
            if not name.startswith("_") and _is_call(value)]


def without_attack(attacked: set[str]) -> list[str]:
    """Public calls that no attack names and that no reason excuses. A class counts as attacked with any of its members."""
    classes = {name.rpartition(".")[0] for name in attacked}
    return [name for name in public() if name not in attacked | classes and not any(fnmatch.fnmatchcase(name, pattern) for pattern in REASONS)]


def unknown(attacked: set[str]) -> list[str]:
    """Names in the table of attacks that are no public call."""
    return sorted(name for name in attacked if not _exists(name))


def _is_call(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, (property, functools.cached_property, classmethod, staticmethod))


def _exists(name: str) -> bool:
    thing: Any = ms
    for part in name.split("."):
        if not hasattr(thing, part):
            return inspect.isclass(thing) and part in getattr(thing, "__annotations__", {})
        thing = getattr(thing, part)
    return True
