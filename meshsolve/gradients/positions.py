"""Laplacian and masses of triangles as functions of the positions, in arithmetic that PyTorch and JAX differentiate.

Entries are returned face by face, with duplicates: the solves sum them by a plan that stays the same for all positions. ``xp`` is torch
or jax.numpy. Degenerate faces have the values of :mod:`meshsolve.mesh.elements`, with the derivatives of these values: longest sides bound
their areas. Source: Pinkall, Polthier 1993.
"""

from __future__ import annotations

from meshsolve.mesh.elements import FLATTEST


def laplacian_indices(xp, faces):
    """Return (2, 12 m) rows and columns of :func:`laplacian_values`, for faces (m, 3)."""
    a, b, c = faces[:, 0], faces[:, 1], faces[:, 2]
    i, j = xp.concatenate([b, c, a]), xp.concatenate([c, a, b])
    return xp.stack([xp.concatenate([i, j, i, j]), xp.concatenate([j, i, i, j])])


def laplacian_values(xp, vertices, faces):
    """Return (12 m,) entries of the cotangent Laplacian: those of the edges, then those of the diagonal."""
    x = [vertices[faces[:, k]] for k in range(3)]
    area = _doubled_areas(xp, x)
    sides = [_dot(d, d) for d in (x[2] - x[1], x[0] - x[2], x[1] - x[0])]
    area = xp.maximum(area, FLATTEST * xp.maximum(xp.maximum(sides[0], sides[1]), sides[2]))
    point, safe = area == 0, xp.where(area == 0, xp.ones_like(area), area)          # at one point: equilateral, whatever the positions
    half = [xp.where(point, xp.full_like(area, 0.75**0.5 / 3), _dot(x[(k + 1) % 3] - x[k], x[(k + 2) % 3] - x[k]) / (2 * safe))
            for k in range(3)]                              # half cotangents, opposite side k
    w = xp.concatenate(half)
    return xp.concatenate([-w, -w, w, w])


def mass_indices(xp, faces):
    """Return (2, 3 m) rows and columns of :func:`masses`, for faces (m, 3)."""
    corners = faces.T.reshape(-1)
    return xp.stack([corners, corners])


def masses(xp, vertices, faces):
    """Return (3 m,) thirds of the areas of the faces, for the corners in the order ``faces.T``."""
    third = _doubled_areas(xp, [vertices[faces[:, k]] for k in range(3)]) / 6
    return xp.concatenate([third, third, third])


def _doubled_areas(xp, x):
    u, v = x[1] - x[0], x[2] - x[0]
    normal = [u[:, 1] * v[:, 2] - u[:, 2] * v[:, 1], u[:, 2] * v[:, 0] - u[:, 0] * v[:, 2], u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]]
    square = normal[0] ** 2 + normal[1] ** 2 + normal[2] ** 2
    flat = square == 0                                      # the derivative of the root is taken as 0
    return xp.where(flat, xp.zeros_like(square), xp.sqrt(xp.where(flat, xp.ones_like(square), square)))


def _dot(u, v):
    return (u * v).sum(-1)
