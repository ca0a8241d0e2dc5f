"""Symmetric positive definite matrices: analysis and Cholesky factorization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from meshsolve import order
from meshsolve.device import DEVICES, errors, on_gpu
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.factor import symbolic as _symbolic
from meshsolve.factor.cholesky import PRECISIONS, CholeskyFactor, HostFactor
from meshsolve.factor.cholesky.batch import CORES, CholeskyBatch
from meshsolve.factor.cholesky.batch_cuda import CholeskyBatchCuda
from meshsolve.factor.cholesky.cuda import DeviceFactor
from meshsolve.factor.cholesky.cudss import CudssFactor
from meshsolve.factor.cholesky.disk import disk_engine
from meshsolve.factor.cholesky.values import System, Values
from meshsolve.memory import PER_ROW
from meshsolve.mesh import MeshLike, pattern_of
from meshsolve.options import as_flag, as_seed, counted, one_of, thread_count
from meshsolve.order.methods import lists_orderings
from meshsolve.order.ordering import OrderingLike
from meshsolve.report import warn
from meshsolve.sparse.constraints import checked
from meshsolve.sparse.places import on_device, place_for, place_of_factor
from meshsolve.types import ArrayLike, Device, Matrix, Memory, Path, Precision

LOST = 0.02                     # error of known solutions, relative to them, above which a matrix is singular in rounding
ROUNDING = 1e-8                 # largest negative sum of all entries, relative to their absolute values, that may be rounding
ENGINES: dict[str, Any] = {"cpu": HostFactor, "cuda": DeviceFactor}


class Symbolic(_symbolic.Symbolic):
    """The analysis of a symmetric pattern: ordering, elimination tree, column counts, supernodes, and ``factor``."""

    def factor(self, A: Matrix, precision: Precision = "double", threads: int | None = None, device: Device = "auto",
               backend: Literal["native", "cudss"] = "native", memory: Memory = "ram", folder: Path | None = None) -> CholeskyFactor:
        """Compute the Cholesky factor of A, whose pattern is inside the analyzed one.

        Parameters
        ----------
        A : (n, n) symmetric positive definite matrix of any kind
            Entries of the analyzed pattern that A lacks are zeros. Only its lower triangle is read if the analysis was made with
            ``lower=True``.
        precision, threads, device, backend, memory, folder
            As in :func:`cholesky`.

        Returns
        -------
        CholeskyFactor
            A new one at each call. ``F.refactor(A2)`` reuses the memory of F.

        Raises
        ------
        PatternMismatchError
            A has an entry outside the analyzed pattern: ``.row``, ``.column``.
        NotSymmetricError, NotPositiveDefiniteError, InvalidInputError, OutOfMemoryError, DeviceUnavailableError
            As in :func:`cholesky`.

        Notes
        -----
        O(:attr:`flops`) time, O(:attr:`nnz`) memory. Source: see :mod:`meshsolve.factor.cholesky`.
        """
        engine = _engine(device, backend, A, memory, folder)
        if device == "auto" and not engine.suits(self):
            engine = HostFactor
        threads = thread_count(threads)
        values = Values(self.n, self, threads=threads, place=engine.place)
        return _warned(CholeskyFactor(self, values, values.of(A), precision=precision, threads=threads, engine=engine))


    def factor_batch(self, values: ArrayLike, precision: Literal["double", "single"] = "double",
                     threads: int | None = None, *, keep: bool = True) -> CholeskyBatch:
        """Compute the Cholesky factors of many matrices with the analyzed pattern, where their values lie.

        Parameters
        ----------
        values : (N, nnz) real, on the host or on the GPU (CuPy, PyTorch and other arrays with DLPack)
            A row for each matrix: its entries in the order of the analyzed pattern, both triangles, by rows with ascending columns.
            That is ``A.data`` of a csr_array with sorted indices, a symmetric pattern and a full diagonal; :meth:`values_of` makes
            the row of any other matrix.
        precision : {"double", "single"}
        threads : int, optional
            Threads share the systems. Not used on the GPU, where all systems go through each launch together.
        keep : bool
            False, on the host: factors are not kept, and each ``solve`` factors and solves the systems in one pass. That is faster for
            systems that are solved once, and takes no memory for factors. ``solve`` reads ``values`` then: do not change the array before.

        Returns
        -------
        CholeskyBatch
            ``.solve(b)``, ``.refactor(values)``, ``.failed``.

        Raises
        ------
        InvalidInputError
            Wrong shape, no system, complex numbers or text; ``keep=False`` for values on the GPU.
        NotSymmetricError
            A system is not symmetric (names the first, ``.row``, ``.column``).
        OutOfMemoryError
            All factors together do not fit.

        Warns
        -----
        MeshsolveWarning
            Systems may be singular to working precision.

        Notes
        -----
        A matrix that is not positive definite, or has NaN, fails alone: it is listed in ``.failed`` and its solutions are NaN. O(N
        flops) time, O(N nnz(L)) memory; O(nnz(L)) for each thread if factors are not kept. Small systems gain the most: one call for all
        takes no Python time for each.

        Examples
        --------
        >>> import numpy as np
        >>> import meshsolve as ms
        >>> A = ms.datasets.grid2d(5, 5, boundary="dirichlet")
        >>> F = ms.analyze(A).factor_batch(np.stack([A.data, 2 * A.data]))
        >>> x = F.solve(np.ones((2, 25)))
        >>> bool(np.allclose(x[0], 2 * x[1]))
        True
        """
        one_of(precision, "precision", tuple(CORES))
        keep = as_flag(keep, "keep")
        if not on_device(values):
            return CholeskyBatch(self, values, precision, thread_count(threads), keep)
        if not keep:
            raise InvalidInputError("values lie on the GPU, where batches keep their factors: use keep=True, or pass values.get()")
        with errors("a batch of factors"):
            return CholeskyBatchCuda(self, values, precision, 1, True)

    def values_of(self, A: Matrix) -> np.ndarray:
        """Return the entries of A in the order of the analyzed pattern, (nnz,) float64: a row for :meth:`factor_batch`.

        A is any symmetric matrix whose pattern is inside the analyzed one; entries that it lacks are zeros. O(nnz).

        Raises
        ------
        PatternMismatchError, NotSymmetricError, InvalidInputError
            As :meth:`factor`.
        """
        values = Values(self.n, self, threads=thread_count(None))
        data = values.of(A)
        return data if values.doubt is None else values.doubt.stored.within(values.pattern)


@lists_orderings("cholesky")
def analyze(A: Matrix, ordering: OrderingLike = "auto", *, mesh: MeshLike | None = None, seed: int = 0,
            threads: int | None = None, lower: bool = False, device: Device = "auto",
            relax: Sequence[Sequence[float]] | None = None) -> Symbolic:
    """Order a symmetric matrix and compute the structure of its Cholesky factor.

    Parameters
    ----------
    A : (n, n) symmetric matrix of any kind; only its pattern is used
    ordering : {ORDERINGS}, Ordering, (n,) integers, or callable
        ``"auto"``: minimum degree for a cheap factor, else nested dissection, see :func:`meshsolve.order.auto`. An array is
        ``perm``: ``A[perm][:, perm]`` is factored. A callable gets the symmetric pattern, a csr_array of ones, and returns a
        permutation or an Ordering. A postorder of the elimination tree follows; it changes neither fill nor operations.
    mesh : Mesh, optional
        Its edges are added to the pattern, so that all matrices of the mesh fit, also if entries vanish in this one.
    seed : int >= 0, optional
        For orderings that use random numbers.
    threads : int, optional
        Default: all cores, or ``MESHSOLVE_NUM_THREADS``. Results do not depend on it.
    lower : bool
        Only the lower triangle of A, and of matrices that are factored later, is read.
    device : {"auto", "cpu", "cuda"}
        Where to order and analyze. ``"auto"`` as in :func:`cholesky`. On the GPU ``"auto"``, except for scale-free graphs, and
        ``"nd"`` are nested dissection on the GPU. Other orderings run on the CPU. Below 60,000 rows the CPU also analyzes, which is
        faster. Results stay on the GPU until they are read.
    relax : list of (columns, share) or (columns, share, zeros), optional
        A supernode is merged into its parent if one row allows it: both have at most ``columns`` columns, and zeros are below
        ``share`` of the stored entries and below ``zeros``. ``inf`` is no bound. A merge that adds 256 zeros or more, and more
        than the child has entries, is never made. Large supernodes take more memory and may factor faster. Default:
        ``[(4, 1, 256), (16, 0.25), (48, 0.1), (inf, 0.05)]``.

    Returns
    -------
    Symbolic
        ``.perm``, ``.parent``, ``.colcount``, ``.nnz``, ``.flops``, ``.pattern()``, ``.supernodes``, ``.factor(A)``.

    Raises
    ------
    InvalidInputError
        A is not square, is empty, or has an index out of range. ``ordering`` is unknown or no permutation. ``mesh`` has another
        number of vertices. A bad ``seed``, ``threads``, ``device`` or ``relax``.
    DeviceUnavailableError
        ``device="cuda"`` and there is no GPU, or no CuPy.

    Notes
    -----
    The ordering takes most of the time, the rest about O(nnz(A)); sources in :mod:`meshsolve.factor.symbolic`.

    Examples
    --------
    >>> import meshsolve as ms
    >>> sym = ms.analyze(ms.datasets.grid2d(3, 3), ordering="natural")
    >>> sym.nnz, int(sym.flops)
    (29, 103)
    """
    return _analyze(A, ordering, mesh, seed, thread_count(threads), as_flag(lower, "lower"), device, relax)


def cholesky(A: Matrix, ordering: OrderingLike = "auto", *, mesh: MeshLike | None = None, fixed: ArrayLike | None = None,
             pin: bool = False, precision: Precision = "double", device: Device = "auto",
             backend: Literal["native", "cudss"] = "native", seed: int = 0, threads: int | None = None,
             lower: bool = False, memory: Memory = "ram", folder: Path | None = None) -> CholeskyFactor:
    """Compute the Cholesky factor of a symmetric positive definite matrix.

    Parameters
    ----------
    A : (n, n) symmetric positive definite matrix
        scipy sparse of any format, dense, or CuPy sparse; duplicates are summed.
    ordering, mesh, seed, threads, lower
        As in :func:`analyze`.
    fixed : (k,) integers, one integer, or (n,) bool, optional
        Rows with prescribed values (Dirichlet): ``F.solve(b, fixed_values=...)``.
    pin : bool
        For singular Laplacians: one row per connected component is left out, solutions have mean 0 on each component.
    precision : {"double", "single", "mixed"}
        ``"mixed"`` factors in float32 and refines each solution to float64 accuracy.
    device : {"auto", "cpu", "cuda"}
        From 60,000 rows on, ordering and analysis run on the GPU as well. ``"auto"`` uses a GPU if A lies on it or has at least
        100,000 rows. Exceptions are large near-trees (paths, stars), and elimination trees of thousands of levels.
    backend : {"native", "cudss"}
        On the GPU: own kernels, or NVIDIA cuDSS (through nvmath-python) in our ordering.
    memory, folder : {"ram", "disk"}, path
        ``"disk"``: L lies in a temporary file of ``folder`` (default: that of the system), not on a GPU. Solutions have the same bits.

    Returns
    -------
    CholeskyFactor
        ``L @ L.T == A[perm][:, perm]``.

    Raises
    ------
    InvalidInputError
        As in :func:`analyze`; NaN or infinity in A; unknown ``precision``; bad rows in ``fixed``, or ``pin`` with it; bad ``folder``.
    NotSymmetricError (``.row``, ``.column``), NotPositiveDefiniteError (``.column``), DeviceUnavailableError, OutOfMemoryError
        Indices are in the caller's numbering. Memory, and free space in ``folder``, are checked before the factorization.
    NotLaplacianError (``.row``)
        With ``pin=True``: the row does not sum to 0.

    Warns
    -----
    MeshsolveWarning
        A is singular to working precision, checked if a pivot is below 1e-9 of its diagonal entry (not in a ``refactor``).

    Notes
    -----
    O(``F.flops``) time, O(``F.nnz``) memory. Source: Liu 1992, "The multifrontal method for sparse matrix solution".

    Examples
    --------
    >>> import meshsolve as ms
    >>> F = ms.cholesky(A := ms.datasets.grid2d(30, 30, boundary="dirichlet"))
    >>> bool(abs(F.solve(A.sum(axis=1)) - 1).max() < 1e-12)
    True
    """
    one_of(precision, "precision", PRECISIONS)
    pin, lower = checked(fixed, pin), as_flag(lower, "lower")
    engine, threads = _engine(device, backend, A, memory, folder, lower), thread_count(threads)
    return _cholesky(A, engine, device, ordering, mesh, fixed, pin, precision, seed, threads, lower)


def analyzed(system, ordering, seed, threads, effort="default", most=np.inf, relax=None, entry_bytes=0):
    """Return the :class:`Symbolic` of a :class:`System`.

    Raises ``nested.TooManyOperations`` if ``"auto"`` estimates more than ``most`` operations per row. Raises OutOfMemoryError if
    ``entry_bytes`` for each entry of the factor do surely not fit; 0: the factor will not be in main memory.
    """
    threads = thread_count(threads)
    with system.place.errors("the analysis"):
        place, pattern, graph = system.to_analyze()
        chosen = order.resolve(system.ordering_for(ordering, graph), graph, seed=as_seed(seed), threads=threads, place=place.name,
                               effort=effort, most=most, entry_bytes=entry_bytes)
        sym = Symbolic.build(pattern, chosen.perm, ordering=chosen, threads=threads, place=place.name, known=chosen.elimination,
                             relax=relax)
        sym.report.facts.update(system.location.facts)
        with sym.report.phase("symbolic"):
            system.prepare(sym)
        sym.ordering = system.named(sym.ordering)
    return with_phases(sym, chosen)


def is_surely_indefinite(M, sums, magnitudes, threads=1):
    """Return True if a symmetric :class:`Csr` has a negative diagonal entry, a zero one in a nonzero row, or a negative sum of entries.

    ``sums``, ``magnitudes``: row sums, and row sums of absolute values.
    """
    if ((M.diagonal_values(threads) <= 0) & (magnitudes > 0)).any():
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(sums.sum() < -ROUNDING * magnitudes.sum())


def with_phases(sym, chosen):
    """Return the analysis with the report of its ordering merged into its own, phases in the order in which they ran."""
    sym.report.facts = chosen.report.facts | sym.report.facts
    sym.report.seconds = chosen.report.seconds | sym.report.seconds
    return sym


def edges_of(mesh, n):
    """Return the pattern of a mesh, for a matrix of n rows."""
    edges = pattern_of(mesh, "mesh")
    if edges.n != n:
        raise InvalidInputError(f"A has {counted(n, 'row')}, the mesh {counted(edges.n, 'vertex')}")
    return edges


def _analyze(A, ordering, mesh, seed, threads, lower, device, relax):
    engine = _engine(device, "native", A, lower=lower)
    with engine.place.errors("the matrix"):
        system = System.of_pattern(A, engine, lower, threads, PER_ROW["cholesky"])
        _join(system, mesh)
    sym = analyzed(system, ordering, seed, threads, relax=relax)
    sym.lower = lower
    return sym


def _cholesky(A, engine, device, ordering, mesh, fixed, pin, precision, seed, threads, lower):
    with engine.place.errors("the matrix"):
        system = System.of(A, engine, lower, threads, PER_ROW["cholesky"] if fixed is None else 0)
        _join(system, mesh)
        system.constrain(fixed, pin)
        of_free = ordering if system.constraint is None or order.is_method(ordering) else system.constraint.restrict(ordering)
    sym = analyzed(system, of_free, seed, threads, entry_bytes=(8 if precision == "double" else 4) if engine is HostFactor else 0)
    if device == "auto" and not engine.suits(sym):
        return _cholesky(A, HostFactor, device, ordering, mesh, fixed, pin, precision, seed, threads, lower)
    sym.lower = lower
    with engine.place.errors("the matrix"):
        values, data = system.values(sym, precision == "mixed")
    del system                                             # frees its indices
    return _warned(CholeskyFactor(sym, values, data, precision=precision, threads=threads, engine=engine))


def _join(system, mesh):
    """Store an entry for every edge of the mesh."""
    if mesh is not None:
        system.join(edges_of(mesh, system.n))


def _warned(F):
    """Return F. Warn if known solutions have large errors."""
    if not F.trial < LOST:
        warn("A is singular to working precision" + (" of float32" if F.precision == "single" else "") + ": its pivots are positive by "
             "rounding, and solutions may be meaningless. Likely causes: rigid motions of an elastic body are free; A takes more than "
             "constants to 0. F.rcond() estimates the condition", MeshsolveWarning)
    return F


def _engine(device, backend, A, memory="ram", folder=None, lower=None):
    """Return the class that factors: on the host, on disk, on the GPU, or cuDSS. ``lower``: given if A is still to be analyzed."""
    one_of(device, "device", DEVICES)
    if on_disk := disk_engine(memory, folder, device, backend):
        return on_disk
    if one_of(backend, "backend", ("native", "cudss")) == "cudss":
        on_gpu(device, 'backend="cudss"')
        return CudssFactor
    return ENGINES[place_for(device, A) if lower is None else place_of_factor(device, A, lower=lower)]
