"""Results by name: an operating point, and waveforms over time, frequency or a swept source; CSV files and pictures."""

from __future__ import annotations

import re

import numpy as np

from meshsolve.apps.circuit.netlist import lower
from meshsolve.errors import InvalidInputError
from meshsolve.files import written_whole
from meshsolve.types import Path

COORDINATES = re.compile(r"_(\d+)_(\d+)$")
MOST_CURVES = 12


class _Result:
    """What the results share: the look-up of signals by name.

    ``result["n1"]`` is the voltage of a node, ``["v(n1,n2)"]`` a difference, ``["i(v1)"]`` the current through a voltage source,
    inductor, E or H element, from its first to its second node. Case does not matter; ``"0"`` and ``"gnd"`` are 0.
    """

    def __init__(self, system, unknowns, values, report):
        """Made by the analyses of a Circuit: its ``system``, the ``unknowns`` kept, their ``values``, and a ``report``."""
        self._system, self.report = system, report
        self._values = values                               # (points, kept unknowns) or (kept unknowns,)
        self._kept = unknowns                               # ascending unknowns, or None for all

    @property
    def nodes(self):
        """Names of all nodes of the circuit, in lower case."""
        return list(self._system.netlist.node_names)

    def __contains__(self, name):
        try:
            self[name]
        except InvalidInputError:
            return False
        return True

    def __getitem__(self, name):
        plus, minus = self._system.unknown(name)
        if minus < 0:
            return self._of(plus, name)
        return self._of(plus, name) - self._of(minus, name)

    def _of(self, unknown, name):
        if unknown < 0:
            return np.zeros(self._values.shape[:-1], self._values.dtype)[()]
        if self._kept is None:
            return self._values[..., unknown]
        k = int(np.searchsorted(self._kept, unknown))
        if k == len(self._kept) or self._kept[k] != unknown:
            raise InvalidInputError(f"{name!r} was not kept: nodes= names what is")
        return self._values[..., k]

    def _signals(self, names):
        """Names to write: those given, else every node that was kept."""
        if names is not None:
            return list(names)
        known = self._system.netlist.node_names
        kept = range(len(known)) if self._kept is None else self._kept[self._kept < len(known)]
        return [f"v({known[k]})" for k in kept]


class OperatingPoint(_Result):
    """Voltages and currents at rest: ``v["node"]`` and ``v["i(v1)"]`` are floats.

    Attributes
    ----------
    nodes : list of str
    report : Report
    """

    def __getitem__(self, name):
        return float(super().__getitem__(name))

    def __repr__(self):
        return f"OperatingPoint({_count(len(self.nodes), 'node')})"

    @property
    def voltages(self):
        """(number of nodes,) float64, in the order of :attr:`nodes`."""
        return self._values[:len(self._system.netlist.node_names)]

    def to_csv(self, path: Path, names: list[str] | None = None) -> None:
        """Write ``name,value`` rows to ``path``: every node, or the signals in ``names``."""
        with written_whole(path) as part, open(part, "w", encoding="utf-8") as f:
            f.write("name,value\n")
            signals = self._signals(names)
            values = self.voltages.tolist() if names is None else [self[name] for name in signals]
            f.writelines(f"{_cell(name)},{value + 0.0!r}\n" for name, value in zip(signals, values))

    def plot(self, path: Path, names: list[str] | None = None, title: str | None = None) -> None:
        """Draw a PNG: voltages over the plane where node names end in coordinates (``n1_m1_800_2400``), else in order.

        Parameters
        ----------
        path : str or path
        names : sequence of str, optional
            Signals; default: every node.
        title : str, optional
        """
        names = self._signals(names)
        values = np.array([self[name] for name in names])
        places = [COORDINATES.search(name.removesuffix(")")) for name in names]
        if len(names) > 3 and all(places):
            x, y = np.array([[int(p[1]), int(p[2])] for p in places if p]).T
            return _picture(path, title, lambda axes: _map(axes, x, y, values))
        return _picture(path, title, lambda axes: _bars(axes, names, values))


class Waveforms(_Result):
    """Signals over time, frequency or a swept source: ``w["node"]`` is a (points,) array.

    Attributes
    ----------
    time, frequency, sweep : (points,) float64
        The one that belongs to the analysis, in seconds, hertz, or volt or ampere; the others are not there.
    nodes : list of str
    report : Report
    """

    def __init__(self, axis, points, system, unknowns, values, report):
        """Made by the analyses of a Circuit: the name and the ``points`` of the ``axis``, then as for an operating point
        ``system``, ``unknowns``, ``values`` and ``report``."""
        super().__init__(system, unknowns, values, report)
        self._axis = axis
        setattr(self, axis, points)

    def __repr__(self):
        points = getattr(self, self._axis)
        span = f" from {points[0]:g} to {points[-1]:g}" if len(points) else ""
        return f"Waveforms({_count(len(points), 'point')} of {self._axis}{span}, {_count(len(self._signals(None)), 'node')})"

    def __len__(self):
        return len(self._values)

    def to_csv(self, path: Path, names: list[str] | None = None) -> None:
        """Write a table: the axis, then every kept node or the signals in ``names``; complex ones as ``vr(n)``, ``vi(n)``.

        Parameters
        ----------
        path : str or path
        names : sequence of str, optional
            Also ``vm(n)``, ``vp(n)`` (degrees), ``vdb(n)``, ``vr(n)``, ``vi(n)`` of complex signals.
        """
        columns = {self._axis: getattr(self, self._axis)}
        for name in self._signals(names):
            columns |= self._columns(name)
        with written_whole(path) as part, open(part, "w", encoding="utf-8") as f:
            f.write(",".join(map(_cell, columns)) + "\n")
            np.savetxt(f, np.stack(list(columns.values()), axis=1) + 0.0, delimiter=",", fmt="%.10g")       # + 0.0: no -0

    def plot(self, path: Path, names: list[str] | None = None, title: str | None = None) -> None:
        """Draw a PNG of at most twelve signals: over time, currents below voltages, or magnitude and phase over frequency.

        Parameters
        ----------
        path : str or path
        names : sequence of str, optional
            Signals; default: the first nodes.
        title : str, optional
        """
        names = self._signals(names)[:MOST_CURVES]
        points = getattr(self, self._axis)
        if self._axis != "frequency":
            units = {"V": [n for n in names if not n.lower().startswith("i(")], "A": [n for n in names if n.lower().startswith("i(")]}
            return _picture(path, title, *(
                lambda axes, unit=unit, group=group: _curves(axes, points, {n: self[n] for n in group}, unit, self._axis)
                for unit, group in units.items() if group))
        names = list(dict.fromkeys(_plain(n) for n in names))
        panels = [({n: f(self[n]) for n in names}, label) for f, label in ((_decibel, "dB"), (_degrees, "degrees"))]
        return _picture(path, title, *(lambda axes, panel=panel: _spectrum(axes, points, *panel) for panel in panels))

    def _columns(self, name):
        match = re.fullmatch(r"\s*([vi])(m|p|r|i|db)\((.*)\)\s*", lower(name)) if np.iscomplexobj(self._values) else None
        if match:
            return {name: PARTS[match[2]](self[f"{match[1]}({match[3]})"])}
        values = self[name]
        if not np.iscomplexobj(values):
            return {name: values}
        bare = name if name.endswith(")") else f"v({name})"
        return {f"{bare[0]}r{bare[1:]}": values.real, f"{bare[0]}i{bare[1:]}": values.imag}


def _count(number, name):
    return f"{number:,} {name}{'s' * (number != 1)}"


def _decibel(z):
    return 20 * np.log10(np.maximum(np.abs(z), 1e-300))


def _degrees(z):
    return np.degrees(np.unwrap(np.angle(z)))


PARTS = {"m": np.abs, "p": _degrees, "r": np.real, "i": np.imag, "db": _decibel}


def _plain(name):
    """vm(n), vdb(n), ... without what they take of a complex number."""
    return re.sub(r"^([vi])(m|p|r|i|db)\(", r"\1(", lower(name))


def _cell(name):
    return f'"{name}"' if "," in name else name


def _picture(path, title, *panels):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not str(path).lower().endswith(".png"):
        raise InvalidInputError(f"{path}: pictures are written as .png")
    figure = Figure(figsize=(8, 4.5 if len(panels) == 1 else 6.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    for k, draw in enumerate(panels):
        draw(figure.add_subplot(len(panels), 1, k + 1))
    if title:
        figure.suptitle(title)
    with written_whole(path) as part:
        figure.savefig(part, format="png")


def _curves(axes, points, signals, unit, axis):
    for name, values in signals.items():
        axes.plot(points, values, label=name, linewidth=1.2)
    axes.set_xlabel("time in s" if axis == "time" else "source value")
    axes.set_ylabel(unit)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def _spectrum(axes, points, signals, label):
    for name, values in signals.items():
        axes.semilogx(points, values, label=name, linewidth=1.2)
    axes.set_xlabel("frequency in Hz")
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def _map(axes, x, y, values):
    order = np.argsort(-values, kind="stable")              # the lowest voltages on top
    dots = axes.scatter(x[order], y[order], c=values[order], s=max(1.0, min(40.0, 2e4 / len(x))), marker="s", linewidths=0)
    axes.set_aspect("equal")
    axes.figure.colorbar(dots, label="V")
    sides = np.clip(np.ptp(x) / max(np.ptp(y), 1), 0.4, 2.5)           # a picture as wide as the map
    axes.figure.set_size_inches(4 * sides + 1.6, 4.5)
    axes.figure.set_layout_engine("compressed")


def _bars(axes, names, values):
    axes.plot(values, drawstyle="steps-mid" if len(names) > 40 else "default", marker="o" if len(names) <= 40 else None)
    axes.set_ylabel("V")
    axes.grid(alpha=0.3)
    if len(names) <= 40:
        axes.set_xticks(range(len(names)), names, rotation=60, fontsize="small")
