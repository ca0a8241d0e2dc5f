"""What a release consists of: one version, and a configuration of wheels that says what the package says."""

import pathlib
import re
import tomllib

import pytest

import meshsolve as ms

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]


def test_one_version():
    assert re.search(r"^version: [\"']?([^\"'\s]+)", (ROOT / "CITATION.cff").read_text(), re.M)[1] == VERSION
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == VERSION
    assert ms.__version__ in (VERSION, "0.0.0+source")


def test_wheels_are_built_for_every_python_that_is_supported():
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=").replace(".", "")
    built = {tag.removesuffix("-*") for tag in PROJECT["tool"]["cibuildwheel"]["build"]}
    abi3 = PROJECT["tool"]["scikit-build"]["wheel.py-api"] if "wheel.py-api" in PROJECT["tool"]["scikit-build"] else PROJECT["tool"]["scikit-build"]["wheel"]["py-api"]
    assert built == {f"cp{oldest}", abi3}
    command = PROJECT["tool"]["cibuildwheel"]["test-command"]
    for path in re.findall(r"\{project\}/(\S+)", command):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("file", ["native/buffer.cpp", "native/parallel.cpp", "native/dense.cpp"])
def test_what_one_system_alone_has_is_guarded(file):
    """Headers of POSIX, glibc and x86 are included behind a condition, here and nowhere else."""
    text, depth = (ROOT / "meshsolve" / file).read_text(), 0
    for line in text.splitlines():
        depth += line.startswith("#if") - line.startswith("#endif")
        assert depth or not re.match(r"#include <(pthread|malloc|sys/|cpuid|unistd)", line), line


def test_no_other_file_includes_what_one_system_alone_has():
    guarded = {"buffer.cpp", "parallel.cpp", "dense.cpp"}
    for path in [*(ROOT / "meshsolve").rglob("*.cpp"), *(ROOT / "meshsolve").rglob("*.hpp")]:
        found = re.search(r"#include <(pthread|malloc|sys/|cpuid|unistd|dlfcn|windows)[^>]*>|std::(atomic_ref|aligned_alloc)\b|__builtin_cpu", path.read_text())
        assert found is None or path.name in guarded | {"atomic.hpp"}, f"{path.name}: {found[0]}"
