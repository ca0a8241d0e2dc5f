"""The scripts of a clone, with a fake Python in .venv that records its arguments."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="scripts of bash")
ROOT = Path(__file__).resolve().parent.parent
NOTING = """#!/usr/bin/env bash
case "$*" in "-m "*|"-P "*) ;; *) [ "$(basename "$0")" = python ] && exec {python} "$@" ;; esac
printf '%s' "$(basename "$0")" >> {notes}
printf ' %q' "$@" >> {notes}
echo >> {notes}
"""


@pytest.fixture
def clone(tmp_path):
    """A folder with only the scripts, and a .venv whose commands write their arguments to `notes`."""
    folder = tmp_path / "clone"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / ".venv/bin").mkdir(parents=True)
    for name in ("python", "meshsolve", "pytest", "apt-get"):
        command = folder / ".venv/bin" / name
        command.write_text(NOTING.format(python=sys.executable, notes=tmp_path / "notes"))
        command.chmod(0o755)
    return folder


def run(clone, script, *arguments, cwd):
    environment = os.environ | {"PATH": f"{clone / '.venv/bin'}:{os.environ['PATH']}"}     # without system packages
    done = subprocess.run(["bash", clone / "scripts" / script, *arguments], cwd=cwd, env=environment, capture_output=True, text=True)
    notes = clone.parent / "notes"
    return done, notes.read_text().splitlines() if notes.exists() else []


def test_the_demo_finds_meshes_in_the_working_directory(clone, tmp_path):
    (tmp_path / "meshes").mkdir()
    mesh = tmp_path / "meshes" / "my scan.ply"
    mesh.write_text("ply")
    for given in ("my scan.ply", str(mesh)):
        done, notes = run(clone, "demo.sh", given, cwd=tmp_path / "meshes")
        assert done.returncode == 0, done.stderr
        assert notes[-2].endswith("--no-build-isolation .")                # the checkout, not the mesh, is what pip installs
        assert notes[-1].startswith("meshsolve smooth " + str(mesh).replace(" ", "\\ ") + " -o ")


def test_the_demo_makes_a_mesh_if_no_file_is_given(clone, tmp_path):
    done, notes = run(clone, "demo.sh", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert notes[-2].startswith("python -P data/make_data.py -o data/scan.ply")
    assert notes[-1].startswith("meshsolve smooth data/scan.ply ")


def test_the_demo_checks_for_the_file_before_installing(clone, tmp_path):
    done, notes = run(clone, "demo.sh", "none.obj", cwd=tmp_path)
    assert done.returncode == 1 and "none.obj" in done.stderr
    assert notes == []


def test_the_tests_get_their_packages_and_arguments(clone, tmp_path):
    done, notes = run(clone, "test.sh", "-k", "a or b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert notes[-1].startswith("pytest -n auto") and notes[-1].endswith("-k a\\ or\\ b")
    packages = (clone / ".venv/packages.txt").read_text().splitlines()
    names = [package.split(";")[0].split("=")[0].split(">")[0] for package in packages]
    assert {"scikit-build-core", "nanobind", "numpy", "scipy", "pytest", "mkdocs", "polyscope"} <= set(names)
    assert "ilupp" not in names
