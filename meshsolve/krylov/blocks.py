"""Input and output of the iterations: options, scaled blocks of right-hand sides, preconditioners, solutions in the form of b."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from meshsolve import device, foreign
from meshsolve.errors import InvalidInputError
from meshsolve.krylov.operator import Operator, is_operator
from meshsolve.options import as_integer, as_number
from meshsolve.sparse.columns import as_array, as_rhs, max_abs
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import CUDA, HOST, Host, where
from meshsolve.sparse.structure import checked

MAXITER = 10_000            # default limit of the iterations of a column
DOUBLE = np.dtype(np.float64)
FAR_UNIT = 2.0**100         # entries of A and b in this range have products r . A r in that of float64
TINY = np.finfo(np.float64).tiny        # smallest normal number
FAR = 2.0**200              # largest ratio of the entries of x0 and b: squares of larger residuals could overflow


def checked_options(rtol, atol, maxiter, callback):
    """(rtol, atol, maxiter) as numbers."""
    if callback is not None and not callable(callback):
        raise InvalidInputError(f"callback must be a function of x, got {callback!r}")
    maxiter = MAXITER if maxiter is None else as_integer(maxiter, "maxiter", 0)
    return as_number(rtol, "rtol"), as_number(atol, "atol"), maxiter


def place_of(b, M):
    """The place of the iteration: the GPU if b lies on it or M was made on it."""
    return CUDA if device.holds(b) or getattr(M, "on_device", False) else HOST


def as_matrix(A, place, threads):
    """(matrix, exponent): a symmetric matrix in the memory of a place in a usual unit, see :func:`in_usual_unit`, or an operator as an
    :class:`Operator`. A :class:`Csr` is not checked again.

    Raises
    ------
    InvalidInputError, NotSymmetricError
        As :func:`meshsolve.sparse.matrix.as_symmetric`.
    """
    if isinstance(A, Csr):
        return in_usual_unit(place.matrix(A))
    if not is_operator(A):
        return in_usual_unit(place.symmetric(A, threads).csr().stored)
    if place is CUDA:
        raise InvalidInputError(f"A is an operator, a {type(A).__name__}, with products on the host, but b or M lies on the GPU")
    return Operator(A), 0


def in_usual_unit(matrix):
    """Return (matrix / 2^exponent, exponent) for a :class:`Csr`; the exponent is 0 unless products r . A r could leave the range of
    float64.

    The exponent is the mean of those of the largest and the smallest entry."""
    values = matrix.data if matrix.data.dtype.kind == "f" else matrix.data.view(np.float64)
    largest = float(device.to_host(max_abs(values[:, None]))[0]) if len(values) else 0.0
    if largest == 0 or 1 / FAR_UNIT < largest < FAR_UNIT:
        return matrix, 0
    sizes = abs(values)
    smallest = float(sizes[sizes > 0].min())
    exponent = (math.frexp(largest)[1] + math.frexp(smallest)[1]) // 2
    first, second = 2.0 ** -(exponent // 2), 2.0 ** -(exponent - exponent // 2)      # one factor alone may be infinite
    return Csr(matrix.n, matrix.indptr, matrix.indices, matrix.data * first * second), exponent


def in_same_unit(precondition, M, exponent):
    """The function of a preconditioner M of A for the matrix of :func:`in_usual_unit`."""
    if M is None or exponent == 0:
        return precondition
    before, after = 2.0 ** (exponent // 2), 2.0 ** (exponent - exponent // 2)
    return lambda R: precondition(R * before) * after


class Form(NamedTuple):
    """The form of b, which x takes as well.

    Attributes
    ----------
    shape : tuple
    is_complex : bool
        The first half of a block's columns are real parts, the second half are imaginary parts.
    place : HOST or CUDA
        Where b lies.
    """

    shape: tuple
    is_complex: bool
    place: Host

    @property
    def is_vector(self):
        return len(self.shape) == 1

    def deliver(self, X):
        """Return an (n, k) block of the host or the GPU in this form."""
        X = self.place.bring(X)
        if self.is_complex:
            half = X.shape[1] // 2
            X = self.place.joined(X[:, :half], X[:, half:])
        return X.reshape(self.shape)


class Blocks(NamedTuple):
    """Right-hand sides and starts as new C contiguous (n, k) arrays in the memory in which the iteration runs.

    They are float64, or complex128 for a complex A.

    Attributes
    ----------
    B, X : (n, k)
        Right-hand sides times ``shift``, and starts times 2^``powers``.
    shift : (k,)
        Powers of two, on the host. A factor differs from 1 only if squares of the column of b could leave the range of float64.
    powers : (k,) integers
        2^powers is ``shift`` times 2^exponent: A / 2^exponent is the matrix of the iteration.
    exponent : int
    form : Form
    """

    B: np.ndarray
    X: np.ndarray
    shift: np.ndarray
    powers: np.ndarray
    exponent: int
    form: Form


def blocks_of(b, x0, n, place, exponent=0, dtype=DOUBLE):
    """The :class:`Blocks` of a right-hand side and a start in the memory of ``place``; zeros are the start if x0 is None.

    ``exponent`` is that of :func:`in_usual_unit`.
    Complex columns become two real ones, unless ``dtype`` is complex, which is supported on the host.

    Raises
    ------
    InvalidInputError
        Not (n,) or (n, k), not numbers, NaN or infinity; x0 has another shape, or is complex and b is not.
    """
    B, form = _columns(b, n, "b", dtype)
    X = form.place.xp.zeros(B.shape, dtype) if x0 is None else _start(x0, n, form, dtype)
    B, X = place.bring(B), place.bring(X)
    shift = _scaled_to_one(B, exponent)
    powers = np.frexp(shift)[1] - 1 + exponent
    if x0 is not None:
        X = times_powers(X, powers)
        _drop_far_starts(X, B)
    return Blocks(B, X, shift, powers, exponent, form)


def unshifted(X, powers):
    """X in the scale of the caller's b, a new block; infinite if that is out of range."""
    return times_powers(X, -powers)


def times_powers(X, powers):
    """A new block, the columns of X times these powers of two, (k,) integers; it is rounded once."""
    if not powers.any():
        return X.copy()
    half, place = powers // 2, where(X)                     # one factor alone may be infinite
    with np.errstate(over="ignore", under="ignore"):
        return X * place.bring(np.ldexp(1.0, half)) * place.bring(np.ldexp(1.0, powers - half))


def as_start(x):
    """A solution of any shape as the start of another iteration: zeros where it is not finite."""
    if x is None:
        return None
    xp = where(x).xp
    return xp.where(xp.isfinite(x), x, 0)


def out_of_range(X, powers):
    """What is lost of X in the scale of the caller's b.

    Returns
    -------
    infinite : (k,) bool
        Columns that are not finite in that scale.
    lost : (k,) bool
        Columns that lose digits, because in that scale they are below the range of float64.
    rounded : (n, k) or None
        X with these losses, in its own scale; None if no column has any.
    """
    none = np.zeros(len(powers), bool)
    if not powers.any():
        return none, none, None
    x = unshifted(X, powers)
    infinite = ~device.to_host(where(X).xp.isfinite(x).all(axis=0))
    size, most = (np.asarray(device.to_host(max_abs(block))) for block in (X, x))
    lost = (most < TINY) & (size > 0) & ~infinite
    return infinite, lost, times_powers(x, np.where(lost, powers, 0)) if lost.any() else None


def preconditioner(M, n):
    """M as a function that maps an (n, k) block on the host to another, C contiguous."""
    if M is None:
        return lambda R: R
    if hasattr(M, "apply_columns"):
        check_shape(M, n)
        return reusing(M.apply_columns)
    if is_operator(M):
        check_shape(M, n)
        return Operator(M, "M").apply
    operator = as_operator(M, n)
    if np.dtype(operator.dtype).kind == "c":
        raise InvalidInputError("M is complex: A is real, so its approximate inverse must be as well")
    return lambda R: np.ascontiguousarray(operator.matmat(R), np.float64)


def as_operator(M, n):
    """A preconditioner as an operator of scipy: a matrix, a LinearOperator, or a factor of scipy with ``solve``."""
    if isinstance(M, spla.SuperLU):
        M = spla.LinearOperator(M.shape, matvec=M.solve, matmat=M.solve, dtype=M.L.dtype)
    M = checked_preconditioner(M)
    try:
        operator = spla.aslinearoperator(M)
    except (TypeError, ValueError) as e:
        raise InvalidInputError(f"M must be a factor, a matrix or a LinearOperator, got {type(M).__name__}: for a function f of a "
                                "vector pass scipy.sparse.linalg.LinearOperator(A.shape, matvec=f)") from e
    check_shape(operator, n)
    return operator


def checked_preconditioner(M):
    """Return M with the arrays of a sparse matrix checked, and a list as an array; factors and operators as they are."""
    if M is None or hasattr(M, "apply_columns") or is_operator(M):
        return M
    M = as_array(M, "M") if isinstance(M, (list, tuple)) else foreign.as_known(M, "M")
    return checked(M, "M") if sp.issparse(M) else M


def check_shape(M, n):
    """Raise if a preconditioner is not n x n."""
    if M.shape != (n, n):
        raise InvalidInputError(f"M must be {n} x {n}, got {M.shape[0]} x {M.shape[1]}")


def reusing(apply):
    """apply(R, out) as a function of R that returns the same block each time."""
    Z = {}
    return lambda R: apply(R, Z.setdefault(R.shape, np.empty_like(R)))


def _columns(b, n, name, dtype):
    """b as a new block in its own memory, and its :class:`Form`."""
    place = where(b)
    given = place.array(b, name)
    if dtype.kind == "c":
        return np.array(as_rhs(given, n, name, dtype)[0], order="C"), Form(tuple(given.shape), False, place)
    is_complex = given.dtype.kind == "c"
    parts = [place.rhs(part, n, name)[0] for part in ((given.real.copy(), given.imag.copy()) if is_complex else (given,))]
    B = place.xp.concatenate(parts, axis=1) if is_complex else place.xp.array(parts[0], np.float64, order="C")
    return B, Form(tuple(given.shape), is_complex, place)


def _start(x0, n, form, dtype):
    X, given = _columns(x0, n, "x0", dtype)
    if given.shape != form.shape:
        raise InvalidInputError(f"x0 must have the shape of b, {form.shape}, got {given.shape}")
    if given.is_complex and not form.is_complex:
        raise InvalidInputError("x0 is complex, b is real")
    xp = given.place.xp
    return xp.concatenate([X, xp.zeros_like(X)], axis=1) if form.is_complex and not given.is_complex else X


def _scaled_to_one(B, exponent):
    """Scale columns of B in place by powers of two if their squares, or with an ``exponent`` the solutions, could leave the range of
    float64; return the (k,) factors.

    Squares that underflow to 0 would make every x a solution."""
    largest = np.asarray(device.to_host(max_abs(B)))
    usual = (largest == 0) | ((largest > 1 / FAR_UNIT) & (largest < FAR_UNIT) & (exponent == 0))
    shift = np.where(usual, 1.0, np.ldexp(1.0, -np.clip(np.frexp(largest)[1], -1000, 1000)))
    if not usual.all():
        B *= where(B).bring(shift)
    return shift


def _drop_far_starts(X, B):
    """Set columns of X to zero that are more than FAR times larger than those of B."""
    most, size = (device.to_host(max_abs(V)) for V in (X, B))
    far = ~(most <= FAR * np.where(size > 0, size, 1.0))
    if far.any():
        X[:, far] = 0.0
