"""The documentation site builds without a warning, every page is in its menu, and its pictures can be made."""

import functools
import html
import importlib.util
import inspect
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from cases import each

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="pip install .[docs]")
    pytest.importorskip("mkdocstrings")
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.mark.slow
def test_the_site_builds(site):
    reference = (site / "reference" / "solvers" / "index.html").read_text()
    assert "meshsolve.cholesky" in reference and "NotPositiveDefiniteError" in reference
    assert ":func:" not in reference and "``" not in reference


def named(path):
    """(object, module) of a dotted path; a function is preferred to a module of the same name."""
    parts = path.split(".")
    for k in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:k]))
        if module is not None:
            return functools.reduce(getattr, parts[k:], module), module
    raise AssertionError(f"{path} is not there")


@pytest.mark.slow
@pytest.mark.parametrize("page", ["solvers", "meshes", "orderings", "applications", "datasets", "errors"])
def test_the_reference_shows_the_defaults_of_signatures(site, page):
    """The page of cg showed the module of the same name, and only one default of parameters that share a line."""
    text = (site / "reference" / page / "index.html").read_text()
    pieces = re.split(r'id="(meshsolve[\w.]*)" class="doc doc-heading"', text)
    shown = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    checked = 0
    for path, piece in shown.items():
        thing, module = named(path)
        assert not inspect.ismodule(thing), path
        if not (inspect.isfunction(thing) or inspect.isclass(thing)):
            continue
        try:
            signature = inspect.signature(thing)
        except ValueError:                                  # a class without a signature
            continue
        if inspect.isfunction(thing):
            assert f"<span class=\"nf\">{thing.__name__}</span>" in piece, f"{path} is shown without its signature"
        for name, default in re.findall(r'<b><code>([\w*]+)</code></b>\s*\(.*?(?:default:\s*<code>(.*?)</code>\s*)?\)\s*–', piece, re.S):
            known = signature.parameters.get(name)
            if known is None:                               # a class attribute
                continue
            checked += 1
            if known.default is inspect.Parameter.empty:
                assert not default, (path, name, default)
            else:
                value = eval(html.unescape(re.sub("<.*?>", "", default)), {"float64": np.float64, **vars(sys.modules[thing.__module__])})
                assert value == known.default and type(value) is type(known.default), (path, name, default)
    assert checked > 0 or page == "errors"


def test_modules_and_functions_have_separate_entries():
    import meshsolve  # noqa: F401

    modules = {"meshsolve.torch", "meshsolve.jax", "meshsolve.datasets", "meshsolve.errors"}
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for path in re.findall(r"^::: (\S+)", page.read_text(), re.M):
            assert path in modules or path not in sys.modules, f"{path} is shown as a module: name the function in it"


def test_every_page_is_in_the_menu():
    menu = set(re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert menu == pages


def test_every_public_name_is_in_the_reference():
    import meshsolve as ms

    text = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    packages = {"operators": ms.operators, "order": ms.order, "apps": ms.apps, "batch": ms.batch, "petsc": ms.petsc, "datasets": ms.datasets, "apps.circuit": ms.apps.circuit}
    elsewhere = {"__version__", "Ordering", "order.resolve", *packages}       # Ordering is documented as order.Ordering
    names = {n for n in ms.__all__ if not n.endswith(("Error", "Warning"))}
    names |= {f"{package}.{n}" for package, module in packages.items() if package != "datasets" for n in module.__all__ if n not in ms.__all__}
    def entries(name):
        """Its name in the reference: a function with the name of its module is listed under the module's path."""
        thing = functools.reduce(getattr, name.split("."), ms)
        return f"meshsolve.{name}", f"{getattr(thing, '__module__', '')}.{getattr(thing, '__name__', '')}"

    assert [n for n in sorted(names - elsewhere) if not any(f"::: {e}\n" in text for e in entries(n))] == []
    members = re.search(r"members: \[(.*)\]", text)[1].split(", ")
    assert sorted(members) == sorted(ms.datasets.__all__)


@pytest.mark.slow
def test_pictures_can_be_made(tmp_path):
    """Pictures of algorithms; test_demos.py draws those of the demos, tests/apps/viewer those of the viewer."""
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
    if page == "gpu.md":                                               # its algorithms are on other pages
        assert "What was checked, and what was not" in text
        return
    assert re.search(r"!\[.{10,}\]\(\S+\.png\)", text), "no picture"
    assert re.search(r"## Sources and limits\n|\*\*Sources\.\*\*.*\*\*Limits\.\*\*", text, re.S), "no sources and limits"


WIDTH = 88                  # characters of a code line that fit the column of the site in a window 1440 pixels wide, see docs/wide.css


@each("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))])
def test_code_fits_the_column(page):
    blocks = re.findall(r"^```(?:python|py|sh)\n(.*?)^```", page.read_text(), re.M | re.S)
    assert [line for block in blocks for line in block.splitlines() if len(line) > WIDTH] == []


def test_pictures_are_small():
    assert [picture.name for picture in (ROOT / "docs" / "images").iterdir() if picture.stat().st_size >= 150_000] == []
