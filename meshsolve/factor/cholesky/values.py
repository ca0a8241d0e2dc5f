"""Symmetric matrices that are analyzed and factored, and the values of later matrices in the analyzed pattern."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meshsolve import device
from meshsolve.errors import InvalidInputError
from meshsolve.factor.cholesky.host import HostFactor
from meshsolve.factor.symbolic.location import location_of_analysis
from meshsolve.options import counted
from meshsolve.order.auto import is_scale_free
from meshsolve.sparse.check_cuda import LaterMatrix
from meshsolve.sparse.constraints import ROW_SUM, constraint_of
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import HOST, on_device

SURELY_0 = 0.999        # of the row sum that is 0: one near the limit is looked at again, as sums in another order may differ by rounding


class Values:
    """Returns the values of later matrices in the pattern of a factor, without constrained rows, in the place of the factor.

    Parameters
    ----------
    n : int
        Rows of the whole matrix.
    symbolic : Symbolic
        Analysis of the free rows. ``symbolic.lower``: only the lower triangle of a matrix is read.
    constraint : Fixed, Pinned or None
        Keeps the coupling of each matrix.
    threads : int
        Threads that check a matrix.
    place : HOST or CUDA
    gather : Gather, optional
        That of the first matrix on a GPU. A later matrix of the same pattern is then one gather.
    doubt : Doubt, optional
        Of the free rows of the matrix that will be factored next.
    """

    def __init__(self, n, symbolic, constraint=None, threads=1, place=HOST, gather=None, doubt=None):
        self.n, self.symbolic, self.constraint, self.threads, self.place = n, symbolic, constraint, threads, place
        self._gather, self._spare, self.doubt = gather, None, doubt

    def __getstate__(self):
        """Without the index maps of the last matrix."""
        return self.__dict__ | {"_gather": None, "_spare": None, "doubt": None}

    @property
    def pattern(self):
        return self.symbolic.pattern_in(self.place)

    @property
    def nnz(self):
        return self.pattern.nnz

    def of(self, A):
        """Return the (nnz,) float64 values of a matrix on the host or on the GPU; errors as for ``CholeskyFactor.refactor``."""
        with self.place.errors("the matrix"):
            M = self.place.symmetric(A, self.threads, self.symbolic.lower, gather=self._gather)
            check_size(M.n, self.n)
            block = M if self.constraint is None else self.constraint.reduce(M, self.threads)
            values = block.within(self.pattern, self.constraint)
        self._gather, self.doubt = M.gather, block.doubt
        return values

    def later(self, A):
        """Return A as a :class:`LaterMatrix` if it may have the pattern of the last matrix on the GPU, else None."""
        maps = self.doubt = None
        if self._gather is not None:
            maps = (self._gather, None) if self.constraint is None else self.constraint.maps(self._gather)
        arrays = None if maps is None else self.place.unchecked(A, self.threads, self.symbolic.lower)
        if arrays is None:
            return None
        inside, across = maps
        component = None if self.constraint is None else self.constraint.component
        found = LaterMatrix(self._gather, inside.within(self.pattern, self.constraint), arrays, across, component, SURELY_0 * ROW_SUM)
        return found if found.is_likely else None

    def new_coupling(self):
        """Return a coupling of free and fixed rows for the last matrix, (indptr, indices, data) on the GPU; None without fixed rows.

        Its values are not set.
        """
        if self.constraint is None:
            return None
        indptr, indices = self.constraint.coupling_pattern(self._gather)        # updates may have added entries to the coupling
        return indptr, indices, device.xp().empty(len(indices), np.float64)

    def next_coupling(self):
        """As :meth:`new_coupling`, in memory that is used again.

        The coupling of the last matrix stays until :meth:`keep_coupling` is called with the new one.
        """
        if self.constraint is None:
            return None
        indptr, indices = self.constraint.coupling_pattern(self._gather)
        is_used = self._spare is None or self._spare is self.constraint.coupling[2]                 # the latter after Ctrl-C
        if is_used or len(self._spare) != len(indices):
            self._spare = device.xp().empty(len(indices), np.float64)
        return indptr, indices, self._spare

    def keep_coupling(self, coupling):
        """Use this coupling for right-hand sides, and overwrite the earlier one next time."""
        if coupling is not None:
            self._spare, self.constraint.coupling = self.constraint.coupling[2], coupling


class System:
    """A symmetric matrix, or a pattern, that will be ordered, analyzed and factored.

    Parameters
    ----------
    M : Csr or GatheredMatrix
        Both triangles.
    engine : HostFactor, DeviceFactor or CudssFactor
        Class that factors it.
    threads : int
    given_on_device : bool
        True if the caller's matrix lies on the GPU. The ordering is returned on the same device.

    Attributes
    ----------
    n : int
        Rows of the whole matrix.
    block : Csr or GatheredMatrix
        The matrix that is analyzed: M, or its free rows if there is a constraint.
    constraint : Fixed, Pinned or None
    """

    constraint = None

    def __init__(self, M, engine=HostFactor, threads=1, given_on_device=False):
        self.n, self.block, self._gather, self.engine, self.threads = M.n, M, M.gather, engine, threads
        self._given_on_device = given_on_device

    @classmethod
    def of(cls, A, engine, lower, threads, per_row):
        """Return the system of a matrix of any kind; ``per_row`` as for :func:`meshsolve.sparse.matrix.as_csr`."""
        return cls(engine.place.symmetric(A, threads, lower, per_row), engine, threads, on_device(A))

    @classmethod
    def of_pattern(cls, A, engine, lower, threads, per_row):
        """Return the system of the pattern of A + A^T with the diagonal entries of A."""
        return cls(engine.place.symmetric_pattern(A, threads, lower, per_row), engine, threads, on_device(A))

    @property
    def place(self):
        return self.engine.place

    @property
    def pattern(self):
        return self.block.pattern

    def join(self, edges):
        """Store an entry for every edge of a graph, zero where A has no entry."""
        self.block = self.block.joined(edges)
        self._gather = self.block.gather

    def constrain(self, fixed, pin):
        """Leave out fixed or pinned rows."""
        self.constraint = constraint_of(self.block, fixed, pin, place=self.place)
        if self.constraint is not None:
            self.block = self.constraint.reduce(self.block, self.threads)

    @property
    def location(self):
        """The :class:`~meshsolve.factor.symbolic.location.Location` of the analysis."""
        return location_of_analysis(self.block.n, self.engine.place)

    def to_analyze(self):
        """Return (the place of the analysis, the pattern, the pattern for the ordering), both patterns in that place.

        A matrix of few rows that is factored on the GPU is ordered and analyzed on the host, which is faster.
        """
        engine = self._analyst
        pattern = self.pattern
        if engine is not self.engine:
            pattern = Csr(pattern.n, device.to_host(pattern.indptr), device.to_host(pattern.indices))
        return engine.place, pattern, engine.graph_of(pattern, self.threads)

    def ordering_for(self, ordering, graph):
        """Return ``ordering``, or ``"nd"`` for ``"auto"`` if a graph on the host is ordered for the GPU."""
        return ordering if self._analyst is self.engine else with_few_levels(ordering, graph)

    def prepare(self, symbolic):
        """Make the tree, so that ``factor`` is the numeric phase alone."""
        if self._analyst is not self.engine:
            symbolic.keep_on_device(self.pattern)
        self.engine.prepare(symbolic, self.threads)

    def named(self, ordering):
        """Return an ordering with its permutation in the place of the caller's matrix."""
        perm = (device.to_device if self._given_on_device else device.to_host)(ordering.perm)
        return ordering if perm is ordering.perm else replace(ordering, perm=perm)

    def values(self, symbolic, refines):
        """Return (:class:`Values` of later matrices, the values of this matrix).

        ``refines``: mixed precision will read the pattern after the analysis.
        """
        if refines:
            self.engine.keep_indices(symbolic, self.pattern)
        return Values(self.n, symbolic, self.constraint, self.threads, self.place, self._gather, self.block.doubt), self.block.data

    @property
    def _analyst(self):
        """The engine in whose place the pattern is ordered and analyzed."""
        return self.engine if self.location.place is self.engine.place else HostFactor


def with_few_levels(ordering, graph):
    """Return ``ordering``, or ``"nd"`` for ``"auto"`` of a graph on the host: minimum degree has more levels, each of which takes time on
    the GPU."""
    is_open = isinstance(ordering, str) and ordering == "auto"
    return "nd" if is_open and not is_scale_free(graph) else ordering


def check_size(given, n):
    """Raise if a later matrix has another size than the analyzed one."""
    if given != n:
        raise InvalidInputError(f"A has {counted(given, 'row')}, the analysis {n}")
