"""The incomplete L D L^T factor on the GPU. Host counterpart: :class:`~meshsolve.factor.ildl.incomplete.IncompleteCore`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from meshsolve import device
from meshsolve.factor.ildl import cuda
from meshsolve.factor.ildl.incomplete import assembled, renumbered
from meshsolve.factor.ildl.inverse_cuda import Inverse
from meshsolve.factor.ldlt.complete import inertia_of


class Numeric(NamedTuple):
    """The factor of one matrix; replaced as a whole."""

    columns: Any                # cuda.Columns of L
    inverse: Inverse
    d: np.ndarray               # diagonal of D, on the host
    e: np.ndarray               # entries below it; nonzero in 2x2 pivots
    below: int                  # nonzeros of L inside diagonal tiles, below the diagonal


class IncompleteCoreCuda:
    """The incomplete factor of an :class:`~meshsolve.factor.ildl.IldlFactor` on the GPU.

    Parameters
    ----------
    matrix : Csr, both triangles, on the host
    tiles : Tiling
    choices : Choices
    """

    kind, place = "incomplete", "cuda"

    def __init__(self, matrix, tiles, choices, threads=None):
        self.tiles, self.choices = tiles, choices
        *self._renumbered, self._source = renumbered(matrix, tiles.rows)
        self._prepare()

    def __getstate__(self):
        return {name: self.__dict__[name] for name in ("tiles", "choices", "_renumbered", "_source")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._prepare()

    def factor(self, scaled, scale):
        """Factor the matrix with these scaled values. Both arrays are on the host. After an error the earlier factor stays."""
        c = self.choices
        with device.errors("the incomplete factor"):
            columns = self._rows.factor(scaled[self._source], c.pivoting, c.droptol, c.max_fill)
            inverse = Inverse(self._rows, columns, self._tile_rows[columns.order], device.to_device(scale), c.dtype)
            below = int(device.scalar((columns.own != 0).sum().reshape(1))) - self._rows.n
            self._numeric = Numeric(columns, inverse, device.to_host(columns.d), device.to_host(columns.e), below)

    @property
    def changes(self):
        """An object that differs after each change of the factor."""
        return getattr(self, "_numeric", None)

    def apply_device(self, block):
        """Return S (L D L^T)^-1 S B, a new block, for a C contiguous (n, k) float64 block B on the GPU."""
        return self._numeric.inverse.apply(block)

    def check(self):
        """Wait for the GPU, and raise if a solve has failed."""
        self._numeric.inverse.check()

    def solve(self, scale, columns, out):
        """out := S (L D L^T)^-1 S columns, on the host."""
        with device.errors("the preconditioner"):
            out[...] = device.to_host(self.apply_device(device.to_device(np.ascontiguousarray(columns))))
            self.check()

    def extract(self):
        """(perm, L, D) in the order of elimination, on the host."""
        C = self._numeric.columns
        ptr, rows, minus, own, square = map(device.to_host, (C.ptr, C.rows, C.minus, C.own, C.square))
        n, begin = self._rows.n, self._rows.begin
        tile = np.repeat(np.arange(len(begin) - 1), np.diff(square))
        at, size = np.arange(len(own)) - square[tile], np.diff(begin)[tile]
        row, column = begin[tile] + at % size, begin[tile] + at // size
        below = (own != 0) & (row > column)
        outside = sp.csc_array((minus, rows, ptr), shape=(n, n))
        inside = sp.csc_array((-own[below], (row[below], column[below])), shape=(n, n))
        both = sp.csc_array(outside + inside)
        return device.to_host(self._numeric.inverse.row), *assembled(both.data, both.indices, both.indptr, self._numeric.d, self._numeric.e)

    @property
    def inertia(self):
        return inertia_of(self._numeric.d, self._numeric.e)

    @property
    def nnz(self):
        return len(self._numeric.columns.rows) + self._numeric.below + self._rows.n

    def facts(self):
        """Facts of the numeric phase for the report; bytes are those on the GPU."""
        now, R = self._numeric, self._rows
        C = now.columns
        return {"tiles": R.tiles, "levels": R.depths, "blocks": R.blocks, "stored": C.stored, "pairs": int((now.e != 0).sum()),
                "perturbed": C.perturbed, "dropped": C.dropped, "nnz_L": self.nnz, "bytes": now.inverse.nbytes + R.nbytes,
                "fill_level": self.choices.fill_level, "droptol": self.choices.droptol, "device": "cuda"}

    def _prepare(self):
        with device.errors("the incomplete factor"):
            self._rows = cuda.Rows(self.tiles.begin, *self._renumbered, self.choices.fill_level)
            self._tile_rows = device.to_device(self.tiles.rows)
