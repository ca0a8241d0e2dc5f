// From a partition to patches: ownership, ribbons, local numbers.
//
// Source: RXMesh (Mahmoud, Porumbescu, Owens 2021), sections 3.2 and 4.1. A patch with too many elements for 16-bit numbers is
// halved, and all ribbons are gathered again, until each patch fits. A patch of one face always fits, see star_limit.
// Owned elements and ribbon of a patch both ascend in global numbers, so a local number is found by binary search.
// Cost: O(n + e + m), and a sort of each ribbon.
#include <algorithm>
#include <stdexcept>

#include "native/threads/parallel.hpp"
#include "patches/patches.hpp"

namespace ms::patches {
namespace {

struct Lists {                                              // ownership of one kind of elements
  std::vector<int32_t> patch;                               // (elements) owner
  OwnedPattern owned;                                       // owned elements of each patch, ascending
};
struct Ownership {
  int32_t count;                                            // number of patches
  Lists vertices, edges, faces;
};
struct Ribbon {                                             // foreign elements of one patch, ascending
  std::vector<int32_t> vertices, edges, faces;
};
struct Heavy {
  std::vector<int32_t> vertices, edges;
};

Ownership own_surface(const Topology& T, const Parts& faces, int64_t block, int threads);
Ownership own_pattern(const Topology& T, const Parts& vertices, int threads);
Heavy find_heavy(const Topology& T);
template <class Gather>
std::vector<uint8_t> gather_ribbons(const Ownership& own, std::vector<Ribbon>& ribbons, int threads, Gather&& gather);
void gather_surface(const Topology& T, const Ownership& own, int32_t p, Ribbon& ribbon);
void gather_pattern(const Topology& T, const Ownership& own, int32_t p, Ribbon& ribbon);
Patches number_locally(const Topology& T, Ownership&& own, const std::vector<Ribbon>& ribbons, Heavy&& heavy, int threads);

bool any(const std::vector<uint8_t>& marks) { return std::find(marks.begin(), marks.end(), 1) != marks.end(); }

}  // namespace

Patches cut_surface(const Surface& surface, int64_t patch_size, uint64_t seed, int threads) {
  Topology T = connect(surface, threads);
  const int64_t limit = std::min<int64_t>(patch_size, face_limit);
  Parts parts = kmeans(T.dual.view(), limit, seed, threads);
  std::vector<Ribbon> ribbons;
  for (;;) {
    Ownership own = own_surface(T, parts, limit, threads);
    std::vector<uint8_t> full =
        gather_ribbons(own, ribbons, threads, [&](int32_t p, Ribbon& ribbon) { gather_surface(T, own, p, ribbon); });
    if (!any(full)) {
      Heavy heavy = find_heavy(T);
      T.vertex_faces = T.edge_faces = T.dual = {};          // frees 60 bytes per face
      return number_locally(T, std::move(own), ribbons, std::move(heavy), threads);
    }
    full.resize(parts.count);                               // patches without faces always fit
    parts = halve(T.dual.view(), parts, full, threads);
  }
}

Patches cut_pattern(const Pattern& G, const std::vector<int32_t>& edges, int64_t patch_size, uint64_t seed, int threads) {
  Topology T;
  T.num_vertices = G.n;
  T.num_edges = static_cast<int32_t>(edges.size() / 2);
  T.edges = edges.data();
  T.vertex_edges = invert(G.n, T.edges, T.num_edges, 2);
  Parts parts = kmeans(G, std::min<int64_t>(patch_size, local_limit), seed, threads);
  std::vector<Ribbon> ribbons;
  for (;;) {
    Ownership own = own_pattern(T, parts, threads);
    const std::vector<uint8_t> full =
        gather_ribbons(own, ribbons, threads, [&](int32_t p, Ribbon& ribbon) { gather_pattern(T, own, p, ribbon); });
    if (!any(full)) return number_locally(T, std::move(own), ribbons, find_heavy(T), threads);
    if (parts.count == G.n) throw std::length_error("too many edges between vertices of more than 65,534 neighbors");
    parts = halve(G, parts, full, threads);
  }
}

namespace {

// ---- ownership

bool is_heavy_vertex(const Topology& T, int32_t v) {
  if (!T.vertex_edges.ptr.empty()) return T.vertex_edges.ptr[v + 1] - T.vertex_edges.ptr[v] >= local_limit;
  return T.vertex_faces.ptr[v + 1] - T.vertex_faces.ptr[v] > star_limit;
}

bool is_heavy_edge(const Topology& T, int32_t e) {
  return T.num_faces > 0 && T.edge_faces.ptr[e + 1] - T.edge_faces.ptr[e] > star_limit;
}

Heavy find_heavy(const Topology& T) {
  Heavy heavy;
  for (int32_t v = 0; v < T.num_vertices; ++v)
    if (is_heavy_vertex(T, v)) heavy.vertices.push_back(v);
  for (int32_t e = 0; e < T.num_edges; ++e)
    if (is_heavy_edge(T, e)) heavy.edges.push_back(e);
  return heavy;
}

// The lowest patch among the faces of each row; -1 for an empty row.
std::vector<int32_t> lowest_patch(const OwnedPattern& rows, const std::vector<int32_t>& face_patch, int threads) {
  std::vector<int32_t> lowest(rows.n(), -1);
  for_range(threads, rows.n(), 16384, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      if (rows.ptr[i] == rows.ptr[i + 1]) continue;
      int32_t best = face_patch[rows.idx[rows.ptr[i]]];
      for (int64_t q = rows.ptr[i] + 1; q < rows.ptr[i + 1]; ++q) best = std::min(best, face_patch[rows.idx[q]]);
      lowest[i] = best;
    }
  });
  return lowest;
}

// Assigns vertices without a face to patches of fewer than `block` vertices, lowest first, then to additional patches of `block`
// vertices and no face. Returns the number of patches.
int32_t assign_unreferenced(std::vector<int32_t>& vertex_patch, int32_t patches, int64_t block) {
  if (std::find(vertex_patch.begin(), vertex_patch.end(), -1) == vertex_patch.end()) return patches;
  std::vector<int64_t> owned(patches, 0);
  for (const int32_t p : vertex_patch)
    if (p >= 0) ++owned[p];
  int32_t open = 0;
  for (int32_t& p : vertex_patch) {
    if (p >= 0) continue;
    while (open < static_cast<int32_t>(owned.size()) && owned[open] >= block) ++open;
    if (open == static_cast<int32_t>(owned.size())) owned.push_back(0);
    p = open;
    ++owned[open];
  }
  return static_cast<int32_t>(owned.size());
}

Ownership list_owned(int32_t count, std::vector<int32_t>&& vertices, std::vector<int32_t>&& edges, std::vector<int32_t>&& faces,
                     int threads) {
  Ownership own{count, {std::move(vertices), {}}, {std::move(edges), {}}, {std::move(faces), {}}};
  for_range(threads, 3, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      Lists& kind = i == 0 ? own.edges : i == 1 ? own.faces : own.vertices;
      kind.owned = invert(count, kind.patch.data(), static_cast<int64_t>(kind.patch.size()), 1);
    }
  });
  return own;
}

Ownership own_surface(const Topology& T, const Parts& faces, int64_t block, int threads) {
  std::vector<int32_t> vertices = lowest_patch(T.vertex_faces, faces.part, threads);
  std::vector<int32_t> edges = lowest_patch(T.edge_faces, faces.part, threads);
  const int32_t count = assign_unreferenced(vertices, faces.count, block);
  return list_owned(count, std::move(vertices), std::move(edges), std::vector<int32_t>(faces.part), threads);
}

// An edge belongs to the lower patch of its ends. An edge of one heavy vertex belongs to the patch of its other end: no patch
// could own all edges of a heavy vertex.
Ownership own_pattern(const Topology& T, const Parts& vertices, int threads) {
  std::vector<int32_t> edges(T.num_edges);
  for_range(threads, T.num_edges, 16384, [&](int64_t begin, int64_t end, int) {
    for (int64_t e = begin; e < end; ++e) {
      const int32_t a = T.edges[2 * e], b = T.edges[2 * e + 1];
      const bool heavy_a = is_heavy_vertex(T, a), heavy_b = is_heavy_vertex(T, b);
      const int32_t p = vertices.part[a], q = vertices.part[b];
      edges[e] = heavy_a == heavy_b ? std::min(p, q) : heavy_a ? q : p;
    }
  });
  return list_owned(vertices.count, std::vector<int32_t>(vertices.part), std::move(edges), {}, threads);
}

// ---- ribbons

void sort_unique(std::vector<int32_t>& v) {
  std::sort(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
}

struct Row {                                                // view of a row of an OwnedPattern, for range-based loops
  const int32_t *first, *last;
  Row(const OwnedPattern& rows, int32_t r) : first(rows.idx.data() + rows.ptr[r]), last(rows.idx.data() + rows.ptr[r + 1]) {}
  const int32_t* begin() const { return first; }
  const int32_t* end() const { return last; }
  size_t size() const { return static_cast<size_t>(last - first); }
};

// Gathers the ribbon of each patch. Returns marks of the patches with more than local_limit elements of one kind.
template <class Gather>
std::vector<uint8_t> gather_ribbons(const Ownership& own, std::vector<Ribbon>& ribbons, int threads, Gather&& gather) {
  std::vector<uint8_t> full(own.count, 0);
  ribbons.assign(own.count, {});
  for_range(threads, own.count, 16, [&](int64_t begin, int64_t end, int) {
    Ribbon scratch;
    for (int64_t k = begin; k < end; ++k) {
      const int32_t p = static_cast<int32_t>(k);
      interrupt::poll();
      scratch.vertices.clear();
      scratch.edges.clear();
      scratch.faces.clear();
      gather(p, scratch);
      const size_t largest = std::max({Row(own.vertices.owned, p).size() + scratch.vertices.size(),
                                       Row(own.edges.owned, p).size() + scratch.edges.size(),
                                       Row(own.faces.owned, p).size() + scratch.faces.size()});
      full[p] = largest > static_cast<size_t>(local_limit);
      if (!full[p]) ribbons[p] = scratch;                   // copied, which trims the capacity
    }
  });
  return full;
}

// Faces at an owned vertex, and at an edge of an owned face if neither end contributes them, with their edges and vertices.
void gather_surface(const Topology& T, const Ownership& own, int32_t p, Ribbon& ribbon) {
  const std::vector<int32_t>&vertex_patch = own.vertices.patch, &face_patch = own.faces.patch;
  const auto has_star = [&](int32_t v) { return vertex_patch[v] == p && !is_heavy_vertex(T, v); };
  const auto add_foreign = [&](Row faces) {
    for (const int32_t f : faces)
      if (face_patch[f] != p) ribbon.faces.push_back(f);
  };
  for (const int32_t v : Row(own.vertices.owned, p))
    if (!is_heavy_vertex(T, v)) add_foreign(Row(T.vertex_faces, v));
  for (const int32_t f : Row(own.faces.owned, p))
    for (int i = 0; i < 3; ++i) {
      const int32_t* const corner = T.faces + 3 * int64_t{f};
      const int32_t v = corner[i], w = corner[(i + 1) % 3], e = T.face_edges[3 * int64_t{f} + i];
      if (!has_star(v) && !has_star(w) && !is_heavy_edge(T, e)) add_foreign(Row(T.edge_faces, e));
    }
  sort_unique(ribbon.faces);
  const auto add_closure = [&](int32_t f) {
    for (int64_t s = 3 * int64_t{f}; s < 3 * int64_t{f} + 3; ++s) {
      if (own.edges.patch[T.face_edges[s]] != p) ribbon.edges.push_back(T.face_edges[s]);
      if (vertex_patch[T.faces[s]] != p) ribbon.vertices.push_back(T.faces[s]);
    }
  };
  for (const int32_t f : Row(own.faces.owned, p)) add_closure(f);
  for (const int32_t f : ribbon.faces) add_closure(f);
  sort_unique(ribbon.edges);
  sort_unique(ribbon.vertices);
}

// Edges at an owned vertex, and the ends of all edges.
void gather_pattern(const Topology& T, const Ownership& own, int32_t p, Ribbon& ribbon) {
  for (const int32_t v : Row(own.vertices.owned, p)) {
    if (is_heavy_vertex(T, v)) continue;
    for (const int32_t e : Row(T.vertex_edges, v))
      if (own.edges.patch[e] != p) ribbon.edges.push_back(e);
  }
  sort_unique(ribbon.edges);
  const auto add_ends = [&](int32_t e) {
    for (int64_t s = 2 * int64_t{e}; s < 2 * int64_t{e} + 2; ++s)
      if (own.vertices.patch[T.edges[s]] != p) ribbon.vertices.push_back(T.edges[s]);
  };
  for (const int32_t e : Row(own.edges.owned, p)) add_ends(e);
  for (const int32_t e : ribbon.edges) add_ends(e);
  sort_unique(ribbon.vertices);
}

// ---- local numbers

// Rank of each element among the owned elements of its patch.
std::vector<uint16_t> ranks(const Lists& lists, int threads) {
  std::vector<uint16_t> rank(lists.patch.size());
  for_range(threads, lists.owned.n(), 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p)
      for (int64_t q = lists.owned.ptr[p]; q < lists.owned.ptr[p + 1]; ++q)
        rank[lists.owned.idx[q]] = static_cast<uint16_t>(q - lists.owned.ptr[p]);
  });
  return rank;
}

// Local to global numbers and owners of the ribbon, for one kind of elements.
Elements number_elements(Lists&& lists, const std::vector<uint16_t>& rank, const std::vector<Ribbon>& ribbons,
                 std::vector<int32_t> Ribbon::*kind, int threads) {
  Elements E;
  const int32_t count = lists.owned.n();
  E.ptr.assign(static_cast<size_t>(count) + 1, 0);
  for (int32_t p = 0; p < count; ++p)
    E.ptr[p + 1] = E.ptr[p] + static_cast<int64_t>(Row(lists.owned, p).size() + (ribbons[p].*kind).size());
  E.ltog.resize(E.ptr[count]);
  E.owner_patch.resize(E.ptr[count] - lists.owned.ptr[count]);
  E.owner_local.resize(E.owner_patch.size());
  for_range(threads, count, 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      const Row owned(lists.owned, static_cast<int32_t>(p));
      const std::vector<int32_t>& ribbon = ribbons[p].*kind;
      std::copy(ribbon.begin(), ribbon.end(), std::copy(owned.begin(), owned.end(), E.ltog.begin() + E.ptr[p]));
      int64_t at = E.ptr[p] - lists.owned.ptr[p];
      for (const int32_t g : ribbon) {
        E.owner_patch[at] = lists.patch[g];
        E.owner_local[at++] = rank[g];
      }
    }
  });
  E.patch = std::move(lists.patch);
  E.owned_ptr = std::move(lists.owned.ptr);
  return E;
}

// Converts the rows of a table of k columns, for every local element, to local numbers of the elements that they refer to.
std::vector<uint16_t> localize(const Elements& of, const int32_t* table, int k, const Elements& to,
                               const std::vector<uint16_t>& rank, int threads) {
  std::vector<uint16_t> local(of.ltog.size() * k);
  const int32_t count = static_cast<int32_t>(of.ptr.size()) - 1;
  for_range(threads, count, 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t owned = to.owned_ptr[p + 1] - to.owned_ptr[p];
      const auto first = to.ltog.begin() + to.ptr[p], last = to.ltog.begin() + to.ptr[p + 1];
      for (int64_t i = of.ptr[p]; i < of.ptr[p + 1]; ++i)
        for (int c = 0; c < k; ++c) {
          const int32_t g = table[int64_t{of.ltog[i]} * k + c];
          local[i * k + c] = to.patch[g] == p ? rank[g] : static_cast<uint16_t>(std::lower_bound(first + owned, last, g) - first);
        }
    }
  });
  return local;
}

Patches number_locally(const Topology& T, Ownership&& own, const std::vector<Ribbon>& ribbons, Heavy&& heavy, int threads) {
  Patches P;
  P.count = own.count;
  const std::vector<uint16_t> vertex_rank = ranks(own.vertices, threads), edge_rank = ranks(own.edges, threads);
  const std::vector<uint16_t> face_rank = ranks(own.faces, threads);
  P.vertices = number_elements(std::move(own.vertices), vertex_rank, ribbons, &Ribbon::vertices, threads);
  P.edges = number_elements(std::move(own.edges), edge_rank, ribbons, &Ribbon::edges, threads);
  P.faces = number_elements(std::move(own.faces), face_rank, ribbons, &Ribbon::faces, threads);
  P.ev = localize(P.edges, T.edges, 2, P.vertices, vertex_rank, threads);
  P.fe = localize(P.faces, T.face_edges, 3, P.edges, edge_rank, threads);
  P.heavy_vertices = std::move(heavy.vertices);
  P.heavy_edges = std::move(heavy.edges);
  return P;
}

}  // namespace
}  // namespace ms::patches
