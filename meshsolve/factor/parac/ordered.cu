// ParAC in a given order on the GPU: the factor of parac.cpp, bit for bit. One persistent kernel eliminates right-looking. A
// vertex is ready when no entry of its row leads to an earlier vertex (entries are counted separately); then it enters a queue.
// Its edges are those of the matrix and the samples of earlier pivots, which are stored in a hash table.
//   warps     each draws a ticket (an index of the queue) and waits until that entry is filled. A warp that makes a vertex
//             ready eliminates it next
//   blocks    for a pivot of many edges, a warp requests its whole thread block; the other warps join after their current pivot
//   table     open addressing with linear probing from a hash of the earlier end and of the index among its samples. The word of
//             a slot holds both ends; a free slot is claimed by compare-and-swap. Only the pivot at the earlier end reads its
//             samples, after the last one is inserted: it searches each index and frees the slot. So no thread waits for a slot,
//             and a search may skip free slots. Samples of a dense row are spread over the table in groups: as one run they would
//             slow down all other searches
//   capacity  a pivot reserves its part of the table, the columns and the scratch before it changes anything. If that fails, the
//             kernel halts, the host grows the workspace, enqueues the ready vertices and launches again
// Only a running warp holds a ticket, so progress does not depend on the number of resident thread blocks. If no vertex is
// eliminated during a long wait, the kernel halts and reports a stall. The result does not depend on the schedule: a pivot sorts
// its edges.
// Cost: two reads of the matrix, a compare-and-swap per sample, a few atomics per pivot.
// Source: Liang et al. 2025, "ParAC", Algorithm 4. In the paper threads wait for slots that are being written, and entries of the
// queue belong to thread blocks, which must all be resident.
#include "factor/parac/ordered.cuh"

namespace ms::parac {

// ---- waiting

// Ends a wait that would never end: halts the kernel if no vertex is eliminated during `most_polls` polls.
struct StallTimer {
  unsigned long long seen;
  long long left;
  __device__ explicit StallTimer(const Ordered& F) : seen(F.read(eliminated)), left(F.most_polls) {}
  __device__ void wait(const Ordered& F, unsigned nanoseconds) {
    if (--left < 0) {
      const unsigned long long now = F.read(eliminated);
      if (now == seen) F.stop(stalled);
      seen = now;
      left = F.most_polls;
    }
    __nanosleep(nanoseconds);
  }
};

// ---- pivots of many edges, by the whole thread block

// Acquires a slab of scratch for this thread block, or returns `none` if the kernel halts. A block that owns a slab does not wait
// for anything else.
__device__ __forceinline__ int acquire_slab(const Ordered& F, int edges) {
  if (edges > F.slab_capacity) {
    atomicMax(F.state + need_scratch, static_cast<unsigned long long>(edges));
    F.stop(scratch_small);
    return none;
  }
  StallTimer timer(F);
  for (int i = static_cast<int>(blockIdx.x) % F.slab_count; !F.read(halt); i = (i + 1) % F.slab_count) {
    if (atomicCAS(F.slab_taken + i, 0, 1) == 0) {
      __threadfence();
      return i;
    }
    timer.wait(F, 512);
  }
  return none;
}

// Eliminates pivot k by the whole thread block. It uses the shared memory of all its warps, which have joined.
__device__ __forceinline__ void eliminate_by_block(const Ordered& F, int k, double* shared) {
  const Block block;
  const int edges = F.edges(k);
  long long capacity = (blockDim.x / 32 * scratch_words(light) - 2) / 4 & ~1ll;
  double* memory = shared;
  int slab = none;
  if (edges > capacity) {
    if (block.rank == 0) slab = acquire_slab(F, edges);
    slab = static_cast<int>(block.from_first(static_cast<unsigned long long>(slab)));
    if (slab == none) return;
    capacity = F.slab_capacity;
    memory = F.slabs + slab * scratch_words(capacity);
  }
  eliminate(F, block, k, Scratch(memory, capacity));
  if (slab == none || block.rank != 0) return;
  __threadfence();
  atomicExch(F.slab_taken + slab, 0);
}

// ---- work

// Waits, by one lane, for the vertex of its ticket. Returns `none` if there is a request for the block.
__device__ __forceinline__ int wait_for_ticket(const Ordered& F, int* request, int& ticket) {
  StallTimer timer(F);
  unsigned sleep = 32;
  for (unsigned polls = 1;; ++polls) {
    const int k = ticket < F.n ? static_cast<volatile int*>(F.queue)[ticket] : none;
    if (k != none) {
      ticket = none;
      __threadfence();
      return k;
    }
    if (*static_cast<volatile int*>(request) != none) return none;
    if (polls % 8 == 0 && F.read(halt)) {
      atomicCAS(request, none, quit);
      return none;
    }
    timer.wait(F, sleep);
    if (sleep < 1024) sleep *= 2;
  }
}

// The next pivot of a warp, or `none` if there is a request for the block.
__device__ __forceinline__ int next_pivot(const Ordered& F, int* request, int& ticket, int next) {
  if (*static_cast<volatile int*>(request) != none) return none;
  if (F.read(halt)) {
    atomicCAS(request, none, quit);
    return none;
  }
  if (next != none) return next;
  if (ticket == none) {
    const unsigned long long drawn = atomicAdd(F.state + head, 1ull);
    ticket = drawn < static_cast<unsigned long long>(F.n) ? static_cast<int>(drawn) : F.n;
  }
  return wait_for_ticket(F, request, ticket);
}

// Serves the request of the block, by all its warps. Returns false if the request is to exit.
__device__ __forceinline__ bool serve_request(const Ordered& F, int* request, double* shared) {
  __syncthreads();
  const int requested = *request;
  __syncthreads();
  if (requested == quit) return false;
  if (threadIdx.x == 0) *request = none;
  eliminate_by_block(F, requested, shared);                 // ends with a barrier, or the kernel halts
  return true;
}

__device__ __forceinline__ void work(const Ordered& F, int* request, double* shared) {
  const Warp warp;
  const Scratch scratch(shared + threadIdx.x / 32 * scratch_words(light), light);
  int ticket = none, next = none;
  for (;;) {
    int k = none;
    if (warp.rank == 0) k = next_pivot(F, request, ticket, next);
    k = __shfl_sync(full_warp, k, 0);
    warp.sync();
    if (k != none) {
      next = none;
      if (F.edges(k) <= light) {
        next = eliminate(F, warp, k, scratch);
        continue;
      }
      int before = none;
      if (warp.rank == 0) before = atomicCAS(request, none, k);
      if (__shfl_sync(full_warp, before, 0) != none) next = k;        // after the earlier request
    }
    if (!serve_request(F, request, shared)) return;
  }
}

}  // namespace ms::parac

using namespace ms;
using namespace ms::parac;

// At least three thread blocks per multiprocessor.
extern "C" __global__ void __launch_bounds__(256, 3)
k_ordered(int n, int samples, unsigned long long seed, double floor, unsigned long long pause, long long most_polls,
          unsigned long long* state, const long long* ptr, const int* to, const double* w, const double* ground,
          const int* order, const int* position, const int* later, int* pending, int* num_samples, int* level, int* queue,
          unsigned long long* table, double* table_sample, long long table_capacity, long long* column_start,
          int* column_length, int* column_row, double* column_value, double* D, long long columns_capacity, double* slabs,
          int* slab_taken, int slab_count, int slab_capacity) {
  extern __shared__ double shared[];
  __shared__ int request;                                   // a vertex for the whole block, none or quit
  const Ordered F{n, samples, seed, floor, pause, most_polls, state, ptr, to, w, ground, order, position, later, pending, num_samples,
                  level, queue, table, reinterpret_cast<Sample*>(table_sample), table_capacity, column_start, column_length,
                  column_row, column_value, D, columns_capacity, slabs, slab_taken, slab_count, slab_capacity};
  if (threadIdx.x == 0) request = none;
  __syncthreads();
  work(F, &request, shared);
}

// Counts the edges to earlier and to later vertices at each position, one warp per row.
extern "C" __global__ void __launch_bounds__(256)
k_count_edges(int n, int samples, const long long* ptr, const int* to, const double* ground, const int* order,
              const int* position, int* pending, int* later) {
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
    pending[k] = earlier;
    later[k] = static_cast<int>(end - ptr[v]) - earlier + (ground && ground[v] > 0 ? samples : 0);
  }
}

// Copies the table to a larger, empty one.
extern "C" __global__ void __launch_bounds__(256)
k_rehash(long long old_capacity, const unsigned long long* old_table, const double* old_samples, long long capacity,
         unsigned long long* table, double* table_samples) {
  const Sample* const from = reinterpret_cast<const Sample*>(old_samples);
  Ordered F{};
  F.table_capacity = capacity;
  for (long long i = grid_begin(); i < old_capacity; i += grid_step()) {
    const unsigned long long word = old_table[i];
    if (word == vacant) continue;
    long long at = F.slot(static_cast<int>(word >> 32), static_cast<int>(from[i].number));
    while (atomicCAS(table + at, vacant, word) != vacant)   // ends: the new table has free slots
      if (++at == capacity) at = 0;
    reinterpret_cast<Sample*>(table_samples)[at] = from[i];
  }
}

// Copies the columns to contiguous storage, one warp per column.
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
