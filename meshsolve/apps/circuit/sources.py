"""Waveforms of independent sources, all sources of one kind at once; their corners are where a time step must end.

Here the parameters of a deck get their defaults; the waveforms themselves are in ``waveform.cpp``.
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core

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
    same : float, optional
        Seconds: times that count as equal; default SAME of the shorter one of the two.

    Attributes
    ----------
    dc : (k,) float64
        Values at rest.
    ac : (k,) complex128
    native : _core.Sources
        The values over time.
    """

    def __init__(self, elements, waveforms, tstep=1.0, tstop=1.0, same=None):
        dc, magnitude, phase = elements.values.T
        self.ac = magnitude * np.exp(1j * np.radians(phase))
        self.waves, timed = [], np.flatnonzero(elements.refs >= 0)
        kinds = np.array([waveforms[r][0] for r in elements.refs[timed]], dtype="U1")
        for kind, make in SHAPES.items():
            which = timed[kinds == kind]
            if len(which):
                self.waves.append((which, make([waveforms[r][1] for r in elements.refs[which]], tstep, tstop, same)))
        parts = [(which.astype(np.int64), wave) for which, wave in self.waves]
        self.native = _core.sources(np.where(np.isnan(dc), 0.0, dc), parts)
        self.dc = np.where(np.isnan(dc), self.at(0.0), dc)

    def at(self, t):
        """(k,) values at time t."""
        return self.native.at(t)


def _table(values, width):
    """(k, width) with NaN for what the deck leaves out."""
    out = np.full((len(values), width), np.nan)
    for row, given in zip(out, values):
        row[:len(given)] = given
    return out


def _or(values, default):
    return np.where(np.isnan(values), default, values)


def _flat(*columns):
    """The rows of a table with these columns, one after the other."""
    return np.ascontiguousarray(np.stack(columns, axis=1), np.float64).reshape(-1)


def pulses(values, tstep, tstop, same=None):
    """PULSE(v1 v2 delay rise fall width period pulses); many sources share few shapes. A time of 0 is one left out, as in SPICE.
    A pulse that is longer than its period is cut off there; the value at this time is the one before it, as for PWL."""
    low, high, delay, *times = _table(values, 8).T
    rise, fall, width, period, count = (np.where(_or(x, 0.0) > 0, x, default)
                                        for x, default in zip(times, (tstep, tstep, tstop, tstop, np.inf)))
    shapes, inverse = np.unique(np.stack([_or(delay, 0.0), rise, fall, width, period, count]), axis=1, return_inverse=True)
    start, rise, fall, width, every, count = shapes
    table = _flat(start, rise, width, fall, every, start + every * count)
    return _core.pulses(low.copy(), high.copy(), inverse.reshape(-1).astype(np.int64), table, same or SAME * min(tstep, tstop))


def sines(values, tstep, tstop, same=None):
    """SIN(offset amplitude frequency delay damping phase)"""
    offset, amplitude, frequency, delay, damping, phase = _table(values, 6).T
    omega = 2 * np.pi * np.where(_or(frequency, 0.0) != 0, frequency, 1 / tstop)
    table = _flat(offset, amplitude, omega, _or(delay, 0.0), _or(damping, 0.0), np.radians(_or(phase, 0.0)))
    return _core.sines(table, STEPS_A_PERIOD, FADED)


def exponentials(values, tstep, tstop, same=None):
    """EXP(v1 v2 delay1 tau1 delay2 tau2)"""
    low, high, delay1, tau1, delay2, tau2 = _table(values, 6).T
    delay1 = _or(delay1, 0.0)
    tau1, tau2 = (np.where(_or(tau, 0.0) > 0, tau, tstep) for tau in (tau1, tau2))
    return _core.exponentials(_flat(low, high, delay1, tau1, _or(delay2, delay1 + tstep), tau2))


def lines(values, tstep, tstop, same=None):
    """PWL(t1 v1 t2 v2 ...): constant before its first and after its last point. At a jump, where two points have one time, the
    value is the one before it: a step that ends there is not to see what follows."""
    first = np.concatenate([[0], np.cumsum([len(v) // 2 for v in values])]).astype(np.int64)
    time, value = np.concatenate(values).reshape(-1, 2).T
    return _core.lines(first, time.copy(), value.copy(), same or SAME * min(tstep, tstop))


SHAPES = {"p": pulses, "s": sines, "e": exponentials, "w": lines}      # by the kinds of waveforms in a netlist
