// A mesh cut into small patches whose connectivity is stored in 16-bit local numbers.
//
// Source: Mahmoud, Porumbescu, Owens 2021, "RXMesh: A GPU Mesh Data Structure" (doi 10.1145/3450626.3459748), sections 3
// and 4: patches by Lloyd's iteration in graph distance, owned elements first, then one layer of foreign ones (ribbon).
// Every element is owned by exactly one patch: a face by its part of the dual graph, a vertex and an edge by the lowest
// patch among their faces. A pattern has no faces; there the vertices are cut, and an edge goes to the lower patch of its ends.
// Ribbon: all faces at an owned vertex or at an edge of an owned face (pattern: all edges at an owned vertex) with their
// edges and vertices, so that every query about an owned element is answered inside its patch.
// What is too big for that ("heavy", see star_limit) gets no ribbon; query.cpp gathers its rows over all patches.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sparse/csr.hpp"
#include "patches/limits.hpp"

namespace ms::patches {

// ---- kmeans.cpp: a graph cut into connected parts
struct Parts {
  std::vector<int32_t> part;                            // (n) part of each vertex, numbered by their lowest vertex
  int32_t count = 0;
};
// Parts of 1 to `limit` vertices. Connected, but for parts that collect small components and the leaves of hubs.
Parts kmeans(const Pattern& G, int64_t limit, uint64_t seed, int threads);
// Cuts each part that is marked in two or more of at most half its size; the others stay.
Parts halve(const Pattern& G, const Parts& parts, const std::vector<uint8_t>& marked, int threads);

// ---- topology.cpp: who is incident to whom, in global numbers
// Row r lists, ascending, the items i with of[k * i + ...] = r: the transpose of a table of k columns.
OwnedPattern invert(int32_t rows, const int32_t* of, int64_t items, int k);

struct Surface {                                        // borrowed from the caller, see mesh/edges.hpp
  int32_t num_vertices = 0, num_edges = 0, num_faces = 0;
  const int32_t* edges = nullptr;                       // (2 e) rows lexicographically ascending, first < second
  const int32_t* faces = nullptr;                       // (3 m)
  const int32_t* face_edges = nullptr;                  // (3 m) edge of corners i, i + 1; every edge is one of some face
};
struct Topology : Surface {
  OwnedPattern vertex_faces, edge_faces;                // of a surface
  OwnedPattern vertex_edges;                            // of a pattern
  OwnedPattern dual;                                    // faces that share an edge; a ring where more than three do
};
Topology connect(const Surface& surface, int threads);
std::vector<int32_t> upper_edges(const Pattern& G);     // (2 e) entries above the diagonal, in row order

// ---- build.cpp: ownership, ribbons, local numbers
struct Elements {                                       // the vertices, the edges or the faces
  std::vector<int32_t> patch;                           // (elements) owner
  std::vector<int64_t> ptr, owned_ptr;                  // (patches + 1) into ltog; sums of the owned alone
  std::vector<int32_t> ltog;                            // local to global: owned ascending, then the ribbon ascending
  std::vector<int32_t> owner_patch;                     // of each ribbon element, from ptr[p] - owned_ptr[p] on
  std::vector<uint16_t> owner_local;                    // its local number there
};
struct Patches {
  int32_t count = 0;
  Elements vertices, edges, faces;
  std::vector<uint16_t> ev, fe;                         // (2 per local edge) vertices, (3 per local face) edges
  std::vector<int32_t> heavy_vertices, heavy_edges;     // ascending
};
Patches cut_surface(const Surface& surface, int64_t patch_size, uint64_t seed, int threads);
Patches cut_pattern(const Pattern& G, const std::vector<int32_t>& edges, int64_t patch_size, uint64_t seed, int threads);

// ---- query.cpp
struct Kind {                                           // one kind of elements as query reads it
  const int64_t *ptr, *owned_ptr;
  const int32_t* ltog;
  int32_t owned(int32_t p) const { return static_cast<int32_t>(owned_ptr[p + 1] - owned_ptr[p]); }
  int32_t size(int32_t p) const { return static_cast<int32_t>(ptr[p + 1] - ptr[p]); }
  const int32_t* global(int32_t p) const { return ltog + ptr[p]; }
};
struct View {
  int32_t count;
  Kind vertices, edges, faces;
  const uint16_t *ev, *fe;
  const int32_t *heavy_vertices, *heavy_edges;
  int64_t num_heavy_vertices, num_heavy_edges;
};
// Rows of global numbers, one per source element: "VV" "VE" "VF" "FV" "FE" "FF" "EV" "EF".
OwnedPattern query(const View& P, const std::string& name, int threads);

}  // namespace ms::patches
