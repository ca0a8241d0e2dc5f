"""Symmetric positive definite matrices: what the factor will be, and the factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from meshsolve import order
from meshsolve.device import DEVICES, choose
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.factor import symbolic as _symbolic
from meshsolve.factor.cholesky import PRECISIONS, CholeskyFactor, HostFactor
from meshsolve.factor.cholesky.cuda import DeviceFactor
from meshsolve.factor.cholesky.cudss import CudssFactor
from meshsolve.factor.cholesky.values import HostSystem
from meshsolve.factor.cholesky.values_cuda import DeviceSystem
from meshsolve.memory import PER_ROW
from meshsolve.mesh import MeshLike, pattern_of
from meshsolve.options import as_flag, as_seed, counted, one_of, thread_count
from meshsolve.order.methods import lists_orderings
from meshsolve.order.ordering import OrderingLike
from meshsolve.report import warn
from meshsolve.sparse.constraints import checked
from meshsolve.sparse.places import place_for, place_of_factor
from meshsolve.types import ArrayLike, Device, Matrix, Precision

LOST = 0.02                     # of a known solution: what a matrix that is singular but for rounding loses, and no other
ROUNDING = 1e-8                 # of the sum of all moduli: a sum that is less below zero may be rounding
SYSTEMS: dict[str, Any] = {"cpu": HostSystem, "cuda": DeviceSystem}


class Symbolic(_symbolic.Symbolic):
    """The analysis of a symmetric pattern: ordering, elimination tree, column counts, supernodes, and ``factor``."""

    def factor(self, A: Matrix, precision: Precision = "double", threads: int | None = None, device: Device = "auto",
               backend: Literal["native", "cudss"] = "native") -> CholeskyFactor:
        """Numeric Cholesky factorization of A, whose pattern lies inside the analysed one.

        Parameters
        ----------
        A : (n, n) symmetric positive definite matrix of any kind
            Entries of the analysed pattern that it lacks are zeros. Its lower triangle alone is read where the analysis was made
            with ``lower=True``.
        precision, threads, device, backend
            As in :func:`cholesky`.

        Returns
        -------
        CholeskyFactor
            A new one at each call; ``F.refactor(A2)`` factors in the memory of F.

        Raises
        ------
        PatternMismatchError
            A has an entry outside the analysed pattern: ``.row``, ``.column``.
        NotSymmetricError, NotPositiveDefiniteError, InvalidInputError, OutOfMemoryError, DeviceUnavailableError
            As in :func:`cholesky`.

        Notes
        -----
        O(flops) time, O(nnz) memory for what :attr:`flops` and :attr:`nnz` say. Source: see :mod:`meshsolve.factor.cholesky`.
        """
        engine = _engine(device, backend, A)
        if device == "auto" and not engine.suits(self):
            engine = HostFactor
        threads = thread_count(threads)
        values = SYSTEMS[engine.place].values_of(self, threads)
        return _told(CholeskyFactor(self, values, values.of(A), precision=precision, threads=threads, engine=engine))



@lists_orderings("cholesky")
def analyze(A: Matrix, ordering: OrderingLike = "auto", *, mesh: MeshLike | None = None, seed: int = 0,
            threads: int | None = None, lower: bool = False, device: Device = "auto",
            relax: Sequence[Sequence[float]] | None = None) -> Symbolic:
    """Order a symmetric matrix and say what its Cholesky factor will be.

    Parameters
    ----------
    A : (n, n) symmetric matrix of any kind; only its pattern is used
    ordering : {ORDERINGS}, Ordering, (n,) integers, or callable
        ``"auto"``: minimum degree while its factor is cheap, else nested dissection, see :func:`meshsolve.order.auto`.
        An array is taken as ``perm``: ``A[perm][:, perm]`` is what will be factored. A callable gets the symmetric pattern to
        order, a csr_array of ones, and returns a permutation or an Ordering. A postorder of the elimination tree follows, which
        changes neither fill nor operations.
    mesh : Mesh, optional
        Its edges join the pattern, so that later matrices of the same mesh fit whatever entries vanish in this one.
    seed : int >= 0
        For the orderings that use random numbers.
    threads : int, optional
        Default: every core, or ``MESHSOLVE_NUM_THREADS``. Results do not depend on it.
    lower : bool
        Only the lower triangle of A is read, and of the matrices that are factored later.
    device : {"auto", "cpu", "cuda"}
        Where to order and analyse. On the GPU ``"auto"``, but for scale-free graphs, and ``"nd"`` are the nested dissection made
        there, the other orderings are the CPU's; what was found stays there, and comes to the host when it is asked for.
        ``"auto"`` as in :func:`cholesky`.
    relax : list of (columns, share) or (columns, share, zeros), optional
        A supernode joins its parent if both have at most ``columns`` columns, and of the entries stored fewer than ``share``, and
        fewer than ``zeros`` in number, are zeros. One row that allows it suffices; ``inf`` is no bound. Default: ``[(4, 1, 256),
        (16, 0.25), (48, 0.1), (inf, 0.05)]``. A join that adds 256 entries or more, and more than the child has, is never made.
        Larger supernodes take more memory and may factor faster.

    Returns
    -------
    Symbolic
        ``.perm``, ``.parent``, ``.colcount``, ``.nnz``, ``.flops``, ``.pattern()``, ``.supernodes``, ``.factor(A)``.

    Raises
    ------
    InvalidInputError
        A is not square, is empty, or an index is out of range; ``ordering`` is unknown or no permutation; ``mesh`` has
        another number of vertices; a bad ``seed``, ``threads``, ``device`` or ``relax``.
    DeviceUnavailableError
        ``device="cuda"`` and there is no GPU, or no CuPy.

    Notes
    -----
    The ordering dominates; the rest takes about O(nnz(A)) time, see :mod:`meshsolve.factor.symbolic` for its sources.

    Examples
    --------
    >>> import meshsolve as ms
    >>> sym = ms.analyze(ms.datasets.grid2d(3, 3), ordering="natural")
    >>> sym.nnz, int(sym.flops)
    (29, 103)
    """
    lower = as_flag(lower, "lower")
    engine, threads = _engine(device, "native", A, lower), thread_count(threads)
    with engine.errors("the matrix"):
        system = SYSTEMS[engine.place].of_pattern(A, lower, threads, PER_ROW["cholesky"])
        _join(system, mesh)
    sym = analyzed(system, ordering, seed, threads, relax=relax)
    sym.lower = lower
    return sym



def cholesky(A: Matrix, ordering: OrderingLike = "auto", *, mesh: MeshLike | None = None, fixed: ArrayLike | None = None,
             pin: bool = False, precision: Precision = "double", device: Device = "auto",
             backend: Literal["native", "cudss"] = "native", seed: int = 0, threads: int | None = None,
             lower: bool = False) -> CholeskyFactor:
    """Cholesky factorization of a symmetric positive definite matrix: order, analyze, factor.

    Parameters
    ----------
    A : (n, n) symmetric positive definite matrix
        scipy sparse of any format, dense, or CuPy sparse; duplicates are summed.
    ordering, mesh
        As in :func:`analyze`.
    fixed : (k,) integers, one integer, or (n,) bool, optional
        Rows with prescribed values (Dirichlet); give the values to ``F.solve(b, fixed_values=...)``.
    pin : bool
        For singular Laplacians: one row per connected component is left out, solutions have mean 0 on each component.
    precision : {"double", "single", "mixed"}
        ``"mixed"`` factors in float32 and refines each solution to float64 accuracy.
    device : {"auto", "cpu", "cuda"}
        Where to factor; ``"auto"`` takes the GPU where there is one and A lies on it or has at least 100,000 rows,
        but for large near-trees (paths, stars), and others with an elimination tree of thousands of levels.
        There everything is made: ordering (see :func:`analyze`), analysis, factor; scalars come back.
    backend : {"native", "cudss"}
        On the GPU: own kernels, or NVIDIA cuDSS (through nvmath-python) in our ordering.
    seed, threads, lower
        As in :func:`analyze`.

    Returns
    -------
    CholeskyFactor
        ``L @ L.T == A[perm][:, perm]``.

    Raises
    ------
    InvalidInputError
        As in :func:`analyze`; A holds NaN or infinity; an unknown ``precision``; bad rows in ``fixed``, or ``pin`` with it.
    NotSymmetricError (``.row``, ``.column``), NotPositiveDefiniteError (``.column``), OutOfMemoryError,
    DeviceUnavailableError, NotLaplacianError (``.row``, which does not sum to 0, with ``pin=True``)
        The indices are in the caller's numbering; whether the factor fits into memory is estimated before it is tried.

    Warns
    -----
    MeshsolveWarning
        A is singular to working precision, and its pivots are positive by rounding (looked at where one is below 1e-9 of the
        diagonal entry that it was made of; a later ``refactor`` is not tried).

    Notes
    -----
    O(``F.flops``) time, O(``F.nnz``) memory. Source: Liu 1992, "The multifrontal method for sparse matrix solution".

    Examples
    --------
    >>> import meshsolve as ms
    >>> A = ms.datasets.grid2d(30, 30, boundary="dirichlet")
    >>> F = ms.cholesky(A)
    >>> x = F.solve(A.sum(axis=1))
    >>> bool(abs(x - 1).max() < 1e-12)
    True
    """
    one_of(precision, "precision", PRECISIONS)
    pin, lower = checked(fixed, pin), as_flag(lower, "lower")
    engine, workers = _engine(device, backend, A, lower), thread_count(threads)
    with engine.errors("the matrix"):
        system = SYSTEMS[engine.place].of(A, lower, workers, PER_ROW["cholesky"] if fixed is None else 0)
        _join(system, mesh)
        system.constrain(fixed, pin)
        of_free = ordering if system.constraint is None or order.is_method(ordering) else system.constraint.restrict(ordering)
    sym = analyzed(system, of_free, seed, workers)
    if device == "auto" and not engine.suits(sym):
        return cholesky(A, ordering, mesh=mesh, fixed=fixed, pin=pin, precision=precision, device="cpu", seed=seed, threads=threads,
                        lower=lower)
    sym.lower = lower
    with engine.errors("the matrix"):
        values, data = system.values(sym, precision == "mixed")
    del system                                             # its indices are not needed any more
    return _told(CholeskyFactor(sym, values, data, precision=precision, threads=workers, engine=engine))


def _join(system, mesh):
    """Store an entry for every edge of the mesh."""
    if mesh is not None:
        system.join(edges_of(mesh, system.n))


def _told(F):
    """F, with a warning where it does not bring back solutions that are known."""
    if not F.trial < LOST:
        warn("A is singular to working precision" + (" of float32" if F.precision == "single" else "") + ": its pivots are positive by "
             "rounding, and solutions may be anything (an elastic body that can still turn? more than constants taken to 0?); F.rcond() "
             "estimates the condition", MeshsolveWarning)
    return F


def _engine(device, backend, A, lower=None):
    """The class that factors: on the CPU, on the GPU, or NVIDIA's. ``lower`` where A is still to be analysed."""
    one_of(device, "device", DEVICES)
    if one_of(backend, "backend", ("native", "cudss")) == "cudss":
        if device == "cpu":
            raise InvalidInputError('backend="cudss" needs device="cuda" or "auto"')
        choose("cuda")
        return CudssFactor
    place = place_for(device, A) if lower is None else place_of_factor(device, A, lower=lower)
    return DeviceFactor if place == "cuda" else HostFactor


def analyzed(system, ordering, seed, threads, effort="default", most=np.inf, relax=None):
    """The :class:`Symbolic` of a :class:`HostSystem` or :class:`DeviceSystem`; ``nested.TooManyOperations`` where ``"auto"``
    estimates more than ``most`` operations per row."""
    threads = thread_count(threads)
    with system.errors("the analysis"):
        chosen = order.resolve(ordering, system.graph(), seed=as_seed(seed), threads=threads, place=system.place, effort=effort, most=most)
        sym = Symbolic.build(system.pattern, chosen.perm, ordering=chosen, threads=threads, place=system.place,
                             known=chosen.elimination, relax=relax)
        with sym.report.phase("symbolic"):
            system.prepare(sym)
        sym.ordering = system.named(sym.ordering)
    return with_phases(sym, chosen)


def is_surely_indefinite(M, sums, moduli, threads=1):
    """Whether the diagonal of a symmetric :class:`Csr`, or the sum of all its entries, tells that it is not positive
    semidefinite; from the sums of its rows and those of their moduli."""
    if ((M.diagonal_values(threads) <= 0) & (moduli > 0)).any():
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(sums.sum() < -ROUNDING * moduli.sum())


def with_phases(sym, chosen):
    """The analysis with what its ordering tells in its report, the phases in the order in which they ran."""
    sym.report.facts = chosen.report.facts | sym.report.facts
    sym.report.seconds = chosen.report.seconds | sym.report.seconds
    return sym


def edges_of(mesh, n):
    """The pattern of a mesh, for a matrix of n rows."""
    edges = pattern_of(mesh, "mesh")
    if edges.n != n:
        raise InvalidInputError(f"A has {counted(n, 'row')}, the mesh {counted(edges.n, 'vertex')}")
    return edges
