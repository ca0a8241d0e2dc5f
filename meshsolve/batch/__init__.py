"""One pipeline on many meshes: no mesh is lost, none stops the run, and a run that ends early goes on where it stopped.

    table = meshsolve.batch.meshes("scans/", pipeline, out="volumes.jsonl")       # a row for each file
    table.failed                                                                  # rows with an error

Dask schedules the meshes (``pip install "meshsolve[batch]"``): on the cores of this machine, or on the cluster of a given ``Client``.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable
from typing import Any, Literal

from meshsolve.batch import cluster, rows
from meshsolve.batch.rows import Table
from meshsolve.errors import InvalidInputError
from meshsolve.files import as_path
from meshsolve.mesh.files import READABLE
from meshsolve.options import as_integer, one_of
from meshsolve.report import Report, count
from meshsolve.types import Path

__all__ = ["Table", "meshes"]


def __dir__() -> list[str]:
    return __all__


AGAIN = ("errors", "none", "all")


def meshes(paths: Path | Iterable[Path], pipeline: Callable[[Any], dict[str, Any]], client: Any = None, out: Path | None = None, *,
           retries: int = 0, again: Literal["errors", "none", "all"] = "errors") -> Table:
    """Run a pipeline on many mesh files, in parallel.

    Parameters
    ----------
    paths : folder, or iterable of paths
        Mesh files. Of a folder, but not of those inside: all that :func:`meshsolve.load_mesh` reads, except names that begin with a dot.
    pipeline : function of a Mesh, or of a Mesh and its path
        Returns a dict of numbers, strings, arrays, lists. Other processes must be able to import what it uses. It runs in worker
        processes, each with one thread, and may not start processes itself. With ``client=False`` any function is called as it is.
    client : distributed.Client, int or False, optional
        The cluster to use, or the number of worker processes on this machine, which end with the call; by default one for each core.
        ``False``: no other process, one mesh after the other. On workers of a given client, meshsolve uses one thread unless
        their environment has ``MESHSOLVE_NUM_THREADS``.
    out : path of a .jsonl file, optional
        Each row is appended when its mesh is done. A later call with the same file goes on and skips the paths that have a row. It
        computes a mesh again that has changed, or for which a file that meshsolve wrote is gone or has changed.
    retries : int
        A mesh whose worker died (no memory, a crash) is tried again at the end, alone: once, and ``retries`` times more.
    again : {"errors", "none", "all"}
        Which rows of an existing ``out`` are computed again: those with an error or a changed file, none, or all.

    Returns
    -------
    Table
        A dict for each path, in the order of ``paths``: ``path``, the items of the pipeline's dict, ``error`` (None, or "Class:
        message"), ``seconds``, ``worker``. ``table.failed`` has those with an error.

    Raises
    ------
    InvalidInputError
        No mesh file; a path given twice; a bad ``retries`` or ``again``; Dask is not installed. ``pipeline`` cannot be called or sent to
        other processes. ``out`` has rows of another pipeline.

    Notes
    -----
    A file that cannot be read, a pipeline that raises, a worker that dies: each becomes a row with an error. After Ctrl-C the rows that
    are done are in ``out``. Progress: phase ``"meshes"``. Call it from a script inside ``if __name__ == "__main__":``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import meshsolve as ms
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for k in range(3): ms.datasets.icosphere(k).save(folder / f"{k}.ply")
    >>> table = ms.batch.meshes(folder, lambda mesh: {"volume": mesh.volume}, client=False)
    >>> [round(row["volume"], 2) for row in table]
    [2.54, 3.66, 4.05]
    """
    one_of(again, "again", AGAIN)
    names, task = names_of(paths), rows.Task.of(pipeline, is_sent=client is not False, is_kept=out is not None)
    retries, report = as_integer(retries, "retries", least=0), Report()
    with rows.Kept.of(out, task.identity, again) as kept, report.phase("meshes"):
        missing = [name for name in names if name not in kept.rows]
        found = cluster.here(missing, task) if client is False else cluster.on_dask(missing, task, client, retries)
        for done, row in enumerate(found, len(names) - len(missing) + 1):
            kept.add(row)
            count(done, len(names))
        return Table([kept.rows[name] for name in names], report)


def names_of(paths):
    """Return the paths as strings, checked: at least one, none twice."""
    if isinstance(paths, (str, os.PathLike)):
        folder = as_path(paths)
        if not folder.is_dir():
            raise InvalidInputError(f"{folder}: no such folder. For one file pass [path]")
        found = sorted(path for path in folder.iterdir() if is_mesh_file(path) and path.is_file() and not path.name.startswith("."))
        if not found:
            raise InvalidInputError(f"{folder}: the folder has no mesh file ({', '.join(READABLE)}, each also with .gz)")
        return [str(path) for path in found]
    try:
        names = [str(as_path(path)) for path in paths]
    except TypeError as e:
        raise InvalidInputError(f"paths must be a folder or a list of paths, got {type(paths).__name__}") from e
    if not names:
        raise InvalidInputError("paths has no mesh file")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInputError(f"{name} is in paths twice")
        seen.add(name)
    return names


def is_mesh_file(path):
    """True if the ending is that of a mesh format."""
    return pathlib.PurePath(path.name.lower().removesuffix(".gz")).suffix in READABLE
