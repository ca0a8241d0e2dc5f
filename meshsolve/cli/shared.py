"""Steps that several commands share: the input mesh with its checks, all outputs together, the printed report."""

from __future__ import annotations

import contextlib

from meshsolve.cli import files
from meshsolve.files import written_whole


def load_input_mesh(args, check_format=files.check_mesh_format):
    """Check the output paths of a command on a mesh, and read the mesh. Only ``args.output`` may replace it."""
    from meshsolve.mesh import load_mesh

    files.check_outputs(args.output, args.render, args.report)
    files.check_outputs(args.render, args.report, inputs=(args.mesh,))
    check_format(args.output)
    files.check_picture_format(args.render)
    files.refuse_netlist(args.mesh)
    return load_mesh(args.mesh)


def finish(args, report, write, draw):
    """Write the output by ``write(path)``, the picture by ``draw(path)`` and the report, all or none of them; print the report."""
    with outputs(args.output, args.render, args.report) as (output_part, picture_part, report_part):
        write(output_part)
        if picture_part:
            draw(picture_part)
        files.write_report(report_part, report)
    show(args, str(report))


def finish_pair(args, before, after, report, title):
    """Write the mesh ``after``, a picture of both meshes and the report."""
    from meshsolve.apps.render import render

    finish(args, report, after.save, lambda path: render(path, before, after, title=title))


@contextlib.contextmanager
def outputs(*paths):
    """Yield temporary files that replace ``paths`` together if the block succeeds; None stays None."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(written_whole(path)) if path else None for path in paths]


def show(args, text):
    """Print text, unless ``--quiet`` is given."""
    if not args.quiet:
        print(text)
