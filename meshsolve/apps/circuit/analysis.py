"""A circuit and its analyses: operating point, sweep, small signals, transient.

Each analysis factors once and refactors for each Newton step, frequency or new length of a time step. A linear circuit keeps its
factor as long as the time step stays the same. See :mod:`.mna`, :mod:`.nodal`, :mod:`.newton`, :mod:`.transient`, :mod:`.devices`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from meshsolve.apps.circuit import choice, controls, requests, sweeps, topology
from meshsolve.apps.circuit.family import Family
from meshsolve.apps.circuit.mna import Matrix, System
from meshsolve.apps.circuit.names import lower
from meshsolve.apps.circuit.newton import Solver, operating_point
from meshsolve.apps.circuit.results import OperatingPoint, Waveforms, list_of_names, split
from meshsolve.apps.circuit.sources import Sources
from meshsolve.apps.circuit.transient import Transient, schedule, warn_of_missed_waves
from meshsolve.errors import InvalidInputError, SingularMatrixError
from meshsolve.memory import ensure_memory
from meshsolve.options import as_flag, as_number, one_of, shown
from meshsolve.report import Report
from meshsolve.seal import Sealed
from meshsolve.types import Device, Sparse

PIN_CONDUCTANCE = 1e10      # siemens from a node to the source of its .ic voltage
BIAS_DIFFERENCE = 4.0       # largest accepted difference of device voltages between two operating points, in tolerances
KINDS = ("tran", "ac", "dc", "op")              # of analyses; run() prefers the first one of a deck


class Circuit(Sealed):
    """A circuit that :func:`~meshsolve.apps.circuit.read` or :func:`~meshsolve.apps.circuit.parse` made from a deck. Its methods
    are the analyses:

    - ``op()``: the circuit at rest
    - ``dc(source, start, stop, step)``: at rest, over the values of one source
    - ``ac("dec", points, fstart, fstop)``: small signals over frequency
    - ``transient(tstep, tstop)``: over time
    - ``run()``: an analysis of the deck's control lines

    No analysis changes the circuit: call them in any order, as often as needed. ``with_values`` returns another circuit, in which
    some elements have other values.

    Attributes
    ----------
    title : str
        The first line of the deck.
    nodes : list of str
        Names with A to Z in lower case, without ground. A node inside a subcircuit is ``x1.n``.
    analyses : list of Analysis
        Analyses of the deck, each with ``.kind`` ("op", "dc", "ac", "tran"), ``.arguments`` and ``.keywords``.
    """

    title: str
    analyses: list[controls.Analysis]

    def __init__(self, netlist, report):
        """Called by ``read`` and ``parse`` with a ``netlist`` and the ``report`` of the reader."""
        self._netlist, self._read = netlist, report
        self._family = self._copies = None                  # shared with earlier circuits; with copies of this one
        self._deck = controls.parse(netlist.controls)
        self.title, self.analyses = netlist.title, self._deck.analyses
        with report.phase("assemble"):
            self._system = System(netlist, self._deck.options)
        for name, _, place in self._deck.initial + self._deck.guesses:
            netlist.node(name, place)

    def __repr__(self):
        counts = ", ".join(f"{letter.upper()}: {len(group):,}" for letter, group in self._netlist.groups.items() if len(group))
        return f"Circuit({self.title!r}, {len(self.nodes):,} node{'s' * (len(self.nodes) != 1)}, {counts})"

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes, without ground."""
        return list(self._netlist.node_names)

    @property
    def values(self) -> dict[str, float]:
        """Values by element name, in SI units: of R, C and L, dc values of V and I, gains of E, F, G and H, areas of D.

        :meth:`with_values` accepts the same names. Sources with a waveform have no entry. Each access builds a new dict.
        """
        return self._netlist.values()

    def with_values(self, values: Mapping[str, float]) -> Circuit:
        """Return the same circuit with other values of some elements.

        The copy shares the deck and the analysis of each matrix: an operating point of a linear circuit then costs one
        refactorization. Use it for many samples, in any number of threads.

        Parameters
        ----------
        values : mapping of str to float
            By element name, inside subcircuits as ``"x1.r2"``: ohm, farad, henry, dc volt or ampere, gain, area of a diode. Give
            values as they are after the deck's ``m=`` is applied.

        Returns
        -------
        Circuit

        Raises
        ------
        InvalidInputError
            An element is unknown, a value is not a finite number, a resistance is 0, or the area of a diode is not positive. Or a
            source has a waveform: make its numbers parameters of the deck, and use ``params=`` of ``read`` and ``parse``.

        Notes
        -----
        O(elements). Results do not depend on earlier calls: the analysis is always that of the circuit that was read. The copy
        shares no analysis if other resistances than before are far smaller than the rest.
        """
        if not isinstance(values, Mapping):
            raise InvalidInputError(f"values must be a mapping from element names to numbers, got {shown(values)}")
        netlist, other, report = self._netlist.with_values(values), copy.copy(self), Report()
        with report.phase("assemble"):
            system = self._system.with_values(netlist)
            if system is None:
                system, other._family, other._copies = System(netlist, self._deck.options), None, None
            else:
                self._copies = other._family = other._copies = self._copies or Family(self._system)
        other._netlist, other._system, other._read = netlist, system, report
        return other

    def matrix(self) -> Sparse:
        """Assemble the matrix of the equations at 1 MHz, with 1 mS for each branch of a device: (n, n) float64, for statistics."""
        matrix = Matrix(self._system, dynamic=True)
        return matrix.with_devices(2e6 * np.pi, np.full(int(matrix.which.max(initial=-1)) + 1, 1e-3))

    def op(self, threads: int | None = None, nodes: list[str] | None = None, solver: choice.Solver = "auto",
           device: Device = "auto") -> OperatingPoint:
        """Compute the operating point: capacitors open, inductors short, sources at their DC values.

        Parameters
        ----------
        threads : int, optional
        nodes : sequence of str, optional
            Signals to keep, as in :meth:`transient`.
        solver : {"auto", "lu", "cholesky", "parac"}
            The last two solve linear circuits of independent sources and positive R and L. The report has the choice, and why.
        device : {"auto", "cpu", "cuda"}
            ``"cuda"`` factors and solves on the GPU, except by LU. ``"auto"`` is the CPU.

        Returns
        -------
        OperatingPoint
            A mapping from names to floats: ``v["node"]``, ``v["i(v1)"]``; also ``.to_csv(path)``, ``.plot(path)``.

        Raises
        ------
        SingularMatrixError
            A node has no path to ground, or voltage sources and inductors form a loop: the message has FILE:LINE and names. Or
            the voltages of sources in a loop do not add up to 0. Or the equations are singular for another reason.
        InvalidInputError, DeviceUnavailableError
            An unknown node; the circuit needs LU, but another solver is requested, or the GPU; there is no GPU.
        MeshsolveError
            Newton's method found no operating point, also with gmin and source stepping.

        Notes
        -----
        A linear circuit costs one factorization, another one an analysis and a refactorization for each Newton step.
        """
        report = self._report()
        volts, amperes = self._sources()
        keep, values = self._table(nodes, 1)
        solving = self._solving(report, threads, solver, device, 1)
        values[0] = solving.at_rest(volts.dc, amperes.dc, self._unknowns(self._deck.guesses))[keep]
        solving.release()
        return OperatingPoint(self._system, None if nodes is None else keep, values[0], report)

    def dc(self, source: str, start: float, stop: float, step: float, nodes: list[str] | None = None,
           threads: int | None = None, solver: choice.Solver = "auto", device: Device = "auto") -> Waveforms:
        """Compute operating points over the values of one source.

        Parameters
        ----------
        source : str
            Name of a V or I element, such as ``"v1"``.
        start, stop, step : float
            In volt or ampere. The values are start, start + step, ..., up to stop. A negative step leads down.
        nodes : sequence of str, optional
            Signals to keep, as in :meth:`transient`.
        threads : int, optional
        solver, device : as in :meth:`op`

        Returns
        -------
        Waveforms
            ``.sweep`` has the values of the source, and ``w["node"]`` the voltages at each of them.

        Raises
        ------
        InvalidInputError
            There is no such source, or the steps do not lead from start to stop.
        SingularMatrixError, MeshsolveError
            As in :meth:`op`.
        """
        start, stop, step = (as_number(x, name, -np.inf) for x, name in ((start, "start"), (stop, "stop"), (step, "step")))
        controls.require_sweep(start, stop, step)
        letter, k = self._source(source)
        points = start + step * np.arange(int((stop - start) / step + 1e-9) + 1)
        report = self._report()
        volts, amperes = self._sources()
        keep, values = self._table(nodes, len(points))
        solving, x = self._solving(report, threads, solver, device, len(points)), self._unknowns(self._deck.guesses)
        sweeps.over_source(solving, (volts, amperes), (letter, k), points, keep, values, x)
        solving.release()
        return self._waveforms("sweep", points, nodes, keep, values, report)

    def ac(self, spacing: Literal["dec", "oct", "lin"], points: int, fstart: float, fstop: float,
           nodes: list[str] | None = None, threads: int | None = None) -> Waveforms:
        """Compute small signals about the operating point over frequency: the response to the ``AC`` values of the sources.

        A linear circuit needs no operating point. With nonlinear devices the operating point must determine their voltages; it
        may leave other voltages and currents undetermined.

        Parameters
        ----------
        spacing : {"dec", "oct", "lin"}
            ``points`` per decade, per octave, or in all.
        points : int
        fstart, fstop : float
            First and last frequency, in hertz.
        nodes : sequence of str, optional
            Signals to keep, as in :meth:`transient`.
        threads : int, optional

        Returns
        -------
        Waveforms
            ``.frequency``, and complex amplitudes ``w["node"]``; ``w["vdb(node)"]`` and the like are parts of them.

        Raises
        ------
        InvalidInputError
            Unknown spacing, no point, or frequencies that are not positive or do not ascend.
        SingularMatrixError
            A voltage or a current is undetermined at every frequency. Or the equations are singular at one frequency. Or
            nonlinear devices depend on a voltage or current that the operating point leaves undetermined. The message has names
            and frequency.
        MeshsolveError
            As in :meth:`op`.

        Notes
        -----
        One analysis and one complex refactorization for each frequency. Up to 1000 unknowns, the loop runs in C++.
        """
        frequency = controls.frequencies(spacing, points, fstart, fstop)
        report, system = self._report(), self._system
        volts, amperes = self._sources()
        conductance, capacitance = np.empty(0), np.empty(0)
        if system.linear:
            topology.check_moving(self._netlist)
        else:
            law = system.devices.at(system.device_voltages(self._bias(volts, amperes, report, threads)))
            conductance, capacitance = law.conductance, law.capacitance
        solver = self._solver(report, threads, dynamic=True)
        s = system.right_hand_side(volts.ac, amperes.ac.astype(complex))
        keep, values = self._table(nodes, len(frequency), complex)
        sweeps.over_frequency(solver, frequency, (conductance, capacitance), s, keep, values, system.linear)
        solver.release()
        return self._waveforms("frequency", frequency, nodes, keep, values, report)

    def transient(self, tstep: float, tstop: float, method: Literal["trap", "be"] = "trap", nodes: list[str] | None = None,
                  tstart: float = 0.0, tmax: float | None = None, uic: bool = False, fixed_step: bool = False,
                  threads: int | None = None, solver: choice.Solver = "auto", device: Device = "auto") -> Waveforms:
        """Compute the circuit over time, from its operating point at time 0.

        Parameters
        ----------
        tstep, tstop : float
            Seconds. Results are kept at the multiples of tstep and at tstop. Between them the error control chooses the steps. A
            tstep above tstop is replaced by tstop, except as the default of rise and fall times.
        method : {"trap", "be"}
            Trapezoidal rule or backward Euler.
        nodes : sequence of str, optional
            Signals to keep: ``"n1"``, ``"v(n1,n2)"``, ``"i(v1)"``. Default: all nodes and branch currents.
        tstart : float
            Results before it are not kept. At most tstop.
        tmax : float, optional
            Longest step in seconds. Default: (tstop - tstart) / 50, as in SPICE, and at most tstep. A sine limits the step to a
            sixteenth of its period. With tmax above tstep, steps may be longer than tstep. Results are then kept at the ends of
            steps, at least tstep apart, and at corners of sources, at tstart and at tstop.
        uic : bool
            Start from the ``ic=`` and ``.ic`` values of the deck, by default 0, instead of an operating point.
        fixed_step : bool
            Use steps of tstep without error control or corners of sources: a linear circuit is factored once.
        threads, solver, device : as in :meth:`op`; ``.ic`` voltages without ``uic`` use LU at time 0

        Returns
        -------
        Waveforms
            With ``.time``.

        Raises
        ------
        InvalidInputError
            A time that is not positive, a tstart after tstop, an unknown method or node.
        OutOfMemoryError
            The results do not fit into memory. Select signals with ``nodes``.
        SingularMatrixError, MeshsolveError
            As in :meth:`op`; the time step became too small.

        Notes
        -----
        A linear circuit costs one refactorization for each new length of a step and one solve for each step. Another one costs a
        refactorization for each Newton step. Tolerances: ``.options``. Up to 256 unknowns, steps by LU run in C++.
        """
        tstep, tstop = as_number(tstep, "tstep", above=True), as_number(tstop, "tstop", above=True)
        one_of(method, "method", ("trap", "be"))
        tstart, report, keep = as_number(tstart, "tstart"), self._report(), self._kept(nodes)
        tmax = None if tmax is None else as_number(tmax, "tmax", above=True)
        uic = as_flag(uic, "uic")
        plan = schedule(min(tstep, tstop), tstop, tstart, tmax, method, as_flag(fixed_step, "fixed_step"))
        volts, amperes = self._sources_over_time(tstep, tstop, plan)
        self._ensure(plan.rows or 0, keep)
        options = report, threads, solver, device, round(tstop / tstep)
        x = self._initial_states() if uic else self._rest(volts, amperes, *options, at=0.0)
        solving = self._solving(*options, moving=True)
        run = Transient(solving, volts, amperes, plan)
        time, values = run.march(run.from_states(x) if uic else x, keep)
        solving.release()
        return self._waveforms("time", time, nodes, keep, values, report)

    def run(self, kind: str | None = None, threads: int | None = None) -> tuple[Any, list[str] | None]:
        """Run an analysis of the deck and keep the signals of its .print lines: ``result, names = circuit.run()``.

        Parameters
        ----------
        kind : {"tran", "ac", "dc", "op"}, optional
            Default: the first of these in the deck, or else the operating point.
        threads : int, optional

        Returns
        -------
        result : OperatingPoint or Waveforms
        names : list of str or None
            Signals of the .print lines, for ``result.to_csv(path, names)`` and ``result.plot(path, names)``. None: all.

        Raises
        ------
        InvalidInputError
            The deck has no such analysis.
        """
        if kind is not None:
            one_of(kind, "kind", KINDS)
        analyses = {a.kind: a for a in reversed(self.analyses)}
        chosen = kind or next((k for k in KINDS if k in analyses), "op")
        requests.warn_of_others(self._netlist.path, [a.kind for a in self.analyses], chosen, kind is not None)
        kind = chosen
        if kind not in analyses and kind != "op":
            raise InvalidInputError(f"{self._netlist.path}: the deck has no .{kind} line")
        names, nodes = requests.resolve(self._deck.prints.get(kind) or [], self._system)
        if kind == "op":
            return self.op(threads=threads), names
        analysis = analyses[kind]
        if kind == "dc":
            self._source(analysis.arguments[0], analysis.place)
        method = {"method": self._deck.options.method} if kind == "tran" else {}
        function: Any = {"tran": self.transient, "ac": self.ac, "dc": self.dc}[kind]
        return function(*analysis.arguments, **analysis.keywords, **method, nodes=nodes, threads=threads), names

    # ---- parts ----------------------------------------------------------------------------------------------------------

    def _report(self):
        sizes = {"elements": len(self._netlist.element_names), "nodes": len(self._netlist.node_names), "unknowns": self._system.n}
        report = Report(**sizes)
        report.merge(self._read)
        return report

    def _sources(self, tstep=1.0, tstop=1.0, same=None):
        return tuple(Sources(self._netlist[letter], self._netlist.waveforms, tstep, tstop, same) for letter in "vi")

    def _sources_over_time(self, tstep, tstop, plan):
        self._netlist.loops.require_equal_waveforms(self._netlist)
        sources = self._sources(tstep, tstop, plan.same)    # the default length of edges is tstep, even above tstop
        warn_of_missed_waves(tstep, plan, sources, self._netlist.path)
        return sources

    def _solver(self, report, threads, **what):
        return Solver(self._system, self._deck.options, report, threads=threads, family=self._family, **what)

    def _solving(self, report, threads, *options, moving=False):
        """The solver of operating points after a check of the topology, or of time steps. ``options``: solver, device, solves."""
        if not moving:
            self._check()
        return choice.solving(self._system, self._deck.options, report, threads, self._family, options, moving,
                              lambda: self._solver(report, threads, dynamic=moving))

    def _check(self, held=()):
        """Raise if the topology leaves voltages or currents undetermined, apart from the nodes ``held``. Circuits of one family
        share the result."""
        if held:
            topology.check(self._netlist, held)
            return
        if self._family is None or not self._family.is_sound:
            topology.check(self._netlist)
        if self._family is not None:
            self._family.is_sound = True

    def _bias(self, volts, amperes, report, threads):
        """Unknowns whose device voltages are those of the operating point. Other unknowns may be undetermined, as between
        capacitors or in a loop of inductors."""
        try:
            self._check()
        except SingularMatrixError as e:
            found = [self._partly_free(volts, amperes, report, threads, way) for way in (False, True)]
            v, other = map(self._system.device_voltages, found)
            if np.any(np.abs(v - other) > BIAS_DIFFERENCE * self._system.devices.voltage_tolerances(v, self._deck.options)):
                what = "The voltages of nonlinear devices depend on it, so their small signals are undetermined"
                raise SingularMatrixError(f"{e}. {what}", e.index) from e
            return found[0]
        return self._rest(volts, amperes, report, threads, at=None)

    def _partly_free(self, volts, amperes, report, threads, other_way):
        """An operating point with its undetermined voltages and currents set to 0. ``other_way`` sets them to 1 and opens each
        loop of inductors at another one: device voltages that agree in both are determined."""
        topology.check_moving(self._netlist)
        system, value = self._system, float(other_way)
        nodes, inductors = topology.undetermined(self._netlist, other_way)
        rows = np.concatenate([nodes, system.branch["l"][inductors]])
        diagonal = np.repeat([PIN_CONDUCTANCE, -PIN_CONDUCTANCE], [len(nodes), len(inductors)])
        s = system.right_hand_side(volts.dc, amperes.dc)
        s[rows] += diagonal * value
        solver = Solver(system, self._deck.options, report, pinned=(rows, diagonal), threads=threads)
        return operating_point(solver, s, self._unknowns(self._deck.guesses))

    def _rest(self, volts, amperes, report, threads, *options, at):
        """The operating point with the sources at their DC values. With a time ``at``: sources at that time, and .ic voltages
        held, which need LU; without them by the solver that ``options`` select."""
        if options and self._system.linear and not self._voltages(self._deck.initial):
            solving = self._solving(report, threads, *options)
            x = solving.at_rest(volts.at(at), amperes.at(at), None)
            solving.release()
            return x
        x = self._unknowns(self._deck.guesses)
        s, pinned = self._system.right_hand_side(*((volts.dc, amperes.dc) if at is None else (volts.at(at), amperes.at(at)))), None
        held = self._voltages(self._deck.initial) if at is not None else []
        self._check([k for k, _ in held])
        if held:
            nodes, values = map(np.array, zip(*held))
            pinned = nodes, PIN_CONDUCTANCE
            s[nodes] += PIN_CONDUCTANCE * values
        solver = self._solver(report, threads, pinned=pinned)
        x = operating_point(solver, s, x)
        solver.release()
        return x

    def _voltages(self, settings):
        """(node, volt) of .ic or .nodeset lines without ground. The last line on a node counts."""
        return [(k, v) for k, v in {self._netlist.node(name): volt for name, volt, _ in settings}.items() if k >= 0]

    def _unknowns(self, settings):
        """(n,) unknowns with the voltages of .ic or .nodeset lines, 0 elsewhere."""
        x = np.zeros(self._system.n)
        for k, volt in self._voltages(settings):
            x[k] = volt
        return x

    def _initial_states(self):
        """Capacitor voltages and inductor currents, then device voltages: ic= of the element, or else .ic voltages, or else 0."""
        topology.check_moving(self._netlist)
        x, system = self._unknowns(self._deck.initial), self._system
        given = np.concatenate([self._netlist[letter].values[:, 1] for letter in "cl"])
        return np.where(np.isnan(given), system.states @ x, given), system.devices.initial(x[:system.nodes])

    def _source(self, name, place=None):
        for letter in "vi":
            for k, e in enumerate(self._netlist[letter].names.tolist()):
                if isinstance(name, str) and self._netlist.element_names[e] == lower(name.strip()):
                    return letter, k
        raise InvalidInputError(f"{place or self._netlist.path}: there is no source {name!r}")

    def _kept(self, nodes, complex_parts=False):
        """The unknowns to keep, in ascending order."""
        if nodes is None:
            return np.arange(self._system.n)
        names = list_of_names(nodes, "nodes")
        names = [split(name)[1] for name in names] if complex_parts else names               # vdb(n) needs n
        unknowns = {k for name in names for k in self._system.unknown(name)}
        return np.array(sorted(unknowns - {-1}), dtype=np.int64)

    def _ensure(self, points, keep, dtype=float):
        """Raise if the results at so many points do not fit into memory."""
        what = f"keeping {points:,} values of {len(keep):,} signals (nodes= selects signals)"
        ensure_memory(points * max(len(keep), 1) * np.dtype(dtype).itemsize, what)

    def _table(self, nodes, points, dtype=float):
        """The unknowns to keep, in ascending order, and an empty table of results for them."""
        keep = self._kept(nodes, dtype is complex)
        self._ensure(points, keep, dtype)
        return keep, np.zeros((points, len(keep)), dtype)

    def _waveforms(self, axis, points, nodes, keep, values, report):
        return Waveforms(axis, points, self._system, None if nodes is None else keep, values, report)
