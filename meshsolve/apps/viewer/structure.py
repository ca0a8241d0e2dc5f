"""What a solver makes of a mesh, as arrays to look at: patches, ribbons, separators, elimination order, column counts.

All of it depends on the connectivity alone, so it is computed once and kept while the surface moves.
"""

from __future__ import annotations

import numpy as np

from meshsolve import api, order
from meshsolve.apps.viewer.coloring import PALETTE, Coloring
from meshsolve.operators import graph_laplacian
from meshsolve.options import counted
from meshsolve.order.methods import names
from meshsolve.patches import PatchMesh

VIEWS = ("patches", "ribbons", "one patch", "separators", "elimination order", "column counts")
ORDERINGS = names()
GREY = 0.85
NO_SEPARATORS = "no separators: meshes below 5,000 vertices and near-trees are ordered by minimum degree"
COPIED = np.array([[GREY] * 3, [1.0, 0.6, 0.2], [0.85, 0.2, 0.15]])


class Structure:
    """Patches and analyses of one mesh, made when first asked for.

    Parameters
    ----------
    mesh : Mesh
        Only its faces count.
    threads : int, optional
    """

    def __init__(self, mesh, threads=None):
        self.mesh, self.threads = mesh, threads
        self._patches, self._analyses, self._nested = {}, {}, None

    def patches(self, size=512):
        """The :class:`PatchMesh` with at most ``size`` faces a patch; the last one is kept."""
        if size not in self._patches:
            self._patches = {size: PatchMesh(self.mesh, patch_size=size, threads=self.threads)}
        return self._patches[size]

    def nested(self):
        """The nested dissection :class:`Ordering` with its separator tree."""
        if self._nested is None:
            self._nested = order.nested_dissection(self.mesh, threads=self.threads)
        return self._nested

    def has_separators(self):
        """Whether the tree has more than one node for each component: there is nothing to see in a picture of it otherwise."""
        return bool((self.nested().tree.parent >= 0).any())

    def analysis(self, ordering="nd"):
        """The :class:`Symbolic` of the mesh's Laplacian in that ordering."""
        if ordering not in self._analyses:
            chosen = self.nested() if ordering == "nd" else ordering
            self._analyses[ordering] = api.analyze(graph_laplacian(self.mesh), chosen, threads=self.threads)
        return self._analyses[ordering]

    def view(self, name, ordering="nd", patch_size=512, patch=0):
        """The :class:`Coloring` called ``name``, one of ``VIEWS``."""
        if name == "patches":
            return self._patch_view(patch_size)
        if name == "ribbons":
            return self._ribbon_view(patch_size)
        if name == "one patch":
            return self._one_patch_view(patch_size, patch)
        if name == "separators":
            return self._separator_view()
        return self._order_view(ordering) if name == "elimination order" else self._count_view(ordering)

    def _patch_view(self, size):
        patches = self.patches(size)
        of_face = patches.face_patch
        colors = PALETTE[patch_colors(self.mesh, of_face)[of_face] % len(PALETTE)]
        return Coloring("patches", colors, "faces", f"{counted(patches.num_patches, 'patch')} of at most {counted(size, 'face')}")

    def _ribbon_view(self, size):
        copies = ribbon_copies(self.patches(size), len(self.mesh.faces))
        share = (copies > 0).mean() if len(copies) else 0.0
        extra = copies.sum() / max(len(copies), 1)
        caption = (f"faces in the ribbon of no other patch (grey), one (orange), more (red, up to {copies.max(initial=0)}); "
                   f"{share:.0%} of the faces are copied, {extra:.0%} more storage")
        return Coloring("ribbons", COPIED[np.minimum(copies, len(COPIED) - 1)], "faces", caption)

    def _one_patch_view(self, size, patch):
        patches = self.patches(size)
        held = patches.patch(min(int(patch), patches.num_patches - 1))
        owned = held.num_owned[2]
        colors = np.full((len(self.mesh.faces), 3), GREY)
        colors[held.ltog_faces[:owned]], colors[held.ltog_faces[owned:]] = PALETTE[9], PALETTE[1]
        return Coloring("one patch", colors, "faces", f"blue: {counted(owned, 'face')} it owns, orange: {len(held.ltog_faces) - owned} of "
                        "its ribbon")

    def _separator_view(self):
        level, depth = separator_levels(self.nested())
        if depth == 0:
            text = NO_SEPARATORS
        else:
            count = int((level < depth).sum())
            text = (f"{counted(depth, 'level')} of separators, {counted(count, 'vertex')} in them: blue is the first, "
                    f"yellow the last; grey: the "
                    "parts between")
        from matplotlib import colormaps

        color = colormaps["plasma"](np.linspace(0, 0.95, max(depth, 1) + 1))[:, :3]
        color[depth] = GREY
        return Coloring("separators", color[level], "vertices", text)

    def _order_view(self, ordering):
        sym = self.analysis(ordering)
        position = np.empty(sym.n)
        position[sym.perm] = np.arange(sym.n)
        return Coloring("elimination order", position, "vertices", f"{ordering}: 0 is eliminated first, {sym.n - 1:,} last",
                        "viridis")

    def _count_view(self, ordering):
        sym = self.analysis(ordering)
        count = np.empty(sym.n)
        count[sym.perm] = sym.colcount
        return Coloring("column counts", np.log10(count), "vertices", f"{ordering}: log10 of the entries in each column of L; "
                        f"nnz(L) {sym.nnz:,}, {sym.flops:.3g} flops, longest column {int(count.max()):,}", "viridis")


def patch_colors(mesh, of_face):
    """(patches,) small integers, different for patches that share an edge of at most two faces; greedy, largest degree first."""
    low, high = np.full(len(mesh.edges), np.iinfo(np.int32).max, np.int32), np.full(len(mesh.edges), -1, np.int32)
    owner = np.repeat(of_face, 3)
    np.minimum.at(low, mesh.side_edges.ravel(), owner)
    np.maximum.at(high, mesh.side_edges.ravel(), owner)
    pairs = np.unique(np.stack([low, high], axis=1)[low < high], axis=0)
    count = int(of_face.max(initial=-1)) + 1
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    start = np.searchsorted(ends[:, 0], np.arange(count + 1))
    color = np.full(count, -1)
    for p in np.argsort(-np.diff(start), kind="stable"):                # patches, some hundred faces each
        taken = set(color[ends[start[p]:start[p + 1], 1]].tolist())
        color[p] = next(c for c in range(len(taken) + 1) if c not in taken)
    return color


def ribbon_copies(patches, faces):
    """(faces,) the number of patches in whose ribbon each face lies."""
    foreign = [held.ltog_faces[held.num_owned[2]:] for held in map(patches.patch, range(patches.num_patches))]
    return np.bincount(np.concatenate(foreign), minlength=faces)


def separator_levels(ordering):
    """(n,) level in the separator tree of each vertex, by its old number, and the depth that stands for every leaf.

    0 is the first separator of each component. Nodes without children do not separate: they all get the depth of the tree.
    """
    tree, level = ordering.tree, np.zeros(len(ordering.tree), int)
    for k in range(len(tree) - 1, -1, -1):                              # nodes of the tree, parents first
        if tree.parent[k] >= 0:
            level[k] = level[tree.parent[k]] + 1
    leaf = np.ones(len(tree), bool)
    leaf[tree.parent[tree.parent >= 0]] = False
    depth = int(level.max(initial=0))
    level[leaf] = depth
    of_vertex = np.empty(len(ordering.perm), int)
    of_vertex[ordering.perm] = np.repeat(level, tree.last - tree.first)
    return of_vertex, depth
