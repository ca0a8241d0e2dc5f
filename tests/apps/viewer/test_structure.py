"""Views of the solver's data structures, compared with their definitions by brute force."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

import meshsolve as ms
from meshsolve.apps.viewer import Model
from meshsolve.apps.viewer.structure import ORDERINGS, VIEWS, Structure, patch_colors, ribbon_copies, separator_levels
from meshsolve.datasets import icosphere, scan_like

SCAN = scan_like(6000)


@given(st.integers(16, 400), st.integers(0, 3))
def test_patches_that_touch_have_different_colors(size, level):
    mesh = icosphere(level)
    of_face = ms.PatchMesh(mesh, patch_size=size).face_patch
    color = patch_colors(mesh, of_face)
    faces_of_edge = np.argsort(mesh.side_edges.ravel(), kind="stable").reshape(-1, 2) // 3          # closed: two each
    p, q = of_face[faces_of_edge].T
    assert (color >= 0).all() and len(color) == of_face.max() + 1
    assert (color[p] != color[q])[p != q].all()


def test_faces_in_ribbons_are_those_that_share_a_vertex_with_another_patch():
    """A ribbon holds the faces around the patch's vertices: a face counts once for each patch that owns none but touches it."""
    patches = ms.PatchMesh(SCAN, patch_size=128)
    copies = ribbon_copies(patches, len(SCAN.faces))
    by_hand = np.zeros(len(SCAN.faces), int)
    for p in range(patches.num_patches):
        held = patches.patch(p)
        by_hand[held.ltog_faces] += 1
    assert np.array_equal(copies, by_hand - 1)                          # every face is owned once
    touching = np.zeros((patches.num_patches, len(SCAN.vertices)), bool)
    touching[np.repeat(patches.face_patch, 3), SCAN.faces.ravel()] = True
    inner = touching[:, SCAN.faces].any(axis=2).sum(axis=0) == 1
    assert (copies[inner] == 0).all() and copies.max() >= 2


def test_no_edge_joins_two_parts_below_the_same_separators():
    ordering = ms.order.nested_dissection(SCAN)
    level, depth = separator_levels(ordering)
    assert depth >= 3 and level.min() == 0 and level.max() == depth
    node = np.empty(len(level), int)
    node[ordering.perm] = np.repeat(np.arange(len(ordering.tree)), ordering.tree.last - ordering.tree.first)
    inside = level == depth
    i, j = SCAN.edges[inside[SCAN.edges].all(axis=1)].T
    assert (node[i] == node[j]).all()
    first = level == 0
    rest = SCAN.edges[~first[SCAN.edges].any(axis=1)]
    n = len(level)
    parts, part = connected_components(sp.coo_array((np.ones(len(rest)), rest.T), shape=(n, n)), directed=False)
    assert np.bincount(part[~first], minlength=parts).max() < 0.8 * n          # the first separator separates


def test_small_meshes_say_that_they_have_no_separators():
    view = Structure(icosphere(2)).view("separators")
    assert "no separators" in view.caption and np.ptp(view.values) == 0


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_order_and_column_counts_are_those_of_the_factor(ordering):
    mesh = icosphere(2)
    structure = Structure(mesh)
    position = structure.view("elimination order", ordering).values.astype(int)
    L = ms.graph_laplacian(mesh)
    F = ms.cholesky(L + sp.eye_array(L.shape[0]), ordering=structure.analysis(ordering).perm)
    assert np.array_equal(np.argsort(position), F.perm)
    lengths = np.diff(F.L.indptr)
    assert np.allclose(10 ** structure.view("column counts", ordering).values, lengths[position])
    assert f"nnz(L) {F.nnz:,}" in structure.view("column counts", ordering).caption


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_a_value_for_each_element_and_a_caption(view):
    model = Model(SCAN)
    coloring = model.show(view, patch=3)
    assert len(coloring.values) == len(SCAN.vertices if coloring.on == "vertices" else SCAN.faces)
    assert np.isfinite(coloring.values).all() and coloring.caption and model.view == view
    if not coloring.is_scalar:
        assert coloring.values.min() >= 0 and coloring.values.max() <= 1


def test_one_patch_shows_what_it_owns_and_its_ribbon():
    model = Model(SCAN)
    values = model.show("one patch", patch=3, patch_size=64).values
    held = ms.PatchMesh(SCAN, patch_size=64).patch(3)
    owned, ribbon = held.ltog_faces[:held.num_owned[2]], held.ltog_faces[held.num_owned[2]:]
    assert len(np.unique(values, axis=0)) == 3
    assert len(np.unique(values[owned], axis=0)) == len(np.unique(values[ribbon], axis=0)) == 1
    assert (values[owned[0]] != values[ribbon[0]]).any()


def test_the_analysis_is_made_once_for_a_moving_surface():
    model = Model(SCAN)
    before = model.structure.analysis("nd")
    model.step()
    model.show("column counts")
    assert model.structure.analysis("nd") is before
