// Data of ParAC in a given order on the GPU, and the elimination of one pivot by a warp or a thread block. See ordered.cu.
#pragma once
#include "factor/parac/team.cuh"

namespace ms::parac {

constexpr unsigned long long vacant = ~0ull;                            // word of a free slot
constexpr int light = 64;                                               // most edges of a pivot that one warp eliminates
constexpr int together = 8;                                             // consecutive samples of a vertex in adjacent slots
constexpr int none = -1, quit = -2;                                  // requests of a block other than a vertex: none, and exit

// Entries of `state`; counters that many threads change have a cache line each. ordered_cuda.py uses the same numbers.
enum State { halt = 0, head = 16, tail = 32, eliminated = 48, columns_used = 64, table_used = 80, need_table = 96, need_scratch,
             lost };
enum Halt { done = 1, paused = 2, columns_full = 4, table_full = 8, scratch_small = 16, stalled = 32 };

struct Sample {                          // one array of structures: two arrays would need more registers
  double w;
  long long number;                      // index among the samples of its earlier end
};

struct Ordered {
  int n, samples;
  unsigned long long seed;
  double floor;
  unsigned long long pause;             // number of eliminated vertices at which the kernel pauses for the host
  long long most_polls;                   // number of polls without progress until a stall is reported
  unsigned long long* state;
  const long long* ptr;                 // the graph, numbered as in the matrix
  const int* to;
  const double *w, *ground;
  const int *order, *position;          // (n) vertex of each position, and the inverse; all arrays below are by position
  const int* later;                     // (n) number of graph edges to later vertices, including the ground
  int *pending, *num_samples, *level;           // (n) entries to earlier vertices; samples in the table; level, from 1
  int* queue;                           // (n) vertices in the order in which they became ready
  unsigned long long* table;            // (table_capacity) word of each slot: earlier end << 32 | later end
  Sample* table_sample;                 // (table_capacity) sample of each slot
  long long table_capacity;             // < 2^32
  long long* column_start;              // (n)
  int* column_length;                   // (n) -1: not eliminated
  int* column_row;
  double *column_value, *D;
  long long columns_capacity;
  double* slabs;                        // scratch of pivots that exceed shared memory; one pivot at a time uses each slab
  int* slab_taken;
  int slab_count, slab_capacity;

  __device__ unsigned long long read(int what) const { return static_cast<volatile unsigned long long*>(state)[what]; }
  __device__ void stop(Halt why) const { atomicOr(state + halt, static_cast<unsigned long long>(why)); }
  __device__ int edges(int k) const { return later[k] + num_samples[k]; }
  __device__ unsigned slot(int k, int number) const {                   // first slot of the probe sequence of a sample
    const unsigned long long group = static_cast<unsigned long long>(k) << 32 | static_cast<unsigned>(number / together);
    const unsigned capacity = static_cast<unsigned>(table_capacity), within = static_cast<unsigned>(number % together);
    const unsigned at = static_cast<unsigned>((mix64(group) >> 32) * capacity >> 32);
    return within < capacity - at ? at + within : 0;
  }
  __device__ unsigned after(unsigned at) const { return at + 1 == static_cast<unsigned>(table_capacity) ? 0 : at + 1; }
  __device__ volatile unsigned long long& word(unsigned at) const { return static_cast<volatile unsigned long long*>(table)[at]; }
  __device__ bool holds(unsigned at, int k, int number) const {
    const unsigned long long word = this->word(at);
    return word != vacant && static_cast<int>(word >> 32) == k && table_sample[at].number == number;
  }
  __device__ __noinline__ long long find(int k, int number) const {     // slot of a sample, or -1; inlining would spill registers
    const unsigned begin = slot(k, number);
    unsigned at = begin;
    while (!holds(at, k, number))
      if ((at = after(at)) == begin) return -1;
    return at;
  }
};

// Words of scratch for `capacity` edges; `capacity` must be even.
__device__ __forceinline__ constexpr long long scratch_words(long long capacity) { return 4 * capacity + 2; }

struct Scratch {
  Edge* edges;                          // (capacity)
  double* suffix;                       // (capacity + 1)
  int* entries;                         // (capacity) number of entries that were merged into each edge
  unsigned* slots;                      // (capacity) slots of the gathered samples
  __device__ Scratch(double* memory, long long capacity)
      : edges(reinterpret_cast<Edge*>(memory)), suffix(memory + 2 * capacity),
        entries(reinterpret_cast<int*>(suffix + capacity + 2)), slots(reinterpret_cast<unsigned*>(entries + capacity)) {}
};

// ---- one pivot

// Appends the samples of pivot k to its `d` matrix edges. Returns the number of edges, or -1 if a sample is missing.
template <class Team>
__device__ __forceinline__ int find_samples(const Ordered& F, const Team& team, int k, const Scratch& s, int d) {
  const int expected = F.num_samples[k];
  bool all = true;
  for (int i = team.rank; i < expected; i += team.size) {
    const long long found = F.find(k, i);
    if (found < 0) {
      all = false;
      break;
    }
    const unsigned at = static_cast<unsigned>(found);       // other threads may still probe the slot
    s.edges[d + i] = {F.table_sample[at].w, static_cast<int>(F.word(at) & 0xffffffffu), 1};
    s.slots[i] = at;
  }
  int missing;
  team.exclusive_count(!all, missing);
  if (missing == 0) return d + expected;
  F.stop(stalled);
  return -1;
}

template <class Team> __device__ __forceinline__ int gather(const Ordered& F, const Team& team, int k, const Scratch& s) {
  const int v = F.order[k];
  const long long end = F.ptr[v + 1];
  int d = 0;
  for (long long base = F.ptr[v]; base < end; base += team.size) {
    const long long p = base + team.rank;
    const int j = p < end ? F.position[F.to[p]] : -1;
    int total;
    const int before = team.exclusive_count(j > k, total);
    if (j > k) s.edges[d + before] = {F.w[p], j, F.samples};
    d += total;
  }
  if (F.ground && F.ground[v] > 0) {
    for (int c = team.rank; c < F.samples; c += team.size) s.edges[d + c] = {F.ground[v] / F.samples, F.n, 1};
    d += F.samples;
  }
  d = find_samples(F, team, k, s, d);
  team.sync();
  return d;
}

// Number of distinct neighbors of the sorted edges.
template <class Team> __device__ __forceinline__ int count_neighbors(const Team& team, const Edge* e, int d) {
  int count = 0;
  for (int base = 0; base < d; base += team.size) {
    const int i = base + team.rank;
    int total;
    team.exclusive_count(i < d && (i == 0 || e[i - 1].to != e[i].to), total);
    count += total;
  }
  return count;
}

__device__ __forceinline__ void release_slots(const Ordered& F, long long slots) {
  atomicAdd(F.state + table_used, static_cast<unsigned long long>(-slots));
}

// Reserves `kept` column entries and `draws` table slots. Returns the position of the first entry, or `vacant` and halts the
// kernel.
template <class Team>
__device__ __forceinline__ unsigned long long reserve(const Ordered& F, const Team& team, int kept, unsigned long long draws) {
  unsigned long long column = vacant;
  if (team.rank == 0) {
    const unsigned long long most = static_cast<unsigned long long>(F.table_capacity - F.table_capacity / 4);
    const unsigned long long used = draws ? atomicAdd(F.state + table_used, draws) + draws : 0;
    if (used <= most) {
      column = atomicAdd(F.state + columns_used, static_cast<unsigned long long>(kept));
      if (column + kept > static_cast<unsigned long long>(F.columns_capacity)) {
        F.stop(columns_full);
        column = vacant;
      }
    } else {
      atomicMax(F.state + need_table, used);
      F.stop(table_full);
    }
    if (column == vacant && draws) release_slots(F, static_cast<long long>(draws));
  }
  return team.from_first(column);
}

// Inserts a sample into the table. Its later end depends on one more entry. There is a free slot, because it was reserved.
__device__ __forceinline__ void insert(const Ordered& F, int a, int b, double w) {
  if (a > b) {
    const int c = a;
    a = b;
    b = c;
  }
  const unsigned long long word = static_cast<unsigned long long>(a) << 32 | static_cast<unsigned>(b);
  const int number = atomicAdd(F.num_samples + a, 1);
  unsigned at = F.slot(a, number), left = 2 * static_cast<unsigned>(F.table_capacity);  // 2 passes, 1 over the largest tables
  for (; atomicCAS(F.table + at, vacant, word) != vacant; at = F.after(at))
    if (left-- == 0) {
      F.stop(stalled);
      return;
    }
  __threadfence();                                          // the thread that freed the slot has read its sample
  F.table_sample[at] = {w, number};
  if (b != F.n) atomicAdd(F.pending + b, 1);
}

// Draws the samples of a pivot and inserts them. Returns the number of draws.
template <class Team>
__device__ __forceinline__ long long sample(const Ordered& F, const Team& team, int k, const Scratch& s, int d) {
  const unsigned long long stream = stream_of(F.seed, F.order[k]);
  long long drawn = 0;
  for (int base = 0; base + 1 < d; base += team.size) {
    const int i = base + team.rank;
    int total;
    const long long first = drawn + team.exclusive_sum(i + 1 < d ? s.edges[i].copies : 0, total);
    const long long underflowed = sample_edge(s.edges, i, d, s.suffix, stream, static_cast<unsigned long long>(first),
                                       [&](int a, int b, double w, unsigned long long) { insert(F, a, b, w); });
    if (underflowed) {
      atomicAdd(F.state + lost, static_cast<unsigned long long>(underflowed));
      release_slots(F, underflowed);
    }
    drawn += total;
  }
  return drawn;
}

__device__ __forceinline__ void enqueue(const Ordered& F, int k) { atomicExch(F.queue + atomicAdd(F.state + tail, 1ull), k); }

// Enqueues the vertices that became ready. A warp keeps one of them as its next pivot.
__device__ __forceinline__ int enqueue_ready(const Ordered& F, const Warp& warp, bool ready, int k, int kept) {
  const unsigned all = __ballot_sync(full_warp, ready);
  if (all == 0) return kept;
  const int first = __ffs(static_cast<int>(all)) - 1, other = __shfl_sync(full_warp, k, first);
  const bool keep = kept == none;
  if (ready && !(keep && warp.rank == first)) enqueue(F, k);
  return keep ? other : kept;
}
__device__ __forceinline__ int enqueue_ready(const Ordered& F, const Block&, bool ready, int k, int kept) {
  if (ready) enqueue(F, k);
  return kept;
}

// Removes the dependencies of the neighbors on k. Returns the next pivot of this team, or `none`.
template <class Team>
__device__ __forceinline__ int release(const Ordered& F, const Team& team, const Scratch& s, const int* rows, int kept) {
  int next = none;
  for (int base = 0; base < kept; base += team.size) {
    const int i = base + team.rank, j = i < kept ? rows[i] : 0;
    const bool ready = i < kept && atomicSub(F.pending + j, s.entries[i]) == s.entries[i];
    if (ready) __threadfence();                             // makes the samples of j visible to the team that eliminates it
    next = enqueue_ready(F, team, ready, j, next);
  }
  return next;
}

__device__ __forceinline__ void count_eliminated(const Ordered& F) {
  const unsigned long long now = atomicAdd(F.state + eliminated, 1ull) + 1;
  if (now == static_cast<unsigned long long>(F.n)) F.stop(done);
  else if (now >= F.pause) F.stop(paused);
}

// Writes column k of G from its merged edges, rows ascending. Then sorts the edges by weight.
template <class Team>
__device__ __forceinline__ void make_column(const Ordered& F, const Team& team, int k, const Scratch& s, int d, int kept,
                                            long long column) {
  const int above = F.level[k] + 1;
  for (int i = team.rank; i < kept; i += team.size) {
    F.column_row[column + i] = s.edges[i].to;
    F.column_value[column + i] = s.edges[i].w;
    atomicMax(F.level + s.edges[i].to, above);
  }
  team.sync();
  sort_edges(team, s.edges, d, lighter);
  suffix_sums(team, s.edges, d, s.suffix);
  for (int i = team.rank; i < kept; i += team.size) F.column_value[column + i] /= s.suffix[0];
  if (team.rank == 0) {
    F.D[k] = s.suffix[0];
    F.column_start[k] = column;
    F.column_length[k] = kept;
  }
}

// Eliminates pivot k. Returns the next pivot of this team, or `none`. If a reservation fails, nothing is changed.
template <class Team> __device__ __forceinline__ int eliminate(const Ordered& F, const Team& team, int k, const Scratch& s) {
  const int samples_in = F.num_samples[k], gathered = gather(F, team, k, s);
  if (gathered < 0) return none;
  sort_edges(team, s.edges, gathered, nearer);
  const int d = count_neighbors(team, s.edges, gathered), kept = d - (d > 0 && s.edges[gathered - 1].to == F.n);
  const long long draws = d > 0 ? (d - 1) * static_cast<long long>(F.samples) : 0;        // upper bound
  const unsigned long long column = reserve(F, team, kept, static_cast<unsigned long long>(draws));
  if (column == vacant) return none;
  merge(team, s.edges, gathered, F.samples, F.floor, s.entries);
  make_column(F, team, k, s, d, kept, static_cast<long long>(column));
  const long long drawn = sample(F, team, k, s, d);
  team.sync();
  __threadfence();                                          // new samples written, old ones read, before the release
  for (int i = team.rank; i < samples_in; i += team.size) F.word(s.slots[i]) = vacant;
  const int next = release(F, team, s, F.column_row + column, kept);
  if (team.rank == 0) {
    if (draws - drawn + samples_in) release_slots(F, draws - drawn + samples_in);
    count_eliminated(F);
  }
  team.sync();
  return next;
}

}  // namespace ms::parac
