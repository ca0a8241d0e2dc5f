"""Sweeps: operating points over the values of one source, and small signals over frequency.

``sweeps.cpp`` has both loops for small circuits: one choice of pivots, then a factorization for each point. :class:`Solver` solves larger
circuits, and each point at which the loops in C++ find no solution.
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core
from meshsolve.apps.circuit.newton import Solver
from meshsolve.apps.circuit.transient import small_part
from meshsolve.errors import SingularMatrixError
from meshsolve.options import thread_count

MOST = 1000                 # most unknowns of circuits whose small signals are computed in C++: larger ones gain from supernodes


def over_source(solving, sources, which, points, keep, values, x):
    """Operating points over the values of one source, each from the one before.

    Parameters
    ----------
    solving : Solver or NodalSolver
    sources : (volts, amperes)
    which : ("v" or "i", number of the source)
    points : (points,) float64
    keep : (j,) int64
        Unknowns to keep.
    values : (points, j) float64
        Receives them.
    x : (n,) float64
        Start of the first operating point.
    """
    volts, amperes = sources
    letter, k = which
    dc = (volts if letter == "v" else amperes).dc
    in_loop = letter == "v" and k in solving.system.netlist.loops.members.indices         # at most one of its values fits
    small = small_part(solving) if isinstance(solving, Solver) and not in_loop else None
    for j, value in enumerate(points[:1 if small else None]):
        dc[k] = value
        x = solving.at_rest(volts.dc, amperes.dc, x)
        values[j] = x[keep]
    if small and len(points) > 1:
        dc[k] = 0.0
        _rest_of_sweep(solving, small, sources, which, points[1:], keep, values[1:], x)


def over_frequency(solver, frequency, law, s, keep, values, linear):
    """Small signals at each frequency, in hertz.

    Parameters
    ----------
    solver : Solver
    law : (conductance, capacitance)
        Of the devices at the operating point.
    s : (n,) complex128
        Right-hand side.
    keep : (j,) int64
        Unknowns to keep.
    values : (points, j) complex128
        Receives them.
    linear : bool
        True if there is no device.
    """
    conductance, capacitance = law
    left, small = np.arange(len(frequency)), small_part(solver, MOST)
    if small:
        matrix = solver.matrix
        parts = (matrix.static, conductance), (matrix.moving, capacitance)
        g, c = (np.asarray(part if linear else part + matrix.of_devices(more), np.float64) for part, more in parts)
        with solver.report.phase("sweep"):
            left = _core.sweep_frequencies(small, g, c, s.view(float), keep, 2 * np.pi * frequency, values.reshape(-1).view(float),
                                           thread_count(solver.threads))
        solver.count("refactorizations", len(frequency) - len(left))
    for k in left:
        jw = 2j * np.pi * frequency[k]
        try:
            F = solver.factored(solver.matrix.with_devices(jw, conductance + jw * capacitance), jw)
        except SingularMatrixError as e:
            raise SingularMatrixError(f"{e}; at this frequency, {frequency[k]:.10g} Hz, a resonance without losses", e.index) from e
        values[k] = solver.solved(F, s)[keep]


def _rest_of_sweep(solver, small, sources, which, points, keep, values, x):
    """The points after the first one, whose operating point is x. The value of the source must be 0 in ``sources``."""
    (volts, amperes), system, options = sources, solver.system, solver.options
    letter, k = which
    if letter == "v":
        moving = [(int(system.branch["v"][k]), 1.0)]
    else:
        moving = [(int(node), sign) for node, sign in zip(system.netlist["i"].nodes[k], (-1.0, 1.0)) if node >= 0]
    tolerances = {name: float(getattr(options, name)) for name in ("reltol", "vntol", "abstol", "chgtol", "trtol")}
    with solver.report.phase("sweep"):
        steps, factorizations, largest = _core.sweep_source(
            small, system.devices.native, np.ascontiguousarray(system.devices.nodes, np.int32).reshape(-1),
            tolerances | {"newton_steps": int(options.itl1)}, system.right_hand_side(volts.dc, amperes.dc), moving, x,
            np.ascontiguousarray(points), keep, values.reshape(-1), solver.near)
    solver.check_currents(largest)
    for name, by in (("newton_steps", steps), ("refactorizations", factorizations)):
        if by:
            solver.count(name, by)
