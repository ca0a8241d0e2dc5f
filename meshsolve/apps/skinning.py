"""Bounded biharmonic weights: how far each vertex follows each handle.

Each column minimizes w^T L M^-1 L w with w = 1 at its handle, 0 at the others and 0 <= w <= 1; rows are then divided by their sums.
Coupled weights minimize the sum over all columns, with rows that sum to 1 as equalities.

Source: Jacobson, Baran, Popovic, Sorkine 2011. Cost: one analysis, and 10 to 30 refactorizations of the bi-Laplacian for each handle.
Coupled: 10 to 60 refactorizations of one matrix with h n rows and n equalities.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from meshsolve.api.quadratic import Quadratic
from meshsolve.apps.deformation import checked_handles
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import MeshLike, checked_mesh, takes_arrays
from meshsolve.mesh.checks import require_width
from meshsolve.mesh.tets import TetMesh
from meshsolve.operators.bending import bending as bi_laplacian
from meshsolve.options import one_of
from meshsolve.types import Array, ArrayLike, Device


@takes_arrays
def skinning_weights(mesh: MeshLike, handles: ArrayLike, *, partition: Literal["divide", "couple"] | None = "divide",
                     device: Device = "auto", threads: int | None = None) -> Array:
    """Compute weights that blend the motions of handles over a surface.

    Parameters
    ----------
    mesh : Mesh, TetMesh, trimesh.Trimesh or meshio.Mesh
        With n vertices, each in a face or cell. In a solid weights spread through the inside, not along the surface.
    handles : (h,) integers or (n,) bool
        Vertices; each component of the mesh needs one.
    partition : {"divide", "couple"} or None
        How rows get the sum 1. ``"divide"``: by division at the end. ``"couple"``: as equalities of one problem, which bends least among
        all such weights but costs more. None: rows need not sum to 1.
    device, threads : as in :class:`meshsolve.Quadratic`

    Returns
    -------
    (n, h) float64
        In [0, 1]; rows sum to 1 unless ``partition=None``; exactly 1 and 0 at handles.

    Raises
    ------
    InvalidInputError
        No handle, all vertices, a handle outside the mesh or twice. A component without a handle, or a vertex without faces (names the
        vertex). Another ``partition``.
    DeviceUnavailableError
        ``device="cuda"`` without a GPU.

    Warns
    -----
    ConvergenceWarning
        A column is not optimal to 1e-9.

    Examples
    --------
    >>> import meshsolve as ms
    >>> W = ms.apps.skinning_weights(ms.datasets.icosphere(2), [0, 3])
    >>> W.shape, bool(abs(W.sum(axis=1) - 1).max() < 1e-9)
    ((162, 2), True)
    """
    mesh = require_width(mesh if isinstance(mesh, TetMesh) else checked_mesh(mesh))
    chosen = checked_handles(mesh, handles)
    if partition is not None:
        one_of(partition, "partition", ("divide", "couple"))
    if len(chosen) == len(mesh.vertices):
        raise InvalidInputError("handles must leave a vertex free, got all of them")
    lonely = np.ones(len(mesh.vertices), bool)
    lonely[mesh.cells if isinstance(mesh, TetMesh) else mesh.faces] = False
    if lonely.any():
        raise InvalidInputError(f"each vertex must have a face or cell, vertex {int(lonely.argmax())} has none: leave it out")
    bending = bi_laplacian(mesh)
    if partition == "couple":
        return _coupled(bending, chosen, device, threads)
    W = _alone(bending, chosen, device, threads)
    if partition is None:
        return W
    total = W.sum(axis=1, keepdims=True)
    if (total <= 0).any():
        raise InvalidInputError(f"no handle reaches vertex {int((total[:, 0] <= 0).argmax())}: add one near it")
    return W / total


def _alone(bending, chosen, device, threads):
    """(n, h) weights of least bending in [0, 1], each column alone."""
    quadratic = Quadratic(bending, fixed=chosen, device=device, threads=threads)
    quadratic.is_known_convex, h = True, len(chosen)        # a product B^T B
    return quadratic.minimize(np.zeros((bending.shape[0], h)), fixed_values=np.eye(h), lower=0.0, upper=1.0)[0]


def _coupled(bending, chosen, device, threads):
    """(n, h) weights of least total bending among those that are not negative and whose rows sum to 1; column c has rows c n, ..."""
    n, h = bending.shape[0], len(chosen)
    free = np.delete(np.arange(n), chosen)
    sums = sp.hstack([sp.eye_array(n, format="csr")[free]] * h, format="csr")
    held = (chosen + n * np.arange(h)[:, None]).ravel()
    quadratic = Quadratic(sp.block_diag([bending] * h, format="csr"), fixed=held, Aeq=sums, device=device, threads=threads)
    quadratic.is_known_convex = True
    w, _ = quadratic.minimize(np.zeros(n * h), fixed_values=np.eye(h).ravel(), beq=np.ones(len(free)), lower=0.0)
    return w.reshape(h, n).T
