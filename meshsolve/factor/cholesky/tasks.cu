// Cuts the fronts into tasks of the sweeps, in topological order: forward the deepest level first, backward the roots first.
//
// Within a level large fronts come first, then fronts of one thread block, then small fronts, each the largest first. Cost: two
// sorts of the fronts, and the tasks.
#include "factor/cholesky/tasks.cuh"

namespace ms::cholesky {

constexpr int size_bits = 40;           // of a panel in a sort key
constexpr long long deepest = 1 << 20;  // more than the depth of a tree
enum Size { large, medium, small };     // several tasks; one thread block; one warp

struct Limits {                         // SIZES in sweeps_cuda.py
  long long few, whole;
  int rows;
};

// How one front is cut.
struct Cut {
  int size, updates, blocks, rows, tiles, ranges;
  __device__ Cut(const Front& f, const Limits& limits) : updates(f.updates()), blocks(ceil_div(static_cast<int>(f.pivots), block_columns)) {
    const long long scalars = f.pivots * f.height;
    size = scalars > limits.whole ? large : scalars > limits.few ? medium : small;
    rows = size == large || updates <= 64 ? 64 : updates <= 128 ? 128 : slots;
    tiles = blocks + ceil_div(updates, rows);
    ranges = size == large && updates > limits.rows ? ceil_div(updates, limits.rows) : 0;
  }
  // Tasks of the front, for a front of a small task that begins at it: 1.
  __device__ int tasks(bool is_forward) const { return size != large ? 1 : is_forward ? tiles : blocks * (1 + ranges); }
};

// Number of small fronts of the task that begins at position p of the sorted keys, or 0 if none begins.
__device__ __forceinline__ int fronts_from(const long long* keys, int count, int p) {
  const long long group = keys[p] >> size_bits;
  if ((p - lower_bound(keys, count, group << size_bits)) % warps_of_task != 0) return 0;
  return min(warps_of_task, lower_bound(keys, count, (group + 1) << size_bits) - p);
}

__device__ __forceinline__ void list_forward(const Cut& cut, int s, Task* out) {
  const int each = cut.size == large ? 1 : cut.tiles;
  for (int r = 0; r < cut.tiles; r += each) *out++ = {tiles, s, r, each, cut.rows, 0};
}

// The partial sums of a large front come before its column blocks.
__device__ __forceinline__ void list_backward(const Cut& cut, int s, int rows, int slot, Task* out) {
  for (int j = cut.blocks - 1; j >= 0; --j)
    for (int q = 0; q < cut.ranges; ++q) *out++ = {sums, s, j, q, rows, slot};
  const int each = cut.size == large ? 1 : cut.blocks;
  for (int j = cut.blocks - 1; j >= 0; j -= each) *out++ = {tiles, s, j, each, cut.ranges > 0 ? rows : 0, slot};
}

}  // namespace ms::cholesky

using namespace ms;
using namespace ms::cholesky;

// For each front its sort keys in both directions, its partial sums, and its diagonal blocks that are inverted.
extern "C" __global__ void __launch_bounds__(256)
k_cut(int count, const long long* table, const int* depth, long long few_scalars, long long whole, int rows, long long* forward,
      long long* backward, int* partial, int* inverses) {
  for (long long s = grid_begin(); s < count; s += grid_step()) {
    const Front& f = reinterpret_cast<const Front*>(table)[s];
    const Cut cut(f, {few_scalars, whole, rows});
    const long long by_size = (1ll << size_bits) - 1 - f.pivots * f.height;
    forward[s] = (3ll * (deepest - depth[s]) + cut.size) << size_bits | by_size;
    backward[s] = (3ll * depth[s] + cut.size) << size_bits | by_size;
    partial[s] = cut.blocks * cut.ranges;
    inverses[s] = cut.size == small ? 0 : cut.blocks;
  }
}

// Tasks that begin at each position of the order; keys are sorted.
extern "C" __global__ void __launch_bounds__(256)
k_count_tasks(int is_forward, int count, const int* order, const long long* keys, const long long* table, long long few_scalars,
              long long whole, int rows, int* number) {
  for (long long p = grid_begin(); p < count; p += grid_step()) {
    const Cut cut(reinterpret_cast<const Front*>(table)[order[p]], {few_scalars, whole, rows});
    number[p] = cut.size == small ? fronts_from(keys, count, static_cast<int>(p)) > 0 : cut.tasks(is_forward);
  }
}

extern "C" __global__ void __launch_bounds__(256)
k_list_tasks(int is_forward, int count, const int* order, const long long* keys, const long long* table, long long few_scalars,
             long long whole, int rows, const long long* ptr, const long long* slot, int* tasks) {
  for (long long p = grid_begin(); p < count; p += grid_step()) {
    const int s = order[p];
    const Cut cut(reinterpret_cast<const Front*>(table)[s], {few_scalars, whole, rows});
    Task* const out = reinterpret_cast<Task*>(tasks) + ptr[p];
    if (cut.size == small) {
      if (ptr[p] < ptr[p + 1]) *out = {few, static_cast<int>(p), 0, fronts_from(keys, count, static_cast<int>(p)), 0, 0};
    } else if (is_forward) {
      list_forward(cut, s, out);
    } else {
      list_backward(cut, s, rows, static_cast<int>(slot[s]), out);
    }
  }
}

// Pairs (front, block) of the diagonal blocks that are inverted.
extern "C" __global__ void __launch_bounds__(256)
k_list_blocks(int count, const long long* ptr, int* blocks) {
  for (long long s = grid_begin(); s < count; s += grid_step())
    for (long long q = ptr[s]; q < ptr[s + 1]; ++q) {
      blocks[2 * q] = static_cast<int>(s);
      blocks[2 * q + 1] = static_cast<int>(q - ptr[s]);
    }
}
