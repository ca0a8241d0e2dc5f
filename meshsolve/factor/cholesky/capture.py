"""Refactorizations and solves on the GPU as one CUDA graph: a loop that launches it needs the host for one call a step.

    with F.capture() as step:           # runs the calls, and records them
        F.refactor(A)
        F.solve(b, out=x)
    A.data[:] = ...                     # the same memory, other numbers
    step.launch()                       # queues the graph, and returns
    F.check()                           # waits, and raises what went wrong since the last check

A launch writes the factor before its pivots are read. Until the check, :class:`Unchecked` stands in for the factor. The kernels of
capture.cu note the first launch that failed or is in doubt, and fill the solutions of a failed launch with NaN.
"""

from __future__ import annotations

import functools
import threading
from typing import Self

import numpy as np

from meshsolve import device
from meshsolve.errors import InvalidInputError, MeshsolveWarning, NotPositiveDefiniteError
from meshsolve.factor.cholesky.cuda import BIAS
from meshsolve.factor.cholesky.numeric import DOUBTFUL, Definite
from meshsolve.factor.cholesky.singular import LEAST_EXPONENT
from meshsolve.factor.fronts.plan import NONE, STALL
from meshsolve.factor.sharing import changes
from meshsolve.report import warn
from meshsolve.sparse.check_cuda import ANY_SIZE, NOT_FINITE, NOT_SYMMETRIC, OTHER_NULL_SPACE, OTHER_PATTERN, SIZABLE, VANISHES
from meshsolve.sparse.constraints import NOT_IN_RANGE
from meshsolve.sparse.places import on_device
from meshsolve.sparse.queued_cuda import OUTSIDE_RANGE, FreeSolve

K = device.kernels("factor/cholesky/capture.cu")
RHS_NOT_FINITE = 1 << 16                                    # none of the bits of check_cuda.py
OF_SOLVES = RHS_NOT_FINITE | OUTSIDE_RANGE
WRONG = OTHER_PATTERN | NOT_FINITE | NOT_SYMMETRIC | OTHER_NULL_SPACE | RHS_NOT_FINITE | STALL
MEANINGS = ((OTHER_PATTERN, "the pattern of the matrix differs from that at the capture"), (NOT_FINITE, "the matrix is not finite"),
            (NOT_SYMMETRIC, "the matrix may not be symmetric"), (RHS_NOT_FINITE, "a right-hand side or a prescribed value is not finite"),
            (OTHER_NULL_SPACE, "a row may not sum to 0, or an entry joins two components"),
            (VANISHES, "the matrix may be singular, as a Laplacian"), (STALL, "the kernel made no progress"))
FIXED = "the calls inside capture() are repeated on the same memory: "


class Captured:
    """A captured refactorization, captured solves, or one followed by the others. :meth:`CholeskyFactor.capture` makes it."""

    def __init__(self, factor):
        self._factor, self._thread = factor, threading.get_ident()
        self.matrix, self._later, self._coupling, self._solves, self._launch = None, None, None, [], None

    def __enter__(self) -> Captured:
        if self._launch is not None or self._factor._recorder is not None:
            raise InvalidInputError("a capture records once, a factor one capture at a time: end the with block, call F.capture() again")
        self._factor._recorder = self
        return self

    def __exit__(self, kind, error, traceback):
        self._factor._recorder = None
        if kind is None:
            with self._factor._errors("the capture"):
                self._factor._record(self)

    def launch(self) -> None:
        """Queue the captured calls on the current stream, with the numbers that their arrays have by then. Does not wait.

        Solutions are valid if ``F.check()`` raises nothing. If a pivot is not positive, or the matrix or a right-hand side is not finite,
        all solutions of the launch become NaN.

        Raises
        ------
        InvalidInputError
            The ``with`` block has not ended, or has ended with an exception.
        FactorInUseError
            Another call uses the factor at this time.
        """
        if self._launch is None:
            raise InvalidInputError("nothing was captured: launch after the with block, if that has raised nothing")
        with self._factor._errors("the captured step"):
            self._factor._launch(self)

    # ---- for the factor -------------------------------------------------------------------------------------------------

    def note_refactor(self, A):
        """Note a refactorization that has succeeded."""
        if threading.get_ident() != self._thread:
            return
        if self.matrix is not None or self._solves:
            raise InvalidInputError("capture() takes one refactor(A), before the solves")
        later = self._factor._values.later(A) if on_device(A) else None
        if later is None:
            raise InvalidInputError(FIXED + "refactor() takes a matrix on the GPU, in compressed rows of float64 with int32 indices")
        self.matrix, self._later, self._coupling = A, later, self._factor._values.new_coupling()

    def note_solve(self, b, out, fixed_values, is_plain):
        """Note a solve that has succeeded. ``is_plain``: it has no other arguments."""
        if threading.get_ident() != self._thread:
            return
        arrays = [_fixed_array(array) for array in (b, out)]
        if not is_plain or any(array is None for array in arrays):
            raise InvalidInputError(FIXED + "solve(b, out=x) takes contiguous float64 arrays b and x on the GPU, and no other argument "
                                            "than fixed_values=")
        if isinstance(fixed_values, (int, float)):
            fixed_values = device.xp().full((1, 1), float(fixed_values))
        values = None if fixed_values is None else _fixed_array(fixed_values)
        if fixed_values is not None and values is None:
            raise InvalidInputError(FIXED + "fixed_values= takes a contiguous float64 array on the GPU, or one number")
        constraint, columns = self._factor._constraint, [array.reshape(len(array), -1) for array in arrays]
        self._solves.append(FreeSolve(*columns) if constraint is None else constraint.queued(*columns, values))

    def record(self, engine):
        """Record the noted calls as work of ``engine``, the factor on the GPU."""
        if self.matrix is None and not self._solves:
            raise InvalidInputError("nothing was captured: call F.refactor(A) or F.solve(b, out=x) inside the with block")
        self._engine, self._pending, self._watched = engine, engine.pending, self._factor._null_space.watched
        self._noted, self._spaces = device.xp().zeros(9, np.int32), [engine.work_space(solve.b.shape[1]) for solve in self._solves]
        if self.matrix is None and self._factor._constraint is not None:
            indptr, indices, data = self._factor._constraint.coupling
            self._coupling = indptr, indices, data.copy()
        try:
            self._queue()                                   # compiles the kernels
            launch = device.record(self._queue)
        except BaseException:
            engine.restore()
            raise
        self.settle()
        self._launch = launch

    def queue(self):
        """Queue the graph."""
        if self.matrix is not None:
            self._engine.open(self._pending)
        else:
            self._engine.require_factor()
            self._take_coupling()
        self._launch()

    def settle(self):
        """Wait, and raise what went wrong since the last call; the earlier factor is then restored. Warns as a solve."""
        engine, constraint = self._engine, self._factor._constraint
        coupling, changes = getattr(constraint, "coupling", None), engine.changes
        launches, first, *words, all_bits = device.to_host(self._noted).tolist()
        self._noted[:] = 0
        try:
            if 0 < first < launches:
                raise _earlier(first, launches, self._factor.perm, *words[:3])
            failed, least, bits = words[3:]
            engine.refuse_stall(bits)
            if self.matrix is not None:
                if self._factor._examine(self.matrix, bits & ~OF_SOLVES, engine.column_of(failed, least)) is not None:
                    raise self._other_matrix()
                if constraint is not None:
                    constraint.coupling = (*self._coupling[:2], self._coupling[2].copy())
                engine.keep()
            if bits & RHS_NOT_FINITE:
                for solve in self._solves:
                    solve.require_finite()
                raise InvalidInputError("a right-hand side or a prescribed value was not finite when the step ran")
        except BaseException:                               # Ctrl-C as well
            if constraint is not None and engine.changes == changes:
                constraint.coupling = coupling
            engine.restore()
            raise
        if all_bits & OUTSIDE_RANGE:
            warn(NOT_IN_RANGE, MeshsolveWarning)

    def _queue(self):
        engine, launch_1d = self._engine, device.launch_1d
        if self.matrix is None:
            engine.reset()
        else:
            engine.queue(lambda values, bits: self._later.check(values, self._coupling and self._coupling[2], self._watched, DOUBTFUL,
                                                                ANY_SIZE, bits))
        for solve, space in zip(self._solves, self._spaces):
            solve.queue(functools.partial(engine.solve_into, "A", space=space), self._coupling, engine.bits, self._check_finite)
        least, accepted = np.int32(LEAST_EXPONENT[engine.dtype] + BIAS), np.int32(SIZABLE | OUTSIDE_RANGE)
        device.launch(K.k_note, 1, 32, 0, (accepted, least, np.int32(STALL), engine.status, self._noted))
        for solve in self._solves:
            launch_1d(K.k_spoil, solve.x.size, np.int64(solve.x.size), np.int32(WRONG), engine.status, solve.x)

    def _other_matrix(self):
        """Return the error for a matrix that only ``refactor`` takes."""
        doubt, self._factor._values.doubt = self._factor._values.doubt, None
        if doubt is not None:
            return InvalidInputError("mirror entries of A differ by more than rounding: F.refactor(A) decides if A counts as symmetric")
        return InvalidInputError("the pattern of A differs from that at the capture: capture again, or call F.refactor(A)")

    def _check_finite(self, array):
        """Queue a check of an array on the GPU that a solve reads."""
        device.launch_1d(K.k_check_rhs, array.size, np.int64(array.size), array, np.int32(RHS_NOT_FINITE), self._engine.status)

    def _take_coupling(self):
        """Copy the coupling of the matrix, which a later refactorization may have changed, to the memory that the graph reads."""
        if self._coupling is None:
            return
        indptr, _, data = self._factor._constraint.coupling
        if indptr is not self._coupling[0]:
            raise InvalidInputError("the pattern of the entries between free and fixed rows has changed since the capture: capture again")
        self._coupling[2][:] = data


class Capturing(Definite):
    """A factor whose calls can be captured: :meth:`capture` and :meth:`check` of a CholeskyFactor."""

    precision: str
    _recorder: Captured | None = None                       # during the with block of capture()

    def capture(self) -> Captured:
        """Record a refactorization, solves, or one followed by the others, as a CUDA graph that is launched without waiting.

        ::

            with F.capture() as step:       # runs the calls, and records them
                F.refactor(A)
                F.solve(b, out=x)
            for values in sequence:
                A.data[:] = values          # the same memory, other numbers
                step.launch()
                F.check()                   # here or after the loop

        Returns
        -------
        Captured
            A context manager with ``.launch()``. A launch reads the memory of ``A`` and ``b`` and writes that of ``x``.

        Raises
        ------
        InvalidInputError
            The factor lies on the host, is stored in float32, was made by cuDSS, or ``pin=True`` leaves nothing to solve for. Inside the
            block: another order of calls, arrays on the host or of other types.

        Notes
        -----
        The graph has the launches of the calls, and keeps its arrays: those of A, b, x and ``fixed_values``, and the work space of the
        solves. One number as ``fixed_values`` is a constant of the graph.
        """
        if not self.can_be_captured:
            raise InvalidInputError('capture() is for factors with device="cuda" and precision="double" by backend="native", with '
                                    "rows that are not isolated: call F.refactor(A) and F.solve(b) instead")
        return Captured(self)

    def check(self) -> Self:
        """Wait for the launches of captured steps since the last check, and raise what went wrong. Other calls of the factor check first.

        With ``pin=True`` it warns if a right-hand side was not in the range of the matrix.

        Returns
        -------
        CholeskyFactor
            This factor.

        Raises
        ------
        NotPositiveDefiniteError
            A pivot was not positive; ``.column`` as in :func:`meshsolve.cholesky`. The factor of the last check is restored.
        NotSymmetricError, InvalidInputError
            A matrix was not symmetric or not finite, or its pattern has changed; a right-hand side was not finite. If several launches
            were queued, the message names the first that failed.
        """
        with self._turn(), self._errors("the captured step"):
            waiting = self._factor
            if type(waiting) is Unchecked:
                self._factor = waiting.engine
                waiting.step.settle()
        return self

    @property
    def can_be_captured(self) -> bool:
        """True if :meth:`capture` takes this factor."""
        return not getattr(self._constraint, "alone", False) and self.precision == "double" and hasattr(self._factor, "column_of")

    @changes
    def _record(self, step):
        step.record(self.check()._factor)

    @changes
    def _launch(self, step):
        waiting = self._factor
        if type(waiting) is Unchecked and waiting.step is not step:
            self.check()
        step.queue()
        if type(self._factor) is not Unchecked:
            self._factor = Unchecked(self.check, self._factor, step)


class Unchecked:
    """Stands in for the factor after a launch: the first use of the factor checks it.

    Parameters
    ----------
    check : callable
        Puts ``engine`` in its place, or raises.
    engine : DeviceFactor
    step : Captured
        The last launched step.
    """

    def __init__(self, check, engine, step):
        self.__dict__.update(_check=check, engine=engine, step=step)

    def __getattr__(self, name):
        self._check()
        return getattr(self.engine, name)


def _fixed_array(array):
    """Return a contiguous float64 array on the GPU as an array of :func:`device.xp`, None for anything else."""
    array = device.asarray(array) if device.holds(array) else None
    return array if array is not None and array.dtype == np.float64 and array.flags.c_contiguous else None


def _earlier(first, launches, perm, failed, least, bits):
    """Return the error of a launch whose matrix was overwritten by later ones."""
    which = f"launch {first} of {launches} since the last check: "
    advice = "; its arrays have been overwritten since: check after each launch for more"
    found = [meaning for bit, meaning in MEANINGS if bits & bit]
    if failed != NONE and not bits & WRONG:
        column = int(perm[failed])
        return NotPositiveDefiniteError(f"{which}the pivot of column {column} is not positive{advice}", column)
    return InvalidInputError(which + (", ".join(found) or "the matrix may be singular to working precision") + advice)
