"""Waveforms of independent sources, all sources of one kind at once; their corners are where a time step has to end."""

from __future__ import annotations

import numpy as np

STEPS_A_PERIOD = 16         # of a sine at least: fewer could meet it at the same phases and see nothing
SAME = 1e-9                 # of tstep, or of tstop where that is shorter: times that count as equal
FADED = 20.0                # time constants of its damping after which a sine is over: 2e-9 of it are left


class Sources:
    """The independent voltage or current sources of a deck.

    Parameters
    ----------
    elements : Elements
        Of letter v or i.
    waveforms : list of (kind, values)
    tstep, tstop : float
        Stand in for rise and fall times, widths and periods that the deck leaves out, as in SPICE.
    """

    def __init__(self, elements, waveforms, tstep=1.0, tstop=1.0):
        dc, magnitude, phase = elements.values.T
        self.ac = magnitude * np.exp(1j * np.radians(phase))
        self.dc = np.where(np.isnan(dc), 0.0, dc)
        self.waves = []
        timed = np.flatnonzero(elements.refs >= 0)
        kinds = np.array([waveforms[r][0] for r in elements.refs[timed]], dtype="U1")
        for kind, make in (("p", Pulses), ("s", Sines), ("e", Exponentials), ("w", Lines)):
            which = timed[kinds == kind]
            if len(which):
                self.waves.append((which, make([waveforms[r][1] for r in elements.refs[which]], tstep, tstop)))
        start = self.at(0.0)
        self.dc = np.where(np.isnan(dc), start, self.dc)
        self._steady = not any(isinstance(wave, Sines) and wave.damped for _, wave in self.waves)
        self._between, self._longest = (np.inf, -np.inf), np.inf     # corners of the latest look-up, and the longest step there

    def at(self, t):
        """(k,) values at time t. Not to be written to."""
        if not self.waves:
            return self.dc
        out = self.dc.copy()
        for which, wave in self.waves:
            out[which] = wave.at(t)
        return out

    def next_corner(self, t):
        """The first time after t at which a waveform is not smooth; infinity if there is none."""
        if not self._between[0] <= t < self._between[1]:
            self._between = t, float(min((wave.next_corner(t) for _, wave in self.waves), default=np.inf))
            self._longest = None
        return self._between[1]

    def longest_step(self, t):
        """The longest step that still follows the sines that swing at time t; infinity if there is none. The other waveforms
        are followed from corner to corner."""
        self.next_corner(t)                                 # no sine begins before it
        if self._longest is None or not self._steady:
            self._longest = float(min((wave.longest_step(t) for _, wave in self.waves if isinstance(wave, Sines)), default=np.inf))
        return self._longest


def _table(values, width):
    """(k, width) with NaN for what the deck leaves out."""
    out = np.full((len(values), width), np.nan)
    for row, given in zip(out, values):
        row[:len(given)] = given
    return out


def _or(values, default):
    return np.where(np.isnan(values), default, values)


class Pulses:
    """PULSE(v1 v2 delay rise fall width period pulses); many sources share few shapes. A time of 0 is one left out, as in SPICE.
    A pulse that is longer than its period is cut off there; the value at this time is the one before it, as for PWL."""

    def __init__(self, values, tstep, tstop):
        self.low, self.high, delay, *times = _table(values, 8).T
        rise, fall, width, period, pulses = (np.where(_or(x, 0.0) > 0, x, default)
                                             for x, default in zip(times, (tstep, tstep, tstop, tstop, np.inf)))
        shapes, inverse = np.unique(np.stack([_or(delay, 0.0), rise, fall, width, period, pulses]), axis=1, return_inverse=True)
        self.start, self.rise, self.fall, self.width, self.every, pulses = shapes
        self.stop, self.late = self.start + self.every * pulses, SAME * min(tstep, tstop)
        self.shape = inverse.reshape(-1)                    # of each source
        self.corners = np.cumsum(np.stack([np.zeros_like(self.start), self.rise, self.width, self.fall]), axis=0)

    def at(self, t):
        s, late = t - self.start, min(max(t, 0.0), self.late)
        s -= self.every * np.maximum(np.ceil((s - late) / self.every) - 1, 0)
        up = np.clip(s / self.rise, 0, 1)
        down = np.clip((s - self.rise - self.width) / self.fall, 0, 1)
        share = (up - down) * (t <= self.stop + late)
        return self.low + (self.high - self.low) * share[self.shape]

    def next_corner(self, t):
        s = t - self.start
        base = self.start + self.every * np.maximum(np.floor(s / self.every), 0)
        times = np.concatenate([base + self.corners, (base + self.every)[None]])
        return times[(times > t) & (times <= self.stop + self.late)].min(initial=np.inf)


class Sines:
    """SIN(offset amplitude frequency delay damping phase)"""

    def __init__(self, values, tstep, tstop):
        self.offset, self.amplitude, frequency, delay, damping, phase = _table(values, 6).T
        self.omega = 2 * np.pi * np.where(_or(frequency, 0.0) != 0, frequency, 1 / tstop)
        self.delay, self.damping, self.phase = _or(delay, 0.0), _or(damping, 0.0), np.radians(_or(phase, 0.0))
        self.damped = bool(self.damping.any())

    def at(self, t):
        s = np.maximum(t - self.delay, 0.0)
        swing = self.amplitude * np.sin(self.omega * s + self.phase)
        return self.offset + (swing * np.exp(-s * self.damping) if self.damped else swing)

    def next_corner(self, t):
        return self.delay[self.delay > t].min(initial=np.inf)

    def longest_step(self, t):
        swings = (self.amplitude != 0) & (t >= self.delay) & ((t - self.delay) * self.damping < FADED)
        return (2 * np.pi / STEPS_A_PERIOD) / np.abs(self.omega[swings]).max(initial=0.0) if swings.any() else np.inf


class Exponentials:
    """EXP(v1 v2 delay1 tau1 delay2 tau2)"""

    def __init__(self, values, tstep, tstop):
        self.low, self.high, delay1, tau1, delay2, tau2 = _table(values, 6).T
        self.delay1 = _or(delay1, 0.0)
        self.delay2 = _or(delay2, self.delay1 + tstep)
        self.tau1, self.tau2 = (np.where(_or(tau, 0.0) > 0, tau, tstep) for tau in (tau1, tau2))

    def at(self, t):
        up = -np.expm1(-np.maximum(t - self.delay1, 0.0) / self.tau1)
        down = -np.expm1(-np.maximum(t - self.delay2, 0.0) / self.tau2)
        return self.low + (self.high - self.low) * (up - down)

    def next_corner(self, t):
        times = np.concatenate([self.delay1, self.delay2])
        return times[times > t].min(initial=np.inf)


class Lines:
    """PWL(t1 v1 t2 v2 ...): constant before its first and after its last point. At a jump, where two points have one time, the
    value is the one before it: a step that ends there is not to see what follows."""

    def __init__(self, values, tstep, tstop):
        length = np.array([len(v) // 2 for v in values])
        self.first = np.cumsum(length) - length             # of each source in the joined points
        self.last = self.first + length - 1
        points = np.concatenate(values).reshape(-1, 2)
        self.time, self.value = points.T
        self.late = SAME * min(tstep, tstop)
        self.rounds = int(length.max()).bit_length()
        self.corners = np.unique(self.time)

    def at(self, t):
        before = t - min(max(t, 0.0), self.late)
        low, high = self.first.copy(), self.last.copy()     # bisection, all sources at once
        for _ in range(self.rounds):
            middle = (low + high + 1) // 2
            right = self.time[middle] < before
            low, high = np.where(right, middle, low), np.where(right, high, np.maximum(middle - 1, low))
        after = np.minimum(low + 1, self.last)
        gap = self.time[after] - self.time[low]
        share = np.clip((t - self.time[low]) / np.where(gap > 0, gap, 1.0), 0, 1)
        return self.value[low] + share * (self.value[after] - self.value[low])

    def next_corner(self, t):
        k = np.searchsorted(self.corners, t, side="right")
        return self.corners[k] if k < len(self.corners) else np.inf
