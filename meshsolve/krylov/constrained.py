"""Iterations on systems with fixed or pinned rows.

Fixed rows and their columns are removed, and their coupling goes to the right-hand side. With a pin no row is removed: means over
the components are subtracted from b and from x, which keeps the condition number of the matrix.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from meshsolve import device
from meshsolve.errors import InvalidInputError
from meshsolve.krylov.blocks import checked_preconditioner
from meshsolve.krylov.operator import is_operator
from meshsolve.options import thread_count
from meshsolve.sparse.constraints import constraint_of, solve_whole
from meshsolve.sparse.matrix import as_csr, as_symmetric, is_complex
from meshsolve.sparse.places import where


def solve_constrained(iterate, A, b, M, x0, callback, threads, fixed, pin, fixed_values, symmetric=True):
    """(x, info) by ``iterate(A, b, M, x0, callback)`` on the free rows; the arguments are those of :func:`meshsolve.cg`, ``pin`` is
    checked."""
    if is_operator(A):
        raise InvalidInputError("A is an operator without entries, which fixed= and pin=True need: pass a matrix, or an operator "
                                "of the free rows alone")
    threads = thread_count(threads)
    matrix = as_symmetric(A, threads=threads) if symmetric else as_csr(A, dtype=np.complex128 if is_complex(A) else np.float64)
    constraint = constraint_of(matrix, fixed, pin, symmetric)
    if pin:
        constraint.require_singular(matrix, threads)
        return _with_info(constraint.solve_singular, matrix, b, fixed_values, lambda B: iterate(matrix.stored, B, M, x0, callback))
    free, block = constraint.free, constraint.reduce(matrix, threads).stored
    inside, start = _inside(M, free, matrix.n), None if x0 is None else _rows(x0, free, matrix.n)

    def solve_free(B):
        seen = None if callback is None else lambda x: callback(_whole(x, constraint, fixed_values))
        return iterate(block, B, inside, start, seen)

    return _with_info(constraint.solve, matrix, b, fixed_values, solve_free)


def _with_info(solve, matrix, b, fixed_values, solve_free):
    """(x, info) for a ``solve_free`` that returns both."""
    found = []

    def solution(B):
        x, info = solve_free(B)
        found.append(info)
        return x

    return solve_whole(solve, matrix.n, b, fixed_values, solution, matrix.data.dtype.kind == "c"), found[0]


def _rows(x0, free, n):
    """The free rows of a start, in its own memory."""
    place = where(x0)
    x0 = place.array(x0, "x0")
    if x0.ndim not in (1, 2) or len(x0) != n:
        raise InvalidInputError(f"x0 must be ({n},) or ({n}, k), got {tuple(x0.shape)}")
    return x0[place.bring(free)]


def _whole(x, constraint, fixed_values):
    """All rows of an iterate x of the free rows, in its own memory."""
    free = device.to_host(x)
    columns = np.ascontiguousarray(free.reshape(len(free), -1))
    return where(x).bring(constraint.whole(columns, fixed_values).reshape(-1, *free.shape[1:]))


def _inside(M, free, n):
    """The block of the free rows of a preconditioner M of n rows; M itself if it has the free rows alone."""
    shape = getattr(M, "shape", None)
    if M is None or shape == (len(free), len(free)):
        return M
    M = checked_preconditioner(M)
    shape = getattr(M, "shape", None)
    if shape != (n, n):
        raise InvalidInputError(f"M must be {n} x {n}, or {len(free)} x {len(free)} for the free rows alone, got {shape}")
    if getattr(M, "null_components", 0):
        raise InvalidInputError("M is the factor of a singular Laplacian, but the block of the free rows is regular: "
                                "pass parac(A, fixed=...)")
    if sp.issparse(M) or isinstance(M, np.ndarray):
        return M.tocsr()[free][:, free] if sp.issparse(M) else M[np.ix_(free, free)]

    operator = spla.aslinearoperator(M)

    def apply(R):
        whole = np.zeros((n, *R.shape[1:]), R.dtype)
        whole[free] = R
        return operator.matvec(whole)[free] if R.ndim == 1 else operator.matmat(whole)[free]

    return spla.LinearOperator((len(free), len(free)), matvec=lambda r: apply(r.reshape(-1)), matmat=apply, dtype=operator.dtype)
