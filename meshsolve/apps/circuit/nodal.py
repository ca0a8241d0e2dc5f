"""Operating points of linear circuits by a symmetric positive definite matrix.

Ideal branches (voltage sources, and inductors at rest) connect nodes to trees. Each tree has one unknown voltage, and the tree of
ground has none: x = P z + o, where o sums the source voltages along the path to the root. Kirchhoff's current law, summed over each
tree, gives (P' G P) z = P' (j - G o) with the conductances G of the resistors. The currents of ideal branches follow from the
leaves to the roots. Cost without the factorization: O(n log(depth of the trees)).

The equations are solved for the difference to the voltage of a pad. The supply voltage then has no part in the right-hand side, and
its rounding none in the voltage drops. Source: Ho, Ruehli, Brennan 1975, "The modified nodal approach to network analysis".
"""

from __future__ import annotations

from collections import deque

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components

from meshsolve import _core, api, krylov
from meshsolve.errors import ConvergenceWarning, InvalidInputError, MeshsolveError, NotPositiveDefiniteError, SingularMatrixError
from meshsolve.report import without_warnings
from meshsolve.sparse.matrix import narrow_ptr

FACTS = ("nnz_A", "nnz_L", "flops", "bytes", "threads", "device", "ordering")      # of a factor
SHARE = 1e-3                # share of vntol at which conjugate gradients stop
RELATIVE = 1e-10            # the same, relative to the largest unknown: above the level of rounding
RTOL = 1e-14                # relative residual that the tolerance in volt precedes
ROUNDING = 1e-13            # backward error of a solution that further iterations do not improve
KEPT = 2                    # factors of step lengths: of the usual step, and of the latest other one
DELAY = 4                   # iterations whose change estimates the error before them


class Forest:
    """Trees of the nodes that branches connect. The branches must not form a loop: :class:`Loops` has the others.

    Parameters
    ----------
    n : int
        Number of nodes. Ground is node -1 in ``pairs`` and node n in the arrays.
    pairs : (k, 2) int
        First and second node of each branch.

    Attributes
    ----------
    trees : int
        Number of trees, without the tree of ground.
    tree : (n + 1,) int64
        Tree of each node, -1 for the tree of ground.
    """

    def __init__(self, n, pairs):
        self.n = n
        a, b = np.where(pairs < 0, n, pairs).T
        _, label = connected_components(_graph(n + 1, a, b), directed=False)
        _, root = np.unique(label, return_index=True)
        root[label[n]] = n
        top = np.full(len(root), n + 1)                     # an additional node above all roots
        _, parent = breadth_first_order(_graph(n + 2, np.append(a, top), np.append(b, root)), n + 1, directed=False)
        up = np.where(parent[:n + 1] > n, -1, parent[:n + 1]).astype(np.int64)
        self._child = np.where(up[a] == b, a, b)
        self._sign = np.where(self._child == a, 1.0, -1.0)
        self.trees = len(root) - 1
        self.tree = label.astype(np.int64) - (label > label[n])
        self.tree[label == label[n]] = -1
        self._ancestors = []                                # pairs (node, ancestor) at distances 1, 2, 4, ...
        while len(nodes := np.flatnonzero(up >= 0)):
            self._ancestors.append((nodes, up[nodes]))
            up[nodes] = up[up[nodes]]

    def offsets(self, volts):
        """(n + 1,) voltages of the nodes relative to the roots of their trees, for the voltages of the branches."""
        o = np.zeros(self.n + 1)
        o[self._child] = self._sign * volts
        for nodes, above in self._ancestors:
            o[nodes] += o[above]
        return o

    def currents(self, surplus):
        """(k,) currents of the branches from their first to their second nodes.

        Parameters
        ----------
        surplus : (n + 1,) float64
            Current into each node from all other elements. It leaves a subtree through the branch to its parent.
        """
        total = surplus.copy()
        for nodes, above in self._ancestors:
            total += np.bincount(above, total[nodes], self.n + 1)
        return self._sign * total[self._child]


class Nodal:
    """The reduced equations of circuits with one topology, which :mod:`.topology` has accepted.

    Parameters
    ----------
    system : System
        A linear circuit without an :func:`obstacle`.
    moving : bool
        True for time steps, in which capacitors and inductors conduct. At rest capacitors are open, and inductors are ideal.

    Attributes
    ----------
    n : int
        Number of unknowns.
    entries : int
        Number of stored entries of the matrix.
    """

    def __init__(self, system, moving=False):
        ideal, conducting = (np.concatenate([system.netlist[letter].nodes for letter in letters]) for letters in (
            ("v", "rcl") if moving else ("vl", "r")))
        self._loops, self._branches = system.netlist.loops, len(ideal)
        self._kept = np.delete(np.arange(len(ideal)), self._loops.chords)       # the branches of the forest
        self.forest = Forest(system.nodes, ideal[self._kept])
        Z = self._loops.members
        self._by_loops = api.cholesky(sp.csr_array(Z @ Z.T), device="cpu") if len(self._loops) else None
        self.n = self.forest.trees
        self._ends = [np.where(ends < 0, system.nodes, ends) for ends in conducting.T]
        p, q = (self.forest.tree[ends] for ends in self._ends)
        self._crossing = np.flatnonzero(p != q)             # the others are inside a tree
        p, q = self._trees = p[self._crossing], q[self._crossing]
        keep = [np.flatnonzero(held) for held in (p >= 0, q >= 0, (p >= 0) & (q >= 0))]
        diagonal = np.concatenate([p[keep[0]], q[keep[1]]])
        rows = np.concatenate([diagonal, p[keep[2]], q[keep[2]]]).astype(np.int32)
        columns = np.concatenate([diagonal, q[keep[2]], p[keep[2]]]).astype(np.int32)
        indptr, self._indices, self._slots = _core.circuit_pattern(self.n, rows, columns)
        self._indptr, self.entries = narrow_ptr(indptr), len(self._indices)
        self._which = np.concatenate([*keep[:2], keep[2], keep[2]])
        self._signs = np.repeat([1.0, -1.0], [len(diagonal), 2 * len(keep[2])])
        inner = keep[2]
        _, self._part = connected_components(_graph(self.n, p[inner], q[inner]), directed=False)

    def matrix(self, g):
        """P' G P for conductances, a csr_array with sorted rows."""
        values = np.bincount(self._slots, self._signs * g[self._crossing][self._which], self.entries)
        return sp.csr_array((values, self._indices, self._indptr), shape=(self.n, self.n))

    def solution(self, g, j, volts, history, solve):
        """Voltages of the nodes, currents of the ideal branches, and currents of the conducting branches.

        Parameters
        ----------
        g : (branches,) float64
            Conductances.
        j : (nodes,) float64
            Currents into the nodes.
        volts : (ideal branches,) float64
        history : (branches,) float64, or 0.0
            Currents of the conducting branches at 0 V.
        solve : callable
            Solves with P' G P.
        """
        forest, j = self.forest, np.append(j, 0.0)
        self._loops.require(volts[:self._loops.members.shape[1]])
        o = forest.offsets(volts[self._kept])
        o += np.append(self._pads(o, g), 0.0)[forest.tree]  # the 0 is that of the tree of ground, -1
        drops = self._drops(o)
        dz = solve(_sum(forest.tree, self._surplus(j, g * drops + history), self.n))
        z = np.append(dz, 0.0)[forest.tree]
        currents = g * (drops + self._drops(z)) + history
        return (o + z)[:-1], self._divided(forest.currents(self._surplus(j, currents))), currents

    def _divided(self, currents):
        """Currents of all ideal branches from those of the forest: sources in a loop share a current as equal resistances would."""
        out = np.zeros(self._branches)
        out[self._kept] = currents
        if self._by_loops is not None:
            Z = self._loops.members
            out[:Z.shape[1]] -= Z.T @ self._by_loops.solve(Z @ out[:Z.shape[1]])
        return out

    def _drops(self, x):
        """Voltages across the conducting branches."""
        a, b = self._ends
        return x[a] - x[b]

    def _surplus(self, j, currents):
        """The current into each node from j and from the conducting branches."""
        a, b = self._ends
        return j - np.bincount(a, currents, len(j)) + np.bincount(b, currents, len(j))

    def _pads(self, o, g):
        """(n,) voltage of a pad that each unknown is connected to by conductances: of the pad behind the largest conductance."""
        (a, b), (p, q) = (ends[self._crossing] for ends in self._ends), self._trees
        at = np.flatnonzero((p < 0) | (q < 0))
        at = at[np.argsort(g[self._crossing][at], kind="stable")]
        first = p[at] < 0
        pad, node = np.where(first, a[at], b[at]), np.where(first, b[at], a[at])
        volts = np.zeros(self._part.max(initial=-1) + 1)
        volts[self._part[np.maximum(p[at], q[at])]] = o[pad] - o[node]
        return volts[self._part]


class NodalSolver:
    """Solves for operating points with one factor.

    Parameters
    ----------
    system : System
    method : {"cholesky", "parac"}
    options : Options
    report : Report
    device : {"cpu", "cuda"}
    threads : int or None
    nodal : Nodal
    family : Family, optional
        Keeps Cholesky factors for other circuits, which refactor them.
    a : float
        For time steps: conductances are a C and 1 / (a L). 0: at rest.
    earlier : NodalSolver, optional
        Its Cholesky factor is refactored.
    """

    def __init__(self, system, method, options, report, device, threads, nodal, family=None, a=0.0, earlier=None):
        self.system, self.options, self.report, self.threads, self.nodal = system, options, report, threads, nodal
        with report.phase("assemble"), np.errstate(over="ignore", divide="ignore"):
            self._g = _conductances(system.netlist, a)
            self._A = nodal.matrix(self._g)
        self._require_finite(self._A.data, "a sum of conductances")
        self._solve = self._by_cholesky if method == "cholesky" else self._by_cg
        self._family, self._key = family if method == "cholesky" and nodal.n else None, ("nodal", device, threads)
        earlier = earlier._factor if earlier and method == "cholesky" else self._family.idle(self._key) if self._family else None
        self._factor = self._factored(method, device, earlier) if nodal.n else None

    def at_rest(self, volts, amperes, start=None):
        """The unknowns of the system for values of the voltage sources and of the current sources. They need no ``start``."""
        system, sources = self.system, len(volts)
        j = (system.current_inflow @ amperes)[:system.nodes]
        x = np.zeros(system.n)
        x[:system.nodes], currents, _ = self._solution(j, np.append(volts, np.zeros(len(system.branch["l"]))), 0.0)
        x[system.branch["v"]], x[system.branch["l"]] = currents[:sources], currents[sources:]
        return x

    def step(self, s):
        """The unknowns x of (G + a C) x = s. An inductor with the right-hand side u has the current (v - u) / (a L)."""
        system, inductors = self.system, self.system.branch["l"]
        history, x = np.zeros(len(self._g)), np.zeros(system.n)
        first = len(history) - len(inductors)
        history[first:] = -self._g[first:] * s[inductors]
        x[:system.nodes], x[system.branch["v"]], currents = self._solution(s[:system.nodes], s[system.branch["v"]], history)
        x[inductors] = currents[first:]
        return x

    def release(self):
        """Return the factor to the family."""
        if self._family:
            self._family.keep(self._key, self._factor)

    def _solution(self, j, volts, history):
        with np.errstate(over="ignore", invalid="ignore"):
            parts = self.nodal.solution(self._g, j, volts, history, self._solved)
        for part in parts:
            self._require_finite(part, "a voltage or a current")
        return parts

    def _factored(self, method, device, factor):
        try:
            if factor is None:
                with self.report.phase("analyze"):
                    factor = (api.cholesky if method == "cholesky" else api.parac)(self._A, device=device, threads=self.threads)
            else:
                with self.report.phase("refactor"):
                    factor.refactor(self._A)
        except NotPositiveDefiniteError as e:
            raise self._singular(e.column) from e
        facts = factor.report.facts
        self.report.facts |= {name: facts[name] for name in FACTS if facts.get(name)}
        return factor

    def _solved(self, b):
        if not self.nodal.n:
            return b
        self._require_finite(b, "a current")
        with self.report.phase("solve"):
            return self._solve(b)

    def _by_cholesky(self, b):
        with without_warnings(ConvergenceWarning):          # a solution that is not finite is an error of the circuit
            return self._factor.solve(b)

    def _by_cg(self, b):
        """Conjugate gradients until the unknowns change by less than a tolerance in volt within DELAY iterations."""
        if not b.any():
            return np.zeros_like(b)
        watch = _Watch(SHARE * self.options.vntol)
        try:
            with without_warnings(ConvergenceWarning):
                x, info = krylov.cg(self._A, b, M=self._factor, rtol=RTOL, callback=watch, threads=self.threads)
        except _Settled:
            x, settled = watch.recent[-1], True
        else:
            settled = info.converged or watch.is_settled() or self._is_exact(x, b)
        self.report.facts["iterations"] = self.report.facts.get("iterations", 0) + watch.count
        if not settled:
            raise MeshsolveError(f"{self.system.netlist.path}: conjugate gradients did not reach {watch.tolerance:g} V after "
                                 f"{watch.count:,} iterations: use solver='cholesky', or increase vntol in .options")
        return x

    def _is_exact(self, x, b):
        """True if the backward error is at the level of rounding, as of a direct solution."""
        return bool(np.abs(b - self._A @ x).max() <= ROUNDING * self._A.data.max() * np.abs(x).max())

    def _singular(self, unknown):
        netlist = self.system.netlist
        node = int(np.argmax(self.nodal.forest.tree == unknown))
        return SingularMatrixError(f"{netlist.path}: the equations are singular to working precision at node {netlist.node_names[node]}: "
                                   "conductances differ by more than 15 decades", node)

    def _require_finite(self, values, what):
        if not np.isfinite(values).all():
            raise InvalidInputError(f"{self.system.netlist.path}: values are too large or too small for double precision: {what} is not "
                                    "finite. Check the units of the elements")


class NodalSteps:
    """Solves the equations of time steps. The factors of the latest step lengths are kept, as by :meth:`Solver.linear`.

    Parameters
    ----------
    system, options, report
    make : callable
        Returns the :class:`NodalSolver` for a, and for an earlier one that is no longer needed, or None.
    """

    def __init__(self, system, options, report, make):
        self.system, self.options, self.report, self._make, self._kept = system, options, report, make, {}
        self.matrix, self.factor = None, None               # no matrix of all unknowns; the latest NodalSolver

    def linear(self, a, s):
        """The unknowns x of (G + a C) x = s."""
        self.factor, uses = self._kept.pop(a, (None, 0))
        if self.factor is None:
            spare = min(self._kept, key=lambda other: self._kept[other][1]) if len(self._kept) == KEPT else None
            self.factor = self._make(a, None if spare is None else self._kept.pop(spare)[0])
        self._kept[a] = self.factor, uses + 1
        return self.factor.step(s)

    def count(self, name, by=1):
        self.report.facts[name] = self.report.facts.get(name, 0) + by

    def release(self):
        """Drop the factors."""
        self._kept, self.factor = {}, None


class _Settled(Exception):
    """Conjugate gradients have reached the tolerance."""


class _Watch:
    """Callback of conjugate gradients that ends them if the unknowns change by less than a tolerance within DELAY iterations."""

    def __init__(self, tolerance):
        self.tolerance, self.count, self.recent = tolerance, 0, deque(maxlen=DELAY + 1)

    def __call__(self, x):
        self.count += 1
        self.recent.append(x.copy())
        if self.is_settled():
            raise _Settled

    def is_settled(self):
        if len(self.recent) <= DELAY:
            return False
        change, largest = (float(abs(v).max()) for v in (self.recent[-1] - self.recent[0], self.recent[-1]))
        return change <= max(self.tolerance, RELATIVE * largest)


def _conductances(netlist, a):
    """Conductances of R at rest, and of R, C and L in a time step."""
    r, c, l = (netlist[letter].values[:, 0] for letter in "rcl")
    return np.concatenate([1 / r, a * c, 1 / (a * l)]) if a else 1 / r


def _graph(n, a, b):
    return sp.csr_array((np.ones(len(a)), (a, b)), shape=(n, n))


def _sum(tree, values, count):
    """Sum the values of the nodes of each tree, without the tree of ground."""
    return np.bincount(tree + 1, values, count + 1)[1:]
