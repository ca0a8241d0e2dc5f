// Symbolic Cholesky on the GPU: elimination tree, tours of trees, column counts, relaxed supernodes, LCA enumeration.
//
// CUDA counterpart of etree.cpp, colcount.cpp, supernode.cpp and pattern.cpp; cuda.py has the order of the steps and the array
// operations between them (sorts, exclusive scans). The same integers, entry by entry. Keys are (row << 32 | column) of lower
// entries. Sources: Liu 1990 (tree); Gilbert, Ng, Peyton 1994 (counts); Ashcraft, Grimes 1989 (relaxation); Ribizel, Anzt 2023
// (LCA).
#include "device/common.cuh"
#include "factor/symbolic/relaxation.hpp"

namespace ms::symbolic {

constexpr int none = 0x7fffffff;
constexpr int run = 32;                 // values per entry of the table of range maxima
enum Kind { separate, partly_merged, merged };       // as in supernode.cpp

__device__ inline int high(long long key) { return static_cast<int>(key >> 32); }
__device__ inline int low(long long key) { return static_cast<int>(key & 0xffffffff); }

// Records that row i is an ancestor of j. parent[j] is the least ancestor of j so far. A thread that adds another one makes the
// larger of the two an ancestor of the smaller, so at the end each pair is on one path to a root. All values ever stored in
// `parent` or `up` are ancestors in the final tree, so a walk may follow `up`, and halves its path on the way.
__device__ inline void join(int j, int i, int* parent, volatile int* up) {
  while (j < i) {
    const int above = up[j];
    if (above == i) return;
    if (above >= 0 && above < i) {
      const int next = up[above];
      if (next >= 0 && next < i) up[j] = next;
      j = above;
      continue;
    }
    const int old = atomicMin(parent + j, i);
    if (above < 0) up[j] = i < old ? i : old;
    if (old == i || old == none) return;
    j = i < old ? i : old;
    i = i < old ? old : i;
  }
}

// The largest of values[from] to values[to - 1]; table level l holds the largest of 2^l runs from each run on.
__device__ inline int range_max(const int* values, const int* table, int runs, int from, int to) {
  int largest = -1, b = (from + run - 1) / run, e = to / run;
  const int head = b < e ? b * run : to;
  for (int k = from; k < head; ++k) largest = max(largest, values[k]);
  if (b >= e) return largest;
  for (int k = e * run; k < to; ++k) largest = max(largest, values[k]);
  const int level = 31 - __clz(e - b);
  const int* const row = table + static_cast<long long>(level) * runs;
  return max(largest, max(row[b], row[e - (1 << level)]));
}

// Fundamental supernodes during relaxation, see supernode.cpp. The children of f are child[child_ptr[f]], ..., sorted by
// ascending column length. in_merged, in_partly_merged, kind and open are 0 before.
struct Joining {
  const int *first, *parent, *below, *child;
  const long long* child_ptr;
  int *begin, *width, *in_merged, *in_partly_merged, *kind, *open;
  long long* entries;
  Relaxation relaxation;
};

// The values of f stay in registers: in memory, each child would wait for the store of the child before it.
__device__ inline void visit(const Joining& t, int f) {
  Block top{t.width[f], t.below[f], t.entries[f]};
  int begin = t.begin[f], in_merged = 0, in_partly_merged = 0, open = 0;
  const long long from = t.child_ptr[f], to = t.child_ptr[f + 1];
  for (long long q = to - 1; q >= from; --q) {
    const int c = t.child[q], first = t.begin[c], columns = t.first[c + 1] - t.first[first], child_open = t.open[c];
    const Block child{t.width[c], t.below[c], t.entries[c]};
    begin = min(begin, first);
    if ((child_open && in_partly_merged > 0) || !worth_joining(child, top, t.relaxation)) {
      open = 1;
      continue;
    }
    top.width += child.width;
    top.entries += child.entries;
    open |= child_open;
    t.kind[c] = child_open ? partly_merged : merged;
    (child_open ? in_partly_merged : in_merged) += columns;
  }
  t.begin[f] = begin;
  t.width[f] = top.width;
  t.entries[f] = top.entries;
  t.in_merged[f] = in_merged;
  t.in_partly_merged[f] = in_partly_merged;
  t.open[f] = open;
}

}  // namespace ms::symbolic

using namespace ms;
using namespace ms::symbolic;

// ---- lower triangle and elimination tree

// count[k]: entries of row k of A[perm][:, perm] left of the diagonal. One thread per row.
extern "C" __global__ void __launch_bounds__(256)
k_count_lower(int n, const long long* Ap, const int* Ai, const int* perm, const int* iperm, int* count) {
  for (long long k = grid_begin(); k < n; k += grid_step()) {
    int found = 0;
    for (long long p = Ap[perm[k]]; p < Ap[perm[k] + 1]; ++p) found += iperm[Ai[p]] < k;
    count[k] = found;
  }
}

// Keys of these entries, from begin[k] on.
extern "C" __global__ void __launch_bounds__(256)
k_lower(int n, const long long* Ap, const int* Ai, const int* perm, const int* iperm, const long long* begin, long long* keys) {
  for (long long k = grid_begin(); k < n; k += grid_step()) {
    long long at = begin[k];
    for (long long p = Ap[perm[k]]; p < Ap[perm[k] + 1]; ++p) {
      const int j = iperm[Ai[p]];
      if (j < k) keys[at++] = (k << 32) | j;
    }
  }
}

// Before: parent[j] = 0x7fffffff and up[j] = -1. A node whose parent is 0x7fffffff afterwards is a root.
extern "C" __global__ void __launch_bounds__(256)
k_etree(long long count, const long long* keys, int* parent, int* up) {
  for (long long p = grid_begin(); p < count; p += grid_step()) join(low(keys[p]), high(keys[p]), parent, up);
}

// ---- tours

// Euler tour of a forest as a linked list: 2 j enters node j, 2 j + 1 leaves it, 2 n is the end. The children of a node,
// ascending, begin at child[child_ptr[node]]; the children of node n are the roots. count: 1 for an element that leaves a node.
extern "C" __global__ void __launch_bounds__(256)
k_tour(int n, const int* parent, const int* child, const long long* child_ptr, int* next, int* count) {
  for (long long q = grid_begin(); q < n; q += grid_step()) {
    const int j = child[q], p = parent[j] < 0 ? n : parent[j];
    const bool leaf = child_ptr[j] == child_ptr[j + 1], last = q + 1 == child_ptr[p + 1];
    next[2 * j] = leaf ? 2 * j + 1 : 2 * child[child_ptr[j]];
    next[2 * j + 1] = last ? (p == n ? 2 * n : 2 * p + 1) : 2 * child[q + 1];
    count[2 * j] = 0;
    count[2 * j + 1] = 1;
  }
}

// One round of pointer doubling along lists that end in a node that points to itself and has the value 0.
extern "C" __global__ void __launch_bounds__(256)
k_double(int n, const int* next, const int* value, int* next_out, int* value_out) {
  for (long long k = grid_begin(); k < n; k += grid_step()) {
    value_out[k] = value[k] + value[next[k]];
    next_out[k] = next[next[k]];
  }
}

// ---- column counts

// Leaves of the row subtrees: entries with no descendant in their row. leaf[p] = 1 if entry p is a leaf. A leaf adds one to the
// count of all columns above it, below the lowest common ancestor with the previous leaf. Keys ascend, in postorder; first[j] is
// the first descendant of j.
extern "C" __global__ void __launch_bounds__(256)
k_leaves(long long count, const long long* keys, const int* first, const int* parent, const int* table, int runs, int* leaf,
         int* change) {
  for (long long p = grid_begin(); p < count; p += grid_step()) {
    const int i = high(keys[p]), j = low(keys[p]);
    const int before = p > 0 && high(keys[p - 1]) == i ? low(keys[p - 1]) : -1;
    leaf[p] = before < first[j];
    if (!leaf[p]) continue;
    atomicAdd(change + j, 1);
    if (before >= 0) atomicSub(change + range_max(parent, table, runs, before, j), 1);       // their lowest common ancestor
  }
}

// ---- supernodes

// opens[j] = 1: column j starts a fundamental supernode.
extern "C" __global__ void __launch_bounds__(256)
k_open(int n, const int* parent, const int* colcount, int* opens) {
  for (long long j = grid_begin(); j < n; j += grid_step()) {
    const int p = parent[j];
    if (p >= 0 && (p != j + 1 || colcount[j] != colcount[p] + 1)) atomicExch(opens + p, 1);
  }
}

// Every node after its children, by the thread that finishes the last child: no thread waits. pending[f]: unfinished children of
// f.
extern "C" __global__ void __launch_bounds__(128)
k_join(int count, const int* first, const int* parent, const int* below, const int* child, const long long* child_ptr, int* pending,
       int* begin, int* width, int* in_merged, int* in_partly_merged, int* kind, int* open, long long* entries,
       const double* rules, int rule_count) {
  const Joining t{first,    parent, below, child, child_ptr, begin, width, in_merged, in_partly_merged, kind, open, entries,
                  {reinterpret_cast<const Rule*>(rules), rule_count}};
  for (long long k = grid_begin(); k < count; k += grid_step()) {
    if (child_ptr[k] != child_ptr[k + 1]) continue;
    for (int f = static_cast<int>(k);;) {
      visit(t, f);
      if (parent[f] < 0) break;
      f = parent[f];
      __threadfence();
      if (atomicSub(pending + f, 1) != 1) break;
      __threadfence();
    }
  }
}

// ---- row lists

// Keys (list << 32 | row) of the blocks on the paths of the leaves, from begin[p] on; if `keys` is null, the number of blocks per
// path. See row_lists in pattern.cpp. to[i]: new number of row i; number[b]: list of block b.
extern "C" __global__ void __launch_bounds__(256)
k_paths(long long count, const long long* leaves, const int* block_of, const int* up, const int* to, const int* number, int* size,
        const long long* begin, long long* keys) {
  for (long long p = grid_begin(); p < count; p += grid_step()) {
    const int i = high(leaves[p]);
    const int stop = block_of[p + 1 < count && high(leaves[p + 1]) == i ? low(leaves[p + 1]) : i];
    int steps = 0;
    for (int b = block_of[low(leaves[p])]; b < stop; b = up[b], ++steps)
      if (keys) keys[begin[p] + steps] = pair_key(number[b], to[i]);
    if (!keys) size[p] = steps;
  }
}

// Columns of L: the rest of the supernode, then its row list. One thread block per supernode, one warp per column.
extern "C" __global__ void __launch_bounds__(128)
k_columns(const int* first, const long long* row_ptr, const int* rows, const long long* Lp, int* Li) {
  const int begin = first[blockIdx.x], end = first[blockIdx.x + 1];
  const long long from = row_ptr[blockIdx.x], count = row_ptr[blockIdx.x + 1] - from;
  const int lane = threadIdx.x & 31;
  for (int j = begin + static_cast<int>(threadIdx.x >> 5); j < end; j += static_cast<int>(blockDim.x >> 5)) {
    for (int i = j + lane; i < end; i += 32) Li[Lp[j] + i - j] = i;
    for (long long q = lane; q < count; q += 32) Li[Lp[j] + (end - j) + q] = rows[from + q];
  }
}
