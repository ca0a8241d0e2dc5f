"""The tasks of ``meshsolve batch``: pipelines that workers can import. Each writes its files into a folder and returns numbers."""

from __future__ import annotations

import pathlib

import numpy as np

from meshsolve.files import written_whole


def smooth(mesh, path, folder, strength, boundary="fixed"):
    """Smooth the mesh and save it under its name."""
    from meshsolve import apps

    out, report = apps.smooth(mesh, strength, boundary=boundary)
    out.save(folder / saved_as(path))
    names = ("volume_before", "volume_after", "area_before", "area_after")
    return sizes(mesh) | {name: report.facts[name] for name in names if name in report.facts}


def spectrum(mesh, path, folder, count):
    """Compute the smallest eigenvalues of the cotangent Laplacian and save them with the eigenfunctions, ``NAME.ply.npz``."""
    from meshsolve.eigen import eigsh
    from meshsolve.operators import cotan_laplacian, mass_matrix

    w, X, info = eigsh(cotan_laplacian(mesh), count, M=mass_matrix(mesh))
    save(folder, path, values=w, vectors=X, residuals=info.residuals)
    return sizes(mesh) | {"eigenvalues": w, "converged": info.converged}


def geodesics(mesh, path, folder, source):
    """Compute the distances of all vertices from one, and save them, ``NAME.ply.npz``."""
    from meshsolve import apps

    distances = apps.Geodesics(mesh).distance([source])
    save(folder, path, distances=distances)
    reached = np.isfinite(distances)
    return sizes(mesh) | {"largest_distance": distances[reached].max(), "unreachable": int(np.count_nonzero(~reached))}


TASKS = {"smooth": smooth, "spectrum": spectrum, "geodesics": geodesics}


def save(folder, path, **arrays):
    """Write arrays to ``NAME.ply.npz``."""
    with written_whole(folder / f"{pathlib.PurePath(path).name}.npz") as part:
        np.savez(part, **arrays)


def sizes(mesh):
    """Return the numbers of vertices and faces."""
    return {"vertices": len(mesh.vertices), "faces": len(mesh.faces)}


def saved_as(path):
    """Return the name of an output mesh: that of the input, with .ply behind it if its format is only read."""
    name = pathlib.PurePath(path).name
    return f"{name}.ply" if ".gltf" in name.lower() else name
