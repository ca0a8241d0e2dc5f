"""Laplacians of regular grids."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from meshsolve.datasets.common import check_size, generator, laplacian
from meshsolve.options import as_integer, as_seed, one_of
from meshsolve.types import Boundary, Sparse


def grid2d(nx: int, ny: int, boundary: Boundary = "neumann") -> Sparse:
    """Generate the 5-point Laplacian of an nx x ny grid; row ``x * ny + y`` is point (x, y).

    Parameters
    ----------
    nx, ny : int
    boundary : {"neumann", "dirichlet"}
        Neumann: a graph Laplacian, singular. Dirichlet: grid points outside the boundary have the value 0, so the matrix is
        positive definite.

    Returns
    -------
    (nx ny, nx ny) csr_array

    Raises
    ------
    InvalidInputError
        ``nx`` or ``ny`` is not a positive integer; unknown ``boundary``; more than 2^31 - 2 rows.
    OutOfMemoryError
        The matrix would not fit into memory.

    Notes
    -----
    O(nx ny) time.
    """
    return grid_laplacian((as_integer(nx, "nx"), as_integer(ny, "ny")), boundary)


def grid3d(n: int, kind: Literal["uniform", "weighted", "log-uniform", "checkerboard"] = "uniform",
           boundary: Boundary = "neumann", seed: int = 0) -> Sparse:
    """Generate the 7-point Laplacian of an n x n x n grid.

    Parameters
    ----------
    n : int
    kind : {"uniform", "weighted", "log-uniform", "checkerboard"}
        ``"weighted"``: weights 1, 1, 100 along the three axes. ``"log-uniform"``: cell conductivities are log-uniform in 1..1e6,
        and an edge has the harmonic mean of its two cells. ``"checkerboard"``: likewise with conductivities 1 and 1e7 in
        alternating blocks of ``max(n // 8, 1)`` cells along each axis.
    boundary : {"neumann", "dirichlet"}
        As in :func:`grid2d`.
    seed : int
        Random seed for ``"log-uniform"``.

    Returns
    -------
    (n^3, n^3) csr_array

    Raises
    ------
    InvalidInputError
        ``n`` is not a positive integer; unknown ``kind`` or ``boundary``; more than 2^31 - 2 rows; invalid ``seed``.
    OutOfMemoryError
        The matrix would not fit into memory.

    Notes
    -----
    O(n^3) time. Source: the test problems of Liang et al. 2025, "ParAC".
    """
    shape, seed = (as_integer(n, "n"),) * 3, as_seed(seed)
    one_of(kind, "kind", ("uniform", "weighted", "log-uniform", "checkerboard"))
    check_size(math.prod(shape))
    if kind == "weighted":
        return grid_laplacian(shape, boundary, axis_weights=(1.0, 1.0, 100.0))
    if kind == "log-uniform":
        return grid_laplacian(shape, boundary, cells=10 ** (6 * generator(seed).random(shape)))
    if kind == "checkerboard":
        blocks = (np.indices(shape) // max(n // 8, 1)).sum(axis=0)
        return grid_laplacian(shape, boundary, cells=np.where(blocks % 2 == 0, 1.0, 1e7))
    return grid_laplacian(shape, boundary)


def grid_laplacian(shape, boundary, axis_weights=None, cells=None):
    """Laplacian of a grid of any dimension. An edge has its axis' weight times the harmonic mean of its two cells."""
    one_of(boundary, "boundary", ("neumann", "dirichlet"))
    check_size(math.prod(shape))
    node = np.arange(np.prod(shape)).reshape(shape)
    cells = np.ones(shape) if cells is None else cells
    ends, weights, ground = [], [], np.zeros(shape)
    for axis, w in enumerate(axis_weights or (1.0,) * len(shape)):
        i, j = np.moveaxis(node, axis, 0)[:-1].ravel(), np.moveaxis(node, axis, 0)[1:].ravel()
        a, b = cells.ravel()[i], cells.ravel()[j]
        ends.append(np.stack([i, j]))
        weights.append(w * 2 * a * b / (a + b))
        for side in (0, -1):
            np.moveaxis(ground, axis, 0)[side] += w * np.moveaxis(cells, axis, 0)[side]
    ends = np.concatenate(ends, axis=1)
    return laplacian(node.size, *ends, np.concatenate(weights), ground.ravel() if boundary == "dirichlet" else None)
