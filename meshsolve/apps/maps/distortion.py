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


def face_distortions(mesh, uv):
    """Two ratios of each face that are 1 if nothing is distorted.

    Returns
    -------
    dict of str to (m,) float64
        ``angle_distortion``: s1 / s2. ``area_distortion``: s1 s2 over its mean, or the mean over s1 s2, whichever is larger. NaN for faces
        of zero area, and for faces that are mapped to a line.
    """
    s, area = stretches(mesh, uv), mesh.face_areas
    kept = (area > 0) & (s[:, 1] > 0)
    both = np.full((2, len(area)), np.nan)
    if kept.any():
        s = s[kept]
        scale = s.prod(axis=1) / np.average(s.prod(axis=1), weights=area[kept])
        both[:, kept] = s[:, 0] / s[:, 1], np.maximum(scale, 1 / scale)
    return {"angle_distortion": both[0], "area_distortion": both[1]}


def distortion(mesh, uv):
    """Means over the surface, and largest values, of the ratios of :func:`face_distortions`.

    Returns
    -------
    dict of str to float
        ``angle_distortion``, ``largest_angle_distortion``, ``area_distortion`` and ``largest_area_distortion``; empty if every face has
        zero area or is mapped to a line.
    """
    found = face_distortions(mesh, uv)
    kept = ~np.isnan(found["angle_distortion"])
    if not kept.any():
        return {}
    found, area = {name: ratio[kept] for name, ratio in found.items()}, mesh.face_areas[kept]
    means = {name: float(np.average(ratio, weights=area)) for name, ratio in found.items()}
    return means | {f"largest_{name}": float(ratio.max()) for name, ratio in found.items()}
