// The rounds of ParAC on the GPU: the same factor as rounds.cpp, bit for bit. Each round eliminates all vertices whose key is
// smaller than those of their live neighbours; in a given order the key is the position, and rounds are level sets of G.
//   select     live vertices with no smaller neighbour are chosen; the others keep the one they met, their blocker, and are looked
//              at again once it is dead or has become larger. Each gets room among the columns and the samples of the round
//   plan       the last block of select: is there so much room?
//   eliminate  a warp or, for many edges, a block per chosen vertex: column, samples, new degrees of its neighbours
//   room       neighbours whose row is too short for its new samples get a longer one, without its dead entries
//   scatter    samples are written into the rows of both ends; new keys
// Counters that all vertices share are asked for once a warp, in `select`: one that a million pivots ask costs a nanosecond each.
// Nothing depends on the schedule: entries of a row stand in any order, but a pivot sorts them before it adds. A phase that finds
// its workspace too small halts before it has changed anything that a second try would not find (`room` may be repeated), all
// later phases return at once, and the host grows the workspace and goes on from there. Many narrow rounds run in one block.
// Source: Liang et al. 2025, "ParAC", Algorithm 1; the rounds are described in rounds.cpp.
#include "factor/parac/team.cuh"

namespace ms::parac {

constexpr unsigned long long dead = ~0ull, never = dead - 1;            // keys of eliminated vertices and of the ground
constexpr int light = 64;                                               // most edges that one warp eliminates
constexpr int scratch_words = 5;                                        // doubles of scratch per edge: struct Scratch
constexpr int longest = 4096;                                           // entries of a row that one warp copies
constexpr int few = 8;                                                  // that one thread looks at

// What `state` holds; cuda.py knows the same numbers.
enum State { halt, chosen_light, chosen_heavy, need, need_heavy, round_number, live_count, columns_used, samples_used, scratch_used,
             need_columns, rows_used, lost, work, columns_before, arrived, state_size };
enum Halt { go_on, done, stalled, full, rows_full };
enum Phase { select_phase, plan_phase, eliminate_phase, room_phase, scatter_phase, phases };

struct Vertex {
  int used, room, first;                // entries of its row, dead ones too; most; where those that are not known to be dead begin
  int degree;                           // copies of live edges
  int blocker;                          // a neighbour that was smaller when last looked at, or -1
  int incoming, touched;                // samples of this round; whether it is on the list
  int round;                            // in which it was eliminated

  __device__ bool is_long() const { return used - first > longest; }
  __device__ bool is_full() const { return used + incoming > room; }
};

struct Rounds {
  int n, samples, by_degree;
  unsigned long long seed;
  double floor;
  long long columns_room, samples_room, scratch_room, rows_room;
  unsigned long long *state, *key;      // (n + 1) keys, the ground's last
  const int* origin;                    // (n) number in the matrix: names its random stream
  Vertex* vertex;                       // (n)
  long long* start;                     // (n) first entry of each row
  int* to;                              // entries: neighbours, ~neighbour for a sampled edge (one copy, not `samples`)
  double* w;
  const int* live;                      // vertices that may be live
  int live_size;
  int *chosen, *touched;                // (n) light ones from the front, heavy ones from the back; (samples_room) their neighbours
  long long* reserved;                  // (n) first of the samples, and of `touched`, of a chosen vertex: as many as its degree
  long long* column_start;              // (n) columns of G, rows by vertex; of a chosen vertex counted within the round
  int *column_length, *column_row;
  double *column_value, *D;
  int* sample_ends;                     // pairs
  double *sample_w, *scratch;

  __device__ bool smaller(int a, int b) const { return key[a] < key[b] || (key[a] == key[b] && a < b); }
  __device__ bool halted() const { return static_cast<volatile unsigned long long*>(state)[halt] != go_on; }
};

__device__ __forceinline__ unsigned long long key_of(int degree, unsigned long long seed, int origin) {
  const unsigned long long most = (1u << 23) - 1, few = static_cast<unsigned long long>(degree);
  return (few < most ? few : most) << 40 | hash_key(seed, static_cast<unsigned long long>(origin), 1) >> 24;
}

__device__ __forceinline__ int neighbour(int to) { return to < 0 ? ~to : to; }

// ---- select

// Moves the start of u's row over dead entries and looks for a smaller live neighbour, by a warp; -1: there is none.
__device__ __forceinline__ int find_blocker(const Rounds& R, int u) {
  Vertex& at = R.vertex[u];
  const Warp warp;
  const long long start = R.start[u];
  const int used = at.used;
  int first = at.first, found = -1;
  bool only_dead = true;
  for (int base = first; base < used && found < 0; base += 32) {
    const int i = base + warp.rank, v = i < used ? neighbour(R.to[start + i]) : u;
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

// find_blocker() by one thread in the first entries of a row; whether there are more to look at.
__device__ __forceinline__ bool find_near(const Rounds& R, int u, int& found) {
  Vertex& at = R.vertex[u];
  const long long start = R.start[u];
  const int used = at.used, end = min(used, at.first + few);
  int first = at.first;
  found = -1;
  for (int i = first; i < end && found < 0; ++i) {
    const int v = neighbour(R.to[start + i]);
    if (R.key[v] == dead) first += first == i;
    else if (R.smaller(v, u)) found = v;
  }
  at.first = first;
  at.blocker = found;
  return found < 0 && end < used;
}

// Vertices of a warp that are chosen: places in the list, and room for what their elimination brings.
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
    const bool more = open && find_near(R, u, found);
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

// Whether this block is the last to come here, known to its first thread; what the others have written is seen then.
__device__ __forceinline__ bool is_last(const Rounds& R) {
  __syncthreads();
  if (threadIdx.x != 0) return false;
  __threadfence();
  if (atomicAdd(R.state + arrived, 1ull) + 1 < gridDim.x) return false;
  __threadfence();
  atomicExch(R.state + arrived, 0ull);
  return true;
}

// ---- plan

__device__ __forceinline__ void plan(const Rounds& R) {
  unsigned long long* const s = R.state;
  const unsigned long long chosen = s[chosen_light] + s[chosen_heavy];
  if (chosen == 0) {
    s[halt] = s[live_count] == 0 ? done : stalled;
  } else if (s[columns_used] + s[need_columns] > static_cast<unsigned long long>(R.columns_room) ||
             s[need] > static_cast<unsigned long long>(R.samples_room) ||
             s[need_heavy] > static_cast<unsigned long long>(R.scratch_room)) {
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

struct Scratch {                        // of `room` edges
  Edge* edges;                          // (room)
  double *suffix, *weight;              // (room + 1), (room)
  int* drawn;                           // (room) number of the first draw of each edge
  __device__ Scratch(double* memory, long long room)
      : edges(reinterpret_cast<Edge*>(memory)), suffix(memory + 2 * room), weight(suffix + room + 1),
        drawn(reinterpret_cast<int*>(weight + room)) {}
};

// The live edges of v; its neighbours lose them, and are listed by the first who meets them. Returns how many there are.
template <class Team> __device__ __forceinline__ int gather(const Rounds& R, const Team& team, int v, Edge* e) {
  const Vertex at = R.vertex[v];
  const long long start = R.start[v];
  int* const touched = R.touched + R.reserved[v];
  int d = 0;
  for (int base = at.first; base < at.used; base += team.size) {
    const int i = base + team.rank, raw = i < at.used ? R.to[start + i] : 0, to = neighbour(raw);
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

// The number of the first draw of each edge.
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

// Samples go to the list of the round, without weight where there are fewer than was foreseen; their ends know how many will come.
template <class Team> __device__ __forceinline__ void sample(const Rounds& R, const Team& team, int v, const Scratch& s, int d) {
  const long long first = R.reserved[v];
  for (int i = s.drawn[d - 1] + team.rank; i < R.vertex[v].degree; i += team.size) R.sample_w[first + i] = 0;
  for (int i = team.rank; i + 1 < d; i += team.size) {
    const long long none = sample_edge(s.edges, i, d, s.suffix, stream_of(R.seed, R.origin[v]), s.drawn[i],
                                       [&](int a, int b, double w, unsigned long long drawn) {
      R.sample_ends[2 * (first + drawn)] = a;
      R.sample_ends[2 * (first + drawn) + 1] = b;
      R.sample_w[first + drawn] = w;
      expect(R, a);
      expect(R, b);
    });
    for (long long c = 0; c < none; ++c) R.sample_w[first + s.drawn[i] + c] = 0;
    if (none) atomicAdd(R.state + lost, static_cast<unsigned long long>(none));
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
  team.sync();                                              // all have read where the column begins
  if (team.rank == 0) {
    R.D[v] = s.suffix[0];
    R.column_start[v] = column;
    R.column_length[v] = kept;
    R.vertex[v].round = static_cast<int>(R.state[round_number]);
    R.key[v] = dead;
  }
  team.sync();                                              // the next pivot takes the same scratch
}

// `shared` holds one Scratch of `light` edges for each warp; that of heavy vertices is in global memory.
__device__ __forceinline__ void eliminate_chosen(const Rounds& R, double* shared) {
  const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32;
  const long long lights = static_cast<long long>(R.state[chosen_light]), heavies = static_cast<long long>(R.state[chosen_heavy]);
  const Scratch mine(shared + warp * (scratch_words * light), light);
  for (long long i = static_cast<long long>(blockIdx.x) * warps + warp; i < lights; i += static_cast<long long>(gridDim.x) * warps)
    eliminate(R, Warp{}, R.chosen[i], mine);
  for (long long i = blockIdx.x; i < heavies; i += gridDim.x) {
    const Block block;
    const int v = R.chosen[R.n - 1 - i];
    const int room = R.vertex[v].degree;
    unsigned long long at = 0;
    if (block.rank == 0) at = atomicAdd(R.state + scratch_used, static_cast<unsigned long long>(room) + 1);
    at = block.from_first(at);
    eliminate(R, block, v, Scratch(R.scratch + scratch_words * at, room));
  }
}

// ---- room

// Calls work(team, i) for each i < count, by a warp each; where is_long(i), by the whole block after the others.
template <class IsLong, class Work> __device__ __forceinline__ void by_warps(long long count, IsLong is_long, Work work) {
  __shared__ int waiting;
  __shared__ long long left[32];
  const Warp warp;
  const long long warps = blockDim.x / 32;
  for (long long first = blockIdx.x * warps; first < count; first += gridDim.x * warps) {
    if (threadIdx.x == 0) waiting = 0;
    __syncthreads();
    const long long i = first + threadIdx.x / 32;
    if (i < count && !is_long(i)) work(warp, i);
    else if (i < count && warp.rank == 0) left[atomicAdd(&waiting, 1)] = i;
    __syncthreads();
    for (int w = 0; w < waiting; ++w) work(Block{}, left[w]);
    __syncthreads();
  }
}

// Entries of a row that are not dead, from `source` to `target`; returns how many.
template <class Team>
__device__ __forceinline__ int copy_row(const Rounds& R, const Team& team, const Vertex& at, const int* to, const double* w,
                                        long long source, long long target) {
  int kept = 0;
  for (int base = at.first; base < at.used; base += team.size) {
    const int i = base + team.rank, raw = i < at.used ? to[source + i] : 0;
    const bool alive = i < at.used && R.key[neighbour(raw)] != dead;
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

template <class Team> __device__ __forceinline__ void make_room(const Rounds& R, const Team& team, int u) {
  const Vertex at = R.vertex[u];
  const int room = 2 * (at.used - at.first + at.incoming);
  unsigned long long target = 0;
  if (team.rank == 0) target = atomicAdd(R.state + rows_used, static_cast<unsigned long long>(room));
  target = team.from_first(target);
  if (target + room > static_cast<unsigned long long>(R.rows_room)) {
    if (team.rank == 0) atomicExch(R.state + halt, static_cast<unsigned long long>(rows_full));
    return;
  }
  const int kept = copy_row(R, team, at, R.to, R.w, R.start[u], static_cast<long long>(target));
  if (team.rank != 0) return;
  R.start[u] = static_cast<long long>(target);
  R.vertex[u].used = kept;
  R.vertex[u].room = room;
  R.vertex[u].first = 0;
}

// A thread looks at a neighbour; its warp writes a full row anew, or the block where that is long.
__device__ __forceinline__ void make_room(const Rounds& R) {
  __shared__ int waiting;
  __shared__ int left[256];
  const long long count = static_cast<long long>(R.state[samples_used]);
  for (long long first = static_cast<long long>(blockIdx.x) * blockDim.x; first < count; first += grid_step()) {
    if (threadIdx.x == 0) waiting = 0;
    __syncthreads();
    const int u = first + threadIdx.x < count ? R.touched[first + threadIdx.x] : -1;
    const bool full = u >= 0 && R.vertex[u].is_full(), is_long = full && R.vertex[u].is_long();
    if (is_long) left[atomicAdd(&waiting, 1)] = u;
    for (unsigned some = __ballot_sync(full_warp, full && !is_long); some; some &= some - 1)
      make_room(R, Warp{}, __shfl_sync(full_warp, u, __ffs(static_cast<int>(some)) - 1));
    __syncthreads();
    for (int w = 0; w < waiting; ++w) make_room(R, Block{}, left[w]);
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
  if (phase == room_phase) make_room(R);
  if (phase == scatter_phase) scatter(R);
}

// One answer for the block, as other blocks may halt at any time; returns whether it went on.
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

// `numbers` are n, samples, by_degree, the length of the list of live vertices, then the room of columns, samples, scratch, rows.
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

// One phase by the whole grid. Each has a kernel: those that wait for memory want more threads than `eliminate` has registers for.
extern "C" __global__ void __launch_bounds__(256, 4) k_select(MS_ROUNDS_ARGUMENTS) {
  run_unless_halted<select_phase>(MS_ROUNDS, nullptr);
}

extern "C" __global__ void __launch_bounds__(256) k_plan(MS_ROUNDS_ARGUMENTS) {
  run_unless_halted<plan_phase>(MS_ROUNDS, nullptr);
}

// Two blocks a multiprocessor at least: with the compiler's own choice it spills.
extern "C" __global__ void __launch_bounds__(256, 2) k_eliminate(MS_ROUNDS_ARGUMENTS) {
  extern __shared__ double shared[];
  run_unless_halted<eliminate_phase>(MS_ROUNDS, shared);
}

extern "C" __global__ void __launch_bounds__(256) k_room(MS_ROUNDS_ARGUMENTS) {
  run_unless_halted<room_phase>(MS_ROUNDS, nullptr);
}

extern "C" __global__ void __launch_bounds__(256) k_scatter(MS_ROUNDS_ARGUMENTS) {
  run_unless_halted<scatter_phase>(MS_ROUNDS, nullptr);
}

// As many whole rounds by one block, until one has more than `widest` edges.
extern "C" __global__ void __launch_bounds__(256, 2) k_rounds(int rounds, int widest, MS_ROUNDS_ARGUMENTS) {
  extern __shared__ double shared[];
  const Rounds R MS_ROUNDS;
  for (int round = 0; round < rounds; ++round) {
    if (!run_unless_halted<select_phase>(R, shared) || !run_unless_halted<eliminate_phase>(R, shared) ||
        !run_unless_halted<room_phase>(R, shared) || !run_unless_halted<scatter_phase>(R, shared))
      return;
    if (R.state[work] > static_cast<unsigned long long>(widest)) return;
  }
}

// Every live row anew, without dead entries, in rows whose starts and rooms are given; the old ones are `to`, `w` at `old_start`.
extern "C" __global__ void __launch_bounds__(256)
k_rewrite(const int* live, int count, const unsigned long long* key, const long long* old_start, const int* to, const double* w,
          const long long* new_start, const int* new_room, int* vertex, int* new_to, double* new_w) {
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
    all[u].room = new_room[i];
  });
}

// The rows before the first round, a warp each: edges of the matrix, then `samples` edges to the ground where there is one.
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
    at.room = static_cast<int>(start[u + 1] - first);
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

// Columns in their final order, a warp each: rows become positions.
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
