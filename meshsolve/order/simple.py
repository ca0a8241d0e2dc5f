"""Orderings in a line or two: by degree, reverse Cuthill-McKee, at random, and none."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from meshsolve.order import _integer, _timed


def nnz_sort(A, seed=0):
    """Rows by the number of their neighbours, fewest first; ties at random.

    Parameters
    ----------
    A : matrix, mesh or Csr pattern, see :func:`meshsolve.order.nested_dissection`
    seed : int >= 0

    Returns
    -------
    Ordering

    Raises
    ------
    InvalidInputError
        Not a square matrix or a mesh; seed out of range.

    Notes
    -----
    O(n log n). Used by ParAC (Gao, Kyng, Spielman 2023): rows of many neighbours late.
    """
    ties = np.random.default_rng(_integer(seed, "seed", 0))
    return _timed("nnz_sort", A, lambda pattern: np.lexsort((ties.random(pattern.n), np.diff(pattern.indptr))))


def rcm(A):
    """Reverse Cuthill-McKee order (small bandwidth), by scipy.

    Parameters
    ----------
    A : matrix, mesh or Csr pattern, see :func:`meshsolve.order.nested_dissection`

    Returns
    -------
    Ordering

    Raises
    ------
    InvalidInputError
        Not a square matrix or a mesh.

    Notes
    -----
    O(nnz). Source: Cuthill, McKee 1969; George 1971.
    """
    return _timed("rcm", A, lambda pattern: reverse_cuthill_mckee(_scipy(pattern), symmetric_mode=True))


def random(A, seed=0):
    """A random order.

    Parameters
    ----------
    A : matrix, mesh or Csr pattern, see :func:`meshsolve.order.nested_dissection`
    seed : int >= 0

    Returns
    -------
    Ordering

    Raises
    ------
    InvalidInputError
        Not a square matrix or a mesh; seed out of range.

    Notes
    -----
    O(n). For experiments: the fill is very large.
    """
    numbers = np.random.default_rng(_integer(seed, "seed", 0))
    return _timed("random", A, lambda pattern: numbers.permutation(pattern.n))


def natural(A):
    """The order the rows have.

    Parameters
    ----------
    A : matrix, mesh or Csr pattern, see :func:`meshsolve.order.nested_dissection`

    Returns
    -------
    Ordering

    Raises
    ------
    InvalidInputError
        Not a square matrix or a mesh.

    Notes
    -----
    O(n).
    """
    return _timed("natural", A, lambda pattern: np.arange(pattern.n))


def _scipy(pattern):
    ones = np.ones(pattern.nnz, np.int8)
    small = pattern.nnz < np.iinfo(np.int32).max
    indptr = pattern.indptr.astype(np.int32) if small else pattern.indptr
    return sp.csr_array((ones, pattern.indices, indptr), shape=(pattern.n, pattern.n))
