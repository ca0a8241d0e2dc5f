"""Makes the pictures of the documentation from the library, the demos and the result files of the benchmarks.

    python docs/pictures.py [NAME ...] [--to docs/images]

Nothing is timed here: bars of seconds come from benchmarks/results. One function a picture, ``NAME.png``.
"""

import argparse
import functools
import importlib
import json
import pathlib
import sys
import tempfile
import warnings

import matplotlib
import numpy as np
import scipy.sparse as sp
import trimesh
from PIL import Image

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.collections import LineCollection, PolyCollection
from scipy.spatial import Delaunay

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "demos")]

import meshsolve as ms  # noqa: E402
from meshsolve.apps.viewer import Model  # noqa: E402
from meshsolve.apps.viewer.structure import separator_levels  # noqa: E402

GRAYISH = "#335577"
LARGEST = 100_000           # bytes of a picture
RECTIFIER = """Bridge rectifier
V1 a b SIN(0 10 50)
Rgnd b 0 1meg
D1 a p dm
D2 b p dm
D3 0 a dm
D4 0 b dm
.model dm D(IS=1e-12 N=1.5 RS=0.5 CJO=20p)
R1 p 0 1k
C1 p 0 47u
.end
"""


@functools.cache
def spot():
    """Spot, a cow by Keenan Crane (CC0), with four times the faces; her face is turned to the camera."""
    coarse = turned_spot()
    return ms.Mesh(*trimesh.remesh.subdivide_loop(coarse.vertices, coarse.faces, iterations=1))


def turned_spot():
    """Spot with her own faces, turned to the camera."""
    coarse = ms.load_mesh(ROOT / "data" / "spot.obj.gz")
    return ms.Mesh(coarse.vertices * [-1, 1, -1], coarse.faces)


def toward(direction):
    """The vertex of Spot that is farthest in a direction."""
    return int((spot().vertices @ direction).argmax())


NOSE = [0.5, 0.0, 0.85]


def noisy_spot(noise=0.3):
    """Spot as a scanner sees her: with noise, in units of the mean edge length."""
    mesh, rng = spot(), np.random.default_rng(0)
    return mesh.with_vertices(mesh.vertices + noise * mesh.edge_lengths.mean() * rng.standard_normal(mesh.vertices.shape))


def scan(path):
    """A noisy scan before and after smoothing, for the first page."""
    mesh = noisy_spot()
    smooth, _ = ms.apps.smooth(mesh)
    ms.apps.render(path, mesh, smooth, captions=["a noisy scan", "ms.apps.smooth(mesh)"])


def patches(path):
    """Patches in colors, neighbors mostly apart."""
    mesh = spot()
    of_face = ms.PatchMesh(mesh, patch_size=256).face_patch
    _colored_faces(path, mesh, pyplot.get_cmap("tab20")((of_face * 0.618) % 1)[:, :3])


def _colored_faces(path, mesh, color):
    """A mesh with a color for each face (m, 3), drawn from back to front."""
    azimuth, elevation = np.radians([30.0, 18.0])
    towards = np.array([np.sin(azimuth) * np.cos(elevation), np.sin(elevation), np.cos(azimuth) * np.cos(elevation)])
    right = np.array([np.cos(azimuth), 0.0, -np.sin(azimuth)])
    corners = (mesh.vertices @ np.stack([right, np.cross(towards, right), towards]).T)[mesh.faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    color = color * (0.45 + 0.55 * np.abs(normal[:, 2]) / np.linalg.norm(normal, axis=1).clip(1e-300))[:, None]
    order = np.argsort(corners[:, :, 2].mean(axis=1))
    figure, axes = pyplot.subplots(figsize=(5, 5))
    axes.add_collection(PolyCollection(corners[order, :, :2], facecolors=color[order], edgecolors=color[order], linewidths=0.3))
    axes.autoscale()
    axes.set_aspect("equal")
    axes.set_axis_off()
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)


def nested_dissection(path):
    """The separators of a planar graph by their level, and the matrix in that order."""
    points = np.random.default_rng(1).random((6000, 2))
    mesh = ms.Mesh(np.column_stack([points, np.zeros(len(points))]), Delaunay(points).simplices)
    L, ordering = ms.graph_laplacian(mesh), ms.order.nested_dissection(mesh)
    level, depth = separator_levels(ordering)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4.5))
    left.add_collection(LineCollection(points[mesh.edges], linewidths=0.2, color="#bbbbbb"))
    top = level < min(depth, 5)
    left.scatter(*points[top].T, c=level[top], s=7, cmap="plasma", zorder=2)
    left.set_title("separators of five levels", fontsize=9)
    left.set_axis_off()
    left.set_aspect("equal")
    _spy(right, L[ordering.perm][:, ordering.perm], "A[perm][:, perm]")
    _save(figure, path)


def symbolic(path):
    """The pattern of L under four orders."""
    L = ms.graph_laplacian(ms.datasets.grid2d(75, 75))
    figure, panels = pyplot.subplots(1, 4, figsize=(12, 3.4))
    for axes, name in zip(panels, ("natural", "rcm", "amd", "nd")):
        sym = ms.analyze(L, ordering=name)
        indptr, indices = sym.pattern()
        _spy(axes, sp.csc_array((np.ones(len(indices)), indices, indptr), shape=L.shape), f"{name}: {sym.nnz:,} entries")
    _save(figure, path)


def cholesky(path):
    """L with its supernodes: the dense panels that the numeric phase works on."""
    A = ms.datasets.grid2d(20, 20, boundary="dirichlet")
    F = ms.cholesky(A)
    figure, axes = pyplot.subplots(figsize=(4.6, 4.6))
    _spy(axes, F.L, f"L of a 20 x 20 grid, {len(F.symbolic.supernodes) - 1} supernodes")
    for first, end in zip(F.symbolic.supernodes[:-1], F.symbolic.supernodes[1:]):
        corner, width = (first - 0.5, first - 0.5), end - first
        axes.add_patch(pyplot.Rectangle(corner, width, width, fill=False, color="#cc4422", linewidth=0.7))
    _save(figure, path)


def parac(path):
    """Residuals of conjugate gradients by iteration, with three preconditioners."""
    L = ms.datasets.grid3d(24, kind="log-uniform")
    b = L @ np.random.default_rng(0).standard_normal(L.shape[0])
    diagonal = sp.diags_array(1 / L.diagonal())
    figure, axes = pyplot.subplots(figsize=(6, 3.4))
    for name, M in (("none", None), ("diagonal", diagonal), ("ParAC", ms.parac(L))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ms.ConvergenceWarning)
            _, info = ms.cg(L, b, M=M, maxiter=300)
        axes.semilogy(np.asarray(info.residuals) / info.residuals[0], label=name)
    axes.set_xlabel("iteration")
    axes.set_ylabel("relative residual")
    axes.set_title("3-D grid, 13,824 vertices, weights over several decades", fontsize=9)
    axes.legend(frameon=False)
    _save(figure, path)


def lu(path):
    """A matrix of a circuit, as given and as factored, with L and U."""
    A = ms.datasets.rlc_mesh(12)
    F = ms.lu(A)
    figure, panels = pyplot.subplots(1, 3, figsize=(10, 3.6))
    _spy(panels[0], A, f"A: {A.nnz:,} entries")
    _spy(panels[1], sp.csr_array(A)[F.row_perm][:, F.col_perm], "A[row_perm][:, col_perm]")
    _spy(panels[2], F.L + F.U, f"L + U: {F.nnz:,} entries")
    _save(figure, path)


def indefinite(path):
    """Residuals of SQMR by iteration, with incomplete factors of several fill levels."""
    A = ms.datasets.kkt(6000, 2400)
    b = A @ np.random.default_rng(1).standard_normal(8400)
    figure, axes = pyplot.subplots(figsize=(6, 3.4))
    for level in (0, 2, 4):
        K = ms.ildl(A, fill_level=level)
        _, info = ms.sqmr(A, b, M=K, rtol=1e-10)
        axes.semilogy(np.asarray(info.residuals) / info.residuals[0], label=f"fill level {level}: {K.nnz:,} entries")
    axes.set_xlabel("iteration")
    axes.set_ylabel("relative residual")
    axes.set_title(f"KKT system of 8,400 unknowns, {A.nnz:,} entries", fontsize=9)
    axes.legend(frameon=False)
    _save(figure, path)


def communities(path):
    """A graph of six communities in the plane of its spectral embedding, colored by labels spread from one vertex each."""
    groups, size, rng = 6, 150, np.random.default_rng(3)
    near = np.kron(np.eye(groups), np.full((size, size), 0.05)) + 0.0012
    W = sp.csr_array(np.triu(rng.random(near.shape) < near, 1).astype(float))
    W = W + W.T
    seeds = np.arange(groups) * size
    label, certainty, _ = ms.apps.label_propagation(W, seeds, np.arange(groups), balance=True)
    X = ms.apps.spectral_embedding(W, groups - 1).vectors
    centers = np.stack([X[label == g].mean(axis=0) for g in range(groups)])
    angle = 2 * np.pi * np.arange(groups) / groups
    xy = X @ np.linalg.lstsq(centers, np.stack([np.cos(angle), np.sin(angle)], axis=1))[0]
    colors = np.array(pyplot.get_cmap("Set1").colors)[[0, 1, 2, 3, 4, 7]]
    i, j = sp.triu(W, 1).tocoo().coords
    figure, axes = pyplot.subplots(figsize=(6.5, 6.5))
    shade = np.where((label[i] == label[j])[:, None], colors[label[i]], 0.75)
    axes.add_collection(LineCollection(np.stack([xy[i], xy[j]], axis=1), colors=shade, linewidths=0.25, alpha=0.5))
    axes.scatter(*xy.T, c=colors[label], s=10 + 30 * certainty.max(axis=1), linewidths=0.3, edgecolors="white", zorder=2)
    axes.scatter(*xy[seeds].T, c=colors, s=170, linewidths=1.8, edgecolors="black", zorder=3)
    axes.set_aspect("equal")
    axes.set_axis_off()
    _save(figure, path)


def curvatures(path):
    """Gaussian curvature of a surface: red where it is like a sphere, blue where it is like a saddle."""
    mesh = spot()
    K = ms.operators.curvatures(mesh).gaussian / ms.mass_matrix(mesh).diagonal()
    limit = np.quantile(np.abs(K), 0.8)
    ms.apps.render(path, mesh, values=np.clip(K, -limit, limit), colormap="coolwarm", captions=["Gaussian curvature"])


def transport(path):
    """A tangent vector at the nose, transported over the body."""
    from direction_field import with_strokes

    mesh = turned_spot()
    G, source = ms.apps.Geodesics(mesh), int((mesh.vertices @ NOSE).argmax())
    vectors = G.transport(source, [1.0, 0.0, 0.0])
    drawn, values = with_strokes(mesh, G.distance(source), vectors / np.linalg.norm(vectors, axis=1)[:, None])
    ms.apps.render(path, drawn, values=values, captions=["distance to the nose"])


def circuits(path):
    """The rectifier of the page over time."""
    with tempfile.TemporaryDirectory() as folder:
        deck = pathlib.Path(folder) / "rectifier.sp"
        deck.write_text(RECTIFIER)
        w = ms.apps.circuit.read(deck).transient(1e-4, 60e-3)
    w.plot(path, ["v(p)", "v(a,b)"], title="bridge rectifier")


def benchmark_orderings(path):
    """From the result file: times faster than METIS, and fill over METIS', each mesh a point."""
    from benchmarks import plot

    run = next(run for run in (json.loads(path.read_text()) for path in plot.newest()) if run["bench"] == "order")
    one = [row for row in run["rows"] if "metis" in row["seconds"] and "metis" in row["fill"]]
    faster = [row["seconds"]["metis"]["wall"]["median"] / row["seconds"]["meshsolve-1t"]["wall"]["median"] for row in one]
    fill = [row["fill"]["meshsolve-1t"]["nnz"] / row["fill"]["metis"]["nnz"] for row in one]
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.2))
    for axes, values, label in zip(panels, (faster, fill), ("times faster than METIS, one thread", "nnz(L) over METIS'")):
        axes.semilogx([row["n"] for row in one], values, "o", markersize=4, color=GRAYISH)
        axes.axhline(1, color="#999999", linewidth=0.7)
        axes.set_xlabel("vertices")
        axes.set_title(label, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylim(bottom=0)
    figure.suptitle(f"{run['machine']['cpu']}, {run['date'][:10]}", fontsize=8, y=1.02)
    _save(figure, path)


def viewer(path):
    """The window: a scan after some steps of a flow, an end of it dragged."""
    _window_shown(path, _dragged(), "displacement", ("Flow", "Edit"))


def viewer_look(path):
    """The window: distances from a vertex, with lines of equal distance."""
    model = Model(ms.datasets.scan_like(20_000, noise=0.0, hole=False), "scan.ply")
    model.measure(int((model.mesh.vertices @ [0.5, 0.3, 0.8]).argmax()))
    _window_shown(path, model, "distance", ("Look at",))


def _window_shown(path, model, view, sections):
    """The whole window with some panels open."""
    window = _window(model, (1200, 800))
    window.model.show(view)
    window.scene.set_build_default_gui_panels(False)
    window.sides = (0, 390)
    window.look(15.0, 10.0)
    window.panels.starts_open = sections
    window.scene.set_max_fps(-1)
    for _ in range(3):
        window.scene.frame_tick()
    window.screenshot(path, panels=True)


def viewer_structure(path):
    """Four views of a mesh in a solver."""
    window = _window(Model(ms.datasets.scan_like(40_000, noise=0.0)), (700, 520))
    figure, panels = pyplot.subplots(2, 2, figsize=(10, 7.4))
    for axes, view in zip(panels.flat, ("patches", "ribbons", "separators", "elimination order")):
        window.model.show(view)
        axes.imshow(window.pixels())
        axes.set_title(view, fontsize=10)
        axes.set_axis_off()
    figure.tight_layout(pad=0.3)
    _save(figure, path)


def _window(model, size):
    from meshsolve.apps.viewer.window import Window

    return Window(model, size, headless=True)


def _dragged():
    model = Model(ms.datasets.scan_like(20_000), "scan.ply")
    for _ in range(12):
        model.step()
    along = model.mesh.vertices[:, 0]
    model.pin(int(along.argmin()), 25)
    handle = model.grab(int(along.argmax()), 12)
    model.drag(handle, [0.0, 0.25, 0.2])
    return model


def signed_distance(path):
    """Signed distances to a closed curve on a surface, the border between head and body."""
    mesh = spot()
    part = mesh.faces[(mesh.vertices[mesh.faces] @ [0.0, 0.7, 0.7] > 0.55).all(axis=1)]
    loops = [[*loop, loop[0]] for loop in ms.Mesh(mesh.vertices, part).boundary_loops()]
    distance = ms.apps.Geodesics(mesh).signed_distance(loops)
    ms.apps.render(path, mesh, values=distance, lines=24, colormap="coolwarm", captions=["signed distance"])


def log_map(path):
    """Both coordinates of the logarithmic map of a vertex, near it."""
    mesh = spot()
    uv = ms.apps.Geodesics(mesh).log_map(toward([0.2, 0.3, 0.93]))
    values = tuple(np.where(np.hypot(*uv.T)[:, None] < 0.6, uv, np.nan).T)
    ms.apps.render(path, mesh, mesh, values=values, lines=24, captions=["first coordinate", "second coordinate"], colormap="coolwarm")


def demo(module, *arguments):
    """The picture of a demo."""
    def draw(path):
        importlib.import_module(module).main([*arguments, "-o", str(path)])
    return draw


def demo_on_spot(module, mesh, *arguments):
    """The picture of a demo that reads a mesh file, for the mesh that a function returns."""
    def draw(path):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "spot.ply"
            mesh().save(file)
            demo(module, str(file), *(str(argument() if callable(argument) else argument) for argument in arguments))(path)
    return draw


ON_SPOT = {"smooth_scan": (noisy_spot,), "geodesics": (spot, "--source", lambda: toward(NOSE)), "parameterization": (spot,),
           "point_cloud": (spot, "--source", lambda: toward(NOSE)), "eigenfunctions": (spot,), "deformation": (spot,),
           "skinning": (spot,), "direction_field": (turned_spot,)}
DEMOS = ("curvature_flow", "denoising", "poisson_editing", "landmarks", "gaussian_field", "ir_drop", "spectral_embedding",
         "effective_resistance", "obstacle")
PICTURES = {f.__name__: f for f in (
    scan, patches, nested_dissection, symbolic, cholesky, parac, lu, indefinite, communities, curvatures, transport, circuits,
    benchmark_orderings, signed_distance, log_map)}
WINDOWS = {f.__name__: f for f in (viewer, viewer_look, viewer_structure)}         # need polyscope, and a display or EGL
PICTURES |= WINDOWS
PICTURES |= {f"demo_{name}": demo(name) for name in DEMOS}
PICTURES |= {f"demo_{name}": demo_on_spot(name, *arguments) for name, arguments in ON_SPOT.items()}


def _spy(axes, A, title):
    A = sp.coo_array(A)
    axes.plot(A.col, A.row, ",", color=GRAYISH)
    axes.set_xlim(-0.5, A.shape[1] - 0.5)
    axes.set_ylim(A.shape[0] - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(title, fontsize=9)


def _save(figure, path):
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)


def _shrink(path, width=1000, colors=128, largest=LARGEST):
    """At most ``width`` pixels wide, in as few colors as keep the file below ``largest``: a page with several pictures stays small."""
    with Image.open(path) as image:
        small = image.convert("RGB")
    small.thumbnail((width, width))
    palette = small.quantize(colors)
    (small.quantize(palette=palette) if colors == 256 else palette).save(path, optimize=True)          # with a palette, PIL dithers
    if colors > 16 and path.stat().st_size > largest:
        _shrink(path, width, colors // 2, largest)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PICTURES)}; default: all")
    parser.add_argument("--to", type=pathlib.Path, default=ROOT / "docs" / "images")
    options = parser.parse_args(arguments)
    options.to.mkdir(parents=True, exist_ok=True)
    for name in options.names or PICTURES:
        path = options.to / f"{name}.png"
        PICTURES[name](path)
        _shrink(path, 1200, 256, 2 * LARGEST) if name in WINDOWS else _shrink(path)


if __name__ == "__main__":
    main()
