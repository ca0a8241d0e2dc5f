"""Commands on several meshes, one after the other, into a folder."""

from __future__ import annotations

import glob
import os
import pathlib

from meshsolve.errors import InvalidInputError, MeshsolveError
from meshsolve.files import as_path, resolved
from meshsolve.mesh.files import WRITABLE
from meshsolve.options import counted

SUFFIXES = {"spectrum": ".npz", "geodesics": ".ply", "param": ".obj"}         # of results in a folder; other commands keep the format


def run_each(args, print_error):
    """Run the command of ``args`` on each of ``args.mesh``; ``print_error(text)`` reports one that fails, and the others go on.

    Raises
    ------
    InvalidInputError
        A pattern without a file, an output that is no folder, two results of one name.
    MeshsolveError
        At the end, if a mesh failed.
    """
    meshes = expanded(args.mesh)
    if len(meshes) == 1 and not any(is_folder(path) for path in (args.output, args.render, args.report)):
        args.mesh = meshes[0]
        args.run(args)
        return
    outputs = {name: names_in(getattr(args, name), meshes, suffix, name)
               for name, suffix in (("output", SUFFIXES.get(args.command)), ("render", ".png"), ("report", ".json"))}
    for folder in (args.output, args.render, args.report):
        if folder is not None:
            as_path(folder).mkdir(exist_ok=True)
    failed = 0
    for k, mesh in enumerate(meshes):
        args.mesh = mesh
        for name, paths in outputs.items():
            setattr(args, name, paths[k])
        if not args.quiet and len(meshes) > 1:
            print(f"{mesh}:")
        try:
            args.run(args)
        except (MeshsolveError, OSError) as e:
            if len(meshes) == 1:
                raise
            print_error(f"error: {e}" if str(mesh) in str(e) else f"error: {mesh}: {e}")
            failed += 1
    if failed:
        raise MeshsolveError(f"{counted(failed, 'mesh')} of {len(meshes)} failed")


def expanded(paths):
    """Return the paths with patterns such as ``scans/*.ply`` or ``scans/**/*.ply`` expanded, which a quoted pattern and Windows leave to
    the program."""
    found = []
    for path in paths:
        matches = sorted(glob.glob(path, recursive=True)) if any(c in path for c in "*?[") and not os.path.exists(path) else [path]
        if not matches:
            raise InvalidInputError(f"{path}: no file matches this pattern")
        found += matches
    return found


def is_folder(path):
    """True for an existing folder, and for a name that ends with a slash."""
    return bool(path) and (str(path).endswith(("/", os.sep)) or os.path.isdir(path))


def names_in(folder, meshes, suffix, name):
    """Return the paths of the results in a folder; without a folder, None for each mesh."""
    if folder is None:
        return [None] * len(meshes)
    if not is_folder(folder):
        raise InvalidInputError(f"{folder}: several meshes need a folder for --{name}; write {folder}/ to make one")
    paths = [str(as_path(folder) / renamed(mesh, suffix)) for mesh in meshes]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice:
        raise InvalidInputError(f"{twice} would be the result of two meshes: run them apart")
    for mesh, path in zip(meshes, paths, strict=True):
        if resolved(as_path(mesh)) == resolved(as_path(path)):
            raise InvalidInputError(f"{path} would replace the mesh that it was made of: give another folder")
    return paths


def renamed(mesh, suffix):
    """Return the file name of a mesh with ``suffix``; without one, with its own suffix if meshes are written in that format."""
    name = pathlib.PurePath(mesh).name
    if suffix is None and name.lower().removesuffix(".gz").endswith(WRITABLE):
        return name
    return pathlib.PurePath(name.removesuffix(".gz")).stem + (suffix or ".ply")
