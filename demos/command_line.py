"""The command line of the demos: an input file that may be left out, -o for a picture, numbers with defaults; and reading it."""

import argparse

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

import meshsolve as ms


def options(doc, arguments, file, about, **numbers):
    """What was given. The first line of ``doc`` describes the demo, ``about`` its ``file``; ``numbers`` are --name INTEGER."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument(file, nargs="?", help=about)
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    return parser.parse_args(arguments)


def run(main):
    """The demo from a shell: what is refused, here or by who it calls, ends it in one line."""
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        raise SystemExit(f"error: {e}") from None


def read(reader, path):
    """What ``reader`` makes of a file; where it refuses, its words and no traceback."""
    try:
        return reader(path)
    except ms.MeshsolveError as e:
        raise SystemExit(str(e)) from None


def surface(path, one_piece=False):
    """The mesh of a file without vertices of no face, which have no area; the piece of most faces alone, if asked for."""
    mesh = read(ms.load_mesh, path)
    kept = np.bincount(mesh.faces.ravel(), minlength=len(mesh.vertices)) > 0
    if one_piece:
        kept &= mesh.components == np.bincount(mesh.components[mesh.faces[:, 0]]).argmax()
    if kept.all():
        return mesh
    print(f"left out: {np.count_nonzero(~kept)} of {len(kept)} vertices, in no face" + " or not in the largest piece" * one_piece)
    number = np.cumsum(kept) - 1
    return ms.Mesh(mesh.vertices[kept], number[mesh.faces[kept[mesh.faces[:, 0]]]])


def connected_graph(path):
    """The Laplacian of the largest component of a graph in a Matrix Market file: of an entry off the diagonal the modulus is the
    weight, so a matrix of weights and a Laplacian are both taken."""
    A = abs(sp.coo_array(read(ms.datasets.load_matrix, path)))
    if A.shape[0] != A.shape[1]:
        raise SystemExit(f"{path}: the matrix of a graph is square, not {A.shape}")
    off = A.row != A.col
    W = sp.coo_array((A.data[off], (A.row[off], A.col[off])), shape=A.shape).tocsr()
    W = W.maximum(W.T)
    W.eliminate_zeros()
    of = connected_components(W, directed=False)[1]
    kept = np.flatnonzero(of == np.bincount(of).argmax())
    if len(kept) < len(of):
        print(f"left out: {len(of) - len(kept)} of {len(of)} vertices, not in the largest component")
        W = W[kept][:, kept]
    return sp.csr_array(sp.diags_array(W.sum(axis=1)) - W)
