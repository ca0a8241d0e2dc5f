// Sub-patches of a graph on the GPU. CPU counterpart: subpatch.cpp, which uses the same seeds and gives
// other patches of the same quality.
//
// In each wave of the breadth-first search, a vertex without a patch reads the patches that its neighbors joined in the wave
// before. No vertex is claimed, so the patches do not depend on the order of threads. If a mesh already has patches, one thread
// block divides each of them, and its waves are separated by barriers.
#include "device/common.cuh"
#include "order/order.cuh"

namespace ms::order {

// The sub-patch that vertex v joins in a wave: the most frequent one among its neighbors of the last wave for which may(u) holds;
// or -1.
template <class May>
__device__ __forceinline__ int joins(int v, const long long* ptr, const int* idx, int now, unsigned long long seed,
                                     const int* patch, const int* wave, May may) {
  return most_frequent(idx + ptr[v], static_cast<int>(ptr[v + 1] - ptr[v]), hash_key(seed, v),
                       [&](int u) { return may(u) && peek(wave + u) == now - 1 ? patch[u] : -1; });
}

constexpr int run = 1024;                                   // vertices of a ticket

// Tickets, finished tickets, the latest wave in which a vertex joined, the flag of a stall, vertices that have a patch.
enum Counter { drawn, finished, latest, stalled, assigned };

// The next ticket, once the wave before is finished; -1 if no vertex joined in it. By one thread.
__device__ __forceinline__ int draw(int* counters, int runs) {
  const int ticket = atomicAdd(counters + drawn, 1), wave = ticket / runs;
  const bool in_time = Timeout(counters + stalled).until([&] { return peek(counters + finished) >= wave * runs; });
  if (in_time && peek(counters + latest) >= wave) return ticket;
  atomicExch(counters + finished, 0x7fffffff);              // no other thread block waits in vain
  return -1;
}

}  // namespace ms::order

using namespace ms;
using namespace ms::order;

// One seed in every `size` consecutive vertices.
extern "C" __global__ void __launch_bounds__(256)
k_seed(int blocks, int size, unsigned long long seed, int* patch, int* wave, int* counters) {
  if (grid_begin() == 0) counters[assigned] = blocks;
  for (long long b = grid_begin(); b < blocks; b += grid_step()) {
    const int first = static_cast<int>(b) * size;
    const int v = first + static_cast<int>(Stream(hash_key(seed, first)).below(size));
    patch[v] = static_cast<int>(b);
    wave[v] = 0;
  }
}

// Grows the patches wave by wave, until no vertex joins. A ticket is a run of vertices in one wave. Tickets are drawn in order, and a
// thread block waits until all tickets of the wave before are finished. Running blocks alone hold them, so there is no deadlock for
// any number of resident blocks.
extern "C" __global__ void __launch_bounds__(256)
k_grow(int n, const long long* ptr, const int* idx, unsigned long long seed, int* patch, int* wave, int* counters) {
  __shared__ int ticket;
  const int runs = (n + run - 1) / run;
  for (;;) {
    if (threadIdx.x == 0) ticket = draw(counters, runs);
    __syncthreads();
    if (ticket < 0) return;
    const int now = ticket / runs + 1, first = ticket % runs * run, last = min(n, first + run);
    int joined = 0;
    for (int v = first + threadIdx.x; v < last; v += blockDim.x) {
      if (wave[v] >= 0) continue;
      const int best = joins(v, ptr, idx, now, seed, patch, wave, [](int) { return true; });
      if (best < 0) continue;
      patch[v] = best;
      *static_cast<volatile int*>(wave + v) = now;
      ++joined;
    }
    joined = Block::sum(joined);
    if (threadIdx.x > 0) continue;
    if (joined > 0) atomicMax(counters + latest, now);
    atomicAdd(counters + assigned, joined);
    __threadfence();
    atomicAdd(counters + finished, 1);
  }
}

// Divides each patch p of a mesh (its vertices are listed from list_ptr[p] on) into the sub-patches first[p] ... first[p + 1] -
// 1. The list is cut evenly, each piece has one seed, and the waves stay within the patch. On return assigned vertices have wave
// 0, and are counted.
extern "C" __global__ void __launch_bounds__(128)
k_divide(const long long* list_ptr, const int* list, const int* of, const long long* ptr, const int* idx, const long long* first,
      unsigned long long seed, int* patch, int* wave, int* counters) {
  const int p = blockIdx.x, count = static_cast<int>(list_ptr[p + 1] - list_ptr[p]);
  const int parts = static_cast<int>(first[p + 1] - first[p]);
  const int* const own = list + list_ptr[p];
  for (int k = threadIdx.x; k < parts; k += blockDim.x) {
    const int begin = static_cast<int>(static_cast<long long>(count) * k / parts);
    const int end = static_cast<int>(static_cast<long long>(count) * (k + 1) / parts);
    const int v = own[begin + Stream(hash_key(seed, own[begin])).below(end - begin)];
    patch[v] = static_cast<int>(first[p]) + k;
    wave[v] = 0;
  }
  __syncthreads();
  int grown = 1;
  for (int now = 1; grown; ++now) {
    int joined = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      const int v = own[i];
      if (wave[v] >= 0) continue;
      const int best = joins(v, ptr, idx, now, seed, patch, wave, [&](int u) { return of[u] == p; });
      if (best < 0) continue;
      patch[v] = best;
      *static_cast<volatile int*>(wave + v) = now;
      joined = 1;
    }
    grown = __syncthreads_or(joined);
  }
  int found = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    found += wave[own[i]] >= 0;
    wave[own[i]] = min(wave[own[i]], 0);
  }
  atomicAdd(counters + assigned, found);
}

// Renumbers the rows of the graph: row x of the result is row old[x].
extern "C" __global__ void __launch_bounds__(256)
k_renumber(int n, const long long* ptr, const int* idx, const int* old, const int* fresh, const long long* new_ptr,
           int* new_idx) {
  for (long long x = grid_begin(); x < n; x += grid_step()) {
    const long long from = ptr[old[x]];
    const int length = static_cast<int>(new_ptr[x + 1] - new_ptr[x]);
    for (int k = 0; k < length; ++k) new_idx[new_ptr[x] + k] = fresh[idx[from + k]];
  }
}
