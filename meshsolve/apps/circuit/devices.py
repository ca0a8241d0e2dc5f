"""The junction diode: parameters of its model at its temperature, and its law, all diodes of a circuit at once.

The law itself is in ``diode.cpp``: current, charge and their derivatives, and the limits of Newton's method.
Sources: Nagel 1975, "SPICE2: a computer program to simulate semiconductor circuits", appendix B (model); the ngspice manual, chapter 7
(temperature, high injection, breakdown).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import _core
from meshsolve.apps.circuit.names import similar
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.report import warn

ZERO_CELSIUS = 273.15               # kelvin
REFERENCE = 300.15                  # kelvin, 27 degrees Celsius
VOLT_PER_KELVIN = 1.380649e-23 / 1.602176634e-19
THERMAL = VOLT_PER_KELVIN * REFERENCE                      # volt at 27 degrees
DEFAULTS = {
    "is": 1e-14, "n": 1.0, "rs": 0.0, "cjo": 0.0, "vj": 1.0, "m": 0.5, "fc": 0.5, "tt": 0.0, "bv": np.inf, "ibv": 1e-3,
    "nbv": np.nan, "ikf": np.inf, "ikr": np.inf, "isr": 0.0, "nr": 1.0,      # nbv: as n
    "eg": 1.11, "xti": 3.0, "tnom": np.nan,                # tnom: of the deck
    "tlev": 0.0, "tlevc": 0.0, "tcv": 0.0, "cta": 0.0, "tpb": 0.0, "tm1": 0.0, "tm2": 0.0, "ttt1": 0.0, "ttt2": 0.0, "trs1": 0.0,
    "trs2": 0.0}
OTHER_NAMES = {"cj0": "cjo", "cj": "cjo", "pb": "vj", "mj": "m", "js": "is", "ik": "ikf", "trs": "trs1", "tref": "tnom", "t_nom": "tnom",
               "t_measured": "tnom"}
WITHOUT_EFFECT = {"kf", "af", "level"}      # without noise
RANGE = 1e-100, 1e100               # of parameters and areas: products of them are finite
NEVER = 1e100                       # volt: a breakdown voltage that stands for none and, other than infinity, can be subtracted
BREAKDOWN_STEPS = 25                # of the iteration for the knee voltage, at most
BREAKDOWN_TOLERANCE = 1e-12         # relative, of the current at BV
COLDEST = -273.15                   # degrees Celsius


class Law(NamedTuple):
    """Currents of junctions at given voltages and their slopes, charges and their slopes, (k,) each."""

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
        See :func:`diode_parameters`; also ``kelvin``, 300.15 where it is left out, and ``times``, 1 where it is left out.

    Attributes
    ----------
    constants : (14 k,) float64
        The members of ``Diode`` in ``diode.hpp``, diode after diode.
    critical : (k,) float64
        Volt, from which Newton's method limits junction voltages.
    breakdown : (k,) float64
        Volt: beyond ``-breakdown`` the current grows exponentially.
    stores : bool
        Whether there is any charge.
    """

    def __init__(self, nodes, parameters, gmin):
        self.nodes, self.gmin, p = nodes, gmin, parameters
        thermal = VOLT_PER_KELVIN * np.broadcast_to(p.get("kelvin", REFERENCE), p["n"].shape)
        self.saturation, self.vt = p["is"], p["n"] * thermal
        vt_breakdown = np.where(np.isnan(p["nbv"]), p["n"], p["nbv"]) * thermal
        self.breakdown = _knee_voltage(p, thermal, vt_breakdown)
        self.breaks = bool((p["bv"] < NEVER).any())
        self.stores = bool(((p["cjo"] > 0) | (p["tt"] > 0)).any())
        self.constants = np.stack([
            self.saturation, self.vt, self.breakdown, vt_breakdown, p["ikf"], p["ikr"], p["cjo"], p["vj"], p["m"], p["fc"], p["tt"],
            np.full(len(nodes), float(gmin)), p["isr"], p["nr"] * thermal], axis=1).reshape(-1)
        self.critical = _core.diode_critical(self.constants)

    def __len__(self):
        return len(self.nodes)

    def at(self, v):
        """The :class:`Law` at (k,) junction voltages."""
        return Law(*_core.diode_laws(self.constants, np.ascontiguousarray(v, np.float64)))

    def current(self, v):
        """(k,) currents at junction voltages v and (k,) conductances."""
        return self.at(v)[:2]

    def charge(self, v):
        """(k,) charges at junction voltages v and (k,) capacitances: depletion and diffusion."""
        return self.at(v)[2:]

    def room(self, v, options):
        """Voltages by which a solution at junction voltages v may be wrong. What counts is their size in the exponent, forward or beyond
        breakdown: a thousandth of the voltages of nodes that stand high would be several times the current."""
        return _core.diode_tolerances(self.constants, v, options.reltol, options.vntol)

    def limited(self, v, before):
        """Junction voltages for the next iteration that do not overshoot the exponential (Nagel, section 4.3): v itself, the very array,
        where none does."""
        limited, changed = _core.diode_limits(self.constants, v, before)
        return limited if changed else v


def _knee_voltage(p, thermal, vt_breakdown):
    """(k,) voltages beyond which the breakdown current grows: at BV it is IBV. Where that is less than IS BV / Vt, the leakage of a
    resistance, the voltage is BV itself, as in SPICE."""
    bv, knee = np.minimum(p["bv"], NEVER), np.minimum(p["bv"], NEVER)
    ratio = p.get("times", 1.0) * p["ibv"] / p["is"]
    fits = (p["bv"] < NEVER) & (ratio >= bv / thermal)
    for _ in range(BREAKDOWN_STEPS):                        # the fixed point of SPICE: current (exp(...) - 1 + knee / Vt) IS = IBV
        inside = np.where(fits, ratio + 1 - knee / thermal, 1.0)
        new = np.where(fits, bv - vt_breakdown * np.log(np.maximum(inside, 1.0)), knee)
        done = np.abs(new - knee) <= BREAKDOWN_TOLERANCE * np.abs(knee)
        knee = new
        if done.all():
            break
    return knee


def diode_parameters(netlist):
    """The model parameters of each diode at its temperature, scaled by its area: dict of (k,) float64.

    Raises
    ------
    InvalidInputError
        A parameter, an area or a temperature is out of range, with FILE:LINE.
    """
    group = netlist["d"]
    order, which = np.unique(group.refs, return_inverse=True)
    rows = [_model(*netlist.models[k]) for k in order.tolist()]
    p = {key: np.array([row[key] for row in rows])[which] for key in DEFAULTS}
    area = group.values[:, 0]
    for k in np.flatnonzero((area < RANGE[0]) | (area > RANGE[1]))[:1]:
        raise InvalidInputError(f"{netlist.where('d', k)}: the area of {netlist.name('d', k)}, {area[k]:g}, is out of range")
    celsius, p["times"] = group.values[:, 2:].T
    p["kelvin"] = celsius + ZERO_CELSIUS
    p["tnom"] = np.where(np.isnan(p["tnom"]), netlist.nominal_temperature, p["tnom"]) + ZERO_CELSIUS
    for k in np.flatnonzero(~(p["kelvin"] > 0) | ~(p["tnom"] > 0))[:1]:
        raise InvalidInputError(f"{netlist.where('d', k)}: the temperature of {netlist.name('d', k)}, {celsius[k]:g} degrees Celsius, and "
                                f"that of its parameters, {p['tnom'][k] - ZERO_CELSIUS:g}, must be above {COLDEST:g}")
    with np.errstate(all="ignore"):
        p = _at_temperature(p)
    for key in ("is", "n", "vj", "bv"):
        for k in np.flatnonzero(~(p[key] > 0) | ((key != "bv") & ~((p[key] >= RANGE[0]) & (p[key] <= RANGE[1]))))[:1]:
            raise InvalidInputError(f"{netlist.where('d', k)}: at {celsius[k]:g} degrees Celsius the parameter {key} of "
                                    f"{netlist.name('d', k)} becomes {p[key][k]:g}, which is out of range")
    for key in ("is", "isr", "cjo", "ikf", "ikr"):
        p[key] = p[key] * area
    p["rs"] = p["rs"] / area
    return p


def _at_temperature(p):
    """Parameters at the temperature ``kelvin`` from those at ``tnom``, as the ngspice manual has them (chapter 7)."""
    p, kelvin, nominal = dict(p), p["kelvin"], p["tnom"]
    rise, above, change = kelvin / nominal, kelvin - REFERENCE, kelvin - nominal
    for current, emission in (("is", "n"), ("isr", "nr")):
        n = p[emission]
        p[current] = p[current] * np.exp((rise - 1) * p["eg"] / (n * VOLT_PER_KELVIN * kelvin) + p["xti"] / n * np.log(rise))
    p["m"] = np.minimum(p["m"] * (1 + p["tm1"] * change + p["tm2"] * change**2), 1.0)
    p["tt"] = p["tt"] * (1 + p["ttt1"] * change + p["ttt2"] * change**2)
    p["rs"] = p["rs"] * (1 + p["trs1"] * change + p["trs2"] * change**2)
    p["bv"] = np.where(p["tlev"] == 0, p["bv"] - p["tcv"] * change, p["bv"] * (1 - p["tcv"] * change))
    at_reference = (p["vj"] - _barrier_shift(nominal)) / (nominal / REFERENCE)
    scaled = kelvin / REFERENCE * at_reference + _barrier_shift(kelvin)

    def growth(t, vj):
        return 1 + p["m"] * (4e-4 * (t - REFERENCE) - (vj - at_reference) / at_reference)

    plain = p["tlevc"] == 0
    p["cjo"] = p["cjo"] * np.where(plain, growth(kelvin, scaled) / growth(nominal, p["vj"]), 1 + p["cta"] * above)
    p["vj"] = np.where(plain, scaled, p["vj"] - p["tpb"] * above)
    return p


def _barrier_shift(kelvin):
    """Volt by which the barrier of a junction in silicon moves from 300.15 K on, apart from its growth with the temperature."""
    gap = 1.16 - 7.02e-4 * kelvin**2 / (kelvin + 1108)
    thermal = VOLT_PER_KELVIN * kelvin
    return -2 * thermal * (1.5 * np.log(kelvin / REFERENCE) - gap / (2 * thermal) + 1.1150877 / (2 * THERMAL))


def _model(given, where):
    """The parameters of one .model line with their defaults; refuses values without a meaning."""
    named = {OTHER_NAMES.get(key, key): value for key, value in given.items()}
    for key in sorted(named.keys() - DEFAULTS.keys() - WITHOUT_EFFECT):
        warn(f"{where}: the diode parameter {key!r} is not known and has no effect{similar(key, DEFAULTS)}", MeshsolveWarning)
    if named.get("level", 1) != 1:
        raise InvalidInputError(f"{where}: level={named['level']:g}: only the junction diode, level 1, is supported")
    p = DEFAULTS | {key: value for key, value in named.items() if key in DEFAULTS}
    for key in ("is", "n", "vj", "bv", "ibv", "nr", *(key for key in ("nbv",) if key in named)):
        if not p[key] > 0:
            raise InvalidInputError(f"{where}: the diode parameter {key} has to be positive, not {p[key]:g}")
    for key in ("rs", "cjo", "tt", "isr"):
        if p[key] < 0:
            raise InvalidInputError(f"{where}: the diode parameter {key} has to be at least 0, not {p[key]:g}")
    for key in ("ikf", "ikr"):                              # 0 or less: no high injection, as in ngspice
        if not p[key] > 0:
            p[key] = np.inf
    for key in named.keys() & DEFAULTS.keys():
        if p[key] not in (0, DEFAULTS[key]) and not RANGE[0] <= abs(p[key]) <= RANGE[1]:
            raise InvalidInputError(f"{where}: the diode parameter {key}={p[key]:g} is out of range")
    if not (0 <= p["m"] <= 1 and 0 <= p["fc"] < 1):
        raise InvalidInputError(f"{where}: the diode parameters m and fc have to lie between 0 and 1")
    for key in ("tlev", "tlevc"):
        if p[key] not in (0, 1):
            raise InvalidInputError(f"{where}: {key}={p[key]:g}: only 0 and 1 are supported")
    return p
