// The rounds of ParAC on the GPU: the same factor as rounds.cpp, bit for bit. Each round eliminates all vertices whose key is
// smaller than the keys of their live neighbors. In a given order the key is the position, and the rounds are level sets of G.
//   select     live vertices without a smaller neighbor are chosen. The others store one, their blocker, and are tested again when
//              it is dead or its key has become larger. Storage for columns and samples of the round is reserved
//   plan       tests if the workspace is large enough, in the last thread block of select
//   eliminate  one warp or, for many edges, one thread block per chosen vertex: column, samples, new degrees of its neighbors
//   grow       neighbors whose row cannot hold the new samples get a longer row, without dead entries
//   scatter    samples are written into the rows of both ends; new keys
// Shared counters are changed once per warp, in `select`: an atomic of each of a million pivots on one counter costs a
// nanosecond. The result does not depend on the schedule: the entries of a row have no fixed order, but a pivot sorts them before
// it sums. If the workspace is too small, a phase halts before it changes anything, except that `grow` can be repeated. All later
// phases return at once. The host grows the workspace and continues with the same phase. Many narrow rounds run in one thread
// block.
// Source: Liang et al. 2025, "ParAC", Algorithm 1. The rounds are described in rounds.cpp.
#include "factor/parac/rounds.cuh"

namespace ms::parac {

// ---- plan

__device__ __forceinline__ void plan(const Rounds& R) {
  unsigned long long* const s = R.state;
  const unsigned long long chosen = s[chosen_light] + s[chosen_heavy];
  if (chosen == 0) {
    s[halt] = s[live_count] == 0 ? done : stalled;
  } else if (s[columns_used] + s[need_columns] > static_cast<unsigned long long>(R.columns_capacity) ||
             s[need] > static_cast<unsigned long long>(R.samples_capacity) ||
             s[need_heavy] > static_cast<unsigned long long>(R.scratch_capacity)) {
    s[halt] = full;
  } else {
    s[work] = s[samples_used] = s[need];
    s[round_number] += 1;
    s[live_count] -= chosen;
    s[columns_before] = s[columns_used];
    s[columns_used] += s[need_columns];
    s[scratch_used] = 0;
  }
}

// ---- eliminate

struct Scratch {                        // for `capacity` edges
  Edge* edges;                          // (capacity)
  double *suffix, *weight;              // (capacity + 1), (capacity)
  int* drawn;                           // (capacity) index of the first draw of each edge
  __device__ Scratch(double* memory, long long capacity)
      : edges(reinterpret_cast<Edge*>(memory)), suffix(memory + 2 * capacity), weight(suffix + capacity + 1),
        drawn(reinterpret_cast<int*>(weight + capacity)) {}
};

// Gathers the live edges of v, and subtracts them from the degrees of its neighbors. A neighbor is added to `touched` once per
// round. Returns the number of edges.
template <class Team> __device__ __forceinline__ int gather(const Rounds& R, const Team& team, int v, Edge* e) {
  const Vertex at = R.vertex[v];
  const long long start = R.start[v];
  int* const touched = R.touched + R.reserved[v];
  int d = 0;
  for (int base = at.first; base < at.used; base += team.size) {
    const int i = base + team.rank, raw = i < at.used ? R.to[start + i] : 0, to = neighbor_of(raw);
    const bool alive = i < at.used && R.key[to] != dead;
    int total;
    const int before = team.exclusive_count(alive, total);
    if (alive) {
      const int copies = raw < 0 ? 1 : R.samples;
      e[d + before] = {R.w[start + i], to, copies};
      if (to != R.n) atomicSub(&R.vertex[to].degree, copies);
      touched[d + before] = to != R.n && atomicExch(&R.vertex[to].touched, 1) == 0 ? to : -1;
    }
    d += total;
  }
  for (int i = d + team.rank; i < at.degree; i += team.size) touched[i] = -1;
  team.sync();
  return d;
}

// Computes the index of the first draw of each edge.
template <class Team> __device__ __forceinline__ void number_draws(const Team& team, const Scratch& s, int d) {
  for (int base = 0, drawn = 0, total; base < d; base += team.size, drawn += total) {
    const int i = base + team.rank, before = team.exclusive_sum(i < d ? s.edges[i].copies : 0, total);
    if (i < d) s.drawn[i] = drawn + before;
  }
  team.sync();
}

__device__ __forceinline__ void expect(const Rounds& R, int end) {
  if (end == R.n) return;
  atomicAdd(&R.vertex[end].degree, 1);
  atomicAdd(&R.vertex[end].incoming, 1);
}

// Draws the samples of v into the list of the round. Unused reserved entries get the weight 0. The ends count their incoming
// samples.
template <class Team> __device__ __forceinline__ void sample(const Rounds& R, const Team& team, int v, const Scratch& s, int d) {
  const long long first = R.reserved[v];
  for (int i = s.drawn[d - 1] + team.rank; i < R.vertex[v].degree; i += team.size) R.sample_w[first + i] = 0;
  for (int i = team.rank; i + 1 < d; i += team.size) {
    const long long underflowed = sample_edge(s.edges, i, d, s.suffix, stream_of(R.seed, R.origin[v]), s.drawn[i],
                                       [&](int a, int b, double w, unsigned long long drawn) {
      R.sample_ends[2 * (first + drawn)] = a;
      R.sample_ends[2 * (first + drawn) + 1] = b;
      R.sample_w[first + drawn] = w;
      expect(R, a);
      expect(R, b);
    });
    for (long long c = 0; c < underflowed; ++c) R.sample_w[first + s.drawn[i] + c] = 0;
    if (underflowed) atomicAdd(R.state + lost, static_cast<unsigned long long>(underflowed));
  }
}

template <class Team> __device__ __forceinline__ void eliminate(const Rounds& R, const Team& team, int v, const Scratch& s) {
  Edge* const e = s.edges;
  const int gathered = gather(R, team, v, e);
  sort_edges(team, e, gathered, nearer);
  const int d = merge(team, e, gathered, R.samples, R.floor), kept = d - (d > 0 && e[d - 1].to == R.n);
  const long long column = static_cast<long long>(R.state[columns_before]) + R.column_start[v];
  for (int i = team.rank; i < kept; i += team.size) {
    R.column_row[column + i] = e[i].to;
    s.weight[i] = e[i].w;
  }
  team.sync();
  sort_edges(team, e, d, lighter);
  suffix_sums(team, e, d, s.suffix);
  number_draws(team, s, d);
  for (int i = team.rank; i < kept; i += team.size) R.column_value[column + i] = s.weight[i] / s.suffix[0];
  if (d > 0) sample(R, team, v, s, d);
  if (team.rank == 0) {
    R.D[v] = s.suffix[0];
    R.column_start[v] = column;
    R.column_length[v] = kept;
    R.vertex[v].round = static_cast<int>(R.state[round_number]);
    R.key[v] = dead;
  }
  team.sync();                                              // the next pivot uses the same scratch
}

// `shared`: one Scratch of `light` edges per warp. The scratch of heavy vertices is in global memory.
__device__ __forceinline__ void eliminate_chosen(const Rounds& R, double* shared) {
  const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32;
  const long long lights = static_cast<long long>(R.state[chosen_light]), heavies = static_cast<long long>(R.state[chosen_heavy]);
  const Scratch scratch(shared + warp * (scratch_words * light), light);
  for (long long i = static_cast<long long>(blockIdx.x) * warps + warp; i < lights; i += static_cast<long long>(gridDim.x) * warps)
    eliminate(R, Warp{}, R.chosen[i], scratch);
  for (long long i = blockIdx.x; i < heavies; i += gridDim.x) {
    const Block block;
    const int v = R.chosen[R.n - 1 - i];
    const int capacity = R.vertex[v].degree;
    unsigned long long at = 0;
    if (block.rank == 0) at = atomicAdd(R.state + scratch_used, static_cast<unsigned long long>(capacity) + 1);
    at = block.from_first(at);
    eliminate(R, block, v, Scratch(R.scratch + scratch_words * at, capacity));
  }
}

// ---- grow

// Calls work(team, i) for each i < count, by one warp each; items with is_long(i) follow, by the whole thread block.
template <class IsLong, class Work> __device__ __forceinline__ void by_warps(long long count, IsLong is_long, Work work) {
  __shared__ int num_long;
  __shared__ long long left[32];
  const Warp warp;
  const long long warps = blockDim.x / 32;
  for (long long first = blockIdx.x * warps; first < count; first += gridDim.x * warps) {
    if (threadIdx.x == 0) num_long = 0;
    __syncthreads();
    const long long i = first + threadIdx.x / 32;
    if (i < count && !is_long(i)) work(warp, i);
    else if (i < count && warp.rank == 0) left[atomicAdd(&num_long, 1)] = i;
    __syncthreads();
    for (int w = 0; w < num_long; ++w) work(Block{}, left[w]);
    __syncthreads();
  }
}

// Copies the live entries of a row from `source` to `target`. Returns their number.
template <class Team>
__device__ __forceinline__ int copy_row(const Rounds& R, const Team& team, const Vertex& at, const int* to, const double* w,
                                        long long source, long long target) {
  int kept = 0;
  for (int base = at.first; base < at.used; base += team.size) {
    const int i = base + team.rank, raw = i < at.used ? to[source + i] : 0;
    const bool alive = i < at.used && R.key[neighbor_of(raw)] != dead;
    int total;
    const int before = team.exclusive_count(alive, total);
    if (alive) {
      R.to[target + kept + before] = raw;
      R.w[target + kept + before] = w[source + i];
    }
    kept += total;
  }
  team.sync();
  return kept;
}

template <class Team> __device__ __forceinline__ void grow_row(const Rounds& R, const Team& team, int u) {
  const Vertex at = R.vertex[u];
  const int capacity = 2 * (at.used - at.first + at.incoming);
  unsigned long long target = 0;
  if (team.rank == 0) target = atomicAdd(R.state + rows_used, static_cast<unsigned long long>(capacity));
  target = team.from_first(target);
  if (target + capacity > static_cast<unsigned long long>(R.rows_capacity)) {
    if (team.rank == 0) atomicExch(R.state + halt, static_cast<unsigned long long>(rows_full));
    return;
  }
  const int kept = copy_row(R, team, at, R.to, R.w, R.start[u], static_cast<long long>(target));
  if (team.rank != 0) return;
  R.start[u] = static_cast<long long>(target);
  R.vertex[u].used = kept;
  R.vertex[u].capacity = capacity;
  R.vertex[u].first = 0;
}

// Each thread tests one neighbor. Its warp moves a full row to longer storage, or the thread block if the row is long.
__device__ __forceinline__ void grow_row(const Rounds& R) {
  __shared__ int num_long;
  __shared__ int left[256];
  const long long count = static_cast<long long>(R.state[samples_used]);
  for (long long first = static_cast<long long>(blockIdx.x) * blockDim.x; first < count; first += grid_step()) {
    if (threadIdx.x == 0) num_long = 0;
    __syncthreads();
    const int u = first + threadIdx.x < count ? R.touched[first + threadIdx.x] : -1;
    const bool full = u >= 0 && R.vertex[u].is_full(), is_long = full && R.vertex[u].is_long();
    if (is_long) left[atomicAdd(&num_long, 1)] = u;
    for (unsigned some = __ballot_sync(full_warp, full && !is_long); some; some &= some - 1)
      grow_row(R, Warp{}, __shfl_sync(full_warp, u, __ffs(static_cast<int>(some)) - 1));
    __syncthreads();
    for (int w = 0; w < num_long; ++w) grow_row(R, Block{}, left[w]);
    __syncthreads();
  }
}

// ---- scatter

__device__ __forceinline__ void scatter(const Rounds& R) {
  const long long count = static_cast<long long>(R.state[samples_used]);
  for (long long i = grid_begin(); i < 2 * count; i += grid_step()) {
    const int a = R.sample_ends[i], b = R.sample_ends[i ^ 1];
    const double w = R.sample_w[i / 2];
    if (w == 0 || a == R.n) continue;
    const long long p = R.start[a] + atomicAdd(&R.vertex[a].used, 1);
    R.to[p] = ~b;
    R.w[p] = w;
  }
  for (long long i = grid_begin(); i < count; i += grid_step()) {
    const int u = R.touched[i];
    if (u < 0) continue;
    R.vertex[u].touched = R.vertex[u].incoming = 0;
    if (!R.by_degree) continue;
    R.key[u] = key_of(R.vertex[u].degree, R.seed, R.origin[u]);
  }
  if (grid_begin() == 0)
    R.state[chosen_light] = R.state[chosen_heavy] = R.state[need] = R.state[need_columns] = R.state[need_heavy] = 0;
}

template <int phase> __device__ __forceinline__ void run(const Rounds& R, double* shared) {
  if (phase == select_phase) {
    select(R);
    if (is_last(R)) plan(R);
  }
  if (phase == plan_phase && grid_begin() == 0) plan(R);
  if (phase == eliminate_phase) eliminate_chosen(R, shared);
  if (phase == grow_phase) grow_row(R);
  if (phase == scatter_phase) scatter(R);
}

// Runs a phase unless the kernel has halted. The whole block uses one reading of the flag, since other blocks may halt at any
// time.
template <int phase> __device__ __forceinline__ bool run_unless_halted(const Rounds& R, double* shared) {
  __shared__ int stopped;
  if (threadIdx.x == 0) stopped = R.halted();
  __syncthreads();
  if (stopped) return false;
  run<phase>(R, shared);
  __syncthreads();
  return true;
}

}  // namespace ms::parac

using namespace ms;
using namespace ms::parac;

// `numbers`: n, samples, by_degree, length of the list of live vertices, then the capacities of columns, samples, scratch and
// rows.
#define MS_ROUNDS_ARGUMENTS                                                                                                        \
  const long long *numbers, unsigned long long seed, double floor, unsigned long long *state, unsigned long long *key,             \
      const int *origin, int *vertex, long long *start, int *to, double *w, const int *live, int *chosen, int *touched,            \
      long long *reserved, long long *column_start, int *column_length, int *column_row, double *column_value, double *D,          \
      int *sample_ends, double *sample_w, double *scratch
#define MS_ROUNDS                                                                                                                  \
  {static_cast<int>(numbers[0]), static_cast<int>(numbers[1]), static_cast<int>(numbers[2]), seed, floor, numbers[4], numbers[5],  \
   numbers[6], numbers[7], state, key, origin, reinterpret_cast<Vertex*>(vertex), start, to, w, live,                              \
   static_cast<int>(numbers[3]), chosen, touched, reserved, column_start, column_length, column_row, column_value, D,              \
   sample_ends, sample_w, scratch}

// One phase by the whole grid. Each phase has a kernel: memory-bound phases run with more threads than the registers of
// `eliminate` allow.
extern "C" __global__ void __launch_bounds__(256, 4) k_select(MS_ROUNDS_ARGUMENTS) {
  run_unless_halted<select_phase>(MS_ROUNDS, nullptr);
}

extern "C" __global__ void __launch_bounds__(256) k_plan(MS_ROUNDS_ARGUMENTS) {
  run_unless_halted<plan_phase>(MS_ROUNDS, nullptr);
}

// At least two thread blocks per multiprocessor: with its default the compiler spills registers.
extern "C" __global__ void __launch_bounds__(256, 2) k_eliminate(MS_ROUNDS_ARGUMENTS) {
  extern __shared__ double shared[];
  run_unless_halted<eliminate_phase>(MS_ROUNDS, shared);
}

extern "C" __global__ void __launch_bounds__(256) k_grow_rows(MS_ROUNDS_ARGUMENTS) {
  run_unless_halted<grow_phase>(MS_ROUNDS, nullptr);
}

extern "C" __global__ void __launch_bounds__(256) k_scatter(MS_ROUNDS_ARGUMENTS) {
  run_unless_halted<scatter_phase>(MS_ROUNDS, nullptr);
}

// Up to `rounds` whole rounds by one thread block, until one has more than `widest` edges.
extern "C" __global__ void __launch_bounds__(256, 2) k_rounds(int rounds, int widest, MS_ROUNDS_ARGUMENTS) {
  extern __shared__ double shared[];
  const Rounds R MS_ROUNDS;
  for (int round = 0; round < rounds; ++round) {
    if (!run_unless_halted<select_phase>(R, shared) || !run_unless_halted<eliminate_phase>(R, shared) ||
        !run_unless_halted<grow_phase>(R, shared) || !run_unless_halted<scatter_phase>(R, shared))
      return;
    if (R.state[work] > static_cast<unsigned long long>(widest)) return;
  }
}

// Copies every live row, without dead entries, to new storage with the given starts and capacities. Old rows: `to`, `w` at
// `old_start`.
extern "C" __global__ void __launch_bounds__(256)
k_rewrite(const int* live, int count, const unsigned long long* key, const long long* old_start, const int* to, const double* w,
          const long long* new_start, const int* new_capacity, int* vertex, int* new_to, double* new_w) {
  Rounds R{};
  R.key = const_cast<unsigned long long*>(key);
  R.to = new_to;
  R.w = new_w;
  Vertex* const all = reinterpret_cast<Vertex*>(vertex);
  by_warps(count, [&](long long i) { return all[live[i]].is_long(); }, [&](const auto& team, long long i) {
    const int u = live[i];
    const Vertex at = all[u];
    const int kept = copy_row(R, team, at, to, w, old_start[u], new_start[i]);
    if (team.rank != 0) return;
    all[u].used = kept;
    all[u].first = 0;
    all[u].capacity = new_capacity[i];
  });
}

// Initial rows, one warp per row: the edges of the matrix, then `samples` edges to the ground if there is one.
extern "C" __global__ void __launch_bounds__(256)
k_fill(int n, int samples, const long long* ptr, const int* to, const double* w, const double* ground, const int* perm,
       const int* iperm, const long long* start, int* vertex, int* new_to, double* new_w) {
  const int lane = threadIdx.x & 31;
  for (long long u = grid_begin() / 32; u < n; u += grid_step() / 32) {
    const int v = perm[u], edges = static_cast<int>(ptr[v + 1] - ptr[v]), grounding = ground && ground[v] > 0 ? samples : 0;
    const long long from = ptr[v], first = start[u];
    for (int i = lane; i < edges; i += 32) {
      new_to[first + i] = iperm[to[from + i]];
      new_w[first + i] = w[from + i];
    }
    for (int i = lane; i < grounding; i += 32) {
      new_to[first + edges + i] = ~n;
      new_w[first + edges + i] = ground[v] / samples;
    }
    if (lane != 0) continue;
    Vertex& at = reinterpret_cast<Vertex*>(vertex)[u];
    at.used = edges + grounding;
    at.capacity = static_cast<int>(start[u + 1] - first);
    at.degree = edges * samples + grounding;
    at.first = at.incoming = at.touched = at.round = 0;
    at.blocker = -1;
  }
}

extern "C" __global__ void __launch_bounds__(256)
k_keys(int n, int by_degree, unsigned long long seed, const int* origin, const int* vertex, unsigned long long* key) {
  for (long long u = grid_begin(); u <= n; u += grid_step()) {
    if (u == n) {
      key[u] = never;
      continue;
    }
    key[u] = by_degree ? key_of(reinterpret_cast<const Vertex*>(vertex)[u].degree, seed, origin[u])
                       : static_cast<unsigned long long>(u);
  }
}

// Copies the columns in their final order, one warp per column. Row indices become positions.
extern "C" __global__ void __launch_bounds__(256)
k_collect(int n, const int* order, const int* position, const long long* start, const int* row, const double* value,
          const long long* ptr, int* new_row, double* new_value) {
  const int lane = threadIdx.x & 31;
  for (long long k = grid_begin() / 32; k < n; k += grid_step() / 32) {
    const long long source = start[order[k]], length = ptr[k + 1] - ptr[k];
    for (long long i = lane; i < length; i += 32) {
      new_row[ptr[k] + i] = position[row[source + i]];
      new_value[ptr[k] + i] = value[source + i];
    }
  }
}
