"""The other factorizations: LU, complete and incomplete, block LDL^T, and the approximate Cholesky factor of a Laplacian.

With ``fixed`` or ``pin`` each of them factors the block of the free rows; rows and columns in errors are those of the caller's
matrix.

Options of :func:`ildl`
-----------------------
ordering
    ``K.perm`` differs from a given ordering in two ways: a pair is at the position of the later of its rows. In the complete
    factor a row without a pivot in the matching (``structural_rank`` < n) comes right after the last of its neighbors, or later
    in its front.
blocking : {"auto", "none", "RB", "subtree", "BR"}
    ``"none"``: pairs and single rows. ``"RB"``: rows are ordered and cut into full tiles. ``"subtree"``: the same, without a tile
    across two large subtrees of the elimination tree: 3 to 70 times fewer level sets, slightly more fill and iterations.
    ``"BR"``: rows of similar patterns are grouped before they are ordered. ``"auto"``: ``"none"`` for tiles of 2 rows, else
    ``"RB"`` on the host and ``"subtree"`` on the GPU.
tile_size : {"auto"} or int from 2 to 32
    Largest number of rows in a tile. ``"auto"``: 2, the fastest on the host, and 8 with ``"BR"``. Larger tiles need fewer
    iterations.
pivoting : {"auto", "static", "bunch-kaufman", "rook"}
    Inside the tiles of an incomplete factor; ``"auto"``: rook. The complete factor has threshold tests and delays pivots.
max_fill : {"auto"}, float or None
    Largest number of columns in a row, as a multiple of that of A. ``"auto"``: 8, and no limit for ``droptol=0``.

The matching takes O(nnz log n) time for each row that its initial heuristic leaves unmatched. Sources: Duff and Pralet 2005
(matched pairs); Duff and Reid 1983 (complete); Thuerck et al. 2018, section 4 (incomplete).

Cost of :func:`parac`
---------------------
At most O(nnz log(n)^2), as counted on graphs with hubs, in every order. On the host the report's ``visits``
is the number of entries that were read. ``"amd"`` and ``"nd"`` end minimum degree after nnz log2(nnz) entries; the remaining
vertices are ordered by degree. Sources: Liang et al. 2025, "ParAC"; Gao, Kyng, Spielman 2023, "Robust and practical solution of
Laplacian equations by approximate elimination".
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from meshsolve.device import on_cpu
from meshsolve.errors import InvalidInputError
from meshsolve.factor import ildl as _ildl
from meshsolve.factor import parac as _parac
from meshsolve.factor.constrained import ConstrainedIldl, ConstrainedIlu, ConstrainedLU, ConstrainedPreconditioner
from meshsolve.factor.ilu import IluFactor
from meshsolve.factor.lu import LUFactor
from meshsolve.memory import PER_ROW
from meshsolve.options import as_flag, as_number, thread_count
from meshsolve.order import is_method
from meshsolve.order.methods import lists_orderings
from meshsolve.order.ordering import OrderingLike
from meshsolve.sparse.constraints import checked, constraint_of, in_callers_numbers
from meshsolve.sparse.matrix import as_csr, as_symmetric, is_complex
from meshsolve.sparse.places import on_device, place_of_factor
from meshsolve.types import ArrayLike, Auto, Device, DTypeLike, Matrix, Precision


@lists_orderings("lu")
def lu(A: Matrix, ordering: OrderingLike = "auto", engine: Literal["auto", "fronts", "columns"] = "auto", *,
       fixed: ArrayLike | None = None, pin: bool = False, repivot: Auto | Literal[False] = "auto", precision: Precision = "double",
       device: Device = "auto", threads: int | None = None) -> LUFactor | ConstrainedLU:
    """LU factorization of a square matrix, real or complex: match, scale, order, analyze, factor.

    Parameters
    ----------
    A : (n, n) matrix of any kind
        Stored zeros belong to the pattern of ``F.refactor``.
    ordering : {ORDERINGS}, Ordering, (n,) integers, or callable
        Of the columns; a matching gives the rows, and diagonal blocks of the block triangular form are ordered separately. A
        callable gets a csr_array of ones, the pattern of A with matched rows and without entries between blocks; it returns a
        permutation of the columns or an Ordering. ``"auto"``: minimum degree, or nested dissection if that needs fewer
        operations.
    engine : {"auto", "fronts", "columns"}
        ``"fronts"``: dense blocks on the symmetrized pattern, for meshes. ``"columns"``: the exact pattern, column by column, for
        chains and reducible matrices. ``"auto"`` estimates which is faster, from the pattern alone.
    fixed, pin
        As in :func:`meshsolve.solve`; give the values to ``F.solve(b, fixed_values=...)``.
    repivot : {"auto", False}
        ``"auto"`` chooses other pivots if those of the analysis do not fit the values. With False, vanishing pivots are perturbed
        and counted in ``F.report``, and only structural singularity is found.
    precision : {"double", "single", "mixed"}
        ``"mixed"`` factors in float32 and refines to a normwise backward error of float64. An entry of b below 1e-38 of the
        largest may be lost. Real matrices only.
    device : {"auto", "cpu", "cuda"}
        Where the factor lies. The matching runs on the host, as does the factorization of complex matrices. The order and the analysis
        of a mesh run on the GPU from 60,000 rows on: ``report.facts["analysis_device"]``. ``"auto"`` uses an available GPU if A lies
        on it or has at least 100,000 rows.
    threads : int, optional

    Returns
    -------
    LUFactor, or ConstrainedLU of the free rows and columns with ``fixed`` or ``pin``
        ``L @ U == (diag(row_scale) @ A @ diag(col_scale))[row_perm][:, col_perm]``.

    Raises
    ------
    InvalidInputError, OutOfMemoryError, DeviceUnavailableError, NotLaplacianError (``.row`` of a nonzero sum, with ``pin=True``)
        A is not square, is empty, holds NaN or infinity; a bad option; bad rows in ``fixed``, or ``pin`` with it.
    SingularMatrixError
        ``.index`` is a zero row or column, or a column without a pivot above 1e-13 of the scaled matrix. Rounding may leave such
        a pivot in a singular matrix; see ``F.rcond()``.

    Notes
    -----
    O(operations) time and O(``F.nnz``) memory. Sources: see :mod:`meshsolve.factor.lu`.

    Examples
    --------
    >>> import meshsolve as ms
    >>> ms.lu([[0.0, 2.0], [3.0, 4.0]]).solve([2.0, 10.0]).tolist()
    [2.0, 1.0]
    """
    options = {"engine": engine, "repivot": repivot, "precision": precision, "threads": threads}
    return _lu(A, ordering, fixed, checked(fixed, pin), device, options)


@lists_orderings("ildl")
def ildl(A: Matrix, fill_level: int | Auto | None = "auto", droptol: float | Auto = "auto",
         ordering: OrderingLike = "auto", blocking: Literal["auto", "none", "RB", "subtree", "BR"] = "auto",
         tile_size: int | Auto = "auto", pivoting: Literal["auto", "static", "bunch-kaufman", "rook"] = "auto", *,
         fixed: ArrayLike | None = None, pin: bool = False, max_fill: float | Auto | None = "auto", pairs: bool = True,
         dtype: DTypeLike = np.float64, device: Device = "auto", threads: int | None = None,
         lower: bool = False) -> _ildl.IldlFactor | ConstrainedIldl:
    """L D L^T factorization of a symmetric indefinite matrix, complete or incomplete: match, order, count, factor.

    Parameters
    ----------
    A : (n, n) symmetric matrix of any kind
        It may be singular; zero pivots stay zero.
    fill_level : {"auto"}, int >= 0 or None
        None: the complete factor, with exact inertia. An integer: an incomplete factor of tiles up to that level. ``"auto"``:
        complete if it is cheap, else level 2.
    droptol : {"auto"} or float >= 0
        Largest dropped entry relative to the norm of its row, in the incomplete factor. ``"auto"``: 1e-3.
    ordering : {ORDERINGS}, Ordering, (n,) integers, or callable
        Computed for matched pairs as one vertex each. A callable gets the pattern of A as a csr_array of ones, and returns a
        permutation or an Ordering.
    blocking, tile_size, pivoting, max_fill : optional
        Tiles of the incomplete factor, their largest number of rows (2 to 32), the pivoting inside them, and the largest number
        of columns per row relative to A (``"auto"``: 8); see :mod:`meshsolve.api.factors`.
    fixed, pin
        As in :func:`meshsolve.solve`; give the values to ``K.solve(b, fixed_values=...)``.
    pairs : bool
        False: no matched pairs, for comparison; the incomplete factors of most saddle points then fail.
    dtype : {float64, float32}
        Of the stored factor; results are float64.
    device : {"auto", "cpu", "cuda"}
        Where the factor is computed and applied. The matching runs on the host; the order and the analysis of a complete factor on the
        GPU run there from 60,000 rows on. ``"auto"`` uses an available GPU for incomplete factors if A lies on it or has at least
        100,000 rows.
    threads, lower
        As in :func:`meshsolve.analyze`.

    Returns
    -------
    IldlFactor, or ConstrainedIldl of the free rows with ``fixed`` or ``pin``
        ``L @ D @ L.T`` is ``(S A S)[perm][:, perm]``, S = diag(scale); approximately unless ``K.is_complete``.

    Raises
    ------
    InvalidInputError, OutOfMemoryError, DeviceUnavailableError, NotSymmetricError, NotLaplacianError, SingularMatrixError
        A is not square or not symmetric (``.row``, ``.column``), holds NaN or infinity, or has no nonzero; ``pin=True``, and
        ``.row`` does not sum to 0; a bad option.

    Examples
    --------
    >>> import meshsolve as ms
    >>> ms.ildl([[0.0, 2.0], [2.0, 0.0]]).inertia
    (1, 1, 0)
    """
    options = {"max_fill": max_fill, "pairs": as_flag(pairs, "pairs"), "dtype": dtype, "threads": threads, "device_name": device}
    names = fill_level, droptol, ordering, blocking, tile_size, pivoting
    return _ildl_of(A, names, options, fixed, checked(fixed, pin), as_flag(lower, "lower"))


@lists_orderings("lu")
def ilu(A: Matrix, droptol: float = 1e-3, max_fill: float = 10.0, ordering: OrderingLike = "auto", *, fixed: ArrayLike | None = None,
        pin: bool = False, threads: int | None = None) -> IluFactor | ConstrainedIlu:
    """Incomplete LU factorization of a square matrix, real or complex: match, scale, order, factor without small entries.

    Parameters
    ----------
    A : (n, n) matrix of any kind, on the host
    droptol : float >= 0
        Largest dropped entry relative to the norm of its column, in the scaled matrix.
    max_fill : float >= 1
        Largest number of nonzeros of L and U as a multiple of that of A; a smaller ``droptol`` needs more.
    ordering : {ORDERINGS}, Ordering, (n,) integers, or callable
        As for :func:`lu`, of all columns together.
    fixed, pin
        As in :func:`lu`.
    threads : int, optional
        For the matching and the ordering; SuperLU runs on one thread, and Ctrl-C ends it late.

    Returns
    -------
    IluFactor, or ConstrainedIlu of the free rows and columns with ``fixed`` or ``pin``
        ``K @ r`` is an approximate solution of A x = r, the ``M=`` of :func:`gmres`.

    Raises
    ------
    InvalidInputError, OutOfMemoryError, NotLaplacianError (``.row`` of a nonzero sum, with ``pin=True``)
        A is not square, is empty, holds NaN or infinity, lies on the GPU; a bad option; bad rows in ``fixed``, or ``pin`` with it.
    SingularMatrixError
        ``.index`` is a zero row or column, or a row without a match; -1 if a pivot of the incomplete factor vanishes.

    Notes
    -----
    The factorization is that of SuperLU in scipy, on the matched, scaled and ordered matrix. Sources: see
    :mod:`meshsolve.factor.ilu`.

    Examples
    --------
    >>> import meshsolve as ms, numpy as np, scipy.sparse as sp
    >>> A = ms.datasets.grid2d(20, 20, boundary="dirichlet") + sp.diags_array(np.full(399, 0.5), offsets=1)
    >>> x, info = ms.gmres(A, A @ np.ones(400), M=ms.ilu(A, droptol=1e-2))
    >>> info.converged and bool(np.allclose(x, 1))
    True
    """
    if on_device(A):
        raise InvalidInputError("A lies on the GPU, but ilu runs on the host: pass A.get()")
    pin, workers = checked(fixed, pin), thread_count(threads)
    options = as_number(droptol, "droptol"), as_number(max_fill, "max_fill", 1)
    M = as_csr(A, dtype=np.complex128 if is_complex(A) else np.float64, per_row=PER_ROW["lu"], threads=workers)
    constraint = constraint_of(M, fixed, pin, symmetric=False)
    if constraint is None:
        return IluFactor(M, *options, ordering, workers)
    ordering, block = _restricted(ordering, constraint), constraint.reduce(M, workers)
    with in_callers_numbers(constraint.free):
        return ConstrainedIlu(IluFactor(block, *options, ordering, workers), constraint)


@lists_orderings("parac")
def parac(L: Matrix, ordering: OrderingLike = "auto", samples: int | Auto = "auto", rhs: int = 1, seed: int = 0,
          dtype: DTypeLike = np.float64, threads: int | None = None, device: Device = "auto", *,
          fixed: ArrayLike | None = None, pin: bool = False) -> _parac.ParacFactor | ConstrainedPreconditioner:
    """Randomized approximate Cholesky factor of a graph Laplacian: a cheap preconditioner for any graph.

    Parameters
    ----------
    L : (n, n) symmetric matrix of any kind
        A weighted graph Laplacian, or a matrix of non-negative row sums: excess diagonal is an edge to a ground that is never
        eliminated. Positive off-diagonal entries are replaced by a small weight unless elimination cancels them, with a warning
        that counts them. Sums slightly below 0 count as 0 if removed rows explain them, as in ``L[free][:, free]``.
    ordering : {"rounds", ORDERINGS}, Ordering, (n,) integers, or callable
        ``"rounds"``: each round eliminates all vertices of fewer edges than their neighbors. ``"auto"``: ``"nnz_sort"`` for dense
        graphs with hubs, else ``"rounds"``. A callable is as in :func:`ildl`.
    samples : {"auto"} or int
        Copies of each edge: more copies give a better factor that takes longer. ``"auto"``: 3 for road-like graphs (about as many
        edges as vertices), 2 from ``rhs=4`` on, else 1.
    rhs, seed : int
        Approximate number of right-hand sides; seed of the random numbers, at least 0.
    dtype : {float64, float32}
        Of the stored G. float32 saves a third of the memory, at the same number of iterations.
    threads : int, optional
    device : {"auto", "cpu", "cuda"}
        Where L is factored and the factor applied, with the same bits of G and D. ``"auto"`` uses an available GPU from 100,000
        rows on, or if L lies on it.
    fixed, pin
        As in :func:`cg`. Without ``pin`` the factor of a Laplacian is that of its pseudo-inverse.

    Returns
    -------
    ParacFactor, or ConstrainedPreconditioner with ``fixed`` or ``pin``
        ``P @ r`` applies the (pseudo-)inverse. ``P.G @ diag(P.D) @ P.G.T`` has the expected value ``L[perm][:, perm]``.

    Raises
    ------
    InvalidInputError, NotSymmetricError (``.row``, ``.column``), OutOfMemoryError, DeviceUnavailableError
        L is not square, is empty, holds NaN or infinity; a bad option; a random order of a graph with hubs.
    NotLaplacianError
        ``.row`` has a negative sum that removed rows do not explain, or is the first of many with positive off-diagonal entries.

    Notes
    -----
    O(nnz log n) expected time, about 0.1 us per entry of G on meshes. Bounds and sources: :mod:`meshsolve.api.factors`.

    Examples
    --------
    >>> import meshsolve as ms
    >>> P = ms.parac(ms.datasets.grid2d(30, 30))
    >>> S = P.G @ (P.D[:, None] * P.G.T.toarray())
    >>> bool(abs(S.sum(axis=0)).max() < 1e-12)
    True
    """
    options = samples, rhs, seed, dtype, threads, device
    if not checked(fixed, pin) and fixed is None:
        return _parac.parac(L, ordering, *options)
    M = as_symmetric(L, "L", threads=thread_count(threads), per_row=PER_ROW["parac"])
    constraint = constraint_of(M, fixed, pin)
    ordering, block = _restricted(ordering, constraint), constraint.reduce(M, thread_count(threads))
    with in_callers_numbers(constraint.free):
        return ConstrainedPreconditioner(_parac.parac(block, ordering, *options), constraint)


def _lu(A, ordering, fixed, pin, device, options):
    M = as_csr(A, dtype=np.complex128 if is_complex(A) else np.float64, per_row=PER_ROW["lu"])
    options["place"] = _place(device, M, A)
    constraint = constraint_of(M, fixed, pin, symmetric=False)
    if constraint is None:
        return LUFactor(M, ordering=ordering, **options)
    ordering, block = _restricted(ordering, constraint), constraint.reduce(M, thread_count(options["threads"]))
    with in_callers_numbers(constraint.free):
        return ConstrainedLU(LUFactor(block, ordering=ordering, **options), constraint)


def _restricted(ordering, constraint):
    """An ordering of all rows as one of the free rows; a name is returned unchanged."""
    return ordering if is_method(ordering) else constraint.restrict(ordering)


def _place(device, M, A):
    """The device of an LU factorization: complex matrices on the host only."""
    if M.data.dtype.kind != "c":
        return place_of_factor(device, A, size=M.n)
    on_cpu(device, "complex matrices are factored")
    return "cpu"


def _ildl_of(A, names, options, fixed, pin, lower):
    fill_level, droptol, ordering, *tiles = names
    if fixed is None and not pin:
        return _ildl.ildl(A, fill_level, droptol, ordering, *tiles, lower=lower, **options)
    threads = thread_count(options["threads"])
    M = as_symmetric(A, lower=lower, threads=threads, per_row=PER_ROW["ildl"])
    constraint = constraint_of(M, fixed, pin)
    ordering, block = _restricted(ordering, constraint), constraint.reduce(M, threads)
    with in_callers_numbers(constraint.free):
        K = _ildl.ildl(block, fill_level, droptol, ordering, *tiles, **options)
    return ConstrainedIldl(K, constraint, lower)
