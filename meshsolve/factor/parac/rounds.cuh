// Data of the rounds of ParAC on the GPU, and their first phase, the selection of the vertices of a round. See rounds.cu.
#pragma once
#include "factor/parac/team.cuh"

namespace ms::parac {

constexpr unsigned long long dead = ~0ull, never = dead - 1;            // keys of eliminated vertices and of the ground
constexpr int light = 64;                                               // most edges of a pivot that one warp eliminates
constexpr int scratch_words = 5;                                        // doubles of scratch per edge, see Scratch
constexpr int longest = 4096;                                           // most entries of a row that one warp copies
constexpr int few = 8;                                                  // entries of a row that one thread tests

// Entries of `state`; cuda.py uses the same numbers.
enum State { halt, chosen_light, chosen_heavy, need, need_heavy, round_number, live_count, columns_used, samples_used, scratch_used,
             need_columns, rows_used, lost, work, columns_before, arrived, state_size };
enum Halt { go_on, done, stalled, full, rows_full };
enum Phase { select_phase, plan_phase, eliminate_phase, grow_phase, scatter_phase, phases };

struct Vertex {
  int used, capacity, first;            // entries of its row, including dead ones; limit; entries before `first` are dead
  int degree;                           // number of copies of live edges
  int blocker;                          // neighbor whose key was smaller at the last test, or -1
  int incoming, touched;                // samples of this round; 1 if the vertex is in the list `touched`
  int round;                            // round in which it was eliminated

  __device__ bool is_long() const { return used - first > longest; }
  __device__ bool is_full() const { return used + incoming > capacity; }
};

struct Rounds {
  int n, samples, by_degree;
  unsigned long long seed;
  double floor;
  long long columns_capacity, samples_capacity, scratch_capacity, rows_capacity;
  unsigned long long *state, *key;      // key: (n + 1), the ground's last
  const int* origin;                    // (n) row of the matrix, which keys the random stream
  Vertex* vertex;                       // (n)
  long long* start;                     // (n) first entry of each row
  int* to;                              // entries: the neighbor, or ~neighbor for a sampled edge (one copy, not `samples`)
  double* w;
  const int* live;                      // superset of the live vertices
  int live_size;
  int* chosen;                          // (n) vertices of the round: light ones from the front, heavy ones from the back
  int* touched;                         // (samples_capacity) their neighbors, once each
  long long* reserved;                  // (n) first sample, and first entry of `touched`, of a chosen vertex: `degree` each
  long long* column_start;              // (n) columns of G; during its round relative to the columns of the round
  int *column_length, *column_row;      // rows are vertices
  double *column_value, *D;
  int* sample_ends;                     // two per sample
  double *sample_w, *scratch;

  __device__ bool smaller(int a, int b) const { return key[a] < key[b] || (key[a] == key[b] && a < b); }
  __device__ bool halted() const { return static_cast<volatile unsigned long long*>(state)[halt] != go_on; }
};

__device__ __forceinline__ unsigned long long key_of(int degree, unsigned long long seed, int origin) {
  const unsigned long long most = (1u << 23) - 1, few = static_cast<unsigned long long>(degree);
  return (few < most ? few : most) << 40 | hash_key(seed, static_cast<unsigned long long>(origin), 1) >> 24;
}

__device__ __forceinline__ int neighbor_of(int to) { return to < 0 ? ~to : to; }

// ---- select

// Searches, by a warp, for a live neighbor of u with a smaller key, or returns -1. Later searches skip the leading dead
// entries.
__device__ __forceinline__ int find_blocker(const Rounds& R, int u) {
  Vertex& at = R.vertex[u];
  const Warp warp;
  const long long start = R.start[u];
  const int used = at.used;
  int first = at.first, found = -1;
  bool only_dead = true;
  for (int base = first; base < used && found < 0; base += 32) {
    const int i = base + warp.rank, v = i < used ? neighbor_of(R.to[start + i]) : u;
    const unsigned alive = __ballot_sync(full_warp, i < used && R.key[v] != dead);
    const unsigned less = __ballot_sync(full_warp, i < used && R.key[v] != dead && R.smaller(v, u));
    if (only_dead) first = alive ? base + __ffs(static_cast<int>(alive)) - 1 : base + 32 < used ? base + 32 : used;
    only_dead = only_dead && alive == 0;
    if (less) found = __shfl_sync(full_warp, v, __ffs(static_cast<int>(less)) - 1);
  }
  __syncwarp(full_warp);
  if (warp.rank == 0) {
    at.first = first;
    at.blocker = found;
  }
  return found;
}

// find_blocker() by one thread in the first entries of a row. Returns true if the rest of the row must be searched.
__device__ __forceinline__ bool search_front(const Rounds& R, int u, int& found) {
  Vertex& at = R.vertex[u];
  const long long start = R.start[u];
  const int used = at.used, end = min(used, at.first + few);
  int first = at.first;
  found = -1;
  for (int i = first; i < end && found < 0; ++i) {
    const int v = neighbor_of(R.to[start + i]);
    if (R.key[v] == dead) first += first == i;
    else if (R.smaller(v, u)) found = v;
  }
  at.first = first;
  at.blocker = found;
  return found < 0 && end < used;
}

// Lists the chosen vertices of a warp, and reserves storage for their columns and samples.
__device__ __forceinline__ void choose(const Rounds& R, int u, bool chosen) {
  const int lane = threadIdx.x & 31;
  const long long degree = chosen ? R.vertex[u].degree : 0, row = chosen ? R.vertex[u].used - R.vertex[u].first : 0;
  const long long entries = row < degree ? row : degree;
  const bool is_light = chosen && degree <= light, is_heavy = chosen && !is_light;
  const long long copies = warp_inclusive_sum(degree), column = warp_inclusive_sum(entries);
  const unsigned lights = __ballot_sync(full_warp, is_light), heavies = __ballot_sync(full_warp, is_heavy);
  const long long heavy_copies = heavies ? warp_sum(is_heavy ? degree + 1 : 0) : 0;
  unsigned long long sample = 0, row_of_column = 0, first_light = 0, first_heavy = 0;
  if (lane == 31) {
    sample = atomicAdd(R.state + need, static_cast<unsigned long long>(copies));
    row_of_column = atomicAdd(R.state + need_columns, static_cast<unsigned long long>(column));
    first_light = atomicAdd(R.state + chosen_light, static_cast<unsigned long long>(__popc(lights)));
    if (heavies) first_heavy = atomicAdd(R.state + chosen_heavy, static_cast<unsigned long long>(__popc(heavies)));
    if (heavies) atomicAdd(R.state + need_heavy, static_cast<unsigned long long>(heavy_copies));
  }
  sample = __shfl_sync(full_warp, sample, 31);
  row_of_column = __shfl_sync(full_warp, row_of_column, 31);
  first_light = __shfl_sync(full_warp, first_light, 31);
  first_heavy = __shfl_sync(full_warp, first_heavy, 31);
  if (!chosen) return;
  R.reserved[u] = static_cast<long long>(sample) + copies - degree;
  R.column_start[u] = static_cast<long long>(row_of_column) + column - entries;
  const unsigned below = (1u << lane) - 1;
  if (is_light) R.chosen[first_light + __popc(lights & below)] = u;
  else R.chosen[R.n - 1 - static_cast<long long>(first_heavy) - __popc(heavies & below)] = u;
}

__device__ __forceinline__ void select(const Rounds& R) {
  const int lane = threadIdx.x & 31;
  for (long long base = grid_begin() - lane; base < R.live_size; base += grid_step()) {
    const int u = base + lane < R.live_size ? R.live[base + lane] : -1;
    bool open = u >= 0 && R.key[u] != dead;
    if (open) {
      const int blocker = R.vertex[u].blocker;
      open = blocker < 0 || R.key[blocker] == dead || !R.smaller(blocker, u);
    }
    int found = -1;
    const bool more = open && search_front(R, u, found);
    unsigned chosen = __ballot_sync(full_warp, open && !more && found < 0);
    __syncwarp(full_warp);
    for (unsigned left = __ballot_sync(full_warp, more); left; left &= left - 1) {
      const int candidate = __shfl_sync(full_warp, u, __ffs(static_cast<int>(left)) - 1);
      if (find_blocker(R, candidate) < 0) chosen |= left & (0u - left);
    }
    __syncwarp(full_warp);
    if (chosen) choose(R, u, chosen >> lane & 1);
  }
}

// True in the first thread of the last thread block that arrives. The writes of the other blocks are then visible.
__device__ __forceinline__ bool is_last(const Rounds& R) {
  __syncthreads();
  if (threadIdx.x != 0) return false;
  __threadfence();
  if (atomicAdd(R.state + arrived, 1ull) + 1 < gridDim.x) return false;
  __threadfence();
  atomicExch(R.state + arrived, 0ull);
  return true;
}

}  // namespace ms::parac
