"""What both engines need on the GPU: pivots and what they count, values of A, residuals. Their drivers are beside it."""

from __future__ import annotations

import numpy as np

from meshsolve import _core, device
from meshsolve.device.reductions import is_any
from meshsolve.errors import InvalidInputError
from meshsolve.factor.base import values_in
from meshsolve.factor.refine import backward_error
from meshsolve.options import counted
from meshsolve.sparse.cuda import Positions, as_device_csr
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.product import norm1, residual

K = device.kernels("factor/lu/scatter.cu")


class Rule:
    """Thresholds of the pivots as kernel arguments."""

    def __init__(self, threshold, tiny, boost):
        self.threshold = (np.float64(threshold),)
        self.smallest = (np.float64(tiny), np.float64(boost))
        self.all = self.threshold + self.smallest


class Seen:
    """What the kernels count: replaced pivots, max |B|, max |U|."""

    def __init__(self):
        self.array = device.xp().zeros(3, np.uint64)

    def clear(self):
        self.array.fill(0)

    def read(self):
        """(replaced pivots, max |B|, max |U|): waits for the device."""
        counts = device.to_host(self.array)
        return int(counts[0]), *counts[1:].view(np.float64).tolist()


class Scatter:
    """Values of A, scaled, to their places.

    Parameters
    ----------
    source : (m,) uint32
        Positions in A's values.
    scale : (m,) float64
    target : (m,) int64, optional
        Places in the output; in order where it is missing.
    """

    def __init__(self, source, scale, target=None):
        target = np.empty(0, np.int64) if target is None else target
        self._arrays = tuple(device.to_device(np.ascontiguousarray(a)) for a in (source, target, scale))
        self._nothing = device.xp().empty(0, np.uint64)
        self.nbytes = sum(a.nbytes for a in self._arrays)

    def __call__(self, data, out, seen=None):
        count = len(self._arrays[0])
        kernel = K.k_scatter_f64 if out.dtype == np.float64 else K.k_scatter_f32
        device.launch(kernel, device.grid_for(count, 256), 256, 0,
                      (np.int64(count), *self._arrays, data, out, self._nothing if seen is None else seen.array))


def outside_of(plan, analysis):
    """What stands above the diagonal blocks: ((ptr, row) by columns on the host, its Scatter)."""
    ptr, row, source = plan.outside()
    column = np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), np.diff(ptr))
    scale = analysis.row_scale[analysis.rows[row]] * analysis.col_scale[analysis.columns[column]]
    return (ptr, row, column), Scatter(source, scale)


def frame_of(analysis):
    """Permutations of A on the device, and scalings by position."""
    frame = {"rows": analysis.rows, "columns": analysis.columns, "rows_scale": analysis.row_scale[analysis.rows],
             "columns_scale": analysis.col_scale[analysis.columns]}
    return {name: device.to_device(np.ascontiguousarray(a)) for name, a in frame.items()}


class DeviceValues:
    """Brings the values of matrices that lie on the device into the analysed pattern.

    Parameters
    ----------
    pattern : Csr
    """

    def __init__(self, pattern):
        self._pattern, self._met = pattern, None

    def of(self, A):
        """(nnz,) float64 on the device; the host looks at a pattern that it has not met in the call before.

        Raises
        ------
        InvalidInputError
            Another size, not real, NaN or infinity.
        PatternMismatchError
            An entry outside the analysed pattern.
        """
        M = as_device_csr(A)
        if M.n != self._pattern.n:
            raise InvalidInputError(f"A has {counted(M.n, 'row')}, the factor {self._pattern.n}")
        if self._met is None or len(M.indices) != len(self._met[1]) or not (
                not is_any(M.indptr != self._met[0]) and not is_any(M.indices != self._met[1])):
            positions = Csr(M.n, *map(device.to_host, M[1:3]), np.arange(1.0, len(M.indices) + 1))
            moved = values_in(self._pattern, positions)
            take = None if moved is positions.data else device.to_device(moved.astype(np.int64))    # None: the analysed pattern
            self._met = M.indptr.copy(), M.indices.copy(), take
        return M.data if self._met[2] is None else Positions.of(M, self._met[2])


class DeviceMatrix:
    """The pattern of A on the device, for residuals.

    Parameters
    ----------
    pattern : Csr
    """

    def __init__(self, pattern):
        self._host, self._sides = pattern, {}

    def measure(self, transposed, data):
        """A function of (x, b) that gives ``b - A x`` and the backward error, as :func:`meshsolve.factor.lu.backward.residual`."""
        xp = device.xp()
        indptr, indices, take = self._side(transposed)
        values = data if take is None else data[take]
        norm = norm1(indptr, indices, values)

        def of(x, b):
            r = residual(indptr, indices, values, x, b)
            return r, backward_error(norm, *device.to_host(xp.stack([abs(v).max(axis=0) for v in (r, x, b)])))

        return of

    def _side(self, transposed):
        """(indptr, indices, None or the positions of the values) by rows, or by columns."""
        if transposed not in self._sides:
            P, take = self._host, None
            if transposed:
                positions = Csr(P.n, P.indptr, P.indices, np.arange(len(P.indices), dtype=np.float64))
                turned = positions.to_scipy().T.tocsr()
                P = Csr(P.n, turned.indptr.astype(np.int64), turned.indices.astype(np.int32))
                take = device.to_device(turned.data.astype(np.int64))
            self._sides[transposed] = device.to_device(P.indptr), device.to_device(P.indices), take
        return self._sides[transposed]


def twin(kind, plan, dtype):
    """An empty factor of the C++ core for what a GPU has made."""
    return getattr(_core, kind + ("Double" if dtype == np.float64 else "Single"))(plan)
