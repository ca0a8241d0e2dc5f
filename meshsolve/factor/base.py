"""What every factor shares: right-hand sides of any kind in, solutions in the same form out; the inverse as an operator."""

from __future__ import annotations

import copy
import types
from typing import Any

import numpy as np
import scipy.sparse.linalg as spla

from meshsolve import _core, device, foreign
from meshsolve.errors import PatternMismatchError
from meshsolve.factor.sharing import Sharing, reads
from meshsolve.sparse.columns import as_array, as_complex, as_rhs, max_abs
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import HOST, PLACES, is_foreign, where
from meshsolve.sparse.sparse_rhs import solve_sparse
from meshsolve.types import Array, ArrayLike

DOUBLE = np.dtype(np.float64)
SINGLE = np.dtype(np.float32), np.dtype(np.complex64)
NORM_STEPS = 5                          # solves, and as many with the adjoint, at most
TOLD = ("ordering", "engine", "mode", "samples", "device")          # facts of a report that a factor is told by


class Factored:
    """What holds the factor of a matrix: it is copied and pickled, and takes right-hand sides of any kind.

    A subclass has ``report``, ``nnz``, ``shape`` and ``dtype``, and methods that call :meth:`_solve_like` with what they do to the
    columns of an (n, k) float64 array where the factor lies. What looks at its numbers is marked :func:`reads`, what writes them
    :func:`changes`; inside, neither calls the other.
    """

    shape: tuple[int, int]                                  # scipy's operators have no types
    dtype: np.dtype[Any]

    def __init__(self, n, dtype):
        self.shape, self.dtype, self._sharing = (n, n), np.dtype(dtype), Sharing()

    def __getstate__(self):
        """Without who uses it now, and the module that scipy's operators hold since 1.18: it cannot be pickled or copied."""
        return {name: value for name, value in self.__dict__.items() if name != "_sharing" and not isinstance(value, types.ModuleType)}

    def __setstate__(self, state):
        self._sharing = Sharing()
        self.__dict__.update(state)

    def __copy__(self):
        """A factor of its own, which shares the analysis alone: ``refactor`` changes nothing else than the one that it is called of."""
        symbolic = getattr(self, "symbolic", None)
        return copy.deepcopy(self, {id(symbolic): symbolic})

    def __repr__(self):
        facts = {name: self.report.facts.get(name) for name in TOLD}
        told = "".join(f", {name}={value!r}" for name, value in facts.items() if value is not None)
        stored = getattr(self, "storage", self.dtype)       # a preconditioner stored in float32 works on float64 vectors
        return f"{type(self).__name__}(n={self.shape[0]}, nnz={self.nnz}, dtype={stored}{told})"

    _place = "cpu"                                          # where the factor lies: "cpu" or "cuda"
    _checks_late = False                                    # whether a solve on the GPU bears what is not finite

    def _solve_like(self, b, out, solve_columns, rows, solve_imaginary=None):
        """Apply ``solve_columns`` to b of ``rows`` rows; the result has b's shape and lies where b does, and has its dtype
        where that is floating. A float32 b may have an ``out`` of float64, one of complex64 an ``out`` of complex128. A sparse b has a
        sparse result."""
        if foreign.is_sparse(b):
            return solve_sparse(b, rows, lambda B: self._solve_like(B, None, solve_columns, rows, solve_imaginary), out)
        there = where(b)
        given = there.array(b, "b")
        if given.dtype.kind == "c":
            real = self._solve_real(given.real.copy(), solve_columns, rows, there)
            imaginary = self._solve_real(given.imag.copy(), solve_imaginary or solve_columns, rows, there)
            x = there.joined(real, imaginary)
        else:
            x = self._solve_real(given, solve_columns, rows, there)
        return deliver(as_narrow(x, given.dtype, out, there), x.shape, out, there)

    def _solve_real(self, given, solve_columns, rows, there):
        home = PLACES[self._place]
        columns, shape, check = there.begin_rhs(given, rows, self._checks_late and there is home)
        with home.turn(self._sharing):
            x = solve_columns(home.bring(columns))
        x = there.bring(x)
        check()
        return x if len(shape) == 2 else x[:, 0]

    def _turn(self):
        """Solves on the GPU take turns with their launches: there they share memory."""
        return PLACES[self._place].turn(self._sharing)

    def _bring(self, columns):
        """Columns to where the factor lies."""
        return PLACES[self._place].bring(columns)

    def _errors(self, what):
        """What catches errors of work where the factor lies."""
        return PLACES[self._place].errors(what)


class Factor(Factored, spla.LinearOperator):
    """A factored matrix as the operator that applies its inverse.

    A subclass has ``solve``, and ``_adjoint`` or what stands for it.
    """

    def __init__(self, n, dtype):
        spla.LinearOperator.__init__(self, dtype=np.dtype(dtype), shape=(n, n))
        super().__init__(n, dtype)

    def __setstate__(self, state):
        spla.LinearOperator.__init__(self, dtype=state["dtype"], shape=state["shape"])
        super().__setstate__(state)

    def _solve_vector(self, solve, b):
        """The solution for a vector as the core takes it, or None for any other b: a microsecond beside the core's work, not four.
        ``solve(b, x, threads)`` writes x where b is finite, and says whether it did."""
        if type(b) is not np.ndarray or b.dtype is not DOUBLE or b.shape != self.shape[:1] or not b.flags.c_contiguous:
            return None
        x = np.empty(len(b))
        with self.report.phase("solve"):
            return x if solve(b, x, self.threads) else None

    def _operate(self, b):
        """What the factor does as an operator."""
        return self.solve(b)

    def _matvec(self, x):
        return self._operate(np.asarray(x).reshape(-1))

    def _matmat(self, X):
        return self._operate(X)

    # scipy's own would bring x to the host, which CuPy refuses; CuPy's iterations call these with what lies on the GPU

    def __matmul__(self, x):
        return self._operate(x) if is_foreign(x) else super().__matmul__(x)

    def matvec(self, x):
        """As scipy's, and for x on the GPU the same there: any factor is an ``M=`` of ``cupyx.scipy.sparse.linalg``. A sparse x has a
        sparse result."""
        return self._operate(x) if is_foreign(x) else super().matvec(x)

    def matmat(self, X):
        """As :meth:`matvec`, for (n, k)."""
        return self._operate(X) if is_foreign(X) else super().matmat(X)

    def __call__(self, b: ArrayLike) -> Array:
        """Solve for ``b``, as :func:`scipy.sparse.linalg.factorized` callables do."""
        return self.solve(b)


class Preconditioner(Factor):
    """A symmetric factor that iterations apply, on the host or on the GPU.

    A subclass has ``on_device``, ``apply_columns(columns, out=None)`` on the host and ``apply_on_device(block)`` on the GPU, which
    waits for nothing.
    """

    @reads
    def solve(self, b: ArrayLike, out: Array | None = None) -> Array:
        """Apply the inverse of the factor once: the solution of A x = b where the factor is complete, else an approximation, which
        :func:`meshsolve.cg` or :func:`meshsolve.sqmr` improves.

        Parameters
        ----------
        b : (n,) or (n, k), real or complex
        out : array like the result, optional

        Returns
        -------
        x : array of b's shape
            Where b lies, on the host or on the GPU.

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity, text.
        FactorInUseError
            Another call is refactoring this factor.
        """
        return self._solve_like(b, out, self._checked_on_device if self.on_device else self._checked_columns, self.shape[0])

    def _checked_columns(self, columns):
        return self.apply_columns(columns)

    @property
    def _place(self):
        return "cuda" if self.on_device else "cpu"

    def _checked_on_device(self, columns):
        with device.errors("the preconditioner"), self.report.phase("solve"):
            x = self.apply_on_device(device.xp().ascontiguousarray(columns))
            self.check_device()
        return x

    def check_device(self):
        """Raise where a solve on the GPU has given up, which not all of them can; waits for it."""

    def _adjoint(self):
        return self

    def _transpose(self):
        return self


def solve_near_one(solve, columns, scale=None):
    """``solve(columns)`` by a factor in float32, whose range is short: each column is brought near 1 by a power of two, which
    rounds nothing, and x is taken back. ``scale`` is the (n, 1) scaling that the solve begins with."""
    if columns.shape[1] == 0:
        return solve(columns)
    xp = where(columns).xp
    with np.errstate(over="ignore", invalid="ignore"):
        power = xp.frexp(max_abs(columns if scale is None else scale * columns))[1]
        power = xp.minimum(xp.maximum(power, -1000), 1000)              # powers of two in the range of float64, which a product is
        one = xp.ones(len(power))                                       # many times faster with than ldexp() of all the numbers
        return solve(columns * xp.ldexp(one, -power)) * xp.ldexp(one, power)


def irregular(n):
    """(n,) numbers of either sign between 1/2 and 1, in no pattern: Weyl's sequence."""
    spread = np.arange(n) * 0.6180339887498949 % 1 - 0.5
    return spread + np.copysign(0.5, spread)


def norm_of_inverse(solve, adjoint, n, dtype=DOUBLE):
    """Estimate from below of ||A^-1||_1, infinite where a solution is not finite; the same at each call.

    Parameters
    ----------
    solve, adjoint : callables of an (n, k) array of ``dtype``
        A^-1 and A^-H applied to it, on the host.

    Notes
    -----
    Source: Higham and Tisseur 2000, algorithm 2.4. It begins with fixed columns: the ones, which are best where A^-1 is positive,
    numbers of irregular sizes, which dominant columns of A^-1 do not cancel by, and Higham's 1988 alternating ones.
    """
    if n <= 4:
        return float(np.abs(solve(np.eye(n, dtype=dtype))).sum(axis=0).max())
    i = np.arange(n)
    X = np.stack([np.ones(n), irregular(n), (1 - 2 * (i % 2)) * (1 + i / (n - 1))], axis=1)
    X = np.ascontiguousarray(X / abs(X).sum(axis=0), dtype)
    estimate, used = 0.0, np.zeros(n, bool)
    for _ in range(NORM_STEPS):
        Y = solve(X)
        size = float(np.abs(Y).sum(axis=0).max())
        if not np.isfinite(size):
            return np.inf
        if size <= estimate:
            break
        estimate = size
        gain = np.abs(adjoint(np.where(Y == 0, 1, Y / np.where(Y == 0, 1, np.abs(Y))))).max(axis=1)
        gain[used] = -1
        columns = np.argsort(-gain, kind="stable")[:3]
        used[columns] = True
        X = np.zeros((n, 3), dtype)
        X[columns, np.arange(3)] = 1
    return estimate


def reciprocal_condition(norm, solve, adjoint, n, dtype=DOUBLE):
    """Estimate of 1 / (||A||_1 ||A^-1||_1), between 0 and 1, from ||A||_1 and what :func:`norm_of_inverse` takes."""
    condition = float(norm) * norm_of_inverse(solve, adjoint, n, dtype)
    return min(1.0, 1.0 / condition) if condition > 0 else 0.0


def as_narrow(x, dtype, out, there=HOST):
    """x in single precision where a right-hand side of ``dtype`` is, unless ``out`` is wider."""
    narrow = dtype in SINGLE and (out is None or there.dtype_of(out) == dtype)
    return x.astype(dtype.type) if narrow else x


def deliver(x, shape, out, there=HOST):
    """x, which lies ``there``, in the caller's shape, written to ``out`` where that is given."""
    x = x.reshape(shape) if len(shape) == 2 else x[:, 0] if x.ndim == 2 else x
    if out is None:
        return x
    there.write(x, out)
    return out


def solve_complex(b, n, solve_columns, out=None):
    """The solution of a complex system for b of n rows: ``solve_columns`` of its columns in complex128, in b's shape.

    complex64 for a complex64 b, else complex128. A sparse b has a sparse result. b lies on the host.
    """
    if foreign.is_sparse(b):
        return solve_sparse(b, n, lambda B: solve_complex(B, n, solve_columns), out)
    given = as_array(b, "b")
    columns, shape = as_rhs(given, n, dtype=np.complex128)
    x = solve_columns(columns)
    x = x if len(shape) == 2 else x[:, 0]
    return deliver(as_narrow(x, given.dtype, out) if given.dtype.kind == "c" else x, x.shape, out)


def values_in(pattern, M, names=None):
    """The values of M in ``pattern`` as (nnz,) float64 or complex128, zeros where M has none.

    Parameters
    ----------
    pattern : Csr, or what stands for one
    M : Csr
    names : (n,) integers, optional
        Translate rows and columns to the caller's numbering.

    Raises
    ------
    PatternMismatchError
        M has an entry outside.
    """
    if pattern.same_as(M):
        return M.data
    if M.data.dtype.kind == "c":
        parts = [Csr(M.n, M.indptr, M.indices, np.ascontiguousarray(part)) for part in (M.data.real, M.data.imag)]
        return as_complex(*(values_in(pattern, part, names) for part in parts))
    missing, data = _core.embed(pattern.indptr, pattern.indices, M.indptr, M.indices, M.data)
    if missing < 0:
        return data
    row, column = int(np.searchsorted(M.indptr, missing, side="right")) - 1, int(M.indices[missing])
    if names is not None:
        row, column = int(names[row]), int(names[column])
    raise PatternMismatchError.at(row, column)
