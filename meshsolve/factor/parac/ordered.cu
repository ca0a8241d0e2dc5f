// ParAC in a given order on the GPU: the factor of parac.cpp, bit for bit. One persistent kernel eliminates right-looking: a
// vertex is ready when no entry of its row leads to an earlier one (raw entries are counted), and waits in a queue then. Its
// edges are those of the matrix and the samples that earlier pivots left for it in a hash table.
//   warps     take a ticket for the queue each and wait for its place to be filled; who makes a vertex ready goes on with it
//   blocks    a pivot of many edges calls the warps of its block together, which answer when they are through with their own
//   table     open addressing, linear probing from a hash of the earlier end and of a number that the sample has among its samples.
//             A slot's word names both ends and is taken by compare-and-swap of a free one; only the pivot it belongs to reads it,
//             when no more will come, looks for each number, and frees it. So no thread waits for a slot, and a search may pass free
//             slots. Samples of a hub lie in groups all over the table: in one row they would be in the way of all others.
//   room      what a pivot needs of the table, the columns and the scratch is reserved before it changes anything. Where that
//             fails the kernel halts, the host grows the workspace, queues what is ready, and launches again.
// A ticket is only held by a warp that runs, so progress never depends on how many blocks are resident. A wait in which nothing
// is eliminated anywhere ends, halts the kernel and is reported. Nothing depends on the schedule: a pivot sorts what it gathers.
// Cost: a read of the matrix, twice; a compare-and-swap per sample; a handful of atomics per pivot.
// Source: Liang et al. 2025, "ParAC", Algorithm 4. There a slot that is being written is waited for, and places in the queue
// belong to blocks, all of which have to be resident.
#include "factor/parac/ordered.cuh"

namespace ms::parac {

// ---- waiting

// Ends what would wait for ever: as long as anything is eliminated anywhere, there is hope.
struct Hope {
  unsigned long long seen;
  long long left;
  __device__ explicit Hope(const Ordered& F) : seen(F.look(eliminated)), left(F.patience) {}
  __device__ void wait(const Ordered& F, unsigned nanoseconds) {
    if (--left < 0) {
      const unsigned long long now = F.look(eliminated);
      if (now == seen) F.stop(stalled);
      seen = now;
      left = F.patience;
    }
    __nanosleep(nanoseconds);
  }
};

// ---- many edges: the whole block

// Scratch in global memory for a block to have alone, or nobody if the kernel halts. Who has one waits for nothing.
__device__ __forceinline__ int take_slab(const Ordered& F, int edges) {
  if (edges > F.slab_room) {
    atomicMax(F.state + need_scratch, static_cast<unsigned long long>(edges));
    F.stop(scratch_small);
    return nobody;
  }
  Hope hope(F);
  for (int i = static_cast<int>(blockIdx.x) % F.slab_count; !F.look(halt); i = (i + 1) % F.slab_count) {
    if (atomicCAS(F.slab_taken + i, 0, 1) == 0) {
      __threadfence();
      return i;
    }
    hope.wait(F, 512);
  }
  return nobody;
}

// `shared` is that of all warps, which have answered the call.
__device__ __forceinline__ void eliminate_together(const Ordered& F, int k, double* shared) {
  const Block block;
  const int edges = F.edges(k);
  long long room = (blockDim.x / 32 * scratch_words(light) - 2) / 4 & ~1ll;
  double* memory = shared;
  int slab = nobody;
  if (edges > room) {
    if (block.rank == 0) slab = take_slab(F, edges);
    slab = static_cast<int>(block.from_first(static_cast<unsigned long long>(slab)));
    if (slab == nobody) return;
    room = F.slab_room;
    memory = F.slabs + slab * scratch_words(room);
  }
  eliminate(F, block, k, Scratch(memory, room));
  if (slab == nobody || block.rank != 0) return;
  __threadfence();
  atomicExch(F.slab_taken + slab, 0);
}

// ---- work

// What one lane waits for: the vertex of its ticket. nobody: the block is called together, or is to leave.
__device__ __forceinline__ int await(const Ordered& F, int* call, int& ticket) {
  Hope hope(F);
  unsigned sleep = 32;
  for (unsigned looks = 1;; ++looks) {
    const int k = ticket < F.n ? static_cast<volatile int*>(F.queue)[ticket] : nobody;
    if (k != nobody) {
      ticket = nobody;
      __threadfence();
      return k;
    }
    if (*static_cast<volatile int*>(call) != nobody) return nobody;
    if (looks % 8 == 0 && F.look(halt)) {
      atomicCAS(call, nobody, leave);
      return nobody;
    }
    hope.wait(F, sleep);
    if (sleep < 1024) sleep *= 2;
  }
}

__device__ __forceinline__ int seek(const Ordered& F, int* call, int& ticket, int next) {
  if (*static_cast<volatile int*>(call) != nobody) return nobody;
  if (F.look(halt)) {
    atomicCAS(call, nobody, leave);
    return nobody;
  }
  if (next != nobody) return next;
  if (ticket == nobody) {
    const unsigned long long drawn = atomicAdd(F.state + head, 1ull);
    ticket = drawn < static_cast<unsigned long long>(F.n) ? static_cast<int>(drawn) : F.n;
  }
  return await(F, call, ticket);
}

// All warps of the block come here once one has called; false: they are to leave.
__device__ __forceinline__ bool answer(const Ordered& F, int* call, double* shared) {
  __syncthreads();
  const int called = *call;
  __syncthreads();
  if (called == leave) return false;
  if (threadIdx.x == 0) *static_cast<volatile int*>(call) = nobody;
  __syncthreads();
  eliminate_together(F, called, shared);
  __syncthreads();
  return true;
}

__device__ __forceinline__ void work(const Ordered& F, int* call, double* shared) {
  const Warp warp;
  const Scratch mine(shared + threadIdx.x / 32 * scratch_words(light), light);
  int ticket = nobody, next = nobody;
  for (;;) {
    int k = nobody;
    if (warp.rank == 0) k = seek(F, call, ticket, next);
    k = __shfl_sync(full_warp, k, 0);
    warp.sync();
    if (k != nobody) {
      next = nobody;
      if (F.edges(k) <= light) {
        next = eliminate(F, warp, k, mine);
        continue;
      }
      int before = nobody;
      if (warp.rank == 0) before = atomicCAS(call, nobody, k);
      if (__shfl_sync(full_warp, before, 0) != nobody) next = k;        // after what the block was called for first
    }
    if (!answer(F, call, shared)) return;
  }
}

}  // namespace ms::parac

using namespace ms;
using namespace ms::parac;

// Three blocks a multiprocessor at least.
extern "C" __global__ void __launch_bounds__(256, 3)
k_ordered(int n, int samples, unsigned long long seed, double floor, unsigned long long pause, long long patience,
          unsigned long long* state, const long long* ptr, const int* to, const double* w, const double* ground,
          const int* order, const int* position, const int* later, int* waits, int* fills, int* level, int* queue,
          unsigned long long* table, double* table_sample, long long table_room, long long* column_start,
          int* column_length, int* column_row, double* column_value, double* D, long long columns_room, double* slabs, int* slab_taken,
          int slab_count, int slab_room) {
  extern __shared__ double shared[];
  __shared__ int call;                                      // a vertex that needs the whole block, nobody or leave
  const Ordered F{n, samples, seed, floor, pause, patience, state, ptr, to, w, ground, order, position, later, waits, fills,
                  level, queue, table, reinterpret_cast<Sample*>(table_sample), table_room, column_start, column_length, column_row, column_value, D,
                  columns_room, slabs, slab_taken, slab_count, slab_room};
  if (threadIdx.x == 0) call = nobody;
  __syncthreads();
  work(F, &call, shared);
}

// Edges to earlier and to later vertices of each position, a warp each.
extern "C" __global__ void __launch_bounds__(256)
k_count_edges(int n, int samples, const long long* ptr, const int* to, const double* ground, const int* order,
              const int* position, int* waits, int* later) {
  const Warp warp;
  for (long long k = grid_begin() / 32; k < n; k += grid_step() / 32) {
    const int v = order[k];
    const long long end = ptr[v + 1];
    int earlier = 0;
    for (long long base = ptr[v]; base < end; base += 32) {
      const long long p = base + warp.rank;
      int total;
      warp.exclusive_count(p < end && position[to[p]] < k, total);
      earlier += total;
    }
    if (warp.rank != 0) continue;
    waits[k] = earlier;
    later[k] = static_cast<int>(end - ptr[v]) - earlier + (ground && ground[v] > 0 ? samples : 0);
  }
}

// What is in a table into a larger one that is empty.
extern "C" __global__ void __launch_bounds__(256)
k_rehash(long long old_room, const unsigned long long* old_table, const double* old_samples, long long room,
         unsigned long long* table, double* table_samples) {
  const Sample* const from = reinterpret_cast<const Sample*>(old_samples);
  Ordered F{};
  F.table_room = room;
  for (long long i = grid_begin(); i < old_room; i += grid_step()) {
    const unsigned long long word = old_table[i];
    if (word == vacant) continue;
    long long at = F.slot(static_cast<int>(word >> 32), static_cast<int>(from[i].number));
    while (atomicCAS(table + at, vacant, word) != vacant)   // ends: there is more room than words
      if (++at == room) at = 0;
    reinterpret_cast<Sample*>(table_samples)[at] = from[i];
  }
}

// Columns one after the other, a warp each.
extern "C" __global__ void __launch_bounds__(256)
k_pack(int n, const long long* start, const int* row, const double* value, const long long* ptr, int* new_row,
       double* new_value) {
  const int lane = threadIdx.x & 31;
  for (long long k = grid_begin() / 32; k < n; k += grid_step() / 32) {
    const long long shift = start[k] - ptr[k];
    for (long long p = ptr[k] + lane; p < ptr[k + 1]; p += 32) {
      new_row[p] = row[p + shift];
      new_value[p] = value[p + shift];
    }
  }
}
