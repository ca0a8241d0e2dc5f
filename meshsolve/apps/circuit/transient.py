"""Time steps: trapezoidal rule or backward Euler with control of the local error.

Steps are tstep / 2^k and end at each multiple of tstep and at each corner of a waveform, so that a linear circuit needs few
factorizations, and a single one where tstep is short enough. A sine takes sixteen steps a period or more: an error that is
estimated from states a whole period apart is 0. After a corner come two backward Euler steps of half the
length: they damp what the trapezoidal rule would let ring (Rannacher 1984, "Finite element solution of diffusion problems with
irregular data") and have the very matrix of a trapezoidal step of the whole length.
The error of a trapezoidal step is estimated from divided differences of the latest states (Nagel 1975, "SPICE2", section 5.4):
the slopes may ring where a state follows a source, the states do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshsolve.apps.circuit.newton import NoConvergence
from meshsolve.apps.circuit.sources import SAME
from meshsolve.errors import MeshsolveError

DEEPEST = 30                # halvings of tstep that sources or tmax may ask for
SMALLEST = 40               # and the error, which does so for a few steps, as where a source begins to rise from nothing
DISTINCT = 64               # spacings of float64 at the time: a step of fewer would not move on
MINOR = 1e-3                # a state smaller than this share of its group's largest is held to the tolerance of this share
RELAXED = 0.1               # of the tolerance: below it the next step may be twice as long


@dataclass
class State:
    """A point of the solution: unknowns, states (voltages of capacitors, currents of inductors, charges of junctions), slopes."""

    t: float
    x: np.ndarray               # (n,)
    y: np.ndarray               # (m + junctions that store,)
    slope: np.ndarray           # of y; of a charge it is a current


class Stepper:
    """Marches from a state; one object is one transient analysis.

    Parameters
    ----------
    solver : Solver
    volts, amperes : Sources
    tstep : float
        The longest step, and the distance of the times at which results are wanted; at most the length of the run.
    method : {"trap", "be"}
    fixed : bool
        Steps of tstep, whatever the error and the sources.
    tmax : float
        A longest step, where it is below tstep.
    """

    def __init__(self, solver, volts, amperes, tstep, method, fixed, tmax):
        self.solver, self.system, self.options = solver, solver.system, solver.options
        self.volts, self.amperes, self.tstep, self.tmax = volts, amperes, tstep, tmax
        self.trapezoidal, self.fixed = method == "trap", fixed
        self.level = self.coarsest = 0                      # halvings of tstep: of the usual step, and of the longest allowed
        self.lengths, self.largest = {}, np.empty(0)
        self.points, self.after_corner = [], True           # (t, y) of the latest states, at most three, none before a corner
        self.before = None                                  # the state before the latest one
        self.rejected = self.taken = 0

    def start(self, x):
        """The state at time 0 of a circuit at rest."""
        y = self._states(x)
        self.largest = np.abs(y)
        return State(0.0, x, y, np.zeros_like(y))

    def start_from_states(self, y, lengths):
        """The state at time 0 for given voltages of capacitors and currents of inductors: the end of a very short step, the first
        of the lengths for which there is one. What a source forces to another value, as the voltage of a capacitor across it, has
        that one."""
        x = np.zeros(self.system.n)
        charges = self._states(x)[len(y):]
        held = np.concatenate([y, charges])
        for length in lengths:
            try:
                return self.start(self._solve(State(0.0, x, held, np.zeros_like(held)), length, 0.0, False, self.options.itl1))
            except NoConvergence as e:
                failed = e
        raise MeshsolveError(f"{self.system.netlist.path}: nothing follows from the initial states: {failed}") from failed

    def advance(self, state, end):
        """The state at time ``end``."""
        tiny = SAME * self.tstep
        while state.t < end - tiny:
            corner = np.inf if self.fixed else min(s.next_corner(state.t + tiny) for s in (self.volts, self.amperes))
            self._limit(state.t + tiny)
            state = self._segment(state, corner if corner < end - tiny else end)
            self.after_corner |= corner <= state.t + tiny
        return state

    def _limit(self, t):
        """Sets how long steps may be from time t on. What stores nothing takes no harm from long ones."""
        if self.fixed or not len(self.largest):
            return
        longest = min(self.tmax, self.volts.longest_step(t), self.amperes.longest_step(t))
        self.coarsest = max(0, int(np.ceil(np.log2(self.tstep / longest) - SAME)))
        if self.coarsest > DEEPEST:
            raise MeshsolveError(f"{self.system.netlist.path}: at time {t:g} steps of {longest:.3g} are needed, too short beside "
                                 f"tstep = {self.tstep:g}")
        self.level = max(self.level, self.coarsest)

    def _segment(self, state, stop):
        """Equal steps to ``stop``, more and shorter ones where the error is too large."""
        while state.t < stop - SAME * self.tstep:
            length, end = self._length(state.t, stop)
            try:
                new, excess = self._step(state, length, end)
            except NoConvergence as e:
                if self.fixed:
                    raise MeshsolveError(f"{self.system.netlist.path}: {e} at time {end:g} with a fixed step") from e
                new, excess = None, 16.0
            if excess > 1:
                self._refine(excess, state.t)
                continue
            self._accept(state, new)
            self._relax(excess, new.t, stop)
            state = new
        return state

    def _length(self, t, stop):
        """The length of the next step and its end. Equal lengths are the same number: their matrices are the same."""
        usual = self.tstep / 2.0 ** self.level
        count = max(1.0, np.ceil((stop - t) / usual - 1e-6))
        length = usual if _whole((stop - t) / usual) else self.lengths.setdefault(f"{(stop - t) / count:.9e}", (stop - t) / count)
        return length, stop if count == 1 else t + length

    def _step(self, state, length, end):
        """One step, and how many times the tolerance its error is."""
        if not self.trapezoidal and (self.fixed or not self.after_corner):
            new = self._to(state, length, end, False)
            return new, 0.0 if self.fixed else self._excess(0.5 * length * np.abs(new.slope - state.slope), new, length)
        if self.after_corner:                               # slopes may have jumped
            middle = self._to(state, length / 2, end - length / 2, False)
            new = self._to(middle, length / 2, end, False)
            self.points = [(state.t, state.y), (middle.t, middle.y)]
            return new, self._excess(0.5 * length * np.abs(new.slope - middle.slope), new, length)
        new = self._to(state, length, end, True)
        third = _divided_difference([*self.points, (end, new.y)])
        return new, self._excess(0.5 * length ** 3 * np.abs(third), new, length)

    def _accept(self, state, new):
        self.taken += 1
        self.before = state
        self.points = [*self.points[-2:], (new.t, new.y)]
        self.after_corner = False
        if self.fixed:                                      # no error is looked at
            return
        size, m = np.abs(new.y), len(self.system.storage)
        np.maximum(self.largest[:m], size[:m], out=self.largest[:m])
        self.largest[m:] = size[m:]                         # charges vary over many decades: only the present one counts

    def _refine(self, excess, t):
        self.rejected += 1
        self.level += int(np.clip(np.ceil(np.log2(excess) / (3 if self.trapezoidal else 2)), 1, 4))
        if self.level > SMALLEST or self.tstep / 2.0 ** self.level < DISTINCT * np.spacing(t):
            raise MeshsolveError(f"{self.system.netlist.path}: the time step became too small at time {t:g}: the error asks for "
                                 f"steps below {self.tstep / 2.0 ** self.level:.1g}; a shorter tstep, or a larger reltol, vntol or "
                                 "abstol in .options may help")

    def _relax(self, excess, t, stop):
        """Twice the length where the error allows it; steps that divide the rest to ``stop`` go on dividing it."""
        usual = self.tstep / 2.0 ** self.level
        odd = _whole((stop - t) / usual) and not _whole((stop - t) / (2 * usual))
        if excess < RELAXED and self.level > self.coarsest and not odd:
            self.level -= 1

    def _to(self, state, length, end, trapezoidal):
        """The state at ``end``, ``length`` after ``state``."""
        x = self._solve(state, length, end, trapezoidal)
        y = self._states(x)
        slope = (2 if trapezoidal else 1) / length * (y - state.y)
        return State(end, x, y, slope - state.slope if trapezoidal else slope)

    def _solve(self, state, length, end, trapezoidal, limit=None):
        system, m = self.system, len(self.system.storage)
        a = (2 if trapezoidal else 1) / length
        past = a * state.y + state.slope if trapezoidal else a * state.y
        s = system.right_hand_side(self.volts.at(end), self.amperes.at(end)) + system.inflow @ (system.storage * past[:m])
        if system.linear:
            return self.solver.linear(a, s)

        def charging(v):
            charge, capacitance = system.diodes.charge(v)
            return a * charge - past[m:], a * capacitance

        charges = charging if system.diodes.stores else None
        return self.solver.newton(a, s, state.x, limit or self.options.itl4, self._guess(state, length), charges)

    def _guess(self, state, length):
        """The unknowns on a line through the latest two states, but not across a corner."""
        if self.after_corner or self.before is None:
            return None
        return state.x + (state.x - self.before.x) * (length / (state.t - self.before.t))

    def _states(self, x):
        y = self.system.states @ x
        return np.append(y, self.system.diodes.charge(self.system.junctions(x))[0]) if self.system.diodes.stores else y

    def _excess(self, error, new, length):
        """The largest error of a state, in tolerances."""
        if self.fixed:
            return 0.0
        o, k, m, worst = self.options, self.system.capacitors, len(self.system.storage), 0.0
        charge = self._charge_floor(new.x, length) if len(new.y) > m else 0.0
        for part, floor in ((slice(0, k), o.vntol), (slice(k, m), o.abstol), (slice(m, None), charge)):
            size = np.maximum(self.largest[part], np.abs(new.y[part]))
            if len(size):
                size = np.maximum(size, MINOR * size.max())
                worst = max(worst, float((error[part] / (o.trtol * (o.reltol * size + floor))).max()))
        return worst

    def _charge_floor(self, x, length):
        """Errors of the junctions' charges that do not count: what the junctions' currents carry in this time, in part."""
        current = self.system.diodes.current(self.system.junctions(x))[0]
        return self.options.chgtol + length * self.options.reltol * np.abs(current)


def _divided_difference(points):
    """The highest divided difference of (t, y) points: a k-th derivative over k!."""
    times, values = zip(*points)
    for order in range(1, len(times)):
        values = [(b - a) / (times[k + order] - times[k]) for k, (a, b) in enumerate(zip(values, values[1:]))]
    return values[0]


def _whole(count):
    """Is the count of steps an integer, but for rounding?"""
    return abs(count - round(count)) < 1e-6 * max(1.0, count)
