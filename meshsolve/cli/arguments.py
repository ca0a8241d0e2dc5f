"""The arguments of each command, with their help."""

from __future__ import annotations

import argparse
import contextlib

from meshsolve.cli.batch import run_batch
from meshsolve.cli.commands import run_circuit, run_completion, run_info, run_mcf, run_order, run_smooth, run_solve, run_view
from meshsolve.cli.files import NETLIST_SUFFIXES
from meshsolve.cli.geometry import run_denoise, run_geodesics, run_param, run_spectrum
from meshsolve.datasets.files import MATRIX_SUFFIXES
from meshsolve.device import DEVICES
from meshsolve.mesh.files import READABLE, WRITABLE
from meshsolve.order.methods import METHODS, names

VIEWS = ("plain", "mean curvature", "Gaussian curvature", "normals", "eigenvector", "distance", "logarithmic map", "transport", "texture",
         "angle distortion", "area distortion", "patches", "ribbons", "one patch", "separators", "elimination order", "column counts")
TASKS = ("smooth", "spectrum", "geodesics")            # of batch
MAPS = ("harmonic", "lscm", "conformal", "arap", "slim")
THREADS = {"batch": "number of processes, one thread each"}
QUIET = {"order": "print only the output of --stats and --blocks", "info": "print no progress bar", "view": "print nothing"}
EXIT_CODES = ("Exit codes: 0 success; 2 wrong usage; 130 interrupted; 1 any other error, also a solution that misses its tolerance. "
              "An error prints one line on standard error that begins with 'meshsolve: error:'.")


def parser():
    """Make the parser of the command line; ``args.run`` is the command's function."""
    from meshsolve.version import __version__

    parser = _Parser(
        prog="meshsolve", formatter_class=_Paragraphs,
        description="Fast sparse solvers for meshes, graphs and circuits.\n\n"
                    "The file name - stands for standard input or standard output; write ./- for a file named -.",
        epilog=f"Help for a command: meshsolve COMMAND --help\n\n{EXIT_CODES}")
    parser.add_argument("--version", action="version", version=f"meshsolve {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name, run, add_arguments, example in (
            ("mcf", run_mcf, _mcf_arguments, "scan.ply -o smooth.ply --steps 2 --render picture.png"),
            ("smooth", run_smooth, _smooth_arguments, "scan.ply -o smooth.ply --render picture.png"),
            ("denoise", run_denoise, _denoise_arguments, "part.ply -o clean.ply --sigma 0.35 --render picture.png"),
            ("spectrum", run_spectrum, _spectrum_arguments, "scan.ply -o modes.ply -k 20 --report eigenvalues.json"),
            ("geodesics", run_geodesics, _geodesics_arguments, "scan.ply --source 0 -o distance.ply --render picture.png"),
            ("param", run_param, _param_arguments, "face.ply -o face.obj --method arap --render picture.png"),
            ("batch", run_batch, _batch_arguments, "scans/ --do smooth -o smoothed/"),
            ("solve", run_solve, _solve_arguments, "A.mtx b.mtx -o x.mtx"),
            ("order", run_order, _order_arguments, "A.mtx --method nd --stats --perm perm.txt"),
            ("circuit", run_circuit, _circuit_arguments, "rectifier.sp -o rectifier.csv --plot rectifier.png"),
            ("view", run_view, _view_arguments, "scan.ply --show separators --screenshot separators.png"),
            ("info", run_info, _info_arguments, "scan.ply"),
            ("completion", run_completion, _completion_arguments, "bash > ~/.local/share/bash-completion/completions/meshsolve")):
        title, _, more = run.__doc__.partition("\n")
        command = commands.add_parser(
            name, formatter_class=_Paragraphs, help=title.removesuffix("."),
            description=f"{title}\n\n{' '.join(more.split())}".strip(),
            epilog=f"Example: meshsolve {name} {example}\n\n{EXIT_CODES}")
        command.set_defaults(run=run)
        add_arguments(command)
        if run not in (run_batch, run_completion):
            command.add_argument("--input-format", type=_format, metavar="EXT",
                                 help="format of standard input (-), as ply or mtx (default: by its first bytes)")
            command.add_argument("--format", type=_format, metavar="EXT", help="format of standard output (-), as ply or mtx")
        if run is run_completion:
            command.set_defaults(threads=None, quiet=True)
            continue
        command.add_argument("--threads", type=_integer(1), metavar="N", help=f"{THREADS.get(name, 'number of threads')} (default: "
                             "MESHSOLVE_NUM_THREADS, or all cores); results do not depend on it")
        command.add_argument("--quiet", action="store_true", help=QUIET.get(name, "print no progress bar and no table"))
    return parser


def with_task(argv):
    """Return the words of a command line, with ``batch smooth FOLDER`` spelled as ``batch --do smooth FOLDER``."""
    words = list(argv)
    is_first = words[:1] == ["batch"] and words[1:2] and words[1] in TASKS
    return ["batch", "--do", *words[1:]] if is_first and not any(word.startswith("--do") for word in words) else words


class _Paragraphs(argparse.HelpFormatter):
    """Keeps empty lines between paragraphs of a description."""

    def _fill_text(self, text, width, indent):
        return "\n\n".join(argparse.HelpFormatter._fill_text(self, part, width, indent) for part in text.split("\n\n"))


class _Parser(argparse.ArgumentParser):
    """Reports wrong usage in one line, followed by the command for help."""

    def error(self, message):
        self.exit(2, f"meshsolve: error: {message}\ntry: {self.prog} --help\n")


def _mcf_arguments(parser):
    _mesh_arguments(parser)
    parser.add_argument("--steps", type=_integer(1), default=1, metavar="N",
                        help="number of steps; 1 or 2 remove noise, more steps shrink the surface, thin parts first (default: 1)")
    parser.add_argument("--dt", type=_time_step, default="auto", metavar="auto|X",
                        help="time step in squared units of length; larger steps smooth more. auto: the squared mean edge length, "
                             "or with --conformal 0.002 times the area (default: auto)")
    parser.add_argument("--conformal", action="store_true",
                        help="use the conformalized flow of Kazhdan, Solomon and Ben-Chen (2012): thin parts do not pinch off, and "
                             "a closed surface of genus 0 becomes a round sphere")
    _kept_arguments(parser, None, "fixed; with --conformal every vertex moves")
    _factor_arguments(parser)


def _mesh_arguments(parser):
    _output(parser, "OUT", f"output mesh ({', '.join(WRITABLE)}); may be the same file as MESH")
    _mesh(parser)
    _picture(parser, "the mesh before and after")


def _mesh(parser, several=True):
    """One mesh, or ``several``: then ``args.mesh`` is a list, and cli/many.py runs the command on each."""
    what = f"({', '.join(READABLE)}; also compressed: .ply.gz)"
    if several:
        parser.add_argument("mesh", nargs="+", metavar="MESH",
                            help=f"input mesh {what}; several meshes, or a quoted pattern such as 'scans/*.ply', if OUT is a folder (OUT/)")
    else:
        parser.add_argument("mesh", metavar="MESH", help=f"input mesh {what}")


def _smooth_arguments(parser):
    _mesh_arguments(parser)
    parser.add_argument("--strength", type=_non_negative, default=0.25, metavar="S",
                        help="0.25 removes most noise between neighboring vertices, 1 nearly all of it, but thin parts of coarse models "
                             "wear off; 10 or 100 also remove bumps a few edges wide (default: 0.25)")
    parser.add_argument("--order", type=int, choices=(1, 2), default=2,
                        help="1: Laplacian, which shrinks; 2: bi-Laplacian, which keeps volume and slopes (default: 2)")
    _kept_arguments(parser, "fixed", "fixed")
    _factor_arguments(parser)


def _kept_arguments(parser, boundary, default):
    parser.add_argument("--boundary", choices=("fixed", "free"), default=boundary,
                        help=f"whether vertices on the boundary stay; free borders run inwards (default: {default})")
    parser.add_argument("--fixed", nargs="+", metavar="V|FILE", help="vertices that stay: numbers from 0, or a file of them (.txt, .npy)")
    parser.add_argument("--keep", choices=("volume", "area"),
                        help="scale the result to the volume of the input, or to its area; if vertices stay, the others move outwards "
                             "or inwards instead")


def _denoise_arguments(parser):
    _mesh_arguments(parser)
    parser.add_argument("--method", choices=("bilateral", "guided"), default="bilateral",
                        help="filter of the normals; guided is slower, and better against strong noise (default: bilateral)")
    parser.add_argument("--sigma", type=_positive, default=0.35, metavar="S",
                        help="difference of unit normals that still counts as noise, about the angle of the noise in radians; larger "
                             "values also smooth weak creases (default: 0.35)")
    parser.add_argument("--iterations", type=_integer(0), default=20, metavar="N",
                        help="passes over the normals, and over the positions (default: 20)")
    parser.add_argument("--boundary", choices=("fixed", "free"), default="free",
                        help="whether vertices on the boundary stay (default: free)")
    _report_argument(parser)


def _spectrum_arguments(parser):
    _output(parser, "OUT", "eigenvalues (.txt), eigenvalues and eigenfunctions (.npz), or the mesh with the eigenfunctions as properties "
                           "of its vertices (.ply, .vtu, .vtp, .vtk, each also with .gz)")
    _mesh(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-k", "--count", type=_integer(1), default=10, metavar="N", help="number of eigenvalues (default: 10)")
    which.add_argument("--interval", type=float, nargs=2, metavar=("LO", "HI"), help="compute all eigenvalues w with LO <= w < HI")
    parser.add_argument("--laplacian", choices=("cotan", "graph"), default="cotan",
                        help="cotan: of the surface; graph: every edge has weight 1, every vertex mass 1 (default: cotan)")
    parser.add_argument("--dirichlet", action="store_true",
                        help="eigenfunctions are 0 on the boundary; otherwise their slope across it is 0")
    _picture(parser, "the last eigenfunction")
    _device_argument(parser)
    _report_argument(parser, "write the eigenvalues, and times and sizes of each phase,")


def _geodesics_arguments(parser):
    _output(parser, "OUT", "distances, one row for each vertex (.txt, .npy, .npz, .mtx, .mtx.gz), or the mesh with the distances as "
                           "properties of its vertices (.ply, .vtu, .vtp, .vtk, each also with .gz)")
    _mesh(parser)
    start = parser.add_mutually_exclusive_group(required=True)
    start.add_argument("--source", type=_integer(0), nargs="+", metavar="V", help="source vertices; distances are those to the nearest one")
    start.add_argument("--curve", nargs="+", action="append", metavar="V|FILE",
                       help="compute signed distances to a path of vertices along edges, given by numbers or by a file of them (.txt, "
                            ".npy); a closed path ends with its first vertex; repeat --curve for several")
    result = parser.add_mutually_exclusive_group()
    result.add_argument("--each", action="store_true", help="compute the distances to each source alone, one column for each")
    result.add_argument("--transport", type=float, nargs=3, metavar=("X", "Y", "Z"),
                        help="transport this vector, which is projected to the tangent plane of each source, to all vertices, in parallel "
                             "along shortest paths")
    result.add_argument("--log-map", choices=("vector", "affine"), nargs="?", const="vector",
                        help="compute the logarithmic map of one source: coordinates in its tangent plane, by length and direction of "
                             "shortest paths. affine: the affine heat method, best near the source (default: vector)")
    parser.add_argument("--t", type=_time_step, default="auto", metavar="auto|X",
                        help="time of the heat flow in squared units of length; larger times give smoother distances. auto: the squared "
                             "mean edge length (default: auto)")
    _picture(parser, "the distances, with lines of equal distance")
    _device_argument(parser)
    _report_argument(parser)


def _param_arguments(parser):
    _output(parser, "OUT.obj", "output mesh with texture coordinates (.obj, .obj.gz)")
    _mesh(parser)
    parser.add_argument("--method", choices=MAPS, default="lscm",
                        help="harmonic: boundary on the unit circle; lscm: angles in the least-squares sense; conformal: angles, by an "
                             "eigenproblem; arap: lengths; slim: lengths, without flips (default: lscm)")
    parser.add_argument("--weights", choices=("cotan", "uniform"), default="cotan",
                        help="weights of the harmonic map; with uniform no face is flipped (default: cotan)")
    parser.add_argument("--cut", action="store_true", help="cut closed surfaces, holes and handles to a disc first")
    _picture(parser, "the surface with a checkerboard, and its map")
    _device_argument(parser)
    _report_argument(parser, "write flipped faces, distortions and times")


def _batch_arguments(parser):
    parser.add_argument("folder", type=_folder, metavar="FOLDER", help=f"folder with meshes ({', '.join(READABLE)}, each also with .gz)")
    parser.add_argument("--do", choices=TASKS, required=True, metavar="|".join(TASKS),
                        help="the task. smooth: remove noise, as meshsolve smooth; spectrum: the smallest eigenvalues and "
                             "eigenfunctions of the Laplacian; geodesics: the distances of all vertices from one. The name of the "
                             "task may also come first: meshsolve batch smooth FOLDER -o OUT")
    _output(parser, "OUT", kind=_folder, what="folder for the results, made if it does not exist: a file for each mesh, and rows.jsonl "
                                              "with a line for each")
    parser.add_argument("--strength", type=_non_negative, default=0.25, metavar="S",
                        help="strength of --do smooth; larger values smooth more (default: 0.25)")
    parser.add_argument("--boundary", choices=("fixed", "free"), default="fixed",
                        help="whether vertices on the boundary stay in --do smooth; free borders run inwards (default: fixed)")
    parser.add_argument("-k", "--count", type=_integer(1), default=10, metavar="N",
                        help="number of eigenvalues of --do spectrum (default: 10)")
    parser.add_argument("--source", type=_integer(0), default=0, metavar="V", help="source vertex of --do geodesics (default: 0)")
    parser.add_argument("--again", choices=("errors", "none", "all"), default="errors",
                        help="meshes of an earlier run into OUT that are computed again: those that failed, none, or all (default: errors)")


def _output(parser, metavar, what, kind=str):
    parser.add_argument("-o", "--output", type=kind, required=True, metavar=metavar, help=what)


def _picture(parser, what):
    parser.add_argument("--render", metavar="PNG", help=f"also write a picture of {what}")


def _factor_arguments(parser):
    parser.add_argument("--precision", choices=("double", "single", "mixed"), default="double",
                        help="precision of the factorization; mixed: factorize in single precision and refine solutions to "
                             "double (default: double)")
    _device_argument(parser)
    _report_argument(parser)


def _solve_arguments(parser):
    parser.add_argument("matrix", metavar="A.mtx",
                        help="matrix A: Matrix Market (.mtx, .mtx.gz), scipy.sparse.save_npz (.npz) or dense numpy (.npy)")
    parser.add_argument("rhs", metavar="b.mtx",
                        help="right-hand side b with one or more columns: .mtx, .npy, .npz or .txt")
    parser.add_argument("-o", "--output", required=True, metavar="x.mtx",
                        help="output file for the solution x: .mtx, .npy, .npz or .txt")
    parser.add_argument("--method", choices=("auto", "cholesky", "lu", "ildl", "ilu", "parac"), default="auto",
                        help="cholesky: A is symmetric positive definite, or a Laplacian; parac: likewise, with an approximate "
                             "factor and iterations, for large graphs; ildl: A is symmetric; lu: any A; ilu: any A, with an "
                             "incomplete factor and GMRES; auto: one that fits A "
                             "(default: auto)")
    parser.add_argument("--memory", choices=("ram", "disk"), default="ram",
                        help="where the factor lies; disk: in a temporary file, for a symmetric positive definite A whose factor is larger "
                             "than the main memory (default: ram)")
    parser.add_argument("--folder", metavar="DIR",
                        help="folder of the temporary file of --memory disk, best on a fast local disk (default: the system's folder for "
                             "temporary files)")
    _device_argument(parser)
    _report_argument(parser)


def _order_arguments(parser):
    parser.add_argument("input", metavar="A.mtx|MESH",
                        help=f"matrix ({', '.join(MATRIX_SUFFIXES)}; only its pattern is used, as A + A^T) or mesh "
                             f"({', '.join(READABLE)})")
    parser.add_argument("--method", choices=names(), default="nd",
                        help="; ".join(f"{name}: {METHODS[name].about}" for name in names()) + " (default: nd)")
    parser.add_argument("--perm", metavar="FILE",
                        help="output file for the permutation, one row index per line (.npy: binary)")
    parser.add_argument("--parts", type=_integer(1), metavar="K",
                        help="also divide the rows into K parts of nearly equal size with few entries between them")
    parser.add_argument("--part", metavar="FILE",
                        help="output file for the parts: the number of each row's part, from 0, one per line (.npy: binary)")
    parser.add_argument("--stats", action="store_true", help="also print the time of each phase and more sizes")
    parser.add_argument("--blocks", type=_integer(2), metavar="ROWS", nargs="?", const=32,
                        help="also print the numbers of blocks and level sets of incomplete factors in tiles of ROWS rows; "
                             "for symmetric matrices (ROWS by default: 32)")
    parser.add_argument("--seed", type=_integer(0), default=0, metavar="N",
                        help="random seed of the ordering (default: 0)")
    _report_argument(parser)


def _circuit_arguments(parser):
    parser.add_argument("deck", metavar="NETLIST",
                        help="SPICE netlist (also compressed: .gz) of R, C, L, V, I, diodes, linear E, F, G, H, B sources and "
                             "subcircuits")
    parser.add_argument("-o", "--output", type=_file_or_output, metavar="OUT.csv",
                        help="output table (default, or -: standard output)")
    parser.add_argument("--plot", metavar="PNG", help="also write a plot of the results")
    parser.add_argument("--analysis", choices=("tran", "ac", "dc", "op"),
                        help="analysis to run (default: the first of these that the netlist has a line for, or op)")
    _report_argument(parser)


def _view_arguments(parser):
    _mesh(parser, several=False)
    names = ", ".join(repr(view) if " " in view else view for view in VIEWS)
    parser.add_argument("--show", choices=VIEWS, default="plain", metavar="VIEW", help=f"initial view: {names} (default: plain)")
    parser.add_argument("--screenshot", metavar="PNG", help="write a picture instead of opening a window")
    parser.add_argument("--turntable", metavar="DIR",
                        help="write pictures of a full turn around the mesh into this folder: frame_000.png and so on")
    parser.add_argument("--frames", type=_integer(2), default=72, metavar="N",
                        help="number of pictures of --turntable (default: 72)")
    parser.add_argument("--size", type=_pixels, default=(1440, 900), metavar="WxH",
                        help="size of the window or the pictures, in pixels (default: 1440x900)")
    parser.add_argument("--up", choices=("y", "z"), default="y", help="axis that points up (default: y)")
    _report_argument(parser, "write the sizes of the mesh")


def _info_arguments(parser):
    parser.add_argument("input", nargs="*", metavar="FILE",
                        help=f"meshes ({', '.join(READABLE)}), matrices ({', '.join(MATRIX_SUFFIXES)}) or netlists "
                             f"({', '.join(NETLIST_SUFFIXES)}), also patterns such as '*.mtx'; without FILE: versions, threads and GPU of "
                             "this installation")
    _report_argument(parser, "write the same facts")


def _completion_arguments(parser):
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="the shell")


def _device_argument(parser):
    parser.add_argument("--device", choices=DEVICES, default="auto",
                        help="device of the computation; auto: a GPU (cuda) if present, for at least 100,000 rows or vertices "
                             "(default: auto)")


def _report_argument(parser, what="write times and sizes of each phase"):
    parser.add_argument("--report", metavar="JSON", help=f"{what} to this file, as JSON")


def _folder(text):
    if text == "-":
        raise argparse.ArgumentTypeError("a folder cannot be standard input or output; write ./- for a folder named -")
    return text


def _file_or_output(text):
    return None if text == "-" else text


def _format(text):
    if not text.strip(".") or not all(part.isalnum() for part in text.removeprefix(".").split(".")):
        raise argparse.ArgumentTypeError(f"must be a suffix such as ply or mtx.gz, got {text!r}")
    return text.lower()


def _integer(least):
    def parse(text):
        if not text.isdecimal() or not least <= int(text) < 2**31:
            raise argparse.ArgumentTypeError(f"must be an integer of at least {least}, got {text!r}")
        return int(text)
    return parse


def _pixels(text):
    width, x, height = text.partition("x")
    if not (x and width.isdecimal() and height.isdecimal() and all(64 <= int(side) <= 8192 for side in (width, height))):
        raise argparse.ArgumentTypeError(f"must be WIDTHxHEIGHT, each from 64 to 8192, got {text!r}")
    return int(width), int(height)


def _non_negative(text):
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number >= 0, got {text!r}")
    return value


def _positive(text, or_auto=""):
    with contextlib.suppress(ValueError, argparse.ArgumentTypeError):
        value = _non_negative(text)
        if value > 0:
            return value
    raise argparse.ArgumentTypeError(f"must be {or_auto}a number above 0, got {text!r}")


def _time_step(text):
    return text if text == "auto" else _positive(text, "auto or ")
