"""Nested dissection: Python wrapper of nested.cpp and of its CUDA version."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from meshsolve import _core
from meshsolve.device import choose, errors, to_device, to_host
from meshsolve.mesh import MeshLike, pattern_of
from meshsolve.options import as_integer, as_seed, one_of, thread_count
from meshsolve.order import nested_cuda, prepass_cuda
from meshsolve.order.ordering import Ordering, SeparatorTree
from meshsolve.order.space import may_exceed_memory, require_space
from meshsolve.report import Report, announce
from meshsolve.types import Device, Effort, Matrix

# Effort spent on less fill: fields of Options in order.hpp.
EFFORTS = {
    "fast": dict(leaf_size=400, band=4, rounds=3, trials=2, candidates=1, large=20000, balance=0.4),
    "default": dict(leaf_size=400, band=4, rounds=3, trials=2, candidates=1, large=4000, balance=0.4),
    "quality": dict(leaf_size=300, band=5, rounds=5, trials=6, candidates=3, large=2000, balance=0.4),
}
SMALL, NEAR_TREE = _core.small_graph, _core.near_tree   # number of vertices and mean degree below which minimum degree is used, on the CPU
PATCHES_PER_MESH_PATCH = 8      # number of sub-patches per mesh patch
DEFAULT_PATCH = 64              # vertices per sub-patch, for the default patch_size


def nested_dissection(A_or_mesh: MeshLike | Matrix, effort: Effort = "default", patch_size: int = 512, seed: int = 0,
                      threads: int | None = None, device: Device = "cpu") -> Ordering:
    """Nested dissection on small patches, with its separator tree.

    The quotient graph of the patches is bisected recursively. Each cut becomes a minimum vertex separator within a band of a few
    layers. Parts of some hundred vertices are ordered by exact minimum degree, whose degrees include the adjacent separators. Dense
    rows come last, indistinguishable nodes stay together, components are ordered one by one. Below 5000 vertices, and on
    near-trees, the order is minimum degree and the tree has one node per component.

    Parameters
    ----------
    A_or_mesh : Mesh, or (n, n) matrix: scipy sparse of any format, dense, CuPy sparse
        For a matrix, the pattern of A + A^T without its diagonal is ordered.
    effort : "default", "fast" or "quality"
        Trade-off between time and fill.
    patch_size : int >= 16
        Patch limit as for the mesh. Sub-patches have ``max(16, patch_size // 8)`` vertices, a quarter of that if rows have more
        than 12 neighbors on average.
    seed : int >= 0
        Other seeds give other orders of about the same fill.
    threads : int, optional
        The result does not depend on it.
    device : {"cpu", "cuda", "auto"}
        ``"cuda"`` gives another order of the same fill, the same on every GPU. A CuPy matrix (csr, csc) then gives a CuPy
        ``perm``; ``tree`` is on the host. The CPU orders graphs of less than 5000 vertices, near-trees, and parts without small
        separators.

    Returns
    -------
    Ordering, with ``.tree``

    Raises
    ------
    InvalidInputError
        Not a square matrix or a mesh; unknown effort or device; patch_size, seed or threads out of range.
    DeviceUnavailableError
        ``device="cuda"`` and there is no GPU, or no CuPy.
    OutOfMemoryError
        Not enough GPU memory: a mesh needs about 250 bytes per vertex.

    Notes
    -----
    About 0.4 to 0.8 us and 100 bytes per vertex on meshes, on one thread. Source: patches and quotient graph: Yuan's thesis (2024)
    and Homa (arXiv 2602.00898); band: Chevalier, Pellegrini 2008; halo: Pellegrini, Roman, Amestoy 2000.

    Examples
    --------
    >>> from meshsolve import datasets, order
    >>> o = order.nested_dissection(datasets.grid2d(2, 2))
    >>> sorted(o.perm.tolist()), len(o.tree)
    ([0, 1, 2, 3], 1)
    """
    one_of(effort, "effort", EFFORTS)
    patch = max(16, as_integer(patch_size, "patch_size", 16) // PATCHES_PER_MESH_PATCH)
    seed, threads = as_seed(seed), thread_count(threads)
    subject = A_or_mesh if (held := prepass_cuda.held(A_or_mesh)) else pattern_of(A_or_mesh, threads=threads)
    if choose(device, len(subject.indptr) - 1, *[subject.indptr] * held) == "cuda":
        return dissect_cuda(subject, seed, threads, effort, patch, stays=False)
    return dissect(prepass_cuda.on_host(subject) if held else subject, effort, patch, seed, threads)


class TooManyOperations(Exception):
    """The factorization is estimated to need more operations than the caller allows; nothing was ordered."""


def dissect(pattern, effort, patch, seed, threads, cheap=0.0, most=math.inf, bounded=False, entry_bytes=0):
    """:func:`nested_dissection` of checked arguments, with limits.

    The ``perm`` is empty if minimum degree is estimated to need at most ``cheap`` operations per row. It is also empty if ``cheap`` > 0
    and there is nothing to dissect (small graphs, near-trees). Raises :class:`TooManyOperations` if every order is estimated to need
    more than ``most`` operations per row. ``bounded``: minimum degree of each part is bounded, see
    :func:`meshsolve.order.simple.minimum_degree`. ``entry_bytes``: bytes of an entry of the factor that is to be computed in memory, or
    0. Raises :class:`~meshsolve.errors.OutOfMemoryError` if the largest separators show that this factor does not fit.
    """
    announce("order")

    def dissected(**limits):
        found = _core.nested_dissection(pattern.indptr, pattern.indices, patch_size=patch, seed=seed, threads=threads, bounded=bounded,
                                        **EFFORTS[effort], **limits)
        if found[-1]:
            raise TooManyOperations
        return found

    start = time.perf_counter()
    if entry_bytes and may_exceed_memory(pattern, entry_bytes):
        require_space(pattern, lambda stop: dissected(cheap=cheap, most=most, stop=stop)[:4], entry_bytes)
    patch_seconds = time.perf_counter() - start
    perm, parent, first, last, patches, seconds, order_seconds, _ = dissected(cheap=cheap, most=most)
    patch_seconds += seconds
    report = Report(ordering="nd", nnz_A=pattern.nnz + pattern.n, threads=threads, effort=effort, num_patches=patches)
    report.add("patches", patch_seconds)
    report.add("order", order_seconds)
    return Ordering(perm, "nd", SeparatorTree(parent, first, last), patches, report)


def dissect_cuda(A, seed, threads, effort="default", patch=DEFAULT_PATCH, stays=True, mesh_patches=None):
    """:func:`nested_dissection` of checked arguments on the GPU.

    ``stays``: ``perm`` stays on the GPU even if A is on the host. ``mesh_patches``: PatchMesh of the rows on the GPU, whose patches are
    divided into sub-patches.
    """
    stays = stays or prepass_cuda.held(A)
    announce("order")
    start = time.perf_counter()
    with errors("nested dissection"):
        G = prepass_cuda.graph_of(A)
        reduced = prepass_cuda.reduce(G)
        if reduced.graph.n < SMALL or reduced.graph.nnz < NEAR_TREE * reduced.graph.n:
            o = dissect(prepass_cuda.on_host(G), effort, patch, seed, threads)
            return replace(o, perm=to_device(o.perm)) if stays else o
        surface = None if mesh_patches is None else (reduced.of_vertices(mesh_patches.vertex_patch), mesh_patches.num_patches)
        found = nested_cuda.dissect(reduced.graph, EFFORTS[effort], patch, seed, surface)
        perm, tree = prepass_cuda.expand(reduced, found.perm, found.tree)
        perm = perm if stays else to_host(perm)
    report = Report(ordering="nd", nnz_A=G.nnz + G.n, threads=threads, device="cuda", effort=effort, num_patches=found.patches)
    report.add("patches", found.patch_seconds)
    report.add("order", time.perf_counter() - start - found.patch_seconds)
    return Ordering(perm, "nd", SeparatorTree(*tree), found.patches, report)
