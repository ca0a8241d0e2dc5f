"""Properties of a mesh or matrix file and the method that would be chosen, as text and as plain values for reports."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from meshsolve.cli.files import check_input_format
from meshsolve.datasets.files import is_matrix, load_matrix
from meshsolve.errors import NotPositiveDefiniteError, NotSymmetricError
from meshsolve.memory import PER_ROW
from meshsolve.options import counted
from meshsolve.sparse.matrix import as_csr, as_symmetric, is_complex

MOST_FLOPS = 1e12                   # largest factorization done to determine definiteness, flops (seconds)


class Row(NamedTuple):
    """One line of output: its name, its text, and the same as plain values under the names used in reports."""

    name: str
    text: str
    values: dict[str, Any]


def describe(path, threads=None):
    """Describe a mesh or matrix file and the method that would be chosen: a list of :class:`Row`."""
    check_input_format(path)
    return _describe_matrix(load_matrix(path), threads) if is_matrix(path) else _describe_mesh(path, threads)


def describe_installation():
    """Describe this installation: a list of :class:`Row`. The plain value of a missing program is ``None``."""
    from meshsolve.config import config

    def plain(name, text):
        return int(text) if name == "threads" else None if text in ("not installed", "none") else text

    return [Row(name, text, {name.replace(" ", "_"): plain(name, text)}) for name, text in config().items()]


def sizes(mesh):
    """Sizes of a mesh as plain values."""
    return {"vertices": len(mesh.vertices), "edges": len(mesh.edges), "faces": len(mesh.faces),
            "components": int(mesh.components.max()) + 1, "manifold": bool(mesh.is_manifold)}


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
    extent = np.ptp(mesh.vertices, axis=0).tolist()
    mean_edge = float(mesh.edge_lengths.mean()) if e else None
    return [
        Row("vertices", f"{n:,}" + (f", {unused:,} in no face" if unused else ""),
            {"kind": "mesh", "vertices": n, "vertices_in_no_face": unused}),
        Row("edges", f"{e:,}, {boundary:,} on a boundary, {shared:,} with more than two faces",
            {"edges": e, "boundary_edges": boundary, "edges_of_more_than_two_faces": shared}),
        Row("faces", f"{m:,}, {flat:,} with zero area", {"faces": m, "faces_without_area": flat}),
        Row("components", f"{size['components']:,}", {"components": size["components"]}),
        Row("manifold", "yes" if size["manifold"] else "no", {"manifold": size["manifold"]}),
        Row("Euler characteristic", f"{euler:,}", {"euler_characteristic": euler}),
        Row("extent", " x ".join(f"{x:.4g}" for x in extent), {"extent": extent}),
        Row("area", f"{area:.6g}", {"area": area}),
        Row("mean edge length", f"{mean_edge:.4g}" if e else "none", {"mean_edge": mean_edge}),
        *_chosen(api.analyze(graph_laplacian(mesh), threads=threads)),
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
        return [*rows, _method("lu")]
    try:
        as_symmetric(matrix)
    except NotSymmetricError as e:
        text = f"no: worst entry at row {e.row}, column {e.column}"
        worst = Row("symmetric", text, {"symmetric": False, "worst": [e.row, e.column]})
        return [*rows, worst, _method("lu")]
    return [*rows, Row("symmetric", "yes", {"symmetric": True}), *_definiteness(matrix, threads)]


def _definiteness(matrix, threads):
    """Determine definiteness by row sums first, then by factorization, unless that takes long."""
    from meshsolve import api
    from meshsolve.api.solving import prefers_parac

    def definiteness(is_definite, text):
        return Row("definiteness", text, {"positive_definite": is_definite})

    sym = api.analyze(matrix, threads=threads)
    iterative = prefers_parac(as_symmetric(matrix), sym)
    if np.abs(matrix.sum(axis=1)).max() <= 1e-12 * np.abs(matrix).sum(axis=1).max():
        singular = definiteness(False, "singular: every row sums to zero, as in a Laplacian")
        singular.values["rows_sum_to_zero"] = True
        return [singular, *([_method("parac")] if iterative else _chosen(sym, pin=True))]
    if sym.flops > MOST_FLOPS:
        return [definiteness(None, "not computed: the factorization takes long"),
                *([_method("parac")] if iterative else _chosen(sym))]
    try:
        F = sym.factor(matrix, threads=threads)
    except NotPositiveDefiniteError as e:
        return [definiteness(False, f"not positive definite: the pivot of column {e.column} is not positive"), _method("ildl")]
    rcond = F.rcond()
    condition = 1 / rcond if rcond > 1e-300 else None
    text = f"about {condition:.2g}" if condition else "above 1e300"
    return [definiteness(True, "positive definite"), Row("condition number", text, {"condition_number": condition}),
            *([_method("parac")] if iterative else _chosen(sym))]


def _method(name):
    return Row("chosen", name, {"method": name})


def _chosen(sym, pin=False):
    """Rows for Cholesky with its ordering and the size of the factor."""
    facts = sym.report.as_dict()
    ordering = "nested dissection" if sym.ordering.num_patches else "minimum degree"
    return [Row("chosen", f"cholesky{' with pin=True' * pin}, ordering {ordering}",
                {"method": "cholesky", "pin": pin, "ordering": facts["ordering"]}),
            Row("factor", f"{counted(sym.nnz, 'nonzero')}, {sym.flops:.3g} flops, {sym.nbytes / 2**20:.1f} MiB",
                {"nnz_L": int(sym.nnz), "flops": float(sym.flops), "bytes": int(sym.nbytes)})]
