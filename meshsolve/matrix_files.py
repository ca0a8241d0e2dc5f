"""Files of the command line: matrices, vectors, permutations and reports; and what a file holds, in words."""

from __future__ import annotations

import json
import os
import pathlib

import numpy as np
import scipy.io
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from meshsolve.arrays import as_csr, as_symmetric
from meshsolve.errors import InvalidInputError, NotPositiveDefiniteError, NotSymmetricError
from meshsolve.files import as_path, written_whole

MATRIX_SUFFIXES = (".mtx", ".npz")


def check_writable(*paths):
    """Refuse early what could not be written after the work."""
    for path in filter(None, paths):
        folder = pathlib.Path(path).parent
        if not folder.is_dir():
            raise InvalidInputError(f"{path}: there is no folder {folder}")
        if not os.access(folder, os.W_OK):
            raise InvalidInputError(f"{path}: the folder {folder} cannot be written to")


def is_matrix(path):
    """Does the name say Matrix Market or scipy's .npz (either may be compressed with gzip)?"""
    name = str(path).lower().removesuffix(".gz")
    return name.endswith(MATRIX_SUFFIXES)


def read_matrix(path):
    """A sparse matrix from Matrix Market (.mtx, .mtx.gz) or scipy's .npz."""
    path = _existing(path)
    try:
        if str(path).lower().endswith(".npz"):
            return sp.csr_array(sp.load_npz(path))
        A = scipy.io.mmread(path, spmatrix=False)
    except (ValueError, OSError, KeyError, EOFError, TypeError, OverflowError) as e:
        raise InvalidInputError(f"{path}: not a readable matrix: {e}") from e
    return A if sp.issparse(A) else np.asarray(A)


def read_vector(path):
    """Right-hand sides, (n,) or (n, k), from Matrix Market, .npy or plain text."""
    path = _existing(path)
    try:
        if path.suffix == ".npy":
            b = np.load(path, allow_pickle=False)
        elif path.suffix == ".txt":
            b = np.loadtxt(path)
        else:
            b = scipy.io.mmread(path, spmatrix=False)
    except (ValueError, OSError, EOFError, TypeError) as e:
        raise InvalidInputError(f"{path}: not a readable vector: {e}") from e
    b = b.toarray() if sp.issparse(b) else np.asarray(b)
    return b[:, 0] if b.ndim == 2 and b.shape[1] == 1 else b


def read_pattern(path):
    """A mesh or a matrix, told apart by the file's name."""
    if is_matrix(path):
        return read_matrix(path)
    from meshsolve.mesh import load_mesh
    from meshsolve.operators import graph_laplacian

    return graph_laplacian(load_mesh(path))


def write_vector(path, x):
    """(n,) or (n, k) values as Matrix Market, .npy or .txt."""
    suffix = pathlib.Path(path).suffix
    with written_whole(path) as part:
        if suffix == ".npy":
            np.save(part, x)
        elif suffix == ".txt":
            np.savetxt(part, x)
        else:
            with open(part, "wb") as f:                  # a name would be given the suffix .mtx
                scipy.io.mmwrite(f, x if x.ndim == 2 else x[:, None], precision=17)


def write_perm(path, perm):
    """A permutation, one row number a line, or as .npy."""
    with written_whole(path) as part:
        np.save(part, perm) if pathlib.Path(path).suffix == ".npy" else np.savetxt(part, perm, fmt="%d")


def write_report(path, report):
    """``report.as_dict()`` as JSON; does nothing without a path."""
    if path:
        with written_whole(path) as part:
            part.write_text(json.dumps(report.as_dict(), indent=2, default=float) + "\n")


def describe(path):
    """What a mesh or matrix file holds: a dict of name to text."""
    return _describe_matrix(read_matrix(path)) if is_matrix(path) else _describe_mesh(path)


def _describe_mesh(path):
    from meshsolve.mesh import load_mesh

    mesh = load_mesh(path)
    used = np.zeros(len(mesh.vertices), bool)
    used[mesh.faces] = True
    return {
        "vertices": f"{len(mesh.vertices):,}",
        "faces": f"{len(mesh.faces):,}",
        "edges": f"{len(mesh.edges):,}",
        "components": f"{mesh.components.max() + 1:,}",
        "manifold": "yes" if mesh.is_manifold else "no",
        "unreferenced": f"{(~used).sum():,}",
        "ordering": "nd",
        "method": "cholesky",
    }


def _describe_matrix(A):
    M = as_csr(A)
    matrix = M.to_scipy()
    facts = {"rows": f"{M.n:,}", "entries": f"{M.nnz:,}",
             "components": f"{connected_components(matrix, directed=False)[0]:,}"}
    try:
        as_symmetric(matrix)
    except NotSymmetricError as e:
        return {**facts, "symmetric": f"no (row {e.row}, column {e.column})"}
    return {**facts, "symmetric": "yes", **_definiteness(matrix)}


def _definiteness(matrix):
    from meshsolve import api

    try:
        F = api.cholesky(matrix)
    except NotPositiveDefiniteError as e:
        sums = np.abs(matrix.sum(axis=1))
        laplacian = sums.max() <= 1e-9 * abs(matrix).max() and (matrix.diagonal() >= 0).all()
        kind = "singular: its rows sum to zero, a Laplacian" if laplacian else f"not positive definite (column {e.column})"
        return {"definiteness": kind}
    return {"definiteness": "positive definite", "ordering": "nd", "method": "cholesky", "nnz of the factor": f"{F.nnz:,}"}


def _existing(path):
    path = as_path(path)
    if not path.is_file():
        raise InvalidInputError(f"{path}: no such file")
    return path
