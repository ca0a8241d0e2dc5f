"""scipy's direct solvers: ``spsolve`` with the result of scipy's, and a block in which scipy's own functions use meshsolve.

``scipy.sparse.linalg`` computes ``spsolve``, ``splu`` and ``factorized`` by two functions of its module ``_superlu``: ``gssv`` solves
once, ``gstrf`` factors. Inside :func:`scipy_solver` these two are routed to :func:`meshsolve.factorized`. All other steps, from the
checks of the arguments to the form of the result, remain scipy's. So code that imported the functions by name is routed too, and so is
code in scipy that calls them, such as ``eigsh`` with a shift.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp

from meshsolve.api.factorized import factorized
from meshsolve.api.factors import lu
from meshsolve.api.solving import solve
from meshsolve.device import DEVICES
from meshsolve.errors import MeshsolveError, SingularMatrixError
from meshsolve.factor.lu import LUFactor
from meshsolve.options import one_of, thread_count
from meshsolve.sparse.columns import as_array
from meshsolve.types import Array, ArrayLike, Chosen, Device, Matrix, Trans

TRANS = ("N", "T", "H")
_options: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("meshsolve_scipy_solver", default=None)


def spsolve(A: Matrix, b: ArrayLike, method: Chosen = "auto", rtol: float = 1e-10, threads: int | None = None,
            device: Device = "auto") -> Array:
    """Solve A x = b once and return x alone: :func:`solve` without its ``info``, in the place of ``scipy.sparse.linalg.spsolve``.

    Parameters
    ----------
    A, b, method, rtol, threads, device
        As in :func:`solve`.

    Returns
    -------
    array of b's shape
        As x of :func:`solve`. An (n, 1) array keeps its shape and a sparse b has a sparse x, also with one column, unlike in scipy.

    Raises
    ------
    SingularMatrixError
        A is singular and LU was chosen; scipy returns NaN.
    MeshsolveError
        The other errors of :func:`solve`.

    Warns
    -----
    ConvergenceWarning
        The relative residual stays above ``rtol``: ``info.converged`` of :func:`solve` is False.

    Notes
    -----
    Cost and choice of the method: as :func:`solve`.

    Examples
    --------
    >>> import meshsolve as ms
    >>> ms.spsolve([[2.0, 0.0], [1.0, 4.0]], [2.0, 5.0]).tolist()
    [1.0, 1.0]
    """
    return solve(A, b, method, rtol, threads, device)[0]


@contextlib.contextmanager
def scipy_solver(*, device: Device = "auto", threads: int | None = None) -> Iterator[None]:
    """Route ``spsolve``, ``splu`` and ``factorized`` of ``scipy.sparse.linalg`` to :func:`factorized` inside the ``with`` block.

    Only calls of the thread that entered the block are routed, or of the asyncio task. Other threads, also those started inside, keep
    SuperLU. Blocks may be nested. scipy is restored when the last block of all threads ends, also after an exception.

    Parameters
    ----------
    device, threads
        As in :func:`factorized`.

    Raises
    ------
    InvalidInputError
        An unknown ``device``, or a bad number of ``threads``.
    MeshsolveError
        This version of scipy has other internal functions.

    Notes
    -----
    What ``splu`` returns has ``solve(rhs, trans)``, ``shape``, ``nnz``, ``L``, ``U``, ``perm_r`` and ``perm_c``, with scipy's meaning;
    it is no ``SuperLU``. Options of SuperLU have no effect, except that ``permc_spec="NATURAL"`` keeps a call with SuperLU. ``spilu``
    and ``spsolve_triangular`` remain scipy's. So does a ``spsolve`` that uses scikit-umfpack, where that is installed. A singular
    matrix has scipy's answer, by SuperLU: ``RuntimeError`` from ``splu``, NaN and a warning from ``spsolve``, or a factor if rounding
    hides that it is singular. NaN or infinity in A or b raises
    InvalidInputError. Results for float32 matrices are computed in float64.

    Examples
    --------
    >>> import meshsolve as ms
    >>> from scipy.sparse.linalg import spsolve
    >>> with ms.scipy_solver():
    ...     x = spsolve(ms.datasets.grid2d(30, 30, boundary="dirichlet"), [1.0] * 900)
    """
    token = _options.set({"device": one_of(device, "device", DEVICES), "threads": thread_count(threads)})
    try:
        with ROUTE:
            yield
    finally:
        _options.reset(token)


class _Route:
    """Replaces scipy's module of native functions while any block is open. Reentrant, and safe for threads."""

    def __init__(self):
        self._lock, self._open = threading.Lock(), 0

    def __enter__(self):
        with self._lock:
            if self._open == 0:
                self._module = importlib.import_module("scipy.sparse.linalg._dsolve.linsolve")
                self._superlu = getattr(self._module, "_superlu", None)
                if not hasattr(self._superlu, "gssv") or not hasattr(self._superlu, "gstrf"):
                    raise MeshsolveError(f"scipy {scipy.__version__} is not supported by scipy_solver: its module for spsolve and splu has "
                                         "changed. Call meshsolve.spsolve and meshsolve.factorized")
                self._module._superlu = _Superlu(self._superlu)
            self._open += 1

    def __exit__(self, *error):
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._module._superlu = self._superlu


ROUTE = _Route()


class SuperluFactor:
    """What ``scipy.sparse.linalg.splu`` returns inside :func:`scipy_solver`: the attributes of scipy's ``SuperLU`` on our factor.

    Attributes
    ----------
    factor : CholeskyFactor, IldlFactor or LUFactor
        The factor that solves.
    shape : (n, n)
    dtype : numpy dtype of A
    """

    def __init__(self, A, factor, construct, threads):
        self.shape, self.dtype, self.factor = A.shape, A.dtype, factor
        self._matrix, self._construct, self._threads = A, construct, threads

    def solve(self, rhs: ArrayLike, trans: Trans = "N") -> np.ndarray:
        """Solve A x = rhs, A^T x = rhs (``"T"``) or A^H x = rhs (``"H"``); rhs is (n,) or (n, k)."""
        one_of(trans, "trans", TRANS)
        b = as_array(rhs, "rhs")
        x = self.factor.solve(b, trans=trans) if isinstance(self.factor, LUFactor) else self.factor.solve(b)
        return x.astype(np.result_type(self.dtype, np.complex64) if b.dtype.kind == "c" else self.dtype, copy=False)

    @property
    def nnz(self) -> int:
        """Stored entries of L and U."""
        return int(self.L.nnz + self.U.nnz)

    @property
    def perm_r(self) -> np.ndarray:
        """(n,) int32: row k of A is row ``perm_r[k]`` of L U."""
        return np.argsort(self._lu.row_perm).astype(np.int32)

    @property
    def perm_c(self) -> np.ndarray:
        """(n,) int32: column k of A is column ``perm_c[k]`` of L U."""
        return np.argsort(self._lu.col_perm).astype(np.int32)

    @functools.cached_property
    def L(self) -> Any:
        """Unit lower triangular factor, in compressed columns. The scaling of rows that our factor has is taken out."""
        rows = self._lu.row_scale[self._lu.row_perm]
        return self._constructed(sp.diags_array(1 / rows) @ self._lu.L @ sp.diags_array(rows), unit=True)

    @functools.cached_property
    def U(self) -> Any:
        """Upper triangular factor, in compressed columns. The scalings that our factor has are taken out."""
        F = self._lu
        return self._constructed(sp.diags_array(1 / F.row_scale[F.row_perm]) @ F.U @ sp.diags_array(1 / F.col_scale[F.col_perm]))

    @functools.cached_property
    def _lu(self):
        """The LU factor that L, U and the permutations describe; a symmetric A is factored again."""
        return self.factor if isinstance(self.factor, LUFactor) else lu(self._matrix, threads=self._threads)

    def _constructed(self, T, unit=False):
        T = sp.csc_array(T).astype(self.dtype)
        if unit:
            T.setdiag(1)
        T.sort_indices()
        return self._construct((T.data, T.indices, T.indptr), self.shape)


class _Superlu:
    """scipy's module ``_superlu``; calls from inside a block are computed by meshsolve."""

    def __init__(self, original):
        self._original = original

    def __getattr__(self, name):
        return getattr(self._original, name)

    def gssv(self, n, nnz, data, indices, indptr, b, by_columns, **others):
        """Return (x, info); info is positive if A is singular."""
        options = _options.get()
        if options is None:
            return self._original.gssv(n, nnz, data, indices, indptr, b, by_columns, **others)
        kind = sp.csc_array if by_columns else sp.csr_array
        try:
            F = factorized(kind((data, indices, indptr), shape=(n, n)), **options)
        except SingularMatrixError:                         # scipy decides whether it is exactly singular
            return self._original.gssv(n, nnz, data, indices, indptr, b, by_columns, **others)
        return F.solve(b).astype(data.dtype, copy=False), 0

    def gstrf(self, n, nnz, data, indices, indptr, csc_construct_func=sp.csc_array, ilu=False, options=None):
        """Return the factor of a matrix in compressed columns; incomplete ones, and those in the natural order, remain scipy's."""
        ours = _options.get()
        if ours is None or ilu or (options or {}).get("ColPerm") == "NATURAL":
            return self._original.gstrf(n, nnz, data, indices, indptr, csc_construct_func=csc_construct_func, ilu=ilu, options=options)
        A = sp.csc_array((data.copy(), indices.copy(), indptr.copy()), shape=(n, n))
        try:
            return SuperluFactor(A, factorized(A, **ours), csc_construct_func, ours["threads"])
        except SingularMatrixError as e:
            cause = e
        try:                                                # singular to rounding, such as a Laplacian: scipy has a factor
            return self._original.gstrf(n, nnz, data, indices, indptr, csc_construct_func=csc_construct_func, ilu=ilu, options=options)
        except RuntimeError as e:
            raise RuntimeError(f"{e}: {cause}") from cause
