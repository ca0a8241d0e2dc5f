// State of a nested dissection on the GPU, and the steps of one vertex or patch that the kernels of dissect.cu and levels.cu share.
//
// A node of the separator tree is a set of whole patches with consecutive numbers. It has slices of all arrays: of positions (begin),
// of patches (first_patch), and of edges (first_edge). Its two sides get parts of these slices, so nothing is allocated and no
// number depends on other nodes. Random numbers are keyed by the path from the root. Nodes of one level are never adjacent: they may be
// dissected in any order, and at once.
#pragma once
#include "order/order.cuh"

namespace ms::order {

constexpr int none = -1;
constexpr int most_depth = 60;                              // levels of the separator tree
constexpr int pool_factor = 4;                              // vertices of all coarser graphs relative to the patches of a node, at most
constexpr int scratch_row = 8;                              // ints of global memory per vertex for a flow that exceeds shared memory

struct Node {
  long long first_edge, edges;                              // slice of the pool of edges, for the quotient graph and all coarser ones
  unsigned long long key;                                   // of its random numbers
  int begin, weight;                                        // first position, number of vertices; weight 0: there is no such node
  int first_patch, last_patch;
  int owner, depth;                                         // first position of the separator above, or -1
  int entries, seeds, weight_0;                             // counters: edges in use, vertices at the cut, weight of side 0
};

static_assert(sizeof(Node) == 64, "nested_cuda.py allocates 8 numbers of 64 bits");

struct Dissection {
  const int n, patches, trials, room, leaf_size, layers, rounds, large;       // room: size of the pool of edges relative to the graph
  const double balance;
  const long long* const ptr;
  const int* const idx;
  int* const patch;                                         // patch of each vertex; -1: it is in a separator or a leaf
  int *const vertex_rows, *const patch_rows;                // the arrays below
  int *const adj, *const edge_weight;                       // pool of edges
  Node* const nodes;

  // One entry for each vertex.
  __device__ int* slot() const { return of_vertices(0); }   // first position of its leaf or separator
  // A separator or leaf that starts at a position: the end, < 0 for a leaf, and the first position of the separator above.
  __device__ int* span_end() const { return of_vertices(1); }
  __device__ int* span_owner() const { return of_vertices(2); }
  __device__ int* side() const { return of_vertices(3); }
  __device__ int* layer() const { return of_vertices(4); }
  __device__ int* touched() const { return of_vertices(5); }
  __device__ int* position() const { return of_vertices(6); }
  __device__ int* list(int depth) const { return of_vertices(7 + (depth & 1)); }        // vertices of each node, patch by patch
  __device__ int* band() const { return of_vertices(9); }
  __device__ int* touched_list() const { return of_vertices(10); }
  __device__ int* other() const { return of_vertices(11); }
  __device__ int* flow() const { return of_vertices(12); }  // scratch_row entries

  // One entry for each patch.
  __device__ int* weight() const { return of_patches(0); }
  __device__ int* degree() const { return of_patches(1); }  // sum of the degrees of its vertices
  __device__ int* list_begin() const { return of_patches(2); }
  __device__ int* patch_side() const { return of_patches(3); }
  __device__ int* node() const { return of_patches(4); }    // on the upper levels; -1: none
  __device__ int* mate() const { return of_patches(5); }
  __device__ int* prefer() const { return of_patches(6); }
  __device__ int* fresh() const { return prefer(); }        // next number of a patch; < 0: -1 - first position of the leaf
  __device__ int* row_begin() const { return of_patches(7); }           // from here on pools, pool_factor entries each
  __device__ int* row_end() const { return of_patches(7 + pool_factor); }
  __device__ int* pool_weight() const { return of_patches(7 + 2 * pool_factor); }
  __device__ int* coarse() const { return of_patches(7 + 3 * pool_factor); }
  __device__ int* trial(int k) const { return of_patches(7 + 4 * pool_factor + 5 * k); }       // 4 rows of scratch, 1 of sides as bytes

 private:
  __device__ int* of_vertices(int row) const { return vertex_rows + static_cast<long long>(row) * n; }
  __device__ int* of_patches(int row) const { return patch_rows + static_cast<long long>(row) * patches; }
};

#define DISSECTION_ARGUMENTS                                                                                                    \
  int n, int patches, int trials, int room, int leaf_size, int layers, int rounds, int large, double balance,                   \
      const long long *ptr, const int *idx, int *patch, int *vertex_rows, int *patch_rows, int *adj, int *edge_weight,          \
      long long *nodes
#define DISSECTION_VALUES                                                                                                       \
  n, patches, trials, room, leaf_size, layers, rounds, large, balance, ptr, idx, patch, vertex_rows, patch_rows, adj,           \
      edge_weight, reinterpret_cast<Node*>(nodes)

// A row of the quotient graph, by a warp.
struct Row {
  int *const adj, *const weight;
  int size = 0;

  // Adds an edge to `column` for each lane; column -1: none.
  __device__ __forceinline__ void add(int column) {
    const int lane = threadIdx.x & 31;
    for (unsigned left = __ballot_sync(full_warp, column >= 0); left != 0;) {
      const int wanted = __shfl_sync(full_warp, column, __ffs(left) - 1);
      const unsigned same = __ballot_sync(full_warp, column == wanted);
      left &= ~same;
      int at = size;
      for (int base = 0; base < size && at == size; base += 32) {
        const unsigned found = __ballot_sync(full_warp, base + lane < size && adj[base + lane] == wanted);
        if (found != 0) at = base + __ffs(found) - 1;
      }
      if (lane == 0) {
        if (at == size) adj[at] = wanted;                   // no lane reads it before the barrier
        weight[at] = (at < size ? weight[at] : 0) + __popc(same);
      }
      if (at == size) ++size;
      __syncwarp();
    }
  }
};

// Writes the row of patch p of the quotient graph, by a warp: the adjacent patches and the number of edges to each. Patches are
// numbered from the first one of the node. The rows of a node are placed in any order, and the entries of a row come in any order.
__device__ inline void write_row(const Dissection& d, Node* node, int p) {
  const int lane = threadIdx.x & 31, first = d.list_begin()[p], last = first + d.weight()[p], first_patch = node->first_patch;
  const int* const list = d.list(node->depth);
  const auto column = [&](int u) {
    const int q = d.patch[u];
    return q < 0 || q == p ? none : q - first_patch;
  };
  int crossing = 0;                                         // the row has no more entries
  for (int i = first + lane; i < last; i += 32)
    for (long long k = d.ptr[list[i]]; k < d.ptr[list[i] + 1]; ++k) crossing += column(d.idx[k]) >= 0;
  crossing = warp_sum(crossing);
  int begin = 0;
  if (lane == 0) begin = atomicAdd(&node->entries, crossing);
  begin = __shfl_sync(full_warp, begin, 0);
  Row row{d.adj + node->first_edge + begin, d.edge_weight + node->first_edge + begin};
  for (int base = first; base < last; base += 32) {
    const int v = base + lane < last ? list[base + lane] : none;
    long long k = v < 0 ? 0 : d.ptr[v];
    const long long end = v < 0 ? 0 : d.ptr[v + 1];
    while (__ballot_sync(full_warp, k < end) != 0) row.add(k < end ? column(d.idx[k++]) : none);
  }
  if (lane > 0) return;
  const long long at = static_cast<long long>(pool_factor) * first_patch + (p - first_patch);
  d.row_begin()[at] = begin;
  d.row_end()[at] = begin + row.size;
  d.pool_weight()[at] = last - first;
}

// Sets the side of a vertex of a node. A vertex at the cut is added to the band.
__device__ inline void start_vertex(const Dissection& d, Node* node, int v) {
  const int own = d.patch_side()[d.patch[v]];
  d.side()[v] = own;
  d.layer()[v] = none;
  d.touched()[v] = 0;
  for (long long k = d.ptr[v]; k < d.ptr[v + 1]; ++k) {
    const int other = d.patch[d.idx[k]];
    if (other < 0 || d.patch_side()[other] == own) continue;
    d.band()[node->begin + atomicAdd(&node->seeds, 1)] = v;
    break;
  }
}

// Moves a vertex to its side of the node, at this depth: the next number of its patch, or the position of its leaf.
__device__ inline void relabel(const Dissection& d, int v, int depth) {
  const int p = d.patch[v];
  if (p < 0) return;
  const int to = d.fresh()[p];
  d.patch[v] = max(to, none);
  if (to < 0) {
    d.slot()[v] = -1 - to;
  } else {
    d.list(depth + 1)[atomicSub(d.list_begin() + to, 1) - 1] = v;
  }
}

}  // namespace ms::order
