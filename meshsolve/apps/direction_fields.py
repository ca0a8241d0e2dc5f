"""Smoothest fields of directions on a surface: one, two or more directions at each vertex at equal angles.

A field of k directions is the k-th power of any of them, as a complex number in the frame of the vertex. The smoothest field is
the eigenvector of the connection Laplacian with the smallest eigenvalue, or with prescribed directions the solution of its
Dirichlet problem. Directions that are only preferred add their squared differences from the field to the energy. The energy of
smoothness is that of the paper without curvature terms (s = 0).

Source: Knoeppel, Crane, Pinkall, Schroeder 2013, "Globally optimal direction fields", sections 3 to 6; alignment: section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from meshsolve.api import cholesky
from meshsolve.apps.geodesics.heat import with_units
from meshsolve.apps.geodesics.vector_heat import unit
from meshsolve.device import to_host
from meshsolve.eigen import eigsh
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import MeshLike, checked_mesh, takes_arrays
from meshsolve.mesh.checks import require_width
from meshsolve.mesh.measures import component_sums, without_shape
from meshsolve.operators import curvatures
from meshsolve.operators.connection import MOST_POWER, Connection, real_form
from meshsolve.options import as_integer, as_number, as_seed, one_of, shown
from meshsolve.seal import Sealed
from meshsolve.sparse.columns import as_array, as_indices
from meshsolve.types import Array, ArrayLike, Device

PAIRS = 8       # computed eigenpairs, of which the first is used: fewer converge slowly where values cluster, on symmetric shapes


@dataclass(frozen=True)
class DirectionField(Sealed):
    """A field of directions on a mesh with n vertices and m faces.

    Parameters
    ----------
    vectors : (n, 3) float64
        A unit vector along one direction at each vertex; the others follow by turns of 2 pi / power. 0 at
        vertices without faces, and in components whose faces have no area.
    powers : (n,) complex128
        The power of the direction in the frame of each vertex. An eigenvector has squared norm 1 in the masses of each component.
        A field with ``fixed`` has absolute value 1 at these vertices, one with ``align`` is close to the powers of its vectors.
    frames : (n, 2, 3) float64
        Frames at the vertices.
    index : (m,) int64
        Index of the singularity in each face, in units of 1 / power; 0 in most faces. On a closed mesh their sum is power times
        the Euler characteristic.
    energy : float
        Sum of the smallest eigenvalues of all components, 1 / squared unit of length; with ``fixed`` the Dirichlet energy; with
        ``align`` also the weighted squared differences.
    """

    vectors: Array
    powers: Array
    frames: Array
    index: Array
    energy: float


@takes_arrays
def direction_field(mesh: MeshLike, power: int = 1, *, fixed: tuple[ArrayLike, ArrayLike] | None = None,
                    align: Literal["curvature"] | ArrayLike | None = None, strength: float = 10.0, seed: int = 0,
                    device: Device = "auto", threads: int | None = None) -> DirectionField:
    """Compute the smoothest field of ``power`` directions at each vertex.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        With n vertices; manifold, with faces that are oriented alike. Boundaries and several components are allowed.
    power : int
        1: vectors. 2: lines. 4: crosses.
    fixed : (vertices (f,), vectors (f, 3)), optional
        Prescribed directions, at least one on each component. Lengths and components orthogonal to the surface have no effect.
        The boundary with its tangents makes a field that follows the boundary.
    align : "curvature" or (n, 3) array_like, optional
        Preferred directions. A vector counts by its length relative to the others; 0 has no preference. ``"curvature"``: along the
        principal curvatures, which count by their difference; ``power`` must be even. Each component needs a direction.
    strength : float
        How closely the field follows ``align``. Details are smoothed up to about R / sqrt(strength), where R is the radius of a
        sphere of the same area as the component.
    seed, device, threads
        As in :func:`meshsolve.eigsh`, which computes pairs for each component without ``fixed`` and ``align``, and
        :func:`meshsolve.cholesky`.

    Returns
    -------
    DirectionField

    Raises
    ------
    InvalidInputError
        Not a mesh, no faces, an edge or a vertex that is not manifold, faces that are not oriented alike (names the edge).
        ``power`` outside 1..100, or odd with curvatures. ``fixed`` with a vertex outside the mesh or twice, with a vector that is
        NaN or orthogonal to the surface (names it). ``align`` of another shape or with NaN. A component without a direction.

    Warns
    -----
    ConvergenceWarning
        As :func:`meshsolve.eigsh`.

    Notes
    -----
    A Cholesky factor of 2 n rows and about 30 blocks of 8 solves. The seed decides between equally smooth fields of a symmetric shape.

    Examples
    --------
    >>> import meshsolve as ms
    >>> field = ms.apps.direction_field(ms.datasets.icosphere(3), power=4)
    >>> int(field.index.sum()), int((field.index != 0).sum())
    (8, 8)
    """
    mesh, power, seed = require_width(checked_mesh(mesh)), as_integer(power, "power", 1, MOST_POWER), as_seed(seed)
    if len(mesh.faces) == 0:
        raise InvalidInputError("the mesh has no faces: direction_field needs a surface")
    connection = Connection.intrinsic(mesh)
    strength, options = as_number(strength, "strength", above=True), {"device": device, "threads": threads}
    powers, energy = (_smoothest(mesh, connection, power, seed, options) if fixed is None and align is None
                      else _guided(mesh, connection, power, fixed, align, strength, options))
    vectors = connection.planes.vectors(np.where(powers == 0, 0, np.exp(1j * np.angle(powers) / power)))
    return DirectionField(vectors, powers, connection.planes.frames, _indices(mesh, powers, power), energy)


def _smoothest(mesh, connection, power, seed, options):
    """(powers, energy) of the smoothest field on each component."""
    L, masses, energy = connection.laplacian(power), connection.masses, 0.0
    powers, flat = np.zeros(len(masses), complex), without_shape(mesh)
    for rows in np.split(np.argsort(mesh.components, kind="stable"), np.cumsum(np.bincount(mesh.components))[:-1]):
        if len(rows) == 1 or flat[rows[0]]:                         # a vertex without faces, or a component without area
            continue
        A, M = real_form(L[rows][:, rows]), sp.diags_array(masses[rows].repeat(2))
        w, X, _ = eigsh(A, min(PAIRS, 2 * len(rows) - 2), M=M, count=False, seed=seed, **options)
        u = to_host(X)[:, 0]
        powers[rows], energy = u[::2] + 1j * u[1::2], energy + float(w[0])
    return powers, energy


def _guided(mesh, connection, power, fixed, align, strength, options):
    """(powers, energy) of the field with prescribed and preferred directions, which are checked."""
    vertices, z = (np.zeros(0, np.int32), np.zeros(0, complex)) if fixed is None else _checked(connection.planes, fixed)
    flat = without_shape(mesh)
    wanted = np.zeros(len(mesh.vertices), complex) if align is None else _preferred(mesh, connection.planes, align, power, flat)
    if flat[vertices].any():
        raise InvalidInputError(f"vertex {vertices[flat[vertices]][0]} of fixed is in a component whose faces have no area: leave it out")
    _require_directions(mesh, flat | (wanted != 0) | np.isin(np.arange(len(wanted)), vertices), align)
    weight = 0.0 if align is None else strength * 4 * np.pi / _areas(mesh)
    return _prescribed(connection, power, vertices, z, weight, wanted, flat, options)


def _checked(planes, fixed):
    """(vertices, unit complex numbers in their frames) of prescribed directions."""
    if not isinstance(fixed, tuple) or len(fixed) != 2:
        raise InvalidInputError(f"fixed must be a tuple (vertices (f,), vectors (f, 3)), got {shown(fixed)}")
    vertices, vectors = as_indices(fixed[0], len(planes.frames)), np.asarray(fixed[1], dtype=np.float64)
    if vectors.shape != (len(vertices), 3):
        raise InvalidInputError(f"vectors of fixed must be ({len(vertices)}, 3), a row for each vertex, "
                                f"got shape {vectors.shape}")
    x, y = np.einsum("sc,skc->ks", np.where(np.isfinite(vectors), vectors, 0), planes.frames[vertices])
    z = unit(x + 1j * y)
    bad = (z == 0) | ~np.isfinite(vectors).all(axis=1)
    if bad.any():
        k = int(bad.argmax())
        raise InvalidInputError(f"vector {k} of fixed must be finite and have a part along the surface at vertex {vertices[k]}, "
                                f"got {vectors[k].tolist()}")
    return vertices, z


def _preferred(mesh, planes, align, power, flat):
    """(n,) powers of the preferred directions, with a largest absolute value of 1."""
    if isinstance(align, str):
        one_of(align, "align", ("curvature",))
        if power % 2:
            raise InvalidInputError(f'align="curvature" needs an even power: principal directions have no sign, got power {power}')
        found = curvatures(mesh)
        difference = found.principal[:, 0] - found.principal[:, 1]
        vectors = found.directions[:, 0] * (difference * np.sqrt(_areas(mesh)))[:, None]         # without a unit, in each component
    else:
        vectors = np.asarray(as_array(align, "align"))
        if vectors.shape != (len(mesh.vertices), 3) or vectors.dtype.kind not in "biuf" or not np.isfinite(vectors).all():
            raise InvalidInputError(f'align must be "curvature" or ({len(mesh.vertices)}, 3) finite numbers, a vector for each vertex, '
                                    f"got {vectors.dtype} of shape {vectors.shape}")
    z = np.where(flat, 0, np.einsum("nc,nkc->kn", vectors, planes.frames))
    size = np.hypot(*z)
    return size / max(size.max(), np.finfo(float).tiny) * unit(z[0] + 1j * z[1])**power


def _areas(mesh):
    """(n,) area of each vertex' component, 1 without area."""
    area = component_sums(mesh.face_areas, mesh.components[mesh.faces[:, 0]], int(mesh.components.max()) + 1)
    return np.where(area > 0, area, 1)[mesh.components]


def _require_directions(mesh, has, align):
    """Raise if a component with faces has no vertex where ``has`` is True."""
    reached = np.isin(mesh.components, mesh.components[has])[mesh.faces[:, 0]]
    if not reached.all():
        given = "fixed must have a vertex" if align is None else "align must have a vector along the surface"
        raise InvalidInputError(f"{given} on each component of the mesh; the component of vertex "
                                f"{mesh.faces[reached.argmin(), 0]} has none")


def _prescribed(connection, power, vertices, z, weight, wanted, flat, options):
    """(powers, energy) of the smoothest field with prescribed directions; ``weight`` times the mass counts the squared differences from
    ``wanted``; (n,) both."""
    L, mass = connection.laplacian(power), weight * connection.masses
    rows = np.stack([2 * vertices, 2 * vertices + 1], axis=1).ravel()
    factor = cholesky(real_form(with_units(L + sp.diags_array(mass), flat)), fixed=rows if len(rows) else None, **options)
    held = {"fixed_values": (z**power).view(np.float64)} if len(rows) else {}
    powers = factor.solve((mass * wanted).view(np.float64), **held).view(np.complex128)
    return powers, float((powers.conj() @ (L @ powers)).real + mass @ abs(powers - wanted) ** 2)


def _indices(mesh, powers, power):
    """(m,) turns of the power around each face, relative to parallel transport, with the curvature of the face."""
    of_sides = Connection.of_mesh(mesh)
    turns = of_sides.turns[mesh.side_edges]
    ascends = of_sides.tails[mesh.side_edges] == mesh.faces
    turns = np.where(ascends, turns, turns.conj())
    u = np.where(powers == 0, 1, unit(powers))[mesh.faces]         # 1 where the field vanishes
    change = np.angle(np.roll(u, -1, axis=1) * (turns**power * u).conj()).sum(axis=1)
    planes = of_sides.planes
    curvature = (planes.scale[mesh.faces] * planes.corners).sum(axis=1) - np.pi       # of the product of turns only known up to 2 pi
    return np.rint((change + power * curvature) / (2 * np.pi)).astype(np.int64)
