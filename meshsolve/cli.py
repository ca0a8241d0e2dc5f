"""The command line: meshsolve mcf | smooth | solve | order | info.

Exit codes: 0 done, 2 wrong usage, 1 anything else, with one line on standard error that begins with "meshsolve: error:".
The output files of a command are written whole, and together or not at all.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import time
import warnings

from meshsolve import matrix_files as files
from meshsolve.errors import MeshsolveError
from meshsolve.files import written_whole
from meshsolve.report import showing_progress

METHODS = ("nd", "amd", "nnz_sort", "random", "rcm", "natural")


def main(argv=None):
    """Run the command line; returns the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        with warnings.catch_warnings(), _progress(args.quiet) as args.label:
            warnings.showwarning = _one_line_warning
            args.run(args)
        sys.stdout.flush()
        return 0
    except KeyboardInterrupt:
        return _fail("interrupted")
    except (MeshsolveError, OSError) as e:
        return _fail(str(e))
    except MemoryError:
        return _fail("not enough memory")
    except Exception as e:                                  # a fault of ours: still one line, with its type
        return _fail(f"{type(e).__name__}: {e}")


# ---- commands ---------------------------------------------------------------------------------------------------------


def run_mcf(args):
    """Mean curvature flow of a mesh.

    Backward Euler steps of x' = (M + dt L)^-1 M x; the factorization is analysed once and refactored at each step.
    """
    from meshsolve import apps

    mesh = _load_mesh(args)
    count = (lambda step, _: args.label(f"step {step + 1}/{args.steps} ")) if args.label and args.steps > 1 else None
    out, report = apps.mcf(mesh, steps=args.steps, dt=args.dt, conformal=args.conformal, precision=args.precision,
                           callback=count, threads=args.threads)
    flow = "conformalized mean curvature flow" if args.conformal else "mean curvature flow"
    _finish(args, mesh, out, report, f"{flow}, {args.steps} step{'s' * (args.steps > 1)}")


def run_smooth(args):
    """Implicit Laplacian or bi-Laplacian smoothing of a mesh, in one step."""
    from meshsolve import apps

    mesh = _load_mesh(args)
    out, report = apps.smooth(mesh, args.strength, order=args.order, precision=args.precision, threads=args.threads)
    kind = "Laplacian" if args.order == 1 else "bi-Laplacian"
    _finish(args, mesh, out, report, f"{kind} smoothing, strength {args.strength:g}")


def run_solve(args):
    """Solve A x = b for a symmetric positive definite matrix A.

    A is a Matrix Market (.mtx, .mtx.gz) or scipy (.npz) file, b and x are .mtx, .npy or .txt with one column or several.
    """
    from meshsolve import api

    files.check_outputs(args.output, args.report)
    A, b = files.read_matrix(args.matrix), files.read_vector(args.rhs)
    x, info = api.solve(A, b, method=args.method, threads=args.threads)
    with _outputs(args.output, args.report) as (x_part, report_part):
        files.write_vector(x_part, x)
        files.write_report(report_part, info.report)
    _tell(args, f"{info.report}\nmethod             {info.method}\nrelative residual  {info.relative_residual:.3g}")


def run_order(args):
    """Order a matrix or a mesh to keep its Cholesky factor sparse.

    Line k of the --perm file is the old number, from 0, of row k of the reordered matrix A[perm][:, perm].
    """
    from meshsolve import api

    files.check_outputs(args.perm, args.report)
    sym = api.analyze(files.read_pattern(args.input), args.method, seed=args.seed, threads=args.threads)
    with _outputs(args.perm, args.report) as (perm_part, report_part):
        files.write_perm(perm_part, sym.ordering.perm)
        files.write_report(report_part, sym.report)
    _tell(args, f"{args.method}: nnz(L) {sym.nnz:,}, flops {sym.flops:.4g}")
    if args.stats:
        print(sym.report)
        print(f"supernodes   {len(sym.supernodes) - 1:>14,}\nlargest row  {int(sym.colcount.max()):>14,}")


def run_info(args):
    """Say what a mesh or a matrix is and how it would be solved; without a file, what this installation is.

    Sizes, components, symmetry, definiteness (found by factoring, up to a limit) and what would be chosen.
    """
    from meshsolve.config import config

    facts = files.describe(args.input, args.threads) if args.input else config()
    width = max(map(len, facts))
    print("\n".join(f"{name:<{width}}  {value}" for name, value in facts.items()))


# ---- arguments --------------------------------------------------------------------------------------------------------


def _parser():
    from meshsolve.version import __version__

    parser = argparse.ArgumentParser(
        prog="meshsolve", description="Fast sparse solvers for meshes, graphs and circuits.",
        epilog="meshsolve COMMAND --help says more. Exit codes: 0 done, 2 wrong usage, 1 anything else.")
    parser.add_argument("--version", action="version", version=f"meshsolve {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _mcf_arguments(_command(commands, "mcf", run_mcf, "meshsolve mcf scan.ply -o smooth.ply --steps 5 --render picture.png"))
    _smooth_arguments(_command(commands, "smooth", run_smooth, "meshsolve smooth scan.ply -o smooth.ply --strength 4 --order 2"))
    _solve_arguments(_command(commands, "solve", run_solve, "meshsolve solve A.mtx b.mtx -o x.mtx"))
    _order_arguments(_command(commands, "order", run_order, "meshsolve order A.mtx --method nd --stats --perm perm.txt"))
    info = _command(commands, "info", run_info, "meshsolve info scan.ply")
    info.add_argument("input", nargs="?", metavar="FILE", help="a mesh or a matrix (.mtx, .npz)")
    return parser


def _command(commands, name, run, example):
    title, _, more = run.__doc__.partition("\n")
    description = f"{title} {' '.join(more.split())}".strip()
    parser = commands.add_parser(name, help=title, description=description, epilog=f"example: {example}")
    parser.set_defaults(run=run)
    parser.add_argument("--quiet", action="store_true", help="no progress, no table")
    parser.add_argument("--threads", type=_integer(1), metavar="N",
                        help="default: every core, or MESHSOLVE_NUM_THREADS; results do not depend on it")
    return parser


def _mesh_arguments(parser):
    parser.add_argument("mesh", metavar="MESH", help="OBJ, PLY, STL, OFF or glTF file, also packed with gzip")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="mesh to write; its suffix names the format")
    parser.add_argument("--render", metavar="PNG", help="picture of the mesh before and after")
    parser.add_argument("--precision", choices=("double", "single", "mixed"), default="double",
                        help="of the factor; mixed: float32, refined to float64 (default: double)")
    _report_argument(parser)


def _mcf_arguments(parser):
    _mesh_arguments(parser)
    parser.add_argument("--steps", type=_integer(1), default=1, metavar="N", help="default: 1")
    parser.add_argument("--dt", type=_time_step, default="auto", metavar="auto|X",
                        help="time step in squared units of length; auto: the squared mean edge length, and for --conformal "
                             "0.002 times the area")
    parser.add_argument("--conformal", action="store_true",
                        help="the flow of Kazhdan, Solomon and Ben-Chen (2012): no singularities, genus 0 becomes a round sphere")


def _smooth_arguments(parser):
    _mesh_arguments(parser)
    parser.add_argument("--strength", type=_non_negative, default=1.0, metavar="S",
                        help="1 removes noise between neighbours, 10 or 100 what is some edges wide (default: 1)")
    parser.add_argument("--order", type=int, choices=(1, 2), default=1, help="1: Laplacian, 2: bi-Laplacian (default: 1)")


def _solve_arguments(parser):
    parser.add_argument("matrix", metavar="A.mtx", help="the matrix: .mtx, .mtx.gz or .npz")
    parser.add_argument("rhs", metavar="b.mtx", help="right-hand sides: .mtx, .npy or .txt")
    parser.add_argument("-o", "--output", required=True, metavar="x.mtx", help="the solution: .mtx, .npy or .txt")
    parser.add_argument("--method", choices=("auto", "cholesky"), default="auto", help="default: auto")
    _report_argument(parser)


def _order_arguments(parser):
    parser.add_argument("input", metavar="A.mtx|MESH", help="a matrix (the pattern of A + A^T counts) or a mesh")
    parser.add_argument("--method", choices=METHODS, default="nd", help="default: nd, nested dissection")
    parser.add_argument("--stats", action="store_true", help="seconds and sizes")
    parser.add_argument("--perm", metavar="FILE", help="write the permutation, one row number a line (.npy: binary)")
    parser.add_argument("--seed", type=_integer(0), default=0, metavar="N", help="of nd, nnz_sort and random (default: 0)")
    _report_argument(parser)


def _report_argument(parser):
    parser.add_argument("--report", metavar="JSON", help="write seconds and sizes of each phase")


def _integer(least):
    def parse(text):
        if not text.isdecimal() or not least <= int(text) < 2**31:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least {least}")
        return int(text)
    return parse


def _non_negative(text):
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number >= 0")
    return value


def _time_step(text):
    if text == "auto":
        return text
    value = _non_negative(text)
    if value == 0:
        raise argparse.ArgumentTypeError("the time step has to be positive")
    return value


# ---- what the user sees -------------------------------------------------------------------------------------------------


def _load_mesh(args):
    from meshsolve.mesh import load_mesh

    files.check_outputs(args.output, args.render, args.report)
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


def _fail(message):
    text = " ".join(str(message).split()) or "unknown error"
    print(f"meshsolve: error: {text}", file=sys.stderr)
    return 1


def _one_line_warning(message, category, filename, lineno, file=None, line=None):
    print(f"meshsolve: warning: {' '.join(str(message).split())}", file=sys.stderr)


@contextlib.contextmanager
def _progress(quiet):
    """A bar on standard error where a person looks at it; yields a function that sets what stands before the phase, or None."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    columns, rows = shutil.get_terminal_size()              # tqdm draws nothing where a terminal does not say its size
    bar = tqdm(total=1, leave=False, ncols=columns, nrows=rows, bar_format="{desc:<20} {percentage:3.0f}% |{bar}| {elapsed}")
    label, drawn = "", 0.0

    def set_label(text):
        nonlocal label
        label = text

    def tell(phase, done, total):
        nonlocal drawn
        if time.monotonic() - drawn > 0.05:
            bar.set_description_str(label + phase, refresh=False)
            bar.total, bar.n = max(total, 1), min(done, max(total, 1))
            bar.refresh()
            drawn = time.monotonic()

    try:
        with showing_progress(tell):
            yield set_label
    finally:
        bar.close()
