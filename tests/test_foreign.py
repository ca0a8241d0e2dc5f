"""Matrices and arrays of other libraries are read, or refused with the call that converts them; results go into their arrays."""

import array

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each

import meshsolve as ms
from meshsolve import foreign

N = 30
A, L = ms.datasets.grid2d(6, 5, boundary="dirichlet"), ms.datasets.grid2d(6, 5)
U = sp.csr_array(A + 0.3 * sp.triu(A, 1))
B = np.random.default_rng(0).standard_normal((N, 2))
FACTORS = {
    "cholesky": lambda: ms.cholesky(A), "single": lambda: ms.cholesky(A, precision="single"), "mixed": lambda: ms.cholesky(A, precision="mixed"),
    "fixed": lambda: ms.cholesky(A, fixed=[1]), "lu": lambda: ms.lu(U), "complex lu": lambda: ms.lu(U * 1j), "ilu": lambda: ms.ilu(U), "complex ilu": lambda: ms.ilu(U * 1j), "ildl": lambda: ms.ildl(A),
    "complete": lambda: ms.ildl(A, fill_level=None), "parac": lambda: ms.parac(A),
}
TAKES_MATRIX = {
    "cholesky": ms.cholesky, "lu": ms.lu, "ildl": ms.ildl, "parac": ms.parac, "factorized": ms.factorized, "solve": lambda A: ms.solve(A, B)[0],
    "cg": lambda A: ms.cg(A, B)[0], "sqmr": lambda A: ms.sqmr(A, B)[0], "gmres": lambda A: ms.gmres(A, B)[0], "ilu": ms.ilu, "amd": ms.order.amd, "PatchMesh": ms.PatchMesh,
    "graph_laplacian": ms.graph_laplacian, "analyze": ms.analyze, "schur_complement": lambda A: ms.schur_complement(A, [0, 3]),
    "fixed": lambda A: ms.cholesky(A, fixed=[0]), "lower": lambda A: ms.cholesky(A, lower=True), "factor": lambda A: ms.analyze(A).factor(A),
}


def solved(x):
    """The result of a function as an array."""
    for name in ("solve", "perm", "vertex_patch", "matrix"):
        if hasattr(x, name):
            x = getattr(x, name)
            return x(B) if name == "solve" else x
    return x.toarray() if sp.issparse(x) else x


# ---- PyTorch ------------------------------------------------------------------------------------------------------------


def tensor(M, layout):
    torch = pytest.importorskip("torch")
    i, v = np.array(M.tocoo().coords), torch.from_numpy(M.tocoo().data.copy())
    T = torch.sparse_coo_tensor(i, v, M.shape)
    return {"coo": T.coalesce, "uncoalesced": lambda: torch.sparse_coo_tensor(np.hstack([i, i]), torch.cat([v, v]) / 2, M.shape),
            "csr": T.to_sparse_csr, "csc": T.to_sparse_csc, "bsr": lambda: T.to_dense().to_sparse_bsr((3, 2)),
            "bsc": lambda: T.to_dense().to_sparse_bsc((2, 3)), "dense": T.to_dense}[layout]()


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:the pattern is not symmetric")         # block layouts store zeros
@pytest.mark.parametrize("layout", ["coo", "uncoalesced", "csr", "csc", "bsr", "bsc", "dense"])
@each("name", TAKES_MATRIX)
def test_sparse_tensors_are_matrices(name, layout):
    take, T = TAKES_MATRIX[name], tensor(A, layout)
    plain = sp.csr_array(A)
    if layout[0] == "b":                                # block layouts store zeros, which belong to the pattern
        blocks = sp.bsr_array(A, blocksize=(3, 2)) if layout == "bsr" else sp.bsr_array(sp.csr_array(A.T), blocksize=(3, 2)).T
        plain = sp.csr_array(blocks)
    assert np.array_equal(solved(take(T)), solved(take(plain)))
    if layout != "dense":
        M = foreign.as_known(T, "A")
        assert np.array_equal(M.toarray(), A.toarray())


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_unsymmetric_and_complex_tensors(layout):
    assert np.allclose(ms.lu(tensor(U, layout)).solve(B), ms.lu(U).solve(B), rtol=1e-12)
    C = U * (1 + 0.5j)
    for take in (lambda A: ms.lu(A).solve(B), lambda A: ms.solve(A, B)[0], lambda A: ms.factorized(A)(B)):
        assert np.allclose(take(tensor(C, layout)), ms.lu(C).solve(B), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_unsupported_tensors_are_refused_by_name():
    torch = pytest.importorskip("torch")
    for T in (tensor(A, "coo").requires_grad_(), tensor(A, "dense").requires_grad_()):
        with pytest.raises(ms.InvalidInputError, match=r"A requires gradients.*meshsolve.torch.solve.*A.detach\(\)"):
            ms.cholesky(T)
    with pytest.raises(ms.InvalidInputError, match=r"layout _mkldnn.*to_dense\(\)"):
        ms.cholesky(torch.eye(3).to_mkldnn())
    with pytest.raises(ms.InvalidInputError, match="2-D matrix of numbers.*1 dense dim"):
        ms.cholesky(torch.sparse_coo_tensor([[0], [0]], torch.ones(1, 2), (1, 1, 2)))
    with pytest.raises(ms.InvalidInputError, match="square, got 1 x 2"):
        ms.cholesky(torch.sparse_coo_tensor([[0], [0]], torch.ones(1), (1, 2)))
    with pytest.raises(ms.InvalidInputError, match="not an array"):
        ms.cholesky(torch.eye(3, device="meta"))

    class OnCuda:                                           # the attributes of a sparse tensor on a GPU
        layout, device, requires_grad, ndim = "torch.sparse_csr", torch.device("cuda", 0), False, 2
    OnCuda.__module__ = "torch"
    with pytest.raises(ms.InvalidInputError, match=r"sparse tensor on cuda:0: pass A.cpu\(\)"):
        ms.cholesky(OnCuda())


def test_half_precision_tensors():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float16, torch.bfloat16):
        assert np.array_equal(ms.cholesky(tensor(A, "coo").to(dtype)).solve(B), ms.cholesky(A).solve(B))      # 4 and -1 are exact


# ---- out= ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FACTORS)
def test_tensors_receive_solutions(name):
    torch = pytest.importorskip("torch")
    F = FACTORS[name]()
    for b in (B, B[:, 0], B.astype(np.float32)):
        x = F.solve(b)
        for out in (torch.zeros(x.shape, dtype=torch.from_numpy(x).dtype), torch.zeros((*x.shape, 2), dtype=torch.from_numpy(x).dtype)[..., 0]):
            assert F.solve(torch.from_numpy(b), out=out) is out and np.array_equal(out.numpy(), x)
    if name not in ("complex lu", "complex ilu"):
        wide = torch.zeros(B.shape, dtype=torch.float64)
        assert np.allclose(F.solve(B.astype(np.float32), out=wide).numpy(), F.solve(B.astype(np.float32)), rtol=1e-5)


def test_tensors_receive_triangular_and_transposed_solves():
    torch = pytest.importorskip("torch")
    F, G, out = ms.cholesky(A), ms.lu(U), torch.zeros(B.shape, dtype=torch.float64)
    for system in ("A", "L", "Lt"):
        assert np.array_equal(F.solve(B, system, out=out).numpy(), F.solve(B, system))
    for trans in "NTH":
        assert np.array_equal(G.solve(B, trans, out=out).numpy(), G.solve(B, trans))


def test_a_tensor_as_out_counts_as_changed():
    """Autograd detects that a tensor it saved was overwritten."""
    torch = pytest.importorskip("torch")
    out, w = torch.ones(N, dtype=torch.float64), torch.ones(N, dtype=torch.float64, requires_grad=True)
    y = (w * out).sum()
    ms.cholesky(A).solve(B[:, 0], out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_out_that_does_not_fit_is_refused_with_the_reason():
    torch, F, b = pytest.importorskip("torch"), ms.cholesky(A), B[:, 0]
    frozen = np.zeros(N)
    frozen.flags.writeable = False
    for out, reason in ((torch.zeros(N), r"got shape \(30,\) and dtype torch.float32"), (np.zeros((N, 1)), r"got shape \(30, 1\)"),
                        (torch.zeros(N, dtype=torch.float64, requires_grad=True), r"requires gradients.*out.detach\(\)"),
                        (torch.zeros(1, dtype=torch.float64).expand(N), "refers to a single memory location"), (frozen, "read-only"),
                        (torch.zeros(N, dtype=torch.float64).to_sparse(), "got a sparse"), ([0.0] * N, "got list"), ("x", "got str"), (3, "got int")):
        with pytest.raises(ms.InvalidInputError, match=f"out must be a writable array of shape \\(30,\\) and dtype float64.*{reason}"):
            F.solve(b, out=out)


def test_buffers_receive_solutions():
    F, b = ms.cholesky(A), B[:, 0]
    for out in (array.array("d", [0.0] * N), memoryview(np.zeros(N))):
        assert F.solve(b, out=out) is out and np.array_equal(np.asarray(out), F.solve(b))

    class Foreign:                                          # shares its memory by __array_interface__ only
        def __init__(self):
            self.x = np.zeros(N)
            self.__array_interface__, self.dtype = self.x.__array_interface__, self.x.dtype
    out = Foreign()
    F.solve(b, out=out)
    assert np.array_equal(out.x, F.solve(b))


# ---- JAX ----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_jax_arrays():
    jax = pytest.importorskip("jax")
    from jax.experimental import sparse as jsparse
    with jax.enable_x64(True):
        F, b = ms.cholesky(A), jax.numpy.asarray(B[:, 0])
        with pytest.raises(ms.InvalidInputError, match="an array of JAX is read-only.*asarray"):
            F.solve(b, out=jax.numpy.zeros(N))
        for transformed in (jax.jit(F.solve), jax.grad(lambda b: F.solve(b).sum()), lambda b: jax.vmap(F.solve)(b[None]), jax.jit(lambda b: F @ b)):
            with pytest.raises(ms.InvalidInputError, match="traced by JAX.*jax.pure_callback"):
                transformed(b)
        with pytest.raises(ms.InvalidInputError, match="A is traced by JAX"):
            jax.jit(ms.cholesky)(jax.numpy.eye(3))
        call = jax.jit(lambda b: jax.pure_callback(lambda b: F.solve(np.asarray(b)), jax.ShapeDtypeStruct(b.shape, b.dtype), b))
        assert np.array_equal(call(b), F.solve(B[:, 0]))
        J = jsparse.BCOO.fromdense(jax.numpy.asarray(A.toarray()), nse=A.nnz + 7)           # padded
        for M in (J, jsparse.BCSR.from_bcoo(jsparse.BCOO.fromdense(jax.numpy.asarray(A.toarray())))):
            assert np.array_equal(ms.cholesky(M).solve(B), F.solve(B))
        with pytest.raises(ms.InvalidInputError, match="sparse CSR of JAX that is not supported"):
            ms.cholesky(jsparse.CSR.fromdense(jax.numpy.eye(3)))


# ---- other libraries, some of which stand-ins have to do for ---------------------------------------------------------------


def stand_in(module, **parts):
    """An object of a class that this module defines."""
    return type("Thing", (), {"__module__": module, **parts})()


@pytest.mark.parametrize("thing, says", [
    (stand_in("networkx.classes.graph"), "graph_laplacian.[AL], weights=.auto.. makes its Laplacian, and networkx.to_scipy_sparse_array"), (stand_in("igraph"), "get_adjacency_sparse"),
    (stand_in("graph_tool"), "graph_tool.spectral.adjacency"),
    (stand_in("dask.array.core", shape=(3, 3), __array__=lambda self, *rest: np.eye(3)), r"A.compute\(\)|L.compute\(\)"),
], ids=["networkx", "igraph", "graph_tool", "dask"])
@each("name", TAKES_MATRIX)
def test_the_error_of_a_graph_names_the_conversion(name, thing, says):
    with pytest.raises(ms.InvalidInputError, match=says):
        TAKES_MATRIX[name](thing)


def test_graphs_of_networkx():
    """The call in the message works, and functions of graphs take them as they are."""
    nx = pytest.importorskip("networkx")
    for take, G in ((ms.cholesky, nx.karate_club_graph()), (ms.graph_laplacian, nx.karate_club_graph().adj)):
        with pytest.raises(ms.InvalidInputError, match=r"A is a networkx graph: graph_laplacian\(A, weights=.auto.\)"):
            take(G)
    for take in (ms.graph_laplacian, ms.order.amd, ms.PatchMesh):
        with pytest.raises(ms.InvalidInputError, match=r"directed graph of networkx.*to_undirected\(\)"):
            take(nx.DiGraph([(0, 1)]))
        with pytest.raises(ms.InvalidInputError, match="empty"):
            take(nx.Graph())
    G = nx.MultiGraph([(0, 1), (0, 1), (1, 1), (2, 1)])
    assert ms.graph_laplacian(G, "values").toarray().tolist() == [[2, -2, 0], [-2, 3, -1], [0, -1, 1]]
    assert ms.graph_laplacian(G).diagonal().tolist() == [1, 2, 1]
    with pytest.raises(ms.InvalidInputError, match="a number as the weight of each edge"):
        ms.graph_laplacian(nx.Graph([(0, 1, {"weight": "a"})]), "values")
    W = nx.to_scipy_sparse_array(nx.karate_club_graph(), dtype=float)
    assert np.array_equal(ms.graph_laplacian(W, weights="values").toarray(), nx.laplacian_matrix(nx.karate_club_graph()).toarray())


EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]


@pytest.mark.parametrize("edges", [EDGES, np.array(EDGES), np.array(EDGES).T, [(i, j, 0.5) for i, j in EDGES], set(EDGES), {0: [1], 1: [0]}, iter(EDGES),
                                   [("a", "b"), ("b", "c"), ("c", "a")], (np.arange(5), np.arange(5))],
                         ids=["pairs", "array", "rows", "weighted", "set", "dict", "iterator", "names", "two arrays"])
def test_the_error_of_an_edge_list_names_the_conversion(edges):
    for take in (ms.cholesky, ms.analyze) if isinstance(edges, (list, tuple, np.ndarray)) else (ms.cholesky, ms.graph_laplacian, ms.order.amd):
        with pytest.raises(ms.InvalidInputError, match=r"coo_array\(\(weights, \(i, j\)\), shape=\(n, n\)\)"):
            take(edges)


@pytest.mark.parametrize("edges", [EDGES, np.array(EDGES), np.array(EDGES, float), np.array(EDGES).T, tuple(np.array(EDGES).T),
                                   [(i, j, 1) for i, j in EDGES]], ids=["tuples", "array", "floats", "rows", "two arrays", "weighted"])
def test_edge_lists(edges):
    W = sp.coo_array((np.ones(5), np.array(EDGES).T), shape=(4, 4)).tocsr()
    assert np.array_equal(ms.graph_laplacian(edges, "values").toarray(), ms.graph_laplacian(W + W.T, "values").toarray())
    assert np.array_equal(ms.order.rcm(edges).perm, ms.order.rcm(W + W.T).perm)


def test_edge_lists_with_weights_loops_and_gaps():
    assert ms.graph_laplacian([(0, 1, 0.5), (1, 1, 9.0), (3, 1, 2.0)], "values").toarray().tolist() == [
        [0.5, -0.5, 0, 0], [-0.5, 2.5, 0, -2], [0, 0, 0, 0], [0, -2, 0, 2]]
    assert ms.graph_laplacian([(0, 1)]).shape == (2, 2)                    # a list of tuples, also where it is square
    assert ms.graph_laplacian([[0, 1], [1, 0]]).nnz == 4 and ms.graph_laplacian(np.array([[0, 1], [1, 2]])).shape == (2, 2)     # matrices
    with pytest.warns(ms.MeshsolveWarning, match="edges in both directions, the first between 2 and 5"):
        assert ms.graph_laplacian([(2, 5), (0, 1), (5, 2)], "values").diagonal().tolist() == [1, 1, 2, 0, 0, 2]


@pytest.mark.parametrize("edges, says", [
    ([(0, 1), (1, -2)], "edge 1 joins 1 and -2, vertices must be integers from 0"), ([(0, 1.5)] * 4, "edge 0 joins 0 and 1.5"),
    ([(0, 2**40)] * 4, "edge 0 joins 0 and 1099511627776"), ([("a", "b")] * 4, "edges .* of numbers, got <U1: number them first"),
    ([(0, 1, -1.0)], "weights must be at least 0"), ([(0, 1, np.nan)], "holds nan"), (np.array([[0, 1, 2], [1, 2, 0]]), "may be three edges")])
def test_invalid_edges(edges, says):
    with pytest.raises(ms.InvalidInputError, match=says):
        ms.graph_laplacian(edges, "values")


def test_igraph_graphs():
    """The attributes of an igraph.Graph that are read."""
    class Edges(dict):
        def attributes(self):
            return list(self)

    def graph(directed=False, **attributes):
        methods = {"vcount": lambda self: 4, "ecount": lambda self: 3, "get_edgelist": lambda self: [(0, 1), (1, 1), (3, 1)],
                   "is_directed": lambda self: directed, "es": Edges(attributes)}
        return type("Graph", (), {"__module__": "igraph", **methods})()

    assert ms.graph_laplacian(graph(), "values").diagonal().tolist() == [1, 2, 0, 1]
    assert ms.graph_laplacian(graph(weight=[0.5, 9, 2]), "values").diagonal().tolist() == [0.5, 2.5, 0, 2]
    with pytest.raises(ms.InvalidInputError, match=r"directed graph of igraph.*as_undirected\(\)"):
        ms.graph_laplacian(graph(directed=True))


def test_other_lists_are_not_called_edge_lists():
    for other in (np.full((5, 3), 0.5), np.ones((5, 4)), sp.csr_array((5, 2))):
        with pytest.raises(ms.InvalidInputError, match="square, got 5 x [2-4]$"):
            ms.cholesky(other)


def test_arrays_of_pydata():
    sparse = pytest.importorskip("sparse.numba_backend", reason="a folder of tests has the name as well")
    for M in (sparse.COO.from_scipy_sparse(A), sparse.GCXS.from_scipy_sparse(A)):
        assert all(np.array_equal(solved(take(M)), solved(take(A))) for take in TAKES_MATRIX.values())


def test_conversions_of_pydata_and_pandas():
    """Stand-ins for libraries that are not installed, with the attributes that are read."""
    like = {"ndim": 2, "shape": A.shape, "fill_value": 0.0}
    F, coo = ms.cholesky(A), stand_in("sparse.coo", to_scipy_sparse=lambda self: A, **like)
    dok = stand_in("sparse._dok", to_coo=lambda self: coo, **like)
    assert all(np.array_equal(ms.cholesky(M).solve(B), F.solve(B)) for M in (coo, dok))
    with pytest.raises(ms.InvalidInputError, match="missing entries are 0.*fill value 2"):
        ms.cholesky(stand_in("sparse.coo", to_scipy_sparse=lambda self: A, **like | {"fill_value": 2}))
    frame = stand_in("pandas", dtypes=["float64"] * N, to_numpy=lambda self: A.toarray(), __array__=lambda self, *rest: A.toarray())
    assert np.array_equal(ms.cholesky(frame).solve(B), ms.cholesky(A.toarray()).solve(B))
    with pytest.raises(ms.InvalidInputError, match=r"A.sparse.to_coo\(\)"):
        ms.cholesky(stand_in("pandas", dtypes=["Sparse[float64, 0]"] * N))
