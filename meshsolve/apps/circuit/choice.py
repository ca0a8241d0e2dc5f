"""The choice between LU of the modified nodal equations, and Cholesky or ParAC of the reduced nodal equations.

LU solves any circuit. The other two need a symmetric positive definite matrix: linear circuits of positive R, C and L and of
independent sources. The limits are measured on power grids, stacks of layers and cubes (``docs/circuits.md``).
"""

from __future__ import annotations

import functools
from typing import Literal, NamedTuple, get_args

import numpy as np

from meshsolve.apps.circuit.devices import LETTERS as DEVICES
from meshsolve.apps.circuit.nodal import Nodal, NodalSolver, NodalSteps
from meshsolve.device import on_cpu
from meshsolve.errors import InvalidInputError
from meshsolve.options import one_of

Solver = Literal["auto", "lu", "cholesky", "parac"]
SOLVERS = get_args(Solver)
SOLVERS_ON = {"cpu": SOLVERS[1:], "cuda": SOLVERS[2:]}
FEW_NODES = 1_000           # nodes below which all solvers take less time than the calls from Python
SMALL = 20_000              # unknowns below which Cholesky is fastest for any graph
LARGE = 300_000             # unknowns above which ParAC is fastest for one solve on planar grids and stacks of layers
DENSE = 5.5                 # average degree of a graph in space, on which ParAC is faster from SMALL unknowns on
FEW_SOLVES = 2              # solves up to which ParAC is faster on such graphs


class Size(NamedTuple):
    """Numbers that the choice depends on."""

    nodes: int              # of the circuit
    unknowns: int           # of the reduced equations
    degree: float           # average number of neighbors of an unknown
    solves: int


RULES = (                   # (method, reason, condition): the first rule that holds
    ("lu", f"fewer than {FEW_NODES:,} nodes", lambda s: s.nodes < FEW_NODES),
    ("cholesky", f"fewer than {SMALL:,} unknowns", lambda s: s.unknowns < SMALL),
    ("cholesky", f"more than {FEW_SOLVES} solves with one factor", lambda s: s.solves > FEW_SOLVES),
    ("parac", f"more than {LARGE:,} unknowns, and at most {FEW_SOLVES} solves", lambda s: s.unknowns > LARGE),
    ("parac", f"more than {DENSE} neighbors per unknown, and at most {FEW_SOLVES} solves", lambda s: s.degree > DENSE),
    ("cholesky", f"at most {LARGE:,} unknowns, and at most {DENSE} neighbors per unknown", lambda s: True))


def solving(system, options, report, threads, family, wanted, moving, lu):
    """The solver of operating points or of time steps, a :class:`Solver`, :class:`NodalSolver` or :class:`NodalSteps`.

    Parameters
    ----------
    wanted : (solver, device, number of right-hand sides)
    moving : bool
        True for time steps.
    lu : callable
        Returns the :class:`Solver`.
    """
    solver, device, solves = wanted
    nodal = functools.cache(lambda: family.nodal if family and not moving else Nodal(system, moving))
    method, why, place = choose(solver, device, system, solves, nodal, moving)
    report.facts |= {"solver": method, "solver_reason": why}
    if method == "lu":
        return lu()
    parts = system, method, options, report, place, threads, nodal()
    if moving:
        return NodalSteps(system, options, report, lambda a, earlier: NodalSolver(*parts, None, a, earlier))
    return NodalSolver(*parts, family)


def choose(solver, device, system, solves, nodal, moving=False):
    """The method for a circuit at rest, the reason as a text, and "cpu" or "cuda".

    Parameters
    ----------
    solver, device : options of the analyses
    system : System
    solves : int
        Number of right-hand sides.
    nodal : callable
        Returns the :class:`Nodal` of a circuit that has one.
    moving : bool
        True for time steps.

    Raises
    ------
    InvalidInputError
        The solver that was requested cannot solve this circuit: the message names an element.
    DeviceUnavailableError
        LU is requested or needed with device="cuda".
    """
    one_of(solver, "solver", SOLVERS)
    one_of(device, "device", ("auto", *SOLVERS_ON))
    place = {"auto": "cpu"}.get(device, device)             # the deck lies on the host
    found = None if solver == "lu" else obstacle(system, moving)
    if found and solver != "auto":
        raise InvalidInputError(f"{found}: solver={solver!r} needs positive R, C and L, and independent sources: use solver='lu'")
    if solver != "auto":
        method, why = solver, "requested"
    elif found:
        method, why = "lu", found
    elif moving and "lu" in SOLVERS_ON[place]:
        method, why = "lu", "time steps on the CPU"         # the sweeps over the branches cost what the smaller factor saves
    else:
        method, why = _by_size(system, nodal, solves, SOLVERS_ON[place])
    if method == "lu":
        on_cpu(device, "LU of circuits runs" if why == "requested" else f"{why}: LU is needed, which runs")
    return method, why, place


def obstacle(system, moving=False):
    """What prevents symmetric positive definite equations, at rest or in time steps, with FILE:LINE and a name; None if nothing does."""
    netlist = system.netlist
    groups = [(letter, "is nonlinear", None) for letter in DEVICES] + [(letter, "is a controlled source", None) for letter in "efgh"]
    negative = [("r", "is negative", netlist["r"].values[:, 0] < 0), ("l", "is negative", netlist["l"].values[:, 0] < 0)]
    tiny = [("r", "is far smaller than the largest resistance", system.far_smaller())]
    if moving:
        negative += [("c", "is negative", netlist["c"].values[:, 0] < 0), ("l", "is 0", netlist["l"].values[:, 0] == 0)]
    for letter, what, mask in groups + negative + tiny:
        k = np.arange(len(netlist[letter])) if mask is None else np.flatnonzero(mask)
        if len(k):
            return f"{netlist.where(letter, k[0])}: {netlist.name(letter, k[0])} {what}"
    return None


def _by_size(system, nodal, solves, possible):
    if system.nodes < FEW_NODES and "lu" in possible:       # without the cost of the reduced equations
        return RULES[0][:2]
    nodal = nodal()
    size = Size(system.nodes, nodal.n, nodal.entries / max(nodal.n, 1) - 1, solves)
    return next((method, why) for method, why, fits in RULES if method in possible and fits(size))
