"""Pins and handles, compared with dense solves and with a new editor for each result."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve.apps.viewer import Model
from meshsolve.apps.viewer.editing import METHODS, Editor
from meshsolve.datasets import icosphere
from meshsolve.errors import InvalidInputError, NotPositiveDefiniteError

BALL = icosphere(2)
LINEAR = METHODS[:2]
N = len(BALL.vertices)


def turn(angle, offset=(0.0, 0.0, 0.0)):
    T = np.eye(4)
    c, s = np.cos(angle), np.sin(angle)
    T[:2, :2] = [[c, -s], [s, c]]
    T[:3, 3] = offset
    return T


def cap(axis, limit):
    return np.flatnonzero(BALL.vertices[:, axis] > limit)


def dense(editor):
    """Positions by a dense solve of the same energy, from the public operators."""
    mesh, rows = editor.mesh, np.flatnonzero(editor.group >= 0)
    free = np.setdiff1d(np.arange(N), rows)
    L = ms.cotan_laplacian(mesh).toarray()
    if editor.method == "harmonic weights":
        A = L
    else:
        h = np.linalg.norm(np.diff(mesh.vertices[mesh.edges], axis=1), axis=2).mean()
        A = editor.bending * L @ np.diag(1 / ms.mass_matrix(mesh).diagonal()) @ L + (1 - editor.bending) / h ** 2 * L
    response = -np.linalg.solve(A[np.ix_(free, free)], A[np.ix_(free, rows)])
    x, moved = mesh.vertices, mesh.vertices.copy()
    for handle, T in editor.transforms.items():
        mine = editor.group[rows] == handle
        if editor.method == "harmonic weights":
            w = np.zeros(N)
            w[rows[mine]], w[free] = 1, response[:, mine].sum(axis=1)
            moved += w[:, None] * (x @ T[:3, :3].T + T[:3, 3] - x)
        else:
            d = np.zeros((N, 3))
            d[rows[mine]] = x[rows[mine]] @ T[:3, :3].T + T[:3, 3] - x[rows[mine]]
            d[free] = response @ d[rows]
            moved += d
    return moved


@pytest.mark.parametrize("method", LINEAR)
@pytest.mark.parametrize("bending", [1.0, 0.3, 0.0])
def test_positions_are_those_of_a_dense_solve(method, bending):
    editor = Editor(BALL)
    editor.use(method, bending)
    editor.pin(cap(1, 0.8))
    one, two = editor.grab(cap(0, 0.8)), editor.grab(cap(2, 0.9))
    editor.move(one, turn(0.4, [0.3, -0.1, 0.2]))
    editor.move(two, [0.0, 0.5, 0.0])
    got = editor.positions()
    assert np.allclose(got, dense(editor), atol=1e-9)
    assert np.allclose(got[cap(1, 0.8)], BALL.vertices[cap(1, 0.8)])
    assert np.allclose(got[cap(2, 0.9)], BALL.vertices[cap(2, 0.9)] + [0, 0.5, 0])


actions = st.lists(st.one_of(
    st.tuples(st.just("pin"), st.integers(0, N - 1), st.integers(0, 2)),
    st.tuples(st.just("grab"), st.integers(0, N - 1), st.integers(0, 2)),
    st.tuples(st.just("free"), st.integers(0, N - 1), st.integers(0, 3)),
    st.tuples(st.just("drag"), st.integers(0, 5), st.floats(-1, 1)),
    st.tuples(st.just("use"), st.sampled_from(LINEAR), st.sampled_from([0.2, 1.0])),
    st.tuples(st.just("step"), st.none(), st.none()),
    st.tuples(st.just("keep"), st.none(), st.none())), min_size=2, max_size=12)


@settings(max_examples=40)
@given(actions)
def test_whatever_was_done_before_the_surface_is_that_of_a_new_editor(done):
    """Reused orderings, refactored values and kept bases give the same result as a new factorization."""
    model = Model(BALL)
    for action, a, b in done:
        handles = list(model.editor.transforms)
        if action in ("pin", "grab", "free"):
            getattr(model, action)(a, b)
        elif action == "drag" and handles:
            model.drag(handles[a % len(handles)], turn(b, [b, 0, 0.2]))
        elif action == "use":
            model.use_edit(a, b)
        elif action in ("step", "keep"):
            getattr(model, action)()
        fresh = Editor(model.editor.mesh)
        fresh.use(model.editor.method, model.editor.bending)
        fresh.group, fresh.transforms = model.editor.group.copy(), dict(model.editor.transforms)
        assert np.allclose(model.mesh.vertices, fresh.positions(), atol=1e-7)


@pytest.mark.parametrize("method, T", [(METHODS[0], turn(0.0, [3.0, 1.0, 2.0])), (METHODS[1], turn(1.0, [3.0, 1.0, 2.0]))])
def test_what_every_handle_does_alike_the_whole_surface_does(method, T):
    """Weights sum to 1 and blend any transform; a displacement by the bi-Laplacian reproduces translations only."""
    editor = Editor(BALL)
    editor.use(method)
    for rows in (cap(0, 0.9), cap(1, 0.9)):
        editor.move(editor.grab(rows), T)
    assert np.allclose(editor.positions(), BALL.vertices @ T[:3, :3].T + T[:3, 3], atol=1e-9)


def test_weights_are_from_0_to_1_and_sum_to_1_with_the_pins():
    editor = Editor(BALL)
    editor.use("harmonic weights")
    editor.pin(cap(1, 0.9))
    editor.grab(cap(0, 0.9))
    editor.grab(cap(2, 0.9))
    w = editor.basis()
    assert w.shape == (N, 2) and w.min() > -1e-12 and w.sum(axis=1).max() < 1 + 1e-12
    editor.free(cap(1, 0.9))
    assert np.allclose(editor.basis().sum(axis=1), 1)


def test_the_weights_that_are_shown_are_those_of_the_other_method_too():
    model = Model(BALL)
    model.pin(0, 1)
    model.grab(50, 1)
    handle = model.grab(100, 1)
    model.drag(handle, [0.2, 0, 0])
    shape = model.mesh.vertices
    shown = model.show("weights", handle=1).values
    assert model.editor.method == "bi-Laplacian" and model.mesh.vertices is shape
    model.use_edit("harmonic weights")
    assert np.allclose(shown, model.editor.basis()[:, 1], atol=1e-12) and shown.max() == 1 and shown.min() > -1e-12
    assert np.array_equal(model.show("weights", handle=0).values, model.editor.basis()[:, 0])
    model.pin(120)
    assert model.show("weights").values[120] == 0


def test_as_rigid_as_possible_a_surface_turns_with_its_handles():
    """A transform that all fixed vertices share moves the whole surface; a drag is that of Deformation, from the last shape."""
    model = Model(BALL)
    model.use_edit("as rigid as possible")
    one, two = model.grab(0, 1), model.grab(100, 1)
    T = turn(0.7, [0.5, 0.0, 1.0])
    with model.editor.restored_on_error():
        model.editor.move(one, T)
    model.drag(two, T)
    assert np.allclose(model.mesh.vertices, BALL.vertices @ T[:3, :3].T + T[:3, 3], atol=1e-6)
    model.reset()
    model.drag(two, [0.4, 0.0, 0.0])
    rows = np.flatnonzero(model.editor.group >= 0)
    at = BALL.vertices[rows] + np.outer(model.editor.group[rows] == two, [0.4, 0, 0])
    assert np.allclose(model.mesh.vertices, ms.apps.Deformation(BALL, rows).move(at, iterations=10).vertices, atol=1e-9)
    model.keep()
    model.drag(one, [0.0, 0.3, 0.0])
    assert "solve" in model.timings.last and np.allclose(model.show("weights").values.max(), 1)


def test_what_is_not_connected_to_a_handle_stays():
    n = len(BALL.vertices)
    three = ms.Mesh(np.r_[BALL.vertices, BALL.vertices + 4, [[9.0, 9, 9]]], np.r_[BALL.faces, BALL.faces + n])
    for method in METHODS:
        editor = Editor(three)
        editor.use(method)
        editor.move(editor.grab([0, 5]), [1.0, 2.0, 3.0])
        got = editor.positions()
        assert np.allclose(got[:n], BALL.vertices + [1, 2, 3], atol=1e-8) and np.allclose(got[n:], three.vertices[n:], atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_surface_of_fixed_vertices_alone(method):
    editor = Editor(BALL)
    editor.use(method)
    editor.pin(np.arange(N))
    handle = editor.grab(np.arange(N))
    editor.move(handle, [1.0, 0, 0])
    assert np.array_equal(editor.positions(), BALL.vertices + [1, 0, 0])


@pytest.mark.parametrize("rings", [0, 1, 3])
def test_around_a_vertex_is_a_breadth_first_search(rings):
    graph = sp.csgraph.shortest_path(abs(ms.graph_laplacian(BALL)) > 0, unweighted=True, indices=17)
    assert np.array_equal(Editor(BALL).around(17, rings), np.flatnonzero(graph <= rings))


def test_drags_reuse_the_basis_and_other_values_refactor():
    model = Model(BALL)
    model.pin(0, 1)
    handle = model.grab(50, 1)
    factor = model.editor._factor
    before = dict(model.editor.report.seconds)
    model.drag(handle, [0.1, 0, 0])
    assert model.editor.report.seconds == before                        # nothing was factored or solved
    model.use_edit(bending=0.5)
    model.step()
    model.drag(handle, [0.1, 0, 0])
    after = model.editor.report.seconds
    assert model.editor._factor is factor and after["numeric"] > before["numeric"] and after["symbolic"] == before["symbolic"]
    model.pin(90)
    assert model.editor.report.seconds["order"] == after["order"] and model.editor._factor is not factor


def test_a_pin_holds_what_is_there_now():
    model = Model(BALL)
    model.pin(0, 2)
    handle = model.grab(50, 1)
    model.drag(handle, [0.5, 0.5, 0])
    shape = model.mesh.vertices.copy()
    model.pin(90, 1)
    assert np.allclose(model.mesh.vertices, shape, atol=1e-12) and model.mesh.vertices is not shape
    model.release()
    assert np.allclose(model.mesh.vertices, shape, atol=1e-12) and not model.editor.transforms
    model.reset()
    assert np.array_equal(model.mesh.vertices, BALL.vertices)


def test_an_edit_that_fails_leaves_everything(monkeypatch):
    model = Model(BALL)
    model.pin(0, 1)
    handle = model.grab(50, 1)
    model.drag(handle, [0.3, 0, 0])
    shape, group = model.mesh.vertices.copy(), model.editor.group.copy()

    def broken(*_, **__):
        raise NotPositiveDefiniteError("as if", 3)

    with monkeypatch.context() as patch:
        patch.setattr("meshsolve.apps.viewer.editing.api.cholesky", broken)
        for action in (lambda: model.pin(120), lambda: model.use_edit("harmonic weights"), lambda: model.grab(7)):
            with pytest.raises(NotPositiveDefiniteError):
                action()
            assert np.array_equal(model.mesh.vertices, shape) and np.array_equal(model.editor.group, group)
            assert model.editor.method == "bi-Laplacian" and list(model.editor.transforms) == [handle]
    model.drag(handle, [0.3, 0, 0])
    assert np.allclose(model.mesh.vertices, shape, atol=1e-12)


@pytest.mark.parametrize("action", [
    lambda e: e.move(9, [0, 0, 0]), lambda e: e.move(1, [0, 0]), lambda e: e.move(1, [np.nan, 0, 0]), lambda e: e.pin([N]),
    lambda e: e.pin([-1]), lambda e: e.grab([1, 1]), lambda e: e.around(N, 1), lambda e: e.around(0, -1),
    lambda e: e.use("magic"), lambda e: e.use(bending=2.0), lambda e: e.use(bending=np.nan)])
def test_bad_input(action):
    editor = Editor(BALL)
    editor.grab([3])
    before = editor.group.copy(), editor.method, editor.bending
    with pytest.raises(InvalidInputError):
        action(editor)
    assert np.array_equal(before[0], editor.group) and before[1:] == (editor.method, editor.bending)
