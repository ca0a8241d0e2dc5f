"""The documentation site builds without a warning, every page is in its menu, and its pictures can be made."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_the_site_builds(tmp_path):
    pytest.importorskip("mkdocs", reason="pip install .[docs]")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    reference = (tmp_path / "site" / "reference" / "solvers" / "index.html").read_text()
    assert "meshsolve.cholesky" in reference and "NotPositiveDefiniteError" in reference
    assert ":func:" not in reference and "``" not in reference


def test_every_page_is_in_the_menu():
    menu = set(re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert menu == pages


def test_every_public_name_is_in_the_reference():
    import meshsolve as ms

    text = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    rooms = {"operators": ms.operators, "order": ms.order, "apps": ms.apps, "datasets": ms.datasets, "apps.circuit": ms.apps.circuit}
    elsewhere = {"__version__", "Ordering", "order.resolve", *rooms}       # Ordering is there as order.Ordering
    names = {n for n in ms.__all__ if not n.endswith(("Error", "Warning"))}
    names |= {f"{room}.{n}" for room, module in rooms.items() if room != "datasets" for n in module.__all__ if n not in ms.__all__}
    assert [n for n in sorted(names - elsewhere) if f"::: meshsolve.{n}\n" not in text] == []
    members = re.search(r"members: \[(.*)\]", text)[1].split(", ")
    assert sorted(members) == sorted(ms.datasets.__all__)


def test_pictures_can_be_made(tmp_path):
    """Those of the algorithms; test_demos.py draws those of the demos, tests/apps/viewer opens the windows."""
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    names = [name for name in pictures.PICTURES if not name.startswith("demo_") and name not in pictures.WINDOWS]
    pictures.main([*names, "--to", str(tmp_path)])
    assert all((tmp_path / f"{name}.png").stat().st_size > 1000 for name in names)


def test_pages_and_pictures_belong_together():
    shown = {picture for page in (ROOT / "docs").glob("*.md") for picture in re.findall(r"\(images/(\S+?)\)", page.read_text())}
    assert shown == {picture.name for picture in (ROOT / "docs" / "images").iterdir()}


ALGORITHMS = re.findall(r"(\w+\.md)", (ROOT / "mkdocs.yml").read_text().partition("- Algorithms:")[2].partition("- Viewer:")[0])


@pytest.mark.parametrize("page", ALGORITHMS)
def test_each_algorithm_has_its_picture_sources_and_limits(page):
    text = (ROOT / "docs" / page).read_text()
    if page == "gpu.md":                                               # the algorithms are those of the other pages
        assert "What was checked, and what was not" in text
        return
    assert re.search(r"!\[.{10,}\]\(\S+\.png\)", text), "no picture"
    assert re.search(r"## Sources and limits\n|\*\*Sources\.\*\*.*\*\*Limits\.\*\*", text, re.S), "no sources and limits"
