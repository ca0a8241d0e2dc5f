"""Matrices distributed over the ranks: each rank has the rows of its subdomains, next to each other as PETSc requires."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve.errors import InvalidInputError
from meshsolve.options import counted
from meshsolve.order.partition import divide
from meshsolve.petsc.environment import agreed, communicator, load, require_same
from meshsolve.sparse.columns import as_array, first_true
from meshsolve.sparse.matrix import as_csr, symmetric_pattern
from meshsolve.types import ArrayLike, Matrix


def matrix(A: Matrix, comm: Any = None, part: ArrayLike | None = None) -> tuple[Any, np.ndarray]:
    """Distribute a matrix that every rank has over the ranks.

    Parameters
    ----------
    A : (n, n) real matrix of any kind, the same on all ranks
    comm : communicator of mpi4py or petsc4py, optional
        Default: all ranks.
    part : (n,) integers >= 0, optional
        Part of each row. Rank r of s ranks gets the parts p with ``p * s // parts == r``. Default: :func:`meshsolve.order.partition`
        with a part for each rank.

    Returns
    -------
    P : PETSc.Mat of type aij
    rows : (m,) int64
        Rows of A that this rank has, in the order of P: ``b[rows]`` is the local part of a right-hand side. A rank may have none.

    Raises
    ------
    InvalidInputError
        On all ranks: A is not square, holds NaN or infinity, or differs between ranks; a bad ``part`` or ``comm``; no PETSc.

    Notes
    -----
    Each rank has all of A during the call. O(nnz).

    Examples
    --------
    >>> import meshsolve as ms
    >>> A = ms.datasets.grid2d(30, 20)
    >>> P, rows = ms.petsc.matrix(A)                                # doctest: +SKIP
    >>> b, x = P.createVecs()                                       # doctest: +SKIP
    """
    comm = communicator(comm)
    with agreed(comm):
        M = as_csr(A)
        part = _as_part(part, M.n)
    require_same(comm, A=M.data, indices=M.indices, part=part)
    with agreed(comm):
        part = parts_of(M, comm.size) if part is None else part
    P, order, mine = distribute(comm, M, part)
    return P, order[mine]


def parts_of(M, parts):
    """Return the part of each row of a Csr, at most ``parts`` and at most one for each row."""
    return divide(symmetric_pattern(M.to_scipy()).graph(), min(parts, M.n), np.ones(M.n), 0).astype(np.int64)


def distribute(comm, M, part):
    """Distribute a Csr by its parts: (P, order, mine). Row k of P is row ``order[k]`` of M; this rank has the rows ``mine``, a slice."""
    PETSc, _ = load()
    parts = int(part.max()) + 1
    order = np.argsort(part, kind="stable")
    rank = np.arange(parts) * comm.size // parts
    begin, end = np.searchsorted(rank[part[order]], [comm.rank, comm.rank + 1])
    mine = slice(int(begin), int(end))
    rows = M.to_scipy()[order[mine]][:, order]
    rows.sort_indices()
    with agreed(comm):
        require_indices(PETSc, rows.nnz)
    csr = rows.indptr.astype(PETSc.IntType), rows.indices.astype(PETSc.IntType), rows.data
    return PETSc.Mat().createAIJ(((rows.shape[0], None),) * 2, csr=csr, comm=comm), order, mine


def require_indices(PETSc, entries):
    """Raise InvalidInputError if the integers of PETSc cannot count the entries of a rank."""
    if entries > np.iinfo(PETSc.IntType).max:
        raise InvalidInputError(f"a rank has {counted(entries, 'entry')}, more than the {np.dtype(PETSc.IntType)} indices of this PETSc "
                                "can count: use more ranks, or a PETSc with 64-bit indices (libpetsc64-real-dev)")


def local_csr(P):
    """Return the rows of this rank of a PETSc.Mat as csr_array with all columns."""
    indptr, indices, data = P.getValuesCSR()
    return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, P.getSize()[1]))


def local_parts(P, subdomains):
    """Return the subdomain, 0 ... k - 1, of each row of this rank: a partition of the rows by their entries among themselves."""
    S = local_csr(P.getDiagonalBlock())
    if S.shape[0] == 0:
        return np.zeros(0, np.int64)
    pattern = symmetric_pattern(S).graph()
    return divide(pattern, min(subdomains, pattern.n), np.ones(pattern.n), 0).astype(np.int64)


def gathered(comm, order, local):
    """Return the whole vector on every rank from the (m,) values that each rank has, in the numbering of the matrix."""
    whole = np.empty(len(order))
    whole[order] = np.concatenate(comm.allgather(local))
    return whole


def _as_part(part, n):
    """Return checked parts as (n,) int64, or None."""
    if part is None:
        return None
    given = as_array(part, "part")
    if given.shape != (n,) or given.dtype.kind not in "iu":
        raise InvalidInputError(f"part must hold {n} integers, got {given.dtype} of shape {given.shape}")
    if (row := first_true(given < 0)) >= 0:
        raise InvalidInputError(f"part must not be negative, but row {row} holds {given[row]}")
    return given.astype(np.int64)
