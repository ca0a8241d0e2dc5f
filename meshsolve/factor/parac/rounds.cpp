// The round-synchronous dynamic order. Each round eliminates every vertex whose key (current number of edges, hash, number) is
// smaller than the keys of all its live neighbors. These vertices form an independent set. So the result does not depend on the
// schedule, no ordering is computed in advance, and the rounds are level sets of G.
//
// Every other vertex stores one neighbor with a smaller key, its blocker. It is tested again only when the blocker is eliminated
// or its key has become larger: three or four tests per vertex. A round has two parallel steps:
//   select     Live vertices without a valid blocker search for a new one. Those that find none are chosen.
//   eliminate  Computes the columns of the chosen vertices. Their samples are added to the rows of both ends, which get new keys.
//
// Rows are stored in vertex order, with capacity for two more edges, so a round sweeps through memory. A pivot updates each
// neighbor once. A short row deletes the pivot at once; a long row deletes its dead entries when it is full, and then moves to
// larger storage. A long row is compacted only after new entries of a quarter of its length, since each neighbor that is
// eliminated in a round adds a sample to it. Once half of the vertices are eliminated, the remaining graph is copied to
// contiguous memory (a new epoch). The numbers of an epoch have the order of the numbers in the graph; the ground comes last.
//
// Cost: O(samples), and one comparison per live vertex and round: 3 to 6 per vertex on meshes, 35 in graphs with dense rows. The
// number of rounds may grow like sqrt(m), as in a clique, but a vertex of d neighbors takes part in about d log n of them.
// Pivots::visits counts all of this: at most 0.5 m log2(m)^2 for m edges, on stars, complete multipartite, random and power-law
// graphs.
// Source: Liang et al. 2025, "ParAC", Algorithm 1.
#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <utility>

#include "lists.hpp"
#include "native/threads/atomic.hpp"
#include "native/memory/buffer.hpp"
#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "pivot_work.hpp"

namespace ms::parac {
namespace {

constexpr uint64_t dead = ~uint64_t{0}, never = dead - 1;       // keys of eliminated vertices and of the ground
constexpr uint64_t tie_bits = (uint64_t{1} << 40) - 1;          // lower bits of a key: the hash, which is fixed; upper: degree
constexpr int64_t parallel_work = 1500;                         // edges of a round from which several threads are faster
constexpr int32_t short_row = 24;                               // most entries of a row that deletes pivots at once
constexpr int64_t fetched = 16;                                 // number of pivots that are prefetched together

template <bool shared, class T> T load(const T& x) {
  if constexpr (shared) return AtomicRef(const_cast<T&>(x)).load(std::memory_order_relaxed);
  return x;
}

template <bool shared, class T> void store(T& x, T value) {
  if constexpr (shared)
    AtomicRef(x).store(value, std::memory_order_relaxed);
  else
    x = value;
}

inline uint64_t degree_bits(int32_t degree) {
  return std::min<uint64_t>(static_cast<uint64_t>(degree), (1u << 23) - 1) << 40;
}

// m vertices in pieces, also on one thread; each piece has its own results. Small graphs have small pieces: their rows are long.
struct Pieces {
  Pieces(int64_t vertices, int threads)
      : m(vertices), grain(std::clamp<int64_t>(m / (16 * threads), 128, 4096)), count((m + grain - 1) / grain) {}
  int64_t m, grain, count;

  template <class F>
  void each(int threads, F&& f) const {                         // f(piece, from, to)
    for_range(threads, count, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t p = first; p < last; ++p) f(p, p * grain, std::min(m, (p + 1) * grain));
    });
  }
};

template <class T>
class Rounds {
 public:
  Rounds(Graph&& graph, const Options& options, Buffer<Edge>&& rows);
  Factor<T> run();

  // Initial capacity of all rows, independent of the numbering.
  static int64_t initial_capacity(const Graph& g, int samples) {
    const int64_t grounded = std::count_if(g.ground.begin(), g.ground.end(), [](double w) { return w > 0; });
    return g.ptr[g.n] + grounded * samples + int64_t{g.n} * capacity_for(0);
  }

 private:
  struct alignas(32) Vertex {
    Edge* row;                          // includes dead neighbors
    int32_t used, capacity;             // entries of the row; limit
    int32_t degree;                     // number of copies of edges to live vertices
    int32_t origin;                     // number in the graph
    uint32_t lock;                      // SpinLock of the row
  };
  struct alignas(cache_line) Worker {
    PivotWork<T> pivot;
    RowStorage rows;
    int64_t lost = 0, visits = 0;
  };
  struct Found {                        // results of select() for a piece of the vertices
    std::vector<int32_t> chosen;
    int64_t visits = 0;
  };
  struct Epoch {                        // the remaining graph, m vertices
    explicit Epoch(int32_t m) : m(m), vertex(m), key(m + int64_t{1}), blocker(m) { key.back() = never; }
    int32_t m;
    RawVector<Vertex> vertex;           // (m)
    RawVector<uint64_t> key;            // (m + 1)
    RawVector<int32_t> blocker;         // (m) neighbor whose key was smaller at the last test, or -1
    Buffer<Edge> rows;                  // storage of the rows at the start of the epoch
  };
  struct Blocker {                      // the largest of the smaller neighbors tested so far, which likely stays longest
    const uint64_t* key;
    int32_t vertex, found = -1;
    uint64_t most = 0;
    bool alive = false;                 // true if any tested neighbor is live
    void test(int32_t v) {
      const uint64_t own = key[vertex], k = key[v];
      const bool better = ((k < own) | ((k == own) & (v < vertex))) & (k >= most);
      found = better ? v : found;
      most = better ? k : most;
      alive |= k != dead;
    }
  };

  bool smaller(int32_t a, int32_t b) const { return at_.key[a] < at_.key[b] || (at_.key[a] == at_.key[b] && a < b); }
  int32_t number(int32_t origin) const { return graph_.origin.empty() ? origin : graph_.origin[origin]; }
  static int32_t capacity_for(int64_t entries) { return static_cast<int32_t>(entries + 2); }
  // Capacity of a row in the next epoch.
  static int32_t next_capacity(const Vertex& from) { return capacity_for(std::min(from.used, from.degree)); }
  int32_t ground_edges(int32_t v) const { return !graph_.ground.empty() && graph_.ground[v] > 0 ? options_.samples : 0; }
  void write_row(int32_t v, Edge* row);
  int32_t find_blocker(int32_t u, int64_t& visits);
  bool is_minimum(int32_t u, int64_t& visits);
  template <bool shared> void gather(int32_t v, Worker& worker);
  template <bool shared> void eliminate(int32_t v, int64_t position, int32_t worker);
  template <bool shared> void join(int32_t u, int32_t pivot, std::span<const Edge> sampled, int32_t copies, Worker& worker);
  // Keeps the entries of a row with wanted(neighbor). Branch-free.
  template <class Wanted> static void filter(Vertex& at, Wanted&& wanted) {
    int32_t kept = 0;
    for (int32_t i = 0; i < at.used; ++i) {
      const Edge e = at.row[i];
      at.row[kept] = e;
      kept += wanted(e.to);
    }
    at.used = kept;
  }
  template <bool shared> void reserve(Vertex& at, int32_t entries, Worker& worker);
  void select(bool wide);
  bool choose_wide() const;
  void eliminate_chosen(bool wide);
  template <bool shared> void fetch_rows(int64_t from, int64_t to) const;
  void next_epoch(bool wide);
  void move_vertex(const Epoch& old, int32_t u, const RawVector<int32_t>& name, Edge* row);
  Factor<T> collect();

  const Graph graph_;
  const Options options_;
  const int32_t n_;
  std::vector<Worker> workers_;
  Epoch at_;
  Buffer<Edge> spare_;
  std::vector<int32_t> chosen_;         // vertices of this round, ascending
  std::vector<Found> found_;            // the same, by pieces
  int64_t done_ = 0;                    // number of eliminated vertices
  RawVector<int32_t> perm_;             // (n) eliminated vertices in order, numbered as in the graph; the first done_ are set
  RawVector<trisolve::Location> position_;    // (n) location of each column
  RawVector<int32_t> length_;           // (n) length of each column
  RawVector<double> D_;
};

template <class T>
Rounds<T>::Rounds(Graph&& graph, const Options& options, Buffer<Edge>&& rows)
    : graph_(std::move(graph)), options_(options), n_(graph_.n), at_(n_), perm_(n_), position_(n_), length_(n_), D_(n_) {
  workers_.resize(options.threads);
  for (Worker& worker : workers_) worker.pivot.reserve(3 * graph_.ptr[n_] / options.threads);
  const Pieces pieces(n_, options.threads);
  std::vector<int64_t> start(pieces.count + 1, 0);
  pieces.each(options.threads, [&](int64_t piece, int64_t from, int64_t to) {
    for (int64_t v = from; v < to; ++v) start[piece + 1] += capacity_for(graph_.degree(v) + ground_edges(v));
  });
  for (size_t p = 1; p < start.size(); ++p) start[p] += start[p - 1];
  at_.rows = std::move(rows);
  pieces.each(options.threads, [&](int64_t piece, int64_t from, int64_t to) {
    Edge* row = at_.rows.data() + start[piece];
    for (int64_t v = from; v < to; row += at_.vertex[v++].capacity) write_row(static_cast<int32_t>(v), row);
  });
}

template <class T>
void Rounds<T>::write_row(int32_t v, Edge* row) {
  const int32_t to_ground = ground_edges(v);
  const int64_t degree = graph_.degree(v);
  Vertex& at = at_.vertex[v];
  at = {row, 0, capacity_for(degree + to_ground), static_cast<int32_t>(degree) * options_.samples + to_ground, v, 0};
  for (int64_t p = graph_.ptr[v]; p < graph_.ptr[v + 1]; ++p) row[at.used++] = {graph_.w[p], graph_.to[p], options_.samples};
  for (int32_t c = 0; c < to_ground; ++c) row[at.used++] = {graph_.ground[v] / options_.samples, n_, 1};
  at_.key[v] = degree_bits(at.degree) | hash_key(options_.seed, static_cast<uint64_t>(number(v)), 1) >> 24;
  at_.blocker[v] = -1;
}

// ---- select -------------------------------------------------------------------------------------------------------------

// A live neighbor with a smaller key, or -1. Rows are read in pieces. A search of a long row ends after the first piece with such
// a neighbor, and leading pieces without live neighbors are removed.
template <class T>
int32_t Rounds<T>::find_blocker(int32_t u, int64_t& visits) {
  constexpr int32_t piece = 32;
  Vertex& at = at_.vertex[u];
  Blocker blocker{at_.key.data(), u};
  for (int32_t i = 0; i < at.used;) {
    const int32_t end = std::min(at.used, i + piece);
    visits += end - i;
    for (; i < end; ++i) blocker.test(at.row[i].to);
    if (blocker.found >= 0) break;
    if (blocker.alive) continue;
    at.row += end;
    at.used -= end;
    at.capacity -= end;
    i = 0;
  }
  return blocker.found;
}

template <class T>
bool Rounds<T>::is_minimum(int32_t u, int64_t& visits) {
  const int32_t blocker = at_.blocker[u];
  if (blocker >= 0 && smaller(blocker, u)) return false;        // a dead vertex has the largest key
  return (at_.blocker[u] = find_blocker(u, visits)) < 0;
}

template <class T>
void Rounds<T>::select(bool wide) {
  const Pieces pieces(at_.m, options_.threads);
  found_.resize(std::max<size_t>(found_.size(), pieces.count));
  for (Found& found : found_) found.chosen.clear();
  pieces.each(wide ? options_.threads : 1, [&](int64_t piece, int64_t from, int64_t to) {
    Found& found = found_[piece];
    found.visits += to - from;
    for (int32_t u = static_cast<int32_t>(from); u < to; ++u)
      if (at_.key[u] != dead && is_minimum(u, found.visits)) found.chosen.push_back(u);
  });
  chosen_.clear();
  for (const Found& found : found_) chosen_.insert(chosen_.end(), found.chosen.begin(), found.chosen.end());
  if (chosen_.empty()) throw std::logic_error("no vertex can be eliminated: the rounds have stalled");
}

// ---- eliminate ----------------------------------------------------------------------------------------------------------

template <class T>
template <bool shared>
void Rounds<T>::gather(int32_t v, Worker& worker) {
  const Vertex at = at_.vertex[v];
  PivotWork<T>& pivot = worker.pivot;
  pivot.begin(at.used);
  worker.visits += at.used;
  for (int32_t i = 0; i < at.used; ++i) pivot.add_if(load<shared>(at_.key[at.row[i].to]) != dead, at.row[i]);
}

template <class T>
template <bool shared>
void Rounds<T>::eliminate(int32_t v, int64_t position, int32_t id) {
  Worker& worker = workers_[id];
  PivotWork<T>& pivot = worker.pivot;
  gather<shared>(v, worker);
  const int64_t offset = pivot.entries();
  D_[position] = pivot.make_column(at_.m, graph_.floor, [&](int32_t to) { return at_.vertex[to].origin; });
  position_[position] = {offset, id};
  length_[position] = static_cast<int32_t>(pivot.entries() - offset);
  const uint64_t stream = stream_of(options_.seed, number(at_.vertex[v].origin));
  worker.lost += pivot.sample_by_neighbor(stream, options_.samples);
  const std::span<const Edge> edges = pivot.edges();
  for (size_t i = 0; i < edges.size(); ++i)
    if (edges[i].to != at_.m) join<shared>(edges[i].to, v, pivot.joining(static_cast<int64_t>(i)), edges[i].copies, worker);
  store<shared>(at_.key[v], dead);      // other threads that compact long rows may read it
}

// Adds the samples of a pivot to its neighbor u, and removes the edges to the pivot.
template <class T>
template <bool shared>
void Rounds<T>::join(int32_t u, int32_t pivot, std::span<const Edge> sampled, int32_t copies, Worker& worker) {
  Vertex& at = at_.vertex[u];
  const SpinLock<shared> lock(at.lock);
  const int32_t count = static_cast<int32_t>(sampled.size());
  worker.visits += count + 1;
  if (at.used <= short_row) filter(at, [pivot](int32_t to) { return to != pivot; });
  if (at.used + count > at.capacity) reserve<shared>(at, count, worker);
  for (int32_t i = 0; i < count; ++i) at.row[at.used + i] = sampled[i];
  at.used += count;
  at.degree += count - copies;
  store<shared>(at_.key[u], degree_bits(at.degree) | (at_.key[u] & tie_bits));
}

template <class T>
template <bool shared>
void Rounds<T>::reserve(Vertex& at, int32_t entries, Worker& worker) {
  worker.visits += at.used;
  if (at.used > short_row) filter(at, [this](int32_t to) { return load<shared>(at_.key[to]) != dead; });
  if (at.used + entries + at.used / 4 <= at.capacity) return;       // amortizes the next compaction
  const int32_t capacity = capacity_for(at.used + entries + at.used / 2);
  Edge* const row = worker.rows.allocate(capacity);                    // if it throws, the row is unchanged
  std::copy_n(at.row, at.used, row);
  store<shared>(at.row, row);
  at.capacity = capacity;
}

// Prefetches the data that the elimination of the chosen vertices reads, which is scattered in memory. Other threads may be
// moving the rows of neighbors.
template <class T>
template <bool shared>
void Rounds<T>::fetch_rows(int64_t from, int64_t to) const {
  const auto neighbors = [&](auto&& f) {
    for (int64_t i = from; i < to; ++i) {
      const Vertex& at = at_.vertex[chosen_[i]];
      for (int32_t e = 0, last = std::min(at.used, 12); e < last; ++e) f(at.row[e].to);
    }
  };
  for (int64_t i = from; i < to; ++i) fetch(&at_.vertex[chosen_[i]]);
  for (int64_t i = from; i < to; ++i) {
    const Edge* const row = at_.vertex[chosen_[i]].row;
    fetch(row);
    fetch(row + 4);
  }
  neighbors([&](int32_t u) {
    fetch_to_write(&at_.key[u]);
    fetch_to_write(at_.vertex.data() + u);
  });
  neighbors([&](int32_t u) {
    if (u == at_.m) return;
    Edge* const row = load<shared>(at_.vertex[u].row);
    fetch_to_write(row);
    fetch_to_write(row + 4);
  });
}

template <class T>
void Rounds<T>::eliminate_chosen(bool wide) {
  const int64_t count = static_cast<int64_t>(chosen_.size()), share = std::clamp<int64_t>(count / (8 * options_.threads), 1, 128);
  for_range(wide ? options_.threads : 1, count, share, [&](int64_t from, int64_t to, int worker) {
    for (int64_t i = from; i < to; ++i) {
      const int64_t next = std::min(to, i + fetched);
      if ((i - from) % fetched == 0) wide ? fetch_rows<true>(i, next) : fetch_rows<false>(i, next);
      perm_[done_ + i] = at_.vertex[chosen_[i]].origin;
      wide ? eliminate<true>(chosen_[i], done_ + i, worker) : eliminate<false>(chosen_[i], done_ + i, worker);
    }
  });
  done_ += count;
}

// ---- epochs -------------------------------------------------------------------------------------------------------------

template <class T>
void Rounds<T>::next_epoch(bool wide) {
  const int threads = wide ? options_.threads : 1;
  Epoch old(static_cast<int32_t>(n_ - done_));
  std::swap(old, at_);
  const Pieces pieces(old.m, threads);
  RawVector<int32_t> name(old.m + int64_t{1});
  std::vector<int32_t> live(pieces.count + 1, 0);
  std::vector<int64_t> start(pieces.count + 1, 0);
  pieces.each(threads, [&](int64_t piece, int64_t from, int64_t to) {
    int32_t count = 0;
    for (int64_t u = from; u < to; ++u) {
      const bool alive = old.key[u] != dead;
      name[u] = alive ? count : -1;
      count += alive;
      if (alive) start[piece + 1] += next_capacity(old.vertex[u]);
    }
    live[piece + 1] = count;
  });
  for (int64_t p = 0; p < pieces.count; ++p) {
    live[p + 1] += live[p];
    start[p + 1] += start[p];
  }
  pieces.each(threads, [&](int64_t piece, int64_t from, int64_t to) {
    for (int64_t u = from; u < to; ++u) name[u] += name[u] >= 0 ? live[piece] : 0;
  });
  name[old.m] = at_.m;
  if (spare_.size() < start.back()) spare_ = Buffer<Edge>(start.back(), threads);
  at_.rows = std::move(spare_);
  pieces.each(threads, [&](int64_t piece, int64_t from, int64_t to) {
    Edge* row = at_.rows.data() + start[piece];
    for (int64_t u = from; u < to; ++u)
      if (name[u] >= 0) {
        move_vertex(old, static_cast<int32_t>(u), name, row);
        row += at_.vertex[name[u]].capacity;
      }
  });
  spare_ = std::move(old.rows);         // for the next epoch: its pages are allocated
  for (Worker& worker : workers_) worker.rows.clear();
  workers_.front().visits += old.m + start.back();
}

template <class T>
void Rounds<T>::move_vertex(const Epoch& old, int32_t u, const RawVector<int32_t>& name, Edge* row) {
  const int32_t v = name[u];
  const Vertex& from = old.vertex[u];
  Vertex& at = at_.vertex[v];
  at = {row, 0, next_capacity(from), from.degree, from.origin, 0};
  for (int32_t i = 0; i < from.used; ++i) {
    const Edge e = from.row[i];
    if (const int32_t to = name[e.to]; to >= 0) row[at.used++] = {e.w, to, e.copies};
  }
  at_.key[v] = old.key[u];
  at_.blocker[v] = old.blocker[u] < 0 ? -1 : name[old.blocker[u]];
}

// ---- rounds -------------------------------------------------------------------------------------------------------------

template <class T>
bool Rounds<T>::choose_wide() const {
  if (options_.threads == 1) return false;
  int64_t work = 0;
  for (size_t i = 0; i < chosen_.size() && work <= parallel_work; ++i) work += at_.vertex[chosen_[i]].degree + 1;
  return work > parallel_work;
}

template <class T>
Factor<T> Rounds<T>::run() {
  int64_t rounds = 0;
  interrupt::begin(n_);
  bool wide = options_.threads > 1 && n_ > 2048;
  for (; done_ < n_; ++rounds) {
    interrupt::poll();
    select(wide);
    wide = choose_wide();
    eliminate_chosen(wide);
    interrupt::advance(static_cast<int64_t>(chosen_.size()));
    if (2 * (n_ - done_) < int64_t{at_.m}) next_epoch(wide);
  }
  Factor<T> factor = collect();
  factor.pivots.rounds = rounds;
  return factor;
}

// The columns in elimination order, with rows as positions.
template <class T>
Factor<T> Rounds<T>::collect() {
  Factor<T> out;
  trisolve::ColumnStores<T>& columns = out.columns;
  columns.ptr.resize(n_ + int64_t{1});
  columns.ptr[0] = 0;
  for (int32_t k = 0; k < n_; ++k) columns.ptr[k + 1] = columns.ptr[k] + length_[k];
  columns.name.resize(n_);
  for_range(options_.threads, n_, 1 << 15, [&](int64_t from, int64_t to, int) {
    for (int64_t k = from; k < to; ++k) {
      columns.name[perm_[k]] = static_cast<int32_t>(k);
      perm_[k] = number(perm_[k]);
    }
  });
  if (workers_.size() > 1) columns.position = std::move(position_);           // else one worker computed them in order
  for (Worker& worker : workers_) {
    columns.stores.push_back(worker.pivot.take_columns());
    out.pivots.lost += worker.lost;
    out.pivots.visits += worker.visits;
  }
  for (const Found& found : found_) out.pivots.visits += found.visits;
  out.pivots.D = std::move(D_);
  out.pivots.perm = std::move(perm_);
  return out;
}

}  // namespace

// One thread renumbers the graph while another one allocates the pages of the rows.
template <class T>
Factor<T> factor_rounds(Graph&& graph, const Options& options) {
  const bool apart = graph.origin.empty() && is_scattered(graph, near_enough, options.threads);
  Buffer<Edge> rows;
  for_range(apart ? options.threads : 1, 2, 1, [&](int64_t from, int64_t to, int) {
    for (int64_t part = from; part < to; ++part) {
      if (part == 1) rows = Buffer<Edge>(Rounds<T>::initial_capacity(graph, options.samples), options.threads);
      if (part == 0 && apart) gather_neighbors(graph);
    }
  });
  return Rounds<T>(std::move(graph), options, std::move(rows)).run();
}

template Factor<double> factor_rounds(Graph&&, const Options&);
template Factor<float> factor_rounds(Graph&&, const Options&);

}  // namespace ms::parac
