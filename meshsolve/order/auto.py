"""The ordering taken where none is asked for: minimum degree while its factor is cheap, else nested dissection."""

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

TRIED_UP_TO = 100_000           # unknowns up to which minimum degree is tried; beyond, its operations are foreseen
CHEAP = 8000                    # operations an unknown for which a factorization takes less time than any dissection
LEVELS, CUBE = 20, 10           # of breadth-first searches; random graphs take at least the widest's cube by this in operations
SOLID = 2.6                     # dimension from which a graph is in space: surfaces of some thousand vertices have up to 2.5
SPREAD, OUTLIERS = 0.8, 0.01    # standard deviation of the degrees beside their mean, without this share of the largest, from which
                                # a graph is scale-free


def auto(A_or_mesh: MeshLike | Matrix, seed: int = 0, threads: int | None = None, effort: Effort = "default") -> Ordering:
    """Minimum degree where a factorization with it is cheaper than a dissection, else nested dissection.

    Minimum degree takes half of the time of nested dissection on one thread and has more fill, the more the larger the mesh. It
    is taken where it needs at most 8000 operations an unknown: most meshes up to 60 000 vertices, thin ones of any size. Then a
    first solve takes a quarter less time and a refactorization about the same. Up to 100 000 unknowns it is tried, beyond that the
    graph of the patches tells its operations. Scale-free graphs (webs, social networks) have no small separators (Leskovec et al.
    2009): minimum degree is as good there, and takes a seventh of the time. The pattern alone decides.

    Parameters
    ----------
    A_or_mesh, seed, threads, effort
        As in :func:`nested_dissection`. ``"fast"`` suits a factor that is used once: a seventh less time, 4 % more operations.

    Returns
    -------
    Ordering
        ``.method`` says which: ``"amd"`` or ``"nd"``.

    Raises
    ------
    InvalidInputError
        As in :func:`nested_dissection`.

    Notes
    -----
    About 0.25 us a vertex where minimum degree is kept, which stops as soon as the operations are exceeded.

    Examples
    --------
    >>> import meshsolve as ms
    >>> ms.order.auto(ms.datasets.grid2d(50, 50)).method
    'amd'
    """
    return auto_within(pattern_of(A_or_mesh), as_seed(seed), thread_count(threads), effort)


def auto_within(pattern, seed, threads, effort, most=math.inf):
    """:func:`auto` of checked arguments; :class:`~meshsolve.order.nested.TooManyOperations` where more than ``most`` operations a row
    are foreseen, which only graphs of thousands of rows ever are."""
    one_of(effort, "effort", EFFORTS)

    def dissected(cheap=0.0):
        return dissect(pattern.graph(), effort, DEFAULT_PATCH, seed, threads, cheap, most)

    if is_scale_free(pattern):
        ordering = minimum_degree(pattern, most * pattern.n)
        if len(ordering) < pattern.n:
            raise TooManyOperations
        return ordering
    tried = pattern.n <= TRIED_UP_TO
    if math.isfinite(most) and foreseen_dimension(pattern, most) > SOLID and tried:
        dissected(cheap=math.inf)               # the graph of the patches foresees it in a tenth of the time; nothing is ordered
    first = minimum_degree(pattern, CHEAP * pattern.n) if tried else dissected(CHEAP)
    if len(first) == pattern.n:
        return first
    ordering = dissected() if tried else minimum_degree(pattern)
    for phase, seconds in first.report.seconds.items():
        ordering.report.add(phase, seconds)
    return ordering


def foreseen_dimension(pattern, most):
    """By which power of the distance a graph of the host, not a scale-free one, grows. :class:`TooManyOperations` where it is none with
    small separators, and more than ``most`` operations a row are foreseen."""
    width, dimension = _levels(pattern)
    if width**3 > CUBE * most * pattern.n:
        raise TooManyOperations
    return dimension


def dense_end(pattern):
    """Rows of the dense block in which every factorization of a graph of the host ends, at the least, if it has no small separators;
    far fewer than in any factor where it has some. A millisecond."""
    width, _ = _levels(pattern)
    return (3 / CUBE) ** (1 / 3) * width            # the cube of that by three are its operations


def _levels(pattern):
    """(width, dimension) of breadth-first searches."""
    return _core.levels(pattern.indptr, pattern.indices, LEVELS, pattern.diagonal)


def is_scale_free(pattern):
    """Whether degrees of a graph of some thousand vertices vary as much as those of a web or a social network. A few long rows, as
    constraints have them, do not make it one."""
    if pattern.n < SMALL:
        return False
    indptr = pattern.indptr
    if holds(indptr):                               # hardly ever scale-free: a mesh stays where it is
        degree = indptr[1:] - indptr[:-1]
        mean, squares = (int(total) / pattern.n for total in (degree.sum(), (degree * degree).sum()))
        if squares - mean * mean <= (SPREAD * max(mean, 1.0)) ** 2:
            return False
        indptr = to_host(indptr)
    return _core.degree_spread(indptr, 0) > SPREAD and _core.degree_spread(indptr, int(OUTLIERS * pattern.n)) > SPREAD
