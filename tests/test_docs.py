"""Docstrings: every public function has one that names its parameters, and every example runs."""

import doctest
import importlib
import inspect
import pathlib
import pkgutil
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from cases import each

import meshsolve as ms
from meshsolve import cli, device
from meshsolve.factor.base import Factor

ROOT = pathlib.Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))


def modules():
    yield ms
    for info in pkgutil.walk_packages(ms.__path__, "meshsolve."):
        if "_core" not in info.name and not info.name.endswith("__main__"):
            try:
                yield importlib.import_module(info.name)
            except ModuleNotFoundError as e:                     # an optional library
                if e.name not in ("torch", "jax"):
                    raise


MODULES = list(modules())


def package_of(module):
    """The package of a module: the first name after ``meshsolve``."""
    return (module.__name__ + ".").split(".")[1] or "meshsolve"


def public():
    """All public names ms.x and ms.package.x, and the methods of public classes."""
    public_modules = [ms, ms.operators, ms.order, ms.apps, ms.apps.circuit, ms.datasets, ms.torch]
    seen = {}
    for module in public_modules:
        for name in getattr(module, "__all__", dir(module)):
            thing = getattr(module, name)
            if name.startswith("_") or not callable(thing) or not getattr(thing, "__module__", "").startswith("meshsolve"):
                continue
            seen[f"{module.__name__}.{name}"] = thing
            if inspect.isclass(thing):
                seen.update({f"{module.__name__}.{name}.{m}": f for m, f in vars(thing).items() if inspect.isfunction(f) and not m.startswith("_")})
    return seen


PUBLIC = public()


@each("name", PUBLIC)
def test_public_names_are_documented(name):
    thing = PUBLIC[name]
    text = inspect.getdoc(thing)
    assert text, f"{name} has no docstring"
    if inspect.isclass(thing):
        text += inspect.getdoc(thing.__init__) or ""
        if issubclass(thing, (BaseException, Factor)):                  # factors are made by functions only
            return
    try:
        parameters = [p for p in inspect.signature(thing).parameters if p not in ("self", "cls", "args", "kwargs")]
    except ValueError:
        return
    if len(parameters) > 1:
        missing = [p for p in parameters if not re.search(rf"\b{p}\b", text)]
        assert not missing, f"{name} does not say what {missing} are"


@pytest.mark.parametrize("package", sorted({package_of(module) for module in MODULES}))
def test_examples_run(package):
    each("module", [module for module in MODULES if package_of(module) == package])(check_examples)()


def check_examples(module):
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert failed == 0


@pytest.mark.parametrize("thing", [ms.Mesh, ms.PatchMesh, ms.PatchMesh.quotient_graph, ms.PatchMesh.query, ms.datasets.load_matrix,
                                   ms.cholesky, ms.lu, ms.ildl, ms.order.nested_dissection, ms.order.update], ids=lambda t: t.__name__)
def test_examples_name_what_they_import(thing):
    """Examples must run when pasted elsewhere, where names of their module are undefined."""
    (example,) = doctest.DocTestFinder(recurse=False).find(thing, thing.__name__, globs={})
    assert example.examples and doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(example).failed == 0


def test_readme_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ms.datasets.icosphere(3).save("scan.obj")
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert blocks, "the README shows no Python"
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})


@pytest.mark.parametrize("document", [pytest.param(d, id=d.name, marks=[pytest.mark.slow] if d.name in ("pytorch.md", "flows.md", "orderings.md") else []) for d in DOCUMENTS])
def test_documents_run_from_top_to_bottom(document, tmp_path, monkeypatch):
    """The code blocks of a document form one program."""
    if document.name == "pytorch.md":
        pytest.importorskip("torch")
        pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(), re.S)
    assert blocks, "a document without an example"
    names = {}
    for block in blocks:
        exec(compile(block, document.name, "exec"), names)


@pytest.fixture(scope="module")
def smallest():
    """The function of docs/interop.md that finds the smallest eigenvalues of a mesh."""
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "interop.md").read_text(), re.S) if "def smallest" in b]
    names = {"np": np, "ms": ms}
    exec(compile(block, "interop.md", "exec"), names)
    return names["smallest"]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e6])
def test_the_eigenvalue_recipe_does_not_depend_on_the_unit(smallest, scale):
    ball = ms.datasets.icosphere(3)
    solves, cholesky = [], ms.cholesky

    def counted(A):
        F = cholesky(A)
        return spla.LinearOperator(A.shape, matvec=lambda b: solves.append(1) or F.solve(b), dtype=float)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ms, "cholesky", counted)
        values, _ = smallest(ball.with_vertices(scale * ball.vertices), 9)
    assert np.sort(values)[:8] * scale**2 == pytest.approx(np.array([0] + 3 * [2] + 4 * [6.0]), abs=0.1)       # ARPACK may miss a multiple eigenvalue
    assert len(solves) < 1000                           # about 80 at any scale


@pytest.mark.slow
def test_the_eigenvalue_recipe_with_many_components(smallest):
    part, sizes = ms.datasets.icosphere(1), np.geomspace(0.01, 1, 61)
    x = np.concatenate([size * part.vertices + [3 * k, 0, 0] for k, size in enumerate(sizes)])
    many = ms.Mesh(x, np.concatenate([part.faces + 42 * k for k in range(61)]))
    for scale in (1e-3, 1e6):
        values, _ = smallest(many.with_vertices(scale * x), 64)
        values = np.sort(values) * scale**2
        assert abs(values[:61]).max() < 1e-6 and values[61:] == pytest.approx(np.full(3, 2), rel=0.1)


OTHERS = re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "coming_from.md").read_text(), re.S)


@pytest.mark.parametrize("block", OTHERS, ids=lambda block: re.search(r"(?:from|import) ([\w.]+)", block)[1])
def test_calls_of_installed_libraries_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ms.datasets.icosphere(2).save("scan.obj")
    A = ms.datasets.grid2d(40, 30, boundary="dirichlet")
    try:
        exec(block, {"np": np, "A": A, "A2": 2 * A, "b": np.ones(1200), "L": ms.datasets.grid2d(40, 30), "rows": [0, 9]})
    except ModuleNotFoundError as e:
        pytest.skip(f"{e.name} is not installed")


@each("document", [README, *DOCUMENTS])
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
    """A folder with the files used by the commands of the pages."""
    monkeypatch.chdir(tmp_path)
    sphere = ms.datasets.icosphere(3)
    ms.Mesh(sphere.vertices * (1 + 0.02 * np.sin(40 * sphere.vertices[:, :1])), sphere.faces).save("scan.ply")
    used, faces = np.unique(sphere.faces[(sphere.vertices[sphere.faces, 1] > 0).all(axis=1)], return_inverse=True)
    ms.Mesh(sphere.vertices[used], faces.reshape(-1, 3)).save("face.ply")
    loop = used[ms.Mesh(sphere.vertices[used], faces.reshape(-1, 3)).boundary_loops()[0]]
    np.savetxt("loop.txt", [*loop, loop[0]], fmt="%d")
    scipy.io.mmwrite("A.mtx", ms.datasets.grid2d(14, 11, boundary="dirichlet"))
    scipy.io.mmwrite("L.mtx", ms.datasets.grid2d(14, 11))
    scipy.io.mmwrite("b.mtx", (np.arange(154.0) - 76.5)[:, None])
    for name in ("deck.sp", "rectifier.sp"):
        pathlib.Path(name).write_text("* low pass\nV1 in 0 SIN(0 1 50)\nR1 in out 1k\nC1 out 0 1u\n.tran 1m 20m\n.end\n")


@pytest.mark.slow
@pytest.mark.parametrize("document", [d for d in [README, *DOCUMENTS] if list(commands(d))], ids=lambda d: d.name)
def test_commands_in_documents_run(document, files, capsys):
    """Commands run in the order of the page; the viewer is only parsed, since tests/apps/viewer opens it."""
    for arguments in commands(document):
        if arguments[0] == "view":
            cli.arguments.parser().parse_args(arguments)
            continue
        if "<" in arguments:                                # arguments < FILE > FILE
            *arguments, _, given, _, out = arguments
            with open(given, "rb") as stdin, open(out, "wb") as stdout:
                subprocess.run([sys.executable, "-m", "meshsolve", *arguments], stdin=stdin, stdout=stdout, check=True)
            assert len(ms.load_mesh(out).faces) > 0
            continue
        assert cli.main(arguments) == 0, (arguments, capsys.readouterr().err)
        for option in ("-o", "--render", "--report", "--perm", "--plot"):
            assert option not in arguments or pathlib.Path(arguments[arguments.index(option) + 1]).stat().st_size > 0


def phrases():
    """The rows of the table "you have, take": the first column, and the code in the second one."""
    rows = re.findall(r"^\| (.+?) \| (.+) \| (?:\[.*\)|below) \|$", (ROOT / "docs" / "choose.md").read_text(), re.M)
    return {have: re.findall(r"`(.+?)`", take) for have, take in rows}


@pytest.fixture
def names():
    """The objects named in the table."""
    A = ms.datasets.grid2d(14, 11, boundary="dirichlet")
    b = np.arange(154.0) - 76.5                                         # sums to 0, as needed for a Laplacian
    return {"ms": ms, "A": A, "A2": 2 * A, "b": b, "B": np.stack([b, -b], axis=1), "L": ms.datasets.grid2d(14, 11), "rows": [0, 9],
            "x": np.empty(154), "mesh": ms.datasets.icosphere(2), "F": ms.cholesky(A), "J": sp.vstack([A, A]), "r": np.ones(308),
            "C": np.eye(154, 1), "G": [(0, 1), (1, 2), (2, 0), (2, 3)], "values": np.arange(162.0)}


@pytest.mark.parametrize("have", phrases())
def test_the_table_of_phrases_is_right(have, files, names):
    if "PyTorch" in have:
        torch = pytest.importorskip("torch")
        names |= {"A": torch.eye(3, dtype=torch.float64).to_sparse(), "b": torch.ones(3, dtype=torch.float64)}
    for code in phrases()[have]:
        if code.startswith("meshsolve "):
            assert cli.main(code.split()[1:]) == 0
        elif have == "a GPU" and not device.available():
            with pytest.raises(ms.DeviceUnavailableError):
                exec(code, names)
        else:
            exec(code, names)


def test_the_table_of_phrases_is_complete():
    assert {"a scan that should be smooth", "A and b, once", "a SPICE netlist of linear elements and diodes", "a GPU"} < phrases().keys() and len(phrases()) >= 15
    assert any("thousands of systems" in have for have in phrases())
