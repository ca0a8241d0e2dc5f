"""Docstrings say what they should: every public function has one that names its parameters, and every example runs."""

import doctest
import importlib
import inspect
import pathlib
import pkgutil
import re

import numpy as np
import pytest
import scipy.io

import meshsolve as ms
from meshsolve import cli

ROOT = pathlib.Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))


def modules():
    yield ms
    for info in pkgutil.walk_packages(ms.__path__, "meshsolve."):
        if "_core" not in info.name and not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def public():
    """Everything that a user reaches as ms.x or ms.room.x, and the methods of public classes."""
    rooms = [ms, ms.order, ms.apps, ms.apps.circuit, ms.datasets, ms.torch]
    seen = {}
    for module in rooms:
        for name in getattr(module, "__all__", dir(module)):
            thing = getattr(module, name)
            if name.startswith("_") or not callable(thing) or not getattr(thing, "__module__", "").startswith("meshsolve"):
                continue
            seen[f"{module.__name__}.{name}"] = thing
            if inspect.isclass(thing):
                seen.update({f"{module.__name__}.{name}.{m}": f for m, f in vars(thing).items() if inspect.isfunction(f) and not m.startswith("_")})
    return seen


PUBLIC = public()


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name):
    thing = PUBLIC[name]
    text = inspect.getdoc(thing)
    assert text, f"{name} has no docstring"
    if inspect.isclass(thing):
        text += inspect.getdoc(thing.__init__) or ""
        if issubclass(thing, BaseException):
            return
    try:
        parameters = [p for p in inspect.signature(thing).parameters if p not in ("self", "cls", "args", "kwargs")]
    except ValueError:
        return
    if len(parameters) > 1:
        missing = [p for p in parameters if not re.search(rf"\b{p}\b", text)]
        assert not missing, f"{name} does not say what {missing} are"


@pytest.mark.parametrize("module", list(modules()), ids=lambda m: m.__name__)
def test_examples_run(module):
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert failed == 0


def test_readme_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ms.datasets.icosphere(3).save("scan.obj")
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert blocks, "the README shows no Python"
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_documents_run_from_top_to_bottom(document, tmp_path, monkeypatch):
    """The blocks of one document are one program."""
    if document.name == "pytorch.md":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(), re.S)
    assert blocks, "a document without an example"
    names = {}
    for block in blocks:
        exec(compile(block, document.name, "exec"), names)


@pytest.mark.parametrize("document", [README, *DOCUMENTS], ids=lambda d: d.name)
def test_links_between_documents_hold(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


def commands(document):
    """The arguments of each ``meshsolve`` line in the shell blocks of a page."""
    for block in re.findall(r"```sh\n(.*?)```", document.read_text(), re.S):
        for line in filter(lambda line: line.startswith("meshsolve "), block.splitlines()):
            yield line.split("#")[0].split()[1:]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with what the commands of the pages are about."""
    monkeypatch.chdir(tmp_path)
    sphere = ms.datasets.icosphere(3)
    ms.Mesh(sphere.vertices * (1 + 0.02 * np.sin(40 * sphere.vertices[:, :1])), sphere.faces).save("scan.ply")
    scipy.io.mmwrite("A.mtx", ms.datasets.grid2d(14, 11, boundary="dirichlet"))
    scipy.io.mmwrite("L.mtx", ms.datasets.grid2d(14, 11))
    scipy.io.mmwrite("b.mtx", (np.arange(154.0) - 76.5)[:, None])
    for name in ("deck.sp", "rectifier.sp"):
        pathlib.Path(name).write_text("* low pass\nV1 in 0 SIN(0 1 50)\nR1 in out 1k\nC1 out 0 1u\n.tran 1m 20m\n.end\n")


@pytest.mark.parametrize("document", [d for d in [README, *DOCUMENTS] if list(commands(d))], ids=lambda d: d.name)
def test_commands_in_documents_run(document, files, capsys):
    """As printed, from the top; the viewer, which tests/apps/viewer opens, is only parsed."""
    for arguments in commands(document):
        if arguments[0] == "view":
            cli.arguments.parser().parse_args(arguments)
            continue
        assert cli.main(arguments) == 0, (arguments, capsys.readouterr().err)
        for option in ("-o", "--render", "--report", "--perm", "--plot"):
            assert option not in arguments or pathlib.Path(arguments[arguments.index(option) + 1]).stat().st_size > 0
