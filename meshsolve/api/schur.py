"""Schur complements: the matrix that is left on some rows when the other rows are eliminated.

A symmetric matrix takes a numeric Cholesky phase whose last front is assembled and not eliminated, as in PARDISO (``iparm(36)``)
and MUMPS (``ICNTL(19)``). O(flops) time; O(nnz) memory, including O(k^2) for the result. Any other matrix takes an LU
factorization of the eliminated block and k solves. Source: Duff, Reid 1983.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meshsolve import _core, order
from meshsolve.api.definite import LOST, edges_of, with_phases
from meshsolve.device import on_cpu, to_host
from meshsolve.errors import InvalidInputError, MeshsolveWarning, NotSymmetricError
from meshsolve.factor.cholesky import HostFactor, Values
from meshsolve.factor.cholesky.schur import SchurComplement
from meshsolve.factor.cholesky.schur_cuda import SchurFactor
from meshsolve.factor.cholesky.values import with_few_levels
from meshsolve.factor.lu.schur import GeneralSchurComplement
from meshsolve.factor.symbolic import Symbolic
from meshsolve.factor.symbolic.location import location_of_analysis
from meshsolve.memory import PER_ROW
from meshsolve.mesh import MeshLike
from meshsolve.options import as_flag, as_seed, thread_count
from meshsolve.order.methods import lists_orderings
from meshsolve.order.ordering import OrderingLike
from meshsolve.report import warn
from meshsolve.sparse.columns import as_indices
from meshsolve.sparse.constraints import Fixed
from meshsolve.sparse.matrix import Csr, as_csr, is_complex
from meshsolve.sparse.places import CUDA, PLACES, place_for
from meshsolve.types import ArrayLike, Device, Matrix

NEARLY_SINGULAR = "the block of A without rows is singular to working precision: the Schur complement may be meaningless"


@lists_orderings("cholesky")
def schur_complement(A: Matrix, rows: ArrayLike, ordering: OrderingLike = "auto", *, mesh: MeshLike | None = None,
                     device: Device = "auto", seed: int = 0, threads: int | None = None,
                     lower: bool = False) -> SchurComplement | GeneralSchurComplement:
    """Eliminate all but some rows of a matrix: static condensation, Kron reduction, Dirichlet-to-Neumann maps.

    Parameters
    ----------
    A : (n, n) matrix of any kind, real or complex
        For a symmetric A the block of the eliminated rows must be positive definite; A may be singular or indefinite, and the
        Schur complement of a Laplacian is a Laplacian. For any other A that block must be regular, and is factored by LU.
    rows : (k,) integers, one integer, or (n,) bool
        The rows K that are kept, in the order of the results; all others, I, are eliminated. At least one of each.
    ordering : {ORDERINGS}, Ordering, (n,) integers, or callable
        Of the rows I, as in :func:`analyze`; rows K always follow them.
    mesh, seed, threads, lower
        As in :func:`analyze`. ``mesh`` and ``lower`` are for symmetric matrices.
    device : {"auto", "cpu", "cuda"}
        Where the Schur complement is formed; ``"auto"`` uses a GPU if A lies on it. Complex matrices are factored on the host. The host
        analyzes the pattern, and orders it below 60,000 rows.

    Returns
    -------
    SchurComplement, or GeneralSchurComplement if A is complex or not symmetric
        ``.matrix``, dense, is A_KK - A_KI A_II^-1 A_IK; ``.reduce(b)``, ``.expand(b, x_K)``, ``.refactor(A2)``. On the GPU ``.matrix``
        is a CuPy array.

    Raises
    ------
    InvalidInputError
        As in :func:`analyze`; A holds NaN or infinity; ``rows`` is empty, has all rows, a row twice or out of range.
    NotPositiveDefiniteError (``.column``), SingularMatrixError (``.index``)
        A_II is not positive definite, for a symmetric A (a component of a Laplacian has no row in ``rows``, for example), or
        singular.
    NotSymmetricError (``.row``, ``.column``)
        A is not symmetric, and ``mesh`` is given.
    OutOfMemoryError, DeviceUnavailableError

    Warns
    -----
    MeshsolveWarning
        A_II is singular to working precision, and its pivots are positive by rounding.

    Examples
    --------
    Three resistors of 1 ohm in a row:

    >>> import meshsolve as ms
    >>> S = ms.schur_complement([[1, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 1]], [0, 3])
    >>> (3 * S.matrix).round(12).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    >>> S.expand([0, 0, 0, 0], [6, 3]).round(12).tolist()
    [6.0, 5.0, 4.0, 3.0]
    """
    place = PLACES[_place_of(device, A)]
    lower, seed, threads = as_flag(lower, "lower"), as_seed(seed), thread_count(threads)
    with place.errors("the Schur complement"):
        M = _symmetric(A, mesh, lower, threads, place)
        return _general(A, rows, ordering, threads, place) if M is None else _definite(M, rows, ordering, seed, threads, lower, place)


def _place_of(device, A):
    """The name of the place where the Schur complement is formed."""
    if not is_complex(A):
        return place_for(device, A, size=0)
    on_cpu(device, "Schur complements of complex matrices are formed")
    return "cpu"


def _symmetric(A, mesh, lower, threads, place):
    """A in its place with the edges of the mesh; None if A is complex or not quite symmetric, and no option requires symmetry."""
    if is_complex(A) and not lower and mesh is None:
        return None
    try:
        M = place.symmetric(A, threads, lower, PER_ROW["cholesky"])
    except NotSymmetricError:
        if mesh is not None:
            raise
        return None
    if M.doubt is not None and not M.doubt.is_rounding and mesh is None and not lower:
        return None
    return M if mesh is None else M.joined(edges_of(mesh, M.n))


def _definite(M, rows, ordering, seed, threads, lower, place):
    """For a symmetric matrix with a positive definite block of the eliminated rows, in its place."""
    engine = SchurFactor if place is CUDA else HostFactor
    sym, data = _analyzed(M, _kept(M, rows), ordering, seed, threads, engine), M.data
    sym.lower = lower
    values = Values(sym.n, sym, threads=threads, place=place, gather=M.gather, doubt=M.doubt)
    del M                                                   # its indices are not needed any more
    S = SchurComplement(sym, values, data, threads=threads, engine=engine)
    if not S.trial < LOST:
        warn("the block of A without rows is singular to working precision: its pivots are positive by rounding, and the Schur "
             "complement may be meaningless (rigid-body modes are free if rows has too few unknowns, for example)", MeshsolveWarning)
    return S


def _general(A, rows, ordering, threads, place):
    """For a matrix that is complex or not symmetric."""
    M = as_csr(A, dtype=np.complex128 if is_complex(A) else np.float64, per_row=PER_ROW["lu"], threads=threads)
    kept = _kept(M, rows)
    of_free = ordering if order.is_method(ordering) else kept.restrict(ordering)
    S = GeneralSchurComplement(M, kept.rows, ordering=of_free, threads=threads, place=place)
    if not S.factor.trial()[0] < LOST:
        warn(NEARLY_SINGULAR, MeshsolveWarning)
    return S


def _kept(M, rows):
    """The rows of M that are kept, as a :class:`Fixed`, which removes the others."""
    if isinstance(rows, (set, frozenset)):
        raise InvalidInputError("rows must be a list of row numbers, got a set: results have the order of rows, a set has none")
    kept = as_indices(rows, M.n, "rows")
    if len(kept) == 0:
        raise InvalidInputError("rows is empty: to eliminate every row, use cholesky(A)")
    if len(kept) == M.n:
        raise InvalidInputError("rows has every row: none is left to eliminate, and the Schur complement is A itself")
    return Fixed(M, kept, "rows")


def _analyzed(M, kept, ordering, seed, threads, engine):
    """The :class:`Symbolic` of M with the rows ``kept.rows`` last."""
    given = M.pattern
    whole = Csr(M.n, to_host(given.indptr), to_host(given.indices), diagonal=True)
    _core.keep_free_memory(whole.nnz, threads)
    chosen = order.resolve_before(ordering, whole, kept.rows) if engine is HostFactor else None
    if chosen is None:
        chosen = _ordered(whole, kept, ordering, seed, threads, engine)
    sym = Symbolic.build(whole, chosen.perm, ordering=chosen, threads=threads, known=chosen.elimination, boundary=len(kept.rows))
    if engine is SchurFactor:
        sym.keep_on_device(given)
    with sym.report.phase("symbolic"):
        engine.prepare(sym, threads)
    return with_phases(sym, chosen)


def _ordered(whole, kept, ordering, seed, threads, engine):
    """The :class:`Ordering` of all rows, those of ``kept`` last; the others are ordered by the pattern of their block."""
    indptr, indices, _ = _core.split(whole.indptr, whole.indices, np.empty(0), kept.free, kept.position, threads)[0]
    orderer = engine if location_of_analysis(len(kept.free), engine.place).place is engine.place else HostFactor
    graph = orderer.graph_of(orderer.place.matrix(Csr(len(kept.free), indptr, indices, diagonal=True)), threads)
    of_free = ordering if order.is_method(ordering) else kept.restrict(ordering)
    if orderer is not engine:
        of_free = with_few_levels(of_free, graph)
    chosen = order.resolve(of_free, graph, seed=seed, threads=threads, place=orderer.place.name)
    perm = np.concatenate([kept.free[to_host(chosen.perm)], kept.rows])
    return replace(chosen, perm=perm, tree=None, elimination=None)
