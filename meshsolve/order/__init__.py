"""Fill-reducing orderings of symmetric patterns.

Every function takes a mesh, a matrix (the pattern of A + A^T counts) or a checked pattern (:class:`meshsolve.arrays.Csr`
from :func:`meshsolve.arrays.symmetric_pattern`) and returns an :class:`Ordering`, whose ``perm[k]`` is the old index of the
k-th new row: ``A[perm][:, perm]`` is what is factored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from meshsolve import _core
from meshsolve.arrays import Csr, as_choice, as_perm, thread_count
from meshsolve.errors import DeviceUnavailableError, InvalidInputError
from meshsolve.mesh import pattern_of
from meshsolve.report import Report, announce

__all__ = ["Ordering", "SeparatorTree", "amd", "natural", "nested_dissection", "nnz_sort", "random", "rcm", "resolve"]

# What nested dissection spends on fill. The columns are the fields of Options in order.hpp.
EFFORTS = {
    "fast": dict(leaf_size=800, band=4, rounds=3, trials=2, candidates=1, large=10000, balance=0.35),
    "default": dict(leaf_size=400, band=5, rounds=4, trials=3, candidates=1, large=2000, balance=0.3),
    "quality": dict(leaf_size=300, band=6, rounds=5, trials=6, candidates=3, large=2000, balance=0.3),
}
PATCHES_PER_MESH_PATCH = 8      # nested dissection cuts a mesh patch into this many sub-patches


@dataclass(frozen=True, eq=False)
class SeparatorTree:
    """The tree of a nested dissection, nodes in postorder.

    Attributes
    ----------
    parent : (k,) int32
        ``parent[i] > i``, or -1 for a root.
    first, last : (k,) int32
        ``[first[i], last[i])`` are the new positions of node i's own vertices: a separator or a leaf. The subtree of i lies
        before them. The nodes partition 0..n, and every edge of the graph joins a node with itself or with an ancestor.
    """

    parent: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def __len__(self):
        return len(self.parent)


@dataclass(frozen=True, eq=False)
class Ordering:
    """A permutation and how it was made.

    Attributes
    ----------
    perm : (n,) int32
        ``perm[k]`` is the old index of the k-th new row.
    method : str
        ``"nd"``, ``"amd"``, ``"nnz_sort"``, ``"rcm"``, ``"random"``, ``"natural"`` or ``"given"``.
    tree : SeparatorTree or None
        For nested dissection.
    num_patches : int
        Sub-patches that nested dissection worked on; 0 elsewhere and below 5000 vertices, where it is minimum degree.
    report : Report
        Phases ``"patches"`` and ``"order"``.
    """

    perm: np.ndarray
    method: str
    tree: SeparatorTree | None = None
    num_patches: int = 0
    report: Report = field(default_factory=Report, repr=False)

    @cached_property
    def iperm(self):
        """(n,) int32: ``iperm[perm[k]] == k``, the new position of each old row."""
        iperm = np.empty_like(self.perm)
        iperm[self.perm] = np.arange(len(self.perm), dtype=np.int32)
        return iperm

    def __len__(self):
        return len(self.perm)


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
    Time about 1 us a vertex on meshes on one thread, memory about 100 bytes a vertex.
    Source: patches and quotient graph after Mahmoud's thesis (2024) and Homa (arXiv 2602.00898), band refinement after
    Chevalier and Pellegrini 2008, halo after Pellegrini, Roman, Amestoy 2000.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from meshsolve import order
    >>> path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(4, 4))
    >>> o = order.nested_dissection(path)
    >>> sorted(o.perm.tolist()), len(o.tree)
    ([0, 1, 2, 3], 1)
    """
    as_choice(effort, "effort", EFFORTS)
    _check_device(device)
    patch = max(16, _integer(patch_size, "patch_size", 16) // PATCHES_PER_MESH_PATCH)
    seed, threads = _integer(seed, "seed", 0), thread_count(threads)
    pattern = _pattern(A_or_mesh)
    announce("order")
    perm, parent, first, last, patches, patch_seconds, order_seconds = _core.nested_dissection(
        pattern.indptr, pattern.indices, patch_size=patch, seed=seed, threads=threads, **EFFORTS[effort])
    report = Report(ordering="nd", nnz_A=pattern.nnz + pattern.n, threads=threads, effort=effort, patches=patches)
    report.add("patches", patch_seconds)
    report.add("order", order_seconds)
    return Ordering(perm, "nd", SeparatorTree(parent, first, last), patches, report)


def amd(A):
    """Approximate minimum degree.

    Parameters
    ----------
    A : matrix, mesh or Csr pattern, see :func:`nested_dissection`

    Returns
    -------
    Ordering

    Raises
    ------
    InvalidInputError
        Not a square matrix or a mesh.

    Notes
    -----
    Near linear time in practice, about 0.5 us a vertex on meshes. Source: Amestoy, Davis, Duff 1996, sections 3-5.
    Code: order/mindeg.cpp.
    """
    return _timed("amd", A, lambda pattern: _core.amd(pattern.indptr, pattern.indices))


def resolve(ordering, pattern, seed=0, threads=None):
    """What a user passed as ``ordering=`` becomes an :class:`Ordering` of ``pattern``.

    Parameters
    ----------
    ordering : str, Ordering or (n,) integers
        A name (``"nd"``, ``"amd"``, ``"nnz_sort"``, ``"rcm"``, ``"random"``, ``"natural"``), an ordering made before, or a
        permutation.
    pattern : Csr
        Symmetric, without diagonal.
    seed, threads : int
        For the methods that use them.

    Returns
    -------
    Ordering

    Raises
    ------
    InvalidInputError
        Unknown name; an Ordering of another size; not a permutation.
    """
    if isinstance(ordering, Ordering):
        if len(ordering) != pattern.n:
            raise InvalidInputError(f"the ordering is of {len(ordering)} rows, the matrix has {pattern.n}")
        return ordering
    if not isinstance(ordering, str):
        return Ordering(as_perm(ordering, pattern.n, "ordering"), "given", report=Report(ordering="given"))
    methods = {
        "nd": lambda: nested_dissection(pattern, seed=seed, threads=threads),
        "amd": lambda: amd(pattern),
        "nnz_sort": lambda: nnz_sort(pattern, seed),
        "rcm": lambda: rcm(pattern),
        "random": lambda: random(pattern, seed),
        "natural": lambda: natural(pattern),
    }
    if ordering not in methods:
        names = ", ".join(methods)
        raise InvalidInputError(f"ordering has to be one of {names}, an Ordering or a permutation, not {ordering!r}")
    return methods[ordering]()


def _timed(method, A, make):
    pattern = _pattern(A)
    report = Report(ordering=method, nnz_A=pattern.nnz + pattern.n)
    with report.phase("order"):
        perm = np.ascontiguousarray(make(pattern), np.int32)
    return Ordering(perm, method, report=report)


def _pattern(A_or_mesh):
    if isinstance(A_or_mesh, Csr) and A_or_mesh.data is None:
        return A_or_mesh
    return pattern_of(A_or_mesh)


def _integer(value, name, least):
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or not least <= value < 2**31:
        raise InvalidInputError(f"{name} has to be an integer from {least} to 2^31 - 1, not {value!r}")
    return int(value)


def _check_device(device):
    if as_choice(device, "device", ("cpu", "cuda")) == "cuda":
        raise DeviceUnavailableError("nested dissection runs on the CPU only: use device='cpu'; its order serves the GPU too")


from meshsolve.order.simple import natural, nnz_sort, random, rcm  # noqa: E402  (they build on the helpers above)
