"""The other factorizations: LU, block LDL^T, and the approximate Cholesky factor of a Laplacian."""

from __future__ import annotations

from typing import Literal

import numpy as np

from meshsolve.device import on_cpu
from meshsolve.factor import ildl as _ildl
from meshsolve.factor import parac as _parac
from meshsolve.factor.constrained import ConstrainedIldl, ConstrainedLU, ConstrainedPreconditioner
from meshsolve.factor.lu import LUFactor
from meshsolve.memory import PER_ROW
from meshsolve.options import as_flag, thread_count
from meshsolve.order import is_method
from meshsolve.order.methods import lists_orderings
from meshsolve.order.ordering import OrderingLike
from meshsolve.sparse.constraints import checked, constraint_of, in_callers_numbers
from meshsolve.sparse.matrix import as_csr, as_symmetric, is_complex
from meshsolve.sparse.places import place_of_factor
from meshsolve.types import ArrayLike, Auto, Device, DTypeLike, Matrix, Precision


@lists_orderings("lu")
def lu(A: Matrix, ordering: OrderingLike = "auto", engine: Literal["auto", "fronts", "columns"] = "auto", *,
       fixed: ArrayLike | None = None, pin: bool = False, repivot: Auto | Literal[False] = "auto", precision: Precision = "double",
       device: Device = "auto", threads: int | None = None) -> LUFactor | ConstrainedLU:
    """LU factorization of a square matrix, real or complex: match, scale, order, analyze, factor.

    Parameters
    ----------
    A : (n, n) matrix of any kind
        Stored zeros keep their place for later values (``F.refactor``).
    ordering : {ORDERINGS}, Ordering, (n,) integers, or callable
        Of the columns; rows follow by a matching, and diagonal blocks of the block triangular form are ordered apart. A callable
        gets a csr_array of ones: the pattern of A with its rows matched to its columns, without the entries between blocks. It
        returns a permutation of the columns or an Ordering, which later factorizations keep.
        ``"auto"``: minimum degree, or nested dissection where that needs fewer operations.
    engine : {"auto", "fronts", "columns"}
        ``"fronts"``: dense blocks on the symmetrized pattern, for everything mesh-like. ``"columns"``: the exact pattern, column by
        column, for chains and reducible matrices. ``"auto"`` foresees which takes less time, from the pattern alone.
    fixed : (k,) integers, one integer, or (n,) bool, optional
        Unknowns with prescribed values (Dirichlet), given to ``F.solve(b, fixed_values=...)``: their rows and columns are left out, and
        their coupling to the free rows goes to the right-hand side.
    pin : bool
        For singular matrices whose rows and columns sum to 0, such as Laplacians: one row per connected component is left out, solutions
        have mean 0 on each component.
    repivot : {"auto", False}
        Whether other pivots are chosen where those of the analysis do not fit the values. Without, pivots that vanish are
        replaced by small ones and counted in ``F.report``, and a singular matrix is not noticed unless it is so by structure.
    precision : {"double", "single", "mixed"}
        ``"mixed"`` factors in float32 and refines each solution to a backward error of float64 in the norm of each right-hand side:
        entries of b below 1e-38 of the largest may leave nothing in x. Real matrices only.
    device : {"auto", "cpu", "cuda"}
        Where the factor lies and works; orderings and the analysis are made on the CPU. ``"auto"`` takes a GPU where there is one
        and A lies on it or has at least 100,000 rows. Complex matrices are factored on the CPU only.
    threads : int, optional
        Default: every core, or ``MESHSOLVE_NUM_THREADS``. Results do not depend on it.

    Returns
    -------
    LUFactor
        ``L @ U == (diag(row_scale) @ A @ diag(col_scale))[row_perm][:, col_perm]``. With ``fixed`` or ``pin`` a
        :class:`~meshsolve.factor.constrained.ConstrainedLU`, whose factors are those of the free rows and columns.

    Raises
    ------
    InvalidInputError
        A is not square, is empty, holds NaN or infinity; an unknown option; bad rows in ``fixed``, or ``pin`` with it.
    NotLaplacianError
        ``pin=True``, and a row or column does not sum to 0: ``.row``.
    SingularMatrixError
        ``.index`` is a row or column of A without a nonzero, or a column that depends on others: no pivot above 1e-13 of
        the scaled matrix is left in it. Larger singular matrices may have such a pivot by rounding; ``F.rcond()`` tells them.
    OutOfMemoryError, DeviceUnavailableError

    Notes
    -----
    O(operations) time and O(``F.nnz``) memory. Sources: see :mod:`meshsolve.factor.lu`.

    Examples
    --------
    >>> import meshsolve as ms
    >>> F = ms.lu([[0.0, 2.0], [3.0, 4.0]])
    >>> F.solve([2.0, 10.0]).tolist()
    [2.0, 1.0]
    """
    pin = checked(fixed, pin)
    M = as_csr(A, dtype=np.complex128 if is_complex(A) else np.float64, per_row=PER_ROW["lu"])
    options = {"engine": engine, "repivot": repivot, "precision": precision, "place": _place(device, M, A), "threads": threads}
    constraint = constraint_of(M, fixed, pin, symmetric=False)
    if constraint is None:
        return LUFactor(M, ordering=ordering, **options)
    ordering, block = _restricted(ordering, constraint), constraint.reduce(M, thread_count(threads))
    with in_callers_numbers(constraint.free):
        return ConstrainedLU(LUFactor(block, ordering=ordering, **options), constraint)


def _restricted(ordering, constraint):
    """An ordering of all rows as one of the free rows; names stay."""
    return ordering if is_method(ordering) else constraint.restrict(ordering)


def _place(device, M, A):
    """Where an LU factorization runs: complex matrices on the CPU only."""
    if M.data.dtype.kind != "c":
        return place_of_factor(device, A, size=M.n)
    on_cpu(device, "complex matrices are factored")
    return "cpu"


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
        Saddle points, shifted Laplacians, KKT systems. It may be singular; zero pivots stay zero.
    fill_level : {"auto"}, int >= 0 or None
        None: the complete factor, a direct solver with exact inertia. An integer: an incomplete one, whose tiles may fill up to
        that level. ``"auto"`` counts the complete factor and takes it while it is cheap, else level 2.
    droptol : {"auto"} or float >= 0
        Of the incomplete factor: entries below this fraction of their row's norm are dropped. ``"auto"``: 1e-3.
    ordering : {ORDERINGS}, Ordering, (n,) integers, or callable
        Found for matched pairs as one vertex each, in the complete factor only where they are the rule. One that is given is of the n
        rows; K.perm follows it but for what pivots need: a pair comes where the later of its rows does and, in the complete
        factor, a row that the matching leaves without a pivot (``structural_rank`` < n) just behind the last of its neighbours, a
        column without one in its front later still. A callable gets the pattern of A as a csr_array of ones, and returns such.
    blocking : {"auto", "none", "RB", "subtree", "BR"}
        Tiles of the incomplete factor: pairs and single rows alone, an order cut into full tiles, the same with no tile across two
        large subtrees of the elimination tree (3 to 70 times fewer level sets, somewhat less fill and more iterations), or rows of
        similar patterns grouped before they are ordered. ``"auto"``: ``"none"`` for tiles of 2 rows, else ``"RB"`` on the CPU and
        ``"subtree"`` on a GPU.
    tile_size : {"auto"} or int from 2 to 32
        Most rows of a tile. ``"auto"``: 2, which is fastest on CPUs, and 8 with ``"BR"``.
    pivoting : {"auto", "static", "bunch-kaufman", "rook"}
        Inside the tiles of the incomplete factor; ``"auto"``: rook. The complete one has threshold tests and hands columns up.
    fixed : (k,) integers, one integer, or (n,) bool, optional
        Rows with prescribed values (Dirichlet); give the values to ``K.solve(b, fixed_values=...)``.
    pin : bool
        For singular matrices that take constants to 0: one row per connected component is left out, solutions have mean 0 on each
        component.
    max_fill : {"auto"}, float or None
        Columns that a row may keep, as a multiple of those of A. ``"auto"``: 8, without bound for ``droptol=0``.
    pairs : bool
        False: no matched pairs, for comparison; most saddle points then fail.
    dtype : {float64, float32}
        Of the stored factor; what comes out is float64.
    device : {"auto", "cpu", "cuda"}
        ``"cuda"``: the factor, complete or incomplete, is made and applied on the GPU, from matching, order and analysis or
        tiles of the CPU. Larger tiles, up to 32, have fewer iterations and more work for a GPU. ``"auto"`` takes a GPU where one
        is found, A lies on it or has at least 100,000 rows, and the factor is incomplete.
    threads : int, optional
        Default: every core, or ``MESHSOLVE_NUM_THREADS``. Results do not depend on it.
    lower : bool
        Only the lower triangle of A is read, and of the matrices that are factored later.

    Returns
    -------
    IldlFactor
        ``L @ D @ L.T`` is ``(S A S)[perm][:, perm]``, S = diag(scale), exactly where ``K.is_complete``, else nearly. With ``fixed`` or
        ``pin`` a :class:`~meshsolve.factor.constrained.ConstrainedIldl`, whose factor and inertia are those of the free rows.

    Raises
    ------
    InvalidInputError
        A is not square, is empty, holds NaN or infinity; a bad option; bad rows in ``fixed``, or ``pin`` with it.
    NotSymmetricError
        ``.row`` and ``.column`` name the worst entry.
    NotLaplacianError
        ``pin=True``, and a row does not sum to 0: ``.row``.
    SingularMatrixError
        A, or its block of the free rows, has no nonzero.
    OutOfMemoryError, DeviceUnavailableError

    Notes
    -----
    Matching: O(nnz log n) for each row that a cheap start leaves unmatched. Sources: Duff and Pralet 2005 (matched pairs); Duff
    and Reid 1983 (complete); Thuerck et al. 2018, section 4 (incomplete). See the page "Indefinite systems" of the documentation.

    Examples
    --------
    >>> import meshsolve as ms
    >>> K = ms.ildl([[0.0, 2.0], [2.0, 0.0]])
    >>> K.inertia
    (1, 1, 0)
    >>> K.solve([2.0, 4.0]).tolist()
    [2.0, 1.0]
    """
    pin, lower = checked(fixed, pin), as_flag(lower, "lower")
    options = {"max_fill": max_fill, "pairs": pairs, "dtype": dtype, "threads": threads, "device_name": device}
    if fixed is None and not pin:
        return _ildl.ildl(A, fill_level, droptol, ordering, blocking, tile_size, pivoting, lower=lower, **options)
    M = as_symmetric(A, lower=lower, threads=thread_count(threads), per_row=PER_ROW["ildl"])
    constraint = constraint_of(M, fixed, pin)
    ordering, block = _restricted(ordering, constraint), constraint.reduce(M, thread_count(threads))
    with in_callers_numbers(constraint.free):
        K = _ildl.ildl(block, fill_level, droptol, ordering, blocking, tile_size, pivoting, **options)
    return ConstrainedIldl(K, constraint, lower)


@lists_orderings("parac")
def parac(L: Matrix, ordering: OrderingLike = "auto", samples: int | Auto = "auto", rhs: int = 1, seed: int = 0,
          dtype: DTypeLike = np.float64, threads: int | None = None, device: Device = "auto", *,
          fixed: ArrayLike | None = None, pin: bool = False) -> _parac.ParacFactor | ConstrainedPreconditioner:
    """Randomized approximate Cholesky factor of a graph Laplacian: a preconditioner that is cheap to make on any graph.

    Parameters
    ----------
    L : (n, n) symmetric matrix of any kind
        A weighted graph Laplacian, or a matrix whose rows have non-negative sums: excess diagonal is an edge to a ground that is
        never eliminated. Positive off-diagonal entries (cotan Laplacians have some) are replaced in the factor by a small
        weight where the elimination has not made up for them, with a warning that counts them; where held vertices took some with
        them, as ``L[free][:, free]`` of a mesh, sums a little below 0 count as 0. Any number of components.
    ordering : {"rounds", ORDERINGS}, Ordering, (n,) integers, or callable
        ``"rounds"`` finds the order while it eliminates: each round takes all vertices that have fewer edges than their
        neighbours at that time. ``"auto"`` is ``"nnz_sort"`` for dense graphs with hubs, else ``"rounds"``. A callable
        gets the pattern of L as a csr_array of ones, and returns a permutation or an Ordering.
    samples : {"auto"} or int
        Copies of each edge: more give a better factor that takes longer to make. ``"auto"``: 3 for road-like graphs (about as many
        edges as vertices), 2 from ``rhs=4`` on, else 1.
    rhs : int
        How many right-hand sides will be solved for, about.
    seed : int >= 0
    dtype : {float64, float32}
        Of the stored G; D, sums and what comes out are float64. float32 saves a third of the memory, at the same iterations.
    threads : int, optional
    device : {"auto", "cpu", "cuda"}
        Where it is factored and applied; G and D are the same to the bit. ``"auto"`` takes a GPU from 100,000 rows on, or where L
        lies there.
    fixed : (k,) integers, one integer, or (n,) bool, optional
        Rows with prescribed values, which are left out with their columns: for :func:`cg` with the same ``fixed``.
    pin : bool
        One row per connected component of a Laplacian is left out. Without it the factor of a Laplacian is that of its pseudo-inverse.

    Returns
    -------
    ParacFactor, or ConstrainedPreconditioner with ``fixed`` or ``pin``
        A LinearOperator, ``P @ r`` applies the (pseudo-)inverse; ``P.G``, ``P.D``, ``P.perm``: ``G diag(D) G^T`` has the
        expected value ``L[perm][:, perm]``. It depends on L, ordering, samples and seed alone.

    Raises
    ------
    InvalidInputError
        L is not square, is empty, holds NaN or infinity; a bad option; a random order of a graph with hubs; bad rows in ``fixed``, or
        ``pin`` with it.
    NotSymmetricError (``.row``, ``.column``), OutOfMemoryError, DeviceUnavailableError
    NotLaplacianError
        ``.row`` has a negative sum, and it is no Laplacian that lost rows; or many entries off the diagonal are positive, the first in
        ``.row``.

    Notes
    -----
    O(nnz log n) in expectation, at most O(nnz log(n)^2) as counted on graphs with hubs, in every order; about 0.1 us per entry of G on
    meshes and grids. On the host the report's fact ``visits`` counts the entries that were read. ``"amd"`` and ``"nd"`` end minimum
    degree after nnz log2(nnz) entries; the vertices that are left follow by degree. Sources: Liang et al. 2025, "ParAC"; Gao, Kyng,
    Spielman 2023, "Robust and practical solution of Laplacian equations by approximate elimination".

    Examples
    --------
    >>> import meshsolve as ms
    >>> L = ms.datasets.grid2d(30, 30)
    >>> P = ms.parac(L)
    >>> S = P.G @ (P.D[:, None] * P.G.T.toarray())
    >>> bool(abs(S.sum(axis=0)).max() < 1e-12)
    True
    """
    if not checked(fixed, pin) and fixed is None:
        return _parac.parac(L, ordering, samples, rhs, seed, dtype, threads, device)
    M = as_symmetric(L, "L", threads=thread_count(threads), per_row=PER_ROW["parac"])
    constraint = constraint_of(M, fixed, pin)
    ordering, block = _restricted(ordering, constraint), constraint.reduce(M, thread_count(threads))
    with in_callers_numbers(constraint.free):
        return ConstrainedPreconditioner(_parac.parac(block, ordering, samples, rhs, seed, dtype, threads, device), constraint)
