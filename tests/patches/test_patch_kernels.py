"""Functions of users on the patches of the GPU: the members of Patch compared with the queries, the example of the documents, errors."""

import pathlib
import re
import sys

import numpy as np
import nvrtc
import pytest
import scipy.sparse as sp
from kernel_harness import Harness
from patch_shapes import MESHES, book, fan, grid, make_mesh, shuffled, soup, torus, union

import meshsolve as ms
from meshsolve import device
from meshsolve.errors import InvalidInputError
from meshsolve.patches import PatchMesh, kernel_cuda

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "patches.md"
SMALL = {
    "torus": shuffled(torus(9, 8)),
    "components": shuffled(union(torus(5, 4), grid(4, 3), fan(5), soup(6), book(4), unreferenced=3)),
    "duplicated faces": MESHES["duplicated faces"],
}

# Writes what each member of Patch returns for owned elements, in global numbers: the number of neighbors and a table of them for each
# query, the other tables, and the number of elements in the ribbon.
MEMBERS = """
template <class Row, class Source, class Target>
__device__ void write(int owned, Row row, Source source, Target target, int width, int* degree, int* out) {
  for (int s = threadIdx.x; s < owned; s += blockDim.x) {
    int k = 0;
    for (int t : row(s)) out[source(s) * width + k++] = target(t);
    degree[source(s)] = row(s).size;
  }
}

__device__ void members(const Patch& patch, int width, int* vv_degree, int* vv, int* ve_degree, int* ve, int* vf_degree, int* vf,
                        int* ef_degree, int* ef, int* ends, int* sides, int* corners, int* ribbon) {
  const auto vertex = [&](int v) { return patch.global_vertex(v); };
  const auto edge = [&](int e) { return patch.global_edge(e); };
  const auto face = [&](int f) { return patch.global_face(f); };
  write(patch.owned_vertices, [&](int v) { return patch.vv(v); }, vertex, vertex, width, vv_degree, vv);
  write(patch.owned_vertices, [&](int v) { return patch.ve(v); }, vertex, edge, width, ve_degree, ve);
  write(patch.owned_vertices, [&](int v) { return patch.vf(v); }, vertex, face, width, vf_degree, vf);
  write(patch.owned_edges, [&](int e) { return patch.ef(e); }, edge, face, width, ef_degree, ef);
  for (int e = threadIdx.x; e < patch.owned_edges; e += blockDim.x)
    for (int k = 0; k < 2; ++k) ends[2 * edge(e) + k] = vertex(patch.end(e, k));
  for (int f = threadIdx.x; f < patch.owned_faces; f += blockDim.x) {
    int corner[3];
    patch.corners(f, corner);
    for (int k = 0; k < 3; ++k) sides[3 * face(f) + k] = edge(patch.side(f, k));
    for (int k = 0; k < 3; ++k) corners[3 * face(f) + k] = vertex(corner[k]);
  }
  int foreign = 0;
  for (int v = 0; v < patch.vertices; ++v) foreign += !patch.owns_vertex(v);
  for (int e = 0; e < patch.edges; ++e) foreign += !patch.owns_edge(e);
  for (int f = 0; f < patch.faces; ++f) foreign += !patch.owns_face(f);
  if (threadIdx.x == 0) ribbon[patch.number] = foreign;
}
"""


def check_members(P, queries=("VV", "VE", "VF", "EF"), tables=("EV", "FE", "FV")):
    xp, width = device.xp(), 12
    counts = {"V": len(P.vertex_patch), "E": len(P.edge_patch), "F": len(P.face_patch)}
    arguments = {}
    for query in ("VV", "VE", "VF", "EF"):
        arguments[f"{query} degree"] = xp.zeros(counts[query[0]], np.int32)
        arguments[query] = xp.empty((counts[query[0]], width), np.int32)
    for table in ("EV", "FE", "FV"):
        arguments[table] = xp.empty(counts[table[0]] * (2 if table == "EV" else 3), np.int32)
    arguments["ribbon"] = xp.empty(P.num_patches, np.int32)
    P.kernel(MEMBERS)(width, *arguments.values())
    found = {name: device.to_host(array) for name, array in arguments.items()}
    for query in queries:
        indptr, indices = P.query(query, device="cpu")
        degree = np.diff(indptr)
        assert np.array_equal(found[f"{query} degree"], degree) and degree.max(initial=0) <= width
        rows = [sorted(row[:count]) for row, count in zip(found[query], degree)]
        assert rows == [indices[a:b].tolist() for a, b in zip(indptr, indptr[1:])]
    for table in tables:
        assert np.array_equal(found[table], P.query(table, device="cpu")[1])
    patches = map(P.patch, range(P.num_patches))
    assert found["ribbon"].tolist() == [sum(map(len, (q.ltog_vertices, q.ltog_edges, q.ltog_faces))) - sum(q.num_owned) for q in patches]


@pytest.mark.parametrize("name", SMALL)
def test_members_of_a_patch(cuda, name):
    check_members(PatchMesh(SMALL[name], patch_size=16))


def test_members_of_a_patch_of_a_pattern(cuda):
    check_members(PatchMesh(sp.csr_array(sp.random_array((50, 50), density=0.05, rng=0)), patch_size=8), ("VV", "VE"), ("EV",))


def test_any_block_size_and_schedule(varied):
    check_members(PatchMesh(SMALL["components"], patch_size=9))


MEMORY = """
// Doubles of the caller: positions of vertices, lengths of edges, areas of faces do not overlap.
__device__ void memory(const Patch& patch, double* sums) {
  double *v = patch.per_vertex<double>(), *e = patch.per_edge<double>();
  float* f = patch.per_face<float>();
  for (int i = threadIdx.x; i < patch.vertices; i += blockDim.x) v[i] = 1;
  for (int i = threadIdx.x; i < patch.edges; i += blockDim.x) e[i] = 2;
  for (int i = threadIdx.x; i < 3 * patch.faces; i += blockDim.x) f[i] = 4;
  __syncthreads();
  if (threadIdx.x > 0) return;
  double sum = 0;
  for (int i = 0; i < patch.vertices; ++i) sum += v[i];
  for (int i = 0; i < patch.edges; ++i) sum += e[i];
  for (int i = 0; i < 3 * patch.faces; ++i) sum += f[i];
  for (int i = 0; i < patch.owned_vertices; ++i) sum += 1000 * patch.vv(i).size;
  sums[patch.number] = sum;
}
"""


@pytest.mark.sanitize
def test_shared_memory_of_the_caller():
    with device.use(Harness(seed=1, block=32)):
        P = PatchMesh(shuffled(union(torus(4, 3), grid(2, 2))), patch_size=6)
        sums = device.xp().empty(P.num_patches)
        P.kernel(MEMORY, vertex_bytes=8, edge_bytes=8, face_bytes=12)(sums)
        degrees = np.diff(P.query("VV")[0])
        expected = [len(q.ltog_vertices) + 2 * len(q.ltog_edges) + 12 * len(q.ltog_faces) + 1000 * degrees[q.ltog_vertices[:q.num_owned[0]]].sum()
                    for q in map(P.patch, range(P.num_patches))]
        assert np.array_equal(device.to_host(sums), expected)


NEIGHBORS = """
// Rows that other threads have built: the numbers of all neighbors of owned vertices.
__device__ void neighbors(const Patch& patch, int* sums) {
  for (int v = threadIdx.x; v < patch.owned_vertices; v += blockDim.x)
    for (int u : patch.vv((v + 1) % patch.owned_vertices)) atomicAdd(sums + patch.number, patch.global_vertex(u));
}
"""
ENDS = """
// No rows: the ends of all edges.
__device__ void ends(const Patch& patch, int* sums) {
  for (int e = threadIdx.x; e < patch.edges; e += blockDim.x)
    for (int k = 0; k < 2; ++k) atomicAdd(sums + patch.number, patch.global_vertex(patch.end((e + 1) % patch.edges, k)));
}
"""


@pytest.mark.sanitize
def test_elements_of_other_threads():
    with device.use(Harness(seed=1, block=64)):
        P = PatchMesh(torus(8, 6), patch_size=12)
        patches = list(map(P.patch, range(P.num_patches)))
        indptr, indices = P.query("VV", device="cpu")
        owned = [q.ltog_vertices[:q.num_owned[0]] for q in patches]
        expected = {NEIGHBORS: [sum(indices[indptr[v]:indptr[v + 1]].sum() for v in vertices) for vertices in owned],
                    ENDS: [q.ltog_vertices[q.ev].sum() for q in patches]}
        for source, numbers in expected.items():
            sums = device.xp().zeros(P.num_patches, np.int32)
            P.kernel(source)(sums)
            assert np.array_equal(device.to_host(sums), numbers)


def test_the_example_of_the_document(cuda, monkeypatch):
    (block,) = [block for block in re.findall(r"```py\n(.*?)```", DOCUMENT.read_text(), re.S) if "patches.kernel" in block]
    monkeypatch.setitem(sys.modules, "cupy", device.xp())
    mesh = ms.datasets.icosphere(2)
    names = {"patches": PatchMesh(mesh, patch_size=40), "mesh": mesh, "np": np}
    exec(compile(block, DOCUMENT.name, "exec"), names)
    corners = mesh.vertices[mesh.faces]
    expected = np.zeros_like(mesh.vertices)
    np.add.at(expected, mesh.faces, np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])[:, None])
    assert np.allclose(device.to_host(names["normals"]), expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-14)


@pytest.mark.skipif(nvrtc.library() is None, reason="no NVRTC: pip install nvidia-cuda-nvrtc-cu12")
@pytest.mark.parametrize("source", [MEMBERS, MEMORY], ids=["members", "memory"])
def test_the_code_compiles_for_gpus(source, cuda, tmp_path, monkeypatch):
    texts = []
    monkeypatch.setattr(kernel_cuda, "_compiled", lambda text, name: texts.append(text))
    PatchMesh(SMALL["torus"]).kernel(source)
    file = tmp_path / "source.cu"
    file.write_text(texts[0])
    (numbers,) = nvrtc.parse(nvrtc.run(file, 90)[0]).values()
    assert numbers["spill_stores"] == 0 and numbers["registers"] <= 64


# ---- input


GOOD = "__device__ void scaled(const Patch& patch, const double* x, int k, float s, unsigned char* flags) { if (patch.vv(0).size < k) flags[0] = x[0] * s; }"


@pytest.mark.parametrize("source, says", [
    (3, "source must be CUDA C"),
    ("", "source must define one function.*found none"),
    ("// __device__ void f(const Patch& patch) {}", "found none"),
    ("__device__ int f(const Patch& patch) { return 0; }", "found none"),
    ("__device__ void f(const Patch& p) {}\n__device__ void g(const Patch& p) {}", "found f, g"),
    ("__device__ void f(const Patch& p, const float3* x) {}", r"parameter 'const float3\* x' cannot be passed"),
    ("__device__ void f(const Patch& p, double** x) {}", "cannot be passed"),
    ("__device__ void f(const Patch& p, int) {}", "parameter 'int' cannot be passed"),
    ("\n__device__ void f(const Patch& p) {\n  undeclared();\n}", "the source does not compile: (.|\n)*f:3:(.|\n)*undeclared"),
    ('#include "no/such.cuh"\n__device__ void f(const Patch& p) {}', "the source does not compile"),
], ids=str)
def test_bad_sources(cuda, source, says):
    if cuda is None and "f:3" in says:
        says = "the source does not compile: (.|\n)*undeclared"
    with pytest.raises(InvalidInputError, match=says):
        PatchMesh(SMALL["torus"]).kernel(source)


def test_bad_arguments(cuda):
    kernel, xp = PatchMesh(SMALL["torus"]).kernel(GOOD), device.xp()
    x, flags = xp.zeros(72), xp.zeros(72, np.uint8)
    kernel(x, 3, 0.5, flags)
    for arguments, says in [
        ((x, 3, 0.5), r"scaled takes 4 arguments \(x, k, s, flags\), got 3"),
        ((xp.zeros(72, np.float32), 3, 0.5, flags), "x must be a C-contiguous array of float64 on the GPU, got float32"),
        ((xp.zeros(144)[::2], 3, 0.5, flags), "x must be a C-contiguous array"),
        ((1.0, 3, 0.5, flags), "x must be a C-contiguous array of float64 on the GPU, got 1.0"),
        ((x, 0.5, 0.5, flags), "k must be an integer from -2147483648 to 2147483647, got 0.5"),
        ((x, 2**31, 0.5, flags), "k must be an integer"),
        ((x, 3, "0.5", flags), "s must be a finite number, got '0.5'"),
    ]:
        with pytest.raises(InvalidInputError, match=says):
            kernel(*arguments)
    if cuda is not None:
        with pytest.raises(InvalidInputError, match="on the GPU, got an array of shape"):
            kernel(np.zeros(72), 3, 0.5, flags)


def test_patches_that_do_not_fit(cuda):
    with pytest.raises(InvalidInputError, match=r"patch 0 needs [\d,]+ bytes of shared memory, a thread block has [\d,]+: use a smaller patch_size"):
        PatchMesh(SMALL["torus"]).kernel(GOOD, vertex_bytes=1 << 15)
    with pytest.raises(InvalidInputError, match="face_bytes must be an integer from 0"):
        PatchMesh(SMALL["torus"]).kernel(GOOD, face_bytes=-1)
    with pytest.raises(InvalidInputError, match="vertex 0 has so many neighbors that no patch contains them"):
        PatchMesh(fan(3700)).kernel(GOOD)
    assert repr(PatchMesh(make_mesh(3, [[0, 1, 2]])).kernel(GOOD)).startswith("PatchKernel(scaled: 4 parameters")
