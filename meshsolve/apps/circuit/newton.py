"""Linear solves and Newton's method on one pattern: one analysis, then a refactorization for each new matrix.

Source: Nagel 1975, "SPICE2", sections 4.1 to 4.3 (linearized companion models, convergence); gmin and source stepping as in
the SPICE3f3 manual, section 3.2.
"""

from __future__ import annotations

import numpy as np

from meshsolve import api
from meshsolve.apps.circuit.mna import Matrix
from meshsolve.errors import InvalidInputError, MeshsolveError, PatternMismatchError, SingularMatrixError

GMIN_STEPS = 10.0 ** -np.arange(2, 13)      # conductances from each node to ground, siemens
SOURCE_STEPS = 10                           # first step of the sources: a tenth of their values
FACTS = ("nnz_A", "nnz_L", "nnz_U", "flops", "bytes", "threads", "device", "ordering", "engine")       # of the LU factorization
KEPT = 2                                    # factors of a linear circuit: of the usual time step and of the latest other one


def _factor(A, threads):
    """The sparse LU factorization."""
    return api.lu(A, device="cpu", threads=threads)           # where the vectors of the circuit lie


class NoConvergence(Exception):
    """Newton's method did not converge; never leaves this package."""


class Solver:
    """Solves (G + a C + diodes) x = s for changing a, s and operating points.

    Parameters
    ----------
    system : System
    options : Options
    report : Report
        Phases ``analyze``, ``refactor``, ``solve``; counts ``analyses``, ``refactorizations``, ``newton_steps``.
    dynamic, pinned
        As in :class:`Matrix`.
    threads : int, optional
    """

    def __init__(self, system, options, report, dynamic=False, pinned=None, threads=None):
        self.system, self.options, self.report, self.threads = system, options, report, threads
        with report.phase("assemble"):
            self.matrix = Matrix(system, dynamic, pinned)
        self.factor, self.kept = None, {}                   # the latest factor; of a linear circuit {a: (factor, uses)}

    def factored(self, A):
        """A factor of A: of this pattern the first time, refactored later, or anew where what was analysed does not fit any
        more: an entry that was zero then, or scales that junctions which open or close leave behind."""
        self._require_finite(A.data, A.indptr)
        if self.factor is None:
            return self._analyzed(A)
        try:
            with self.report.phase("refactor"):
                self.factor.refactor(A)
        except (PatternMismatchError, SingularMatrixError):
            return self._analyzed(A)
        self._count("refactorizations")
        return self.factor

    def _analyzed(self, A):
        with self.report.phase("analyze"):
            try:
                self.factor = _factor(A, self.threads)
            except SingularMatrixError as e:
                raise self._named(e) from e
        self._count("analyses")
        facts = self.factor.report.facts
        self.report.facts |= {name: facts[name] for name in FACTS if facts.get(name)}
        return self.factor

    def _named(self, e):
        """The same error with the unknown's name."""
        index = getattr(e, "index", -1)
        index = -1 if index is None else int(index)
        what = f", which shows at {self.system.describe(index)}" if 0 <= index < self.system.n else ""
        path = self.system.netlist.path
        return SingularMatrixError(f"{path}: the equations of the circuit are singular{what}. Current sources in series, sources "
                                   "in a loop or controlled sources that cancel are likely causes", index)

    def _count(self, name, by=1):
        self.report.facts[name] = self.report.facts.get(name, 0) + by

    def linear(self, a, s):
        """The solution of a circuit without diodes. Two factors are kept: the one used most stays when a third matrix comes."""
        F, uses = self.kept.pop(a, (None, 0))
        if F is None:
            spare = min(self.kept, key=lambda other: self.kept[other][1]) if len(self.kept) == KEPT else None
            self.factor = None if spare is None else self.kept.pop(spare)[0]
            F = self.factored(self.matrix.linear(a))
        self.kept[a] = F, uses + 1
        return self.solved(F, s)

    def solved(self, F, s):
        """The solution with a factor."""
        self._require_finite(s)
        with self.report.phase("solve"):
            x = F.solve(s)
        self._require_finite(x)
        return x

    def _require_finite(self, values, indptr=None):
        """Values of the unknowns, or of rows that begin at ``indptr``."""
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            k = int(wrong[0] if indptr is None else np.searchsorted(indptr, wrong[0], side="right") - 1)
            raise InvalidInputError(f"{self.system.netlist.path}: values are too large or too small to compute with, which shows at "
                                    f"{self.system.describe(k)}")

    def newton(self, a, s, x, limit, guess=None, charges=None, to_ground=0.0):
        """Newton's method from ``guess``, or from x.

        Parameters
        ----------
        x : (n,) float64
            A solution of similar equations: junction voltages are not trusted to be far from it.
        charges : callable, optional
            ``charges(v)`` gives current and conductance of the junctions' capacitances.

        Returns
        -------
        x : (n,) float64

        Raises
        ------
        NoConvergence
            Not within ``limit`` steps, or a value is no longer finite.
        """
        system, diodes = self.system, self.system.diodes
        at, before = system.junctions(x), x
        if guess is not None:
            at, before = diodes.limited(system.junctions(guess), at), guess
        for _ in range(int(limit)):
            current, conductance = diodes.current(at)
            if charges is not None:
                more, steeper = charges(at)
                current, conductance = current + more, conductance + steeper
            try:
                F = self.factored(self.matrix.with_diodes(a, conductance, to_ground))
                new = self.solved(F, s + self._junction_currents(conductance * at - current))
            except InvalidInputError as e:                  # no longer finite
                raise NoConvergence(str(e)) from e
            self._count("newton_steps")
            wanted = system.junctions(new)
            limited = diodes.limited(wanted, at)
            if self._close(new, before) and diodes.at_rest(wanted, at, self.options) and np.allclose(
                    limited, wanted, rtol=self.options.reltol, atol=self.options.vntol):
                return new
            at, before = limited, new
        raise NoConvergence(f"Newton's method did not converge in {limit:g} steps")

    def _junction_currents(self, currents):
        """(n,) from currents that flow out of the anodes' nodes' equations into the right-hand side."""
        padded = np.zeros(self.system.n + 1)
        np.add.at(padded, self.system.diodes.nodes[:, 0], currents)
        np.add.at(padded, self.system.diodes.nodes[:, 1], -currents)
        return padded[:-1]

    def _close(self, new, old):
        o = self.options
        size = np.maximum(np.abs(new), np.abs(old))
        floor = np.full(len(new), o.vntol)
        floor[self.system.currents] = o.abstol
        return bool((np.abs(new - old) <= o.reltol * size + floor).all())


def operating_point(solver, s, x):
    """The solution of the circuit at rest, by Newton's method, else with gmin stepping, else with source stepping.

    Parameters
    ----------
    solver : Solver
    s : (n,) float64
        Right-hand side.
    x : (n,) float64
        Where Newton's method begins.
    """
    system, options = solver.system, solver.options
    if system.linear:
        return solver.linear(0.0, s)
    try:
        return solver.newton(0.0, s, x, options.itl1)
    except (NoConvergence, SingularMatrixError):
        pass
    for stepping in (_gmin_stepping, _source_stepping):
        try:
            return stepping(solver, s, options.itl1)
        except NoConvergence:
            continue
    raise MeshsolveError(f"{system.netlist.path}: no operating point was found, neither directly nor with gmin or source "
                         "stepping")


def _gmin_stepping(solver, s, limit):
    x = np.zeros(solver.system.n)
    for g in [*GMIN_STEPS, 0.0]:
        x = solver.newton(0.0, s, x, limit, to_ground=g)
    return x


def _source_stepping(solver, s, limit):
    x, done, step = np.zeros(solver.system.n), 0.0, 1 / SOURCE_STEPS
    while done < 1:
        try:
            x = solver.newton(0.0, min(1.0, done + step) * s, x, limit)
            done, step = min(1.0, done + step), 2 * step
        except NoConvergence:
            step /= 8
            if step < 1e-6:
                raise
    return x
