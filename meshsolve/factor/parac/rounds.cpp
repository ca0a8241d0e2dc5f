// The round-synchronous dynamic order: each round eliminates every vertex whose key (number of edges now, hash, number) is
// smaller than those of all its live neighbours. These form an independent set, so nothing depends on the schedule, no
// ordering has to be found first, and rounds are level sets of G.
// Every other vertex watches one neighbour with a smaller key, its blocker, and is looked at again only when the blocker is
// eliminated or its key grows: about O(1) looks per vertex and change. A round has three steps, each parallel in itself:
//   select     candidates without a smaller neighbour are chosen, the rest find a new blocker
//   eliminate  columns of the chosen; their samples join the lists of both ends
//   refresh    new keys of all neighbours; the watchers of those whose key grew become candidates
// Sampled edges are kept in lists at both ends; entries of dead neighbours are taken out when they are met. Once a third of
// the vertices is gone, the graph that is left is written anew, rows and vertices close together (an epoch): the work stays
// in ever smaller memory. Vertices have numbers of the epoch in the order of their first numbers; the ground comes last.
#include <atomic>
#include <bit>
#include <stdexcept>
#include <utility>

#include "native/atomic.hpp"
#include "native/buffer.hpp"
#include "native/parallel.hpp"
#include "nodes.hpp"
#include "pivot_work.hpp"

namespace ms::parac {
namespace {

constexpr uint64_t dead = ~uint64_t{0}, never = dead - 1;       // keys of eliminated vertices and of the ground
constexpr int64_t parallel_work = 4000;                         // edges in a round from which threads pay

class Bits {                            // a set of vertices, visited in ascending order
 public:
  explicit Bits(int32_t n) : words_((static_cast<int64_t>(n) + 63) / 64, 0) {}
  int64_t words() const { return static_cast<int64_t>(words_.size()); }
  template <bool shared> void insert(int32_t v) {
    uint64_t& word = words_[v >> 6];
    const uint64_t bit = uint64_t{1} << (v & 63);
    if constexpr (shared)
      AtomicRef(word).fetch_or(bit, std::memory_order_relaxed);
    else
      word |= bit;
  }
  bool contains(int32_t v) const { return words_[v >> 6] >> (v & 63) & 1; }
  // Takes out and visits the members in words [from, to).
  template <class F> void drain(int64_t from, int64_t to, F&& f) {
    for (int64_t i = from; i < to; ++i)
      for (uint64_t word = std::exchange(words_[i], 0); word; word &= word - 1)
        f(static_cast<int32_t>(i * 64 + std::countr_zero(word)));
  }

 private:
  std::vector<uint64_t> words_;
};

template <bool shared, class V> V exchange(V& x, V value) {
  if constexpr (shared) return AtomicRef(x).exchange(value, std::memory_order_relaxed);
  return std::exchange(x, value);
}

template <bool shared> void add(int32_t& x, int32_t value) {
  if constexpr (shared)
    AtomicRef(x).fetch_add(value, std::memory_order_relaxed);
  else
    x += value;
}

inline int32_t neighbour(int32_t to) { return to < 0 ? ~to : to; }

template <class T>
class Rounds {
 public:
  Rounds(Graph&& graph, const Options& options);
  Columns<T> run();

 private:
  struct Ends {
    uint32_t sampled = no_node;         // list of edges sampled in this epoch
    int32_t degree = 0;                 // copies of edges
  };
  struct Watch {
    int32_t watchers = -1;              // first of those that watch this vertex
    int32_t next = -1;                  // next of those that watch the same vertex as this one
    int32_t blocker = 0;                // the neighbour watched; ~neighbour once that one has let go
  };
  struct Worker {
    PivotWork<T> pivot;
    NodeKeeper nodes;
    int64_t lost = 0;
  };
  struct Place {                        // of a column: worker, offset and length in its rows
    int64_t offset;
    int32_t length, worker;
  };
  struct Epoch {                        // the graph that is left, m vertices
    explicit Epoch(int32_t m)
        : m(m), origin(m), ends(m), watch(m), length(m), ptr(m + int64_t{1}, 0), key(m + int64_t{1}, never), candidates(m), touched(m) {}
    int32_t m;
    std::vector<int32_t> origin;        // (m) number in the matrix
    std::vector<Ends> ends;             // (m)
    std::vector<Watch> watch;           // (m)
    std::vector<int32_t> length;        // (m) entries of each row
    std::vector<int64_t> ptr;           // (m + 1) first entry of each row; moves on where that one is dead
    const int32_t* to = nullptr;        // neighbours of edges of the matrix, ~neighbours of sampled ones
    const double* w = nullptr;
    Buffer<int32_t> own_to;
    Buffer<double> own_w;
    std::vector<uint64_t> key;          // (m + 1)
    Bits candidates, touched;
  };

  bool smaller(int32_t a, int32_t b) const { return at_.key[a] < at_.key[b] || (at_.key[a] == at_.key[b] && a < b); }
  void tie_to_ground(int32_t v);
  uint64_t key_of(int32_t v) const;
  int32_t find_blocker(int32_t u);
  template <bool shared> bool is_minimum(int32_t u);
  template <bool shared> void watch(int32_t u, int32_t v);
  template <bool shared> void wake_watchers(int32_t v);
  template <bool shared> void eliminate(int32_t v, Place& place, int32_t worker);
  template <bool shared> void refresh(int32_t v);
  template <class F> void over_words(Bits& set, bool wide, F&& f);
  void select(bool wide);
  void eliminate_chosen(bool wide);
  void refresh_touched(bool wide);
  void next_epoch();
  void move_vertex(const Epoch& old, int32_t u, const std::vector<int32_t>& name);
  Columns<T> collect();

  const Graph graph_;                   // the first epoch works on its rows
  const Options options_;
  const int32_t n_;
  Nodes nodes_;
  std::vector<Worker> workers_;
  Epoch at_;
  std::vector<int32_t> chosen_;         // of this round, ascending
  std::vector<std::vector<int32_t>> found_;      // the same by pieces
  std::vector<int32_t> perm_;
  std::vector<Place> place_;            // (n) by position
  std::vector<double> D_;
};

template <class T>
Rounds<T>::Rounds(Graph&& graph, const Options& options)
    : graph_(std::move(graph)), options_(options), n_(graph_.n), at_(n_), place_(n_), D_(n_, 0.0) {
  for (int t = 0; t < options.threads; ++t) workers_.push_back({{}, NodeKeeper(nodes_)});
  perm_.reserve(n_);
  at_.to = graph_.to.data();
  at_.w = graph_.w.data();
  at_.ptr = graph_.ptr;
  for (int32_t v = 0; v < n_; ++v) {
    at_.origin[v] = v;
    at_.length[v] = static_cast<int32_t>(graph_.degree(v));
    at_.ends[v].degree = at_.length[v] * options.samples;
    at_.watch[v].blocker = ~n_;
    if (!graph_.ground.empty() && graph_.ground[v] > 0) tie_to_ground(v);
    at_.key[v] = key_of(v);
    at_.candidates.template insert<false>(v);
  }
}

template <class T>
void Rounds<T>::tie_to_ground(int32_t v) {
  for (int c = 0; c < options_.samples; ++c) {
    const uint32_t i = workers_[0].nodes.take(graph_.ground[v] / options_.samples, n_);
    nodes_[i].next = std::exchange(at_.ends[v].sampled, i);
  }
  at_.ends[v].degree += options_.samples;
}

template <class T>
uint64_t Rounds<T>::key_of(int32_t v) const {
  const uint64_t degree = std::min<uint64_t>(static_cast<uint64_t>(at_.ends[v].degree), (1u << 23) - 1);
  return degree << 40 | hash_key(options_.seed, static_cast<uint64_t>(at_.origin[v]), 1) >> 24;
}

// Any live neighbour with a smaller key, or -1.
template <class T>
int32_t Rounds<T>::find_blocker(int32_t u) {
  int64_t& first = at_.ptr[u];
  for (; at_.length[u] > 0 && at_.key[neighbour(at_.to[first])] == dead; --at_.length[u]) ++first;
  for (int64_t p = first; p < first + at_.length[u]; ++p) {
    const int32_t v = neighbour(at_.to[p]);
    if (at_.key[v] != dead && smaller(v, u)) return v;
  }
  for (uint32_t* link = &at_.ends[u].sampled; *link != no_node;) {
    Node& node = nodes_[*link];
    if (at_.key[node.to] == dead)
      *link = node.next;
    else if (smaller(node.to, u))
      return node.to;
    else
      link = &node.next;
  }
  return -1;
}

template <class T>
template <bool shared>
bool Rounds<T>::is_minimum(int32_t u) {
  const int32_t blocker = at_.watch[u].blocker;
  if (blocker >= 0) {                                   // on its list still
    if (smaller(blocker, u)) return false;
    if (find_blocker(u) < 0) return true;
    at_.candidates.template insert<false>(u);           // looked at in every round until that list is woken
    return false;
  }
  const int32_t v = smaller(~blocker, u) ? ~blocker : find_blocker(u);
  if (v < 0) return true;
  watch<shared>(u, v);
  return false;
}

template <class T>
template <bool shared>
void Rounds<T>::watch(int32_t u, int32_t v) {
  at_.watch[u].blocker = v;
  at_.watch[u].next = exchange<shared>(at_.watch[v].watchers, u);
}

template <class T>
template <bool shared>
void Rounds<T>::wake_watchers(int32_t v) {
  for (int32_t u = std::exchange(at_.watch[v].watchers, -1); u >= 0; u = at_.watch[u].next) {
    at_.watch[u].blocker = ~v;
    at_.candidates.template insert<shared>(u);
  }
}

template <class T>
template <bool shared>
void Rounds<T>::eliminate(int32_t v, Place& place, int32_t id) {
  Worker& worker = workers_[id];
  PivotWork<T>& pivot = worker.pivot;
  pivot.begin(at_.length[v]);
  for (int64_t p = at_.ptr[v]; p < at_.ptr[v] + at_.length[v]; ++p) {
    const int32_t to = neighbour(at_.to[p]);
    pivot.add_if(at_.key[to] != dead, {at_.w[p], to, at_.to[p] < 0 ? 1 : options_.samples});
  }
  for (uint32_t i = at_.ends[v].sampled; i != no_node; i = nodes_[i].next)
    if (at_.key[nodes_[i].to] != dead) pivot.add({nodes_[i].w, nodes_[i].to, 1});
  for (const Edge& e : pivot.edges())
    if (e.to != at_.m) {
      add<shared>(at_.ends[e.to].degree, -e.copies);
      at_.touched.template insert<shared>(e.to);
    }
  place.offset = static_cast<int64_t>(pivot.rows.size());
  place.worker = id;
  D_[&place - place_.data()] = pivot.make_column(options_.samples, at_.m, at_.origin.data(), graph_.floor);
  place.length = static_cast<int32_t>(static_cast<int64_t>(pivot.rows.size()) - place.offset);
  const auto join = [&](int32_t a, int32_t b, double w) {
    if (a == at_.m) return;
    const uint32_t i = worker.nodes.take(w, b);
    nodes_[i].next = exchange<shared>(at_.ends[a].sampled, i);
    add<shared>(at_.ends[a].degree, 1);
  };
  worker.lost += pivot.sample(stream_of(options_.seed, at_.origin[v]), [&](int32_t a, int32_t b, double w) {
    join(a, b, w);
    join(b, a, w);
  });
  at_.key[v] = dead;
  wake_watchers<shared>(v);
}

template <class T>
template <bool shared>
void Rounds<T>::refresh(int32_t v) {
  const uint64_t key = key_of(v);
  if (key > at_.key[v]) wake_watchers<shared>(v);
  if (key < at_.key[v]) at_.candidates.template insert<shared>(v);
  at_.key[v] = key;
}

// ---- epochs -------------------------------------------------------------------------------------------------------------

template <class T>
void Rounds<T>::next_epoch() {
  Epoch old(static_cast<int32_t>(n_ - static_cast<int64_t>(perm_.size())));
  std::swap(old, at_);
  std::vector<int32_t> name(old.m + int64_t{1}, -1), live;
  live.reserve(at_.m);
  for (int32_t u = 0; u < old.m; ++u)
    if (old.key[u] != dead) {
      const int32_t v = name[u] = static_cast<int32_t>(live.size());
      live.push_back(u);
      at_.ptr[v + 1] = at_.ptr[v] + old.ends[u].degree;
    }
  name[old.m] = at_.m;
  at_.own_to = Buffer<int32_t>(at_.ptr[at_.m]);
  at_.own_w = Buffer<double>(at_.ptr[at_.m]);
  at_.to = at_.own_to.data();
  at_.w = at_.own_w.data();
  for_range(at_.m > 20'000 ? options_.threads : 1, at_.m, 1 << 12, [&](int64_t from, int64_t to, int) {
    for (int64_t v = from; v < to; ++v) move_vertex(old, live[v], name);
  });
  nodes_.clear();
  for (Worker& worker : workers_) worker.nodes = NodeKeeper(nodes_);
  for (int32_t v = 0; v < at_.m; ++v) {
    if (old.candidates.contains(live[v])) at_.candidates.template insert<false>(v);
    if (at_.watch[v].blocker >= 0) watch<false>(v, at_.watch[v].blocker);
  }
}

template <class T>
void Rounds<T>::move_vertex(const Epoch& old, int32_t u, const std::vector<int32_t>& name) {
  const int32_t v = name[u], blocker = old.watch[u].blocker;
  int64_t next = at_.ptr[v];
  const auto put = [&](int32_t to, double w) {
    at_.own_to.data()[next] = to;
    at_.own_w.data()[next++] = w;
  };
  for (int64_t p = old.ptr[u]; p < old.ptr[u] + old.length[u]; ++p)
    if (const int32_t to = name[neighbour(old.to[p])]; to >= 0) put(old.to[p] < 0 ? ~to : to, old.w[p]);
  for (uint32_t i = old.ends[u].sampled; i != no_node; i = nodes_[i].next)
    if (const int32_t to = name[nodes_[i].to]; to >= 0) put(~to, nodes_[i].w);
  at_.length[v] = static_cast<int32_t>(next - at_.ptr[v]);
  at_.origin[v] = old.origin[u];
  at_.key[v] = old.key[u];
  at_.ends[v].degree = old.ends[u].degree;
  const int32_t watched = name[blocker < 0 ? ~blocker : blocker];
  at_.watch[v].blocker = blocker >= 0 ? watched : watched < 0 ? ~at_.m : ~watched;
}

// ---- rounds -------------------------------------------------------------------------------------------------------------

// f(from, to, piece, worker) over the words of a set, in pieces that depend on its size alone.
template <class T>
template <class F>
void Rounds<T>::over_words(Bits& set, bool wide, F&& f) {
  constexpr int64_t grain = 256;
  if (wide)
    for_range(options_.threads, set.words(), grain, [&](int64_t from, int64_t to, int worker) {
      for (int64_t at = from; at < to; at += grain) f(at, std::min(to, at + grain), at / grain, worker);
    });
  else
    f(int64_t{0}, set.words(), int64_t{0}, 0);
}

template <class T>
void Rounds<T>::select(bool wide) {
  found_.resize(at_.candidates.words() / 256 + 1);
  for (std::vector<int32_t>& piece : found_) piece.clear();
  over_words(at_.candidates, wide, [&](int64_t from, int64_t to, int64_t piece, int) {
    at_.candidates.drain(from, to, [&](int32_t u) {
      if (at_.key[u] == dead) return;
      const bool minimum = wide ? is_minimum<true>(u) : is_minimum<false>(u);
      if (minimum) found_[piece].push_back(u);
    });
  });
  chosen_.clear();
  for (const std::vector<int32_t>& piece : found_) chosen_.insert(chosen_.end(), piece.begin(), piece.end());
  if (chosen_.empty()) throw std::logic_error("no vertex can be eliminated: the rounds have stalled");
}

template <class T>
void Rounds<T>::eliminate_chosen(bool wide) {
  Place* const place = place_.data() + perm_.size();
  for (const int32_t v : chosen_) perm_.push_back(at_.origin[v]);
  const int64_t count = static_cast<int64_t>(chosen_.size());
  if (wide)
    for_range(options_.threads, count, 128, [&](int64_t from, int64_t to, int worker) {
      for (int64_t i = from; i < to; ++i) eliminate<true>(chosen_[i], place[i], worker);
    });
  else
    for (int64_t i = 0; i < count; ++i) eliminate<false>(chosen_[i], place[i], 0);
}

template <class T>
void Rounds<T>::refresh_touched(bool wide) {
  over_words(at_.touched, wide, [&](int64_t from, int64_t to, int64_t, int) {
    at_.touched.drain(from, to, [&](int32_t v) { wide ? refresh<true>(v) : refresh<false>(v); });
  });
}

template <class T>
Columns<T> Rounds<T>::run() {
  int64_t rounds = 0;
  interrupt::begin(n_);
  bool wide = options_.threads > 1 && n_ > 2048;
  for (; static_cast<int32_t>(perm_.size()) < n_; ++rounds) {
    interrupt::poll();
    select(wide);
    int64_t work = 0;
    for (const int32_t v : chosen_) work += at_.ends[v].degree + 1;
    wide = options_.threads > 1 && work > parallel_work;
    eliminate_chosen(wide);
    refresh_touched(wide);
    interrupt::advance(static_cast<int64_t>(chosen_.size()));
    const int64_t left = n_ - static_cast<int64_t>(perm_.size());
    if (3 * left < 2 * int64_t{at_.m}) next_epoch();
  }
  Columns<T> columns = collect();
  columns.rounds = rounds;
  return columns;
}

// Columns in the order of elimination, rows as positions.
template <class T>
Columns<T> Rounds<T>::collect() {
  Columns<T> out;
  std::vector<int32_t> position(n_);
  out.ptr.resize(n_ + int64_t{1});
  for (int32_t k = 0; k < n_; ++k) {
    position[perm_[k]] = k;
    out.ptr[k + 1] = out.ptr[k] + place_[k].length;
  }
  out.rows.resize(out.ptr[n_]);
  out.values.resize(out.ptr[n_]);
  for_range(options_.threads, n_, 1 << 14, [&](int64_t from, int64_t to, int) {
    for (int64_t k = from; k < to; ++k) {
      const PivotWork<T>& made = workers_[place_[k].worker].pivot;
      for (int32_t i = 0; i < place_[k].length; ++i) {
        out.rows[out.ptr[k] + i] = position[made.rows[place_[k].offset + i]];
        out.values[out.ptr[k] + i] = made.values[place_[k].offset + i];
      }
    }
  });
  for (const Worker& worker : workers_) out.lost += worker.lost;
  out.D = std::move(D_);
  out.perm = std::move(perm_);
  return out;
}

}  // namespace

template <class T>
Columns<T> factor_rounds(Graph&& graph, const Options& options) {
  return Rounds<T>(std::move(graph), options).run();
}

template Columns<double> factor_rounds(Graph&&, const Options&);
template Columns<float> factor_rounds(Graph&&, const Options&);

}  // namespace ms::parac
