"""Views of the shape itself: curvatures and normals, computed from the current vertices."""

from __future__ import annotations

import numpy as np

from meshsolve.apps.viewer.coloring import Coloring, signed_limits
from meshsolve.mesh.measures import vertex_normals
from meshsolve.operators import curvatures

VIEWS = ("mean curvature", "Gaussian curvature", "normals")


def view(name, mesh):
    """Return the :class:`Coloring` of one of ``VIEWS`` on a mesh."""
    if name == "normals":
        normals = vertex_normals(mesh.vertices, mesh.faces)
        return Coloring(name, (1 + normals) / 2, caption="unit normals: red, green and blue are the components x, y and z, from -1 to 1")
    found = curvatures(mesh)
    whole, unit = ((found.mean, "1 / length; red: as on a ball seen from outside") if name == "mean curvature" else
                   (found.gaussian, "1 / length^2; red: as on a ball, blue: as on a saddle"))
    values = np.divide(whole, found.areas, out=np.zeros_like(whole), where=found.areas > 0)
    low, high = signed_limits(values)
    return Coloring(name, values, caption=f"{name}, colors from {low:.3g} to {high:.3g} {unit}", colormap="coolwarm", limits=(low, high))
