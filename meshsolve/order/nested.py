"""Nested dissection: the face of nested.cpp."""

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
from meshsolve.report import Report, announce
from meshsolve.types import Device, Effort, Matrix

# What nested dissection spends on fill. The columns are the fields of Options in order.hpp.
EFFORTS = {
    "fast": dict(leaf_size=400, band=4, rounds=3, trials=2, candidates=1, large=20000, balance=0.4),
    "default": dict(leaf_size=400, band=4, rounds=3, trials=2, candidates=1, large=4000, balance=0.4),
    "quality": dict(leaf_size=300, band=5, rounds=5, trials=6, candidates=3, large=2000, balance=0.4),
}
SMALL, NEAR_TREE = _core.small_graph, _core.near_tree         # vertices and mean degree below which it is minimum degree, on the CPU
PATCHES_PER_MESH_PATCH = 8      # nested dissection cuts a mesh patch into this many sub-patches
DEFAULT_PATCH = 64              # vertices of a sub-patch, as nested_dissection has them by default


def nested_dissection(A_or_mesh: MeshLike | Matrix, effort: Effort = "default", patch_size: int = 512, seed: int = 0,
                      threads: int | None = None, device: Device = "cpu") -> Ordering:
    """Nested dissection on small patches, with its separator tree.

    The quotient graph of the patches is bisected recursively. Each cut becomes a minimum vertex separator within a band of a few
    layers. Parts of some hundred vertices are ordered by exact minimum degree, with the separators around them in the degrees. Dense
    rows come last, indistinguishable nodes stay together, components are ordered one by one. Below 5000 vertices, and on
    near-trees, the order is minimum degree and the tree has one node per component.

    Parameters
    ----------
    A_or_mesh : Mesh, or (n, n) matrix: scipy sparse of any format, dense, CuPy sparse
        Of a matrix the pattern of A + A^T without its diagonal counts.
    effort : "default", "fast" or "quality"
        More time for less fill.
    patch_size : int >= 16
        Patch limit as for the mesh; sub-patches of ``max(16, patch_size // 8)`` vertices are used, of a quarter of that where rows
        have more than 12 neighbours on average.
    seed : int >= 0
        Another seed gives another order of about the same fill.
    threads : int, optional
        The result does not depend on it.
    device : {"cpu", "cuda", "auto"}
        ``"cuda"`` gives another order of the same fill, the same on every GPU. A CuPy matrix (csr, csc) then gives a CuPy
        ``perm``; ``tree`` lies on the host. Below 5000 vertices, near-trees, parts without small separators: by the CPU.

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
        The GPU has not the about 250 bytes a vertex that a mesh takes.

    Notes
    -----
    About 0.4 to 0.8 us and 100 bytes a vertex on meshes, on one thread. Source: patches and quotient graph after Yuan's thesis
    (2024) and Homa (arXiv 2602.00898), band after Chevalier, Pellegrini 2008, halo after Pellegrini, Roman, Amestoy 2000.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from meshsolve import order
    >>> path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(4, 4))
    >>> o = order.nested_dissection(path)
    >>> sorted(o.perm.tolist()), len(o.tree)
    ([0, 1, 2, 3], 1)
    """
    one_of(effort, "effort", EFFORTS)
    patch = max(16, as_integer(patch_size, "patch_size", 16) // PATCHES_PER_MESH_PATCH)
    seed, threads = as_seed(seed), thread_count(threads)
    subject = A_or_mesh if (held := prepass_cuda.held(A_or_mesh)) else pattern_of(A_or_mesh)
    if choose(device, len(subject.indptr) - 1, *[subject.indptr] * held) == "cuda":
        return dissect_cuda(subject, seed, threads, effort, patch, stays=False)
    return dissect(prepass_cuda.on_host(subject) if held else subject, effort, patch, seed, threads)


class TooManyOperations(Exception):
    """A factorization is foreseen to take more operations than the caller allows; nothing was ordered."""


def dissect(pattern, effort, patch, seed, threads, cheap=0.0, most=math.inf, bounded=False):
    """:func:`nested_dissection` of checked arguments; an empty perm where minimum degree is foreseen to need at most ``cheap``
    operations a row, and with any ``cheap`` above 0 where there is nothing to dissect (small graphs, near trees);
    :class:`TooManyOperations` where any order is foreseen to need more than ``most``. ``bounded``: minimum degree of each
    part is bounded, see :func:`meshsolve.order.simple.minimum_degree`."""
    announce("order")
    perm, parent, first, last, patches, patch_seconds, order_seconds, too_many = _core.nested_dissection(
        pattern.indptr, pattern.indices, patch_size=patch, seed=seed, threads=threads, cheap=cheap, most=most, bounded=bounded,
        **EFFORTS[effort])
    if too_many:
        raise TooManyOperations
    report = Report(ordering="nd", nnz_A=pattern.nnz + pattern.n, threads=threads, effort=effort, num_patches=patches)
    report.add("patches", patch_seconds)
    report.add("order", order_seconds)
    return Ordering(perm, "nd", SeparatorTree(parent, first, last), patches, report)


def dissect_cuda(A, seed, threads, effort="default", patch=DEFAULT_PATCH, stays=True, mesh_patches=None):
    """:func:`nested_dissection` on the GPU, of checked arguments. ``stays``: ``perm`` stays there even if A comes from the host.
    ``mesh_patches``: a PatchMesh of the rows on the GPU, whose patches are divided into sub-patches."""
    stays = stays or prepass_cuda.held(A)
    announce("order")
    start = time.perf_counter()
    with errors("nested dissection"):
        G = prepass_cuda.on_device(A)
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
