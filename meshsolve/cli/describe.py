"""What a mesh or matrix file holds and how it would be solved, in words."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import connected_components

from meshsolve.arrays import as_csr, as_symmetric, is_complex
from meshsolve.cli.files import check_input_format
from meshsolve.datasets.files import is_matrix, load_matrix
from meshsolve.errors import NotPositiveDefiniteError, NotSymmetricError
from meshsolve.memory import PER_ROW

MOST_FLOPS = 1e12                   # definiteness is found by factoring matrices up to here


def describe(path, threads=None):
    """What a mesh or matrix file holds and how it would be solved: a dict of name to text."""
    check_input_format(path)
    return _describe_matrix(load_matrix(path), threads) if is_matrix(path) else _describe_mesh(path, threads)


def _describe_mesh(path, threads):
    from meshsolve import api
    from meshsolve.mesh import load_mesh
    from meshsolve.operators import edge_lengths, face_areas, graph_laplacian

    mesh = load_mesh(path)
    n, e, m = len(mesh.vertices), len(mesh.edges), len(mesh.faces)
    sides = np.bincount(mesh.side_edges.ravel(), minlength=e)
    used = np.zeros(n, bool)
    used[mesh.faces] = True
    areas = face_areas(mesh)
    return {
        "vertices": f"{n:,}" + (f", {(~used).sum():,} of them in no face" if not used.all() else ""),
        "edges": f"{e:,}, {(sides == 1).sum():,} on a boundary, {(sides > 2).sum():,} of more than two faces",
        "faces": f"{m:,}, {(areas == 0).sum():,} of them without area",
        "components": f"{mesh.components.max() + 1:,}",
        "manifold": "yes" if mesh.is_manifold else "no",
        "Euler characteristic": f"{used.sum() - e + m:,}",
        "extent": " x ".join(f"{x:.4g}" for x in np.ptp(mesh.vertices, axis=0)),
        "area": f"{areas.sum():.6g}",
        "mean edge": f"{edge_lengths(mesh).mean():.4g}" if e else "none",
        **_chosen(api.analyze(graph_laplacian(mesh), threads=threads)),
    }


def _describe_matrix(A, threads):
    is_real = not is_complex(A)
    M = as_csr(A, dtype=np.float64 if is_real else np.complex128, per_row=PER_ROW["lu"])
    matrix = M.to_scipy()
    entries = np.diff(M.indptr)
    diagonal = matrix.diagonal() if is_real else abs(matrix.diagonal())
    facts = {"rows": f"{M.n:,}", "entries": f"{M.nnz:,}, {entries.min():,} to {entries.max():,} a row",
             "components": f"{connected_components(matrix != 0, directed=False)[0]:,}",
             "values": "real" if is_real else "complex",
             "diagonal": f"{diagonal.min():.4g} to {diagonal.max():.4g}{'' if is_real else ' in modulus'}"}
    if not is_real:
        return facts | {"chosen": "lu"}
    try:
        as_symmetric(matrix)
    except NotSymmetricError as e:
        return facts | {"symmetric": f"no: worst at row {e.row}, column {e.column}",
                        "chosen": "lu"}
    return facts | {"symmetric": "yes"} | _definiteness(matrix, threads)


def _definiteness(matrix, threads):
    """Laplacian, positive definite or not: by row sums first, then by factoring, unless that takes long."""
    from meshsolve import api
    from meshsolve.api.solving import prefers_parac

    sym = api.analyze(matrix, threads=threads)
    iterative = prefers_parac(as_symmetric(matrix), sym)
    if np.abs(matrix.sum(axis=1)).max() <= 1e-12 * np.abs(matrix).sum(axis=1).max():
        facts = {"definiteness": "singular: every row sums to zero, as a Laplacian's does"}
        return facts | ({"chosen": "parac"} if iterative else _chosen(sym, "cholesky with pin=True"))
    if sym.flops > MOST_FLOPS:
        return {"definiteness": "not known: factoring it takes long"} | ({"chosen": "parac"} if iterative else _chosen(sym))
    try:
        F = sym.factor(matrix, threads=threads)
    except NotPositiveDefiniteError as e:
        return {"definiteness": f"not positive definite: the pivot of column {e.column} is not positive",
                "chosen": "ildl"}
    return {"definiteness": "positive definite", "condition number": f"about {1 / F.rcond():.2g}"} | (
        {"chosen": "parac"} if iterative else _chosen(sym))


def _chosen(sym, method="cholesky"):
    ordering = "nested dissection" if sym.ordering.num_patches else "minimum degree"
    size = f"{sym.nnz:,} nonzeros, {sym.flops:.3g} flops, {sym.nbytes / 2**20:.1f} MiB"
    return {"chosen": f"{method}, ordering {ordering}", "factor": size}
