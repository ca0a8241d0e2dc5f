"""Fill-reducing orderings of symmetric patterns.

Every function takes a mesh, a matrix (the pattern of A + A^T counts) or a checked pattern (:class:`meshsolve.arrays.Csr`
from :func:`meshsolve.arrays.symmetric_pattern`) and returns an :class:`Ordering`, whose ``perm[k]`` is the old index of the
k-th new row: ``A[perm][:, perm]`` is what is factored.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from meshsolve.arrays import as_perm
from meshsolve.device import holds
from meshsolve.errors import InvalidInputError
from meshsolve.options import as_seed, counted, one_of, thread_count
from meshsolve.order.auto import auto, auto_within, is_scale_free
from meshsolve.order.nested import DEFAULT_PATCH, EFFORTS, dissect, dissect_there, nested_dissection
from meshsolve.order.ordering import Ordering, OrderingLike, SeparatorTree
from meshsolve.order.prepass_cuda import on_host
from meshsolve.order.simple import amd, minimum_degree, natural, nnz_sort, random, rcm
from meshsolve.order.update import update
from meshsolve.report import Report
from meshsolve.types import Effort

__all__ = ["Ordering", "SeparatorTree", "amd", "auto", "natural", "nested_dissection", "nnz_sort", "random", "rcm", "resolve",
           "update"]


def __dir__() -> list[str]:
    return __all__


def resolve(ordering: OrderingLike, pattern: Any, seed: int = 0, threads: int | None = None, place: str = "cpu",
            effort: Effort = "default", most: float = math.inf, more: tuple[str, ...] = (), bounded: bool = False) -> Ordering:
    """What a user passed as ``ordering=`` becomes an :class:`Ordering` of ``pattern``.

    Parameters
    ----------
    ordering : str, Ordering or (n,) integers
        A name (``"auto"``, ``"nd"``, ``"amd"``, ``"nnz_sort"``, ``"rcm"``, ``"random"``, ``"natural"``), an ordering made before, or a
        permutation.
    pattern : Csr
        Symmetric; a diagonal that it says to have is left out.
    seed, threads, effort
        For the methods that use them; on the GPU there is one effort.
    most : float
        Of ``"auto"`` on the CPU: operations a row beyond which nothing is ordered.
    more : tuple of str
        Names that the caller knows besides these, for the message of an unknown one.
    bounded : bool
        ``"amd"`` and ``"nd"`` on the CPU take O(nnz log nnz) on every graph: for incomplete factors.
    place : {"cpu", "cuda"}
        Where the pattern lies. ``"cuda"``: ``"auto"`` and ``"nd"`` are the nested dissection of the GPU, whose ``perm`` stays
        there; minimum degree, whose steps depend on each other and which ``"auto"`` takes for scale-free graphs, and the simple
        ones are the CPU's.

    Returns
    -------
    Ordering

    Raises
    ------
    InvalidInputError
        Unknown name; an Ordering of another size; not a permutation.
    nested.TooManyOperations
        More than ``most`` are foreseen.
    """
    if isinstance(ordering, Ordering):
        if len(ordering) != pattern.n:
            raise InvalidInputError(f"the ordering is of {counted(len(ordering), 'row')}, the matrix has {pattern.n}")
        if not holds(ordering.perm):                        # a user may have made it, or written to it
            as_perm(ordering.perm, pattern.n, "ordering")
        return replace(ordering, elimination=None)          # which is of the pattern that was ordered, not of any other
    if hasattr(ordering, "supernodes"):
        raise InvalidInputError("ordering has to be a name, an Ordering or a permutation, not an analysis: give its .ordering, or factor "
                                "with its .factor(A)")
    if not isinstance(ordering, str):
        return Ordering(as_perm(ordering, pattern.n, "ordering"), "given", report=Report(ordering="given"))
    if place == "cuda":
        if ordering == "auto" and is_scale_free(pattern):
            ordering = "amd"
        return dissect_there(pattern, as_seed(seed), thread_count(threads)) if ordering in ("auto", "nd") else resolve(
            ordering, on_host(pattern), seed, threads, effort=effort)
    methods = {
        "auto": lambda: auto_within(pattern, as_seed(seed), thread_count(threads), effort, most),
        "nd": lambda: dissect(pattern.graph(), one_of(effort, "effort", EFFORTS), DEFAULT_PATCH, as_seed(seed), thread_count(threads),
                              bounded=bounded),
        "amd": lambda: minimum_degree(pattern, bounded=bounded),
        "nnz_sort": lambda: nnz_sort(pattern, seed),
        "rcm": lambda: rcm(pattern),
        "random": lambda: random(pattern, seed),
        "natural": lambda: natural(pattern),
    }
    if ordering not in methods:
        names = ", ".join([*methods, *more])
        raise InvalidInputError(f"ordering has to be one of {names}, an Ordering or a permutation, not {ordering!r}")
    return methods[ordering]()
