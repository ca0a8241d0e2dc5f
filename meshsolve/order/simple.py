"""Orderings without a dissection: minimum degree (mindeg.cpp), by row length, reverse Cuthill-McKee, random, and natural."""

from __future__ import annotations

import numpy as np

from meshsolve import _core
from meshsolve.mesh import MeshLike, pattern_of
from meshsolve.options import as_seed
from meshsolve.order.ordering import Elimination, Ordering, timed
from meshsolve.report import Report
from meshsolve.types import Matrix


def amd(A: MeshLike | Matrix) -> Ordering:
    """Approximate minimum degree.

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
    Near linear time in practice, about 0.5 us per vertex on meshes. Source: Amestoy, Davis, Duff 1996, sections 3-5.
    Code: order/mindeg.cpp.
    """
    return minimum_degree(pattern_of(A))


def minimum_degree(pattern, most_flops=np.inf, bounded=False, last=None):
    """Return the minimum degree :class:`Ordering` of a checked pattern, with or without its diagonal.

    The ``perm`` is empty if a bound of the Cholesky operations exceeds ``most_flops``. If ``bounded``, at most ``nnz log2(nnz)`` list
    entries are read; then the remaining rows follow by the bounds of their degrees. ``report.facts["visits"]`` counts the entries.
    The rows ``last``, (k,) int32, follow all others in their order. They count in the degrees and are not eliminated.
    """
    report = Report(ordering="amd", nnz_A=pattern.nnz + (0 if pattern.diagonal else pattern.n))
    with report.phase("order"):
        perm, parent, colcount, visits = _core.amd(pattern.indptr, pattern.indices, most_flops=most_flops, bounded=bounded, last=last)
    if bounded:
        report.facts["visits"] = visits
    known = Elimination(parent, colcount) if len(parent) else None
    return Ordering(perm, "amd", report=report, elimination=known)


def nnz_sort(A: MeshLike | Matrix, seed: int = 0) -> Ordering:
    """Sort the rows by ascending number of neighbors; ties at random.

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
    O(n log n). Used by ParAC (Gao, Kyng, Spielman 2023), which eliminates rows of many neighbors late.
    """
    ties = np.random.default_rng(as_seed(seed))
    return timed("nnz_sort", A, lambda pattern: np.lexsort((ties.random(pattern.n), np.diff(pattern.indptr))))


def rcm(A: MeshLike | Matrix) -> Ordering:
    """Reverse Cuthill-McKee order, which gives a small bandwidth; the same as scipy's.

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
    O(nnz + n log n), also for long rows. Source: Cuthill, McKee 1969; George 1971. Code: order/rcm.cpp.
    """
    return timed("rcm", A, lambda pattern: _core.rcm(pattern.indptr, pattern.indices, _by_degree(pattern)))


def random(A: MeshLike | Matrix, seed: int = 0) -> Ordering:
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
    O(n). For experiments only: the fill is very large.
    """
    numbers = np.random.default_rng(as_seed(seed))
    return timed("random", A, lambda pattern: numbers.permutation(pattern.n))


def natural(A: MeshLike | Matrix) -> Ordering:
    """The given order of the rows.

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
    return timed("natural", A, lambda pattern: np.arange(pattern.n))


def _by_degree(pattern):
    """Return the rows by ascending length, in the order that scipy uses."""
    return np.argsort(np.diff(pattern.indptr).astype(np.int32)).astype(np.int32)
