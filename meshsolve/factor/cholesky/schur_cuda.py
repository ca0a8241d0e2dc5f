"""Numeric phase and solves of a Schur complement on the GPU: launches of boundary.cu. Counterpart of `HostFactor` with a boundary.

The numeric phase assembles the front of the kept rows and leaves it as it is (queue.cu). Solves sweep over the tree without this front.
After the forward sweep the vectors of its children are added to the kept rows. The backward sweep reads given values in these rows.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.factor.cholesky.cuda import DeviceFactor
from meshsolve.factor.cholesky.sweeps_cuda import Sweeps, passes_of
from meshsolve.factor.fronts.cuda import from_columns, to_columns

K = device.kernels("factor/cholesky/boundary.cu")


class BoundarySweeps(Sweeps):
    """Solves with the eliminated rows of a Schur complement.

    Parameters
    ----------
    tree : DeviceTree
        With a boundary.
    panels : (tree.panel_scalars,) float64 on the GPU
    """

    def __init__(self, tree, panels):
        super().__init__(tree.eliminated, panels)
        self._boundary = tree.boundary

    def reduce(self, B, X):
        """X := the (m, k) rows of the boundary after the forward sweep with B, (n, k) float64. Reads nothing."""
        tree = self._tree
        for begin, count, width, passes in passes_of(B.shape[1]):
            workspace, _ = self._forward(B, begin, count, width, passes)
            device.launch(K.k_boundary_rows, width * passes, 256, 0,
                          (tree.table, np.int32(tree.count), tree.child, tree.relative, np.int32(width), np.int64(tree.n), self._rows,
                           workspace.stalled, workspace.vectors, workspace.Y))
            X[:, begin:begin + count] = self._kept_rows(workspace)[:count].T

    def expand(self, B, given, X):
        """X := the solution for B, (n, k) float64, whose (m, k) rows of the boundary are ``given``. Reads nothing."""
        for begin, count, width, passes in passes_of(B.shape[1]):
            workspace, sweeps = self._forward(B, begin, count, width, passes)
            self._kept_rows(workspace)[:count] = given[:, begin:begin + count].T
            sweeps["backward"]()
            from_columns(workspace.Y, X, begin, count, self._tree.perm, failed=workspace.stalled)

    def _forward(self, B, begin, count, width, passes):
        workspace, sweeps = self._of_stream(width, passes)
        workspace.counters.fill(0)
        to_columns(B, begin, count, width * passes, workspace.Y, self._tree.perm)
        sweeps["forward"]()
        return workspace, sweeps

    def _kept_rows(self, workspace):
        """Return the rows of the boundary, a view (right-hand sides, m)."""
        return workspace.Y.reshape(-1, self._tree.n)[:, -self._boundary:]


class SchurFactor(DeviceFactor):
    """A factor on the GPU of the rows that are eliminated, and the Schur complement of the others."""

    sweeps_of = BoundarySweeps

    def boundary_block(self):
        """Return the Schur complement, (m, m) float64 on the GPU."""
        m, last = self.tree.boundary, self.tree.count - 1
        S = device.xp().empty((m, m), np.float64)
        device.launch_1d(K.k_boundary_block, m * m, self.tree.table, np.int32(last), self._panels, S)
        return S

    def reduce(self, columns):
        """As ``HostFactor.reduce``, on the GPU."""
        x = device.xp().empty((self.tree.boundary, columns.shape[1]), np.float64)
        self.sweeps.reduce(columns, x)
        return x

    def expand(self, columns, given):
        """As ``HostFactor.expand``, on the GPU."""
        x = device.xp().empty_like(columns)
        self.sweeps.expand(columns, given, x)
        return x
