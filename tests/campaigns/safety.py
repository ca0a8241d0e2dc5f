"""Attacks on memory: damaged sparse matrices, pickles and files. Oracles: checks in plain Python, bits of undamaged objects, identities."""

import functools
import gzip
import io
import json
import os
import pathlib
import pickle
import tempfile
import warnings

import numpy as np
import scipy.sparse as sp
from endurance.mutations import mutate

import meshsolve as ms
from campaigns.table import attack, well_posed
from meshsolve import _core
from meshsolve.order import nested, space
from meshsolve.sparse.matrix import symmetric_pattern

N = 6
FORMATS = ("csr", "csc", "bsr", "coo", "dia", "lil", "dok")
ODD = [-1, -2**31, 2**31 - 1, 2**31, 400_000_000, -2**62, 2**62, 0, 1, N, N + 1]


# ---- damaged sparse matrices ----------------------------------------------------------------------------------------------------


def definite():
    return sp.csr_array(np.diag(np.full(N, 9.0)) + np.eye(N, k=1) + np.eye(N, k=-1) + np.eye(N, k=3) + np.eye(N, k=-3))


@functools.cache
def shared():
    """Objects whose methods take matrices."""
    A, U = definite(), sp.csr_array(definite() + sp.eye_array(N, k=2))
    return {"F": ms.cholesky(A), "U": ms.lu(U), "K": ms.ildl(A), "S": ms.analyze(A), "N": ms.operators.NormalEquations(A),
            "Q": ms.Quadratic(A), "C": ms.schur_complement(A, [0, 2])}


b = np.ones(N)
CALLS = {
    "cholesky": ms.cholesky, "lu": ms.lu, "ildl": ms.ildl, "ilu": ms.ilu, "parac": ms.parac, "analyze": ms.analyze, "factorized": ms.factorized,
    "solve": lambda A: ms.solve(A, b), "spsolve": lambda A: ms.spsolve(A, b), "schur": lambda A: ms.schur_complement(A, [0, 3]),
    "cg": lambda A: ms.cg(A, b), "gmres": lambda A: ms.gmres(A, b), "sqmr": lambda A: ms.sqmr(A, b),
    "cg M": lambda A: ms.cg(definite(), b, M=A), "gmres M": lambda A: ms.gmres(definite(), b, M=A), "sqmr M": lambda A: ms.sqmr(definite(), b, M=A),
    "cg M fixed": lambda A: ms.cg(definite(), b, M=A, fixed=[1]), "gmres M fixed": lambda A: ms.gmres(definite(), b, M=A, fixed=[1]),
    "gmres M complex": lambda A: ms.gmres(definite() * (1 + 1j), b, M=A), "cg fixed": lambda A: ms.cg(A, b, fixed=[2]),
    "update": lambda A: ms.cholesky(definite()).update(A), "downdate": lambda A: ms.cholesky(definite()).downdate(A),
    "update fixed": lambda A: ms.cholesky(definite(), fixed=[2]).update(A), "refactor": lambda A: shared()["F"].refactor(A),
    "lu refactor": lambda A: shared()["U"].refactor(A), "ildl refactor": lambda A: shared()["K"].refactor(A), "schur refactor": lambda A: shared()["C"].refactor(A),
    "values_of": lambda A: shared()["S"].values_of(A), "Symbolic.factor": lambda A: shared()["S"].factor(A),
    "sparse b": lambda A: shared()["F"].solve(A), "sparse b of lu": lambda A: shared()["U"].solve(A), "sparse b of solve": lambda A: ms.solve(definite(), A),
    "NormalEquations": ms.operators.NormalEquations, "NormalEquations()": lambda A: shared()["N"](A),
    "Quadratic": ms.Quadratic, "Aeq": lambda A: ms.Quadratic(definite(), Aeq=A).minimize(b), "eigsh": lambda A: ms.eigsh(A, 2), "eigsh M": lambda A: ms.eigsh(definite(), 2, A),
    "nd": ms.order.nested_dissection, "amd": ms.order.amd, "auto": ms.order.auto, "rcm": ms.order.rcm, "partition": lambda A: ms.order.partition(A, 2),
    "PatchMesh": ms.PatchMesh, "graph_laplacian": ms.graph_laplacian, "normalized": ms.normalized_laplacian,
    "pagerank": ms.apps.pagerank, "embedding": lambda A: ms.apps.spectral_embedding(A, 1), "labels": lambda A: ms.apps.label_propagation(A, [0, 1], [0, 1]),
    "resistances": lambda A: ms.apps.effective_resistances(A, [[0, 1]]),
}


def odd(rng, x):
    """An array with one other number, another length, order, type or shape."""
    x = np.array(x)
    how = int(rng.integers(8))
    if how == 0 and x.size:
        x = x.astype(np.int64) if rng.random() < 0.3 and x.dtype.kind == "i" else x
        value = ODD[rng.integers(len(ODD))]
        if x.dtype.kind not in "iu" or np.iinfo(x.dtype).min <= value <= np.iinfo(x.dtype).max:
            x.reshape(-1)[rng.integers(x.size)] = value
    elif how == 1:
        x = x[:len(x) - int(rng.integers(1, 4))]
    elif how == 2:
        x = np.concatenate([x, x[:2]])
    elif how == 3:
        x = x[::-1]
    elif how == 4:
        x = x.astype(str(rng.choice(["f8", "u8", "i2", "O", ">i4", "u1", "c16", "f2"])))
    elif how == 5:
        x = x.reshape(1, -1)
    elif how == 6:
        x = x[rng.permutation(len(x))]
    else:
        x = x[:0]
    return x


def damaged(rng):
    """(sparse matrix of any format with a changed array, its format)."""
    kind = str(rng.choice(FORMATS))
    A = (sp.bsr_array(definite(), blocksize=(2, 3)) if kind == "bsr" else definite().asformat(kind))
    A = A if rng.random() < 0.7 else {"csr": sp.csr_matrix, "csc": sp.csc_matrix, "coo": sp.coo_matrix}.get(kind, lambda x: x)(A)
    for _ in range(int(rng.integers(1, 3))):
        if kind in ("csr", "csc", "bsr"):
            part = str(rng.choice(["indptr", "indices", "data"]))
            setattr(A, part, odd(rng, getattr(A, part)))
        elif kind == "coo":
            if rng.random() < 0.7:
                parts = list(A.coords)
                parts[k] = odd(rng, parts[k := int(rng.integers(len(parts)))])
                A.coords = tuple(parts)
            else:
                A.data = odd(rng, A.data)
        elif kind == "dia":
            part = str(rng.choice(["offsets", "data"]))
            setattr(A, part, odd(rng, getattr(A, part)))
        elif kind == "lil":
            (A.rows if rng.random() < 0.6 else A.data)[rng.integers(N)] = [[], [N + 5], [-1], [0, 1, 2**40], None, ["x"], [0.5, 1]][rng.integers(7)]
        else:
            A._dict[[(N, 0), (-1, 0), (0, 2**40), (0,), "x", (0.5, 1)][rng.integers(6)]] = [1.0, "x", None][rng.integers(3)]
    if rng.random() < 0.1:
        A._shape = ((N + 2, N + 2), (N - 1, N - 1), (N,))[rng.integers(3)]
    return A, kind


def is_surely_invalid(A, kind):
    """True if plain Python finds that the arrays of compressed rows or columns, or of coordinates, form no matrix."""
    if kind in ("csr", "csc", "bsr"):
        if A.indptr.ndim != 1 or A.indices.ndim != 1 or A.indptr.dtype.kind not in "iu" or A.indices.dtype.kind not in "iu" or len(A._shape) != 2:
            return True
        pointers, indices = A.indptr.tolist(), A.indices.tolist()
        if A.data.ndim != (3 if kind == "bsr" else 1):
            return True
        rows, columns = A._shape if kind != "csc" else A._shape[::-1]
        if kind == "bsr":
            rows, columns = rows / A.data.shape[1], columns / A.data.shape[2]
        if len(pointers) != rows + 1 or pointers[0] != 0 or pointers[-1] > len(indices) or len(indices) != len(A.data):
            return True
        return any(x > y for x, y in zip(pointers, pointers[1:], strict=False)) or any(not 0 <= j < columns for j in indices[:pointers[-1]])
    if kind == "coo":
        if any(x.ndim != 1 or x.dtype.kind not in "iu" or len(x) != len(A.data) for x in A.coords) or len(A._shape) != 2 or A.data.ndim != 1:
            return True
        return any(not 0 <= i < size for x, size in zip(A.coords, A._shape, strict=True) for i in x.tolist())
    return False


@attack("cholesky", "lu", "ildl", "ilu", "parac", "cg", "gmres", "sqmr", "CholeskyFactor.update", "CholeskyFactor.downdate", "Quadratic",
        "operators.NormalEquations", "eigsh", "analyze", "solve", "schur_complement", "PatchMesh", "graph_laplacian", quick=300)
def structure(rng):
    """Arrays of every sparse format with other numbers, lengths, types. Oracle: plain Python says which form no matrix."""
    A, kind = damaged(rng)
    name = str(rng.choice(list(CALLS)))
    bad = is_surely_invalid(A, kind)
    CALLS[name](A)
    assert not bad, f"{name} accepted a damaged {kind}"


# ---- pickles --------------------------------------------------------------------------------------------------------------------


@functools.cache
def pickled():
    """{name: (object, what it computes)}."""
    A, L = ms.datasets.grid2d(5, 5, boundary="dirichlet"), ms.datasets.grid2d(5, 5)
    U, K = sp.csr_array(A + 0.1 * sp.eye_array(25, k=1)), sp.csr_array(A - 1.5 * sp.eye_array(25))
    mesh, x = ms.datasets.icosphere(1), np.arange(25.0)

    def solve(F):
        return F.solve(x)

    made = {"cholesky": (ms.cholesky(A, "nd"), solve), "fixed": (ms.cholesky(A, fixed=[1, 3]), solve), "parac": (ms.parac(L), lambda F: F.solve(x - 12)),
            "lu": (ms.lu(U, engine="fronts"), solve), "columns": (ms.lu(U, engine="columns"), solve), "ildl": (ms.ildl(K, fill_level=None), solve),
            "incomplete": (ms.ildl(K, fill_level=1), solve), "ilu": (ms.ilu(U), solve), "analysis": (ms.analyze(A), lambda S: S.factor(A).solve(x)),
            "ordering": (ms.order.nested_dissection(A), lambda o: o.perm), "patches": (ms.PatchMesh(mesh, 16), lambda P: P.query("VV")[1]),
            "mesh": (mesh, lambda m: ms.cotan_laplacian(m).data), "normal": (ms.operators.NormalEquations(U), lambda P: P(U).data),
            "schur": (ms.schur_complement(A, [1, 2]), lambda S: S.matrix), "quadratic": (ms.Quadratic(A), lambda Q: Q.minimize(x, lower=-1)[0])}
    return {name: (pickle.dumps(F, 5), pickle.dumps(F, 4), use, use(F)) for name, (F, use) in made.items()}


@attack("CholeskyFactor", "LUFactor", "IldlFactor", "ParacFactor", "IluFactor", "Symbolic", "PatchMesh", "Mesh", quick=150)
def pickles(rng):
    """Flipped bits, lost and repeated bytes in pickles. Oracle: an error, or the bits of the undamaged object."""
    *contents, use, wanted = pickled()[str(rng.choice(list(pickled())))]
    content = contents[rng.integers(2)]
    if rng.random() < 0.1:
        assert np.array_equal(use(pickle.loads(content)), wanted)
        return
    data = bytearray(content)
    how = rng.integers(4)
    if how < 2:
        for at in rng.integers(len(data), size=int(rng.choice([1, 3, 20]))):
            data[at] ^= 1 << int(rng.integers(8))
    else:
        at, length = int(rng.integers(len(data))), int(rng.choice([1, 8, 100]))
        data[at:at + length] = b"" if how == 2 else data[at:at + length] * 2
    try:
        again = pickle.loads(bytes(data))
    except ms.MeshsolveError:
        raise
    except Exception:                                       # Python's own, of a pickle that cannot be read
        return
    if type(again).__module__.startswith("meshsolve"):
        assert np.array_equal(use(again), wanted), "a damaged pickle gave other numbers"


# ---- files ----------------------------------------------------------------------------------------------------------------------


@functools.cache
def files():
    """{suffix: contents} of good files."""
    A, out = definite(), {}
    for kind in ("csr", "csc", "coo", "bsr", "dia"):
        for packed in (True, False):
            file = io.BytesIO()
            sp.save_npz(file, A.asformat(kind), compressed=packed)
            out.setdefault(".npz", []).append(file.getvalue())
    for x in (np.eye(3), np.asfortranarray(np.ones((2, 3)) * 1j), np.arange(4), np.zeros((0, 3))):
        file = io.BytesIO()
        np.save(file, x)
        out.setdefault(".npy", []).append(file.getvalue())
    out[".mtx"] = [b"%%MatrixMarket matrix coordinate real symmetric\n% c\n3 3 4\n1 1 4\n2 1 -1\n2 2 5e0\n3 3 1\n",
                   b"%%MatrixMarket matrix array complex general\n2 1\n1 2\n3 4\n"]
    out[".mtx.gz"] = [gzip.compress(x) for x in out[".mtx"]]
    return out


@attack("datasets.load_matrix", quick=300)
def matrix_files(rng):
    """Mutated bytes of .npz of all formats, .npy and Matrix Market. Oracle: a matrix whose entries lie inside, or a refusal."""
    suffix = str(rng.choice(list(files())))
    content = files()[suffix][rng.integers(len(files()[suffix]))]
    content = mutate(content, rng, files()[suffix]) if rng.random() < 0.95 else content
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"a{suffix}"
        path.write_bytes(content)
        A = ms.datasets.load_matrix(path)
    if sp.issparse(A):
        A.check_format(full_check=True)
    assert A.dtype in (np.float64, np.complex128)


@attack("datasets.load_matrix", quick=150)
def npz_arrays(rng):
    """scipy's .npz with damaged arrays. Oracle: plain Python says which form no matrix."""
    A, kind = damaged(rng)
    if kind in ("lil", "dok"):
        return
    bad = is_surely_invalid(A, kind)
    parts = {"row": A.coords[0], "col": A.coords[1]} if kind == "coo" and len(A.coords) == 2 else {}
    names = {"csr": ("indptr", "indices"), "csc": ("indptr", "indices"), "bsr": ("indptr", "indices"), "dia": ("offsets",)}.get(kind, ())
    file = io.BytesIO()
    np.savez(file, format=np.array(kind.encode()), shape=np.array(A._shape), data=A.data, **parts, **{name: getattr(A, name) for name in names})
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "a.npz"
        path.write_bytes(file.getvalue())
        B = ms.datasets.load_matrix(path)
    B.check_format(full_check=True)
    assert not bad, f"a damaged {kind} was read"


@attack("load_mesh", quick=60)
def names_of_buffers(rng):
    """A glTF that names files inside and outside of its folder. Oracle: the path after links; numbers of a file outside never come back."""
    step = ["..", "%2e%2e", ".", "x", "%2E.", "..\\", "a%2fb", "link", "C:", "file:", "//"]
    with tempfile.TemporaryDirectory() as top:
        home = pathlib.Path(top) / "in"
        (home / "x").mkdir(parents=True)
        os.symlink("..", home / "link")
        for folder, first in ((home, 1.0), (home / "x", 1.0), (pathlib.Path(top), 7.0)):
            np.float32([[first, 0, 0], [0, 1, 0], [0, 0, 1]]).tofile(folder / "b.bin")
        uri = "/".join([*rng.choice(step, int(rng.integers(0, 4))), "b.bin"])
        uri = str(pathlib.Path(top) / "b.bin") if rng.random() < 0.05 else uri
        g = {"asset": {"version": "2.0"}, "buffers": [{"byteLength": 36, "uri": uri}], "bufferViews": [{"buffer": 0, "byteLength": 36}],
             "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
             "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}], "nodes": [{"mesh": 0}], "scenes": [{"nodes": [0]}]}
        (home / "a.gltf").write_text(json.dumps(g))
        plain = uri in ("b.bin", "x/b.bin", "./b.bin")
        if plain:
            with well_posed(uri):
                mesh = ms.load_mesh(home / "a.gltf")
        else:
            mesh = ms.load_mesh(home / "a.gltf")
        assert mesh.vertices.max() == 1, f"{uri} has read a file outside"


@attack("apps.circuit.parse", "apps.circuit.read", quick=6)
def doubling(rng):
    """Subcircuits and files that contain each other twice. Oracle: 2^k resistors in parallel, or a refusal beyond a million."""
    depth = int(rng.choice([0, 1, 5, 10, 30, 49]))
    with tempfile.TemporaryDirectory() as folder:
        if rng.random() < 0.5:
            lines = "".join(f".subckt s{k} a\nx1 a s{k - 1}\nx2 a s{k - 1}\n.ends\n" for k in range(1, depth + 1))
            deck = f"t\nV1 a 0 1\n.subckt s0 a\nR1 a 0 1k\n.ends\n{lines}X1 a s{depth}\n.op\n.end\n"
        else:
            for k in range(depth):
                (pathlib.Path(folder) / f"i{k}.sp").write_text(f".include i{k + 1}.sp\n" * 2)
            (pathlib.Path(folder) / f"i{depth}.sp").write_text("* nothing\n")
            deck = "t\nV1 a 0 1\nR1 a 0 1k\n.include i0.sp\n.op\n.end\n"
        path = pathlib.Path(folder) / "deck.sp"
        path.write_text(deck)
        count = 2**depth if "subckt" in deck else 1
        if depth <= 10:
            with well_posed(f"{depth} levels"):
                i = ms.apps.circuit.read(path).run_op()["i(v1)"] if hasattr(ms.apps.circuit, "run_op") else ms.apps.circuit.read(path).op()["i(v1)"]
            assert abs(i + count * 1e-3) < 1e-9 * count
        else:
            ms.apps.circuit.read(path)
            raise AssertionError(f"2^{depth} elements or files were read")


# ---- polygons and separators ----------------------------------------------------------------------------------------------------


@attack("load_mesh", quick=80)
def polygons(rng):
    """Polygons that visit vertices again, on a grid or anywhere. Oracle: k - 2 triangles of the polygon's corners with its area vector."""
    n, k = int(rng.integers(3, 12)), int(rng.choice([3, 4, 7, 30, 300, 3000]))
    V = rng.integers(0, 4, (n, 3)) * 1.0 if rng.random() < 0.5 else rng.standard_normal((n, 3))
    V[:, 2] *= rng.random() < 0.5
    corners = np.arange(k) % n if rng.random() < 0.3 else rng.integers(0, n, k)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        path = pathlib.Path(folder) / "a.off"
        rows = "\n".join(" ".join(map(repr, row)) for row in V.tolist())
        path.write_text(f"OFF\n{n} 1 0\n{rows}\n{k} {' '.join(map(str, corners.tolist()))}\n")
        polygon = ms.PolygonMesh.load(path)
    assert polygon is not None
    faces, _ = _core.triangulate(np.ascontiguousarray(V).reshape(-1), corners.astype(np.int32), np.array([k], np.int32))
    T = V[np.asarray(faces).reshape(-1, 3)]
    assert len(T) == k - 2
    area = np.cross(T[:, 1] - T[:, 0], T[:, 2] - T[:, 0]).sum(axis=0)
    P = V[corners] - V[corners[0]]
    wanted = np.cross(P, np.roll(P, -1, axis=0)).sum(axis=0)
    assert np.allclose(area, wanted, atol=1e-9 * max(abs(V).max(), 1) ** 2 * k), f"area {area} for {wanted}"


@attack("cholesky", "order.nested_dissection", quick=4)
def separators(rng):
    """Grids, neighbor graphs, pieces. Oracle: nnz(L) of the complete ordering is not below the bound of its largest separators."""
    n = int(rng.integers(5000, 9000))
    how = rng.integers(4)
    if how == 0:
        A = ms.datasets.grid3d(int(rng.integers(18, 22)))
    elif how == 1:
        A = ms.datasets.grid2d(int(rng.integers(70, 100)), int(rng.integers(60, 100)))
    else:
        from scipy.spatial import cKDTree
        X = rng.random((n, int(rng.integers(2, 5))))
        near = cKDTree(X).query(X, 7)[1][:, 1:]
        A = sp.csr_array((np.ones(near.size), (np.repeat(np.arange(n), 6), near.ravel())), shape=(n, n))
        A = sp.block_diag([A, ms.datasets.grid2d(30, 30)], format="csr") if how == 3 else A
    P = symmetric_pattern(A)
    exact = ms.analyze(A + A.T, ordering="nd").nnz
    stop = max(P.n // int(rng.choice([2, 8, 64])), 1)
    top = _core.nested_dissection(P.indptr, P.indices, patch_size=64, seed=0, threads=1, cheap=0.0, most=np.inf, stop=stop, **nested.EFFORTS["default"])
    bound = space.least_nonzeros(P, *top[:4])
    assert P.n <= bound <= exact, f"bound {bound} for {exact}"
