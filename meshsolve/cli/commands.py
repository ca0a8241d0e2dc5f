"""What each command does. Heavy imports stand inside the functions, so that --help is there at once."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile

from meshsolve.cli import files
from meshsolve.cli.describe import describe, describe_installation, sizes
from meshsolve.datasets.files import load_matrix
from meshsolve.errors import ConvergenceWarning, MeshsolveError
from meshsolve.files import written_whole
from meshsolve.report import without_warnings

RTOL = 1e-10                # relative residual of a solution


def run_mcf(args):
    """Smooth a mesh by mean curvature flow.

    Each step solves the equations (M + dt L) x' = M x for the new positions x' of the vertices; M is the mass matrix of the mesh,
    L its Laplacian. The flow shrinks the surface, thin parts first; to remove noise and keep the shape, use meshsolve smooth
    --order 2.
    """
    from meshsolve import apps, device

    mesh = _load_mesh(args)
    place = device.choose(args.device, len(mesh.vertices))
    counts = args.label and args.steps > 1 and place == "cpu"          # a callback would bring each step's mesh back from a GPU
    with files.naming(args.mesh):
        out, report = apps.mcf(mesh, steps=args.steps, dt=args.dt, conformal=args.conformal, precision=args.precision,
                               callback=(lambda step, _: args.label(f"step {step + 1}/{args.steps} ")) if counts else None,
                               device=place, threads=args.threads)
    flow = "conformalized mean curvature flow" if args.conformal else "mean curvature flow"
    _finish(args, mesh, out, report, f"{flow}, {args.steps} step{'s' * (args.steps > 1)}")


def run_smooth(args):
    """Smooth a mesh in one step.

    The strength does not depend on the units of the file. Vertices that belong to no face stay where they are.
    """
    from meshsolve import apps

    mesh = _load_mesh(args)
    with files.naming(args.mesh):
        out, report = apps.smooth(mesh, args.strength, order=args.order, precision=args.precision, device=args.device,
                                  threads=args.threads)
    kind = "Laplacian" if args.order == 1 else "bi-Laplacian"
    _finish(args, mesh, out, report, f"{kind} smoothing, strength {args.strength:g}")


def run_solve(args):
    """Solve the linear equations A x = b.

    If the relative residual |b - A x| / |b| of the solution stays above 1e-10, the file is written all the same, and the exit
    code is 1. Messages count rows and columns from 0.
    """
    from meshsolve import api

    files.check_outputs(args.output, args.report, inputs=(args.matrix, args.rhs))
    files.check_vector_format(args.output)
    files.refuse_netlist(args.matrix)
    A, b = load_matrix(args.matrix), files.read_vector(args.rhs)
    with without_warnings(ConvergenceWarning), files.naming(args.matrix, args.rhs):            # it is the error below
        x, info = api.solve(A, b, method=args.method, rtol=RTOL, threads=args.threads, device=args.device)
    if info.iterations:
        info.report.facts["iterations"] = info.iterations
    info.report.facts.update(relative_residual=info.relative_residual, converged=bool(info.converged))
    with _outputs(args.output, args.report) as (x_part, report_part):
        files.write_vector(x_part, x)
        files.write_report(report_part, info.report)
    _tell(args, str(info.report))
    if not info.converged:
        reason = f"b may not be in the range of A ({info.reason})" if info.method == "ildl" else info.reason
        raise MeshsolveError(f"{args.output}: this solution was written, but its relative residual is "
                             f"{info.relative_residual:.3g}, above {RTOL:g}: {reason}")


def run_order(args):
    """Order the rows of a matrix or the vertices of a mesh, so that its Cholesky factor has few entries.

    Prints how many entries the factor will have and how many operations it will take. Rows are counted from 0: line k of the file
    of --perm is the old number of the row that becomes row k, as in A[perm][:, perm].
    """
    from meshsolve import api

    files.check_outputs(args.perm, args.report, inputs=(args.input,))
    files.check_text_format(args.perm, "permutations are written as .txt or .npy", (".txt", ".npy"))
    if args.blocks:
        files.check_matrix_format(args.input, "--blocks")
    with files.naming(args.input, call="the matrix"):
        sym = api.analyze(files.read_pattern(args.input), args.method, seed=args.seed, threads=args.threads, device="cpu")
        table = _block_table(args) if args.blocks else None         # before anything is written: not every matrix has one
    sym.report.facts.update(supernodes=len(sym.supernodes) - 1, longest_column=int(sym.colcount.max()))
    with _outputs(args.perm, args.report) as (perm_part, report_part):
        files.write_perm(perm_part, sym.ordering.perm)
        files.write_report(report_part, sym.report)
    _tell(args, f"{args.method}: nnz(L) {sym.nnz:,}, flops {sym.flops:.4g}")
    if args.stats:
        print(sym.report)
    if table:
        print(table)


def _block_table(args):
    """Nonzero blocks and level sets of incomplete factors with tiles of ``--blocks`` rows, pairs of rows kept together."""
    from meshsolve.factor.ildl import blocks

    rows = blocks(load_matrix(args.input), args.blocks, args.threads)
    head = f"{'blocking':<9} {'ordering':<12} {'fill level':>10} {'tiles':>12} {'blocks':>14} {'level sets':>10}"
    lines = (f"{b:<9} {o:<12} {level:>10} {tiles:>12,} {count:>14,} {sets:>10,}" for b, o, level, tiles, count, sets in rows)
    return "\n".join([head, *lines])


def run_circuit(args):
    """Simulate a circuit of linear elements and diodes, given as a SPICE netlist, and print or write the results as a table.

    Runs the .tran, .ac, .dc or .op line of the netlist: the first of these that it has, or the operating point if it has none.
    The columns of the table are what its .print line names, or every node. There are no transistors, switches and transformers.
    """
    from meshsolve import apps

    files.check_outputs(args.output, args.plot, args.report, inputs=(args.deck,))
    files.check_text_format(args.output, "tables are written as .csv", (".csv",))
    files.check_picture_format(args.plot)
    circuit = apps.circuit.read(args.deck)
    result, names = circuit.run(args.analysis, threads=args.threads)
    with _outputs(args.output, args.plot, args.report) as (table_part, picture_part, report_part):
        if table_part:
            result.to_csv(table_part, names)
        else:
            _print_table(result, names)
        if picture_part:
            result.plot(picture_part, names, title=circuit.title.strip("* ") or None)
        files.write_report(report_part, result.report)
    if args.output:
        _tell(args, str(result.report))


def _print_table(result, names):
    """Write a result to standard output as to_csv writes it to a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "table.csv"
        result.to_csv(path, names)
        with open(path, encoding="utf-8") as table:
            for line in table:
                print(line, end="")


def run_view(args):
    """Show a mesh in a window, or write pictures of it without one.

    The window shows how the solver divides and orders the mesh, runs flows while you watch, and lets you pin and drag vertices.
    It needs polyscope: pip install polyscope
    """
    from meshsolve import apps

    files.check_outputs(args.screenshot, args.report, inputs=(args.mesh,))
    files.check_picture_format(args.screenshot)
    files.refuse_netlist(args.mesh)
    model = apps.view(args.mesh, args.show, args.screenshot, args.turntable, args.frames, args.size, args.up, args.threads)
    facts, plain = model.facts(), sizes(model.mesh) | {"view": args.show}
    coloring = model.show() if args.screenshot or args.turntable else None
    if coloring:
        facts["colours"] = plain["colours"] = coloring.caption
    with _outputs(args.report) as (report_part,):
        files.write_report(report_part, plain)
    _tell(args, "\n".join(f"{name:<11} {value}" for name, value in facts.items()))


def run_info(args):
    """Tell what a mesh or a matrix is and how it would be solved; without a file, what is installed.

    Sizes, components, symmetry, whether a matrix is positive definite (found by factoring it, if that does not take long), the
    method and the ordering that would be chosen, and the size of the factor. Messages count rows and columns from 0.
    """
    files.check_outputs(args.report, inputs=(args.input,) if args.input else ())
    if args.input:
        with files.naming(args.input, call="the matrix"):
            rows = describe(args.input, args.threads)
    else:
        rows = describe_installation()
    with _outputs(args.report) as (report_part,):
        files.write_report(report_part, {key: value for row in rows for key, value in row.values.items()})
    width = max(len(row.name) for row in rows)
    print("\n".join(f"{row.name:<{width}}  {row.text}" for row in rows))


# ---- what several of them do ----------------------------------------------------------------------------------------------


def _load_mesh(args):
    from meshsolve.mesh import load_mesh

    files.check_outputs(args.output, args.render, args.report)
    files.check_outputs(args.render, args.report, inputs=(args.mesh,))          # which may be the output: a mesh takes its place
    files.check_mesh_format(args.output)
    files.check_picture_format(args.render)
    files.refuse_netlist(args.mesh)
    return load_mesh(args.mesh)


def _finish(args, before, after, report, title):
    with _outputs(args.output, args.render, args.report) as (mesh_part, picture_part, report_part):
        after.save(mesh_part)
        if picture_part:
            from meshsolve.apps.render import render

            render(picture_part, before, after, title=title)
        files.write_report(report_part, report)
    _tell(args, str(report))


@contextlib.contextmanager
def _outputs(*paths):
    """Temporary files that take the places of ``paths`` together when the block ends well; None stays None."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(written_whole(path)) if path else None for path in paths]


def _tell(args, text):
    if not args.quiet:
        print(text)
