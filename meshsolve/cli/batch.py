"""The command batch: one task on every mesh of a folder."""

from __future__ import annotations

import functools

from meshsolve.cli import files
from meshsolve.errors import InvalidInputError, MeshsolveError
from meshsolve.files import as_path
from meshsolve.options import counted


def run_batch(args):
    """Run one task on every mesh of a folder, each core on another mesh.

    A mesh that cannot be read or processed costs its own result only: it is listed at the end, and the exit code is 1. A later run into
    the same folder computes the meshes that are missing. More than one process needs Dask: pip install "meshsolve[batch]".
    """
    from meshsolve import batch
    from meshsolve.batch.tasks import TASKS

    folder, out = as_path(args.folder), as_path(args.output)
    if out.exists() and not out.is_dir():
        raise InvalidInputError(f"{out}: this is a file; the output of batch is a folder")
    if files.resolved(folder) == files.resolved(out):
        raise InvalidInputError(f"{out}: this is the input folder; give another folder for the output")
    smoothing = {"strength": args.strength} | ({"boundary": args.boundary} if args.boundary != "fixed" else {})
    options = {"smooth": smoothing, "spectrum": {"count": args.count}, "geodesics": {"source": args.source}}[args.do]
    names = batch.names_of(folder)
    out.mkdir(exist_ok=True)
    table = batch.meshes(names, functools.partial(TASKS[args.do], folder=out, **options), False if args.threads == 1 else args.threads,
                         out=out / "rows.jsonl", again=args.again)
    if not args.quiet:
        print(f"{counted(len(table), 'mesh')}, {len(table.failed)} failed; results in {out}")
    if table.failed:
        raise MeshsolveError("; ".join(f"{row['path']}: {row['error']}" for row in table.failed))
