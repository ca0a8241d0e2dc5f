"""Views of the solver's data structures: patches, ribbons, separators, elimination order, column counts.

They depend only on the connectivity, so they are computed once and kept while the surface moves.
"""

from __future__ import annotations

import numpy as np

from meshsolve import api, order
from meshsolve.apps.viewer.coloring import PALETTE, Coloring, Plot
from meshsolve.operators import graph_laplacian
from meshsolve.options import counted
from meshsolve.order.methods import names
from meshsolve.patches import PatchMesh

VIEWS = ("patches", "ribbons", "one patch", "separators", "elimination order", "column counts")
ORDERINGS = names()
GRAY = 0.85
POINTS = 500                        # most points of a plot over the columns; the plot is about 300 pixels wide
NO_SEPARATORS = "no separators: meshes below 5,000 vertices and near-trees are ordered by minimum degree"
COPIED = np.array([[GRAY] * 3, [1.0, 0.6, 0.2], [0.85, 0.2, 0.15]])


class Structure:
    """Patches and symbolic analyses of a mesh, computed on first use.

    Parameters
    ----------
    mesh : Mesh
        Only its faces are used.
    threads : int, optional
    """

    def __init__(self, mesh, threads=None):
        self.mesh, self.threads = mesh, threads
        self._patches, self._analyses, self._nested = {}, {}, None

    def patches(self, size=512):
        """Return the :class:`PatchMesh` with at most ``size`` faces per patch. The last one is kept."""
        if size not in self._patches:
            self._patches = {size: PatchMesh(self.mesh, patch_size=size, threads=self.threads)}
        return self._patches[size]

    def nested(self):
        """Return the nested dissection :class:`Ordering` with its separator tree."""
        if self._nested is None:
            self._nested = order.nested_dissection(self.mesh, threads=self.threads)
        return self._nested

    def has_separators(self):
        """True if the separator tree has more than one node for some component."""
        return bool((self.nested().tree.parent >= 0).any())

    def analysis(self, ordering="nd"):
        """Return the :class:`Symbolic` analysis of the mesh's Laplacian in an ordering."""
        if ordering not in self._analyses:
            chosen = self.nested() if ordering == "nd" else ordering
            self._analyses[ordering] = api.analyze(graph_laplacian(self.mesh), chosen, threads=self.threads)
        return self._analyses[ordering]

    def view(self, name, ordering="nd", patch_size=512, patch=0):
        """Return the :class:`Coloring` of the view ``name``, one of ``VIEWS``."""
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
        caption = (f"faces in the ribbon of no other patch (gray), one (orange), more (red, up to {copies.max(initial=0)}); "
                   f"{share:.0%} of the faces are copied, {extra:.0%} more storage")
        return Coloring("ribbons", COPIED[np.minimum(copies, len(COPIED) - 1)], "faces", caption)

    def _one_patch_view(self, size, patch):
        patches = self.patches(size)
        local = patches.patch(min(int(patch), patches.num_patches - 1))
        owned = local.num_owned[2]
        colors = np.full((len(self.mesh.faces), 3), GRAY)
        colors[local.ltog_faces[:owned]], colors[local.ltog_faces[owned:]] = PALETTE[9], PALETTE[1]
        ribbon = len(local.ltog_faces) - owned
        return Coloring("one patch", colors, "faces", f"blue: {counted(owned, 'owned face')}, orange: {counted(ribbon, 'ribbon face')}")

    def _separator_view(self):
        level, depth = separator_levels(self.nested())
        if depth == 0:
            text = NO_SEPARATORS
        else:
            count = int((level < depth).sum())
            text = (f"{counted(depth, 'level')} of separators with {counted(count, 'vertex')}, from blue (first) to yellow (last); "
                    "gray: subdomains")
        from matplotlib import colormaps

        color = colormaps["plasma"](np.linspace(0, 0.95, max(depth, 1) + 1))[:, :3]
        color[depth] = GRAY
        return Coloring("separators", color[level], "vertices", text)

    def _order_view(self, ordering):
        sym = self.analysis(ordering)
        position = np.empty(sym.n)
        position[sym.perm] = np.arange(sym.n)
        return Coloring("elimination order", position, "vertices", f"{ordering}: 0 is eliminated first, {sym.n - 1:,} last",
                        plot=column_plot(sym))

    def _count_view(self, ordering):
        sym = self.analysis(ordering)
        count = np.empty(sym.n)
        count[sym.perm] = sym.colcount
        return Coloring("column counts", np.log10(count), "vertices", f"{ordering}: log10 of the entries in each column of L; "
                        f"nnz(L) {sym.nnz:,}, {sym.flops:.3g} flops, longest column {int(count.max()):,}", plot=column_plot(sym))


def column_plot(sym):
    """Plot of the entries in each column of L in elimination order; the longest column of each part, if there are many."""
    part = -(-sym.n // POINTS)
    padded = np.zeros(-(-sym.n // part) * part)
    padded[:sym.n] = sym.colcount
    return Plot("factor L", "column, in elimination order", "entries", {"entries": padded.reshape(-1, part).max(axis=1)}, step=part)


def patch_colors(mesh, of_face):
    """Color the graph of patches greedily, largest degree first: (patches,) integers.

    Patches that share an edge with two faces have different colors.
    """
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
    for p in np.argsort(-np.diff(start), kind="stable"):                # a loop over patches of some hundred faces each
        used = set(color[ends[start[p]:start[p + 1], 1]].tolist())
        color[p] = next(c for c in range(len(used) + 1) if c not in used)
    return color


def ribbon_copies(patches, faces):
    """Count the patches that have each face in their ribbon, (faces,)."""
    ribbons = [local.ltog_faces[local.num_owned[2]:] for local in map(patches.patch, range(patches.num_patches))]
    return np.bincount(np.concatenate(ribbons), minlength=faces)


def separator_levels(ordering):
    """Return the level (n,) of each vertex in the separator tree, and the depth of the tree.

    Level 0 is the first separator of each component. Leaves are not separators; their level is the depth.
    """
    tree, level = ordering.tree, np.zeros(len(ordering.tree), int)
    for k in range(len(tree) - 1, -1, -1):                              # parents first
        if tree.parent[k] >= 0:
            level[k] = level[tree.parent[k]] + 1
    leaf = np.ones(len(tree), bool)
    leaf[tree.parent[tree.parent >= 0]] = False
    depth = int(level.max(initial=0))
    level[leaf] = depth
    of_vertex = np.empty(len(ordering.perm), int)
    of_vertex[ordering.perm] = np.repeat(level, tree.last - tree.first)
    return of_vertex, depth
