"""The command line: meshsolve mcf | smooth | solve | order | info.

Exit codes: 0 done, 2 wrong usage, 1 anything else, with one line on standard error that begins with "meshsolve: error:".
Output files are written whole or not at all.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import warnings

from meshsolve import matrix_files as files
from meshsolve.errors import MeshsolveError
from meshsolve.report import showing_progress

METHODS = ("nd", "amd", "nnz_sort", "random", "rcm", "natural")


def main(argv=None):
    """Run the command line; returns the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 2
    warnings.showwarning = _one_line_warning
    try:
        with _progress(args.quiet):
            args.run(args)
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
    """Mean curvature flow: mesh in, smoothed mesh, picture and report out."""
    from meshsolve import apps

    files.check_writable(args.output, args.render, args.report)
    mesh = _load(args)
    out, report = apps.mcf(mesh, steps=args.steps, dt=args.dt, conformal=args.conformal, precision=args.precision,
                           threads=args.threads)
    _finish(args, mesh, out, report, f"{'conformalized ' if args.conformal else ''}mean curvature flow, {args.steps} step(s)")


def run_smooth(args):
    """Implicit Laplacian or bi-Laplacian smoothing."""
    from meshsolve import apps

    files.check_writable(args.output, args.render, args.report)
    mesh = _load(args)
    out, report = apps.smooth(mesh, args.strength, order=args.order, threads=args.threads)
    kind = "Laplacian" if args.order == 1 else "bi-Laplacian"
    _finish(args, mesh, out, report, f"{kind} smoothing, strength {args.strength:g}")


def run_solve(args):
    """Solve A x = b for Matrix Market files."""
    from meshsolve import api

    files.check_writable(args.output, args.report)
    A, b = files.read_matrix(args.matrix), files.read_vector(args.rhs)
    x, info = api.solve(A, b, method=args.method)
    files.write_vector(args.output, x)
    _tell(args, str(info.report))
    _tell(args, f"method             {info.method}\nrelative residual  {info.relative_residual:.3g}")
    files.write_report(args.report, info.report)


def run_order(args):
    """Order a matrix or mesh; statistics of its factor and the permutation on request."""
    from meshsolve import api

    files.check_writable(args.perm, args.report)
    sym = api.analyze(files.read_pattern(args.input), args.method, seed=args.seed, threads=args.threads)
    print(f"{args.method}: nnz(L) {sym.nnz:,}, flops {sym.flops:.4g}")
    if args.stats:
        print(sym.report)
        print(f"supernodes   {len(sym.supernodes) - 1:>14,}\nlargest row  {int(sym.colcount.max()):>14,}")
    if args.perm:
        files.write_perm(args.perm, sym.ordering.perm)
    files.write_report(args.report, sym.report)


def run_info(args):
    """What a mesh or a matrix is; without a file, the configuration."""
    from meshsolve.config import config

    facts = files.describe(args.input) if args.input else config()
    width = max(map(len, facts))
    print("\n".join(f"{name:<{width}}  {value}" for name, value in facts.items()))


# ---- arguments --------------------------------------------------------------------------------------------------------


def _parser():
    from meshsolve.version import __version__

    parser = argparse.ArgumentParser(prog="meshsolve", description="Fast sparse solvers for meshes, graphs and circuits.")
    parser.add_argument("--version", action="version", version=f"meshsolve {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _mcf_arguments(_command(commands, "mcf", run_mcf))
    _smooth_arguments(_command(commands, "smooth", run_smooth))
    _solve_arguments(_command(commands, "solve", run_solve))
    _order_arguments(_command(commands, "order", run_order))
    info = _command(commands, "info", run_info)
    info.add_argument("input", nargs="?", metavar="FILE", help="mesh or matrix (.mtx, .npz)")
    return parser


def _command(commands, name, run):
    parser = commands.add_parser(name, help=run.__doc__.splitlines()[0], description=run.__doc__)
    parser.set_defaults(run=run)
    parser.add_argument("--quiet", action="store_true", help="no progress, no table")
    parser.add_argument("--threads", type=_positive, metavar="N", help="default: every core, or MESHSOLVE_NUM_THREADS")
    return parser


def _mesh_arguments(parser):
    parser.add_argument("mesh", metavar="MESH", help="OBJ, PLY, STL, OFF or glTF file")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="mesh to write; its suffix names the format")
    parser.add_argument("--render", metavar="PNG", help="picture of the mesh before and after")
    parser.add_argument("--report", metavar="JSON", help="seconds and sizes of each phase")


def _mcf_arguments(parser):
    _mesh_arguments(parser)
    parser.add_argument("--steps", type=_positive, default=1, metavar="N")
    parser.add_argument("--dt", type=_time_step, default="auto", metavar="auto|X", help="time step, length squared")
    parser.add_argument("--conformal", action="store_true", help="the flow of Kazhdan, Solomon and Ben-Chen (2012)")
    parser.add_argument("--precision", choices=("double", "single", "mixed"), default="double")


def _smooth_arguments(parser):
    _mesh_arguments(parser)
    parser.add_argument("--strength", type=_non_negative, default=1.0, metavar="S")
    parser.add_argument("--order", type=int, choices=(1, 2), default=1, help="1: Laplacian, 2: bi-Laplacian")


def _solve_arguments(parser):
    parser.add_argument("matrix", metavar="A.mtx")
    parser.add_argument("rhs", metavar="b.mtx")
    parser.add_argument("-o", "--output", required=True, metavar="x.mtx")
    parser.add_argument("--method", choices=("auto", "cholesky"), default="auto")
    parser.add_argument("--report", metavar="JSON")


def _order_arguments(parser):
    parser.add_argument("input", metavar="A.mtx|MESH")
    parser.add_argument("--method", choices=METHODS, default="nd")
    parser.add_argument("--stats", action="store_true", help="seconds and sizes")
    parser.add_argument("--perm", metavar="FILE", help="write the permutation, one row number a line (.npy: binary)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", metavar="JSON")


def _positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


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


def _load(args):
    from meshsolve.mesh import load_mesh

    return load_mesh(args.mesh)


def _finish(args, before, after, report, title):
    after.save(args.output)
    if args.render:
        from meshsolve.apps.render import render

        render(args.render, before, after, title=title)
    files.write_report(args.report, report)
    _tell(args, str(report))


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
    """A bar on standard error for phases that last, where a person looks at it."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from tqdm import tqdm

    bar = tqdm(total=1, leave=False, unit="", bar_format="{desc:<10} {percentage:3.0f}% |{bar}| {elapsed}")

    def tell(phase, done, total):
        bar.set_description_str(phase, refresh=False)
        bar.total, bar.n = max(total, 1), min(done, max(total, 1))
        bar.refresh()

    try:
        with showing_progress(tell):
            yield
    finally:
        bar.close()


if __name__ == "__main__":
    sys.exit(main())
