"""Results by signal name: operating points, and waveforms over time, frequency or a swept source. They write CSV files and
pictures."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from meshsolve.apps.circuit.names import lower
from meshsolve.errors import InvalidInputError
from meshsolve.files import written_whole
from meshsolve.report import Report
from meshsolve.types import Path

Value = TypeVar("Value")
PART = re.compile(r"\s*([vi])(m|p|r|i|db)\s*\((.*)\)\s*")
COORDINATES = re.compile(r"_(\d+)_(\d+)$")
MAP_SHARE = 0.5             # share of the nodes that must have coordinates for a map
MOST_CURVES = 12
MOST_NAMED = 5              # in messages
AXES = {"time": "time", "frequency": "frequency", "sweep": "a swept source"}


class UnknownSignalError(InvalidInputError, KeyError):
    """A result has no signal of this name. It is also a ``KeyError``, the error of mappings for a missing key.

    Its arguments are the message, or a system and a name: the message then searches for similar names when it is read.
    """

    def __str__(self) -> str:
        *system, what = self.args
        try:
            return system[0].unknown(what) if system else what
        except InvalidInputError as e:
            return str(e)


class _Result(Mapping[str, Value]):
    """Base class of the results: a mapping from signal names to values.

    The keys are the nodes (``"n1"``) and the currents (``"i(v1)"``). ``result[...]`` accepts more: see ``__getitem__``.
    """

    report: Report

    def __init__(self, system, unknowns, values, report):
        """Called by the analyses of a Circuit with its ``system``, the ``unknowns`` kept, their ``values``, and a ``report``."""
        self._system, self.report = system, report
        self._values = values                               # (points, kept unknowns) or (kept unknowns,)
        self._kept = unknowns                               # ascending unknowns, or None for all

    @property
    def nodes(self) -> list[str]:
        """Names of all nodes of the circuit, kept or not, with A to Z in lower case and without ground."""
        return list(self._system.netlist.node_names)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the kept signals: names of nodes, then of currents."""
        names = self._system.signal_names()
        return iter(names.values() if self._kept is None else [names[k] for k in self._kept.tolist()])

    def __len__(self) -> int:
        """Return the number of nodes and currents that were kept."""
        return self._system.nodes + len(self._system.current_numbers) if self._kept is None else len(self._kept)

    def __contains__(self, name: object) -> bool:
        """Return True if ``result[name]`` has a value."""
        if not isinstance(name, str):
            return False
        part, found = self._resolved(name)
        return found is not None and not (part and not self._complex()) and None not in map(self._column, found)

    def __getitem__(self, name: str) -> Value:
        return self._signal(name)

    def _complex(self):
        return np.iscomplexobj(self._values)

    def _resolved(self, name):
        """The part of a complex number that ``name`` selects, or "", and its two unknowns, or None if there is no such signal."""
        found = self._system.find(name)
        if found is None:
            part, plain = split(name)
            return part, self._system.find(plain) if part else None
        return "", found

    def _column(self, unknown):
        """Column of an unknown in the kept values: -1 for ground, None if it was not kept."""
        if unknown < 0 or self._kept is None:
            return unknown
        k = int(np.searchsorted(self._kept, unknown))
        return k if k < len(self._kept) and self._kept[k] == unknown else None

    def _signal(self, name):
        """The value or values of a signal."""
        part, found = self._resolved(name) if isinstance(name, str) else ("", None)
        if part and not self._complex():
            raise UnknownSignalError(f"{name!r} selects a part of a complex number, but only results over frequency are complex: "
                                     f"use {split(name)[1]!r}")
        if found is None:
            raise UnknownSignalError(self._system, split(name)[1] if part else name)
        plus, minus = (self._of(unknown, name) for unknown in found)
        values = plus - minus if found[1] >= 0 else plus
        return PARTS[part](values) if part else values

    def _of(self, unknown, name):
        k = self._column(unknown)
        if k is None:
            kept = ", ".join(map(repr, list(self)[:MOST_NAMED])) + ", ..." * (len(self) > MOST_NAMED)
            raise UnknownSignalError(f"{name!r} was not kept: add it to nodes= of the analysis, which kept {kept or 'no signal'}")
        return self._values[..., k] if k >= 0 else np.zeros(self._values.shape[:-1], self._values.dtype)[()]

    def _signals(self, names):
        """Names to write: those given, or else every kept node. Currents are added if nodes= selected them."""
        if names is not None:
            return list_of_names(names, "names")
        last = self._system.nodes if self._kept is None else len(self._kept)
        return [name if name.endswith(")") else f"v({name})" for _, name in zip(range(last), self)]


class OperatingPoint(_Result[float]):
    """Voltages and currents at rest, the result of :meth:`Circuit.op`: a mapping from names to floats.

    ``v["out"]`` is the voltage of a node and ``v["i(v1)"]`` a current. ``dict(v)`` has all signals.

    Attributes
    ----------
    nodes : list of str
        Names of all nodes.
    voltages : (number of nodes,) float64
        Their voltages, in the same order. An error if ``nodes=`` kept only some of them.
    report : Report
        Seconds of each phase, sizes, Newton steps.
    """

    def __getitem__(self, name: str) -> float:
        """Return the value of a signal, a float in volt or ampere.

        ``"n1"`` or ``"v(n1)"`` is the voltage of a node, and ``"v(n1,n2)"`` the voltage between two nodes. ``"i(v1)"`` is the
        current through a V, L, E or H element, from its first to its second node. Case is ignored. ``"0"`` and ``"gnd"`` are
        ground, 0 V.

        Raises
        ------
        InvalidInputError
            There is no such signal. The error is also a ``KeyError``.
        """
        return float(self._signal(name)) + 0.0              # no -0

    def __repr__(self) -> str:
        return f"OperatingPoint({_count(len(self.nodes), 'node')})"

    @property
    def voltages(self) -> NDArray[np.float64]:
        """(number of nodes,) float64, in the order of :attr:`nodes`."""
        if self._kept is not None and not np.array_equal(self._kept[:self._system.nodes], np.arange(self._system.nodes)):
            raise InvalidInputError("not all voltages were kept: omit nodes= of the analysis, or read single signals as v[name]")
        return self._values[:self._system.nodes]

    def to_csv(self, path: Path, names: list[str] | None = None) -> None:
        """Write ``name,value`` rows: every node, or the signals in ``names``.

        Parameters
        ----------
        path : str or path
        names : sequence of str, optional
            Signals as in ``v[...]``: ``["out", "v(in,out)", "i(v1)"]``.

        Notes
        -----
        Values have enough digits to read the same float64 again.
        """
        signals = self._signals(names)
        values = (self._values + 0.0).tolist() if names is None else [self[name] for name in signals]
        _written(path, ["name", "value"], ((_cell(name), repr(value)) for name, value in zip(signals, values)))

    def plot(self, path: Path, names: list[str] | None = None, title: str | None = None) -> None:
        """Draw a PNG: voltages over the plane if node names end in coordinates (``n1_m1_800_2400``), otherwise in their order.

        A map leaves out the nodes without coordinates, such as pads, and says how many there are.

        Parameters
        ----------
        path : str or path
        names : sequence of str, optional
            Signals as in ``v[...]``; default: every node.
        title : str, optional
            Above the picture.
        """
        names = self._signals(names)
        values = np.array([self[name] for name in names])
        places = [COORDINATES.search(name.removesuffix(")")) for name in names]
        on_map = np.array([p is not None for p in places], bool)
        if np.count_nonzero(on_map) > max(3, MAP_SHARE * len(names)):
            x, y = np.array([[float(p[1]), float(p[2])] for p in places if p]).T
            return _picture(path, title, lambda axes: _map(axes, x, y, values[on_map], int(np.count_nonzero(~on_map))))
        return _picture(path, title, lambda axes: _bars(axes, names, values))


class Waveforms(_Result[NDArray[Any]]):
    """Signals over time, frequency or a swept source: a mapping from names to (points,) arrays.

    The result of :meth:`Circuit.transient`, :meth:`Circuit.ac` and :meth:`Circuit.dc`. ``w["out"]`` is the voltage of a node at
    each point and ``w["i(v1)"]`` a current: float64, or complex128 over frequency. ``dict(w)`` has all kept signals, ``len(w)``
    is their number, and ``len(w.time)`` is the number of points. Two results are equal only if they are one object.

    Attributes
    ----------
    time, frequency, sweep : (points,) float64
        The points. A result has one of the three: ``time`` (s) of a transient, ``frequency`` (Hz) of small signals, ``sweep`` (V
        or A) of a swept source.
    nodes : list of str
        Names of all nodes of the circuit, kept or not.
    report : Report
        Seconds of each phase, sizes, and for a transient the numbers of time steps.
    """

    __eq__ = object.__eq__                                  # that of Mapping would compare arrays
    __hash__ = object.__hash__

    def __init__(self, axis, points, system, unknowns, values, report):
        """Called by the analyses of a Circuit with the name and the ``points`` of the ``axis``, then ``system``, ``unknowns``,
        ``values`` and ``report`` as for an operating point."""
        super().__init__(system, unknowns, values, report)
        self._axis, self._points = axis, points

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the (points,) values of a signal, in volt or ampere: float64, or complex128 over frequency.

        ``"n1"`` or ``"v(n1)"`` is the voltage of a node, and ``"v(n1,n2)"`` the voltage between two nodes. ``"i(v1)"`` is the
        current through a V, L, E or H element, from its first to its second node. Of complex values, ``"vm(n1)"`` is the
        magnitude, ``"vdb(n1)"`` the magnitude in decibel, ``"vp(n1)"`` the phase in degrees without jumps, ``"vr(n1)"`` the real
        part and ``"vi(n1)"`` the imaginary part. ``"im(v1)"`` and the like are parts of currents. Case is ignored. ``"0"`` and
        ``"gnd"`` are ground, 0 V.

        Raises
        ------
        InvalidInputError
            There is no such signal, or it was not kept. The error is also a ``KeyError``.
        """
        return self._signal(name)

    def __repr__(self) -> str:
        span = f" from {self._points[0]:g} to {self._points[-1]:g}" if len(self._points) else ""
        nodes = self._system.nodes if self._kept is None else int(np.searchsorted(self._kept, self._system.nodes))
        return f"Waveforms({_count(len(self._points), 'point')} of {self._axis}{span}, {_count(nodes, 'node')})"

    @property
    def time(self) -> NDArray[np.float64]:
        """(points,) times of a transient in seconds. Other results raise AttributeError."""
        return self._points_of("time")

    @property
    def frequency(self) -> NDArray[np.float64]:
        """(points,) frequencies of small signals in hertz. Other results raise AttributeError."""
        return self._points_of("frequency")

    @property
    def sweep(self) -> NDArray[np.float64]:
        """(points,) values of the swept source in volt or ampere. Other results raise AttributeError."""
        return self._points_of("sweep")

    def to_csv(self, path: Path, names: list[str] | None = None) -> None:
        """Write a table: a column of the points, then the signals. Complex signals take two columns, ``vr(n)`` and ``vi(n)``.

        Parameters
        ----------
        path : str or path
        names : sequence of str, optional
            Signals as in ``w[...]``: ``["out", "v(in,out)", "i(v1)"]``, and over frequency ``["vdb(out)", "vp(out)"]``. Default:
            every node, or the ``nodes`` of the analysis.

        Notes
        -----
        Values have enough digits to read the same float64 again.
        """
        columns: dict[str, Any] = {}
        for name in self._signals(names):
            columns |= self._columns(name)
        table = np.stack([self._points, *columns.values()], axis=1) + 0.0       # no -0
        _written(path, [self._axis, *map(_cell, columns)], (map(repr, row.tolist()) for row in table))

    def plot(self, path: Path, names: list[str] | None = None, title: str | None = None) -> None:
        """Draw a PNG of at most twelve signals: voltages above currents, or over frequency magnitude above phase.

        Parameters
        ----------
        path : str or path
        names : sequence of str, optional
            Signals as in ``w[...]``; default: the first nodes.
        title : str, optional
            Above the picture.
        """
        names, points = self._signals(names)[:MOST_CURVES], self._points
        if self._axis == "frequency":
            names = list(dict.fromkeys(split(n)[1] for n in names))
            panels = {label: {n: f(self[n]) for n in names} for f, label in ((_decibel, "dB"), (_degrees, "degrees"))}
        else:
            panels = {"V": {}, "A": {}}
            for n in names:
                panels["A" if n.strip().lower().startswith("i(") else "V"][n] = self[n]
        _picture(path, title, *(lambda axes, label=label, group=group: _curves(axes, points, group, label, self._axis)
                                for label, group in panels.items() if group))

    def _points_of(self, axis):
        if axis != self._axis:
            raise AttributeError(f"results over {AXES[self._axis]} have no .{axis}: their points are .{self._axis}")
        return self._points

    def _columns(self, name):
        values = self[name]
        if not np.iscomplexobj(values):
            return {name: values}
        bare = name.strip() if name.strip().endswith(")") else f"v({name})"
        return {f"{bare[0]}r{bare[1:]}": values.real, f"{bare[0]}i{bare[1:]}": values.imag}


def _decibel(z):
    return 20 * np.log10(np.maximum(np.abs(z), 1e-300))


def _degrees(z):
    return np.degrees(np.unwrap(np.angle(z)))


PARTS = {"m": np.abs, "p": _degrees, "r": np.real, "i": np.imag, "db": _decibel}


def split(name):
    """The part of a complex number that ``vm(n)``, ``vdb(n)``, ``ip(v1)``, ... select, and the signal. Other names: "" and the
    name."""
    match = PART.fullmatch(lower(name)) if isinstance(name, str) else None
    return (match[2], f"{match[1]}({match[3]})") if match else ("", name)


def list_of_names(names, what):
    """The names of signals as a list. One string is an error."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        given = "one string" if isinstance(names, str) else repr(names)
        raise InvalidInputError(f"{what} must be a list of names, got {given}")
    return list(names)


def _count(number, name):
    return f"{number:,} {name}{'s' * (number != 1)}"


def _cell(name):
    return f'"{name}"' if "," in name else name


def _written(path, head, rows):
    """Write a table of strings."""
    with written_whole(path) as part, open(part, "w", encoding="utf-8") as f:
        f.writelines(",".join(row) + "\n" for row in itertools.chain([head], rows))


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


def _curves(axes, points, signals, label, axis):
    for name, values in signals.items():
        (axes.semilogx if axis == "frequency" else axes.plot)(points, values, label=name, linewidth=1.2)
    axes.set_xlabel({"time": "time in s", "frequency": "frequency in Hz", "sweep": "source value"}[axis])
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def _map(axes, x, y, values, others):
    order = np.argsort(-values, kind="stable")              # draws the lowest voltages last, on top
    dots = axes.scatter(x[order], y[order], c=values[order], s=max(1.0, min(40.0, 2e4 / len(x))), marker="s", linewidths=0)
    axes.set_aspect("equal")
    if others:
        axes.set_xlabel(f"not drawn: {_count(others, 'node')} without coordinates")
    axes.figure.colorbar(dots, label="V")
    sides = np.clip(np.ptp(x) / max(np.ptp(y), 1), 0.4, 2.5)           # aspect ratio of the map
    axes.figure.set_size_inches(4 * sides + 1.6, 4.5)
    axes.figure.set_layout_engine("compressed")


def _bars(axes, names, values):
    axes.plot(values, drawstyle="steps-mid" if len(names) > 40 else "default", marker="o" if len(names) <= 40 else None)
    axes.set_ylabel("V")
    axes.set_xlabel("nodes, in the order of the deck" if len(names) > 40 else "")
    axes.grid(alpha=0.3)
    if len(names) <= 40:
        axes.set_xticks(range(len(names)), names, rotation=60, fontsize="small")
