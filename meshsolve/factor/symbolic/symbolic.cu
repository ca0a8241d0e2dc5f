// Symbolic Cholesky on the GPU: elimination tree, column counts, relaxed supernodes, row lists.
//
// CUDA counterpart of etree.cpp, colcount.cpp, supernode.cpp and pattern.cpp; cuda.py has the order of the steps, with the sorts and
// prefix sums between them. The same integers, entry by entry. Keys are (row << 32 | column) of lower entries. Numbers of entries and
// of supernodes stay on the GPU: arrays have the length of their bounds, and kernels read how much of it is used.
// Sources: Liu 1990 (tree); Gilbert, Ng, Peyton 1994 (counts); Ashcraft, Grimes 1989 (relaxation); Ribizel, Anzt 2023 (row lists).
#include "device/common.cuh"
#include "factor/symbolic/relaxation.hpp"

namespace ms::symbolic {

constexpr int none = 0x7fffffff;
constexpr long long unused = 0x7fffffffffffffffll;          // key of an unused entry: the last of a sorted list
enum Kind { separate, partly_merged, merged };              // as in supernode.cpp; children of a node are visited in this order
enum Size { blocks, rows, nonzeros, operations, scalars };  // entries of `sizes`

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

// Largest of values[from] to values[to - 1]. Level l of the table has the largest of 32^(l + 1) successive values, up to a level
// of at most `narrow` entries.
constexpr int narrow = 64;
__device__ inline int range_max(const int* values, int count, const int* table, int from, int to) {
  int largest = -1;
  for (const int* row = values; from < to;) {
    const bool is_top = to - from <= narrow;
    const int begin = is_top ? to : (from + 31) / 32 * 32, end = is_top ? to : to / 32 * 32;
    for (int k = from; k < begin; ++k) largest = max(largest, row[k]);
    for (int k = end; k < to; ++k) largest = max(largest, row[k]);
    from = begin / 32;
    to = is_top ? from : end / 32;
    row = row == values ? table : row + count;
    count = (count + 31) / 32;
  }
  return largest;
}

// Sorted keys of the lower triangle in a postorder; size[j]: nodes of the subtree of j.
struct Lower {
  const long long* keys;
  const int* size;

  // Column of the entry before entry p in its row, or -1.
  __device__ inline int before(long long p) const {
    return p > 0 && high(keys[p - 1]) == high(keys[p]) ? low(keys[p - 1]) : -1;
  }
  // An entry is a leaf of its row subtree if its row has no entry in a descendant of its column.
  __device__ inline bool is_leaf(long long p) const {
    const int j = low(keys[p]);
    return before(p) < j - size[j] + 1;
  }
};

// Fundamental supernodes during relaxation, see supernode.cpp. The children of f are child[ends[f - 1]], ..., child[ends[f] - 1], sorted
// by ascending column length. key[f] becomes parent << 2 | kind.
struct Joining {
  int count;
  const int *first, *parent, *below, *ends;
  const long long* child;
  int *width, *open;
  long long *entries, *key;
  Relaxation relaxation;
};

// The values of f stay in registers: in memory, each child would wait for the store of the child before it.
__device__ inline void visit(const Joining& t, int f) {
  const int own = t.first[f + 1] - t.first[f], below = t.below[f];
  Block top{own, below, static_cast<long long>(own) * below + static_cast<long long>(own) * (own + 1) / 2};
  bool has_partly_merged = false, is_open = false;
  for (int q = t.ends[f] - 1, from = f > 0 ? t.ends[f - 1] : 0; q >= from; --q) {
    const int c = static_cast<int>(t.child[q]);
    const bool child_open = t.open[c] != 0;
    const Block child{t.width[c], t.below[c], t.entries[c]};
    const bool joins = !(child_open && has_partly_merged) && worth_joining(child, top, t.relaxation);
    const Kind kind = !joins ? separate : child_open ? partly_merged : merged;
    t.key[c] = static_cast<long long>(f) << 2 | kind;
    is_open |= !joins || child_open;
    if (!joins) continue;
    top.width += child.width;
    top.entries += child.entries;
    has_partly_merged |= child_open;
  }
  t.width[f] = top.width;
  t.entries[f] = top.entries;
  t.open[f] = is_open;
  if (t.parent[f] < 0) t.key[f] = static_cast<long long>(t.count) << 2 | separate;
}

// New positions of the columns. node[j]: 1 + supernode of column j; left: sums over the tour of the supernodes, in their new order.
struct Layout {
  int n;
  const int *node, *first, *left;
  const long long* key;

  __device__ inline int count() const { return node[n - 1]; }
  __device__ inline int position(int f) const { return n - left[2 * f + 1]; }
  __device__ inline int end(int f) const { return position(f) + first[f + 1] - first[f]; }
  __device__ inline bool is_block(int f) const { return (key[f] & 3) == separate; }
  __device__ inline int column(int j) const { return position(node[j] - 1) + j - first[node[j] - 1]; }
};

// Adds the sum over all threads to *to. Every thread of the warp calls it.
__device__ inline void add_to(long long value, unsigned long long* to) {
  const long long all = warp_sum(value);
  if ((threadIdx.x & 31) == 0 && all != 0) atomicAdd(to, static_cast<unsigned long long>(all));
}

}  // namespace ms::symbolic

using namespace ms;
using namespace ms::symbolic;

// ---- columns

// The inverse of perm, and the arrays of k_etree before it.
extern "C" __global__ void __launch_bounds__(256) k_begin(int n, const int* perm, int* iperm, int* parent, int* up) {
  for (long long k = grid_begin(); k < n; k += grid_step()) {
    iperm[perm[k]] = static_cast<int>(k);
    parent[k] = none;
    up[k] = -1;
  }
}

// Elimination tree of A[perm][:, perm], and the keys of its strict lower triangle in any order, *used of them. One thread per row. A
// node whose parent is 0x7fffffff afterwards is a root.
extern "C" __global__ void __launch_bounds__(256)
k_etree(int n, const long long* Ap, const int* Ai, const int* perm, const int* iperm, unsigned long long* used, long long* keys,
        int* parent, int* up) {
  const int lane = threadIdx.x & 31;
  for (long long base = grid_begin() - lane; base < n; base += grid_step()) {
    const long long k = base + lane, begin = k < n ? Ap[perm[k]] : 0, end = k < n ? Ap[perm[k] + 1] : 0;
    int found = 0;
    for (long long p = begin; p < end; ++p) found += iperm[Ai[p]] < k;
    const int sum = warp_inclusive_sum(found), all = __shfl_sync(full_warp, sum, 31);
    unsigned long long at = lane == 0 ? atomicAdd(used, static_cast<unsigned long long>(all)) : 0;
    at = __shfl_sync(full_warp, at, 0) + (sum - found);
    for (long long p = begin; p < end; ++p) {
      const int j = iperm[Ai[p]];
      if (j >= k) continue;
      keys[at++] = pair_key(static_cast<int>(k), j);
      join(j, static_cast<int>(k), parent, up);
    }
  }
}

// Renumbers the columns by the postorder. left: sums over the tour of the tree, one at each exit. change: 1 for a leaf of the tree.
// Keys from *used to most are marked as unused.
extern "C" __global__ void __launch_bounds__(256)
k_postorder(int n, const int* left, const int* perm, const int* parent, const unsigned long long* used, long long most,
            long long* keys, int* new_perm, int* new_parent, int* size, int* change) {
  for (long long j = grid_begin(); j < n; j += grid_step()) {
    const int to = n - left[2 * j + 1], nodes = left[2 * j] - left[2 * j + 1] + 1;
    new_perm[to] = perm[j];
    new_parent[to] = parent[j] == none ? -1 : n - left[2 * parent[j] + 1];
    size[to] = nodes;
    change[to] = nodes == 1;
  }
  const long long count = static_cast<long long>(*used);
  for (long long p = grid_begin(); p < most; p += grid_step())
    keys[p] = p < count ? pair_key(n - left[2 * high(keys[p]) + 1], n - left[2 * low(keys[p]) + 1]) : unused;
}

// Two levels of the table of range_max, one warp for 32 entries of the first one: the largest of 32 values, and of 1024.
extern "C" __global__ void __launch_bounds__(256) k_maxima(int count, const int* values, int* table) {
  const int lane = threadIdx.x & 31, first_level = (count + 31) / 32;
  for (long long w = grid_begin() >> 5; w < (first_level + 31) / 32; w += grid_step() >> 5) {
    int largest = -1;
    for (int r = 0; r < 32; ++r) {
      const long long k = 1024 * w + 32 * r + lane;
      const int one = warp_max(k < count ? values[k] : -1);
      if (lane == r) largest = one;
    }
    if (32 * w + lane < first_level) table[32 * w + lane] = largest;
    const int all = warp_max(largest);
    if (lane == 0) table[first_level + w] = all;
  }
}

// A leaf of a row subtree adds one to the count of all columns above it, below the lowest common ancestor with the previous leaf. That
// is the largest parent between them in the postorder.
extern "C" __global__ void __launch_bounds__(256)
k_leaves(int n, const unsigned long long* used, const long long* keys, const int* size, const int* parent, const int* table,
         int* change) {
  const Lower lower{keys, size};
  for (long long p = grid_begin(), count = static_cast<long long>(*used); p < count; p += grid_step()) {
    if (!lower.is_leaf(p)) continue;
    const int j = low(keys[p]), before = lower.before(p);
    atomicAdd(change + j, 1);
    if (before >= 0) atomicSub(change + range_max(parent, n, table, before, j), 1);
  }
}

// ---- supernodes

// Column counts: sums of the changes over subtrees, less one for each edge. Where opens[j] is 1, column j starts a fundamental
// supernode, because column j - 1 is not its only child, or has other rows below.
extern "C" __global__ void __launch_bounds__(256)
k_counts(int n, const long long* sums, const int* size, const int* parent, int* colcount, int* opens) {
  const auto count = [&](long long j) {
    const long long before = j - size[j];
    return static_cast<int>(sums[j] - (before >= 0 ? sums[before] : 0)) - size[j] + 1;
  };
  for (long long j = grid_begin(); j < n; j += grid_step()) {
    const int own = count(j);
    colcount[j] = own;
    opens[j] = j == 0 || parent[j - 1] != j || size[j] != size[j - 1] + 1 || count(j - 1) != own + 1;
  }
}

// The fundamental supernodes: first columns, parents, rows below the last column, number of children (0 before), and keys
// (parent << 32 | rows below) to sort the children.
extern "C" __global__ void __launch_bounds__(256)
k_supernodes(int n, const int* node, const int* parent, const int* colcount, int* first, int* node_parent, int* below,
             int* children, long long* key) {
  const int count = node[n - 1];
  for (long long j = grid_begin(); j < n; j += grid_step()) {
    const int f = node[j] - 1;
    if (j == 0 || node[j - 1] - 1 != f) first[f] = static_cast<int>(j);
    if (j >= count) key[j] = unused;
    if (j + 1 == n) first[count] = n;
    if (j + 1 < n && node[j + 1] - 1 == f) continue;
    const int above = parent[j] < 0 ? -1 : node[parent[j]] - 1;
    node_parent[f] = above;
    below[f] = colcount[j] - 1;
    key[f] = pair_key(above < 0 ? n : above, colcount[j] - 1);
    if (above >= 0) atomicAdd(children + above, 1);
  }
}

// Every supernode after its children, by the thread that finishes the last child: no thread waits. pending[f]: unfinished children
// of f; ends: their prefix sums.
extern "C" __global__ void __launch_bounds__(128)
k_join(int n, const int* node, const int* first, const int* parent, const int* below, const int* ends, const long long* child,
       int* pending, int* width, int* open, long long* entries, long long* key, const double* rules, int rule_count) {
  const Joining t{node[n - 1], first, parent,  below, ends,
                  child,       width, open, entries, key, {reinterpret_cast<const Rule*>(rules), rule_count}};
  for (long long k = grid_begin(); k < t.count; k += grid_step()) {
    if (ends[k] != (k > 0 ? ends[k - 1] : 0)) continue;
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

// Renumbers the columns so that merged supernodes are adjacent: column j becomes to[j]. opens (0 before): first columns of blocks.
extern "C" __global__ void __launch_bounds__(256)
k_renumber(int n, const int* node, const int* first, const int* left, const long long* key, const int* width, const int* perm,
           const int* parent, const int* colcount, int* to, int* opens, int* new_perm, int* iperm, int* new_parent,
           int* new_colcount, unsigned long long* sizes) {
  const Layout layout{n, node, first, left, key};
  long long sum = 0, squares = 0;
  for (long long j = grid_begin(); j < n; j += grid_step()) {
    const int k = layout.column(static_cast<int>(j)), count = colcount[j];
    to[j] = k;
    new_perm[k] = perm[j];
    iperm[perm[j]] = k;
    new_parent[k] = parent[j] < 0 ? -1 : layout.column(parent[j]);
    new_colcount[k] = count;
    sum += count;
    squares += static_cast<long long>(count) * count;
    if (j < layout.count() && layout.is_block(static_cast<int>(j))) opens[layout.end(static_cast<int>(j)) - width[j]] = 1;
  }
  add_to(sum, sizes + nonzeros);
  add_to(squares, sizes + operations);
}

// The blocks of merged supernodes: first columns, parents, and the lengths of their row lists after a 0. The lengths are 0 before.
// Array `top` has the supernode at the top of each block, `block` 1 + the block of each new column.
extern "C" __global__ void __launch_bounds__(256)
k_blocks(int n, const int* node, const int* first, const int* left, const long long* key, const int* width, const int* below,
         const int* block, const int* parent, int* block_first, int* block_parent, int* top, int* lengths, unsigned long long* sizes) {
  const Layout layout{n, node, first, left, key};
  if (grid_begin() == 0) {
    block_first[block[n - 1]] = n;
    sizes[blocks] = static_cast<unsigned long long>(block[n - 1]);
  }
  long long all_rows = 0, all_scalars = 0;
  for (long long k = grid_begin(); k < layout.count(); k += grid_step()) {
    const int f = static_cast<int>(k);
    if (!layout.is_block(f)) continue;
    const int end = layout.end(f), b = block[end - 1] - 1, above = parent[end - 1];
    block_first[b] = end - width[f];
    block_parent[b] = above < 0 ? -1 : block[above] - 1;
    top[b] = f;
    lengths[b + 1] = below[f];
    all_rows += below[f];
    all_scalars += static_cast<long long>(width[f]) * (width[f] + below[f]);
  }
  add_to(all_rows, sizes + rows);
  add_to(all_scalars, sizes + scalars);
}

// ---- row lists

// Keys (block << 32 | row) of the blocks on the paths from the leaves of row subtrees: each path ends below the next leaf. Block b has
// the entries from row_ptr[b] on, in any order. See row_lists in pattern.cpp. listed: 0 before.
extern "C" __global__ void __launch_bounds__(256)
k_paths(const unsigned long long* used, const long long* keys, const int* size, const int* to, const int* block, const int* up,
        const int* top, const long long* row_ptr, int* listed, long long* rows_by_block) {
  const Lower lower{keys, size};
  for (long long p = grid_begin(), count = static_cast<long long>(*used); p < count; p += grid_step()) {
    if (!lower.is_leaf(p)) continue;
    const int i = high(keys[p]);
    long long next = p + 1;
    while (next < count && high(keys[next]) == i && !lower.is_leaf(next)) ++next;
    const int stop = next < count && high(keys[next]) == i ? low(keys[next]) : i, last = top[block[to[stop]] - 1];
    for (int b = block[to[low(keys[p])]] - 1; top[b] < last; b = up[b])
      rows_by_block[row_ptr[b] + atomicAdd(listed + b, 1)] = pair_key(b, to[i]);
  }
}

extern "C" __global__ void __launch_bounds__(256) k_rows(long long count, const long long* keys, int* row) {
  for (long long q = grid_begin(); q < count; q += grid_step()) row[q] = low(keys[q]);
}
