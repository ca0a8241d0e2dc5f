"""Fill-reducing orderings of symmetric patterns.

Every function takes a mesh, a matrix (its pattern is that of A + A^T) or a checked pattern (:class:`meshsolve.sparse.matrix.Csr`
from :func:`meshsolve.sparse.matrix.symmetric_pattern`). It returns an :class:`Ordering`, whose ``perm[k]`` is the old index of the k-th
new row: the matrix ``A[perm][:, perm]`` is factored. The names that ``ordering=`` accepts are in :mod:`meshsolve.order.methods`.
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
from meshsolve.options import as_flag, as_seed, counted, shown, thread_count
from meshsolve.order.auto import auto, auto_before, is_scale_free
from meshsolve.order.methods import METHODS, Options, find, lists_orderings
from meshsolve.order.nested import dissect_cuda, nested_dissection
from meshsolve.order.ordering import Ordering, OrderingLike, SeparatorTree
from meshsolve.order.partition import partition
from meshsolve.order.prepass_cuda import on_host
from meshsolve.order.reuse import reused
from meshsolve.order.simple import amd, minimum_degree, natural, nnz_sort, random, rcm
from meshsolve.order.update import update
from meshsolve.report import Report
from meshsolve.sparse.columns import as_perm
from meshsolve.types import Effort

__all__ = ["Ordering", "SeparatorTree", "amd", "auto", "natural", "nested_dissection", "nnz_sort", "partition", "random", "rcm", "resolve",
           "update"]


def __dir__() -> list[str]:
    return __all__


def is_method(ordering: Any) -> bool:
    """True if ``ordering=`` is a name or a callable, which apply to any pattern."""
    return isinstance(ordering, str) or callable(ordering)


@lists_orderings()
def resolve(ordering: OrderingLike, pattern: Any, seed: int = 0, threads: int | None = None, place: str = "cpu",
            effort: Effort = "default", most: float = math.inf, bounded: bool = False, factor: str = "cholesky",
            columns: Callable[[], Any] | None = None, entry_bytes: int = 0) -> Ordering:
    """Make the :class:`Ordering` of ``pattern`` from what a user passed as ``ordering=``.

    Parameters
    ----------
    ordering : {ORDERINGS}, Ordering, (n,) integers, or callable
        A callable gets its own copy of the symmetric pattern (for LU: of ``columns()``) as a ``scipy.sparse.csr_array`` of ones,
        (n, n). It returns an Ordering or a permutation ``perm`` of 0 ... n - 1, where ``perm[k]`` is the old index of the k-th new
        row.
    pattern : Csr
        Symmetric; if it stores its diagonal (``pattern.diagonal``), that is ignored.
    seed, threads, effort : for the methods that use them; the GPU has only one effort.
    place : {"cpu", "cuda"}
        Location of the pattern. With ``"cuda"``, ``"auto"`` and ``"nd"`` run nested dissection on the GPU, and ``perm`` stays on the
        GPU. All other methods, and ``"auto"`` for a scale-free graph, run on the host.
    most : float
        Limit of operations per row for ``"auto"`` on the CPU.
    bounded : bool
        Limit ``"amd"`` and ``"nd"`` on the CPU to O(nnz log nnz) on every graph; for incomplete factors.
    factor : {"cholesky", "lu", "ildl", "parac"}
        The factorization that uses the ordering; some names are for one factorization only.
    columns : callable, optional
        For LU: returns the unsymmetric pattern whose columns are ordered, as a Csr.
    entry_bytes : int
        Bytes of an entry of the Cholesky factor that will be computed in main memory; 0: none.

    Raises
    ------
    InvalidInputError
        Unknown name; an Ordering of another size; not a permutation; the callable did not return a permutation.
    nested.TooManyOperations
        More than ``most`` operations per row are estimated; nothing was ordered.
    OutOfMemoryError
        The largest separators of ``"auto"`` or ``"nd"`` on the CPU show that the factor does not fit.
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
    pattern = columns() if columns and chosen.unsymmetric else pattern
    options = Options(as_seed(seed), thread_count(threads), effort, most, as_flag(bounded, "bounded"), entry_bytes)
    return reused(pattern, (chosen.name, options._replace(threads=0, entry_bytes=0)), lambda: chosen.make(pattern, options))


def resolve_before(ordering: OrderingLike, pattern: Any, last: np.ndarray) -> Ordering | None:
    """Make the :class:`Ordering` of all rows of a pattern on the host in which the rows ``last``, (k,) int32, come last.

    Returns
    -------
    Ordering or None
        None if the other rows must be ordered by the pattern of their block: only minimum degree takes account of the last rows.
    """
    if isinstance(ordering, str) and ordering == "auto":
        return auto_before(pattern, last)
    return minimum_degree(pattern, last=last) if isinstance(ordering, str) and ordering == "amd" else None


def _given(ordering, n):
    """Check an Ordering or a permutation that the user passed, for n rows."""
    if isinstance(ordering, Ordering):
        if len(ordering) != n:
            raise InvalidInputError(f"the ordering has {counted(len(ordering), 'row')}, the matrix has {n}")
        if not holds(ordering.perm):                        # the user may have built it or written to it
            as_perm(ordering.perm, n, "ordering")
        return replace(ordering, elimination=None)          # it belongs to the pattern that was ordered, which may be another one
    if hasattr(ordering, "supernodes"):
        raise InvalidInputError("ordering must be a name, an Ordering, a permutation or a callable, not an analysis: give its .ordering, "
                                "or factor with its .factor(A)")
    return Ordering(as_perm(ordering, n, "ordering"), "given", report=Report(ordering="given"))


def _called(function, pattern):
    """Call a user's function with a pattern on the host, and check the ordering that it returns."""
    name, report = getattr(function, "__name__", None) or shown(function), Report(ordering="given")
    ones = np.ones(len(pattern.indices))
    with report.phase("order"):
        made = function(sp.csr_array((ones, pattern.indices.copy(), pattern.indptr.copy()), shape=(pattern.n, pattern.n)))
    perm = getattr(made, "perm", made)
    perm = as_perm(to_host(perm) if holds(perm) else perm, pattern.n, f"what ordering={name} returned")
    return replace(made, perm=perm, elimination=None) if isinstance(made, Ordering) else Ordering(perm, "given", report=report)
