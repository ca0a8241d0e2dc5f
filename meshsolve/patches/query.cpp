// The eight neighborhood queries, patch by patch in local numbers, with rows of global numbers as result.
//
// Source: RXMesh (Mahmoud, Porumbescu, Owens 2021), section 5: FE and EV are stored; the others are composed from them and their
// transposes within the patch. A patch writes only the rows of its owned elements, so patches are independent tasks.
// Rows are counted, written, then sorted, so the result does not depend on the number of threads. Cost: O(elements).
// Rows of heavy elements, whose faces are not all in their patch, are gathered from the owned elements of all patches.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "native/threads/parallel.hpp"
#include "sparse/rearrange.hpp"
#include "patches/patches.hpp"

namespace ms::patches {
namespace {

constexpr int64_t kPatchGrain = 16;                               // patches per task

// ---- local incidences: emit(source, target) for each of the first `count` carriers (edges or faces) of patch p

struct VertexEdges {
  static constexpr Kind View::*source = &View::vertices, View::*target = &View::edges, View::*carrier = &View::edges;
  template <class Emit> static void pairs(const View& P, int32_t p, int32_t count, Emit&& emit) {
    const uint16_t* ev = P.ev + 2 * P.edges.ptr[p];
    for (int32_t e = 0; e < count; ++e) {
      emit(ev[2 * e], e);
      emit(ev[2 * e + 1], e);
    }
  }
};

struct VertexVertices {
  static constexpr Kind View::*source = &View::vertices, View::*target = &View::vertices, View::*carrier = &View::edges;
  template <class Emit> static void pairs(const View& P, int32_t p, int32_t count, Emit&& emit) {
    const uint16_t* ev = P.ev + 2 * P.edges.ptr[p];
    for (int32_t e = 0; e < count; ++e) {
      emit(ev[2 * e], ev[2 * e + 1]);
      emit(ev[2 * e + 1], ev[2 * e]);
    }
  }
};

// Corners of a face. Side i joins corners i and i + 1, so corner 0 is the common end of the first and the last side.
std::array<uint16_t, 3> corners(const uint16_t* ev, const uint16_t* sides) {
  const uint16_t *first = ev + 2 * sides[0], *last = ev + 2 * sides[2];
  const uint16_t c = first[0] == last[0] || first[0] == last[1] ? first[0] : first[1];
  return {c, static_cast<uint16_t>(first[0] ^ first[1] ^ c), static_cast<uint16_t>(last[0] ^ last[1] ^ c)};
}

struct VertexFaces {
  static constexpr Kind View::*source = &View::vertices, View::*target = &View::faces, View::*carrier = &View::faces;
  template <class Emit> static void pairs(const View& P, int32_t p, int32_t count, Emit&& emit) {
    const uint16_t *ev = P.ev + 2 * P.edges.ptr[p], *fe = P.fe + 3 * P.faces.ptr[p];
    for (int32_t f = 0; f < count; ++f)
      for (const uint16_t v : corners(ev, fe + 3 * f)) emit(v, f);
  }
};

struct EdgeFaces {
  static constexpr Kind View::*source = &View::edges, View::*target = &View::faces, View::*carrier = &View::faces;
  template <class Emit> static void pairs(const View& P, int32_t p, int32_t count, Emit&& emit) {
    const uint16_t* fe = P.fe + 3 * P.faces.ptr[p];
    for (int32_t s = 0; s < 3 * count; ++s) emit(fe[s], s / 3);
  }
};

// ---- rows

using Rows = std::vector<std::vector<int32_t>>;

// The complete rows of some source elements (ascending), in global numbers. Every carrier is owned by exactly one patch.
template <class Query> Rows rows_of(const View& P, const int32_t* sources, int64_t count) {
  Rows rows(count);
  for (int32_t p = 0; count > 0 && p < P.count; ++p) {
    const int32_t *source = (P.*Query::source).global(p), *target = (P.*Query::target).global(p);
    Query::pairs(P, p, (P.*Query::carrier).owned(p), [&](int32_t s, int32_t t) {
      const int32_t* at = std::lower_bound(sources, sources + count, source[s]);
      if (at != sources + count && *at == source[s]) rows[at - sources].push_back(target[t]);
    });
  }
  for (auto& row : rows) std::sort(row.begin(), row.end());
  return rows;
}

template <class Query> OwnedPattern transposed(const View& P, const int32_t* heavy, int64_t num_heavy, int threads) {
  const Kind &sources = P.*Query::source, &targets = P.*Query::target, &carriers = P.*Query::carrier;
  const Rows heavy_rows = rows_of<Query>(P, heavy, num_heavy);
  OwnedPattern R{std::vector<int64_t>(sources.owned_ptr[P.count] + 1, 0), {}};
  std::vector<std::vector<int64_t>> scratch(std::max(1, threads));        // per worker: a counter for each local source
  for_range(threads, P.count, kPatchGrain, [&](int64_t begin, int64_t end, int worker) {
    std::vector<int64_t>& count = scratch[worker];
    count.resize(local_limit);
    for (int32_t p = static_cast<int32_t>(begin); p < end; ++p) {
      const int32_t* source = sources.global(p);
      std::fill_n(count.begin(), sources.size(p), 0);
      Query::pairs(P, p, carriers.size(p), [&](int32_t s, int32_t) { ++count[s]; });
      for (int32_t s = 0; s < sources.owned(p); ++s) R.ptr[source[s] + 1] = count[s];
    }
  });
  for (int64_t h = 0; h < num_heavy; ++h) R.ptr[heavy[h] + 1] = static_cast<int64_t>(heavy_rows[h].size());
  cumsum(R.ptr);
  R.idx.resize(R.ptr.back());
  for_range(threads, P.count, kPatchGrain, [&](int64_t begin, int64_t end, int worker) {
    std::vector<int64_t>& next = scratch[worker];
    next.resize(local_limit);
    for (int32_t p = static_cast<int32_t>(begin); p < end; ++p) {
      const int32_t *source = sources.global(p), *target = targets.global(p), owned = sources.owned(p);
      for (int32_t s = 0; s < owned; ++s) next[s] = R.ptr[source[s]];
      Query::pairs(P, p, carriers.size(p), [&](int32_t s, int32_t t) {
        if (s < owned) R.idx[next[s]++] = target[t];
      });
      for (int32_t s = 0; s < owned; ++s) sort_row(R.idx.data() + R.ptr[source[s]], R.idx.data() + next[s]);
    }
  });
  for (int64_t h = 0; h < num_heavy; ++h) std::copy(heavy_rows[h].begin(), heavy_rows[h].end(), R.idx.begin() + R.ptr[heavy[h]]);
  return R;
}

// A table of k columns: the rows of all owned elements, from local(p, i), an array of k local targets.
template <size_t k, class Local>
OwnedPattern table(const View& P, const Kind& sources, const Kind& targets, int threads, Local&& local) {
  const int64_t n = sources.owned_ptr[P.count];
  OwnedPattern R{std::vector<int64_t>(n + 1), std::vector<int32_t>(n * k)};
  for (int64_t i = 0; i <= n; ++i) R.ptr[i] = i * static_cast<int64_t>(k);
  for_range(threads, P.count, kPatchGrain, [&](int64_t begin, int64_t end, int) {
    for (int32_t p = static_cast<int32_t>(begin); p < end; ++p) {
      const int32_t *source = sources.global(p), *target = targets.global(p);
      for (int32_t i = 0; i < sources.owned(p); ++i) {
        const std::array<uint16_t, k> row = local(p, i);
        for (size_t c = 0; c < k; ++c) R.idx[R.ptr[source[i]] + static_cast<int64_t>(c)] = target[row[c]];
      }
    }
  });
  return R;
}

// ---- faces that share an edge

// Faces at each local edge of one patch, as compressed rows.
struct LocalEdgeFaces {
  std::vector<int32_t> ptr;
  std::vector<uint16_t> faces;
  void fill(const View& P, int32_t p) {
    const int32_t edges = P.edges.size(p), count = P.faces.size(p);
    ptr.assign(edges + 2, 0);
    faces.resize(3 * static_cast<size_t>(count));
    EdgeFaces::pairs(P, p, count, [&](int32_t e, int32_t) { ++ptr[e + 2]; });
    for (int32_t e = 0; e < edges; ++e) ptr[e + 2] += ptr[e + 1];
    EdgeFaces::pairs(P, p, count, [&](int32_t e, int32_t f) { faces[ptr[e + 1]++] = static_cast<uint16_t>(f); });
  }
};

OwnedPattern faces_of_faces(const View& P, int threads) {
  const Rows heavy_rows = rows_of<EdgeFaces>(P, P.heavy_edges, P.num_heavy_edges);
  const int32_t* const heavy_end = P.heavy_edges + P.num_heavy_edges;
  std::vector<std::vector<int32_t>> found(P.count);         // rows of each patch, concatenated
  OwnedPattern R{std::vector<int64_t>(P.faces.owned_ptr[P.count] + 1, 0), {}};
  for_range(threads, P.count, kPatchGrain, [&](int64_t begin, int64_t end, int) {
    LocalEdgeFaces at;
    std::vector<int32_t> row;
    for (int32_t p = static_cast<int32_t>(begin); p < end; ++p) {
      const int32_t *face = P.faces.global(p), *edge = P.edges.global(p);
      const uint16_t* fe = P.fe + 3 * P.faces.ptr[p];
      at.fill(P, p);
      found[p].reserve(3 * static_cast<size_t>(P.faces.owned(p)));
      for (int32_t f = 0; f < P.faces.owned(p); ++f) {
        row.clear();
        for (const uint16_t e : {fe[3 * f], fe[3 * f + 1], fe[3 * f + 2]}) {
          const int32_t* heavy = std::lower_bound(P.heavy_edges, heavy_end, edge[e]);
          if (heavy != heavy_end && *heavy == edge[e]) {
            const std::vector<int32_t>& all = heavy_rows[heavy - P.heavy_edges];
            row.insert(row.end(), all.begin(), all.end());
          } else {
            for (int32_t q = at.ptr[e]; q < at.ptr[e + 1]; ++q) row.push_back(face[at.faces[q]]);
          }
        }
        sort_row(row.data(), row.data() + row.size());
        row.erase(std::unique(row.begin(), row.end()), row.end());
        row.erase(std::lower_bound(row.begin(), row.end(), face[f]));       // not the face itself
        R.ptr[face[f] + 1] = static_cast<int64_t>(row.size());
        found[p].insert(found[p].end(), row.begin(), row.end());
      }
    }
  });
  cumsum(R.ptr);
  R.idx.resize(R.ptr.back());
  for_range(threads, P.count, kPatchGrain, [&](int64_t begin, int64_t end, int) {
    for (int32_t p = static_cast<int32_t>(begin); p < end; ++p) {
      const int32_t* from = found[p].data();
      for (int32_t f = 0; f < P.faces.owned(p); ++f) {
        const int64_t first = R.ptr[P.faces.global(p)[f]], size = R.ptr[P.faces.global(p)[f] + 1] - first;
        std::copy_n(from, size, R.idx.begin() + first);
        from += size;
      }
    }
  });
  return R;
}

}  // namespace

OwnedPattern query(const View& P, const std::string& name, int threads) {
  if (name == "VE") return transposed<VertexEdges>(P, P.heavy_vertices, P.num_heavy_vertices, threads);
  if (name == "VV") return transposed<VertexVertices>(P, P.heavy_vertices, P.num_heavy_vertices, threads);
  if (name == "VF") return transposed<VertexFaces>(P, P.heavy_vertices, P.num_heavy_vertices, threads);
  if (name == "EF") return transposed<EdgeFaces>(P, P.heavy_edges, P.num_heavy_edges, threads);
  if (name == "FF") return faces_of_faces(P, threads);
  if (name == "EV")
    return table<2>(P, P.edges, P.vertices, threads, [&](int32_t p, int32_t e) {
      const uint16_t* ev = P.ev + 2 * (P.edges.ptr[p] + e);
      return std::array<uint16_t, 2>{ev[0], ev[1]};
    });
  if (name == "FE")
    return table<3>(P, P.faces, P.edges, threads, [&](int32_t p, int32_t f) {
      const uint16_t* fe = P.fe + 3 * (P.faces.ptr[p] + f);
      return std::array<uint16_t, 3>{fe[0], fe[1], fe[2]};
    });
  if (name == "FV")
    return table<3>(P, P.faces, P.vertices, threads, [&](int32_t p, int32_t f) {
      return corners(P.ev + 2 * P.edges.ptr[p], P.fe + 3 * (P.faces.ptr[p] + f));
    });
  throw std::invalid_argument("no such query: " + name);
}

}  // namespace ms::patches
