"""A release has one version, and the configuration of wheels agrees with the package."""

import pathlib
import re
import shlex
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


def test_wheels_cover_every_supported_python():
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=").replace(".", "")
    built = {tag.removesuffix("-*") for tag in PROJECT["tool"]["cibuildwheel"]["build"]}
    abi3 = PROJECT["tool"]["scikit-build"]["wheel.py-api"] if "wheel.py-api" in PROJECT["tool"]["scikit-build"] else PROJECT["tool"]["scikit-build"]["wheel"]["py-api"]
    assert built == {f"cp{oldest}", abi3}
    command = PROJECT["tool"]["cibuildwheel"]["test-command"]
    for path in re.findall(r"\{project\}/(\S+)", command):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("file", ["native/memory/buffer.cpp", "native/threads/parallel.cpp", "native/dense/dense.cpp"])
def test_system_headers_are_guarded(file):
    """Headers of POSIX, glibc and x86 are included under a condition, and only in these files."""
    text, depth = (ROOT / "meshsolve" / file).read_text(), 0
    for line in text.splitlines():
        depth += line.startswith("#if") - line.startswith("#endif")
        assert depth or not re.match(r"#include <(pthread|malloc|sys/|cpuid|unistd)", line), line


def test_no_other_file_includes_system_headers():
    guarded = {"buffer.cpp", "parallel.cpp", "dense.cpp", "scratch.cpp"}
    for path in [*(ROOT / "meshsolve").rglob("*.cpp"), *(ROOT / "meshsolve").rglob("*.hpp")]:
        found = re.search(r"#include <(pthread|malloc|sys/|cpuid|unistd|dlfcn|windows)[^>]*>|std::(atomic_ref|aligned_alloc)\b|__builtin_cpu", path.read_text())
        assert found is None or path.name in guarded | {"atomic.hpp"}, f"{path.name}: {found[0]}"


# ---- workflows ----------------------------------------------------------------------------------------------------------


def workflow(name):
    """A parsed workflow; YAML 1.1 reads the key ``on`` as True."""
    yaml = pytest.importorskip("yaml", reason="comes with MkDocs: pip install .[docs]")
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())


def commands(name):
    """Every shell command of a workflow."""
    steps = [step for job in workflow(name)["jobs"].values() for step in job["steps"]]
    return [line.strip() for step in steps for line in step.get("run", "").splitlines()]


WORKFLOWS = ["test", "sanitize", "wheels", "docs"]


def test_every_workflow_is_checked():
    assert sorted(path.stem for path in (ROOT / ".github" / "workflows").iterdir()) == sorted(WORKFLOWS)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_files_of_a_workflow_exist(name):
    """Scripts, files and extras exist; permissions are set per job, and a new run cancels an older one."""
    flow, found = workflow(name), 0
    for line in commands(name):
        words = shlex.split(line.replace("\\", "/"))
        if words and words[0] == "bash":
            assert (ROOT / words[1]).is_file(), line
            found += 1
        for extras in re.findall(r"\"\.\[(\S+)\]\"", line):
            assert set(extras.split(",")) <= set(PROJECT["project"]["optional-dependencies"]), line
            found += 1
    assert found or "cibuildwheel" in str(flow)
    assert flow["permissions"] == {"contents": "read"} and "group" in flow["concurrency"]
    for job in flow["jobs"].values():
        assert job["timeout-minutes"] <= 90 and set(job.get("permissions", {})) <= {"pages", "id-token"}
        for step in job["steps"]:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(release/)?v\d+", step.get("uses", "a/b@v1")), "a major version"


def test_sanitizers_run_on_every_change():
    flow = workflow("sanitize")
    assert {"push", "pull_request"} <= set(flow[True])
    job = flow["jobs"]["sanitize"]
    kinds = job["strategy"]["matrix"]["kind"]
    script = (ROOT / "scripts" / "sanitize.sh").read_text()
    assert kinds == ["address", "thread"] and all(f"    {kind}) flags=" in script for kind in kinds)
    assert any(line.startswith("bash scripts/sanitize.sh ${{ matrix.kind }}") for line in commands("sanitize"))
    assert any(step.get("uses", "").startswith("actions/cache@") for step in job["steps"])
    assert job["env"]["CMAKE_CXX_COMPILER_LAUNCHER"] == "ccache"


def test_only_a_tag_is_published():
    jobs = workflow("wheels")["jobs"]
    assert jobs["publish"]["if"] == "github.event_name == 'push' && startsWith(github.ref, 'refs/tags/v')"
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]


def test_the_workflow_runs_the_command_of_the_readme():
    assert "bash .ci/run" in commands("test") and "bash scripts/test.sh" in (ROOT / ".ci" / "run").read_text()
    pythons = {case["python"] for case in workflow("test")["jobs"]["test"]["strategy"]["matrix"]["include"]}
    assert PROJECT["project"]["requires-python"].removeprefix(">=") in pythons
