"""The quick tier (``-m "not slow"``) reaches every package of meshsolve."""

import ast
import functools
import inspect
import pathlib

import pytest
from cases import each

TESTS = pathlib.Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "meshsolve"
FOLDERS = [file.parent.relative_to(PACKAGE) for file in PACKAGE.rglob("__init__.py")]
PACKAGES = sorted(folder.as_posix() for folder in FOLDERS if 1 <= len(folder.parts) <= 2)       # deeper packages count for their parent


def is_slow(node):
    """True for a statement or decorator that uses the marker slow."""
    return any(isinstance(part, ast.Attribute) and part.attr == "slow" for part in ast.walk(node))


def quick_tests(tree):
    """Names of the test functions of a module in the quick tier."""
    if any(is_slow(node) for node in tree.body if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "pytestmark"):
        return []
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
            and not any(ast.unparse(mark) == "pytest.mark.slow" for mark in node.decorator_list)]


def imported(tree):
    """Full names of all imports of a file, and of the packages it uses as ``ms.package``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ms":
            yield f"meshsolve.{node.attr}"


def reached(file):
    """Packages reached by the quick tests of a file: that of its folder, and those that it imports from."""
    tree = ast.parse(file.read_text())
    if not quick_tests(tree):
        return set()
    names = {name.removeprefix("meshsolve.").replace(".", "/") for name in imported(tree) if name.startswith("meshsolve.")}
    names.add(file.parent.relative_to(TESTS).as_posix())
    return {package for package in PACKAGES for name in names if name == package or name.startswith(package + "/")}


@functools.cache
def all_reached():
    """Packages reached by the quick tests of all files."""
    return set().union(*map(reached, TESTS.rglob("test_*.py")))


@pytest.mark.slow
@each("package", PACKAGES)
def test_the_quick_tier_reaches_every_package(package):
    assert package in all_reached(), f"no quick test for meshsolve/{package}: take the marker slow from one"


def test_markers_are_seen():
    tree = ast.parse("import pytest\n@pytest.mark.slow\ndef test_a(): pass\n@pytest.mark.native\ndef test_b(): pass\ndef other(): pass")
    assert quick_tests(tree) == ["test_b"]
    assert quick_tests(ast.parse("pytestmark = pytest.mark.slow\ndef test_a(): pass")) == []


def test_each_reports_all_failed_cases(tmp_path):
    seen = []

    @each("name, size", [("a", 1), ("b", 2), ("c", 3)])
    @each("sign", [1, -1])
    def test(tmp_path, name, size, sign):
        seen.append((name, sign))
        (tmp_path / "new").mkdir()
        assert size * sign < 2, f"case {name}"

    assert list(inspect.signature(test).parameters) == ["tmp_path"]
    with pytest.raises(pytest.fail.Exception, match="2 of 3 cases fail") as caught:
        test(tmp_path=tmp_path)
    assert len(seen) == 6 and all(f"case {name}" in str(caught.value) for name in "bc") and "case a" not in str(caught.value)
