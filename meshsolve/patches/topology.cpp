// Incidences of a triangle mesh in global numbers: edges of faces, faces of vertices and of edges, the dual graph.
// Each is a counting sort, O(n + e + m), rows ascending; nothing is assumed about manifoldness.
#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "native/parallel.hpp"
#include "patches/patches.hpp"

namespace ms::patches {
namespace {

void check_edges(const Surface& S);
std::vector<int32_t> edges_of_faces(const Surface& S, int threads);
OwnedPattern dual_graph(const Topology& T);

}  // namespace

Topology connect(const Surface& surface, int threads) {
  check_edges(surface);
  Topology T{surface, edges_of_faces(surface, threads), {}, {}, {}, {}};
  for_range(threads, 2, 1, [&](int64_t begin, int64_t end, int) {              // two independent sorts
    if (begin == 0) T.vertex_faces = invert(T.num_vertices, T.faces, T.num_faces, 3);
    if (end == 2) T.edge_faces = invert(T.num_edges, T.face_edges.data(), T.num_faces, 3);
  });
  interrupt::poll();
  for (int32_t e = 0; e < T.num_edges; ++e)
    if (T.edge_faces.ptr[e] == T.edge_faces.ptr[e + 1])
      throw std::invalid_argument("edge " + std::to_string(e) + " is a side of no face");
  T.dual = dual_graph(T);
  return T;
}

OwnedPattern invert(int32_t rows, const int32_t* of, int64_t items, int k) {
  OwnedPattern R{std::vector<int64_t>(static_cast<size_t>(rows) + 1, 0), std::vector<int32_t>(items * k)};
  for (int64_t i = 0; i < items * k; ++i) ++R.ptr[of[i] + 1];
  for (int32_t r = 0; r < rows; ++r) R.ptr[r + 1] += R.ptr[r];
  for (int64_t i = 0; i < items; ++i)                       // ptr[r] walks to the end of row r ...
    for (int c = 0; c < k; ++c) R.idx[R.ptr[of[i * k + c]]++] = static_cast<int32_t>(i);
  std::copy_backward(R.ptr.begin(), R.ptr.end() - 1, R.ptr.end());      // ... which is the begin of row r + 1
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

void check_edges(const Surface& S) {
  for (int64_t e = 0; e < S.num_edges; ++e) {
    const int32_t a = S.edges[2 * e], b = S.edges[2 * e + 1];
    const bool ascending = e == 0 || a > S.edges[2 * e - 2] || (a == S.edges[2 * e - 2] && b > S.edges[2 * e - 1]);
    if (a < 0 || a >= b || b >= S.num_vertices || !ascending)
      throw std::invalid_argument("edge " + std::to_string(e) + " is (" + std::to_string(a) + ", " + std::to_string(b) +
                                  "): edges have to be pairs u < v of vertices in ascending order");
  }
}

// Side i of a face joins its corners i and i + 1.
std::vector<int32_t> edges_of_faces(const Surface& S, int threads) {
  std::vector<int32_t> first(static_cast<size_t>(S.num_vertices) + 1, 0);      // edges whose lower vertex is v
  for (int32_t e = 0; e < S.num_edges; ++e) ++first[S.edges[2 * int64_t{e}] + 1];
  for (int32_t v = 0; v < S.num_vertices; ++v) first[v + 1] += first[v];
  std::vector<int32_t> sides(3 * static_cast<size_t>(S.num_faces));
  std::atomic<int64_t> bad{-1};
  const auto edge_of = [&](int32_t a, int32_t b) {
    if (std::min(a, b) < 0 || std::max(a, b) >= S.num_vertices) return -1;
    int32_t low = first[std::min(a, b)], high = first[std::min(a, b) + 1];
    const int32_t end = high, want = std::max(a, b);
    while (low < high) {
      const int32_t middle = low + (high - low) / 2;
      if (S.edges[2 * int64_t{middle} + 1] < want) low = middle + 1;
      else high = middle;
    }
    return low < end && S.edges[2 * int64_t{low} + 1] == want ? low : -1;
  };
  for_range(threads, S.num_faces, 16384, [&](int64_t begin, int64_t end, int) {
    for (int64_t f = begin; f < end; ++f)
      for (int i = 0; i < 3; ++i) {
        const int32_t e = sides[3 * f + i] = edge_of(S.faces[3 * f + i], S.faces[3 * f + (i + 1) % 3]);
        if (e < 0) bad = f;
      }
  });
  if (bad >= 0) {
    const int64_t f = std::find(sides.begin(), sides.end(), -1) - sides.begin();
    throw std::invalid_argument("face " + std::to_string(f / 3) + " has a side that is not in the edges of the mesh");
  }
  return sides;
}

// Faces at one edge form a ring: every pair of neighbours for up to three faces, no quadratic number of pairs for more.
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
