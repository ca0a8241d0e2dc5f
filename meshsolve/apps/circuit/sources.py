"""Waveforms of independent sources, all sources of one kind at once. A time step must end at each of their corners.

This module sets the defaults of the parameters. ``waveform.cpp`` computes the values.
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core

STEPS_A_PERIOD = 16         # fewest steps per period of a sine: steps of a whole period would see a constant
SAME = 1e-9                 # difference of times that count as equal, relative to the smaller one of tstep and tstop
FADED = 20.0                # time constants of damping after which a sine counts as zero: 2e-9 of its amplitude are left


class Sources:
    """The independent voltage or current sources of a deck.

    Parameters
    ----------
    elements : Elements
        Of letter v or i.
    waveforms : list of (kind, values)
    tstep, tstop : float
        Defaults of rise and fall times, widths and periods, as in SPICE.
    same : float, optional
        Seconds: difference of times that count as equal. Default: SAME times the smaller one of the two.

    Attributes
    ----------
    dc : (k,) float64
        Values at rest.
    ac : (k,) complex128
    native : _core.Sources
        Values over time.
    largest : float
        Largest absolute value at rest, or of a waveform.
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
        shown = [np.nan_to_num(dc), *(np.asarray(waveforms[r][1][:2] if waveforms[r][0] != "w" else waveforms[r][1][1::2])
                                    for r in elements.refs[timed])]
        self.largest = max((float(np.abs(part).max(initial=0.0)) for part in shown), default=0.0)
        self.native = _core.sources(np.where(np.isnan(dc), 0.0, dc), parts)
        self.dc = np.where(np.isnan(dc), self.at(0.0), dc)

    def shortest_period(self, t):
        """The shortest period of the sines that swing at time t, or infinity."""
        return STEPS_A_PERIOD * self.native.longest_step(t)

    def at(self, t):
        """(k,) values at time t."""
        return self.native.at(t)


def pulses(values, tstep, tstop, same=None):
    """PULSE(v1 v2 delay rise fall width period pulses). Many sources share few shapes.

    A time of 0 gets its default, as in SPICE. A pulse longer than its period is cut off at the period. The value at that time is
    the one before it, as for PWL.
    """
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
    """PWL(t1 v1 t2 v2 ...), constant before the first and after the last point.

    At a jump, where two points have the same time, the value is the one before it: a step that ends at the jump must not see what
    follows.
    """
    first = np.concatenate([[0], np.cumsum([len(v) // 2 for v in values])]).astype(np.int64)
    time, value = np.concatenate(values).reshape(-1, 2).T
    return _core.lines(first, time.copy(), value.copy(), same or SAME * min(tstep, tstop))


SHAPES = {"p": pulses, "s": sines, "e": exponentials, "w": lines}      # by the kind of a waveform in a netlist


def _table(values, width):
    """(k, width) with NaN for omitted values."""
    out = np.full((len(values), width), np.nan)
    for row, given in zip(out, values):
        row[:len(given)] = given
    return out


def _or(values, default):
    return np.where(np.isnan(values), default, values)


def _flat(*columns):
    """The rows of a table with these columns, one after the other."""
    return np.ascontiguousarray(np.stack(columns, axis=1), np.float64).reshape(-1)
