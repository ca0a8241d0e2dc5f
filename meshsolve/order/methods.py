"""The table of orderings that ``ordering="name"`` selects. This is the only list of names.

To add an ordering, write a function here and decorate it with :func:`method`. It gets a checked pattern (a ``Csr``) and
:class:`Options`, and returns an :class:`Ordering`. Docstrings, error messages, the command line and the viewer read the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.options import one_of
from meshsolve.order.auto import auto_within
from meshsolve.order.nested import DEFAULT_PATCH, EFFORTS, dissect
from meshsolve.order.ordering import Ordering, timed
from meshsolve.order.simple import minimum_degree, natural, nnz_sort, random, rcm
from meshsolve.report import Report
from meshsolve.sparse.matrix import Csr
from meshsolve.types import Effort

PLACEHOLDER = "ORDERINGS"           # text in docstrings that is replaced by the names that a factorization accepts
SHORT_ROW = 32                      # most entries of a row of A that becomes a clique of A^T A: at most 32 nnz(A) entries in all
DENSE = 10.0                        # a row or column of more than DENSE * sqrt(n) entries is dense, as in COLAMD

F = TypeVar("F", bound=Callable[..., Any])


class Options(NamedTuple):
    """Checked options of a method."""

    seed: int = 0
    threads: int = 1
    effort: Effort = "default"
    most: float = math.inf          # operations per row above which "auto" raises TooManyOperations
    bounded: bool = False           # minimum degree reads at most nnz log2(nnz) entries: for incomplete factors
    entry_bytes: int = 0            # bytes of an entry of the factor in memory: "auto" and "nd" raise OutOfMemoryError early; 0: no factor


@dataclass(frozen=True)
class Method:
    """An entry of the table.

    Attributes
    ----------
    name : str
    about : str
        Its use, in a few words.
    make : callable
        ``make(pattern, options)`` returns the Ordering.
    only_for : str or None
        The factorization that accepts it: ``"lu"``, ``"ildl"``; None: all.
    unsymmetric : bool
        True if it orders the columns of an unsymmetric pattern, see ``columns`` of :func:`meshsolve.order.resolve`.
    """

    name: str
    about: str
    make: Callable[[Any, Options], Ordering]
    only_for: str | None = None
    unsymmetric: bool = False


METHODS: dict[str, Method] = {}


def method(name: str, about: str, only_for: str | None = None, unsymmetric: bool = False) -> Callable[[F], F]:
    """Add the decorated function to the table; see :class:`Method`."""
    def enter(make: F) -> F:
        METHODS[name] = Method(name, about, make, only_for, unsymmetric)
        return make
    return enter


def names(factor: str | None = None) -> list[str]:
    """Return the names that ``factor`` accepts; without it, the names that all factorizations accept."""
    return [m.name for m in METHODS.values() if m.only_for in (None, factor)]


def find(name: str, factor: str) -> Method:
    """Return the method called ``name`` if ``factor`` accepts it."""
    found = METHODS.get(name)
    if found is not None and found.only_for in (None, factor):
        return found
    other = f"; {name!r} is for ms.{found.only_for} only" if found else ""
    raise InvalidInputError(f"ordering must be one of {', '.join(names(factor))}, an Ordering, a permutation or a callable, "
                            f"got {name!r}{other}")


def lists_orderings(factor: str | None = None) -> Callable[[F], F]:
    """Write the names that ``factor`` accepts into the docstring of the decorated function."""
    def fill(function: F) -> F:
        if function.__doc__:                                # absent under python -OO
            function.__doc__ = function.__doc__.replace(PLACEHOLDER, ", ".join(f'"{name}"' for name in names(factor)))
        return function
    return fill


@method("auto", "minimum degree while its factor is cheap, otherwise nested dissection")
def _auto(pattern, options):
    return auto_within(pattern, options.seed, options.threads, options.effort, options.most, options.entry_bytes)


@method("nd", "nested dissection, for meshes and grids")
def _nested_dissection(pattern, options):
    one_of(options.effort, "effort", EFFORTS)
    return dissect(pattern.graph(options.threads), options.effort, DEFAULT_PATCH, options.seed, options.threads, bounded=options.bounded,
                   entry_bytes=options.entry_bytes)


@method("amd", "approximate minimum degree, for small or irregular matrices")
def _amd(pattern, options):
    return minimum_degree(pattern, bounded=options.bounded)


@method("nnz_sort", "rows with few entries first")
def _nnz_sort(pattern, options):
    return nnz_sort(pattern, options.seed)


@method("rcm", "reverse Cuthill-McKee, for a small bandwidth")
def _rcm(pattern, options):
    return rcm(pattern)


@method("random", "at random, for comparison")
def _random(pattern, options):
    return random(pattern, options.seed)


@method("natural", "the given order of the rows")
def _natural(pattern, options):
    return natural(pattern)


@method("multicolor", "by the colors of a greedy coloring: few level sets, for incomplete factors", only_for="ildl")
def _multicolor(pattern, options):
    return timed("multicolor", pattern, lambda graph: np.argsort(_core.greedy_coloring(graph.indptr, graph.indices), kind="stable"))


@method("column_amd", "minimum degree on the pattern of A^T A, for LU of very unsymmetric matrices", only_for="lu", unsymmetric=True)
def _column_amd(pattern, options):
    """Order the columns by minimum degree on the pattern of A^T A, which bounds the fill of LU for every choice of row pivots.

    A row of medium length is represented by a vertex adjacent to its columns instead of a clique, so the graph has at most 34 nnz(A)
    entries. Dense rows are left out. Dense columns, and columns whose pivot is in a dense row, come last.
    Source: Davis, Gilbert, Larimore, Ng 2004, "A column approximate minimum degree ordering algorithm".
    Cost: O(34 nnz(A)) time and memory, and the minimum degree of that graph.
    """
    n, report = pattern.n, Report(ordering="column_amd", nnz_A=pattern.nnz)
    with report.phase("order"):
        row, column = np.diff(pattern.indptr), np.bincount(pattern.indices, minlength=n)
        dense = max(DENSE * np.sqrt(n), 16)
        A = sp.csr_array((np.ones(pattern.nnz, np.float32), pattern.indices, pattern.indptr), shape=(n, n))
        short, medium = A[row <= min(SHORT_ROW, dense)], A[(row > SHORT_ROW) & (row <= dense)]
        graph = sp.csr_array(sp.block_array([[short.T @ short, medium.T], [medium, sp.csr_array((medium.shape[0],) * 2)]]))
        graph.sort_indices()
        found = minimum_degree(Csr(graph.shape[0], graph.indptr.astype(np.int64), graph.indices.astype(np.int32), diagonal=True)).perm
        found = found[found < n]
        perm = found[np.argsort((np.maximum(row, column) > dense)[found], kind="stable")]
    return Ordering(perm, "column_amd", report=report)
