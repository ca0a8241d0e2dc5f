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
DELAY = 4                   # iterations whose change estimates the error before them


class Forest:
    """Trees of the nodes that branches connect. The branches must not form a loop.

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
    """The reduced equations of the operating points of circuits with one topology, which :func:`topology.check` has accepted.

    Parameters
    ----------
    system : System
        A linear circuit without an :func:`obstacle`.

    Attributes
    ----------
    n : int
        Number of unknowns.
    entries : int
        Number of stored entries of the matrix.
    """

    def __init__(self, system):
        netlist = system.netlist
        self.forest = Forest(system.nodes, np.concatenate([netlist["v"].nodes, netlist["l"].nodes]))
        self.n = self.forest.trees
        self._ends = [np.where(ends < 0, system.nodes, ends) for ends in netlist["r"].nodes.T]
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
        """P' G P for the conductances of the resistors, a csr_array with sorted rows."""
        values = np.bincount(self._slots, self._signs * g[self._crossing][self._which], self.entries)
        return sp.csr_array((values, self._indices, self._indptr), shape=(self.n, self.n))

    def unknowns(self, system, g, volts, amperes, solve):
        """The unknowns of the system at rest.

        Parameters
        ----------
        system : System
        g : (resistors,) float64
        volts, amperes : values of the voltage sources and of the current sources
        solve : callable
            Solves with P' G P.
        """
        forest, sources = self.forest, len(volts)
        o = forest.offsets(np.concatenate([volts, np.zeros(len(system.branch["l"]))]))
        o += np.append(self._pads(o, g), 0.0)[forest.tree]  # the 0 is that of the tree of ground, -1
        j = np.append((system.current_inflow @ amperes)[:system.nodes], 0.0)
        before = self._drops(o)
        dz = solve(_sum(forest.tree, self._surplus(j, g, before), self.n))
        z = np.append(dz, 0.0)[forest.tree]
        currents = forest.currents(self._surplus(j, g, before + self._drops(z)))
        x = np.zeros(system.n)
        x[:system.nodes] = (o + z)[:-1]
        x[system.branch["v"]], x[system.branch["l"]] = currents[:sources], currents[sources:]
        return x

    def _drops(self, x):
        """Voltages across the resistors."""
        a, b = self._ends
        return x[a] - x[b]

    def _surplus(self, j, g, drops):
        """j - G x: the current into each node from current sources and resistors."""
        a, b = self._ends
        current = g * drops
        return j - np.bincount(a, current, len(j)) + np.bincount(b, current, len(j))

    def _pads(self, o, g):
        """(n,) voltage of a pad that each unknown is connected to by resistors: of the pad behind the largest conductance."""
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
    """

    def __init__(self, system, method, options, report, device, threads, nodal, family=None):
        self.system, self.options, self.report, self.threads, self.nodal = system, options, report, threads, nodal
        with report.phase("assemble"), np.errstate(over="ignore", divide="ignore"):
            self._g = 1 / system.netlist["r"].values[:, 0]
            self._A = nodal.matrix(self._g)
        self._require_finite(self._A.data, "a sum of conductances")
        self._solve = self._by_cholesky if method == "cholesky" else self._by_cg
        self._family, self._key = family if method == "cholesky" and nodal.n else None, ("nodal", device, threads)
        self._factor = self._factored(method, device) if nodal.n else None

    def at_rest(self, volts, amperes, start=None):
        """The unknowns of the system for values of the voltage sources and of the current sources. They need no ``start``."""
        with np.errstate(over="ignore", invalid="ignore"):
            x = self.nodal.unknowns(self.system, self._g, volts, amperes, self._solved)
        self._require_finite(x, "a voltage or a current")
        return x

    def release(self):
        """Return the factor to the family."""
        if self._family:
            self._family.keep(self._key, self._factor)

    def _factored(self, method, device):
        factor = self._family.idle(self._key) if self._family else None
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


def _graph(n, a, b):
    return sp.csr_array((np.ones(len(a)), (a, b)), shape=(n, n))


def _sum(tree, values, count):
    """Sum the values of the nodes of each tree, without the tree of ground."""
    return np.bincount(tree + 1, values, count + 1)[1:]
