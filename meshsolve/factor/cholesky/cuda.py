"""Numeric phase on the GPU: launches of subtree.cu and queue.cu. sweeps_cuda.py has the solves.

:class:`DeviceFactor` is the counterpart of ``_core.CholeskyDouble`` and ``_core.CholeskySingle``. Its arrays lie on the GPU. Only the
column of a failed pivot, and results that a caller requests on the host, are copied back.
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core, device
from meshsolve.errors import NotPositiveDefiniteError, PatternMismatchError
from meshsolve.factor.cholesky import inverse_cuda
from meshsolve.factor.cholesky.singular import LEAST_EXPONENT, constant_component
from meshsolve.factor.cholesky.sweeps_cuda import Sweeps
from meshsolve.factor.cholesky.update_cuda import Update, pair_outside
from meshsolve.factor.fronts.cuda import device_tree, suits
from meshsolve.factor.fronts.plan import BITS, BLOCKS_EACH, FAILED, NONE, STALL, STALLED, WARPS
from meshsolve.sparse.cuda import without_diagonal
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import CUDA

SUBTREE, QUEUE, EXTRACT = (device.kernels(f"factor/cholesky/{name}.cu") for name in ("subtree", "queue", "extract"))
BIAS = 1023                                                 # of float64 exponents


class OnDevice:
    """A factor on the GPU; `HostFactor` has the same methods for the host.

    A subclass has ``_pattern``, the analyzed pattern, and ``_data``, the values of the last factored matrix or None.
    """

    place = CUDA
    takes_vectors = False
    corrections_ahead = 2           # as many as a float32 factor of an ordinary matrix needs
    suits = staticmethod(lambda symbolic: True)     # True for an analysis that device="auto" leaves to this engine

    @staticmethod
    def prepare(symbolic, threads):
        """Make the tree if the GPU is fast on it; otherwise it is made by a factorization with ``device="cuda"``."""
        if suits(symbolic):
            device_tree(symbolic)

    @staticmethod
    def graph_of(pattern, threads):
        """Return the pattern that is ordered."""
        return without_diagonal(pattern)

    @staticmethod
    def keep_indices(symbolic, pattern):
        """Do nothing: the analysis keeps its pattern."""

    def matrix(self):
        """Return the (nnz,) values in the analyzed pattern, on the GPU."""
        return self._data

    def residual(self, X, B):
        """Return B - A X in float64 for (n, k) arrays on the GPU."""
        return self._csr().residual(X, B)

    def norm1(self):
        """Return the largest row sum of absolute values of A."""
        return self._csr().norm1()

    def matrix_diagonal(self):
        """Return the diagonal of A in the order of the pattern, (n,); None before the first factorization."""
        return None if self._data is None else self._csr().diagonal_values()

    def _csr(self):
        """Return the factored matrix."""
        return Csr(self._pattern.n, self._pattern.indptr, self._pattern.indices, self._data)


class DeviceFactor(OnDevice):
    """Panels of L on the GPU.

    Parameters
    ----------
    symbolic : Symbolic
    precision : {"double", "single", "mixed"}
        L is stored in float64, or in float32 for the latter two.
    threads : int
        Not used.
    """

    suits = staticmethod(suits)
    inversion = inverse_cuda                        # module that computes entries of the inverse
    sweeps_of = Sweeps                              # sweeps_of(tree, panels): the solves

    def __init__(self, symbolic, precision, threads=1):
        xp = device.xp()
        self._symbolic, self._pattern, self._iperm = symbolic, symbolic.pattern_on_device, symbolic.analysis_on_device.iperm
        self.dtype = np.dtype(np.float64 if precision == "double" else np.float32)
        self.tree = tree = device_tree(symbolic)
        self._panels = xp.zeros(tree.panel_scalars, self.dtype)
        self._updates, self.sweeps = xp.empty(tree.update_scalars, self.dtype), self.sweeps_of(tree, self._panels)
        self._status = xp.empty_like(tree.plan.initial)     # of plan.py
        self.bits = self._status[BITS:BITS + 1]
        self._norm, self._is_open, self._exponent, self.changes = None, False, 0, 0
        self._is_updated = self._is_lost = False            # since the last numeric phase; by a numeric phase after updates
        self._data, self._pending = None, xp.empty(self._pattern.nnz, np.float64)

    @property
    def nbytes(self):
        arrays = (self._panels, self._updates, self._pending, self._data)
        return self.tree.nbytes + self.sweeps.nbytes + sum(array.nbytes for array in arrays if array is not None)

    # ---- numeric phase --------------------------------------------------------------------------------------------------

    def factor(self, data):
        """Factor the matrix with these values, (nnz,) float64 on the GPU, in the analyzed pattern.

        Returns -1, or the column (new numbering) of the first pivot that is not positive, or is positive only by rounding. Then, and
        after an exception, the earlier factor is restored, bit for bit.
        """
        def copy(values, bits):
            values[:] = data

        try:
            _, failed = self.factor_again(copy)
            if failed < 0:
                self.accept()
        finally:
            self.restore()
        return failed

    def factor_again(self, write):
        """Factor the values that ``write(values, bits)`` queues for (nnz,) ``values``; it may set ``bits``, (1,) int32. Reads once.

        Returns (bits, as :meth:`factor`). The caller then calls :meth:`accept`, or :meth:`restore` for the earlier factor.
        """
        self.queue(write)
        failed, least, bits = device.to_host(self.status).tolist()
        self.refuse_stall(bits)
        return bits, self.column_of(failed, least)

    def refuse_stall(self, bits):
        """Raise if thread blocks of the numeric phase waited in vain for each other."""
        device.refuse_stall(bits // STALL & 1, "the Cholesky factorization")

    def column_of(self, failed, least):
        """Return the result of :meth:`factor` for the first two words of the status after the pending values were factored."""
        self._exponent = least - BIAS
        if failed == NONE:
            eliminated = self._pattern.n - self.tree.boundary
            failed = constant_component(self._pattern, self._iperm, self._pending, eliminated) if self.may_be_singular() else -1
        return failed

    def queue(self, write):
        """Queue the work of :meth:`factor_again` without reading. No memory is allocated: a CUDA graph can record it."""
        self._is_open, self._exponent_before = True, self._exponent
        self.reset()
        write(self._pending, self.bits)
        self._eliminate(self._pending)

    @property
    def pattern(self):
        """The analyzed pattern, a Csr on the GPU."""
        return self._pattern

    @property
    def pending(self):
        """The values of :meth:`factor_again`, (nnz,) on the GPU, until they are accepted."""
        return self._pending

    def accept(self, is_updated=False):
        """Keep the factor of the pending values. ``is_updated``: it was computed from the factor of the earlier values."""
        self._begin_factor(is_updated)
        self._data, self._pending = self._pending, device.xp().empty_like(self._pending) if self._data is None else self._data

    def open(self, values):
        """Begin pending values in ``values``, the array of :attr:`pending` at an earlier time, for work that a CUDA graph queues."""
        self._is_open, self._exponent_before = True, self._exponent
        if values is not self._pending:                     # the values of the factor lie in it
            self._pending[:] = values
            self._data, self._pending = self._pending, values

    def keep(self):
        """As :meth:`accept`, without an exchange of memory: a CUDA graph will write the same memory again."""
        self._begin_factor(is_updated=False)
        self._data[:] = self._pending

    def reset(self):
        """Queue the status before a numeric phase."""
        self._status[:] = self.tree.plan.initial

    @property
    def status(self):
        """int32 words that a numeric phase writes: the failed column or NONE, an exponent, the bits of the checks and STALL.

        The exponent is the least of a pivot relative to its diagonal entry, biased as in float64.
        """
        return self._status[:BITS + 1]

    def restore(self):
        """Compute the earlier factor again, unless the pending values were accepted. It has the same bits, after updates up to rounding.

        After updates with large weights that may fail. Then the factor is lost, see :meth:`require_factor`.
        """
        if self._is_open and self._data is not None and not self._is_lost:
            self.reset()
            self._eliminate(self._data)
            self._exponent = self._exponent_before
            if self._is_updated:
                self._is_lost = bool(device.to_host(self.status)[FAILED] != NONE)
        self._is_open = False

    def require_factor(self):
        """Raise if the factor was lost."""
        if self._is_lost:
            raise NotPositiveDefiniteError(_core.lost_in_rounding)

    def update(self, C, down):
        """As ``HostFactor.update``. Reads once."""
        self.require_factor()
        change = Update(C, down, self.tree, self._pattern, self._iperm, self.dtype)
        self._is_open, self._exponent_before = True, self._exponent
        try:
            self._pending[:] = self._data
            change.queue(self._panels, self._pending, self.sweeps)
            outside, failed = device.to_host(change.words).tolist()
            self._is_open = not outside                     # otherwise nothing has changed
            if not outside and not failed:
                self.accept(is_updated=True)
        finally:
            self.restore()
        if outside:
            raise PatternMismatchError.at(*pair_outside(C, self._symbolic))
        self.require_factor()
        return not failed

    # ---- solves ---------------------------------------------------------------------------------------------------------

    def solve(self, system, B):
        """Return A^-1 B (in the caller's numbering), L^-1 B or L^-T B (in the permuted one) for (n, k) float64 on the GPU."""
        self.require_factor()
        X = device.xp().empty_like(B)
        self.sweeps.solve(system, B, X)
        return X

    def work_space(self, k):
        """Allocate the arrays that a solve for k right-hand sides overwrites. It notes a wait in vain in the status."""
        self.require_factor()
        return self.sweeps.allocate(k, self._status[STALLED:STALLED + 1])

    def solve_into(self, system, B, X, space):
        """Queue :meth:`solve` with the result in X and the :meth:`work_space` of as many right-hand sides. No memory is allocated."""
        self.sweeps.solve(system, B, X, space)

    def solve_entries(self, rows, columns, values, count):
        """Return A^-1 B, (n, count) on the GPU, for the sum B of ``values`` at (rows, columns)."""
        B = np.zeros((self.tree.n, count))
        np.add.at(B, (rows, columns), values)
        return self.solve("A", device.to_device(B))

    # ---- properties of the factor ---------------------------------------------------------------------------------------

    def matrix(self):
        """As :meth:`OnDevice.matrix`."""
        self.require_factor()
        return super().matrix()

    def diagonal(self):
        """Return the diagonal of L, (n,) float64 on the GPU."""
        self.require_factor()
        out = device.xp().empty(self.tree.n, np.float64)
        self._launch(EXTRACT, "k_diagonal", self.tree.count, 128, 0, (self.tree.table, self._panels, out))
        return out

    def inverse_diagonal(self):
        """Return the diagonal of A^-1 in the order of the pattern, (n,) float64 on the GPU."""
        return inverse_cuda.diagonal_of(self.tree, self._inverse_panels())

    def inverse_on_matrix(self):
        """Return the entries of A^-1 on the pattern, (nnz,) float64 on the GPU."""
        return inverse_cuda.entries_of(self._pattern, self.tree, self._inverse_panels())

    def may_be_singular(self):
        """As ``HostFactor.may_be_singular``."""
        return self._exponent < LEAST_EXPONENT[self.dtype]

    def norm1(self):
        """As :meth:`OnDevice.norm1`, computed once for each matrix."""
        if self._norm is None:
            self._norm = super().norm1()
        return self._norm

    def values_on(self, indptr, indices):
        """Return the values of L on its pattern by columns, diagonal first; all three arrays are on the host."""
        self.require_factor()
        out = device.xp().empty(len(indices), np.float64)
        pattern = device.to_device(indptr), device.to_device(indices)
        self._launch(EXTRACT, "k_values", self.tree.count, 128, 0, (self.tree.table, self.tree.rows, *pattern, self._panels, out))
        return device.to_host(out)

    # ---- helpers --------------------------------------------------------------------------------------------------------

    def _begin_factor(self, is_updated):
        """Note that the panels have a new factor that will be kept."""
        self._is_open, self._is_updated, self._is_lost, self._norm, self.changes = False, is_updated, False, None, self.changes + 1

    def _inverse_panels(self):
        self.require_factor()
        return inverse_cuda.inverse_panels(self._symbolic, self.tree, self._panels)

    def _eliminate(self, data):
        """Queue the numeric phase of these values."""
        plan, arrays = self.tree.plan, (*self.tree.entries, data, self._panels, self._updates, self._status)
        tasks, tiles, fronts, depths = plan.numbers
        of_block, of_warp = plan.workspace
        self._launch(SUBTREE, "k_subtrees", tasks, 32 * WARPS, of_block * self.dtype.itemsize,
                     (plan.subtree_tasks, plan.subtrees, plan.fronts, plan.panel_at, np.int32(of_warp), *arrays))
        self._launch(QUEUE, "k_queue", min(tiles, BLOCKS_EACH * device.multiprocessors()), 256, 0,
                     (np.int32(tiles), np.int32(fronts), np.int32(depths), plan.tiles, plan.queued, plan.tiles_of_depth, *arrays))
        self.sweeps.invert()

    def _launch(self, kernels, name, grid, block, shared, args):
        device.launch(getattr(kernels.of(self.dtype), name), grid, block, shared, args)
