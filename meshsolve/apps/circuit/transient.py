"""Time steps: trapezoidal rule or backward Euler with control of the local error.

Steps are tstep / 2^k and end at each multiple of tstep and at each corner of a waveform, so that a linear circuit needs few
factorizations, and a single one where tstep is short enough. A sine takes sixteen steps a period or more: an error that is
estimated from states a whole period apart is 0. After a corner come two backward Euler steps of half the
length: they damp what the trapezoidal rule would let ring (Rannacher 1984, "Finite element solution of diffusion problems with
irregular data") and have the very matrix of a trapezoidal step of the whole length.
The error of a trapezoidal step is estimated from divided differences of the latest states (Nagel 1975, "SPICE2", section 5.4):
the slopes may ring where a state follows a source, the states do not. Where the voltages of junctions ring with the slopes of their
charges, two such steps are taken as well. Newton's method begins on the parabola through the latest three states, whose error is
that of the step itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from meshsolve.apps.circuit.newton import NoConvergence
from meshsolve.apps.circuit.sources import SAME
from meshsolve.errors import MeshsolveError, SingularMatrixError

DEEPEST = 30                # halvings of tstep that sources or tmax may ask for
SMALLEST = 40               # and the error, which does so for a few steps, as where a source begins to rise from nothing
JUMP = 26                   # halvings of tstep after which a state that moves on at a corner is taken to jump there
DISTINCT = 64               # spacings of float64 at the time: a step of fewer would not move on
MINOR = 1e-3                # a state smaller than this share of its group's largest is held to the tolerance of this share
TURNED = 0.5                # of the current that a junction's capacitance gave: what it takes in the next step if the rule rings
RELAXED = 0.1               # of the tolerance: below it the next step may be twice as long


@dataclass
class State:
    """A point of the solution: unknowns, states (voltages of capacitors, currents of inductors, charges of junctions), slopes."""

    t: float
    x: np.ndarray               # (n,)
    y: np.ndarray               # (m + junctions that store,)
    slope: np.ndarray           # of y; of a charge it is a current
    flow: np.ndarray | None = None      # (diodes,) currents of the junctions, but for those of their capacitances


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
        self._longest = None                                # step of which ``coarsest`` is known
        k, m = self.system.capacitors, len(self.system.storage)
        ends = [0, k, m, m + len(self.system.diodes) * self.system.diodes.stores]
        self._groups = [slice(*pair) for pair in zip(ends, ends[1:]) if pair[0] < pair[1]]       # states of one unit
        self._floor = np.repeat([self.options.vntol, self.options.abstol, 0.0], np.diff(ends))  # errors that do not count
        self.points, self.after_corner = [], True           # (t, y) of the latest states, at most three, none before a corner
        self.jumped = False                                 # since the latest corner
        self.recent = []                                    # (t, x) of at most two states before the latest one
        self.turned = np.False_                             # junctions whose currents turned in the latest step
        self.rejected = self.taken = 0

    def start(self, x):
        """The state at time 0 of a circuit at rest."""
        y = self._states(x, self._law(x))
        self.largest = np.abs(y)
        return State(0.0, x, y, np.zeros_like(y))

    def start_from_states(self, initial, lengths):
        """The state at time 0 for initial states, voltages of capacitors and currents of inductors, and initial voltages of junctions,
        from which their charges follow: the end of a very short step, the first of the lengths for which there is one. What a source
        forces to another value, as the voltage of a capacitor across it, has that one."""
        (y, junctions), x = initial, np.zeros(self.system.n)
        held = np.concatenate([y, self.system.diodes.charge(junctions)[0]]) if self.system.diodes.stores else y
        for length in lengths:
            try:
                return self.start(self._solve(State(0.0, x, held, np.zeros_like(held)), length, 0.0, False, self.options.itl1)[0])
            except (NoConvergence, SingularMatrixError) as e:       # so short a step may leave conductances no digits beside capacitances
                failed = e
        if isinstance(failed, SingularMatrixError):
            raise failed
        raise MeshsolveError(f"{self.system.netlist.path}: nothing follows from the initial states: {failed}") from failed

    def advance(self, state, end):
        """The state at time ``end``."""
        tiny = SAME * self.tstep
        while state.t < end - tiny:
            corner = math.inf if self.fixed else min(self.volts.next_corner(state.t + tiny), self.amperes.next_corner(state.t + tiny))
            self._limit(state.t + tiny)
            state = self._segment(state, corner if corner < end - tiny else end)
            if corner <= state.t + tiny:
                self.after_corner, self.jumped = True, False
        return state

    def _limit(self, t):
        """Sets how long steps may be from time t on. What stores nothing takes no harm from long ones."""
        if self.fixed or not len(self.largest):
            return
        longest = min(self.tmax, self.volts.longest_step(t), self.amperes.longest_step(t))
        if longest != self._longest:
            self._longest, self.coarsest = longest, max(0, int(np.ceil(np.log2(self.tstep / longest) - SAME)))
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
            jumps = new is not None and excess > 1 and self._may_jump()
            if excess > 1 and not jumps:
                self._refine(excess, state.t)
                continue
            self._accept(state, new)
            if jumps:                                       # and goes on from there as from a corner
                self.after_corner = self.jumped = True
                self.level = self.coarsest
            else:
                self._relax(excess, new.t, stop)
            state = new
        return state

    def _may_jump(self):
        """Whether the present step may end with another state than it begins with, however short it is: once at each corner. The
        capacitor at the output of a differentiator has to where the slope of the input jumps."""
        return self.after_corner and not self.jumped and self.level >= JUMP

    def _length(self, t, stop):
        """The length of the next step and its end. Equal lengths are the same number: their matrices are the same."""
        usual = self.tstep / 2.0 ** self.level
        count = max(1, math.ceil((stop - t) / usual - 1e-6))
        length = usual if _whole((stop - t) / usual) else self.lengths.setdefault(f"{(stop - t) / count:.9e}", (stop - t) / count)
        return length, stop if count == 1 else t + length

    def _step(self, state, length, end):
        """One step, and how many times the tolerance its error is."""
        if not self.trapezoidal and (self.fixed or not self.after_corner):
            new = self._to(state, length, end, False)
            return new, 0.0 if self.fixed else self._excess(0.5 * length * np.abs(new.slope - state.slope), new, length)
        if self.after_corner:                               # slopes may have jumped
            return self._damped(state, length, end)
        new = self._to(state, length, end, True)
        third = _divided_difference([*self.points, (end, new.y)])
        excess = self._excess(0.5 * length ** 3 * np.abs(third), new, length)
        return (new, excess) if excess > 1 else self._steadied(state, new, length, end, excess)

    def _steadied(self, state, new, length, end, excess):
        """A trapezoidal step and its excess, or in its place a damped one where junctions turn and that is exact enough. Else those
        that have turned in the step before as well go on with their mean slopes, which ends what rings from here on."""
        turned, before, points, m = self._turned(state, new), self.turned, self.points, len(self.system.storage)
        if np.count_nonzero(turned):
            if not self.fixed:                              # where no error is looked at, the rule stays
                damped, its_excess = self._damped(state, length, end)
                if its_excess <= 1:
                    return damped, its_excess
            np.copyto(new.slope[m:], (new.y - state.y)[m:] / length, where=turned & before)
        self.points, self.turned = points, turned
        return new, excess

    def _damped(self, state, length, end):
        """Two backward Euler steps of half the length, as one step, and its excess."""
        middle = self._to(state, length / 2, end - length / 2, False)
        new = self._to(middle, length / 2, end, False)
        self.points, self.turned = [(state.t, state.y), (middle.t, middle.y)], np.False_
        return new, self._excess(0.5 * length * np.abs(new.slope - middle.slope), new, length)

    def _turned(self, state, new):
        """Junctions whose capacitance takes current now and has given about as much before, or the other way round, and whose voltage
        moves by that. A step far longer than it takes to charge them rings so, about the voltage at rest, and the charges need not
        show it: in reverse they hardly depend on the voltage, or they are below chgtol."""
        if not self.system.diodes.stores:
            return np.False_
        m = len(self.system.storage)
        before, after = state.slope[m:], new.slope[m:]
        turned = before * after < 0
        if not np.count_nonzero(turned):
            return turned
        turned &= (np.abs(after) > TURNED * np.abs(before)) & (np.abs(after) <= np.abs(before))
        v = self.system.junctions(new.x)
        return turned & (np.abs(v - self.system.junctions(state.x)) > self.system.diodes.room(v, self.options))

    def _accept(self, state, new):
        self.taken += 1
        self.recent = [*(() if self.after_corner else self.recent[-1:]), (state.t, state.x)]
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
        x, law = self._solve(state, length, end, trapezoidal)
        y = self._states(x, law)
        slope = (2 if trapezoidal else 1) / length * (y - state.y)
        return State(end, x, y, slope - state.slope if trapezoidal else slope, law and law.current)

    def _solve(self, state, length, end, trapezoidal, limit=None):
        """The unknowns at ``end`` and, with diodes, the law of their junctions there."""
        system, m = self.system, len(self.system.storage)
        a = (2 if trapezoidal else 1) / length
        past = a * state.y + state.slope if trapezoidal else a * state.y
        s = system.right_hand_side(self.volts.at(end), self.amperes.at(end)) + system.inflow @ (system.storage * past[:m])
        if system.linear:
            return self.solver.linear(a, s), None
        return self.solver.newton(a, s, state.x, limit or self.options.itl4, self._guess(state, length),
                                  past[m:] if system.diodes.stores else None)

    def _guess(self, state, length):
        """The unknowns on the parabola through the latest three states since a corner, or a line through two."""
        if self.after_corner or not self.recent:
            return None
        t, here = state.t + length, state.t
        t1, x1 = self.recent[-1]
        if len(self.recent) == 1:
            return state.x + (state.x - x1) * (length / (here - t1))
        t0, x0 = self.recent[0]
        out = state.x * ((t - t0) * (t - t1) / ((here - t0) * (here - t1)))
        out += x1 * ((t - t0) * length / ((t1 - t0) * (t1 - here)))
        out += x0 * (length * (t - t1) / ((t0 - here) * (t0 - t1)))
        return out

    def _law(self, x):
        """The law of the junctions, where there are any."""
        return None if self.system.linear else self.system.diodes.at(self.system.junctions(x))

    def _states(self, x, law):
        y = self.system.states @ x
        return np.concatenate([y, law.charge]) if self.system.diodes.stores else y

    def _excess(self, error, new, length):
        """The largest error of a state, in tolerances."""
        if self.fixed or not len(new.y):
            return 0.0
        o, m = self.options, len(self.system.storage)
        size = np.maximum(self.largest, np.abs(new.y))
        for group in self._groups:
            part = size[group]
            np.maximum(part, MINOR * np.maximum.reduce(part), out=part)
        if len(size) > m:                                   # what the junctions' currents carry in this time does not count, in part
            self._floor[m:] = np.abs(new.flow) * (length * o.reltol) + o.chgtol
        size *= o.reltol
        size += self._floor
        return float(np.maximum.reduce(error / size)) / o.trtol


def _divided_difference(points):
    """The highest divided difference of (t, y) points: a k-th derivative over k!."""
    out = 0.0
    for t, y in points:
        weight = 1.0
        for other, _ in points:
            if other != t:
                weight *= t - other
        out = out + y * (1 / weight)
    return out


def _whole(count):
    """Is the count of steps an integer, but for rounding?"""
    return abs(count - round(count)) < 1e-6 * max(1.0, count)
