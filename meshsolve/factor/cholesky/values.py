"""Systems to be analysed and factored on the host, and values of later matrices in their patterns. Counterpart: values_cuda.py."""

from __future__ import annotations

import contextlib

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.factor.base import values_in
from meshsolve.factor.fronts import assembly_tree
from meshsolve.options import counted
from meshsolve.sparse.constraints import constraint_of
from meshsolve.sparse.matrix import Csr, as_csr, as_symmetric


class Values:
    """Brings the values of later matrices into the pattern of a factor on the host, with constrained rows left out.

    Parameters
    ----------
    n : int
        Rows of the whole matrix.
    symbolic : Symbolic
        Of the free rows; says whether the lower triangle alone is read.
    constraint : Fixed, Pinned or None
        Takes the coupling of each matrix.
    threads : int
        How many check a matrix.
    """

    place = "cpu"

    def __init__(self, n, symbolic, constraint=None, threads=1):
        self.n, self.symbolic, self.constraint, self.threads = n, symbolic, constraint, threads

    @property
    def nnz(self):
        return self.symbolic.matrix_pattern.nnz

    def of(self, A):
        """(nnz,) float64."""
        M = as_symmetric(A, lower=self.symbolic.lower, threads=self.threads)
        check_size(M.n, self.n)
        pattern = self.symbolic.matrix_pattern
        if self.constraint is None:
            return values_in(pattern, M)
        return values_in(pattern, self.constraint.reduce(M, self.threads), self.constraint.free)


class HostSystem:
    """A symmetric matrix, or a pattern, that is to be ordered, analysed and factored on the host.

    Parameters
    ----------
    M : Csr
        Both triangles.
    threads : int

    Attributes
    ----------
    n : int
        Rows of the whole matrix.
    pattern : Csr
        What is analysed: M, of its free rows once there is a constraint.
    constraint : Fixed, Pinned or None
    """

    place, constraint = "cpu", None
    errors = contextlib.nullcontext

    def __init__(self, M, threads=1):
        self.n, self.pattern, self.threads = M.n, M, threads

    @classmethod
    def of(cls, A, lower, threads, per_row):
        """The system of a matrix of any kind; ``per_row`` as for :func:`meshsolve.sparse.matrix.as_csr`."""
        return cls(as_symmetric(A, lower=lower, threads=threads, per_row=per_row), threads)

    @classmethod
    def of_pattern(cls, A, lower, threads, per_row):
        """The same of the pattern of A + A^T alone, with the diagonal of A."""
        if lower:
            return cls(as_symmetric(A, lower=True, per_row=per_row), threads)
        M = as_csr(A, dtype=None, per_row=per_row)
        if _core.symmetry(M.indptr, M.indices, np.ones(M.nnz), 1)[0] == "symmetric":
            return cls(M, threads)
        half = Csr(M.n, M.indptr, M.indices).to_scipy()
        return cls(as_csr(half + half.T, dtype=None), threads)

    @staticmethod
    def values_of(symbolic, threads):
        """What brings matrices into the pattern of an analysis."""
        return Values(symbolic.n, symbolic, threads=threads)

    def join(self, edges):
        """Store an entry, zero where there is none, for every edge of a graph."""
        self.pattern = joined(self.pattern, edges)

    def constrain(self, fixed, pin):
        """Leave out fixed or pinned rows."""
        self.constraint = constraint_of(self.pattern, fixed, pin)
        if self.constraint is not None:
            self.pattern = self.constraint.reduce(self.pattern, self.threads)

    def graph(self):
        """What is ordered."""
        _core.keep_free_memory(self.pattern.nnz, self.threads)
        return Csr(self.pattern.n, self.pattern.indptr, self.pattern.indices, diagonal=True)

    def prepare(self, symbolic):
        """Make the tree, so that ``factor`` is the numeric phase alone. It replaces the index array, which may be the caller's."""
        assembly_tree(symbolic, self.threads)

    def named(self, ordering):
        """The ordering that an analysis names."""
        return ordering

    def values(self, symbolic, refines):
        """(what brings later values into the pattern, the values of this matrix); ``refines``: the pattern is read after the analysis."""
        if refines:
            symbolic.matrix_pattern.indices = self.pattern.indices.copy()       # a copy costs less than the tree takes
        return Values(self.n, symbolic, self.constraint, self.threads), self.pattern.data


def joined(M, edges):
    """The Csr M with a stored entry, zero where it has none, for every edge of a symmetric pattern."""
    indptr, indices = _core.unite(M.indptr, M.indices, edges.indptr, edges.indices)
    if len(indices) == M.nnz:
        return M
    pattern = Csr(M.n, indptr, indices)
    return Csr(M.n, indptr, indices, None if M.data is None else values_in(pattern, M))


def check_size(given, n):
    """Raise if a later matrix has another size than the one that was analysed."""
    if given != n:
        raise InvalidInputError(f"A has {counted(given, 'row')}, the analysis {n}")
