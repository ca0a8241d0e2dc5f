"""The arguments of each command, and what is said of them."""

from __future__ import annotations

import argparse
import contextlib

from meshsolve.cli.commands import run_circuit, run_info, run_mcf, run_order, run_smooth, run_solve, run_view
from meshsolve.datasets.files import MATRIX_SUFFIXES
from meshsolve.device import DEVICES
from meshsolve.mesh.files import READABLE, WRITABLE
from meshsolve.order.methods import METHODS, names

VIEWS = ("plain", "patches", "ribbons", "one patch", "separators", "elimination order", "column counts", "eigenvector")
QUIET = {"order": "print nothing but what --stats and --blocks ask for", "info": "print no progress bar", "view": "print nothing"}
EXIT_CODES = ("Exit codes: 0 done; 2 wrong usage; 130 interrupted; 1 anything else, also a solution that misses its tolerance, with one "
              "line on standard error that begins with 'meshsolve: error:'.")


class _Paragraphs(argparse.HelpFormatter):
    """Empty lines in descriptions part paragraphs."""

    def _fill_text(self, text, width, indent):
        return "\n\n".join(argparse.HelpFormatter._fill_text(self, part, width, indent) for part in text.split("\n\n"))


class _Parser(argparse.ArgumentParser):
    """Wrong usage ends in one line that says what is wrong, and one that says where help is."""

    def error(self, message):
        self.exit(2, f"meshsolve: error: {message}\ntry: {self.prog} --help\n")


def parser():
    """The parser of the whole command line; ``args.run`` is the command's function."""
    from meshsolve.version import __version__

    parser = _Parser(
        prog="meshsolve", formatter_class=_Paragraphs, description="Fast sparse solvers for meshes, graphs and circuits.",
        epilog=f"meshsolve COMMAND --help tells what a command does and takes.\n\n{EXIT_CODES}")
    parser.add_argument("--version", action="version", version=f"meshsolve {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name, run, add_arguments, example in (
            ("mcf", run_mcf, _mcf_arguments, "scan.ply -o smooth.ply --steps 2 --render picture.png"),
            ("smooth", run_smooth, _smooth_arguments, "scan.ply -o smooth.ply --order 2 --render picture.png"),
            ("solve", run_solve, _solve_arguments, "A.mtx b.mtx -o x.mtx"),
            ("order", run_order, _order_arguments, "A.mtx --method nd --stats --perm perm.txt"),
            ("circuit", run_circuit, _circuit_arguments, "rectifier.sp -o rectifier.csv --plot rectifier.png"),
            ("view", run_view, _view_arguments, "scan.ply --show separators --screenshot separators.png"),
            ("info", run_info, _info_arguments, "scan.ply")):
        title, _, more = run.__doc__.partition("\n")
        command = commands.add_parser(
            name, formatter_class=_Paragraphs, help=title.removesuffix("."),
            description=f"{title}\n\n{' '.join(more.split())}".strip(),
            epilog=f"Example: meshsolve {name} {example}\n\n{EXIT_CODES}")
        command.set_defaults(run=run)
        add_arguments(command)
        command.add_argument("--threads", type=_integer(1), metavar="N",
                             help="threads to use (default: MESHSOLVE_NUM_THREADS, or every core); results do not depend on it")
        command.add_argument("--quiet", action="store_true", help=QUIET.get(name, "print no progress bar and no table"))
    return parser


def _mesh_arguments(parser):
    parser.add_argument("-o", "--output", type=_file, required=True, metavar="OUT",
                        help=f"mesh to write ({', '.join(WRITABLE)}); it may replace MESH")
    _mesh(parser)
    parser.add_argument("--render", type=_file, metavar="PNG", help="also write a picture of the mesh before and after")


def _mesh(parser):
    parser.add_argument("mesh", type=_file, metavar="MESH", help=f"mesh to read ({', '.join(READABLE)}; also packed: .ply.gz)")


def _mcf_arguments(parser):
    _mesh_arguments(parser)
    parser.add_argument("--steps", type=_integer(1), default=1, metavar="N",
                        help="number of steps: 1 or 2 remove noise; more shrink the surface, thin parts first (default: 1)")
    parser.add_argument("--dt", type=_time_step, default="auto", metavar="auto|X",
                        help="time step, in squared units of length: a larger one smooths more; auto is the squared mean edge "
                             "length, or with --conformal 0.002 times the area (default: auto)")
    parser.add_argument("--conformal", action="store_true",
                        help="the conformalized flow of Kazhdan, Solomon and Ben-Chen (2012): thin parts do not pinch off, and a "
                             "closed surface without handles becomes a round sphere")
    _factor_arguments(parser)


def _smooth_arguments(parser):
    _mesh_arguments(parser)
    parser.add_argument("--strength", type=_non_negative, default=1.0, metavar="S",
                        help="1 removes noise between neighbouring vertices, 10 or 100 also bumps a few edges wide (default: 1)")
    parser.add_argument("--order", type=int, choices=(1, 2), default=1,
                        help="1: Laplacian; 2: bi-Laplacian, which keeps volume and slopes better (default: 1)")
    _factor_arguments(parser)


def _factor_arguments(parser):
    parser.add_argument("--precision", choices=("double", "single", "mixed"), default="double",
                        help="of the factorization; mixed: factored in single precision, solutions refined to double "
                             "(default: double)")
    _device_argument(parser)
    _report_argument(parser)


def _solve_arguments(parser):
    parser.add_argument("matrix", type=_file, metavar="A.mtx",
                        help="the matrix A: Matrix Market (.mtx, .mtx.gz), scipy.sparse.save_npz (.npz) or dense numpy (.npy)")
    parser.add_argument("rhs", type=_file, metavar="b.mtx",
                        help="the right-hand side b, with one column or several: .mtx, .npy, .npz or .txt")
    parser.add_argument("-o", "--output", type=_file, required=True, metavar="x.mtx",
                        help="file to write the solution x to: .mtx, .npy, .npz or .txt")
    parser.add_argument("--method", choices=("auto", "cholesky", "lu", "ildl", "parac"), default="auto",
                        help="cholesky: A is symmetric positive definite, or a Laplacian; parac: the same, by an approximate factor "
                             "and iterations, for large graphs; ildl: A is symmetric; lu: any A; auto: what fits A "
                             "(default: auto)")
    _device_argument(parser)
    _report_argument(parser)


def _order_arguments(parser):
    parser.add_argument("input", type=_file, metavar="A.mtx|MESH",
                        help=f"matrix ({', '.join(MATRIX_SUFFIXES)}; only where it has entries counts, as in A + A^T) or mesh "
                             f"({', '.join(READABLE)})")
    parser.add_argument("--method", choices=names(), default="nd",
                        help="; ".join(f"{name}: {METHODS[name].about}" for name in names()) + " (default: nd)")
    parser.add_argument("--perm", type=_file, metavar="FILE",
                        help="file to write the order to, one row number a line (.npy: binary)")
    parser.add_argument("--stats", action="store_true", help="also print the seconds of each phase and more sizes")
    parser.add_argument("--blocks", type=_integer(2), metavar="ROWS", nargs="?", const=32,
                        help="also print how many blocks and level sets incomplete factors have that are cut into tiles of ROWS "
                             "rows; for symmetric matrices (ROWS if left out: 32)")
    parser.add_argument("--seed", type=_integer(0), default=0, metavar="N",
                        help="of the random numbers that an order uses (default: 0)")
    _report_argument(parser)


def _circuit_arguments(parser):
    parser.add_argument("deck", type=_file, metavar="NETLIST",
                        help="SPICE netlist to read (also packed: .gz), of R, C, L, V, I, diodes, linear E, F, G, H, B sources and "
                             "subcircuits")
    parser.add_argument("-o", "--output", type=_file_or_output, metavar="OUT.csv", help="table to write (default, or -: standard output)")
    parser.add_argument("--plot", type=_file, metavar="PNG", help="also write a picture of the results")
    parser.add_argument("--analysis", choices=("tran", "ac", "dc", "op"),
                        help="what to run (default: the first of these that the netlist has a line for, or op)")
    _report_argument(parser)


def _view_arguments(parser):
    _mesh(parser)
    names = ", ".join(repr(view) if " " in view else view for view in VIEWS)
    parser.add_argument("--show", choices=VIEWS, default="plain", metavar="VIEW", help=f"what to see at first: {names} (default: plain)")
    parser.add_argument("--screenshot", type=_file, metavar="PNG", help="write a picture instead of opening a window")
    parser.add_argument("--turntable", metavar="DIR",
                        help="write pictures of a turn around the mesh into this folder: frame_000.png and so on")
    parser.add_argument("--frames", type=_integer(2), default=72, metavar="N",
                        help="number of pictures of --turntable (default: 72)")
    parser.add_argument("--size", type=_pixels, default=(1440, 900), metavar="WxH",
                        help="size of the window or the pictures, in pixels (default: 1440x900)")
    parser.add_argument("--up", choices=("y", "z"), default="y", help="the axis that points up (default: y)")
    _report_argument(parser, "write the sizes of the mesh")


def _info_arguments(parser):
    parser.add_argument("input", type=_file, nargs="?", metavar="FILE",
                        help=f"mesh ({', '.join(READABLE)}) or matrix ({', '.join(MATRIX_SUFFIXES)}); left out: versions, "
                             "threads and GPU of this installation")
    _report_argument(parser, "write the same")


def _device_argument(parser):
    parser.add_argument("--device", choices=DEVICES, default="auto",
                        help="where to compute; auto: on a GPU (cuda) if there is one and at least 100,000 rows or vertices "
                             "(default: auto)")


def _report_argument(parser, what="write seconds and sizes of each phase"):
    parser.add_argument("--report", type=_file, metavar="JSON", help=f"{what} to this file, for programs")


def _file(text):
    if text == "-":
        raise argparse.ArgumentTypeError("commands read and write files, neither standard input nor standard output; a file of the name - "
                                         "is ./-")
    return text


def _file_or_output(text):
    return None if text == "-" else text


def _integer(least):
    def parse(text):
        if not text.isdecimal() or not least <= int(text) < 2**31:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least {least}")
        return int(text)
    return parse


def _pixels(text):
    width, x, height = text.partition("x")
    if not (x and width.isdecimal() and height.isdecimal() and all(64 <= int(side) <= 8192 for side in (width, height))):
        raise argparse.ArgumentTypeError(f"{text!r} is not WIDTHxHEIGHT, each from 64 to 8192")
    return int(width), int(height)


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
    with contextlib.suppress(ValueError, argparse.ArgumentTypeError):
        value = _non_negative(text)
        if value > 0:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is neither auto nor a number above 0")
