"""The verbs: analyze, cholesky, solve. Each chooses, calls and returns; the work is done in the rooms below."""

from __future__ import annotations

import numpy as np

from meshsolve import _core, order
from meshsolve.arrays import Csr, as_array, as_csr, as_number, as_seed, as_symmetric, on_cpu, one_of, thread_count
from meshsolve.constraints import Fixed, Pinned
from meshsolve.errors import DeviceUnavailableError, InvalidInputError, NotPositiveDefiniteError, NotSymmetricError
from meshsolve.factor import symbolic as _symbolic
from meshsolve.factor.cholesky import CholeskyFactor, values_in
from meshsolve.factor.fronts import assembly_tree
from meshsolve.krylov import Info
from meshsolve.mesh import pattern_of
from meshsolve.report import Report


class Symbolic(_symbolic.Symbolic):
    """The analysis of a symmetric pattern: ordering, elimination tree, column counts, supernodes, and ``factor``."""

    def factor(self, A, precision="double", threads=None):
        """Numeric Cholesky factorization of A, whose pattern lies inside the analysed one.

        Parameters
        ----------
        A : (n, n) symmetric positive definite matrix of any kind
            Entries of the analysed pattern that it lacks are zeros.
        precision, threads
            As in :func:`cholesky`.

        Returns
        -------
        CholeskyFactor
            A new one at each call; ``F.refactor(A2)`` factors in the memory of F.

        Raises
        ------
        PatternMismatchError
            A has an entry outside the analysed pattern: ``.row``, ``.column``.
        NotSymmetricError, NotPositiveDefiniteError, InvalidInputError, OutOfMemoryError
            As in :func:`cholesky`.

        Notes
        -----
        O(flops) time, O(nnz) memory for what :attr:`flops` and :attr:`nnz` say. Source: see :mod:`meshsolve.factor.cholesky`.
        """
        M = as_symmetric(A)
        if M.n != self.n:
            raise InvalidInputError(f"A has {M.n} rows, the analysis {self.n}")
        return CholeskyFactor(self, self.matrix_pattern, values_in(self.matrix_pattern, M), precision=precision, threads=threads)


def analyze(A, ordering="nd", *, mesh=None, seed=0, threads=None, lower=False):
    """Order a symmetric matrix and say what its Cholesky factor will be.

    Parameters
    ----------
    A : (n, n) symmetric matrix of any kind; only its pattern is used
    ordering : {"nd", "amd", "nnz_sort", "rcm", "random", "natural"}, Ordering, or (n,) integers
        An array is taken as ``perm``: ``A[perm][:, perm]`` is what will be factored. The ordering is followed by a
        postorder of the elimination tree, which changes neither fill nor operations.
    mesh : Mesh, optional
        Its edges join the pattern, so that later matrices of the same mesh fit whatever entries vanish in this one.
    seed : int >= 0
        Of the orderings that use one: ``"nd"``, ``"nnz_sort"``, ``"random"``.
    threads : int, optional
        Default: every core, or ``MESHSOLVE_NUM_THREADS``. Results do not depend on it.
    lower : bool
        Only the lower triangle of A is read.

    Returns
    -------
    Symbolic
        ``.perm``, ``.parent``, ``.colcount``, ``.nnz``, ``.flops``, ``.pattern()``, ``.supernodes``, ``.factor(A)``.

    Raises
    ------
    InvalidInputError
        A is not square, is empty, or an index is out of range; ``ordering`` is unknown or no permutation; ``mesh`` has
        another number of vertices; a bad ``seed`` or ``threads``.

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
    M = as_symmetric(A, lower=True) if lower else as_csr(A, dtype=None)
    return _analyze(_with_mesh(_both_triangles(M), mesh), ordering, seed, threads)


def cholesky(A, ordering="nd", *, mesh=None, fixed=None, pin=False, precision="double", device="auto", backend="native",
             seed=0, threads=None, lower=False):
    """Cholesky factorization of a symmetric positive definite matrix: order, analyze, factor.

    Parameters
    ----------
    A : (n, n) symmetric positive definite matrix
        scipy sparse of any format, dense, or CuPy sparse; duplicates are summed.
    ordering, mesh
        As in :func:`analyze`.
    fixed : (k,) integers or (n,) bool, optional
        Rows with prescribed values (Dirichlet); give the values to ``F.solve(b, fixed_values=...)``.
    pin : bool
        For singular Laplacians: one row per connected component is left out, solutions have mean 0 on each component.
    precision : {"double", "single", "mixed"}
        ``"mixed"`` factors in float32 and refines each solution to float64 accuracy.
    device : {"auto", "cpu", "cuda"}
    backend : {"native", "cudss"}
        This version factors on the CPU (what ``"auto"`` takes), with its own code.
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
    DeviceUnavailableError
        The indices are in the caller's numbering; whether the factor fits into memory is estimated before it is tried.

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
    on_cpu(device, "factorizations run", ("auto", "cpu", "cuda"))
    if one_of(backend, "backend", ("native", "cudss")) == "cudss":
        raise DeviceUnavailableError('factorizations run on the CPU only in this version: use backend="native"')
    if pin and fixed is not None:
        raise InvalidInputError("pin=True and fixed= exclude each other: fixed rows already make a Laplacian regular")
    M = _with_mesh(as_symmetric(A, lower=lower), mesh)
    n, constraint = M.n, Pinned(M) if pin else Fixed(M, fixed) if fixed is not None else None
    if constraint is not None:
        M = constraint.reduce(M)
        ordering = ordering if isinstance(ordering, str) else constraint.restrict(ordering)
    sym = _analyze(M, ordering, seed, threads)
    return CholeskyFactor(sym, sym.matrix_pattern, M.data, constraint=constraint, n=n, precision=precision, threads=threads)


def solve(A, b, method="auto", rtol=1e-10, threads=None):
    """Solve A x = b once, with the method that fits A.

    Parameters
    ----------
    A : (n, n) matrix of any kind
    b : (n,) or (n, k)
        One or several right-hand sides.
    method : {"auto", "cholesky"}
        ``"auto"`` takes Cholesky for a symmetric positive definite matrix.
    rtol : float
        Relative residual at which ``info.converged`` is true.
    threads : int, optional

    Returns
    -------
    x : array of b's shape
    info : Info
        ``info.method`` says what was used, ``info.relative_residual`` how good the answer is.

    Raises
    ------
    InvalidInputError
        A is not square, or b does not fit; an unknown ``method``, a bad ``rtol``.
    NotSymmetricError, NotPositiveDefiniteError
        This version has no method for such a matrix.

    Notes
    -----
    Cost as for :func:`cholesky`, and a product with A for the residual.
    """
    one_of(method, "method", ("auto", "cholesky"))
    rtol = as_number(rtol, "rtol")
    try:
        F = cholesky(A, threads=threads)
    except (NotSymmetricError, NotPositiveDefiniteError) as e:
        if method == "auto":
            e.args = (f"{e}. Only symmetric positive definite systems can be solved by this version",)
        raise
    x = F.solve(b)
    residual = _relative_residual(as_csr(A), x, as_array(b, "b"))
    return x, Info("cholesky", residual <= rtol, 0, residual, [residual], "direct", F.report)


def _relative_residual(M, x, b):
    """||b - A x|| / ||b|| in the 2-norm, worst column."""
    b = b.astype(np.result_type(b.dtype, np.float64))          # half precision would overflow
    x, b = (v[:, None] if v.ndim == 1 else v for v in (x, b))
    norms = np.linalg.norm(b, axis=0)
    return float((np.linalg.norm(b - M.to_scipy() @ x, axis=0) / np.where(norms > 0, norms, 1)).max(initial=0.0))


def _analyze(M, ordering, seed, threads):
    graph = Csr(M.n, *_core.drop_diagonal(M.indptr, M.indices))      # both triangles are there
    chosen = order.resolve(ordering, graph, seed=as_seed(seed), threads=threads)
    own = Csr(M.n, M.indptr, M.indices.copy())             # the caller's index array may change later
    sym = Symbolic.build(own, chosen.perm, ordering=chosen, threads=thread_count(threads))
    with sym.report.phase("symbolic"):
        assembly_tree(sym, thread_count(threads))          # made now, so that `factor` is the numeric phase alone
    whole = Report()                                       # phases in the order in which they ran
    whole.merge(chosen.report)
    whole.merge(sym.report)
    sym.report = whole
    return sym


def _both_triangles(M):
    """The pattern of A + A^T with the diagonal of A."""
    if _core.symmetry(M.indptr, M.indices, np.ones(M.nnz))[0] == "symmetric":
        return M
    half = Csr(M.n, M.indptr, M.indices).to_scipy()
    return as_csr(half + half.T, dtype=None)


def _with_mesh(M, mesh):
    """M with a stored entry, zero where it has none, for every edge of the mesh."""
    if mesh is None:
        return M
    edges = pattern_of(mesh, "mesh")
    if edges.n != M.n:
        raise InvalidInputError(f"A has {M.n} rows, the mesh {edges.n} vertices")
    indptr, indices = _core.unite(M.indptr, M.indices, edges.indptr, edges.indices)
    if len(indices) == M.nnz:
        return M
    pattern = Csr(M.n, indptr, indices)
    return Csr(M.n, indptr, indices, None if M.data is None else values_in(pattern, M))
