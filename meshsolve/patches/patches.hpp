// Patches of a mesh: small parts whose connectivity is stored in 16-bit local numbers.
//
// Source: Mahmoud, Porumbescu, Owens 2021, "RXMesh: A GPU Mesh Data Structure" (doi 10.1145/3450626.3459748), sections 3 and 4:
// patches by Lloyd's iteration in graph distance; owned elements first, then one layer of foreign ones (ribbon). Every element is
// owned by exactly one patch: a face by its part of the dual graph, a vertex or an edge by the lowest patch among its faces. A
// pattern has no faces: its vertices are partitioned, and an edge belongs to the lower patch of its ends. Ribbon: all faces at an
// owned vertex or at an edge of an owned face (pattern: all edges at an owned vertex), with their edges and vertices. So every
// query about an owned element is answered within its patch.
// An element with too many faces for that ("heavy", see star_limit) has no ribbon; query.cpp gathers its row from all patches.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sparse/csr.hpp"
#include "patches/limits.hpp"
#include "patches/rings.hpp"

namespace ms::patches {

// ---- kmeans.cpp: partition of a graph into connected parts
struct Parts {
  std::vector<int32_t> part;                            // (n) part of each vertex, numbered by their lowest vertex
  int32_t count = 0;
};
// Parts of 1 to `limit` vertices. They are connected, except parts that collect small components or the leaves of a high-degree
// vertex.
Parts kmeans(const Pattern& G, int64_t limit, uint64_t seed, int threads);
// Splits each marked part into parts of at most half its size. The others are kept.
Parts halve(const Pattern& G, const Parts& parts, const std::vector<uint8_t>& marked, int threads);

// ---- topology.cpp: incidences in global numbers
// The transpose of a table of k columns: row r lists, ascending, the items i with of[k * i + c] = r for some c.
OwnedPattern invert(int32_t rows, const int32_t* of, int64_t items, int k);

struct Surface {                                        // view of the caller's arrays, see mesh/edges.hpp
  int32_t num_vertices = 0, num_edges = 0, num_faces = 0;
  const int32_t* edges = nullptr;                       // (2 e) rows lexicographically ascending, first < second
  const int32_t* faces = nullptr;                       // (3 m)
  const int32_t* face_edges = nullptr;                  // (3 m) edge of corners i, i + 1; every edge belongs to a face
};
struct Topology : Surface {
  OwnedPattern vertex_faces, edge_faces;                // of a surface
  OwnedPattern vertex_edges;                            // of a pattern
  OwnedPattern dual;                                    // faces that share an edge; more than three faces form a ring
};
Topology connect(const Surface& surface, int threads);
std::vector<int32_t> upper_edges(const Pattern& G);     // (2 e) entries above the diagonal, in row order

// ---- build.cpp: ownership, ribbons, local numbers
struct Elements {                                       // the vertices, the edges or the faces
  std::vector<int32_t> patch;                           // (elements) owner
  std::vector<int64_t> ptr, owned_ptr;                  // (patches + 1) into ltog; prefix sums of the owned elements
  std::vector<int32_t> ltog;                            // local to global: owned ascending, then the ribbon ascending
  std::vector<int32_t> owner_patch;                     // owner of each ribbon element; patch p starts at ptr[p] - owned_ptr[p]
  std::vector<uint16_t> owner_local;                    // its local number in the owner
};
struct Patches {
  int32_t count = 0;
  Elements vertices, edges, faces;
  std::vector<uint16_t> ev, fe;                         // local vertices (2 per local edge), local edges (3 per local face)
  std::vector<int32_t> heavy_vertices, heavy_edges;     // ascending
};
Patches cut_surface(const Surface& surface, int64_t patch_size, uint64_t seed, int threads);
Patches cut_pattern(const Pattern& G, const std::vector<int32_t>& edges, int64_t patch_size, uint64_t seed, int threads);

// ---- query.cpp
struct Kind {                                           // view of one kind of elements
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
// Neighborhood query "VV", "VE", "VF", "FV", "FE", "FF", "EV" or "EF": one row of global numbers per source element.
OwnedPattern query(const View& P, const std::string& name, int threads);

// ---- rings.cpp: rows composed of the rows of other queries; `corners` are those of FV, `ends` those of EV
// Writes `values`, one per entry of VV, in rotation order. Returns vertex << 32 | position of the lowest vertex without such an
// order (see rotate_row), or INT64_MAX.
int64_t rotate(const Pattern& VV, const Pattern& VF, const int32_t* corners, const int32_t* values, int32_t* out, int threads);
OwnedPattern edges_of_edges(const Pattern& VE, const int32_t* ends, int64_t num_edges, int threads);
// Writes four vertices per edge. Returns the lowest edge of more than two faces, or INT64_MAX.
int64_t diamonds(const Pattern& EF, const int32_t* ends, const int32_t* corners, int32_t* out, int threads);
// The vertices at distance 1 to `count` of each vertex; throws std::bad_alloc beyond `most` entries.
OwnedPattern rings(const Pattern& VV, int count, int64_t most, int threads);
// Reduces the values (rows of `width` numbers) of each row's entries; negative entries are passed over. Rows without entries
// become `empty`.
template <class T>
void reduce(const Pattern& rows, const T* values, int64_t width, int op, T empty, T* out, int threads);

}  // namespace ms::patches
