"""The bi-Laplacian L M^-1 L, whose energy is the squared mean curvature of a displacement: for weights and deformations of least bending.

Its entries are products of two weights of L. The largest weights that L may have would leave no digits to the others. So elements are
mollified more, by the rules of :mod:`meshsolve.mesh.elements` and :mod:`meshsolve.mesh.flat_cells` with ``FLATTEST`` = 1e-3. Masses
are those of the mollified shapes, so each vertex of a face or cell has a mass.

Source: Jacobson, Tosun, Sorkine, Zorin 2010, "Mixed finite elements for variational surface modeling". O(sum of squared degrees).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.mesh import elements
from meshsolve.mesh.tets import TetMesh
from meshsolve.operators import CotanAssembler, tets
from meshsolve.options import thread_count

FLATTEST = 1e-3         # largest doubled area (volume, times 6) of a degenerate element here: squared weights are at most 1e6


def bending(mesh):
    """Assemble L M^-1 L (n, n) of a Mesh or TetMesh as csr_array, exactly symmetric. Rows of vertices without elements are 0."""
    if isinstance(mesh, TetMesh):
        L, mass = tets.laplacian(mesh, FLATTEST), tets.lumped_mass(mesh, FLATTEST)
    else:
        rows = CotanAssembler(mesh, FLATTEST)
        L, mass = rows.matrix(rows.values(mesh.vertices)[0]), _masses(mesh)
    A = L @ sp.diags_array(1 / np.where(mass > 0, mass, 1)) @ L
    return sp.csr_array(0.5 * (A + A.T))


def _masses(mesh):
    """(n,) a third of the mollified area of each face at each of its corners."""
    areas = elements.mollified_areas(mesh.vertices, mesh.faces, mesh.face_areas, FLATTEST)
    return _core.vertex_areas(mesh.faces.reshape(-1), areas, len(mesh.vertices), thread_count())
