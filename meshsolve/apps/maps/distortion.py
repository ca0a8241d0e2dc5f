"""How far a map of a surface to the plane is from keeping angles and areas.

The linear map of each face has singular values s1 >= s2: it keeps angles where s1 = s2, and areas where s1 s2 is the same for all faces.
Source: Sander, Snyder, Gortler, Hoppe 2001, section 3. Cost: O(faces).
"""

from __future__ import annotations

import numpy as np

from meshsolve.mesh.measures import flattened_faces, map_jacobians


def stretches(mesh, uv):
    """(m, 2) singular values of the map of each face, the larger one first; NaN for faces of zero area."""
    with np.errstate(divide="ignore", invalid="ignore"):
        J = map_jacobians(flattened_faces(mesh.vertices, mesh.faces), mesh.faces, uv)
        J[:, ~np.isfinite(J).all(axis=0)] = np.nan
        both, apart = np.hypot(J[0] + J[3], J[1] - J[2]), np.hypot(J[0] - J[3], J[1] + J[2])       # s1 + s2 and s1 - s2, or swapped
    return np.stack([both + apart, np.abs(both - apart)], axis=1) / 2


def distortion(mesh, uv):
    """Means over the surface, and largest values, of two ratios that are 1 if nothing is distorted.

    Returns
    -------
    dict of str to float
        ``angle_distortion`` and ``largest_angle_distortion``: s1 / s2 of a face. ``area_distortion`` and ``largest_area_distortion``:
        s1 s2 over its mean, or the mean over s1 s2, whichever is larger. Faces that are mapped to a line are left out.
    """
    s, area = stretches(mesh, uv), mesh.face_areas
    kept = (area > 0) & (s[:, 1] > 0)
    if not kept.any():
        return {}
    s, area = s[kept], area[kept]
    scale = s.prod(axis=1) / np.average(s.prod(axis=1), weights=area)
    found = {"angle_distortion": s[:, 0] / s[:, 1], "area_distortion": np.maximum(scale, 1 / scale)}
    means = {name: float(np.average(ratio, weights=area)) for name, ratio in found.items()}
    return means | {f"largest_{name}": float(ratio.max()) for name, ratio in found.items()}
