"""Symmetric indefinite systems: saddle points, Stokes equations, Helmholtz equation."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from meshsolve.datasets.common import check_size, generator, sorted_rows
from meshsolve.datasets.grids import grid_laplacian
from meshsolve.errors import InvalidInputError
from meshsolve.options import as_integer, as_number, one_of
from meshsolve.types import Sparse

LEAST_POINTS = 1e-100       # fewest points per wavelength: the squared wave number does not overflow


def kkt(n: int, m: int, seed: int = 1, kind: Literal["random", "banded"] = "random") -> Sparse:
    """Generate a saddle-point (KKT) matrix [[D, B^T], [B, 0]].

    D is diagonal, log-uniform over six decades. B has full row rank, with four entries per row: a 1 in distinct columns, and three
    normally distributed values.

    Parameters
    ----------
    n, m : int
        Numbers of unknowns and constraints, m <= n.
    seed : int
    kind : {"random", "banded"}
        Columns of the three random entries of a row of B: anywhere, or within 100 columns of its diagonal.

    Returns
    -------
    (n + m, n + m) csr_array
        n positive and m negative eigenvalues.

    Raises
    ------
    InvalidInputError
        ``n`` or ``m`` is not a positive integer; ``m`` is above ``n``; unknown ``kind``; invalid ``seed``.
    OutOfMemoryError
        The matrix would not fit into memory.

    Notes
    -----
    O(n + m) time. Source: the generator of Thuerck et al. 2018.
    """
    n, m = as_integer(n, "n"), as_integer(m, "m")
    one_of(kind, "kind", ("random", "banded"))
    check_size(n + m)
    if m > n:
        raise InvalidInputError(f"m must be at most n, got {m} constraints on {n} unknowns")
    rng = generator(seed)
    diagonal = 10 ** rng.uniform(-6, 0, n)
    row = np.repeat(np.arange(m), 3)
    column = rng.integers(0, n, 3 * m) if kind == "random" else np.clip(row * n // m + rng.integers(-100, 100, 3 * m), 0, n - 1)
    value = rng.standard_normal(3 * m)
    anchor = rng.permutation(n)[:m] if kind == "random" else np.arange(m) * n // m
    B = sp.coo_array((np.append(value, np.ones(m)), (np.append(row, np.arange(m)), np.append(column, anchor))), shape=(m, n))
    return sorted_rows(sp.block_array([[sp.diags_array(diagonal), B.T], [B, None]]))


def stokes(n: int) -> Sparse:
    """Generate the Stokes equations on n x n cells of a staggered (MAC) grid.

    The unknowns are two velocity components and the pressure, which is fixed in the first cell.

    Parameters
    ----------
    n : int
        At least 2.

    Returns
    -------
    csr_array, symmetric indefinite, 2 n (n - 1) + n^2 - 1 rows

    Raises
    ------
    InvalidInputError
        ``n`` is not an integer of at least 2.
    OutOfMemoryError
        The matrix would not fit into memory.

    Notes
    -----
    O(n^2) time.

    References
    ----------
    Harlow & Welch 1965 (staggered grid).
    """
    n = as_integer(n, "n", 2)
    check_size(3 * n * n)
    cells, faces = _second_difference(n), _second_difference(n - 1)
    outer, inner = sp.eye_array(n), sp.eye_array(n - 1)
    gradient = sp.diags_array([-np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))
    u = sp.kron(faces, outer) + sp.kron(inner, cells)
    v = sp.kron(cells, inner) + sp.kron(outer, faces)
    G = sp.csc_array(sp.vstack([sp.kron(gradient, outer), sp.kron(outer, gradient)]))[:, 1:]
    return sorted_rows(sp.block_array([[sp.block_diag([u, v]), G], [G.T, None]]))


def helmholtz(n: int, points: float = 15, dim: int = 2) -> Sparse:
    """Generate the Helmholtz operator -Laplace - k^2 on n^dim grid points with Dirichlet boundary conditions.

    Parameters
    ----------
    n : int
    points : float
        Grid points per wavelength. Fewer points make the matrix more indefinite.
    dim : {2, 3}

    Returns
    -------
    (n^dim, n^dim) csr_array, symmetric indefinite

    Raises
    ------
    InvalidInputError
        ``n`` is not an integer of at least 2; ``points`` is below 1e-100; ``dim`` is neither 2 nor 3.
    OutOfMemoryError
        The matrix would not fit into memory.

    Notes
    -----
    O(n^dim) time.
    """
    n = as_integer(n, "n", 2)
    one_of(dim, "dim", (2, 3))
    points = as_number(points, "points", least=LEAST_POINTS)
    L = grid_laplacian((n,) * dim, "dirichlet")
    return sorted_rows(L - (2 * np.pi / points) ** 2 * sp.eye_array(n ** dim))


def _second_difference(n):
    return sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
