"""Linear solves and Newton's method on one pattern: one analysis, then a refactorization for each new matrix.

Source: Nagel 1975, "SPICE2", sections 4.1 to 4.3 (linearized companion models, convergence). Gmin and source stepping are those
of the SPICE3f3 manual, section 3.2.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from meshsolve import api
from meshsolve.apps.circuit.family import pattern_key
from meshsolve.apps.circuit.jacobian import SMALL, Dense, Jacobian
from meshsolve.apps.circuit.mna import Matrix
from meshsolve.errors import ConvergenceWarning, InvalidInputError, MeshsolveError, PatternMismatchError, SingularMatrixError
from meshsolve.report import collected_warnings, warn

GMIN = 1e-2, 1e6, 1e-12     # siemens from each node to ground in gmin stepping: first, largest, and smallest before 0
GMIN_FACTOR = 10.0, 1.01    # ratio of consecutive conductances: largest, and smallest before gmin stepping fails
SOURCE_STEPS = 10                           # the first source step is a tenth of the source values
FACTS = ("nnz_A", "nnz_L", "nnz_U", "flops", "bytes", "threads", "device", "ordering", "engine")       # of the LU factorization
SHARE = 0.3                                 # share of a voltage tolerance by which an unmatched current may move the voltage
SMALLEST_SCALE = 1e-290                     # smallest accepted maximum of a row or a column, whose inverse is finite
BEYOND = 1e30                               # ampere: currents of devices beyond which a solution has a warning
USUAL = 1e-150, 1e150                       # sizes of right-hand sides that are solved without a change of unit
KEPT = 2                                    # factors kept of a linear circuit: of the usual time step and of the latest other one


class NoConvergence(Exception):
    """Newton's method did not converge. The package catches this error everywhere.

    Attributes
    ----------
    singular : SingularMatrixError or None
        The error of the matrix of a step, if one was singular. Another step or another start may avoid such a matrix.
    """

    def __init__(self, message, singular=None):
        super().__init__(message)
        self.singular = singular


class Solver:
    """Solves (G + a C + devices) x = s for changing a, s and operating points.

    Parameters
    ----------
    system : System
    options : Options
    report : Report
        Phases ``analyze``, ``refactor``, ``solve``; counts ``analyses``, ``refactorizations``, ``newton_steps``.
    dynamic, pinned
        As in :class:`Matrix`.
    threads : int, optional
    family : Family, optional
        Leases factors whose analysis other circuits have computed.
    """

    def __init__(self, system, options, report, dynamic=False, pinned=None, threads=None, family=None):
        self.system, self.options, self.report, self.threads = system, options, report, threads
        self.family, self._key, self._leased = family, pattern_key(dynamic, pinned), {}     # {key: factor}
        with report.phase("assemble"):
            self.matrix = family.matrix(system, dynamic, pinned) if family else Matrix(system, dynamic, pinned)
        self.factor, self.kept = None, {}                   # latest factor; for a linear circuit {a: (factor, uses)}
        self.dense = None                                   # dense LU of a small circuit with devices, scaled as that factor
        self.jacobian = None if system.linear else Jacobian(self)
        self.floor = np.full(system.n, options.vntol)
        self.floor[system.currents] = options.abstol
        self.failure = None                                 # latest NoConvergence of a time step
        self.in_doubt = False                               # the latest solution is that of a matrix singular in rounding
        self._warned = False

    def factored(self, A, a, to_ground=0.0):
        """The factor of A: analyzed the first time, refactored later.

        A is analyzed again if an entry was zero in the analysis, or if the scaling no longer fits, as when diodes open or close.
        ``a`` and ``to_ground`` are those of A.
        """
        self._require_finite(A.data, A.indptr)
        if self.factor is None and self.family:
            self._lease(self._key, a, to_ground, self.threads)
        if self.factor is None:
            return self._analyzed(A)
        try:
            with self.report.phase("refactor"):
                self.factor.refactor(A)
        except (PatternMismatchError, SingularMatrixError):
            return self._analyzed(A)
        self.count("refactorizations")
        return self.factor

    def release(self):
        """Return all leased factors to the family."""
        leased, self._leased = self._leased, {}
        for key, factor in leased.items():
            self.family.release(key, factor)

    def at_rest(self, volts, amperes, x):
        """:func:`operating_point` for values of the voltage sources and of the current sources."""
        return operating_point(self, self.system.right_hand_side(volts, amperes), x)

    def near(self, s, x):
        """:func:`operating_point` for a right-hand side."""
        return operating_point(self, s, x)

    def check_currents(self, largest):
        """Warn once if a device carries more than any model describes: beyond, exponentials are tangents."""
        if largest > BEYOND and not self._warned:
            self._warned = True
            warn(f"{self.system.netlist.path}: a nonlinear device carries {largest:.1g} A, since no resistance limits its current: "
                 "voltages may be wrong. Add a series resistance, such as rs= of its model", ConvergenceWarning)

    def count(self, name, by=1):
        self.report.facts[name] = self.report.facts.get(name, 0) + by

    def linear(self, a, s):
        """The solution of a circuit without devices. Two factors are kept: a third matrix replaces the one with fewer uses."""
        F, uses = self.kept.pop(a, (None, 0))
        if F is None:
            spare = min(self.kept, key=lambda other: self.kept[other][1]) if len(self.kept) == KEPT else None
            self.factor = None if spare is None else self.kept.pop(spare)[0]
            F = self.factored(self.matrix.linear(a), a)
        self.kept[a] = F, uses + 1
        return self.solved(F, s)

    def solved(self, F, s):
        """The solution with a factor."""
        self._require_finite(s)
        factor = _unit(s)
        with np.errstate(over="ignore"):
            x = self.by_factor(F, s) if factor == 1 else self.by_factor(F, s * factor) / factor
        self._require_finite(x)
        self._warn_if_in_doubt()
        return x

    def by_factor(self, F, s):
        """The solution with a sparse factor. It sets ``in_doubt``: warnings of the factor speak of matrices, not of circuits."""
        with self.report.phase("solve"), collected_warnings() as said:
            x = F.solve(s)
        self.in_doubt = bool(said)
        return x

    def newton(self, a, s, x, limit, guess=None, past=None, to_ground=0.0, first=None):
        """Newton's method from ``guess``, or from x.

        Each step solves for the change of x: J dx = s - (G + a C) x - (currents of the devices). J may therefore be the factor of
        a nearby matrix. The test of convergence uses the currents at the new voltages, which the next step needs anyway.

        Parameters
        ----------
        x : (n,) float64
            A solution of similar equations: the voltages of devices are limited relative to it.
        first : (branches,) float64, optional
            Voltages of the devices in the first linearization, instead of those of x.
        past : (branches,) float64, optional
            The charges q of the devices add the currents a q - past. None: no charges.

        Returns
        -------
        x : (n,) float64
        law : Law
            The law of the devices at x.

        Raises
        ------
        NoConvergence
            No convergence within ``limit`` steps, a value is no longer finite, or the matrix of a step is singular.
        """
        system, devices, jacobian = self.system, self.system.devices, self.jacobian
        jacobian.set_linear_part(a, to_ground)
        v = system.device_voltages(x)
        at = v if first is None else first
        if guess is not None:
            x, v = guess, system.device_voltages(guess)
            at = devices.limited(v, at)
        law, current, conductance = self._linearized(at, a, past)
        refactor = False
        for _ in range(int(limit)):
            exact = refactor or at is not v or not jacobian.is_near(conductance)
            try:
                if exact:
                    jacobian.factor(conductance)
                    current = current if at is v else current + devices.product(conductance, v - at)       # tangent at v
                step = self._step(s, x, current)
            except InvalidInputError as e:                  # a value is not finite
                raise NoConvergence(str(e)) from e
            except SingularMatrixError as e:
                raise NoConvergence(str(e), e) from e
            new = x + step
            wanted = system.device_voltages(new)
            limited = devices.limited(wanted, at)
            expected = current + devices.product(jacobian.conductance, wanted - v)
            law, current, conductance = self._linearized(limited, a, past)
            if limited is wanted and self._agree(wanted, current, expected, conductance):
                self._warn_if_in_doubt()
                return new, law
            if exact and self._close(new, x, step) and self._at_rest(wanted, limited, at):
                self._warn_if_in_doubt()
                return new, law if limited is wanted else devices.at(wanted)
            x, v, at, refactor = new, wanted, limited, not exact
        raise NoConvergence(f"Newton's method did not converge in {limit:g} steps")

    def _analyzed(self, A):
        try:
            self._set_factor(self._new_factor(A))
        except SingularMatrixError as e:
            self._require_range(A, e.index)
            raise self._named(e) from e
        return self.factor

    def _new_factor(self, A):
        with self.report.phase("analyze"):
            factor = _factor(A, self.threads)
        self.count("analyses")
        return factor

    def _lease(self, *key):
        """Use a factor of the family, if it has one for this key."""
        factor = self.family.lease(key, self._new_factor)
        if factor is not None:
            self._leased[key] = factor
            self._set_factor(factor)

    def _set_factor(self, factor):
        self.factor = factor
        if self.jacobian is not None and self.system.n <= SMALL and factor.dtype.kind == "f":
            self.dense = Dense(self.matrix, factor.row_scale, factor.col_scale)
        facts = self.factor.report.facts
        self.report.facts |= {name: facts[name] for name in FACTS if facts.get(name)}

    def _named(self, e):
        """The same error with the name of the unknown."""
        index = getattr(e, "index", -1)
        index = -1 if index is None else int(index)
        at = f" at {self.system.describe(index)}" if 0 <= index < self.system.n else ""
        return SingularMatrixError(f"{self.system.netlist.path}: the equations of the circuit are singular{at}. Likely causes: "
                                   "current sources in series; sources in a loop; controlled sources that cancel", index)

    def _warn_if_in_doubt(self):
        """Warn once if the latest solution may be wrong."""
        if self.in_doubt and not self._warned:
            self._warned = True
            warn(f"{self.system.netlist.path}: the equations of the circuit are singular in rounding: voltages and currents may be wrong. "
                 "Likely causes: resistances or gains that differ by more than 15 decades; feedback that cancels", ConvergenceWarning)

    def _require_finite(self, values, indptr=None):
        """Raise if a value is not finite: of the unknowns, or of matrix rows that begin at ``indptr``."""
        with np.errstate(over="ignore", invalid="ignore"):
            if math.isfinite(abs(values.sum())):            # the usual case, without threads of BLAS
                return
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            raise self._out_of_range(int(wrong[0] if indptr is None else np.searchsorted(indptr, wrong[0], side="right") - 1))

    def _require_range(self, A, k):
        """Raise if the largest entry of row or column k has no finite inverse, which scaling needs."""
        if k is not None and 0 <= k < self.system.n:
            for entries in (A.data[A.indptr[k]:A.indptr[k + 1]], A.data[A.indices == k]):
                if 0 < np.abs(entries).max(initial=0.0) < SMALLEST_SCALE:
                    raise self._out_of_range(int(k))

    def _out_of_range(self, k):
        return InvalidInputError(f"{self.system.netlist.path}: values are too large or too small for double precision at "
                                 f"{self.system.describe(k)}: check the units of the elements")

    def _step(self, s, x, current):
        """The change of x."""
        r = s - self.jacobian.linear @ x
        r -= self.system.through @ current
        self._require_finite(r)
        step = self.jacobian.solve(r)
        self._require_finite(step)
        self.count("newton_steps")
        return step

    def _linearized(self, v, a, past):
        """The law of the devices at voltages v, then currents and conductances that include their charges."""
        law = self.system.devices.at(v)
        if past is None:
            return law, law.current, law.conductance
        return law, law.current + (a * law.charge - past), law.conductance + a * law.capacitance

    def _agree(self, v, current, expected, conductance):
        """True if the currents of the devices at voltages v agree with those of the linear equations, within the tolerance of
        currents and within SHARE of the tolerance of voltages."""
        o, devices = self.options, self.system.devices
        tolerance = np.abs(expected)
        tolerance *= o.reltol
        tolerance += o.abstol
        by_voltage = devices.product(SHARE * devices.sizes(conductance), devices.voltage_tolerances(v, o))
        return not np.count_nonzero(np.abs(current - expected) > np.minimum(tolerance, by_voltage))

    def _at_rest(self, wanted, limited, at):
        """True if the voltages of the devices no longer move."""
        o, tolerance = self.options, self.system.devices.voltage_tolerances(wanted, self.options)
        return not np.count_nonzero(np.abs(wanted - at) > tolerance) and bool(
            limited is wanted or np.allclose(limited, wanted, rtol=o.reltol, atol=o.vntol))

    def _close(self, new, old, step):
        size = np.maximum(np.abs(new), np.abs(old))
        size *= self.options.reltol
        size += self.floor
        return not np.count_nonzero(np.abs(step) > size)


def operating_point(solver, s, x):
    """Solve for the circuit at rest by Newton's method: from x, then from conducting devices as SPICE does, then with gmin
    stepping, then with source stepping.

    Parameters
    ----------
    solver : Solver
    s : (n,) float64
        Right-hand side.
    x : (n,) float64
        Start of Newton's method.
    """
    system, options = solver.system, solver.options
    if system.linear:
        return solver.linear(0.0, s)
    ways = [functools.partial(_directly, x=x, first=first) for first in (None, system.devices.native.start())]
    failures = []
    for way in (*ways, _gmin_stepping, _source_stepping):
        try:
            x = way(solver, s, options.itl1)
        except NoConvergence as e:
            failures.append(e)
        else:
            solver.check_currents(np.abs(system.devices.at(system.device_voltages(x)).current).max())
            return x
    if all(e.singular for e in failures):
        raise failures[-1].singular
    raise MeshsolveError(f"{system.netlist.path}: no operating point was found, neither directly nor with gmin or source "
                         "stepping: check the models, or give voltages near the solution in .nodeset lines")


def _unit(s):
    """A power of two that brings the right-hand side of a linear circuit near 1, or 1 in the usual range. Products with conductances
    would lose digits to underflow, or overflow."""
    size = float(np.abs(s).max(initial=0.0))
    return 1.0 if USUAL[0] <= size <= USUAL[1] or not 0 < size < math.inf else math.ldexp(1.0, min(-math.frexp(size)[1], 1000))


def _directly(solver, s, limit, x, first):
    return solver.newton(0.0, s, x, limit, first=first)[0]


def _factor(A, threads):
    """The sparse LU factorization."""
    return api.lu(A, device="cpu", threads=threads)           # the vectors of the circuit lie on the host


def _gmin_stepping(solver, s, limit):
    """Decrease a conductance from each node to ground to 0. The factor shrinks where Newton's method fails."""
    (g, largest, least), (most, end) = GMIN, GMIN_FACTOR
    x, solved, factor = np.zeros(solver.system.n), None, most
    while solved != 0:
        try:
            x, solved = solver.newton(0.0, s, x, limit, to_ground=g)[0], g
            factor = min(factor ** 1.5, most)
        except NoConvergence:
            factor = most if solved is None else factor ** 0.5
            if g == 0 or g >= largest or factor < end:
                raise
        g = 10 * g if solved is None else solved / factor if solved > least else 0.0
    return x


def _source_stepping(solver, s, limit):
    """Increase all sources from 0 to their values. The step shrinks where Newton's method fails."""
    x, done, step = np.zeros(solver.system.n), 0.0, 1 / SOURCE_STEPS
    while done < 1:
        try:
            x, _ = solver.newton(0.0, min(1.0, done + step) * s, x, limit)
            done, step = min(1.0, done + step), 2 * step
        except NoConvergence:
            step /= 8
            if step < 1e-6:
                raise
    return x
