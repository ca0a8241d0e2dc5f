// The eight neighborhood queries and the quotient graph on the GPU: one thread block per patch, with rows built in shared memory.
//
// CPU counterpart: query.cpp, the same rows. Source: RXMesh (Mahmoud, Porumbescu, Owens 2021), section 5. A thread block reads
// the 16-bit connectivity of its patch once, coalesced. Rows of transposed incidences (VE VV VF EF) are counted (k_count), and
// the counts are scanned. Then k_rows scatters the pairs of each patch into rows in shared memory, sorts each row by one thread
// and writes it. A patch whose rows exceed `capacity` integers works in global memory. Rows of heavy elements are gathered from
// the owned carriers of all patches (k_heavy). Atomics are on shared memory, except for heavy rows and patches beyond the
// capacity.
#include "patches/patches.cuh"

namespace ms::patches {

// The incidence of one query in patch p: carriers (edges or faces) whose pairs (source, target) are the entries of the rows.
template <Query query> struct Incidence {
  static constexpr bool of_edges = query == VE || query == VV;
  Kind source, target, carrier;
  const u16 *ev, *fe;                                       // tables of the patch

  __device__ __forceinline__ Incidence(int p, const Kind& vertices, const Kind& edges, const Kind& faces, const u16* all_ev,
                                       const u16* all_fe)
      : source(query == EF ? edges : vertices),
        target(query == VE ? edges : query == VV ? vertices : faces),
        carrier(of_edges ? edges : faces),
        ev(all_ev + 2 * edges.ptr[p]),
        fe(all_fe + 3 * faces.ptr[p]) {}

  template <class Emit> __device__ __forceinline__ void pairs(int i, Emit emit) const { patches::pairs<query>(ev, fe, i, emit); }
};

// Calls body(Incidence<query>) for the query of the launch; the body is compiled once for each query.
template <class Body>
__device__ __forceinline__ void with_incidence(int query, int p, const Kind& vertices, const Kind& edges, const Kind& faces,
                                               const u16* ev, const u16* fe, Body body) {
  switch (query) {
    case VE: return body(Incidence<VE>(p, vertices, edges, faces, ev, fe));
    case VV: return body(Incidence<VV>(p, vertices, edges, faces, ev, fe));
    case VF: return body(Incidence<VF>(p, vertices, edges, faces, ev, fe));
    default: return body(Incidence<EF>(p, vertices, edges, faces, ev, fe));
  }
}

// size[g] = number of pairs of each owned source, with global number g.
template <class At> __device__ __forceinline__ void count_rows(const At& at, int p, int capacity, int* shared, int* size) {
  const int owned = at.source.owned(p), carriers = at.carrier.size(p);
  const int* const source = at.source.global(p);
  if (owned > capacity) {
    for (int i = threadIdx.x; i < carriers; i += blockDim.x)
      at.pairs(i, [&](int s, int) {
        if (s < owned) atomicAdd(size + source[s], 1);
      });
    return;
  }
  for (int s = threadIdx.x; s < owned; s += blockDim.x) shared[s] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < carriers; i += blockDim.x)
    at.pairs(i, [&](int s, int) {
      if (s < owned) atomicAdd(shared + s, 1);
    });
  __syncthreads();
  for (int s = threadIdx.x; s < owned; s += blockDim.x) size[source[s]] = shared[s];
}

// Builds the rows in shared memory, after two integers per source; one thread sorts each row.
template <class At>
__device__ __forceinline__ void write_rows(const At& at, int p, int* shared, const long long* indptr, int* indices) {
  const int owned = at.source.owned(p), carriers = at.carrier.size(p);
  const int *const source = at.source.global(p), *const target = at.target.global(p);
  int *const start = shared, *const next = shared + owned, *const row = shared + 2 * owned;
  for (int s = threadIdx.x; s < owned; s += blockDim.x) start[s] = static_cast<int>(indptr[source[s] + 1] - indptr[source[s]]);
  block_exclusive_sums(start, owned);
  for (int s = threadIdx.x; s < owned; s += blockDim.x) next[s] = start[s];
  __syncthreads();
  for (int i = threadIdx.x; i < carriers; i += blockDim.x)
    at.pairs(i, [&](int s, int t) {
      if (s < owned) row[atomicAdd(next + s, 1)] = target[t];
    });
  __syncthreads();
  for (int s = threadIdx.x; s < owned; s += blockDim.x) {
    const int count = next[s] - start[s];
    sort_row(row + start[s], count);
    for (int k = 0; k < count; ++k) indices[indptr[source[s]] + k] = row[start[s] + k];
  }
}

// The same in global memory, for a patch beyond the capacity. cursor: one entry per source element, zero on entry.
template <class At>
__device__ __forceinline__ void write_rows_in_place(const At& at, int p, int* cursor, const long long* indptr, int* indices) {
  const int owned = at.source.owned(p), carriers = at.carrier.size(p);
  const int *const source = at.source.global(p), *const target = at.target.global(p);
  for (int i = threadIdx.x; i < carriers; i += blockDim.x)
    at.pairs(i, [&](int s, int t) {
      if (s < owned) indices[indptr[source[s]] + atomicAdd(cursor + source[s], 1)] = target[t];
    });
  __syncthreads();
  for (int s = threadIdx.x; s < owned; s += blockDim.x) sort_row(indices + indptr[source[s]], cursor[source[s]]);
}

// Number of integers of shared memory that write_rows needs for patch p, at most capacity + 1.
__device__ __forceinline__ int rows_size(const Kind& of, int p, const long long* indptr, int capacity) {
  const int owned = of.owned(p);
  const int* const source = of.global(p);
  long long part = 0, total = 0;
  for (int s = threadIdx.x; s < owned; s += blockDim.x) part += indptr[source[s] + 1] - indptr[source[s]];
  block_exclusive_sum(part, total);
  return static_cast<int>(min(2ll * owned + total, capacity + 1ll));
}

// Faces at each local edge of a patch, as ascending rows of global numbers, which FF merges. On return `start` is shifted by one:
// row e is [start[e - 1], start[e]).
__device__ __forceinline__ void edge_faces(const Incidence<EF>& at, int p, int* start, int* row) {
  const int edges = at.source.size(p), count = at.carrier.size(p);
  const int* const face = at.target.global(p);
  for (int e = threadIdx.x; e < edges; e += blockDim.x) start[e] = 0;
  __syncthreads();
  for (int f = threadIdx.x; f < count; f += blockDim.x) at.pairs(f, [&](int e, int) { atomicAdd(start + e, 1); });
  __syncthreads();
  block_exclusive_sums(start, edges);
  for (int f = threadIdx.x; f < count; f += blockDim.x)
    at.pairs(f, [&](int e, int t) { row[atomicAdd(start + e, 1)] = face[t]; });
  __syncthreads();
  for (int e = threadIdx.x; e < edges; e += blockDim.x) {
    const int begin = e > 0 ? start[e - 1] : 0;
    sort_row(row + begin, start[e] - begin);
  }
  __syncthreads();
}

// The union of three ascending rows without `self`, written to `out` if it is given. Returns its size.
__device__ __forceinline__ int merge_rows(const int* const row[3], const int count[3], int self, int* out) {
  int at[3] = {0, 0, 0}, written = 0;
  for (;;) {
    int least = 0x7fffffff;
    for (int c = 0; c < 3; ++c)
      if (at[c] < count[c] && row[c][at[c]] < least) least = row[c][at[c]];
    if (least == 0x7fffffff) return written;
    for (int c = 0; c < 3; ++c)
      while (at[c] < count[c] && row[c][at[c]] == least) ++at[c];
    if (least == self) continue;
    if (out) out[written] = least;
    ++written;
  }
}

}  // namespace ms::patches

using namespace ms;
using namespace ms::patches;

// ---- VE VV VF EF

// size[g] = number of pairs of each owned source g. A patch of more than `capacity` sources counts in `size`, which must be zero
// on entry.
extern "C" __global__ void __launch_bounds__(256)
k_count(int query, const long long* vertex_ptr, const long long* vertex_owned, const int* vertex_ltog, const long long* edge_ptr,
        const long long* edge_owned, const int* edge_ltog, const long long* face_ptr, const long long* face_owned,
        const int* face_ltog,
        const unsigned short* ev, const unsigned short* fe, int capacity, int* size) {
  extern __shared__ int shared[];
  const int p = blockIdx.x;
  with_incidence(query, p, {vertex_ptr, vertex_owned, vertex_ltog}, {edge_ptr, edge_owned, edge_ltog},
                 {face_ptr, face_owned, face_ltog}, ev, fe, [&](const auto& at) { count_rows(at, p, capacity, shared, size); });
}

// Writes the rows. A heavy source gets the incomplete row of its patch, which the result of k_heavy replaces.
extern "C" __global__ void __launch_bounds__(256)
k_rows(int query, const long long* vertex_ptr, const long long* vertex_owned, const int* vertex_ltog, const long long* edge_ptr,
       const long long* edge_owned, const int* edge_ltog, const long long* face_ptr, const long long* face_owned,
       const int* face_ltog,
       const unsigned short* ev, const unsigned short* fe, int capacity, const long long* indptr, int* cursor,
       int* indices) {
  extern __shared__ int shared[];
  const int p = blockIdx.x;
  with_incidence(query, p, {vertex_ptr, vertex_owned, vertex_ltog}, {edge_ptr, edge_owned, edge_ltog},
                 {face_ptr, face_owned, face_ltog}, ev, fe, [&](const auto& at) {
                   if (rows_size(at.source, p, indptr, capacity) <= capacity) write_rows(at, p, shared, indptr, indices);
                   else write_rows_in_place(at, p, cursor, indptr, indices);
                 });
}

// Lists the pairs (rank of a heavy source << 32 | target) of all owned carriers, in any order. With `pairs` null it only counts
// them.
extern "C" __global__ void __launch_bounds__(256)
k_heavy(int query, const long long* vertex_ptr, const long long* vertex_owned, const int* vertex_ltog, const long long* edge_ptr,
        const long long* edge_owned, const int* edge_ltog, const long long* face_ptr, const long long* face_owned,
        const int* face_ltog,
        const unsigned short* ev, const unsigned short* fe, const int* heavy, int num_heavy,
        unsigned long long* count, long long* pairs) {
  const int p = blockIdx.x;
  with_incidence(query, p, {vertex_ptr, vertex_owned, vertex_ltog}, {edge_ptr, edge_owned, edge_ltog},
                 {face_ptr, face_owned, face_ltog}, ev, fe, [&](const auto& at) {
                   const int *const source = at.source.global(p), *const target = at.target.global(p);
                   for (int i = threadIdx.x; i < at.carrier.owned(p); i += blockDim.x)
                     at.pairs(i, [&](int s, int t) {
                       const int h = lower_bound(heavy, num_heavy, source[s]);
                       if (h == num_heavy || heavy[h] != source[s]) return;
                       const unsigned long long k = atomicAdd(count, 1ull);
                       if (pairs) pairs[k] = pair_key(h, target[t]);
                     });
                 });
}

// ---- FF

// Faces that share an edge with each owned face. First pass (`indices` null): size[f]; second pass: the rows. A patch that needs
// more than `capacity` integers uses its part of `scratch`: one per local edge, then three per local face. Rows of heavy edges
// are given by heavy_ptr and heavy_faces.
extern "C" __global__ void __launch_bounds__(256)
k_faces_of_faces(const long long* edge_ptr, const long long* edge_owned, const int* edge_ltog, const long long* face_ptr,
                 const long long* face_owned, const int* face_ltog, const unsigned short* fe, const int* heavy, int num_heavy,
                 const long long* heavy_ptr, const int* heavy_faces, int capacity, int* scratch, int* size,
                 const long long* indptr,
                 int* indices) {
  extern __shared__ int shared[];
  const int p = blockIdx.x, patches = gridDim.x;
  const Kind edges{edge_ptr, edge_owned, edge_ltog}, faces{face_ptr, face_owned, face_ltog};
  const Incidence<EF> at(p, edges, edges, faces, fe, fe);   // EF reads neither vertices nor ev
  const bool fits = edges.size(p) + 3 * faces.size(p) <= capacity;
  int* const start = fits ? shared : scratch + edge_ptr[p];
  int* const row = fits ? shared + edges.size(p) : scratch + edge_ptr[patches] + 3 * face_ptr[p];
  edge_faces(at, p, start, row);
  const int owned = faces.owned(p);
  for (int f = threadIdx.x; f < owned; f += blockDim.x) {
    const int* side[3];
    int count[3];
    for (int c = 0; c < 3; ++c) {
      const int e = at.fe[3 * f + c], begin = e > 0 ? start[e - 1] : 0;
      side[c] = row + begin;
      count[c] = start[e] - begin;
      if (num_heavy == 0) continue;
      const int h = lower_bound(heavy, num_heavy, edges.global(p)[e]);
      if (h == num_heavy || heavy[h] != edges.global(p)[e]) continue;
      side[c] = heavy_faces + heavy_ptr[h];
      count[c] = static_cast<int>(heavy_ptr[h + 1] - heavy_ptr[h]);
    }
    const int self = faces.global(p)[f];
    if (indices) merge_rows(side, count, self, indices + indptr[self]);
    else size[self] = merge_rows(side, count, self, nullptr);
  }
}

// ---- EV FE FV: tables of two or three columns

extern "C" __global__ void __launch_bounds__(256)
k_table(int columns, int of_corners, const long long* source_ptr, const long long* source_owned, const int* source_ltog,
        const long long* target_ptr, const int* target_ltog, const unsigned short* table, const long long* edge_ptr,
        const unsigned short* ev, int* indices) {
  const int p = blockIdx.x, owned = static_cast<int>(source_owned[p + 1] - source_owned[p]);
  const int *const source = source_ltog + source_ptr[p], *const target = target_ltog + target_ptr[p];
  const u16* const local = table + columns * source_ptr[p];
  for (int i = threadIdx.x; i < owned; i += blockDim.x) {
    int row[3] = {local[columns * i], local[columns * i + 1], columns > 2 ? local[columns * i + 2] : 0};
    if (of_corners) corners(ev + 2 * edge_ptr[p], local + 3 * i, row);
    for (int c = 0; c < columns; ++c) indices[static_cast<long long>(source[i]) * columns + c] = target[row[c]];
  }
}

// ---- quotient graph

// Lists the keys (patch << 32 | patch) of both directions of every edge between patches. With `keys` null it only counts them.
// The owner of a foreign vertex is found in the table of the ribbon, so only that table and 16-bit numbers are read.
extern "C" __global__ void __launch_bounds__(256)
k_crossing(const long long* vertex_ptr, const long long* vertex_owned, const int* owner_patch, const long long* edge_ptr,
           const long long* edge_owned, const unsigned short* ev, unsigned long long* count, long long* keys) {
  __shared__ unsigned long long first;
  const int p = blockIdx.x, edges = static_cast<int>(edge_owned[p + 1] - edge_owned[p]);
  const int owned = static_cast<int>(vertex_owned[p + 1] - vertex_owned[p]);
  const int* const foreign = owner_patch + vertex_ptr[p] - vertex_owned[p];
  const u16* const local = ev + 2 * edge_ptr[p];
  const auto patch_of = [&](int v) { return v < owned ? p : foreign[v - owned]; };
  for (int base = 0; base < edges; base += blockDim.x) {
    const int e = base + threadIdx.x;
    const int a = e < edges ? patch_of(local[2 * e]) : 0, b = e < edges ? patch_of(local[2 * e + 1]) : 0;
    int total;
    const int before = block_exclusive_sum(a != b ? 2 : 0, total);
    if (threadIdx.x == 0 && total > 0) first = atomicAdd(count, static_cast<unsigned long long>(total));
    __syncthreads();
    if (keys && a != b) {
      keys[first + before] = pair_key(a, b);
      keys[first + before + 1] = pair_key(b, a);
    }
  }
}
