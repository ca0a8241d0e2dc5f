"""Nested dissection: the face of nested.cpp."""

from __future__ import annotations

from meshsolve import _core
from meshsolve.arrays import as_integer, as_seed, on_cpu, one_of, thread_count
from meshsolve.mesh import pattern_of
from meshsolve.order.ordering import Ordering, SeparatorTree
from meshsolve.report import Report, announce

# What nested dissection spends on fill. The columns are the fields of Options in order.hpp.
EFFORTS = {
    "fast": dict(leaf_size=800, band=4, rounds=3, trials=2, candidates=1, large=10000, balance=0.35),
    "default": dict(leaf_size=400, band=4, rounds=3, trials=2, candidates=1, large=4000, balance=0.3),
    "quality": dict(leaf_size=300, band=6, rounds=5, trials=6, candidates=3, large=2000, balance=0.3),
}
PATCHES_PER_MESH_PATCH = 8      # nested dissection cuts a mesh patch into this many sub-patches


def nested_dissection(A_or_mesh, effort="default", patch_size=512, seed=0, threads=None, device="cpu"):
    """Nested dissection on small patches, with its separator tree.

    The graph is cut into patches; the graph between the patches, weighted by vertices and crossing edges, is bisected
    recursively; each cut becomes a minimum vertex separator within a band of a few layers; parts of some hundred vertices
    are ordered by minimum degree, the separators around them counted in the degrees. Rows much longer than the rest are
    numbered last, unknowns with identical neighbourhoods are kept together, components are ordered one by one. Below 5000
    vertices, and on near-trees, the order is minimum degree and the tree has one node per component.

    Parameters
    ----------
    A_or_mesh : Mesh, matrix as for :func:`meshsolve.arrays.as_csr`, or Csr pattern (symmetric, without diagonal)
    effort : "default", "fast" or "quality"
        More time for less fill.
    patch_size : int >= 16
        Patch limit as for the mesh; sub-patches of ``max(16, patch_size // 8)`` vertices are used.
    seed : int >= 0
        Another seed gives another order of about the same fill.
    threads : int, optional
        The result does not depend on it.
    device : "cpu"

    Returns
    -------
    Ordering
        With ``.tree``.

    Raises
    ------
    InvalidInputError
        Not a square matrix or a mesh; unknown effort; patch_size, seed or threads out of range.
    DeviceUnavailableError
        ``device="cuda"``.

    Notes
    -----
    About 1 us and 100 bytes a vertex on meshes, on one thread. Source: patches and quotient graph after Mahmoud's thesis
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
    on_cpu(device, "nested dissection runs")
    patch = max(16, as_integer(patch_size, "patch_size", 16) // PATCHES_PER_MESH_PATCH)
    seed, threads = as_seed(seed), thread_count(threads)
    pattern = pattern_of(A_or_mesh)
    announce("order")
    perm, parent, first, last, patches, patch_seconds, order_seconds = _core.nested_dissection(
        pattern.indptr, pattern.indices, patch_size=patch, seed=seed, threads=threads, **EFFORTS[effort])
    report = Report(ordering="nd", nnz_A=pattern.nnz + pattern.n, threads=threads, effort=effort, num_patches=patches)
    report.add("patches", patch_seconds)
    report.add("order", order_seconds)
    return Ordering(perm, "nd", SeparatorTree(parent, first, last), patches, report)
