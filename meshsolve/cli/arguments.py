"""The arguments of each command, and what is said of them."""

from __future__ import annotations

import argparse
import contextlib

from meshsolve.cli.commands import run_circuit, run_info, run_mcf, run_order, run_smooth, run_solve, run_view
from meshsolve.device import DEVICES

VIEWS = ("plain", "patches", "ribbons", "one patch", "separators", "elimination order", "column counts", "eigenvector")
METHODS = ("auto", "nd", "amd", "nnz_sort", "random", "rcm", "natural")


def parser():
    """The parser of the whole command line; ``args.run`` is the command's function."""
    from meshsolve.version import __version__

    parser = argparse.ArgumentParser(
        prog="meshsolve", description="Fast sparse solvers for meshes, graphs and circuits.",
        epilog="meshsolve COMMAND --help says more. Exit codes: 0 done, 3 a solution that misses its tolerance, "
               "2 wrong usage, 1 anything else.")
    parser.add_argument("--version", action="version", version=f"meshsolve {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _mcf_arguments(_command(commands, "mcf", run_mcf, "meshsolve mcf scan.ply -o smooth.ply --steps 5 --render picture.png"))
    _smooth_arguments(_command(commands, "smooth", run_smooth, "meshsolve smooth scan.ply -o smooth.ply --strength 4 --order 2"))
    _solve_arguments(_command(commands, "solve", run_solve, "meshsolve solve A.mtx b.mtx -o x.mtx"))
    _order_arguments(_command(commands, "order", run_order, "meshsolve order A.mtx --method nd --stats --perm perm.txt",
                              "no progress, nothing but what --stats and --blocks print"))
    _circuit_arguments(_command(commands, "circuit", run_circuit, "meshsolve circuit rectifier.sp -o rectifier.csv --plot rectifier.png"))
    _view_arguments(_command(commands, "view", run_view, "meshsolve view scan.ply --show separators --screenshot separators.png"))
    info = _command(commands, "info", run_info, "meshsolve info scan.ply", "no progress")
    info.add_argument("input", type=_file, nargs="?", metavar="FILE", help="a mesh or a matrix (.mtx, .npz, .npy)")
    _report_argument(info, "write what is printed")
    return parser


def _command(commands, name, run, example, quiet="no progress, no table"):
    title, _, more = run.__doc__.partition("\n")
    description = f"{title} {' '.join(more.split())}".strip()
    parser = commands.add_parser(name, help=title, description=description, epilog=f"example: {example}")
    parser.set_defaults(run=run)
    parser.add_argument("--quiet", action="store_true", help=quiet)
    parser.add_argument("--threads", type=_integer(1), metavar="N",
                        help="default: every core, or MESHSOLVE_NUM_THREADS; results do not depend on it")
    return parser


def _mesh_arguments(parser):
    parser.add_argument("mesh", type=_file, metavar="MESH", help="OBJ, PLY, STL, OFF or glTF file, also packed with gzip")
    parser.add_argument("-o", "--output", type=_file, required=True, metavar="OUT", help="mesh to write; its suffix names the format")
    parser.add_argument("--render", type=_file, metavar="PNG", help="picture of the mesh before and after")
    parser.add_argument("--precision", choices=("double", "single", "mixed"), default="double",
                        help="of the factor; mixed: float32, refined to float64 (default: double)")
    _device_argument(parser)
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
    parser.add_argument("matrix", type=_file, metavar="A.mtx", help="the matrix: .mtx, .mtx.gz, .npz (scipy) or .npy (dense)")
    parser.add_argument("rhs", type=_file, metavar="b.mtx", help="right-hand sides: .mtx, .npy, .npz or .txt")
    parser.add_argument("-o", "--output", type=_file, required=True, metavar="x.mtx", help="the solution: .mtx, .npy, .npz or .txt")
    parser.add_argument("--method", choices=("auto", "cholesky", "lu", "ildl", "parac"), default="auto",
                        help="ildl: symmetric indefinite, by LDL^T and SQMR; parac: an approximate factor and iterations, for large "
                             "graphs (default: auto)")
    _device_argument(parser)
    _report_argument(parser)


def _order_arguments(parser):
    parser.add_argument("input", type=_file, metavar="A.mtx|MESH", help="a matrix (the pattern of A + A^T counts) or a mesh")
    parser.add_argument("--method", choices=METHODS, default="nd", help="default: nd, nested dissection")
    parser.add_argument("--stats", action="store_true", help="seconds and sizes")
    parser.add_argument("--blocks", type=_integer(2), metavar="ROWS", nargs="?", const=32,
                        help="blocks and level sets of incomplete factors by tiles of so many rows (a symmetric matrix; default: 32)")
    parser.add_argument("--perm", type=_file, metavar="FILE", help="write the permutation, one row number a line (.npy: binary)")
    parser.add_argument("--seed", type=_integer(0), default=0, metavar="N", help="of nd, nnz_sort and random (default: 0)")
    _report_argument(parser)


def _circuit_arguments(parser):
    parser.add_argument("deck", type=_file, metavar="DECK.sp", help="SPICE netlist, also packed with gzip")
    parser.add_argument("-o", "--output", type=_file, required=True, metavar="OUT.csv", help="table to write")
    parser.add_argument("--plot", type=_file, metavar="PNG", help="picture of the results")
    parser.add_argument("--analysis", choices=("tran", "ac", "dc", "op"), help="default: the first of these that the deck has, else op")
    _report_argument(parser)


def _view_arguments(parser):
    parser.add_argument("mesh", type=_file, metavar="MESH", help="OBJ, PLY, STL, OFF or glTF file, also packed with gzip")
    parser.add_argument("--show", choices=VIEWS, default="plain", metavar="VIEW", help=f"{', '.join(VIEWS)} (default: plain)")
    parser.add_argument("--screenshot", type=_file, metavar="PNG", help="write a picture instead of opening a window")
    parser.add_argument("--turntable", metavar="DIR", help="write pictures of a turn around the mesh, frame_000.png and so on")
    parser.add_argument("--frames", type=_integer(2), default=72, metavar="N", help="of the turntable (default: 72)")
    parser.add_argument("--size", type=_pixels, default=(1440, 900), metavar="WxH", help="in pixels (default: 1440x900)")
    parser.add_argument("--up", choices=("y", "z"), default="y", help="the axis that points up (default: y)")
    _report_argument(parser, "write what is printed")


def _device_argument(parser):
    parser.add_argument("--device", choices=DEVICES, default="auto",
                        help="cuda: a GPU; auto: one that is there, from 100,000 rows or vertices on (default: auto)")


def _report_argument(parser, what="write seconds and sizes of each phase"):
    parser.add_argument("--report", type=_file, metavar="JSON", help=what)


def _file(text):
    if text == "-":
        raise argparse.ArgumentTypeError("commands read and write files, neither standard input nor standard output; a file of the name - "
                                         "is ./-")
    return text


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
