"""Properties of a mesh, matrix or netlist file, the method that would be chosen, and what it will cost, as text and as plain values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from meshsolve.cli import costs
from meshsolve.cli.files import check_input_format, is_netlist
from meshsolve.datasets.files import is_matrix, load_matrix
from meshsolve.errors import NotPositiveDefiniteError, NotSymmetricError, SingularMatrixError
from meshsolve.files import existing
from meshsolve.memory import PER_ROW, available_memory
from meshsolve.options import counted
from meshsolve.sparse.matrix import as_csr, as_symmetric, is_complex

MOST_FLOPS = 1e12                   # largest factorization done to determine definiteness, flops (seconds)


class Row(NamedTuple):
    """One line of output: its name, its text, and the same as plain values under the names used in reports."""

    name: str
    text: str
    values: dict[str, Any]


def describe(path, threads=None):
    """Describe a mesh, matrix or netlist file, the method that would be chosen and its cost: a list of :class:`Row`."""
    if is_netlist(path):
        return _describe_netlist(path, threads)
    check_input_format(path)
    return _describe_matrix(load_matrix(path), threads) if is_matrix(path) else _describe_mesh(path, threads)


def describe_installation():
    """Describe this installation: a list of :class:`Row`. The plain value of a missing program is ``None``."""
    from meshsolve.config import config

    def plain(name, text):
        return int(text) if name == "threads" else None if text in ("not installed", "none") else text

    return [Row(name, text, {name.replace(" ", "_"): plain(name, text)}) for name, text in config().items()]


def sizes(mesh):
    """Sizes of a mesh as plain values; a vertex in no face is no component."""
    return {"vertices": len(mesh.vertices), "edges": len(mesh.edges), "faces": len(mesh.faces),
            "components": len(np.unique(mesh.components[mesh.faces])), "manifold": bool(mesh.is_manifold)}


# ---- meshes -----------------------------------------------------------------------------------------------------------------


def _describe_mesh(path, threads):
    from meshsolve import api
    from meshsolve.mesh import load_mesh
    from meshsolve.operators import graph_laplacian

    mesh = load_mesh(path)
    size = sizes(mesh)
    n, e, m = size["vertices"], size["edges"], size["faces"]
    faces_of, used = np.bincount(mesh.side_edges.ravel(), minlength=e), np.zeros(n, bool)
    used[mesh.faces] = True
    unused = n - int(used.sum())
    boundary, shared = int((faces_of == 1).sum()), int((faces_of > 2).sum())
    areas = mesh.face_areas
    flat, area, euler = int((areas == 0).sum()), float(areas.sum()), n - unused - e + m
    degenerate = len(mesh.degenerate_faces)
    extent = np.ptp(mesh.vertices, axis=0).tolist()
    mean_edge = float(mesh.edge_lengths.mean()) if e else None
    return [
        Row("vertices", f"{n:,}" + (f", {unused:,} in no face" if unused else ""),
            {"kind": "mesh", "vertices": n, "vertices_in_no_face": unused}),
        Row("edges", f"{e:,}, {boundary:,} on a boundary, {shared:,} with more than two faces",
            {"edges": e, "boundary_edges": boundary, "edges_of_more_than_two_faces": shared}),
        Row("faces", f"{m:,}, {flat:,} with zero area", {"faces": m, "faces_without_area": flat}),
        Row("degenerate faces", f"{degenerate:,}" + ", mollified by operators" * (degenerate > 0), {"degenerate_faces": degenerate}),
        Row("components", f"{size['components']:,}", {"components": size["components"]}),
        Row("manifold", "yes" if size["manifold"] else "no", {"manifold": size["manifold"]}),
        Row("Euler characteristic", f"{euler:,}", {"euler_characteristic": euler}),
        Row("extent", " x ".join(f"{x:.4g}" for x in extent), {"extent": extent}),
        Row("area", f"{area:.6g}", {"area": area}),
        Row("mean edge length", f"{mean_edge:.4g}" if e else "none", {"mean_edge": mean_edge}),
        *_chosen(api.analyze(graph_laplacian(mesh), threads=threads), threads),
    ]


# ---- netlists ---------------------------------------------------------------------------------------------------------------


def _describe_netlist(path, threads):
    from meshsolve import apps

    circuit = apps.circuit.read(existing(path))
    A, kinds = circuit.matrix(), [analysis.kind for analysis in circuit.analyses]
    M = as_csr(A, per_row=PER_ROW["lu"])
    return [
        Row("title", circuit.title.strip("* "), {"kind": "netlist", "title": circuit.title}),
        Row("nodes", f"{len(circuit.nodes):,}", {"nodes": len(circuit.nodes)}),
        Row("analyses", ", ".join(kinds) or "none", {"analyses": kinds}),
        Row("unknowns", f"{M.n:,}", {"rows": int(M.n)}),
        Row("entries", f"{M.nnz:,}", {"nnz_A": int(M.nnz)}),
        *_lu(M, threads),
    ]


# ---- matrices ---------------------------------------------------------------------------------------------------------------


def _describe_matrix(A, threads):
    is_real = not is_complex(A)
    M = as_csr(A, dtype=np.float64 if is_real else np.complex128, per_row=PER_ROW["lu"])
    matrix = M.to_scipy()
    entries = np.diff(M.indptr)
    least, most = int(entries.min()), int(entries.max())
    components = int(connected_components(matrix != 0, directed=False)[0])
    diagonal = matrix.diagonal() if is_real else abs(matrix.diagonal())
    ends = [float(diagonal.min()), float(diagonal.max())]
    rows = [
        Row("rows", f"{M.n:,}", {"kind": "matrix", "rows": int(M.n)}),
        Row("entries", f"{M.nnz:,}, {least:,} to {most:,} per row", {"nnz_A": int(M.nnz), "entries_in_a_row": [least, most]}),
        Row("components", f"{components:,}", {"components": components}),
        Row("values", "real" if is_real else "complex", {"values": "real" if is_real else "complex"}),
        Row("diagonal", f"{ends[0]:.4g} to {ends[1]:.4g}{'' if is_real else ' (absolute values)'}", {"diagonal": ends}),
    ]
    if not is_real:
        return [*rows, *_lu(M, threads)]
    try:
        S = as_symmetric(matrix)
    except NotSymmetricError as e:
        text = f"no: worst entry at row {e.row}, column {e.column}"
        worst = Row("symmetric", text, {"symmetric": False, "worst": [e.row, e.column]})
        return [*rows, worst, *_lu(M, threads)]
    graph = _graph(matrix, threads) if ends == [0.0, 0.0] and M.nnz and matrix.data.min() >= 0 else []
    return [*rows, Row("symmetric", "yes", {"symmetric": True}), *_definiteness(matrix, S, threads), *graph]


def _graph(matrix, threads):
    """Rows for the Laplacian of a graph, whose weights are the entries of a matrix with an empty diagonal."""
    from meshsolve import api
    from meshsolve.api.solving import prefers_parac
    from meshsolve.operators import graph_laplacian

    L = graph_laplacian(matrix, "values")
    sym = api.analyze(L, threads=threads)
    size = costs.size_of_parac(as_symmetric(L), threads) if prefers_parac(as_symmetric(L), sym) else costs.size_of_cholesky(sym)
    values = {"kind": "graph", "edges": int(matrix.nnz // 2), "laplacian_method": size.method, "laplacian_nnz_L": size.nnz,
              "laplacian_flops": size.flops, "laplacian_seconds_factor": costs.rates_of(size.method, threads).factor(size)}
    text = (f"{counted(values['edges'], 'edge')}; its Laplacian: {size.method}, {_size_text(size)}, "
            f"about {values['laplacian_seconds_factor']:.2g} s")
    return [Row("as a graph", text, values)]


def _definiteness(matrix, S, threads):
    """Determine definiteness by row sums first, then by factorization, unless that takes long."""
    from meshsolve import api
    from meshsolve.api.solving import prefers_parac

    def definiteness(is_definite, text):
        return Row("definiteness", text, {"positive_definite": is_definite})

    def chosen(pin=False):
        return [*_method("parac", costs.size_of_parac(S, threads), threads), _complete(sym)] if iterative else _chosen(sym, threads, pin)

    sym = api.analyze(matrix, threads=threads)
    iterative = prefers_parac(S, sym)
    if np.abs(matrix.sum(axis=1)).max() <= 1e-12 * np.abs(matrix).sum(axis=1).max():
        singular = definiteness(False, "singular: every row sums to zero, as in a Laplacian")
        singular.values["rows_sum_to_zero"] = True
        return [singular, *chosen(pin=True)]
    if sym.flops > MOST_FLOPS:
        return [definiteness(None, "not computed: the factorization takes long"), *chosen()]
    try:
        F = sym.factor(matrix, threads=threads)
    except NotPositiveDefiniteError as e:
        return [definiteness(False, f"not positive definite: the pivot of column {e.column} is not positive"),
                *_method("ildl", costs.size_of_ldlt(S, threads), threads)]
    rcond = F.rcond()
    condition = 1 / rcond if rcond > 1e-300 else None
    text = f"about {condition:.2g}" if condition else "above 1e300"
    return [definiteness(True, "positive definite"), Row("condition number", text, {"condition_number": condition}), *chosen()]


# ---- methods and costs ------------------------------------------------------------------------------------------------------


def _lu(M, threads):
    """Rows for LU. A structurally singular matrix has no factor."""
    try:
        size = costs.size_of_lu(M, threads)
    except SingularMatrixError as e:
        return [Row("chosen", "lu", {"method": "lu"}), Row("factor", f"no factor: {e}", {"singular": True})]
    return _method("lu", size, threads)


def _chosen(sym, threads, pin=False):
    """Rows for Cholesky with its ordering."""
    ordering = "nested dissection" if sym.ordering.num_patches else "minimum degree"
    return [Row("chosen", f"cholesky{' with pin=True' * pin}, ordering {ordering}",
                {"method": "cholesky", "pin": pin, "ordering": sym.report.as_dict()["ordering"]}),
            *_costs(costs.size_of_cholesky(sym), threads)]


def _method(name, size, threads):
    """Rows for a method with the size of its factor."""
    return [Row("chosen", name, {"method": name}), *_costs(size, threads)]


def _complete(sym):
    """Row for the complete factor, which is not chosen."""
    size = costs.size_of_cholesky(sym)
    return Row("cholesky", _size_text(size), {"nnz_complete": size.nnz, "flops_complete": size.flops, "bytes_complete": size.nbytes})


def _costs(size, threads):
    """Rows for the size of a factor and its expected seconds."""
    rates, left = costs.rates_of(size.method, threads), available_memory()
    seconds, solve = rates.factor(size), rates.solve * size.nnz
    note = {"parac": ", if its fill is that of a 3-D grid", "cholesky": "", "ldlt": ", complete; delayed pivots may add to it"}
    text = _size_text(size) + note.get(size.method, "; delayed pivots may add to it")
    if left is not None and size.nbytes > left:
        text += f"; more than the available memory of {left / 2**30:.1f} GiB"
    analysis = [Row("analysis", f"{_seconds(size.seconds)}, measured", {"seconds_analysis": size.seconds})] if size.seconds else []
    basis = "nonzeros" if size.method == "parac" else "flops and nonzeros"
    each = " and iteration" if size.method == "parac" else ""
    return [Row("factor", text, {"nnz_L": size.nnz, "flops": size.flops, "bytes": size.nbytes}), *analysis,
            Row("factorization", f"about {_seconds(seconds)}, estimated: its {basis} at the rates of two grids, measured now",
                {"seconds_factor": seconds}),
            Row("solve", f"about {_seconds(solve)} for one right-hand side{each}, estimated", {"seconds_solve": solve})]


def _seconds(value):
    return f"{value:.2g} s" if value >= 1e-3 else "1 ms or less"


def _size_text(size):
    flops = f", {size.flops:.3g} flops" if size.flops else ""
    return f"{counted(size.nnz, 'nonzero')}{flops}, {size.nbytes / 2**20:.1f} MiB"
