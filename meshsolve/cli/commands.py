"""What each command does. Heavy imports stand inside the functions, so that --help is there at once."""

from __future__ import annotations

import contextlib

from meshsolve.cli import files
from meshsolve.cli.describe import describe
from meshsolve.datasets.files import load_matrix
from meshsolve.files import written_whole

UNSOLVED = 3                # exit code of a solution that misses its tolerance


def run_mcf(args):
    """Mean curvature flow of a mesh.

    Backward Euler steps of x' = (M + dt L)^-1 M x; the factorization is analysed once and refactored at each step.
    """
    from meshsolve import apps, device

    mesh = _load_mesh(args)
    place = device.choose(args.device, len(mesh.vertices))
    counts = args.label and args.steps > 1 and place == "cpu"          # a callback would bring each step's mesh back from a GPU
    out, report = apps.mcf(mesh, steps=args.steps, dt=args.dt, conformal=args.conformal, precision=args.precision, device=place,
                           callback=(lambda step, _: args.label(f"step {step + 1}/{args.steps} ")) if counts else None,
                           threads=args.threads)
    flow = "conformalized mean curvature flow" if args.conformal else "mean curvature flow"
    _finish(args, mesh, out, report, f"{flow}, {args.steps} step{'s' * (args.steps > 1)}")


def run_smooth(args):
    """Implicit Laplacian or bi-Laplacian smoothing of a mesh, in one step."""
    from meshsolve import apps

    mesh = _load_mesh(args)
    out, report = apps.smooth(mesh, args.strength, order=args.order, precision=args.precision, device=args.device,
                              threads=args.threads)
    kind = "Laplacian" if args.order == 1 else "bi-Laplacian"
    _finish(args, mesh, out, report, f"{kind} smoothing, strength {args.strength:g}")


def run_solve(args):
    """Solve A x = b: Cholesky or ParAC where A is positive definite or a Laplacian, LDL^T where it is symmetric, else LU.

    A is a Matrix Market (.mtx, .mtx.gz), scipy (.npz) or numpy (.npy) file, b and x are .mtx, .npy, .npz or .txt with one column or
    several. The exit
    code is 3 where the relative residual stays above its tolerance of 1e-10.
    """
    from meshsolve import api

    files.check_outputs(args.output, args.report, inputs=(args.matrix, args.rhs))
    files.check_vector_format(args.output)
    A, b = load_matrix(args.matrix), files.read_vector(args.rhs)
    x, info = api.solve(A, b, method=args.method, threads=args.threads, device=args.device)
    if info.iterations:
        info.report.facts["iterations"] = info.iterations
    info.report.facts["relative_residual"] = info.relative_residual
    with _outputs(args.output, args.report) as (x_part, report_part):
        files.write_vector(x_part, x)
        files.write_report(report_part, info.report)
    _tell(args, str(info.report))
    return 0 if info.converged else UNSOLVED


def run_order(args):
    """Order a matrix or a mesh to keep its Cholesky factor sparse.

    Line k of the --perm file is the old number, from 0, of row k of the reordered matrix A[perm][:, perm].
    """
    from meshsolve import api

    files.check_outputs(args.perm, args.report, inputs=(args.input,))
    files.check_text_format(args.perm, "permutations are written as .txt or .npy", (".txt", ".npy"))
    if args.blocks:
        files.check_matrix_format(args.input, "--blocks")
    sym = api.analyze(files.read_pattern(args.input), args.method, seed=args.seed, threads=args.threads, device="cpu")
    sym.report.facts.update(supernodes=len(sym.supernodes) - 1, longest_column=int(sym.colcount.max()))
    table = _block_table(args) if args.blocks else None             # before anything is written: not every matrix has one
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
    """Run an analysis of a SPICE deck and write its results as a table.

    The deck's .tran, .ac, .dc or .op line, the first of these that it has, else the operating point; columns are what its .print
    line names, else every node.
    """
    from meshsolve import apps

    files.check_outputs(args.output, args.plot, args.report, inputs=(args.deck,))
    files.check_text_format(args.output, "tables are written as .csv", (".csv",))
    files.check_picture_format(args.plot)
    circuit = apps.circuit.read(args.deck)
    result, names = circuit.run(args.analysis, threads=args.threads)
    with _outputs(args.output, args.plot, args.report) as (table_part, picture_part, report_part):
        result.to_csv(table_part, names)
        if picture_part:
            result.plot(picture_part, names, title=circuit.title.strip("* ") or None)
        files.write_report(report_part, result.report)
    _tell(args, str(result.report))


def run_view(args):
    """Open the viewer on a mesh, or write pictures of it without one.

    Patches, separators, elimination order, fill; flows that run while you watch; vertices to pin and drag. Needs polyscope (pip
    install polyscope).
    """
    from meshsolve import apps

    files.check_outputs(args.screenshot, args.report, inputs=(args.mesh,))
    files.check_picture_format(args.screenshot)
    model = apps.view(args.mesh, args.show, args.screenshot, args.turntable, args.frames, args.size, args.up, args.threads)
    facts = model.facts()
    coloring = model.show() if args.screenshot or args.turntable else None
    if coloring:
        facts["colours"] = coloring.caption
    with _outputs(args.report) as (report_part,):
        files.write_report(report_part, facts)
    _tell(args, "\n".join(f"{name:<11} {value}" for name, value in facts.items()))


def run_info(args):
    """Say what a mesh or a matrix is and how it would be solved; without a file, what this installation is.

    Sizes, components, symmetry, definiteness (found by factoring, up to a limit) and what would be chosen.
    """
    from meshsolve.config import config

    files.check_outputs(args.report, inputs=(args.input,) if args.input else ())
    facts = describe(args.input, args.threads) if args.input else config()
    with _outputs(args.report) as (report_part,):
        files.write_report(report_part, facts)
    width = max(map(len, facts))
    print("\n".join(f"{name:<{width}}  {value}" for name, value in facts.items()))


# ---- what several of them do ----------------------------------------------------------------------------------------------


def _load_mesh(args):
    from meshsolve.mesh import load_mesh

    files.check_outputs(args.output, args.render, args.report)
    files.check_outputs(args.render, args.report, inputs=(args.mesh,))          # which may be the output: a mesh takes its place
    files.check_mesh_format(args.output)
    files.check_picture_format(args.render)
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
