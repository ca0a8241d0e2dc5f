"""What all factors share: right-hand sides of any kind in, solutions in the same form out, the inverse as a linear operator."""

from __future__ import annotations

import copy
import types
from typing import Any

import numpy as np
import scipy.sparse.linalg as spla

from meshsolve import _core, device, foreign
from meshsolve.device.reductions import powers_of_two
from meshsolve.errors import ConvergenceWarning
from meshsolve.factor.sharing import Sharing, reads
from meshsolve.report import warn
from meshsolve.seal import Sealed
from meshsolve.sparse.columns import as_array, as_rhs, max_abs
from meshsolve.sparse.places import HOST, PLACES, is_foreign, where
from meshsolve.sparse.sparse_rhs import solve_sparse
from meshsolve.types import Array, ArrayLike

DOUBLE = np.dtype(np.float64)
SINGLE = np.dtype(np.float32), np.dtype(np.complex64)
NORM_STEPS = 5                          # most solves, and most solves with the adjoint, of an estimate of a norm
MOST_POWER = 1000                       # largest |p| for which multiplication by 2^p stays in the range of float64
SHOWN = ("ordering", "engine", "mode", "samples", "device")         # facts of a report that repr shows


class Factored(Sealed):
    """An object with the factor of a matrix: it can be copied and pickled, and takes right-hand sides of any kind.

    A subclass has ``report``, ``nnz``, ``shape`` and ``dtype``. Its methods call :meth:`_solve_like` with a function of the columns
    of an (n, k) float64 array in the place of the factor. A method that reads the numbers of the factor is decorated with
    :func:`reads`, one that writes them with :func:`changes`. Inside, such methods do not call each other.
    """

    shape: tuple[int, int]                                  # scipy's operators have no types
    dtype: np.dtype[Any]

    def __init__(self, n, dtype):
        self.shape, self.dtype, self._sharing = (n, n), np.dtype(dtype), Sharing()

    def __getstate__(self):
        """Leave out the calls in progress, and a module in scipy's operators (since 1.18) that cannot be pickled or copied."""
        return {name: value for name, value in self.__dict__.items() if name != "_sharing" and not isinstance(value, types.ModuleType)}

    def __setstate__(self, state):
        self._sharing = Sharing()
        self.__dict__.update(state)

    def __copy__(self):
        """Return a separate factor that shares only the analysis, so that ``refactor`` of one does not change the other."""
        symbolic = getattr(self, "symbolic", None)
        return copy.deepcopy(self, {id(symbolic): symbolic})

    def __repr__(self):
        facts = {name: self.report.facts.get(name) for name in SHOWN}
        shown = "".join(f", {name}={value!r}" for name, value in facts.items() if value is not None)
        stored = getattr(self, "storage", self.dtype)       # a preconditioner stored in float32 takes float64 vectors
        return f"{type(self).__name__}(n={self.shape[0]}, nnz={self.nnz}, dtype={stored}{shown})"

    _place = "cpu"                                          # name of the place of the factor: "cpu" or "cuda"
    _checks_late = False                                    # True if a solve on the GPU may start before b is known to be finite

    def _solve_like(self, b, out, solve_columns, rows, solve_imaginary=None, rows_of_result=None):
        """Apply ``solve_columns`` to b, which has ``rows`` rows. The result has ``rows_of_result`` rows, by default as many.

        The result has the shape and the place of b, and its dtype if that is floating. A float32 b may have an ``out`` of float64, a
        complex64 b an ``out`` of complex128. A sparse b has a sparse result. ``solve_imaginary``: for imaginary parts, by default
        ``solve_columns``.
        """
        if foreign.is_sparse(b):
            return solve_sparse(b, rows, lambda B: self._solve_like(B, None, solve_columns, rows, solve_imaginary), out,
                                rows_of_result=rows_of_result)
        home = where(b)
        given = home.array(b, "b")
        if given.dtype.kind == "c":
            real = self._solve_real(given.real.copy(), solve_columns, rows, home)
            imaginary = self._solve_real(given.imag.copy(), solve_imaginary or solve_columns, rows, home)
            x = home.joined(real, imaginary)
        else:
            x = self._solve_real(given, solve_columns, rows, home)
        return deliver(as_narrow(x, given.dtype, out, home), x.shape, out, home)

    def _solve_real(self, given, solve_columns, rows, home):
        place = PLACES[self._place]
        columns, shape, check = home.begin_rhs(given, rows, self._checks_late and home is place)
        with place.turn(self._sharing):
            x = solve_columns(place.bring(columns))
        if place is HOST:
            warn_out_of_range(x)
        x = home.bring(x)
        check()
        return x if len(shape) == 2 else x[:, 0]

    def _turn(self):
        """Return the context in which a solve queues its launches: on the GPU, solves share memory, so they take turns."""
        return PLACES[self._place].turn(self._sharing)

    def _bring(self, columns):
        """Return columns in the place of the factor."""
        return PLACES[self._place].bring(columns)

    def _errors(self, what):
        """Return the context that translates errors of work in the place of the factor."""
        return PLACES[self._place].errors(what)


class Factor(Factored, spla.LinearOperator):
    """A factored matrix as the operator that applies its inverse.

    A subclass has ``solve``, and ``_adjoint`` or ``_rmatvec``.
    """

    def __init__(self, n, dtype):
        spla.LinearOperator.__init__(self, dtype=np.dtype(dtype), shape=(n, n))
        super().__init__(n, dtype)

    def __setstate__(self, state):
        spla.LinearOperator.__init__(self, dtype=state["dtype"], shape=state["shape"])
        super().__setstate__(state)

    # scipy's own methods would convert x to numpy, which CuPy refuses. CuPy's iterations call the following ones with arrays on the GPU.

    def __matmul__(self, x):
        return self._operate(x) if is_foreign(x) else super().__matmul__(x)

    def matvec(self, x):
        """Apply the operator to a vector, as scipy's method; for x on the GPU the result is on the GPU.

        So every factor is an ``M=`` of ``cupyx.scipy.sparse.linalg``. A sparse x has a sparse result.
        """
        return self._operate(x) if is_foreign(x) else super().matvec(x)

    def matmat(self, X):
        """As :meth:`matvec`, for (n, k)."""
        return self._operate(X) if is_foreign(X) else super().matmat(X)

    def __call__(self, b: ArrayLike) -> Array:
        """Solve for ``b``, as the callables that :func:`scipy.sparse.linalg.factorized` returns."""
        return self.solve(b)

    # ---- helpers --------------------------------------------------------------------------------------------------------

    def _solve_vector(self, solve, b):
        """Return the solution for a contiguous float64 vector on the host, or None for any other b.

        This adds one microsecond to the work of the core, the general way four. ``solve(b, x, threads)`` writes x if b is finite,
        and returns True if it is.
        """
        if type(b) is not np.ndarray or b.dtype is not DOUBLE or b.shape != self.shape[:1] or not b.flags.c_contiguous:
            return None
        x = np.empty(len(b))
        with self.report.phase("solve"):
            if not solve(b, x, self.threads):
                return None
        warn_out_of_range(x)
        return x

    def _operate(self, b):
        """Return the product of the operator with b."""
        return self.solve(b)

    def _matvec(self, x):
        return self._operate(np.asarray(x).reshape(-1))

    def _matmat(self, X):
        return self._operate(X)


class Preconditioner(Factor):
    """A symmetric factor that iterations apply, on the host or on the GPU.

    A subclass has ``on_device``, ``apply_columns(columns, out=None)`` on the host and ``apply_on_device(block)`` on the GPU. The
    latter does not wait for the GPU.
    """

    @reads
    def solve(self, b: ArrayLike, out: Array | None = None) -> Array:
        """Apply the inverse of the factor once.

        Parameters
        ----------
        b : (n,) or (n, k), real or complex
        out : array like the result, optional

        Returns
        -------
        x : array of b's shape
            The solution of A x = b if the factor is complete, otherwise an approximation: :func:`meshsolve.cg` and
            :func:`meshsolve.sqmr` improve it. It lies where b lies.

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity, text.
        FactorInUseError
            Another call is refactoring this factor.
        """
        return self._solve_like(b, out, self._checked_on_device if self.on_device else self._checked_columns, self.shape[0])

    def check_device(self):
        """Raise if a solve on the GPU has stalled. Waits for the GPU. Factors that cannot stall do nothing."""

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

    def _adjoint(self):
        return self

    def _transpose(self):
        return self


def warn_out_of_range(x):
    """Warn if a solution on the host is not finite. Right-hand sides are: an entry of x, or of a step to it, is too large."""
    if _core.first_not_finite(x.reshape(-1, order="A").view(np.float64)) >= 0:
        row = int(np.argwhere(~np.isfinite(x))[0][0])
        warn(f"the solution leaves the range of float64, first in row {row}: scale b", ConvergenceWarning)


def solve_near_one(solve, columns, scale=None):
    """Return ``solve(columns)`` by a factor in float32, whose range is short.

    Each column is scaled near 1 by a power of two, which rounds nothing, and its solution is scaled back.

    Parameters
    ----------
    solve : callable of an (n, k) array
    columns : (n, k) float64
    scale : (n, 1) array, optional
        The scaling with which the solve begins.
    """
    if columns.shape[1] == 0:
        return solve(columns)
    with np.errstate(over="ignore", invalid="ignore"):
        down, up = _powers(max_abs(columns if scale is None else scale * columns))      # products are faster than ldexp of all numbers
        return solve(columns * down) * up


def irregular(n):
    """Return (n,) numbers of either sign with absolute values between 1/2 and 1, without a pattern: Weyl's sequence."""
    spread = np.arange(n) * 0.6180339887498949 % 1 - 0.5
    return spread + np.copysign(0.5, spread)


def norm_of_inverse(solve, adjoint, n, dtype=DOUBLE):
    """Return a lower estimate of ||A^-1||_1, infinite if a solution is not finite; the same at each call.

    Parameters
    ----------
    solve, adjoint : callables of an (n, k) array of ``dtype``
        A^-1 and A^-H applied to it, on the host.

    Notes
    -----
    Source: Higham and Tisseur 2000, algorithm 2.4, started from fixed columns. These are the ones, best for a positive A^-1;
    numbers of irregular sizes, for which dominant columns of A^-1 do not cancel; and the alternating ones of Higham 1988.
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
    """Return an estimate of 1 / (||A||_1 ||A^-1||_1), between 0 and 1.

    ``norm``: ||A||_1; the other parameters as for :func:`norm_of_inverse`.
    """
    condition = float(norm) * norm_of_inverse(solve, adjoint, n, dtype)
    return min(1.0, 1.0 / condition) if condition > 0 else 0.0


def as_narrow(x, dtype, out, home=HOST):
    """Return x in single precision if a right-hand side of ``dtype`` is, unless ``out`` is wider."""
    narrow = dtype in SINGLE and (out is None or home.dtype_of(out) == dtype)
    return x.astype(dtype.type) if narrow else x


def deliver(x, shape, out, home=HOST):
    """Return x, which lies at ``home``, in the caller's shape; written to ``out`` if that is given."""
    x = x.reshape(shape) if len(shape) == 2 else x[:, 0] if x.ndim == 2 else x
    if out is None:
        return x
    home.write(x, out)
    return out


def solve_complex(b, n, solve_columns, out=None):
    """Return the solution of a complex system for b of n rows on the host, in b's shape.

    ``solve_columns`` gets the columns of b in complex128. The solution is complex64 for a complex64 b, else complex128. A sparse b has
    a sparse result.
    """
    if foreign.is_sparse(b):
        return solve_sparse(b, n, lambda B: solve_complex(B, n, solve_columns), out)
    given = as_array(b, "b")
    columns, shape = as_rhs(given, n, dtype=np.complex128)
    x = solve_columns(columns)
    x = x if len(shape) == 2 else x[:, 0]
    return deliver(as_narrow(x, given.dtype, out) if given.dtype.kind == "c" else x, x.shape, out)


def _powers(size):
    """Return (2^-p, 2^p) with sizes 2^-p size from 1/2 to 1, each (k,) in the place of the sizes."""
    if not isinstance(size, np.ndarray):
        return powers_of_two(size, MOST_POWER)
    power = np.clip(np.frexp(size)[1], -MOST_POWER, MOST_POWER)
    one = np.ones(len(power))
    return np.ldexp(one, -power), np.ldexp(one, power)
