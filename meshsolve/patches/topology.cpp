// Incidences of a triangle mesh in global numbers: faces of vertices, faces of edges, and the dual graph. Rows ascend. The mesh
// need not be manifold. Cost: counting sorts, O(n + e + m).
#include <algorithm>

#include "native/threads/parallel.hpp"
#include "sparse/rearrange.hpp"
#include "patches/patches.hpp"

namespace ms::patches {
namespace {

OwnedPattern dual_graph(const Topology& T);

}  // namespace

Topology connect(const Surface& surface, int threads) {
  Topology T{surface, {}, {}, {}, {}};
  for_range(threads, 2, 1, [&](int64_t begin, int64_t end, int) {              // two independent sorts
    if (begin == 0) T.vertex_faces = invert(T.num_vertices, T.faces, T.num_faces, 3);
    if (end == 2) T.edge_faces = invert(T.num_edges, T.face_edges, T.num_faces, 3);
  });
  interrupt::poll();
  T.dual = dual_graph(T);
  return T;
}

OwnedPattern invert(int32_t rows, const int32_t* of, int64_t items, int k) {
  OwnedPattern R{std::vector<int64_t>(static_cast<size_t>(rows) + 1, 0), std::vector<int32_t>(items * k)};
  for (int64_t i = 0; i < items * k; ++i) ++R.ptr[of[i] + 1];
  cumsum(R.ptr);
  for (int64_t i = 0; i < items; ++i)                       // ptr[r] moves to the end of row r,
    for (int c = 0; c < k; ++c) R.idx[R.ptr[of[i * k + c]]++] = static_cast<int32_t>(i);
  std::copy_backward(R.ptr.begin(), R.ptr.end() - 1, R.ptr.end());      // which is the start of row r + 1
  R.ptr[0] = 0;
  return R;
}

std::vector<int32_t> upper_edges(const Pattern& G) {
  std::vector<int32_t> edges;
  edges.reserve(G.nnz());
  for (int32_t v = 0; v < G.n; ++v)
    for (int64_t q = G.ptr[v]; q < G.ptr[v + 1]; ++q)
      if (G.idx[q] > v) edges.insert(edges.end(), {v, G.idx[q]});
  return edges;
}

namespace {

// The dual graph. The faces at an edge form a ring: all pairs for up to three faces, a linear number of pairs for more.
OwnedPattern dual_graph(const Topology& T) {
  OwnedPattern D{std::vector<int64_t>(static_cast<size_t>(T.num_faces) + 1, 0), {}};
  D.idx.reserve(3 * static_cast<size_t>(T.num_faces));
  for (int32_t f = 0; f < T.num_faces; ++f) {
    for (int64_t s = 3 * int64_t{f}; s < 3 * int64_t{f} + 3; ++s) {
      const int64_t begin = T.edge_faces.ptr[T.face_edges[s]], count = T.edge_faces.ptr[T.face_edges[s] + 1] - begin;
      if (count < 2) continue;
      const int32_t* faces = T.edge_faces.idx.data() + begin;
      if (count == 2) {
        D.idx.push_back(faces[0] == f ? faces[1] : faces[0]);
        continue;
      }
      const int64_t at = std::lower_bound(faces, faces + count, f) - faces;
      D.idx.push_back(faces[(at + 1) % count]);
      D.idx.push_back(faces[(at + count - 1) % count]);
    }
    D.ptr[f + 1] = static_cast<int64_t>(D.idx.size());
  }
  return D;
}

}  // namespace
}  // namespace ms::patches
