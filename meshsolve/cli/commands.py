"""The commands. Heavy imports are inside the functions, so that --help is fast."""

from __future__ import annotations

import pathlib
import tempfile

import numpy as np

from meshsolve.cli import files
from meshsolve.cli.describe import describe, describe_installation, sizes
from meshsolve.cli.many import expanded
from meshsolve.cli.shared import finish_pair, load_input_mesh, outputs, show
from meshsolve.datasets.files import load_matrix
from meshsolve.errors import ConvergenceWarning, InvalidInputError, MeshsolveError
from meshsolve.mesh import pattern_of
from meshsolve.options import counted
from meshsolve.report import without_warnings

RTOL = 1e-10                # largest relative residual of a solution


def run_mcf(args):
    """Smooth a mesh by mean curvature flow.

    Each step solves the equations (M + dt L) x' = M x for the new positions x' of the vertices. M is the mass matrix of the mesh,
    L its Laplacian. The flow shrinks the surface, thin parts first. To remove noise and keep the shape, use meshsolve smooth.
    """
    from meshsolve import apps, device

    mesh = load_input_mesh(args)
    chosen = device.choose(args.device, len(mesh.vertices))
    counts = args.label and args.steps > 1 and chosen == "cpu"         # on a GPU a callback copies the mesh to the host each time
    fixed = files.read_vertices(args.fixed)
    with files.naming(args.mesh):
        out, report = apps.mcf(mesh, steps=args.steps, dt=args.dt, conformal=args.conformal, precision=args.precision,
                               callback=(lambda step, _: args.label(f"step {step + 1}/{args.steps} ")) if counts else None,
                               device=chosen, threads=args.threads, fixed=fixed, keep=args.keep,
                               boundary=args.boundary)
    flow = "conformalized mean curvature flow" if args.conformal else "mean curvature flow"
    finish_pair(args, mesh, out, report, f"{flow}, {args.steps} step{'s' * (args.steps > 1)}")


def run_smooth(args):
    """Remove noise from a mesh in one step, and keep its shape.

    The strength does not depend on the units of the file. Vertices without faces do not move.
    """
    from meshsolve import apps

    mesh, fixed = load_input_mesh(args), files.read_vertices(args.fixed)
    with files.naming(args.mesh):
        out, report = apps.smooth(mesh, args.strength, order=args.order, precision=args.precision, device=args.device,
                                  threads=args.threads, fixed=fixed, keep=args.keep, boundary=args.boundary)
    kind = "Laplacian" if args.order == 1 else "bi-Laplacian"
    finish_pair(args, mesh, out, report, f"{kind} smoothing, strength {args.strength:g}")


def run_solve(args):
    """Solve the linear equations A x = b.

    If the relative residual |b - A x| / |b| of the solution is above 1e-10, the file is written, and the exit code is 1. Messages
    count rows and columns from 0.
    """
    from meshsolve import api

    files.check_outputs(args.output, args.report, inputs=(args.matrix, args.rhs))
    files.check_vector_format(args.output)
    files.refuse_netlist(args.matrix)
    A, b = load_matrix(args.matrix), files.read_vector(args.rhs)
    with without_warnings(ConvergenceWarning), files.naming(args.matrix, args.rhs):            # reported as the error below
        x, info = api.solve(A, b, method=args.method, rtol=RTOL, threads=args.threads, device=args.device, memory=args.memory,
                            folder=args.folder)
    if info.iterations:
        info.report.facts["iterations"] = info.iterations
    info.report.facts.update(relative_residual=info.relative_residual, converged=bool(info.converged))
    with outputs(args.output, args.report) as (x_part, report_part):
        files.write_vector(x_part, x)
        files.write_report(report_part, info.report)
    show(args, str(info.report))
    if not info.converged:
        reason = f"b may not be in the range of A ({info.reason})" if info.method == "ildl" else info.reason
        raise MeshsolveError(f"{args.output}: the solution was written, but its relative residual is "
                             f"{info.relative_residual:.3g}, above {RTOL:g}: {reason}")


def run_order(args):
    """Order the rows of a matrix or the vertices of a mesh, so that its Cholesky factor has few entries.

    Prints the number of entries of the factor and the operations of the factorization. Rows count from 0. Line k of the file of
    --perm is the old index of the row that becomes row k, as in A[perm][:, perm].
    """
    from meshsolve import api, order

    files.check_outputs(args.perm, args.part, args.report, inputs=(args.input,))
    for path in (args.perm, args.part):
        files.check_text_format(path, "permutations and parts are written as .txt or .npy", (".txt", ".npy"))
    if args.part and args.parts is None:
        raise InvalidInputError("--part needs the number of parts: add --parts K")
    if args.blocks:
        files.check_matrix_format(args.input, "--blocks")
    with files.naming(args.input, call="the matrix"):
        A = files.read_pattern(args.input)
        sym = api.analyze(A, args.method, seed=args.seed, threads=args.threads, device="cpu")
        part = order.partition(A, args.parts, seed=args.seed) if args.parts else None
        table = _block_table(args) if args.blocks else None         # may fail, so before anything is written
    sym.report.facts.update(supernodes=len(sym.supernodes) - 1, longest_column=int(sym.colcount.max()))
    with outputs(args.perm, args.part, args.report) as (perm_path, part_path, report_path):
        files.write_indices(perm_path, sym.ordering.perm)
        files.write_indices(part_path, part)
        files.write_report(report_path, sym.report)
    show(args, f"{args.method}: nnz(L) {sym.nnz:,}, flops {sym.flops:.4g}")
    if args.parts:
        show(args, _cut(pattern_of(A).graph(), part))
    if args.stats:
        print(sym.report)
    if table:
        print(table)


def run_circuit(args):
    """Simulate a circuit of linear elements and diodes, given as a SPICE netlist, and print or write the results as a table.

    Runs the first of the .tran, .ac, .dc or .op lines of the netlist, or the operating point if it has none of them. The columns
    of the table are the names of its .print line, or all nodes. Transistors, switches and transformers are not supported.
    """
    from meshsolve import apps

    files.check_outputs(args.output, args.plot, args.report, inputs=(args.deck,))
    files.check_text_format(args.output, "tables are written as .csv", (".csv",))
    files.check_picture_format(args.plot)
    circuit = apps.circuit.read(args.deck)
    result, names = circuit.run(args.analysis, threads=args.threads)
    with outputs(args.output, args.plot, args.report) as (table_part, picture_part, report_part):
        if table_part:
            result.to_csv(table_part, names)
        else:
            _print_table(result, names)
        if picture_part:
            result.plot(picture_part, names, title=circuit.title.strip("* ") or None)
        files.write_report(report_part, result.report)
    if args.output:
        show(args, str(result.report))


def run_view(args):
    """Show a mesh in a window, or write pictures of it without a window.

    The window shows curvatures, distances, maps, patches and orderings, runs flows, and lets you pin and drag vertices. It needs
    polyscope: pip install polyscope
    """
    from meshsolve import apps

    files.check_outputs(args.screenshot, args.report, inputs=(args.mesh,))
    files.check_picture_format(args.screenshot)
    files.refuse_netlist(args.mesh)
    model = apps.view(args.mesh, args.show, args.screenshot, args.turntable, args.frames, args.size, args.up, args.threads)
    facts, plain = model.facts(), sizes(model.mesh) | {"view": args.show}
    coloring = model.show() if args.screenshot or args.turntable else None
    if coloring:
        facts["colors"] = plain["colors"] = coloring.caption
    with outputs(args.report) as (report_part,):
        files.write_report(report_part, plain)
    show(args, "\n".join(f"{name:<11} {value}" for name, value in facts.items()))


def run_info(args):
    """Print properties of meshes, matrices or netlists and the cost of solving with them; without a file, properties of the installation.

    Prints sizes, components, symmetry, definiteness (by factorization, if that does not take long), the chosen method and ordering.
    Nonzeros, operations and memory of the factor come from its symbolic analysis. Expected seconds come from these numbers and from the
    rates of two small problems, which are measured at the call. Messages count rows and columns from 0.
    """
    paths = expanded(args.input)
    files.check_outputs(args.report, inputs=paths)
    tables = {path: _described(path, args.threads) for path in paths} if paths else {None: describe_installation()}
    values = [{key: value for row in rows for key, value in row.values.items()} for rows in tables.values()]
    with outputs(args.report) as (report_part,):
        files.write_report(report_part, values[0] if len(values) == 1 else {path: each for path, each in zip(paths, values, strict=True)})
    for path, rows in tables.items():
        if len(tables) > 1:
            print(f"{path}:")
        width = max(len(row.name) for row in rows)
        print("\n".join(f"{row.name:<{width}}  {row.text}" for row in rows))


def run_completion(args):
    """Print the completion script of a shell.

    It completes commands, options and file names. Needs shtab: pip install shtab.
    """
    from meshsolve.cli.arguments import parser

    try:
        import shtab
    except ImportError as e:
        raise MeshsolveError("completion scripts are made by shtab, which is not installed: pip install shtab") from e
    print(shtab.complete(parser(), args.shell))


def _cut(graph, part):
    """Describe a partition: its sizes, and the edges of the graph between two parts."""
    sizes = np.bincount(part)
    row = np.repeat(np.arange(graph.n), np.diff(graph.indptr))
    cut = np.count_nonzero(part[row] != part[graph.indices]) // 2
    return f"{counted(len(sizes), 'part')} of {sizes.min():,} to {counted(sizes.max(), 'row')}, {counted(cut, 'edge')} between them"


def _block_table(args):
    """Format the numbers of nonzero blocks and level sets of incomplete factors with tiles of ``--blocks`` rows."""
    from meshsolve.factor.ildl import blocks

    rows = blocks(load_matrix(args.input), args.blocks, args.threads)
    head = f"{'blocking':<9} {'ordering':<12} {'fill level':>10} {'tiles':>12} {'blocks':>14} {'level sets':>10}"
    lines = (f"{b:<9} {o:<12} {level:>10} {tiles:>12,} {count:>14,} {sets:>10,}" for b, o, level, tiles, count, sets in rows)
    return "\n".join([head, *lines])


def _print_table(result, names):
    """Write a result to standard output in the format of to_csv."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "table.csv"
        result.to_csv(path, names)
        with open(path, encoding="utf-8") as table:
            for line in table:
                print(line, end="")


def _described(path, threads):
    with files.naming(path, call="the matrix"):
        return describe(path, threads)
