"""The incomplete factor that is made and stays on the GPU: twin of :class:`~meshsolve.factor.ildl.incomplete.IncompleteCore`."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import device
from meshsolve.factor.ildl import cuda
from meshsolve.factor.ildl.incomplete import assembled, renumbered
from meshsolve.factor.ildl.inverse_cuda import Inverse
from meshsolve.factor.ldlt.complete import inertia_of


class DeviceCore:
    """The incomplete factor behind an :class:`~meshsolve.factor.ildl.IldlFactor` on the GPU.

    Parameters
    ----------
    matrix : Csr, both triangles, on the host
    tiles : Tiling
    choices : Choices
    """

    kind, on_device = "incomplete", True

    def __init__(self, matrix, tiles, choices):
        self.tiles, self.choices = tiles, choices
        *self._renumbered, self._source = renumbered(matrix, tiles.rows)
        self._prepare()

    def _prepare(self):
        with device.errors("the incomplete factor"):
            self._rows = cuda.Rows(self.tiles.begin, *self._renumbered, self.choices.fill_level)
            self._tile_rows = device.to_device(self.tiles.rows)

    def __getstate__(self):
        return {name: self.__dict__[name] for name in ("tiles", "choices", "_renumbered", "_source")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._prepare()

    def factor(self, scaled, scale):
        """Factor the matrix with these values, which have been scaled; both lie on the host."""
        c = self.choices
        with device.errors("the incomplete factor"):
            columns = self._rows.factor(scaled[self._source], c.pivoting, c.droptol, c.max_fill)
            inverse = Inverse(self._rows, columns, self._tile_rows[columns.order], device.to_device(scale), c.dtype)
            self._own_below = int(device.scalar((columns.own != 0).sum().reshape(1))) - self._rows.n
        self._columns, self._inverse = columns, inverse
        self._d, self._e = device.to_host(columns.d), device.to_host(columns.e)

    @property
    def changes(self):
        """Another one after each matrix that this has become the factor of."""
        return getattr(self, "_inverse", None)

    def apply_device(self, block):
        """S (L D L^T)^-1 S block for a C contiguous (n, k) float64 block on the device; a new one."""
        return self._inverse.apply(block)

    def check(self):
        """Raise where a solve gave up; waits for the device."""
        self._inverse.check()

    def solve(self, scale, columns, out):
        """out := S (L D L^T)^-1 S columns, on the host."""
        with device.errors("the preconditioner"):
            out[...] = device.to_host(self.apply_device(device.to_device(np.ascontiguousarray(columns))))
            self.check()

    def extract(self):
        """(perm, L, D) in the order of elimination, on the host."""
        C = self._columns
        ptr, rows, minus, own, square = map(device.to_host, (C.ptr, C.rows, C.minus, C.own, C.square))
        n, begin = self._rows.n, self._rows.begin
        tile = np.repeat(np.arange(len(begin) - 1), np.diff(square))
        at, size = np.arange(len(own)) - square[tile], np.diff(begin)[tile]
        row, column = begin[tile] + at % size, begin[tile] + at // size
        below = (own != 0) & (row > column)
        outside = sp.csc_array((minus, rows, ptr), shape=(n, n))
        inside = sp.csc_array((-own[below], (row[below], column[below])), shape=(n, n))
        both = sp.csc_array(outside + inside)
        return device.to_host(self._inverse.row), *assembled(both.data, both.indices, both.indptr, self._d, self._e)

    @property
    def inertia(self):
        return inertia_of(self._d, self._e)

    @property
    def nnz(self):
        return len(self._columns.rows) + self._own_below + self._rows.n

    def facts(self):
        """What the numeric phase has found, for the report; bytes are the device's."""
        C, R = self._columns, self._rows
        return {"tiles": R.tiles, "levels": R.depths, "blocks": R.blocks, "stored": C.stored, "pairs": int((self._e != 0).sum()),
                "perturbed": C.perturbed, "dropped": C.dropped, "nnz_L": self.nnz, "bytes": self._inverse.nbytes + R.nbytes,
                "fill_level": self.choices.fill_level, "droptol": self.choices.droptol, "device": "cuda"}
