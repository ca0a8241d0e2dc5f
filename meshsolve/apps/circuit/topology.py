"""Structural causes of singular equations: nodes without a path to ground, and loops of voltage sources and inductors.

O(elements) with scipy's graph routines. Names are looked up only for an error.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from meshsolve.apps.circuit.devices import LETTERS as DEVICES
from meshsolve.errors import InvalidInputError, SingularMatrixError

CONDUCTS = *"rlvehgf", *DEVICES     # elements that carry a direct current: between their first two nodes, or as devices declare
LISTED = 5                          # names in a message
NO_DIRECT = ("for a direct current to ground: only capacitors, current sources or controlling inputs are connected. Add a large "
             "resistor to ground")
NO_PATH = "to ground: only current sources or controlling inputs are connected. Add a large resistor to ground"


def check(netlist, held=()):
    """Raise if the operating point is not unique.

    Parameters
    ----------
    netlist : Netlist
    held : sequence of int, optional
        Nodes with a given voltage, such as those of ``.ic``.

    Raises
    ------
    SingularMatrixError
        ``.index`` is the number of the node. For a loop it is the second node of the element that closes it.
    """
    _floating(netlist, CONDUCTS, held, NO_DIRECT)
    _loops(netlist)


def check_moving(netlist):
    """Raise if voltages or currents are undetermined at every frequency and in every time step, where capacitors conduct and
    inductors have voltages.

    Raises
    ------
    SingularMatrixError
        As in :func:`check`.
    """
    _floating(netlist, (*CONDUCTS, "c"), (), NO_PATH)


def undetermined(netlist, last_first=False):
    """Unknowns that an operating point leaves undetermined.

    The nodes are one of each part without a path for a direct current to ground. Without the inductors there is no loop of voltage
    sources and inductors.

    Parameters
    ----------
    netlist : Netlist
    last_first : bool
        Remove the first inductors of a loop instead of the last ones.

    Returns
    -------
    nodes, inductors : (j,) int64, (k,) int64
    """
    n = len(netlist.node_names)
    component = _components(netlist, CONDUCTS)
    _, nodes = np.unique(component, return_index=True)
    nodes = nodes[component[nodes] != component[n]]
    order = np.arange(len(netlist["l"]))[::-1 if last_first else 1]
    pairs = np.concatenate([netlist["v"].nodes, netlist["l"].nodes[order]])
    a, b = np.where(pairs < 0, n, pairs).T
    # One edge for each pair of nodes, the earliest. By these weights a minimum spanning forest prefers voltage sources.
    weight = np.arange(1, len(pairs) + 1, dtype=float)
    low, high = np.minimum(a, b), np.maximum(a, b)
    _, first = np.unique(low * (n + 1) + high, return_index=True)
    first = first[low[first] != high[first]]
    forest = minimum_spanning_tree(sp.csr_array((weight[first], (low[first], high[first])), shape=(n + 1, n + 1)))
    chords = np.setdiff1d(np.arange(len(pairs)), forest.data.astype(np.int64) - 1) - len(netlist["v"])
    return nodes, order[chords[chords >= 0]]


def _components(netlist, letters, held=()):
    """(n + 1,) component of each node and of ground, connected by elements of these letters. Nodes in ``held`` are connected to
    ground."""
    n = len(netlist.node_names)
    pairs = [netlist[letter].nodes[:, ends] for letter in letters for ends in _conducting(letter, "c" in letters)]
    pairs.append(np.array([(k, -1) for k in held], np.int64).reshape(-1, 2))
    return connected_components(_graph(np.concatenate(pairs), n), directed=False)[1]


def _graph(pairs, n):
    """Adjacency matrix of n nodes and ground, which is node n."""
    a, b = np.where(pairs < 0, n, pairs).T
    return sp.csr_array((np.ones(len(pairs)), (a, b)), shape=(n + 1, n + 1))


def _conducting(letter, moving):
    """Pairs of an element's nodes between which a direct current flows, or with ``moving`` any current."""
    kind = DEVICES.get(letter)
    terminals, branches = (len(kind.terminals), kind.branches) if kind else (2, [(0, 1, True)])
    return [[a % terminals, b % terminals] for a, b, conducts in branches if conducts or moving]


def _floating(netlist, letters, held, why):
    n = len(netlist.node_names)
    component = _components(netlist, letters, held)
    floating = np.flatnonzero(component[:n] != component[n])
    if not len(floating):
        return
    if len(floating) == n and not any((group.nodes < 0).any() for group in netlist.groups.values()):
        raise InvalidInputError(f"{netlist.path}: no element is connected to ground, node 0")
    names = ", ".join(netlist.node_names[k] for k in floating[:LISTED])
    more = f" and {len(floating) - LISTED} more" if len(floating) > LISTED else ""
    plural = "s" if len(floating) > 1 else ""
    raise SingularMatrixError(
        f"{_touches(netlist, floating[0])}: node{plural} {names}{more} {'have' if plural else 'has'} no path {why}", int(floating[0]))


def _touches(netlist, node):
    """``FILE:LINE`` of the first element at a node."""
    places = []
    for letter, group in netlist.groups.items():
        at = np.flatnonzero((group.nodes == node).any(axis=1))
        if len(at):
            places.append((int(group.files[at[0]]), int(group.lines[at[0]]), letter, int(at[0])))
    return netlist.where(*min(places)[2:])


def _loops(netlist):
    """Raise for a loop of voltage sources and inductors. Loops of voltage sources alone have a solution if their voltages fit."""
    n, sources = len(netlist.node_names), len(netlist["v"])
    if not len(netlist["l"]):
        return
    kept = np.concatenate([netlist.loops.forest, np.arange(sources, sources + len(netlist["l"]))])
    pairs = np.concatenate([netlist[letter].nodes for letter in "vl"])[kept]
    graph = _graph(pairs, n)
    count, component = connected_components(graph, directed=False)
    if len(pairs) == n + 1 - count:                         # the number of edges of a forest
        return
    ends = np.where(pairs < 0, n, pairs)
    first, *_ = members = _loop(ends, component)
    members = kept[members]
    if len(members) == 1:
        (name, place), node = _element(netlist, members[0]), int(pairs[first, 0])
        at = "ground" if node < 0 else netlist.node_names[node]
        raise SingularMatrixError(f"{place}: both ends of {name} are the same node, {at}: its current is undetermined", node)
    names, places = zip(*(_element(netlist, k) for k in members))
    if len(names) > LISTED:
        names = [*names[:LISTED], f"{len(names) - LISTED} more"]
    raise SingularMatrixError(f"{places[0]}: {' and '.join(names)} form a loop of voltage sources and inductors: their currents are "
                              "undetermined. Add a small resistor to the loop", int(pairs[first].max()))


def _element(netlist, k):
    letter, k = ("v", k) if k < len(netlist["v"]) else ("l", k - len(netlist["v"]))
    return netlist.name(letter, k), netlist.where(letter, k)


def _loop(ends, component):
    """The edges of one loop: first an edge outside a spanning forest, then the path between its ends."""
    edges = np.bincount(component[ends[:, 0]], minlength=component.max() + 1)
    nodes = np.bincount(component)
    inside = np.flatnonzero(component[ends[:, 0]] == np.argmax(edges >= nodes))
    number = {}
    for k in inside.tolist():                               # parallel edges form a loop of two
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
