"""What the factors of many matrices of one pattern share: checks of values and right-hand sides, failed systems, factors of single ones.

All systems are factored and solved in one call of the core, each on one thread. A system for which one plain factorization and solve are
not enough (other pivots, another scaling) gets a factor of its own in Python. A batch that does not keep factors factors and solves each
system in one pass, while its factor is in the caches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveError, NotSymmetricError, SingularMatrixError
from meshsolve.factor.base import as_narrow, deliver
from meshsolve.factor.sharing import Sharing, changes, reads
from meshsolve.memory import ensure_memory
from meshsolve.options import counted
from meshsolve.report import Report, collected_warnings, warn
from meshsolve.sparse.columns import as_array
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import on_device
from meshsolve.sparse.symmetry import not_symmetric
from meshsolve.types import Array, ArrayLike

FACTORED, NOT_FINITE, UNKNOWN, ALONE = -1, -2, -3, -4       # of the core's states; ALONE: needs a factor of its own


class FactorBatch:
    """The factors of N matrices with one pattern. A subclass has ``_core``, the methods declared below, and ``_source``.

    Attributes
    ----------
    failed : (f,) int64
        Systems without a factor, ascending: singular, not definite where that is needed, not finite, or not reached before Ctrl-C. Their
        solutions are NaN; :meth:`reason` says why.
    shape : tuple of int
        (N, n): number of systems, rows of each.
    report : Report
        Seconds of ``numeric`` and ``solve`` for all systems together.
    """

    _core: Any
    _prepare: Any                           # _prepare(values): before the first factorization
    _factor: Any                            # _factor(values): of a batch that keeps factors
    _solve_into: Any                        # _solve_into(x, b): writes solutions, (N, n, k) each
    _factor_and_solve: Any                  # _factor_and_solve(values, x, b): both, for k >= 0, without keeping factors
    _reason_of: Any                         # _reason_of(system, state): why it failed
    _source: str                            # the object that made the batch, for messages
    _must_be_symmetric: Any = False         # True: systems whose triangles differ are refused before the factorization
    shape: tuple[int, int]

    def __init__(self, pattern: Csr, values, scalar, threads, keep, **facts):
        """``scalar``: dtype of the values; ``keep``: the factors stay for solves; ``facts``: of the report."""
        self._pattern, self._scalar, self._sharing, self.threads = pattern, np.dtype(scalar), Sharing(), threads
        self._reasons: dict[int, str] = {}
        self._keeps, self._is_current = keep, keep          # current: the states are those of the last values
        data = self._checked(values)
        self.shape = len(data), pattern.n
        self.report = Report(threads=threads, nnz_A=pattern.nnz, systems=len(data), **facts)
        self._prepare(data)
        self._receive(data)

    @changes
    def refactor(self, values: ArrayLike):
        """Factor other matrices with the analyzed pattern, in the memory of these.

        Parameters
        ----------
        values : (N, nnz) array
            As for ``factor_batch``; N as before.

        Returns
        -------
        This batch, with another :attr:`failed`.

        Raises
        ------
        InvalidInputError, NotSymmetricError
            As ``factor_batch``; another number of systems. The factors are unchanged.
        FactorInUseError
            Another call uses this batch at this time.
        """
        data = self._checked(values)
        if len(data) != self.shape[0]:
            raise InvalidInputError(f"values have {counted(len(data), 'system')}, but this batch has {self.shape[0]}: make another batch "
                                    "with factor_batch(values)")
        self._receive(data)
        return self

    @property
    def failed(self) -> np.ndarray:
        return np.array([i for i in np.flatnonzero(self._states() != FACTORED) if self._has_failed(int(i))], np.int64)

    def reason(self, system: int) -> str:
        """Say why a system has no factor; "" if it has one."""
        if not -self.shape[0] <= system < self.shape[0]:
            raise InvalidInputError(f"system must be in 0..{self.shape[0] - 1}, got {system}")
        system = int(system) % self.shape[0]
        state = int(self._states()[system])
        if state == FACTORED or not self._has_failed(system):
            return ""
        if state == NOT_FINITE:
            return "the matrix has a value that is not finite"
        if state == UNKNOWN:
            return "the factorization was interrupted"
        return self._reason_of(system, state)

    @reads
    def solve(self, b: ArrayLike, out: Array | None = None) -> Array:
        """Solve all systems.

        Parameters
        ----------
        b : (N, n) or (N, n, k), real or complex
            Right-hand sides of each system.
        out : array like the result, optional
            Receives the result and is returned. A new array of many systems takes up to a tenth of the time: its memory is new to the
            process.

        Returns
        -------
        x : array of b's shape
            float32 or complex64 for such b, else float64 or complex128; complex for complex matrices. NaN for the systems in
            :attr:`failed`.

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity (names the system), text; ``out`` does not fit.
        FactorInUseError
            Another call is refactoring this batch.

        Notes
        -----
        The solution of a system has the bits of a single factor with this analysis. O(N nnz(L) k) time, in parallel over the systems; with
        ``keep=False`` each call factors the systems too.
        """
        given = as_array(b, "b")
        self._check_rhs(given)
        if given.dtype.kind != "c" or self._scalar.kind == "c":
            x = self._solve_scalars(given, out if _is_writable(out, given.shape, self._scalar, given) else None)
            narrows = given.dtype.kind == x.dtype.kind
        else:
            x, narrows = np.empty(given.shape, np.complex128), True
            x.real, x.imag = self._solve_scalars(given.real), self._solve_scalars(given.imag)
        if x is out:
            return x
        x = as_narrow(x, given.dtype, out) if narrows else x
        return deliver(x, x.shape, out)

    def __len__(self):
        return self.shape[0]

    def __reduce__(self):
        raise InvalidInputError(f"a {type(self).__name__} cannot be pickled or copied: send the values, and call "
                                f"{self._source}.factor_batch where they arrive")

    def __repr__(self):
        return f"{type(self).__name__}({counted(self.shape[0], 'system')}, n={self.shape[1]}, failed={len(self.failed)})"

    def _has_failed(self, system):
        return True

    def _receive(self, data):
        """Factor the systems, or leave that to the solves."""
        if self._must_be_symmetric:
            self._require_symmetric(data)
        if self._keeps:
            self._factor(data)
        else:
            self._values, self._is_current = data, False

    def _run(self, x, columns):
        """Factor and solve the systems whose factors are not kept."""
        with self._sharing.turn():                          # which changes the states
            self._is_current = False
            self._factor_and_solve(self._values, x, columns)
            self._is_current = True

    def _states(self):
        """Return the core's state of each system, which is found now if its factor is not kept and nothing was solved yet."""
        if self._keeps:
            return self._core.state()
        with self._sharing.turn():
            if not self._is_current:
                self._run(*np.empty((2, *self.shape, 0), self._scalar))
            return self._core.state()

    def _check_rhs(self, given):
        """Raise unless ``given`` has numbers and the shape of right-hand sides; on the host or on the GPU."""
        if given.dtype.kind not in "fiubc":
            raise InvalidInputError(f"b must hold numbers, got {given.dtype}")
        if given.ndim not in (2, 3) or given.shape[:2] != self.shape:
            raise InvalidInputError(f"b must be {self.shape} or ({self.shape[0]}, {self.shape[1]}, k), got {given.shape}")

    def _solve_scalars(self, given, out=None):
        """Solve for right-hand sides of the dtype of the values, in ``out`` if that is given."""
        columns = as_rows(given, self._scalar, "b")
        if (at := _core.first_not_finite(columns.reshape(-1).view(np.float64), self.threads)) >= 0:
            where = np.unravel_index(at * 8 // self._scalar.itemsize, columns.shape)
            raise InvalidInputError(f"b: system {where[0]}, row {where[1]} holds {columns[where]}")
        x = np.empty_like(columns) if out is None else out
        if columns.size:
            with self.report.phase("solve"):
                solve = self._solve_into if self._keeps else self._run
                solve(x.reshape(*self.shape, -1), columns.reshape(*self.shape, -1))
        return x

    def _checked(self, values):
        """Return the values as a C contiguous (N, nnz) array; its numbers are not checked yet."""
        if on_device(values):
            raise InvalidInputError("values lie on the GPU, where only batches of Cholesky factors are computed: pass values.get(), or use "
                                    "analyze(A).factor_batch(values) for positive definite systems")
        given = as_array(values, "values")
        self._check_values(given)
        return as_rows(given, self._scalar, "the values")

    def _check_values(self, given):
        """Raise unless ``given`` has numbers and the shape of values; on the host or on the GPU."""
        nnz = self._pattern.nnz
        if given.dtype.kind not in ("fiubc" if self._scalar.kind == "c" else "fiub"):
            raise InvalidInputError(f"values must hold {'' if self._scalar.kind == 'c' else 'real '}numbers, got {given.dtype}")
        if given.ndim != 2 or given.shape[1] != nnz:
            raise InvalidInputError(f"values must be (N, {nnz}), a row for each system with the {counted(nnz, 'entry')} of the analyzed "
                                    f"pattern, got {given.shape}: {self._source}.values_of(A) makes the row of a matrix")
        if len(given) == 0:
            raise InvalidInputError("values must have at least one system, got shape (0, ...)")

    def _settle_doubt(self, A):
        """Raise NotSymmetricError if a matrix that passes as symmetric with a doubt is not. A batch of symmetric matrices has it."""

    def _require_symmetric(self, data, first=0):
        """Raise NotSymmetricError for the first system that is not symmetric; of systems with NaN only finite entries are compared.

        ``first``: number of the first system of ``data``.
        """
        P = self._pattern
        system, *entry, doubtful = _core.first_asymmetry(P.indptr, P.indices, data.reshape(-1), len(data), self.threads)
        if system >= 0:
            raise not_symmetric(f"system {first + system}", *entry)
        for i in map(int, doubtful):
            try:
                self._settle_doubt(sp.csr_array((data[i], P.indices, P.indptr), shape=(P.n, P.n)))
            except NotSymmetricError as e:
                raise NotSymmetricError(f"system {first + i}: {e}", e.row, e.column) from None
            except MeshsolveError:                          # the batch reports other failures
                pass


def as_rows(given, scalar, what):
    """Return an array in C order with the dtype ``scalar``, or raise OutOfMemoryError if there is no memory for a copy."""
    if given.dtype != scalar or not given.flags.c_contiguous:
        ensure_memory(given.size * scalar.itemsize, f"a contiguous copy of {what}, {given.shape},")
    return np.ascontiguousarray(given, scalar)


def _is_writable(out, shape, dtype, b):
    """True if the core may write solutions to ``out`` while it reads b."""
    return (type(out) is np.ndarray and out.shape == shape and out.dtype == dtype and out.flags.carray
            and not np.may_share_memory(out, b))


class SingleFactors(FactorBatch):
    """A batch in which some systems have factors of their own. A subclass has :meth:`_factor_alone`.

    Attributes
    ----------
    alone : (a,) int64
        Systems with a factor of their own, ascending. Each takes the time of a single ``refactor`` and ``solve``.
    """

    def __init__(self, *args, **facts):
        self._alone: dict[int, Any] = {}
        super().__init__(*args, **facts)

    @property
    def alone(self) -> np.ndarray:
        self._states()
        return np.array(sorted(self._alone), np.int64)

    def _has_failed(self, system):
        return system not in self._alone

    def _reason_of(self, system, state):
        return self._reasons.get(system, "the factorization was interrupted")

    def _forget(self):
        self._alone, self._reasons = {}, {}

    def _factor_those_alone(self):
        """Make the factors of systems that need their own and have none yet."""
        for i in map(int, np.flatnonzero(self._core.state() == ALONE)):
            if i not in self._alone and i not in self._reasons:
                try:
                    self._alone[i] = self._factor_alone(i)
                except SingularMatrixError as error:
                    self._reasons[i] = str(error)

    def _solve_those_alone(self, columns, x):
        """Write the solutions of systems with factors of their own to x, and give their warnings of one category as one."""
        warnings: dict[type[Warning], list[tuple[int, str]]] = {}
        for i, factor in sorted(self._alone.items()):
            with collected_warnings() as found:
                try:
                    x[i] = factor.solve(columns[i])
                except SingularMatrixError as error:
                    del self._alone[i]
                    self._reasons[i], x[i] = str(error), np.nan
            for category, message in found:
                warnings.setdefault(category, []).append((i, message))
        for category, seen in warnings.items():
            warn(f"{counted(len(seen), 'system')} of the batch, the first is system {seen[0][0]}: {seen[0][1]}", category)
