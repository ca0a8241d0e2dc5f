"""The junction diode: current, charge and their derivatives, all diodes of a circuit at once.

Source: Nagel 1975, "SPICE2: a computer program to simulate semiconductor circuits", appendix B (model) and section 4.3
(limiting of the junction voltage); temperature is the nominal 27 degrees Celsius.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve.apps.circuit.controls import NOMINAL
from meshsolve.apps.circuit.names import similar
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.report import warn

THERMAL = 1.380649e-23 * 300.15 / 1.602176634e-19          # volt at 27 degrees
DEFAULTS = {"is": 1e-14, "n": 1.0, "rs": 0.0, "cjo": 0.0, "vj": 1.0, "m": 0.5, "fc": 0.5, "tt": 0.0, "bv": np.inf, "ibv": 1e-3}
OTHER_NAMES = {"cj0": "cjo", "cj": "cjo", "pb": "vj", "mj": "m", "js": "is"}
MEASURED_AT = {"tnom", "t_nom", "t_measured"}              # degrees Celsius
WITHOUT_EFFECT = {"eg", "xti", "kf", "af", "level"} | MEASURED_AT       # at 27 degrees, without noise
LARGEST_EXPONENT = 200.0            # exp goes on as its tangent from here
NEGLIGIBLE = 50.0                   # exponents by which a junction stays off breakdown that carries nothing: exp(-50) is 1e-22
RANGE = 1e-100, 1e100               # of parameters and areas: products of them are finite
NEVER = 1e100                       # volt: a breakdown voltage that stands for none and, other than infinity, can be subtracted


class Law(NamedTuple):
    """What junctions do at given voltages, (k,) each: currents and their slopes, charges and theirs."""

    current: np.ndarray
    conductance: np.ndarray
    charge: np.ndarray
    capacitance: np.ndarray


class Diodes:
    """Diodes with their model parameters spread out, one value each.

    Parameters
    ----------
    nodes : (k, 2) int
        Anode and cathode of the junction (behind the series resistance).
    parameters : dict of (k,) float64
        See :func:`diode_parameters`.
    """

    def __init__(self, nodes, parameters, gmin):
        self.nodes, self.gmin = nodes, gmin
        p = parameters
        self.saturation, self.vt = p["is"], p["n"] * THERMAL
        self.critical = self.vt * np.log(self.vt / (np.sqrt(2) * self.saturation))
        with np.errstate(divide="ignore"):
            self.breakdown = np.minimum(p["bv"], NEVER) - self.vt * np.log(np.maximum(p["ibv"] / self.saturation, 1.0))
        self.breaks = bool((p["bv"] < NEVER).any())
        self.cjo, self.vj, self.m, self.tt = p["cjo"], p["vj"], p["m"], p["tt"]
        self.knee = p["fc"] * self.vj                       # the depletion charge goes on as a parabola from here
        self.depletes = bool((self.cjo > 0).any())
        self.diffuses = bool((self.tt > 0).any())
        self.stores = self.depletes or self.diffuses
        self._prepare()

    def _prepare(self):
        """Products of parameters, so that a Newton step has few operations on arrays: each costs as much as fifty diodes."""
        self._per_vt, self._slope, self._far = 1 / self.vt, self.saturation / self.vt, 2 * self.vt
        self._on_edge = self.breakdown - NEGLIGIBLE * self.vt
        depth = np.where(self.m == 1, 1.0, 1 - self.m)
        self._logarithmic = np.flatnonzero(self.m == 1)
        self._per_vj, self._power = 1 / self.vj, -self.m
        self._charge, self._steeper = self.cjo * self.vj / depth, self.cjo * self.m / self.vj

    def __len__(self):
        return len(self.nodes)

    def at(self, v):
        """The :class:`Law` at junction voltages v: what :meth:`current` and :meth:`charge` give, each worked out once."""
        i, g = self.current(v)
        return Law(i, g, *self._charges(v, i, g)) if self.stores else Law(i, g, np.zeros_like(i), np.zeros_like(i))

    def current(self, v):
        """(k,) currents at junction voltages v and (k,) conductances."""
        i, e = _exponential(v * self._per_vt)
        i *= self.saturation
        e *= self._slope
        if self.breaks and np.count_nonzero(v < -self._on_edge):
            j, h = _exponential((v + self.breakdown) * -self._per_vt)
            j += 1
            i -= self.saturation * j
            e += self._slope * h
        i += self.gmin * v
        e += self.gmin
        return i, e

    def charge(self, v):
        """(k,) charges at junction voltages v and (k,) capacitances: depletion and diffusion."""
        return self._charges(v, *self.current(v))

    def _charges(self, v, i, g):
        if not self.depletes:
            return self.tt * i, self.tt * g
        below = np.minimum(v, self.knee)
        room = 1 - below * self._per_vj
        power = room ** self._power
        c = self.cjo * power
        q = 1 - power * room                                # the integral of room^-m, but for m = 1
        if len(self._logarithmic):
            q[self._logarithmic] = -np.log(room[self._logarithmic])
        q *= self._charge
        above = v - below
        if np.count_nonzero(above):
            rise = self._steeper * power / room * above
            q += above * (c + 0.5 * rise)
            c += rise
        if self.diffuses:
            q += self.tt * i
            c += self.tt * g
        return q, c

    def room(self, v, options):
        """Voltages by which a solution at junction voltages v may be wrong. What counts is their size in the exponent, forward or beyond
        breakdown: a thousandth of the voltages of nodes that stand high would be several times the current."""
        size = np.abs(v)
        if self.breaks:
            size = np.minimum(size, np.abs(v + self.breakdown))
        size *= options.reltol
        size += options.vntol
        return size

    def limited(self, v, before):
        """Junction voltages for the next iteration that do not overshoot the exponential (Nagel, section 4.3): v itself, the very array,
        where none does."""
        far = np.abs(v - before) > self._far
        if not np.count_nonzero(far):
            return v
        out, forward = v, far & (v > self.critical)
        if np.count_nonzero(forward):
            out = np.where(forward, self._limited_forward(v, before), v)
        if self.breaks:
            mirrored, earlier = -(v + self.breakdown), -(before + self.breakdown)
            reverse = far & (v < before) & (mirrored > self.critical)
            if np.count_nonzero(reverse):
                out = np.where(reverse, -self._limited_forward(mirrored, earlier) - self.breakdown, out)
        return out

    def _limited_forward(self, v, before):
        """Limited voltages, forward ones, of junctions that move far."""
        step = (v - before) * self._per_vt
        with np.errstate(all="ignore"):
            from_on = before + self.vt * np.where(step > 0, 2 + np.log(step - 2), -2 - np.log(2 - step))
            from_off = self.vt * np.log(np.maximum(v, self.vt) * self._per_vt)
        return np.where(before > 0, from_on, from_off)


def _exponential(u):
    """exp(u) - 1 and exp(u), straight from LARGEST_EXPONENT on; exp(u) of negative u has the absolute accuracy of 1."""
    cut = np.minimum(u, LARGEST_EXPONENT)
    less = np.expm1(cut)
    e = less + 1
    u -= cut
    u *= e
    less += u
    return less, e


def diode_parameters(netlist):
    """The model parameters of each diode, scaled by its area: dict of (k,) float64."""
    group = netlist["d"]
    rows = {k: _model(*netlist.models[k]) for k in np.unique(group.refs).tolist()}
    area = group.values[:, 0]
    for k in np.flatnonzero((area < RANGE[0]) | (area > RANGE[1]))[:1]:
        raise InvalidInputError(f"{netlist.where('d', k)}: the area of {netlist.name('d', k)}, {area[k]:g}, is out of range")
    order, which = np.unique(group.refs, return_inverse=True)
    p = {key: np.array([rows[k][key] for k in order.tolist()])[which] for key in DEFAULTS}
    for key in ("is", "cjo", "ibv"):
        p[key] = p[key] * area
    p["rs"] = p["rs"] / area
    return p


def _model(given, where):
    """The parameters of one .model line with their defaults; refuses values without a meaning."""
    named = {OTHER_NAMES.get(key, key): value for key, value in given.items()}
    for key in sorted(named.keys() - DEFAULTS.keys() - WITHOUT_EFFECT):
        warn(f"{where}: the diode parameter {key!r} is not known and has no effect{similar(key, DEFAULTS)}", MeshsolveWarning)
    for key in sorted(named.keys() & MEASURED_AT):
        if named[key] != NOMINAL:
            raise InvalidInputError(f"{where}: {key}={named[key]:g}: only the nominal temperature, 27 degrees, is supported")
    if named.get("level", 1) != 1:
        raise InvalidInputError(f"{where}: level={named['level']:g}: only the junction diode, level 1, is supported")
    p = DEFAULTS | {key: value for key, value in named.items() if key in DEFAULTS}
    for key in ("is", "n", "vj", "bv", "ibv"):
        if not p[key] > 0:
            raise InvalidInputError(f"{where}: the diode parameter {key} has to be positive, not {p[key]:g}")
    for key in ("rs", "cjo", "tt"):
        if p[key] < 0:
            raise InvalidInputError(f"{where}: the diode parameter {key} has to be at least 0, not {p[key]:g}")
    for key in DEFAULTS:
        if p[key] != 0 and p[key] != DEFAULTS[key] and not RANGE[0] <= abs(p[key]) <= RANGE[1]:
            raise InvalidInputError(f"{where}: the diode parameter {key}={p[key]:g} is out of range")
    if not (0 <= p["m"] <= 1 and 0 <= p["fc"] < 1):
        raise InvalidInputError(f"{where}: the diode parameters m and fc have to lie between 0 and 1")
    return p
