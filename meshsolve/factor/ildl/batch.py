"""Complete L D L^T factors of many matrices with the analysis of one factor, on the host.

    K = meshsolve.ildl(A, fill_level=None);  many = K.factor_batch(values);  many.solve(b)          # values (N, nnz), b (N, n)

The solution of a system has the bits of ``K.refactor(its matrix).solve(b)``. Scaling, pivots, refinement and the test of singular systems
run in the core (factor/ldlt/batch.hpp). Only a system whose rows need another scaling gets a factor of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning, NotSymmetricError
from meshsolve.factor.ldlt.complete import RULE, STRICT_THRESHOLD, overflow
from meshsolve.factor.ldlt.residual import ENOUGH, OUTSIDE, ROUNDING, STEPS, TARGET
from meshsolve.factor.many import SingleFactors
from meshsolve.factor.sharing import Sharing, reads
from meshsolve.factor.trial import effect_of
from meshsolve.memory import ensure_memory
from meshsolve.options import as_flag, counted, thread_count
from meshsolve.report import Report, warn
from meshsolve.sparse.matrix import as_symmetric
from meshsolve.types import ArrayLike, Matrix

STALE = 20                              # largest ratio of row sizes, as a power of two, for which a scaling made for other values is kept
REFINEMENT = ENOUGH, TARGET, STEPS
RANGE = OUTSIDE, ROUNDING * np.finfo(np.float64).eps
ZERO = -5                               # state of the core: the matrix has no nonzero


class IldlBatch(SingleFactors):
    """Complete L D L^T factors of N matrices with one pattern, made by :meth:`IldlFactor.factor_batch`.

    Attributes
    ----------
    failed : (f,) int64
        Systems without a factor, ascending: zero, not finite, overflowed, or not reached before Ctrl-C. Their solutions are NaN;
        :meth:`reason` says why. A singular matrix has a factor with zero pivots, see :attr:`inertia`.
    alone : (a,) int64
        Systems with a factor of their own, because the sizes of their rows differ by many orders of magnitude more than in the first
        matrix. Each takes the time of a single ``refactor`` and ``solve``.
    inertia : (N, 3) int64
        Numbers of positive, negative and zero eigenvalues of each system, zeros for a failed one. A ``MeshsolveWarning`` names systems with
        pivots whose sign rounding may have changed.
    backward_error : (N,) float64
        Normwise backward error of the last solution of each system, worst column; NaN without one.
    shape : tuple of int
        (N, n): number of systems, rows of each.
    report : Report
        Seconds of ``numeric`` and ``solve`` for all systems together.
    """

    _source = "K"
    _must_be_symmetric = True

    def __init__(self, factor, values, threads, keep):
        """Factor ``values``, (N, nnz) in the pattern of ``factor``, on ``threads`` threads. ``keep``: the factors."""
        self._factor_of, self._is_strict = factor, factor._core.native.is_strict
        super().__init__(factor._pattern, values, np.float64, threads, keep, nnz_L=factor.nnz)

    @property
    def nbytes(self) -> int:
        """Bytes of all factors and scaled values, without factors of single systems."""
        return self._core.nbytes

    @property
    def inertia(self) -> np.ndarray:
        self._states()
        counts = self._core.inertia().reshape(-1, 3)
        for i, factor in self._alone.items():
            counts[i] = factor.inertia
        doubtful = np.flatnonzero(self._core.undecided())
        if len(doubtful):
            warn(f"inertia: the sign of an eigenvalue of {counted(len(doubtful), 'system')} is not decided, the first is system "
                 f"{doubtful[0]}: a pivot is within a few rounding errors of zero", MeshsolveWarning)
        return counts

    @property
    def backward_error(self) -> np.ndarray:
        self._states()
        return self._error

    def _forget(self):
        super()._forget()
        self._error = np.full(self.shape[0], np.nan)

    def _prepare(self, data):
        plan, count, n = self._factor_of._core.plan, len(data), self._pattern.n
        held = count if self._keeps else min(count, self.threads)
        tree = plan.tree(self.threads)
        self._core = _core.LdltBatch(tree, RULE["d"], STRICT_THRESHOLD, self._is_strict, count)
        ensure_memory(8 * held * (plan.nnz + self._pattern.nnz + n) + 8 * self.threads * tree.work_scalars(1),
                      f"the factors of {counted(count, 'system')} together")

    def _factor(self, data):
        self._forget()
        self._values = data
        try:
            with self.report.phase("numeric"):
                self._core.factor(*self._matrices(data), self.threads)
                self._factor_those_alone()
        finally:
            del self._values
        self.report.facts.update(bytes=self.nbytes, alone=len(self._alone))

    def _settle_doubt(self, A):
        M = as_symmetric(A, threads=self.threads)
        self._factor_of._of_values(M.data, self._is_strict).settled(M.doubt)

    def _matrices(self, data):
        P = self._pattern
        return P.indptr, P.indices, data.reshape(-1), self._factor_of._matched_scale, self._factor_of._spread + STALE

    def _factor_alone(self, system):
        return self._factor_of._of_values(self._values[system], self._is_strict)

    def _reason_of(self, system, state):
        if state == ZERO:
            return "the matrix has no nonzero"
        if state >= 0:
            return str(overflow(int(self._factor_of._core.plan.symbolic.perm[state])))
        return super()._reason_of(system, state)

    def _solve_into(self, x, columns):
        P, found = self._pattern, np.empty((2, self.shape[0]))
        self._core.solve(P.indptr, P.indices, columns.reshape(-1), x.reshape(-1), *found, REFINEMENT, RANGE, self.threads)
        with self._sharing.turn():
            self._finish(x, columns, *found)

    def _factor_and_solve(self, data, x, columns):
        self._forget()
        found = np.empty((2, self.shape[0]))
        self._core.factor_and_solve(*self._matrices(data), columns.reshape(-1), x.reshape(-1), *found, REFINEMENT, RANGE, self.threads)
        self._factor_those_alone()
        self.report.facts["alone"] = len(self._alone)
        if columns.size:
            self._finish(x, columns, *found)

    def _finish(self, x, columns, error, outside):
        """Solve those alone, and report what the core has found of each solution."""
        self._solve_those_alone(columns, x)
        for i, factor in self._alone.items():
            error[i] = factor._numeric.residual(x[i], columns[i])[1]
        self._error = error
        far = np.flatnonzero(outside)
        if len(far):
            warn(f"b is not in the range of {counted(len(far), 'singular system')}, the first is system {far[0]} (inertia counts its zero "
                 f"eigenvalues): A x differs from b by {outside[far[0]]:.2g} times its length", MeshsolveWarning)


class Batched:
    """What an :class:`~meshsolve.factor.ildl.IldlFactor` offers for many matrices."""

    is_complete: Any
    on_device: Any
    storage: Any
    _place: Any
    _threads: Any
    _pattern: Any
    skew: float

    @reads
    def factor_batch(self, values: ArrayLike, threads: int | None = None, *, keep: bool = True) -> IldlBatch:
        """Compute the complete factors of many matrices in the pattern of A, with the analysis of this factor, on the CPU.

        Parameters
        ----------
        values : (N, nnz) real
            A row for each matrix: its entries in the order of the pattern, both triangles. That is ``A.data`` of the first matrix, if it
            is a csr_array with sorted indices and without duplicates; :meth:`values_of` makes the row of any other matrix.
        threads : int, optional
            Threads share the systems; each runs on one. Default: those of this factor.
        keep : bool
            False: factors are not kept, and each ``solve`` factors and solves the systems in one pass. That is faster for systems that are
            solved once, and takes no memory for factors. ``solve`` reads ``values`` then: do not change the array before.

        Returns
        -------
        IldlBatch
            ``.solve(b)``, ``.refactor(values)``, ``.failed``, ``.inertia``, ``.backward_error``.

        Raises
        ------
        InvalidInputError
            This factor is incomplete, in float32, or on the GPU. Wrong shape, no system, complex numbers or text; values on the GPU.
        NotSymmetricError
            A system is not symmetric (names the first, ``.row``, ``.column``).
        OutOfMemoryError
            All factors together do not fit.

        Notes
        -----
        The solution of a system has the bits of ``self.refactor(its matrix).solve(b)``. Pivots are chosen for each system. A zero matrix,
        or one with NaN, fails alone; a singular one has zero pivots. Later calls of ``refactor`` do not change the batch. O(N flops)
        time, O(N (nnz(L) + nnz(A))) memory.

        Examples
        --------
        >>> import numpy as np
        >>> import scipy.sparse as sp
        >>> import meshsolve as ms
        >>> A = sp.csr_array(np.array([[0.0, 1.0], [1.0, 1.0]]))
        >>> many = ms.ildl(A, fill_level=None).factor_batch(np.stack([A.data, 2 * A.data]))
        >>> bool(np.allclose(many.solve(np.ones((2, 2))), [[0, 1], [0, 0.5]]))
        True
        """
        if not self.is_complete:
            raise InvalidInputError("batches need a complete factor. Make one with fill_level=None")
        if self.on_device or self.storage != np.float64:
            raise InvalidInputError('batches are factored on the CPU in float64. Make the factor with device="cpu" and dtype=np.float64, '
                                    f'got "{self._place}" and {self.storage}')
        return IldlBatch(self, values, self._threads if threads is None else thread_count(threads), as_flag(keep, "keep"))

    @reads
    def values_of(self, A: Matrix) -> np.ndarray:
        """Return the entries of A in the order of the pattern of this factor, (nnz,) float64: a row for :meth:`factor_batch`.

        Entries that A lacks are zeros. O(nnz).

        Raises
        ------
        PatternMismatchError, NotSymmetricError, InvalidInputError
            As :meth:`refactor`.
        """
        data, doubt = self._within(A)
        return np.array(data if doubt is None else doubt.stored.within(self._pattern))

    def settled(self, doubt, before=None):
        """Return this factor, after a trial if the symmetry of the matrix is in doubt: ``skew`` is the effect of the skew part.

        Raises NotSymmetricError if that is large, after the factor ``before``, a ``Numeric``, is restored.
        """
        self.skew = 0.0
        if doubt is None or not self.is_complete or self._core.inertia[2]:
            return self
        try:
            self.skew = doubt.judge(*effect_of(doubt, lambda b: self._solved_once(self._bring(b)), 1 / self.scale[:, None]))
        except NotSymmetricError:
            if before is not None:
                self._core.factor(before.scaled, before.scale)
                self._numeric = before
            raise
        return self

    def _within(self, A):
        """Return the values of A in the pattern, and the :class:`Doubt` of its symmetry."""
        M = as_symmetric(A, lower=self._lower, threads=self._threads)
        if M.n != self.shape[0]:
            raise InvalidInputError(f"A has {counted(M.n, 'row')}, the factor {self.shape[0]}")
        return M.within(self._pattern), M.doubt

    def _of_values(self, data, is_strict):
        """Return another factor, of the values ``data``: what :meth:`refactor` makes of them."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), _sharing=Sharing(), report=Report(**self.report.facts), _core=self._core.empty(is_strict))
        other._run(data)
        return other
