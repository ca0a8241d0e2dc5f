"""What makes the equations of a circuit singular and can be said with names: nodes without a path to ground, loops of voltages.

O(elements) with scipy's graph routines; names are looked up only where something is wrong.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components

from meshsolve.errors import InvalidInputError, SingularMatrixError

CONDUCTS = "rldvehgf"               # what may carry a direct current between its first two nodes
LISTED = 5


def check(netlist):
    """Raise where the operating point cannot be unique.

    Raises
    ------
    SingularMatrixError
        ``.index`` is the number of the node, or that of an element's second node where a loop closes.
    """
    _floating(netlist)
    _loops(netlist)


def _graph(pairs, n):
    """Adjacency of n nodes and ground, which is number n."""
    a, b = np.where(pairs < 0, n, pairs).T
    return sp.csr_array((np.ones(len(pairs)), (a, b)), shape=(n + 1, n + 1))


def _floating(netlist):
    n = len(netlist.node_names)
    pairs = np.concatenate([netlist[letter].nodes[:, :2] for letter in CONDUCTS])
    _, component = connected_components(_graph(pairs, n), directed=False)
    floating = np.flatnonzero(component[:n] != component[n])
    if not len(floating):
        return
    if len(floating) == n and not any((group.nodes < 0).any() for group in netlist.groups.values()):
        raise InvalidInputError(f"{netlist.path}: no element is connected to ground, node 0")
    names = ", ".join(netlist.node_names[k] for k in floating[:LISTED])
    more = f" and {len(floating) - LISTED} more" if len(floating) > LISTED else ""
    plural = "s" if len(floating) > 1 else ""
    raise SingularMatrixError(
        f"{_touches(netlist, floating[0])}: node{plural} {names}{more} {'have' if plural else 'has'} no path for a direct "
        "current to ground: only capacitors, current sources or controlling inputs are connected. A large resistor to ground "
        "helps",
        int(floating[0]))


def _touches(netlist, node):
    """``FILE:LINE`` of the first element at a node."""
    places = []
    for letter, group in netlist.groups.items():
        at = np.flatnonzero((group.nodes == node).any(axis=1))
        if len(at):
            places.append((int(group.files[at[0]]), int(group.lines[at[0]]), letter, int(at[0])))
    return netlist.where(*min(places)[2:])


def _loops(netlist):
    """Loops of voltage sources and inductors, whose voltage is 0 at an operating point."""
    n = len(netlist.node_names)
    pairs = np.concatenate([netlist["v"].nodes, netlist["l"].nodes])
    if not len(pairs):
        return
    graph = _graph(pairs, n)
    count, component = connected_components(graph, directed=False)
    if len(pairs) == n + 1 - count:                         # as many edges as a forest has
        return
    ends = np.where(pairs < 0, n, pairs)
    members = _loop(ends, component)
    if len(members) == 1:
        (name, place), node = _element(netlist, members[0]), int(pairs[members[0], 0])
        at = "ground" if node < 0 else netlist.node_names[node]
        raise SingularMatrixError(f"{place}: both ends of {name} are the same node, {at}: its current is not determined", node)
    names, places = zip(*(_element(netlist, k) for k in members))
    if len(names) > LISTED:
        names = [*names[:LISTED], f"{len(names) - LISTED} more"]
    kinds = "voltage sources and inductors" if max(members) >= len(netlist["v"]) else "voltage sources"
    raise SingularMatrixError(f"{places[0]}: {' and '.join(names)} form a loop of {kinds}: their currents are not determined. "
                              "A small resistor in the loop helps", int(pairs[members[0]].max()))


def _element(netlist, k):
    letter, k = ("v", k) if k < len(netlist["v"]) else ("l", k - len(netlist["v"]))
    return netlist.name(letter, k), netlist.where(letter, k)


def _loop(ends, component):
    """The edges of one loop, the one that closes it first: an edge outside a spanning forest and the path between its ends."""
    edges = np.bincount(component[ends[:, 0]], minlength=component.max() + 1)
    nodes = np.bincount(component)
    inside = np.flatnonzero(component[ends[:, 0]] == np.argmax(edges >= nodes))
    number = {}
    for k in inside.tolist():                               # the last of parallel edges: the first closes a loop with it
        a, b = sorted(ends[k].tolist())
        if a == b or (a, b) in number:
            return [k] if a == b else [k, number[a, b]]
        number[a, b] = k
    size = len(component)
    a, b = ends[inside].T
    graph = sp.csr_array((np.ones(len(inside)), (a, b)), shape=(size, size))
    _, before = breadth_first_order(graph, int(a[0]), directed=False)
    for (p, q), k in number.items():
        if before[p] != q and before[q] != p:
            return [k, *_path(before, p, q, number)]
    return []


def _path(before, p, q, number):
    """Edges of the tree path between two nodes."""
    up = []
    for node in (p, q):
        trail = [node]
        while before[trail[-1]] >= 0:
            trail.append(int(before[trail[-1]]))
        up.append(trail)
    while len(up[0]) > 1 and len(up[1]) > 1 and up[0][-2] == up[1][-2]:
        up[0].pop(), up[1].pop()
    return [number[tuple(sorted(side))] for trail in up for side in zip(trail, trail[1:])]
