"""Transient analysis: the schedule of the steps, the initial state, and the loop over time. ``stepper.cpp`` has the steps.

``equations.cpp`` solves small circuits with a sparse factorization for few unknowns. :class:`Solver` solves larger ones.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from meshsolve import _core
from meshsolve.apps.circuit import controls
from meshsolve.apps.circuit.newton import SHARE, NoConvergence
from meshsolve.apps.circuit.sources import SAME
from meshsolve.errors import InvalidInputError, MeshsolveError, MeshsolveWarning, SingularMatrixError
from meshsolve.memory import ensure_memory
from meshsolve.report import announce, progress_to, warn

DEFAULT_STEPS = 50          # smallest number of steps from tstart to tstop
SHORT = (1e-9, 1e-6)        # lengths, relative to tstep, of the step from initial states to unknowns; second: for large currents
TAIL = 0.01                 # shortest last interval, relative to tstep: a shorter one is rounding
FIRST_STEP = 0.1, 200       # first step if tmax > tstep, as in SPICE: share of tstep, at most the run divided by 200
DEEPEST = 30                # most halvings of the longest step that sources or tmax may need
SMALLEST = 40               # most halvings that the error may need, for a few steps where a source begins to rise
JUMP = 26                   # halvings after which a change of state at a corner counts as a jump
GROWN = 1e9                 # unknowns beyond this multiple of the sources count as unbounded if the steps fail
DISTINCT = 256              # shortest step, in spacings of float64 at the end: shorter ones would not advance time
NATIVE = 256                # most unknowns of circuits whose time steps and sweeps of sources run in C++
VALUES = 2**21              # values kept between two checks of the memory
REACHED, MORE, TOO_SMALL, DIVERGED, TOO_FAST = range(5)     # Outcome in stepper.hpp


class Schedule(NamedTuple):
    """Ends of steps and times of results. The members are those of ``Schedule`` in ``stepper.hpp``."""

    unit: float
    longest: float
    same: float
    targets: np.ndarray
    first_kept: float
    spacing: float
    only_targets: bool
    trapezoidal: bool
    fixed: bool
    first_level: int
    coarsest: int
    smallest: int
    jump: int

    @property
    def rows(self):
        """Number of results to be kept, or None if the steps decide."""
        return int(np.count_nonzero(self.targets >= self.first_kept)) if self.only_targets else None


def schedule(tstep, tstop, tstart, tmax, method, fixed):
    """The steps of a run.

    Each multiple of ``tstep`` is a target, and results are kept at the targets. With ``tmax`` above ``tstep``, steps may be
    longer than ``tstep``, and results are kept at the ends of steps, at least ``tstep`` apart.
    """
    own_steps = tmax is not None and tmax > tstep and not fixed
    unit = min(tmax, tstop) if own_steps else tstep
    controls.require_times(unit, tstop)
    if tstart > tstop * (1 + 1e-9):
        raise InvalidInputError(f"tstart = {tstart:.10g} must be at most tstop = {tstop:.10g}: no result would be kept")
    targets = np.unique([0.0, min(tstart, tstop), tstop]) if own_steps else multiples(tstep, tstop)
    same = max(SAME * tstep, 16 * np.finfo(float).eps * tstop)
    longest = (tstop - tstart * (tstart < tstop)) / DEFAULT_STEPS if tmax is None else tmax
    finer = max(0, math.floor(math.log2(unit / tstep)))     # halvings from unit to tstep
    possible = math.floor(math.log2(unit / (DISTINCT * np.spacing(tstop))))
    share, part = FIRST_STEP
    first = math.ceil(math.log2(unit / (share * min(tstep, tstop / part)))) if own_steps else 0
    return Schedule(unit, longest, same, targets, tstart - max(same, 1e-9 * tstep), tstep * (1 - 1e-6), not own_steps,
                    method == "trap", fixed, min(first, DEEPEST), DEEPEST + finer, SMALLEST + finer, max(JUMP, min(JUMP + finer, possible)))


def warn_of_missed_waves(tstep, plan, sources, path):
    """Warn if results are so far apart that they show a sine as a constant or as another one."""
    period = min(s.shortest_period(plan.targets[-1]) for s in sources)
    if plan.only_targets and tstep >= 0.5 * period * (1 - 1e-9):
        warn(f"{path}: the results are {tstep:g} s apart, half a period or more of a source of {1 / period:.4g} Hz, and miss its waves: "
             f"decrease tstep below {0.05 * period:.1g} s", MeshsolveWarning)


def multiples(tstep, tstop):
    """0, tstep, 2 tstep, ..., tstop. A last interval shorter than TAIL is merged with the one before."""
    ratio = tstop / tstep
    count = max(1, math.floor(ratio + TAIL)) if ratio - math.floor(ratio) < TAIL or math.ceil(ratio) - ratio < TAIL else math.ceil(ratio)
    times = tstep * np.arange(count + 1)
    times[-1] = tstop
    return times


class Transient:
    """One transient analysis.

    Parameters
    ----------
    solver : Solver
    volts, amperes : Sources
    schedule : Schedule
    """

    def __init__(self, solver, volts, amperes, schedule):
        self.solver, self.system, self.options, self.report = solver, solver.system, solver.options, solver.report
        self.volts, self.amperes, self.schedule = volts, amperes, schedule

    def from_states(self, initial):
        """The unknowns at time 0 for given voltages of capacitors, currents of inductors and voltages of devices.

        They are the end of a very short step. The second length of SHORT is tried if the first one fails. A source overrides an
        initial state, such as the voltage of a capacitor across it.
        """
        (states, voltages), system = initial, self.system
        s = system.right_hand_side(self.volts.at(0.0), self.amperes.at(0.0))
        for share in SHORT:
            a = 1 / (share * self.schedule.unit)
            whole = s + system.inflow @ (system.storage * (a * states))
            try:
                if system.linear:
                    return self.solver.linear(a, whole)
                past = a * system.devices.at(voltages).charge if system.devices.stores else None
                return self.solver.newton(a, whole, np.zeros(system.n), self.options.itl1, past=past)[0]
            except (NoConvergence, SingularMatrixError) as e:       # conductances may be lost next to C / step
                failed = e
        singular = failed if isinstance(failed, SingularMatrixError) else failed.singular
        if singular:
            raise singular
        raise MeshsolveError(f"{system.netlist.path}: no voltages were found for the states in ic= and .ic: {failed}") from failed

    def march(self, x, keep):
        """Compute all steps, from the unknowns at time 0.

        Parameters
        ----------
        x : (n,) float64
        keep : (j,) int64

        Returns
        -------
        times : (points,) float64
        values : (points, j) float64
        """
        start, before = time.perf_counter(), sum(self.report.seconds.values())
        native = self._native(x, keep)
        times, parts, rows = [], [], 0
        outcome = MORE
        while outcome == MORE:
            announce("steps")
            with np.errstate(over="ignore", invalid="ignore"):      # an overflow ends in an error of its own
                try:
                    outcome = native.march(max(16, VALUES // max(len(keep), 1)))
                except (InvalidInputError, SingularMatrixError) as e:       # of a linear circuit
                    self._raise_if_grown(native, e)
                    raise
            t, values = native.take()
            times.append(t)
            parts.append(values.reshape(len(t), len(keep)))
            rows += len(t)
            ensure_memory(2 * values.nbytes * (outcome == MORE), f"keeping more than {rows:,} results (nodes= selects signals)")
        self._count(native)
        self.report.add("steps", time.perf_counter() - start - (sum(self.report.seconds.values()) - before))
        if outcome != REACHED:
            self._raise_if_grown(native)
            raise self._failure(outcome, *native.failure())
        return np.concatenate(times), np.concatenate(parts)

    def _native(self, x, keep):
        system, o = self.system, self.options
        y = system.states @ x
        if system.devices.stores:
            y = np.concatenate([y, system.devices.at(system.device_voltages(x)).charge])
        tolerances = {name: float(getattr(o, name)) for name in ("reltol", "vntol", "abstol", "chgtol", "trtol")}
        tolerances |= {"newton_steps": int(o.itl4)}
        most = GROWN * max(1.0, self.volts.largest, self.amperes.largest, np.abs(x).max())
        return _core.March(system.branches(), self.volts.native, self.amperes.native, tolerances, self.schedule._asdict(), keep, x, y,
                           small_part(self.solver), _equations(self.solver), most)

    def _count(self, native):
        taken, rejected, newton_steps, factorizations = native.counts()
        self.report.facts |= {"time_steps": taken, "rejected_steps": rejected}
        for name, by in (("newton_steps", newton_steps), ("refactorizations", factorizations - 1)):
            if by > 0:
                self.solver.count(name, by)

    def _raise_if_grown(self, native, cause=None):
        """Raise if a voltage or a current had left any reasonable range before the steps failed."""
        unknown, size, since, end = native.grown()
        if unknown >= 0:
            raise MeshsolveError(
                f"{self.system.netlist.path}: the circuit is unstable, its voltages or currents grow without bound: "
                f"{self.system.describe(unknown)} has more than {size:.1g} from {since:.4g} s on, and there is no solution after "
                f"{end:.4g} s. Likely causes: negative resistances, or feedback without a limit") from cause

    def _failure(self, outcome, t, length, by_newton, singular):
        path, failure = self.system.netlist.path, self.solver.failure
        if by_newton and singular and failure and failure.singular:
            return SingularMatrixError(f"{failure.singular}; at time {t:g} s, with any time step", failure.singular.index)
        if by_newton and outcome == TOO_SMALL:
            return MeshsolveError(f"{path}: Newton's method did not converge in {self.options.itl4:g} steps at time {t:g} s, also with "
                                  f"a time step of {length:.1g} s: check the models, or increase itl4, reltol, vntol or abstol in .options")
        if outcome == TOO_FAST:
            return MeshsolveError(f"{path}: the sources or tmax need steps of {length:.3g} s at time {t:g} s, too short compared with "
                                  f"the longest step of {self.schedule.unit:g} s: decrease tstep")
        if outcome == DIVERGED:
            return MeshsolveError(f"{path}: Newton's method did not converge in {self.options.itl4:g} steps at time {t:g} s with a "
                                  "fixed step: decrease tstep, or increase itl4 in .options")
        return MeshsolveError(f"{path}: the time step became too small at time {t:g} s: the error tolerance needs steps below "
                              f"{length:.1g} s. Decrease tstep, or increase reltol, vntol or abstol in .options")


def small_part(solver, most=None):
    """Data of the equations in C++ for a circuit of at most NATIVE, or ``most``, unknowns: the members of ``SmallSystem``. None for a
    larger one."""
    matrix = solver.matrix
    if solver.system.n > (most or NATIVE) or matrix is None:
        return None
    return {"indptr": matrix.indptr.astype(np.int32), "indices": matrix.indices, "fixed": matrix.static, "moving": matrix.moving,
            "slots": matrix.slots.astype(np.int64), "which": matrix.which.astype(np.int64), "sign": matrix.sign,
            "floor": solver.floor, "share": SHARE}


def _equations(solver):
    """The function that solves the equations of a step. It returns (unknowns, currents, charges), or None if Newton's method
    fails."""

    def solve(a, s, x, guess, past):
        if solver.factor is None:                           # the first factorization may take long
            answer = _solved(solver, a, s, x, guess, past)
            announce("steps")
            return answer
        with progress_to(None):                                 # only the steps report progress
            return _solved(solver, a, s, x, guess, past)

    return solve


def _solved(solver, a, s, x, guess, past):
    if solver.system.linear:
        return solver.linear(a, s), None, None
    try:
        x, law = solver.newton(a, s, x, solver.options.itl4, guess, past)
    except NoConvergence as e:
        solver.failure = e
        return None
    return x, law.current, law.charge
