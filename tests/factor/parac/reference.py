"""Plain reference of ParAC, vertex by vertex with dictionaries and lists, which the C++ reproduces bit for bit."""

import bisect
from functools import reduce
from operator import add

import numpy as np

MASK = 2**64 - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def hash_key(seed, a, b=0):
    return mix(mix(mix(seed) ^ a) ^ b)


def uniform(stream, i):
    return ((mix((stream + i * 0xD1342543DE82EF95) & MASK) >> 11) + 1) * 2.0**-53


def graph(L):
    """Lists of (neighbor, weight), excess diagonals, and the smallest weight of an edge of a pivot."""
    L = L.tocsr()
    rows = [[(int(j), float(-x)) for j, x in zip(L.indices[a:b], L.data[a:b]) if j != i and x != 0]
            for i, (a, b) in enumerate(zip(L.indptr, L.indptr[1:]))]
    weights = sorted(w for row in rows for _, w in row)
    positive = [w for w in weights if w > 0]
    floor = 1e-3 * positive[len(positive) // 2] if weights and weights[0] < 0 else 0.0
    excess = [reduce(add, map(float, L.data[a:b]), 0.0) for a, b in zip(L.indptr, L.indptr[1:])]      # sum() compensates since 3.12
    noise = [1e-13 * sum(map(abs, L.data[a:b])) for a, b in zip(L.indptr, L.indptr[1:])]
    excess = [x if x > small else 0.0 for x, small in zip(excess, noise)]
    return rows, excess, floor


def pivot(entries, samples, stream, floor):
    """Merged edges of a pivot by neighbor, its D, and the edges it samples; entries are (neighbor, weight, copies)."""
    merged = {}
    for to, w, copies in sorted(entries):
        sum_w, sum_copies = merged.get(to, (None, 0))
        merged[to] = (w if sum_w is None else sum_w + w, sum_copies + copies)
    if floor:
        merged = {to: (max(w, floor), copies) for to, (w, copies) in merged.items()}
    edges = sorted((w, to, min(copies, samples)) for to, (w, copies) in merged.items())
    suffix = [0.0]
    for w, _, _ in reversed(edges):
        suffix.append(suffix[-1] + w)
    suffix = suffix[::-1]
    new, drawn = [], 0
    for i, (w, to, copies) in enumerate(edges[:-1]):
        for _ in range(copies):
            r = uniform(stream, drawn) * suffix[i + 1]
            drawn += 1
            later = [-s for s in suffix[i + 1:len(edges)]]              # ascending; take the last s >= r
            j = i + 1 + bisect.bisect_right(later, -r) - 1
            new.append((to, edges[max(j, i + 1)][1], w * (suffix[i + 1] / suffix[0]) / copies))
    return {to: w for to, (w, _) in merged.items()}, suffix[0], new


class State:
    """Multi-edges of the remaining vertices, stored at both ends."""

    def __init__(self, L, samples, seed):
        rows, excess, self.floor = graph(L)
        self.n, self.samples, self.seed = len(rows), samples, seed
        self.edges = [[(j, w, samples) for j, w in row] for row in rows]
        for v, x in enumerate(excess):
            if x > 0:
                self.edges[v] += [(self.n, x / samples, 1)] * samples
        self.live = [True] * self.n + [True]
        self.columns, self.D, self.perm = [], [], []

    def entries(self, v):
        return [e for e in self.edges[v] if self.live[e[0]]]

    def eliminate(self, v, name=lambda to: to):
        """Neighbors are compared by ``name``: their position in a given order, or their number."""
        entries = [(name(to), w, copies) for to, w, copies in self.entries(v)]
        merged, d, new = pivot(entries, self.samples, hash_key(self.seed, v), self.floor)
        self.live[v] = False
        self.columns.append((v, {to: w / d for to, w in merged.items()}))
        self.D.append(d)
        self.perm.append(v)
        return new

    def join(self, new, unname=lambda to: to):
        for a, b, w in new:
            a, b = unname(a), unname(b)
            for x, y in ((a, b), (b, a)):
                if x != self.n:
                    self.edges[x].append((y, w, 1))

    def factor(self, name=None):
        """The dense G, D and perm."""
        position = {v: k for k, v in enumerate(self.perm)}
        G = np.eye(self.n)
        for k, (_, column) in enumerate(self.columns):
            for to, x in column.items():
                if to != self.n:
                    G[to if name else position[to], k] = -x
        return G, np.array(self.D), np.array(self.perm)


def ordered(L, perm, samples=1, seed=0):
    """Factor in a given order."""
    state = State(L, samples, seed)
    position = {int(v): k for k, v in enumerate(perm)} | {state.n: state.n}
    unname = {k: v for v, k in position.items()}
    for v in perm:
        state.join(state.eliminate(int(v), position.__getitem__), unname.__getitem__)
    return state.factor(name=position)


def rounds(L, samples=1, seed=0):
    """Factor in the round-synchronous order."""
    state = State(L, samples, seed)
    while len(state.perm) < state.n:
        key = {v: (sum(c for _, _, c in state.entries(v)) << 40 | hash_key(seed, v, 1) >> 24, v)
               for v in range(state.n) if state.live[v]}
        chosen = [v for v in key if all(key[v] < key[to] for to, _, _ in state.entries(v) if to != state.n)]
        for new in [state.eliminate(v) for v in chosen]:
            state.join(new)
    return state.factor()
