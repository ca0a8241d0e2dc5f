"""Fill-reducing orderings of symmetric patterns.

Every function takes a mesh, a matrix (the pattern of A + A^T counts) or a checked pattern (:class:`meshsolve.sparse.matrix.Csr`
from :func:`meshsolve.sparse.matrix.symmetric_pattern`) and returns an :class:`Ordering`, whose ``perm[k]`` is the old index of the
k-th new row: ``A[perm][:, perm]`` is what is factored. The names that ``ordering=`` accepts are in :mod:`meshsolve.order.methods`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve.device import holds, to_host
from meshsolve.errors import InvalidInputError
from meshsolve.options import as_seed, counted, shown, thread_count
from meshsolve.order.auto import auto, is_scale_free
from meshsolve.order.methods import METHODS, Options, find, lists_orderings
from meshsolve.order.nested import dissect_cuda, nested_dissection
from meshsolve.order.ordering import Ordering, OrderingLike, SeparatorTree
from meshsolve.order.prepass_cuda import on_host
from meshsolve.order.simple import amd, natural, nnz_sort, random, rcm
from meshsolve.order.update import update
from meshsolve.report import Report
from meshsolve.sparse.columns import as_perm
from meshsolve.types import Effort

__all__ = ["Ordering", "SeparatorTree", "amd", "auto", "natural", "nested_dissection", "nnz_sort", "random", "rcm", "resolve",
           "update"]


def __dir__() -> list[str]:
    return __all__


def is_method(ordering: Any) -> bool:
    """Whether ``ordering=`` is a name or a callable, which orders whatever pattern is to be factored."""
    return isinstance(ordering, str) or callable(ordering)


@lists_orderings()
def resolve(ordering: OrderingLike, pattern: Any, seed: int = 0, threads: int | None = None, place: str = "cpu",
            effort: Effort = "default", most: float = math.inf, bounded: bool = False, factor: str = "cholesky",
            columns: Callable[[], Any] | None = None) -> Ordering:
    """Make the :class:`Ordering` of ``pattern`` from what a user passed as ``ordering=``.

    Parameters
    ----------
    ordering : {ORDERINGS}, Ordering, (n,) integers, or callable
        A callable gets a ``scipy.sparse.csr_array`` of ones, (n, n), its own copy: the symmetric pattern, for LU ``columns()``. It
        returns an Ordering or a permutation ``perm`` of 0 ... n - 1, where ``perm[k]`` is the old index of the k-th new row.
    pattern : Csr
        Symmetric; a diagonal that it says to have is left out.
    seed, threads, effort : for the methods that use them; on the GPU there is one effort.
    place : {"cpu", "cuda"}
        Where the pattern lies. ``"cuda"``: ``"auto"`` and ``"nd"`` are the nested dissection of the GPU, whose ``perm`` stays
        there; all others, and ``"auto"`` of a scale-free graph, run on the host.
    most : float
        Of ``"auto"`` on the CPU: operations per row above which nothing is ordered.
    bounded : bool
        ``"amd"`` and ``"nd"`` on the CPU take O(nnz log nnz) on every graph: for incomplete factors.
    factor : {"cholesky", "lu", "ildl", "parac"}
        For whom: some names are for one factorization only.
    columns : callable, optional
        Returns the unsymmetric pattern whose columns are ordered, as a Csr: for LU.

    Raises
    ------
    InvalidInputError
        Unknown name; an Ordering of another size; not a permutation; what the callable returned is not a permutation.
    nested.TooManyOperations
        More than ``most`` are estimated.
    """
    if callable(ordering):
        return _called(ordering, on_host(pattern) if columns is None else columns())
    if not isinstance(ordering, str):
        return _given(ordering, pattern.n)
    chosen = find(ordering, factor)
    if place == "cuda":
        if ordering == "nd" or (ordering == "auto" and not is_scale_free(pattern)):
            return dissect_cuda(pattern, as_seed(seed), thread_count(threads))
        chosen, pattern = METHODS["amd"] if ordering == "auto" else chosen, on_host(pattern)
    return chosen.make(columns() if columns and chosen.unsymmetric else pattern,
                       Options(as_seed(seed), thread_count(threads), effort, most, bounded))


def _given(ordering, n):
    """An Ordering that was made before, or a permutation, for n rows."""
    if isinstance(ordering, Ordering):
        if len(ordering) != n:
            raise InvalidInputError(f"the ordering is of {counted(len(ordering), 'row')}, the matrix has {n}")
        if not holds(ordering.perm):                        # a user may have made it, or written to it
            as_perm(ordering.perm, n, "ordering")
        return replace(ordering, elimination=None)          # which is of the pattern that was ordered, not of any other
    if hasattr(ordering, "supernodes"):
        raise InvalidInputError("ordering must be a name, an Ordering, a permutation or a callable, not an analysis: give its .ordering, "
                                "or factor with its .factor(A)")
    return Ordering(as_perm(ordering, n, "ordering"), "given", report=Report(ordering="given"))


def _called(function, pattern):
    """The ordering that a user's function returns for a pattern of the host."""
    name, report = getattr(function, "__name__", None) or shown(function), Report(ordering="given")
    ones = np.ones(len(pattern.indices))
    with report.phase("order"):
        made = function(sp.csr_array((ones, pattern.indices.copy(), pattern.indptr.copy()), shape=(pattern.n, pattern.n)))
    perm = getattr(made, "perm", made)
    perm = as_perm(to_host(perm) if holds(perm) else perm, pattern.n, f"what ordering={name} returned")
    return replace(made, perm=perm, elimination=None) if isinstance(made, Ordering) else Ordering(perm, "given", report=report)
