"""Imports point downwards only, and optional packages are imported inside functions; ruff finds nothing."""

import ast
import importlib.util
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "meshsolve"
LAYERS = [                                  # from the top; a package may import packages of lower lines
    ["__init__", "__main__"],
    ["cli"],
    ["batch", "petsc"],
    ["apps", "jax", "torch"],
    ["gradients"],
    ["eigen"],
    ["api"],
    ["krylov"],
    ["factor"],
    ["factor.cholesky", "factor.lu", "factor.ilu", "factor.ildl", "factor.parac"],
    ["factor.ldlt", "factor.constrained", "factor.schur", "factor.trial"],
    ["factor.many"],
    ["factor.base"],
    ["factor.sharing"],
    ["factor.fronts", "factor.trisolve"],
    ["factor.symbolic", "factor.matching"],
    ["order"],
    ["datasets"],
    ["operators"],
    ["patches"],
    ["mesh"],
    ["config"],
    ["sparse"],
    ["report"],
    ["foreign"],
    ["files", "options"],
    ["memory", "seal"],
    ["device"],
    ["public"],
    ["errors", "types", "version", "native", "startup", "_core"],
]
LEVEL = {package: len(LAYERS) - k for k, packages in enumerate(LAYERS) for package in packages}
OPTIONAL = {"cloudpickle", "cupy", "cupyx", "dask", "distributed", "jax", "mpi4py", "petsc4py", "polyscope", "pyarrow", "nvmath", "shtab", "torch"}


def package(module):
    parts = module.removeprefix("meshsolve").strip(".").split(".")
    for k in (2, 1):
        if ".".join(parts[:k]) in LEVEL:
            return ".".join(parts[:k])
    return "__init__" if parts == [""] else None


def imports(tree):
    """Modules of meshsolve that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "meshsolve":
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                path = PACKAGE.parent / full.replace(".", "/")
                yield full if alias.name == "_core" or path.is_dir() or path.with_suffix(".py").exists() else node.module
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "meshsolve")


def sources():
    for file in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        yield file, name, ast.parse(file.read_text())


def test_imports_point_downwards():
    upward = []
    for file, name, tree in sources():
        own = package(name)
        assert own is not None, f"{file}: give this package a layer"
        for target in imports(tree):
            target_package = package(target)
            assert target_package is not None, f"{file} imports {target}, which has no layer"
            if target_package != own and LEVEL[target_package] >= LEVEL[own]:
                upward.append(f"{file.name}: {own} imports {target_package}")
    assert not upward, upward


def test_the_rule_itself_finds_an_upward_import():
    assert LEVEL[package("meshsolve.order")] < LEVEL[package("meshsolve.api")]
    assert list(imports(ast.parse("from meshsolve.api import cholesky"))) == ["meshsolve.api"]
    assert list(imports(ast.parse("from meshsolve import order"))) == ["meshsolve.order"]


def test_optional_packages_are_imported_inside_functions():
    for file, _, tree in sources():
        for node in tree.body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            used = OPTIONAL & {n.split(".")[0] for n in names}
            assert not used or (used == {"torch"} and file.name == "functions.py"), file        # imported when a function is called


def test_functions_fit_on_a_screen():
    long = []
    for file, _, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno >= 60:
                docstring = node.body[0] if ast.get_docstring(node) else None
                length = node.end_lineno - (docstring.end_lineno if docstring else node.lineno)
                if length > 40:
                    long.append(f"{file.name}:{node.lineno} {node.name}: {length}")
    assert not long, long


@pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="ruff is not installed")
def test_ruff_finds_nothing():
    found = subprocess.run([sys.executable, "-m", "ruff", "check", "--output-format", "concise", PACKAGE.parent], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
