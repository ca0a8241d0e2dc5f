"""Incomplete L D L^T factorization by tiles, a preconditioner for matrices whose complete factor is too large."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, order
from meshsolve.factor.ldlt.complete import block_diagonal
from meshsolve.sparse.matrix import Csr, narrow_ptr


@dataclass(frozen=True)
class Choices:
    """All options of an incomplete factorization.

    Attributes
    ----------
    fill_level : int
        Largest level of fill of a tile.
    droptol : float
        Smallest entry that is kept, relative to the norm of its row.
    max_fill : float
        Most columns of a block row, as a multiple of those of A. Later rows may use the unused budgets of earlier rows.
    tile_size : int
        Most rows of a tile.
    blocking : {"none", "RB", "subtree", "BR"}
    pivoting : {"static", "bunch-kaufman", "rook"}
    dtype : numpy dtype of the stored L
    """

    fill_level: int
    droptol: float
    max_fill: float
    tile_size: int
    blocking: str
    pivoting: str
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class Tiling:
    """An order of the rows, cut into tiles.

    Attributes
    ----------
    rows : (n,) int32
        ``rows[k]`` is the row of A at position k; the tiles are consecutive.
    begin : (tiles + 1,) int32
        Tile i holds the rows ``begin[i]`` to ``begin[i + 1] - 1`` of that order.
    ordering : str
        The ordering method.
    """

    rows: np.ndarray
    begin: np.ndarray
    ordering: str


def tiling(pairs, blocking, tile_size, ordering, threads=None):
    """Cut the rows into tiles of at most ``tile_size`` rows, never between the two rows of a pair.

    Parameters
    ----------
    pairs : Pairs
    blocking : {"none", "RB", "subtree", "BR"}
        ``"none"``: a tile for each pair and each other row. ``"RB"``: order, then cut the order into full tiles. ``"subtree"``: no
        tile has rows of two subtrees of the elimination tree that are larger than a tile. Such subtrees are independent,
        and there are 3 to 70 times fewer level sets. ``"BR"``: group rows of similar patterns, then order the groups.
    tile_size : int, 2 to 32
    ordering : str, or Ordering of the rows
        As in :func:`meshsolve.ildl`.

    Returns
    -------
    Tiling

    Notes
    -----
    Source: Thuerck et al. 2018, section 4.1 (RB and BR; cosine similarity as in Saad 2003, "Finding exact and approximate block
    structures for ILU preconditioning"). Code: factor/ildl/tiles.cpp.
    """
    size = (1 + (pairs.partner[pairs.first] >= 0)).astype(np.int32)
    ordering = of_pairs(ordering, pairs)
    if blocking != "BR":
        chosen = order.resolve(ordering, pairs.graph, threads=threads, factor="ildl")
        perm, parent = chosen.perm, None
        if blocking == "subtree" or (blocking == "RB" and chosen.method != "multicolor"):
            found = _core.analyze(pairs.graph.indptr, pairs.graph.indices, perm)
            perm, parent = found.perm, found.parent         # in a postorder neighbors in the elimination tree share a tile
        begin = _core.cut_tiles(size[perm], 1 if blocking == "none" else tile_size, parent if blocking == "subtree" else None)
        return Tiling(pairs.expand(perm), begin, chosen.method)
    group = _core.similar_vertices(pairs.graph.indptr, pairs.graph.indices, size, tile_size)
    if not isinstance(ordering, str):                       # groups in the order of their first pairs
        _, firsts = np.unique(group[ordering.perm], return_index=True)
        ordering = order.Ordering(np.argsort(firsts).astype(np.int32), ordering.method)
    chosen = order.resolve(ordering, _quotient(pairs.graph, group), threads=threads, factor="ildl")
    position = chosen.iperm[group]
    vertices = np.argsort(position, kind="stable").astype(np.int32)
    weight = np.bincount(position, size, minlength=len(chosen)).astype(np.int64)
    return Tiling(pairs.expand(vertices), np.append(0, np.cumsum(weight)).astype(np.int32), chosen.method)


def of_pairs(ordering, pairs):
    """The ordering of the pairs for an Ordering of the rows; a name unchanged."""
    return ordering if isinstance(ordering, str) else order.Ordering(pairs.contract(ordering.perm), ordering.method)


def block_statistics(matrix, pairs, tile_size=32, levels=(0, 1, 2, 3, 4), threads=None):
    """Count nonzero blocks and level sets for each blocking, ordering and level of fill.

    Parameters
    ----------
    matrix : Csr, both triangles
    pairs : Pairs
    tile_size : int
    levels : iterable of int

    Yields
    ------
    (blocking, ordering, fill_level, tiles, blocks, level_sets)
        Blocks of the upper triangle, those on the diagonal included.

    Notes
    -----
    Source: Thuerck et al. 2018, figure 1.
    """
    unit = Choices(0, 0.0, np.inf, tile_size, "RB", "static", np.dtype(np.float64))
    for blocking in ("none", "RB", "subtree", "BR"):
        for ordering in ("amd", "rcm", "nd", "multicolor"):
            tiles = tiling(pairs, blocking, tile_size, ordering, threads)
            for level in levels:
                facts = IncompleteCore(matrix, tiles, replace(unit, fill_level=level), 1).native.facts
                yield blocking, ordering, level, facts["tiles"], facts["blocks"], facts["levels"]


def renumbered(matrix, rows, threads=1):
    """(indptr, indices, source) of the matrix whose k-th row is ``rows[k]``; ``source`` are the positions of its values."""
    return _core.ildl_renumber(matrix.indptr, matrix.indices, rows, threads)


def assembled(minus, rows, indptr, d, e):
    """(L, D) from the columns of L below its diagonal, minus the values, and the pivots."""
    n = len(d)
    L = sp.csc_array(sp.csc_array((-minus, rows, narrow_ptr(indptr)), shape=(n, n)) + sp.eye_array(n, format="csc"))
    L.sort_indices()
    return L, block_diagonal(d, e)


class Numeric(NamedTuple):
    """The factor of one matrix; replaced as a whole."""

    made: Any                   # native factor
    row: np.ndarray             # (n,) int32: row of A at each position of the elimination
    inverse: Any                # native solves


class IncompleteCore:
    """The incomplete factor of an :class:`~meshsolve.factor.ildl.IldlFactor` on the host."""

    kind, place = "incomplete", "cpu"

    def __init__(self, matrix, tiles, choices, threads):
        self.tiles, self.choices, self.threads = tiles, choices, threads
        self._indptr, self._indices, self._source = renumbered(matrix, tiles.rows, threads)
        self._prepare()

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("native", "_numeric")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._prepare()

    def factor(self, scaled, scale):
        """Factor the matrix with these scaled values. After an error the earlier factor stays."""
        c, values = self.choices, scaled[self._source]
        made = self.native.factor(self._indptr, self._indices, values, c.pivoting, c.droptol, c.max_fill, self.threads)
        row = self.tiles.rows[made.order()]
        inverse = (_core.IldlInverseDouble if c.dtype == np.float64 else _core.IldlInverseSingle)(made, row, scale, self.threads)
        self._numeric = Numeric(made, row, inverse)

    @property
    def changes(self):
        """An object that differs after each change of the factor."""
        return getattr(self, "_numeric", None)

    def solve(self, scale, columns, out):
        """out := S (L D L^T)^-1 S columns."""
        self._numeric.inverse.solve(columns, out, self.threads)

    def extract(self):
        """(perm, L, D) in the order of elimination."""
        _, indptr, rows, minus, d, e = self._numeric.made.extract()
        return self._numeric.row, *assembled(minus, rows, indptr, d, e)

    @property
    def inertia(self):
        return self._numeric.made.inertia

    @property
    def nnz(self):
        return self._numeric.made.nonzeros

    def facts(self):
        """Facts of the numeric phase for the report."""
        return self.native.facts | self._numeric.made.facts | {"nnz_L": self.nnz, "bytes": self._numeric.inverse.nbytes,
                                                               "fill_level": self.choices.fill_level, "droptol": self.choices.droptol}

    def _prepare(self):
        self.native = _core.IldlIncomplete(self.tiles.begin, self._indptr, self._indices, self.choices.fill_level)


def _quotient(graph, group):
    """The graph of the groups, without diagonal, as a Csr."""
    count = int(group.max()) + 1
    member = sp.csr_array((np.ones(graph.n), (group, np.arange(graph.n))), shape=(count, graph.n))
    joined = sp.csr_array(member @ graph.to_scipy().astype(np.float64) @ member.T)
    joined.sort_indices()
    indptr, indices = joined.indptr.astype(np.int64), joined.indices.astype(np.int32)
    return Csr(count, *_core.drop_diagonal(indptr, indices))
