// The patch as the code of PatchMesh.kernel accesses it: connectivity in 16-bit local numbers, in shared memory.
//
// Owned elements have the lowest local numbers, the ribbon follows; each part ascends in global numbers. Rows of neighbors are
// built for owned elements only, whose neighbors are all in the patch. MS_PATCH_ROWS has a bit (1 << query) for each kind of rows.
// Source: RXMesh (Mahmoud, Porumbescu, Owens 2021), section 5. Cost of a launch: one read of the patch, and one sort of each row.
#pragma once
#include "patches/patches.cuh"

namespace ms::patches {

using Tables = unsigned long long;                          // addresses and sizes, in the order of kernel_cuda.py

// A row of local numbers, ascending: for (int w : patch.vv(v)) ...
struct Row {
  const u16* first;
  int size;
  __device__ const u16* begin() const { return first; }
  __device__ const u16* end() const { return first + size; }
  __device__ int operator[](int k) const { return first[k]; }
};

// Dynamic shared memory of the thread block.
__device__ inline unsigned char* shared_memory() {
  extern __shared__ __align__(16) unsigned char dynamic_memory[];
  return dynamic_memory;
}

class Patch {
 public:
  int number;                                               // of this patch
  int vertices, edges, faces;                               // owned elements and ribbon
  int owned_vertices, owned_edges, owned_faces;

  // Loads the patch of this thread block; every thread calls it.
  __device__ explicit Patch(const Tables* tables) : number(blockIdx.x) {
    const Kind vertex = kind(tables), edge = kind(tables + 3), face = kind(tables + 6);
    vertices = vertex.size(number), edges = edge.size(number), faces = face.size(number);
    owned_vertices = vertex.owned(number), owned_edges = edge.owned(number), owned_faces = face.owned(number);
    global_[0] = vertex.global(number), global_[1] = edge.global(number), global_[2] = face.global(number);
    unsigned char* at = shared_memory();
    const int size[3] = {vertices, edges, faces};
    for (int k = 0; k < 3; ++k) {
      own_[k] = at;
      at += (tables[11 + k] * size[k] + 15) / 16 * 16;
    }
    int* start = reinterpret_cast<int*>(at);
    u16* row = reinterpret_cast<u16*>(start + counters(owned_vertices, owned_edges));
    ev_ = load(address<u16>(tables[9]) + 2 * edge.ptr[number], 2 * edges, row);
    fe_ = load(address<u16>(tables[10]) + 3 * face.ptr[number], 3 * faces, row);
    __syncthreads();
    build<VE>(start, row);
    build<VV>(start, row);
    build<VF>(start, row);
    build<EF>(start, row);
  }

  __device__ int global_vertex(int v) const { return global_[0][v]; }
  __device__ int global_edge(int e) const { return global_[1][e]; }
  __device__ int global_face(int f) const { return global_[2][f]; }
  __device__ bool owns_vertex(int v) const { return v < owned_vertices; }
  __device__ bool owns_edge(int e) const { return e < owned_edges; }
  __device__ bool owns_face(int f) const { return f < owned_faces; }

  __device__ int end(int e, int k) const { return ev_[2 * e + k]; }           // end k (0, 1) of an edge, in its own order
  __device__ int side(int f, int k) const { return fe_[3 * f + k]; }          // edge of a face between its corners k and k + 1
  __device__ void corners(int f, int corner[3]) const { patches::corners(ev_, fe_ + 3 * f, corner); }

  // Neighbors of an owned element. Templates, because rows that the source does not call are not built.
  template <int query = VE> __device__ Row ve(int v) const { return row_of<query>(v); }
  template <int query = VV> __device__ Row vv(int v) const { return row_of<query>(v); }
  template <int query = VF> __device__ Row vf(int v) const { return row_of<query>(v); }
  template <int query = EF> __device__ Row ef(int e) const { return row_of<query>(e); }

  // Shared memory of the caller, of `vertex_bytes` per vertex, `edge_bytes` per edge and `face_bytes` per face of the patch.
  template <class T> __device__ T* per_vertex() const { return reinterpret_cast<T*>(own_[0]); }
  template <class T> __device__ T* per_edge() const { return reinterpret_cast<T*>(own_[1]); }
  template <class T> __device__ T* per_face() const { return reinterpret_cast<T*>(own_[2]); }

 private:
  const int* global_[3];
  unsigned char* own_[3];
  const u16 *ev_, *fe_, *rows_[4];
  const int* starts_[4];                                    // shifted by one: row s is [starts[s - 1], starts[s])

  template <class T> __device__ static const T* address(Tables entry) { return reinterpret_cast<const T*>(entry); }
  __device__ static Kind kind(const Tables* t) { return {address<long long>(t[0]), address<long long>(t[1]), address<int>(t[2])}; }
  static constexpr bool is_built(int query) { return MS_PATCH_ROWS >> query & 1; }
  __device__ static int counters(int vertices, int edges) {
    return (is_built(VE) + is_built(VV) + is_built(VF)) * vertices + is_built(EF) * edges;
  }

  __device__ static const u16* load(const u16* from, int count, u16*& row) {
    u16* const to = row;
    for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
    row += count;
    return to;
  }

  template <int query> __device__ void build(int*& start, u16*& row) {
    if constexpr (is_built(query)) {
      const int owned = query == EF ? owned_edges : owned_vertices, carriers = query == VE || query == VV ? edges : faces;
      int* const next = start;
      u16* const entries = row;
      for (int s = threadIdx.x; s < owned; s += blockDim.x) next[s] = 0;
      __syncthreads();
      for (int i = threadIdx.x; i < carriers; i += blockDim.x)
        pairs<query>(ev_, fe_, i, [&](int s, int) {
          if (s < owned) atomicAdd(next + s, 1);
        });
      __syncthreads();
      block_exclusive_sums(next, owned);
      for (int i = threadIdx.x; i < carriers; i += blockDim.x)
        pairs<query>(ev_, fe_, i, [&](int s, int t) {
          if (s < owned) entries[atomicAdd(next + s, 1)] = static_cast<u16>(t);
        });
      __syncthreads();
      for (int s = threadIdx.x; s < owned; s += blockDim.x) {
        const int begin = s > 0 ? next[s - 1] : 0;
        sort_row(entries + begin, next[s] - begin);
      }
      __syncthreads();
      starts_[query] = next;
      rows_[query] = entries;
      start += owned;
      row += query == VE || query == VV ? 2 * edges : 3 * faces;
    }
  }

  template <int query> __device__ Row row_of(int s) const {
    static_assert(is_built(query), "no rows: call vv, ve, vf and ef by these names");
    const int begin = s > 0 ? starts_[query][s - 1] : 0;
    return {rows_[query] + begin, starts_[query][s] - begin};
  }
};

}  // namespace ms::patches
