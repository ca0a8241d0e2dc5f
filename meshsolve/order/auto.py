"""The default ordering: minimum degree while its factor is cheap, else nested dissection."""

from __future__ import annotations

import math

from meshsolve import _core
from meshsolve.device import holds, to_host
from meshsolve.mesh import MeshLike, pattern_of
from meshsolve.options import as_seed, one_of, thread_count
from meshsolve.order.nested import DEFAULT_PATCH, EFFORTS, SMALL, TooManyOperations, dissect
from meshsolve.order.ordering import Ordering
from meshsolve.order.simple import minimum_degree
from meshsolve.types import Effort, Matrix

TRIED_UP_TO = 100_000           # most unknowns for which minimum degree is run; above, its operations are estimated
CHEAP = 8000                    # operations per unknown up to which a factorization takes less time than any dissection
LEVELS = 20                     # levels of the breadth-first searches
CUBE = 10                       # without small separators, a factorization takes at least width^3 / CUBE operations
SOLID = 2.6                     # dimension from which a graph is a volume; surfaces of some thousand vertices reach 2.5
SPREAD = 0.8                    # relative standard deviation of the degrees above which a graph is scale-free
OUTLIERS = 0.01                 # share of the longest rows that is left out of SPREAD


def auto(A_or_mesh: MeshLike | Matrix, seed: int = 0, threads: int | None = None, effort: Effort = "default") -> Ordering:
    """Minimum degree where a factorization with it is cheaper than a dissection, else nested dissection.

    Minimum degree takes half of the time of nested dissection on one thread. Its fill is larger, and the difference grows with the
    mesh. It is used if it needs at most 8000 operations per unknown: for most meshes up to 60 000 vertices, and for thin ones of any
    size. Then a first solve takes a quarter less time and a refactorization about the same. Up to 100 000 unknowns minimum degree is
    run; above, its operations are estimated from the quotient graph of the patches. Scale-free graphs (webs, social networks) have no
    small separators (Leskovec et al. 2009): minimum degree is as good, and takes a seventh of the time. Only the pattern matters.

    Parameters
    ----------
    A_or_mesh, seed, threads, effort
        As in :func:`nested_dissection`. Use ``"fast"`` for a factor that is used once: a seventh less time, 4 % more operations.

    Returns
    -------
    Ordering
        ``.method`` is ``"amd"`` or ``"nd"``.

    Raises
    ------
    InvalidInputError
        As in :func:`nested_dissection`.

    Notes
    -----
    About 0.25 us per vertex if minimum degree is used. It stops as soon as the operations exceed the limit.

    Examples
    --------
    >>> import meshsolve as ms
    >>> ms.order.auto(ms.datasets.grid2d(50, 50)).method
    'amd'
    """
    return auto_within(pattern_of(A_or_mesh, threads=thread_count(threads)), as_seed(seed), thread_count(threads), effort)


def auto_within(pattern, seed, threads, effort, most=math.inf, entry_bytes=0):
    """:func:`auto` of checked arguments.

    Raises :class:`~meshsolve.order.nested.TooManyOperations` if more than ``most`` operations per row are estimated, which happens only
    for graphs of thousands of rows. ``entry_bytes``: as for :func:`~meshsolve.order.nested.dissect`.
    """
    one_of(effort, "effort", EFFORTS)

    def dissected(cheap=0.0):
        return dissect(pattern.graph(threads), effort, DEFAULT_PATCH, seed, threads, cheap, most, entry_bytes=entry_bytes)

    if is_scale_free(pattern):
        ordering = minimum_degree(pattern, most * pattern.n)
        if len(ordering) < pattern.n:
            raise TooManyOperations
        return ordering
    tried = pattern.n <= TRIED_UP_TO
    if math.isfinite(most) and estimated_dimension(pattern, most) > SOLID and tried:
        dissected(cheap=math.inf)               # estimates the operations in a tenth of the time; nothing is ordered
    first = minimum_degree(pattern, CHEAP * pattern.n) if tried else dissected(CHEAP)
    if len(first) == pattern.n:
        return first
    ordering = dissected() if tried else minimum_degree(pattern)
    for phase, seconds in first.report.seconds.items():
        ordering.report.add(phase, seconds)
    return ordering


def auto_before(pattern, last):
    """Return the :class:`Ordering` by minimum degree of all rows with the rows ``last`` at the end, or None if another method is better."""
    if is_scale_free(pattern):
        return minimum_degree(pattern, last=last)
    ordering = minimum_degree(pattern, CHEAP * pattern.n, last=last) if pattern.n <= TRIED_UP_TO else ()
    return ordering if len(ordering) else None


def estimated_dimension(pattern, most):
    """Return the exponent with which balls in the graph grow with their radius. The graph is on the host and not scale-free.

    Raises :class:`TooManyOperations` if a graph without small separators would need more than ``most`` operations per row.
    """
    width, dimension = _levels(pattern)
    if width**3 > CUBE * most * pattern.n:
        raise TooManyOperations
    return dimension


def dense_end(pattern):
    """Return a lower bound of the rows in the last dense front of a graph on the host, if it has no small separators.

    If the graph has small separators, the value is far below the rows of that front. Cost: a millisecond.
    """
    width, _ = _levels(pattern)
    return (3 / CUBE) ** (1 / 3) * width            # operations of the dense front: rows^3 / 3


def is_scale_free(pattern):
    """True if the degrees of a graph of at least 5000 vertices vary as much as those of webs and social networks.

    A few long rows, as from constraints, do not count.
    """
    if pattern.n < SMALL:
        return False
    indptr = pattern.indptr
    if holds(indptr):                               # test on the GPU first: most graphs are meshes
        degree = indptr[1:] - indptr[:-1]
        mean, squares = (int(total) / pattern.n for total in (degree.sum(), (degree * degree).sum()))
        if squares - mean * mean <= (SPREAD * max(mean, 1.0)) ** 2:
            return False
        indptr = to_host(indptr)
    return _core.degree_spread(indptr, 0) > SPREAD and _core.degree_spread(indptr, int(OUTLIERS * pattern.n)) > SPREAD


def _levels(pattern):
    """Return (width, dimension) of breadth-first level structures."""
    return _core.levels(pattern.indptr, pattern.indices, LEVELS, pattern.diagonal)
