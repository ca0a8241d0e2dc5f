"""What the iterations share: options, right-hand sides as blocks of real columns near 1, preconditioners, and x in the form of b."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse.linalg as spla

from meshsolve import _core, device
from meshsolve.errors import InvalidInputError
from meshsolve.krylov.operator import Operator, is_operator
from meshsolve.options import as_integer, as_number
from meshsolve.sparse.columns import as_array, as_complex, as_device_rhs, as_rhs, max_abs
from meshsolve.sparse.cuda import DeviceCsr, Positions, as_device_csr
from meshsolve.sparse.matrix import Csr, as_symmetric
from meshsolve.sparse.places import on_device

MAXITER = 10_000                        # where the caller gives none


def checked_options(rtol, atol, maxiter, callback):
    """(rtol, atol, maxiter) as numbers."""
    if callback is not None and not callable(callback):
        raise InvalidInputError(f"callback has to be a function of x, not {callback!r}")
    maxiter = MAXITER if maxiter is None else as_integer(maxiter, "maxiter", 0)
    return as_number(rtol, "rtol"), as_number(atol, "atol"), maxiter


def as_matrix(A, there, threads):
    """A symmetric matrix as :class:`Csr`, or with ``there`` one that lies on the GPU as :class:`DeviceCsr`; what is either was checked
    before. An operator becomes an :class:`Operator`.

    Raises
    ------
    InvalidInputError, NotSymmetricError
        As :func:`meshsolve.sparse.matrix.as_symmetric`.
    """
    if isinstance(A, (Csr, DeviceCsr)):
        return A
    if is_operator(A):
        if there:
            raise InvalidInputError(f"A is an operator, a {type(A).__name__}, whose products are on the CPU: b or M lies on the GPU")
        return Operator(A)
    if not (there and on_device(A)):
        return as_symmetric(A, threads=threads)
    M = as_device_csr(A)
    positions = Positions(M)
    if positions.take is None:
        return M
    return DeviceCsr(M.n, positions.pattern.indptr, positions.pattern.indices, Positions.of(M, positions.take))


class Form(NamedTuple):
    """How b came, and x goes back.

    Attributes
    ----------
    shape : tuple
    is_complex : bool
        The first half of a block's columns are real parts, the second imaginary ones.
    on_device : bool
    """

    shape: tuple
    is_complex: bool
    on_device: bool

    @property
    def is_vector(self):
        return len(self.shape) == 1

    def deliver(self, X):
        """An (n, k) block, here or on the GPU, in this form."""
        X = X if self.on_device else device.to_host(X)
        if self.is_complex:
            half = X.shape[1] // 2
            parts = X[:, :half], X[:, half:]
            X = parts[0] + 1j * parts[1] if self.on_device else as_complex(*parts)
        return X.reshape(self.shape)


class Blocks(NamedTuple):
    """The system's columns where they are iterated: fresh C contiguous (n, k) float64 arrays.

    Attributes
    ----------
    B, X : (n, k)
        Right-hand sides and starts, both times ``shift``.
    shift : (k,)
        Powers of two, on the host: 1 but where squares of b would leave the range of float64.
    form : Form
    """

    B: np.ndarray
    X: np.ndarray
    shift: np.ndarray
    form: Form


def blocks_of(b, x0, n, on_device):
    """The :class:`Blocks` of a right-hand side and a start, which may be None: zeros.

    Raises
    ------
    InvalidInputError
        Not (n,) or (n, k), not numbers, NaN or infinity; x0 of another shape, or complex beside a real b.
    """
    there = device.holds(b)
    B, form = _columns(b, n, "b")
    if x0 is None:
        X = (device.xp() if there else np).zeros(B.shape)
    else:
        X = _start(x0 if there or not device.holds(x0) else device.to_host(device.asarray(x0)), n, form)
    if on_device:
        B, X = device.to_device(B), device.to_device(X)
    shift = _brought_near_one(B, X)
    if x0 is not None:
        _forget_far(X, B)
    return Blocks(B, X, shift, form)


def _columns(b, n, name):
    """b as a fresh block where it lies, and its :class:`Form`."""
    there = device.holds(b)
    xp, given, checked = (device.xp(), device.asarray(b), as_device_rhs) if there else (np, as_array(b, name), as_rhs)
    is_complex = given.dtype.kind == "c"
    parts = [checked(part, n, name)[0] for part in ((given.real.copy(), given.imag.copy()) if is_complex else (given,))]
    B = xp.concatenate(parts, axis=1) if is_complex else xp.array(parts[0], np.float64, order="C")
    return B, Form(tuple(given.shape), is_complex, there)


def _start(x0, n, form):
    X, given = _columns(x0, n, "x0")
    if given.shape != form.shape:
        raise InvalidInputError(f"x0 has to have b's shape {form.shape}, not {given.shape}")
    if given.is_complex and not form.is_complex:
        raise InvalidInputError("x0 is complex, b is real")
    xp = device.xp() if given.on_device else np
    return xp.concatenate([X, xp.zeros_like(X)], axis=1) if form.is_complex and not given.is_complex else X


def _brought_near_one(B, X):
    """Multiplies columns of B and X, in place, by powers of two where squares of b would leave the range of float64, which made
    every x a solution; returns the (k,) factors, 1 otherwise."""
    largest = device.to_host(max_abs(B))
    usual = (largest == 0) | (largest > 2.0**-400) & (largest < 2.0**400)
    shift = np.where(usual, 1.0, np.ldexp(1.0, -np.clip(np.frexp(largest)[1], -1000, 1000)))
    if not usual.all():
        factors = _beside(B, shift)
        B *= factors
        with np.errstate(over="ignore"):
            X *= factors
    return shift


def _forget_far(X, B):
    """Zeros in the columns of X that are larger than those of B by more than anybody comes back from: squares of residuals would leave
    the range of float64, or rounding leave nothing of b. From zero everybody arrives."""
    most, size = (device.to_host(max_abs(V)) for V in (X, B))
    far = ~(most <= 2.0**200 * np.where(size > 0, size, 1.0))
    if far.any():
        X[:, far] = 0.0


def unshifted(X, shift):
    """X, here or on the GPU, in the scale of the caller's b; infinite where it is out of range there."""
    with np.errstate(over="ignore"):
        return X / _beside(X, shift)


def columns_out_of_range(X):
    """(k,) bool: columns of an unshifted X, here or on the GPU, that are not finite."""
    if not device.holds(X) and _core.first_not_finite(X.ravel(order="K")) < 0:
        return np.zeros(X.shape[1], bool)
    xp = device.xp() if device.holds(X) else np
    return ~device.to_host(xp.isfinite(X).all(axis=0))


def _beside(X, factors):
    """Factors of the columns where X lies."""
    return device.to_device(factors) if device.holds(X) else factors


def preconditioner(M, n):
    """M as a function of an (n, k) block on the host that returns one, C contiguous."""
    if M is None:
        return lambda R: R
    if hasattr(M, "apply_columns"):
        _check_shape(M, n)
        return reusing(M.apply_columns)
    if is_operator(M):
        _check_shape(M, n)
        return Operator(M, "M").apply
    try:
        operator = spla.aslinearoperator(np.asarray(M) if isinstance(M, (list, tuple)) else M)
    except (TypeError, ValueError) as e:
        hint = f"{type(M).__name__} is none; scipy.sparse.linalg.LinearOperator(A.shape, matvec=f) makes one of a function f of a vector"
        raise InvalidInputError(f"M has to be a factor, a matrix or a LinearOperator: {hint}") from e
    _check_shape(operator, n)
    if np.dtype(operator.dtype).kind == "c":
        raise InvalidInputError("M is complex: A is real and symmetric, and so is an approximate inverse of it")
    return lambda R: np.ascontiguousarray(operator.matmat(R), np.float64)


def _check_shape(M, n):
    if M.shape != (n, n):
        raise InvalidInputError(f"M has to be {n} x {n}, not {M.shape[0]} x {M.shape[1]}")


def reusing(apply):
    """apply(R, out) as a function of R that returns the same block each time."""
    Z = {}
    return lambda R: apply(R, Z.setdefault(R.shape, np.empty_like(R)))
