"""Defaults of smoothing on many meshes: what is kept, what moves, what is flipped, what is warned of.

    python -m benchmarks.smoothing FOLDER [--only NAME ...] [--pictures DIR]

FOLDER holds mesh files. One row for each mesh and call: fractions of the area and of the volume that are left, the largest move relative
to the diagonal of the box, flipped faces, the share of the area in faces that shrank by 90 %, and the warning or error.
"""

from __future__ import annotations

import argparse
import pathlib
import warnings

import numpy as np

import meshsolve as ms
from meshsolve.mesh.measures import area_vectors

CALLS = {
    "smooth(mesh)": ms.apps.smooth,
    "smooth(mesh, 1)": lambda mesh: ms.apps.smooth(mesh, 1),
    "smooth(mesh, 1, 1), free": lambda mesh: ms.apps.smooth(mesh, 1, 1, boundary="free"),
    "mcf(mesh)": ms.apps.mcf,
    "mcf(mesh, steps=2)": lambda mesh: ms.apps.mcf(mesh, steps=2),
    "denoise(mesh)": ms.apps.denoise,
}


def measured(before, after):
    """Numbers that compare two meshes of the same faces."""
    vectors = [area_vectors(mesh.vertices, mesh.faces) for mesh in (before, after)]
    areas = [np.linalg.norm(v, axis=1) for v in vectors]
    box = np.linalg.norm(np.ptp(before.vertices[before.faces].reshape(-1, 3), axis=0))
    closed = len(before.boundary_edges) == 0 and before.volume != 0
    return {"area": areas[1].sum() / areas[0].sum(), "volume": after.volume / before.volume if closed else np.nan,
            "move": np.linalg.norm(after.vertices - before.vertices, axis=1).max() / box,
            "flipped": int(((vectors[0] * vectors[1]).sum(axis=1) < 0).sum()),
            "lost": areas[0][areas[1] < 0.1 * areas[0]].sum() / areas[0].sum()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", nargs="*", help="parts of file names")
    parser.add_argument("--pictures", type=pathlib.Path, help="folder of pictures, one for each mesh and call")
    given = parser.parse_args()
    print(f"{'mesh':<34} {'call':<24} {'area':>6} {'volume':>7} {'move':>7} {'flipped':>8} {'lost':>6}  warning")
    for path in sorted(given.folder.iterdir()):
        if given.only and not any(name in path.name for name in given.only):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mesh = ms.load_mesh(path)
        for call, function in CALLS.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    after, _ = function(mesh)
                except ms.MeshsolveError as e:
                    print(f"{path.name[:33]:<34} {call:<24} {e}", flush=True)
                    continue
            row = measured(mesh, after)
            print(f"{path.name[:33]:<34} {call:<24} {row['area']:6.1%} {row['volume']:7.1%} {row['move']:7.2%} {row['flipped']:>8,} "
                  f"{row['lost']:6.1%}  {'; '.join(str(w.message) for w in caught)}", flush=True)
            if given.pictures:
                name = f"{path.name.split('.')[0]} {call}".replace("(mesh", "").replace(")", "").replace(", ", "-").replace(" ", "-")
                ms.apps.render(given.pictures / f"{name}.png", mesh, after, title=f"{path.name}: {call}")


if __name__ == "__main__":
    main()
