"""Matrices, meshes and files with one fault each, and calls without an optional package."""

import gzip
import sys
from unittest import mock

import numpy as np
import scipy.sparse as sp
from kernel_harness import Harness

import meshsolve as ms
from meshsolve import device
from meshsolve.device.cuda import reason_without

N = 12
RHS = np.arange(1.0, N + 1)


def spd(n=N):
    return sp.csr_array(sp.diags_array([-np.ones(n - 1), 2.1 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1]))


def edited(**parts):
    """spd() with changed arrays: a function of the array, or a dict of index to new value."""
    A = spd()
    for name, change in parts.items():
        array = getattr(A, name).copy()
        if isinstance(change, dict):
            for index, value in change.items():
                array[index] = value
        else:
            array = change(array)
        setattr(A, name, array)
    return A


def coo(row, value):
    A = spd().tocoo()
    getattr(A, row)[3] = value
    return A


def entry(i, j, value):
    A = spd().tolil()
    A[i, j] = value
    return sp.csr_array(A)


def sphere():
    return ms.datasets.icosphere(1)


def nan_sphere():
    mesh = sphere()
    mesh.vertices[3, 0] = np.nan
    return mesh


def damaged_tree():
    ordering = ms.order.nested_dissection(spd())
    ordering.tree.parent[0] = 0
    return ordering


def factor(**options):
    return ms.cholesky(spd(), **options)


def used_within(outer, inner):
    """Call ``inner(F)`` in the progress callback of ``outer(F)``, which simulates another thread."""
    def call(F):
        with ms.showing_progress(lambda *progress: inner(F)):
            outer(F)
    return call


def written(tmp, name, content):
    path = tmp / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def half(tmp, suffix):
    path = tmp / f"whole{suffix}"
    ms.datasets.icosphere(2).save(path)
    content = path.read_bytes()
    return written(tmp, f"half{suffix}", content[:len(content) // 2])


def damaged_gzip(tmp):
    content = bytearray(gzip.compress(bytes(range(256)) * 40))
    content[20:60] = b"\xff" * 40
    return written(tmp, "damaged.obj.gz", bytes(content))


def symmetric_entry(i, j, value=0.1):
    return sp.csr_array(spd() + sp.coo_array(([value, value], ([i, j], [j, i])), shape=(N, N)))


def adjacency(*entries):
    """The weight matrix of a path, all weights 1, with some entries replaced."""
    W = spd().tolil()
    W.setdiag(0)
    W = abs(W).tolil()
    for i, j, value in entries:
        W[i, j] = value
    return sp.csr_array(W)


def hub(n=400):
    edge = np.ones(n - 1)
    W = sp.coo_array((edge, (np.zeros(n - 1, int), np.arange(1, n))), (n, n))
    return ms.graph_laplacian(W + W.T)


def dependent_rows():
    """A dense integer matrix whose last row is the sum of the others; LU gives a pivot of about 1e-15."""
    A = np.random.default_rng(1).integers(-9, 9, (100, 100)).astype(float)
    A[-1] = A[:-1].sum(axis=0)
    return A


def without_cupy(function):
    """The function on a machine without CuPy."""
    def call(*args, **keywords):
        with mock.patch.dict(sys.modules, {"cupy": None}), mock.patch.object(device, "_cupy", reason_without):
            return function(*args, **keywords)
    return call


def on_harness(function):
    """The function with the kernel harness as GPU."""
    def call(*args, **keywords):
        with device.use(Harness()):
            return function(*args, **keywords)
    return call


def without_polyscope(function):
    """The function on a machine without polyscope."""
    def call(*args, **keywords):
        with mock.patch.dict(sys.modules, {"polyscope": None}):
            return function(*args, **keywords)
    return call


SHARED = factor()
SHARED_LU = ms.lu(spd())
SHARED_LDL = ms.ildl(spd())
SHARED_SCHUR = ms.schur_complement(spd(), [0, 5])
