// Factorization in a given order, left-looking: a pivot gathers its edges from the matrix and from the list that earlier
// pivots left for it. The edges to later vertices are copied in the order of elimination first, a block of pivots at a time: that
// fetches together what lies scattered in the matrix, and the pivots find their rows one after the other.
// One thread takes the pivots in order. More threads cut the order into ranges, and one thread sweeps over a range as over the
// whole order: orders that follow an elimination tree (amd, nested dissection) have its subtrees one after the other, so that
// most pivots of a range need none of another. Those that do, and what follows them within the range, are put off: 1 to 3 % of the
// vertices of a mesh, a tenth of a 3D grid's. Groups of two, four and eight ranges are swept in the same way, until there are as
// many as threads. What waits then, and all vertices of an order that jumps about (nnz_sort, random), follows the paper's
// Algorithm 3: a vertex is ready when no edge to an earlier one is left (raw copies are counted); what becomes ready goes on the
// stack of the thread that made it so, which keeps its neighbours in the cache, and threads without work are handed the old end of
// a busy one's stack. Counting costs as much as it gains where vertices have many neighbours: each is another thread's cache line.
// Source: Liang et al. 2025, "ParAC", Algorithms 1 and 3.
#include <array>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "lists.hpp"
#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "pivot_work.hpp"

namespace ms::parac {
namespace {

constexpr int32_t block = 32;            // pivots whose rows are copied together

template <class T>
class Ordered {
 public:
  Ordered(const Graph& graph, const int32_t* perm, const Options& options)
      : graph_(graph), matrix_(graph.matrix), perm_(perm), options_(options), n_(graph.n), iperm_(n_), list_(n_), length_(n_), D_(n_) {
    for_range(options.threads, n_, 1 << 15, [&](int64_t from, int64_t to, int) {
      for (int64_t k = from; k < to; ++k) iperm_[perm[k]] = static_cast<int32_t>(k);
      std::fill(list_.begin() + from, list_.begin() + to, no_node);
    });
  }

  Factor<T> run() {
    interrupt::begin(n_);
    if (options_.threads > 1 && n_ > 1000) return run_parallel();
    workers_.emplace_back(nodes_, 3 * graph_.edges);
    sweep(0, n_, workers_[0], nullptr);
    return collected();
  }

 private:
  struct Late {                                // a vertex that is put off
    int32_t k, least;                          // its place in the order; that of its first neighbour in the matrix
    int64_t start;                             // of its edges to later vertices in the copies of the worker that swept it
    int32_t count;                             // of these
    int32_t sweeper, maker = 0;                // workers: that one, and the one that eliminates it
    int64_t offset = 0;                        // of its column in the maker's store
  };
  struct Sampled {                             // an edge of a vertex of another range
    double w;
    int32_t a, b;
  };
  struct alignas(cache_line) Worker {
    Worker(Nodes& nodes, int64_t entries) : nodes(nodes) { pivot.reserve(entries); }
    PivotWork<T> pivot;
    NodeKeeper nodes;
    RawVector<int32_t> to;                     // copies of edges to later vertices: of late vertices, then of a block of pivots
    RawVector<double> w;
    int64_t kept = 0;                          // those of the late ones
    std::vector<Sampled> away;
    std::vector<int32_t> ready;                // stack of late vertices
    int64_t lost = 0, visits = 0;
  };
  struct Range {                               // of the order, and what its sweep left
    int32_t worker = 0;
    int64_t offset = 0;                        // of its columns in the worker's store, but for those of its late vertices
    std::vector<Late> late;
    size_t first_late = 0;                     // of these in late_
  };
  struct Row {                                 // edges of the matrix to later vertices
    int64_t start;
    int32_t count, least;                      // their number; the place of the first neighbour, or of the vertex itself
  };

  static void poll(int64_t done) {
    interrupt::poll();
    interrupt::advance(done);
  }

  // Writes the edges of the pivots [from, to), at most `block`, to later vertices. Their rows lie
  // anywhere in the matrix and so do the positions of their neighbours: each step asks for all that the next one reads, and no
  // branch waits for memory.
  void copy_block(int64_t from, int64_t to, Worker& worker, Row* rows) const {
    const int64_t count = to - from;
    std::array<int64_t, block> start;
    std::array<int32_t, block> length;
    for (int64_t i = 0; i < count; ++i)
      if (to + i < n_) fetch(&matrix_.ptr[perm_[to + i]]);       // of the next block
    int64_t entries = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t v = perm_[from + i];
      start[i] = matrix_.ptr[v];
      entries += length[i] = static_cast<int32_t>(matrix_.degree(v));
      fetch(matrix_.idx + start[i]);
      fetch(graph_.entries + start[i]);
      fetch(graph_.entries + start[i] + length[i]);
    }
    worker.visits += entries;
    if (worker.kept + entries > static_cast<int64_t>(worker.to.size())) {
      worker.to.resize(worker.kept + 2 * entries);
      worker.w.resize(worker.kept + 2 * entries);
    }
    int32_t* const name = worker.to.data();
    double* const w = worker.w.data();
    int64_t at = worker.kept;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t p = start[i]; p < start[i] + length[i]; ++p, ++at) {
        name[at] = matrix_.idx[p];
        w[at] = -graph_.entries[p];
        fetch(&iperm_[name[at]]);
      }
    at = worker.kept;
    int64_t next = at;
    for (int64_t i = 0; i < count; ++i) {
      rows[i].start = next;
      const int32_t k = static_cast<int32_t>(from + i);
      int32_t least = k;
      for (int32_t e = 0; e < length[i]; ++e, ++at) {
        const int32_t j = iperm_[name[at]];
        name[next] = j;                        // never behind what was read
        w[next] = w[at];
        next += (j > k) & (w[next] != 0);
        least = std::min(least, j);
      }
      rows[i].count = static_cast<int32_t>(next - rows[i].start);
      rows[i].least = least;
    }
  }

  // The pivots [begin, end) in order. In a range of several, those that need one of another, or one that is put off, are put off.
  void sweep(int32_t begin, int32_t end, Worker& worker, Range* range) {
    std::array<Row, block> rows;
    for (int32_t k = begin; k < end; ++k) {
      const int32_t i = (k - begin) % block;
      if ((k - begin) % 1024 == 0) poll(range ? 0 : 1024);
      if (i == 0) copy_block(k, std::min<int64_t>(end, int64_t{k} + block), worker, rows.data());
      if (range && (scattered_ || rows[i].least < begin || waits_[k] != 0)) {
        range->late.push_back(keep_row(k, rows[i], worker, range->worker));
        if (!scattered_) mark_later(k, worker.to.data() + range->late.back().start, rows[i].count, end);
        continue;
      }
      gather(k, worker.to.data() + rows[i].start, worker.w.data() + rows[i].start, rows[i].count, worker);
      eliminate_within(end, k, worker);
    }
  }

  // Samples for later vertices than those before `end` belong to other workers.
  void eliminate_within(int32_t end, int32_t k, Worker& worker) {
    eliminate(k, worker, [&](int32_t a, int32_t b, double w) {
      if (a < end)
        list_[a] = worker.nodes.put(list_[a], w, b);
      else
        worker.away.push_back({w, a, b});
    });
  }

  Late keep_row(int32_t k, const Row& row, Worker& worker, int32_t id) const {
    const int64_t at = worker.kept;
    std::copy_n(worker.to.data() + row.start, row.count, worker.to.data() + at);
    std::copy_n(worker.w.data() + row.start, row.count, worker.w.data() + at);
    worker.kept += row.count;
    return {k, row.least, at, row.count, id};
  }

  // The vertex k is put off, and so are its neighbours between it and `end`.
  void mark_later(int32_t k, const int32_t* to, int32_t count, int32_t end) {
    waits_[k] = 0;
    for (int32_t e = 0; e < count; ++e)
      if (to[e] < end) waits_[to[e]] = 1;
    for_samples(k, [&](int32_t b) {
      if (b < end) waits_[b] = 1;
    });
  }

  template <class F>
  void for_samples(int32_t k, F&& f) const {   // f(later end) of the edges in the list of k
    for (uint32_t i = list_[k]; i != no_node; i = nodes_[i].next)
      for (int32_t e = 0; e < nodes_[i].count; ++e) f(nodes_[i].to[e]);
  }

  void gather(int32_t k, const int32_t* to, const double* w, int32_t count, Worker& worker) {
    PivotWork<T>& pivot = worker.pivot;
    pivot.begin(count + options_.samples);
    worker.visits += count;
    for (int32_t e = 0; e < count; ++e) pivot.add_if(true, {w[e], to[e], options_.samples});
    if (!graph_.ground.empty() && graph_.ground[perm_[k]] > 0)
      for (int c = 0; c < options_.samples; ++c) pivot.add_if(true, {graph_.ground[perm_[k]] / options_.samples, n_, 1});
    for (uint32_t i = list_[k]; i != no_node;) {
      const Node& node = nodes_[i];
      const uint32_t next = node.next;
      pivot.more(Node::room);
      worker.visits += node.count;
      for (int32_t e = 0; e < node.count; ++e) pivot.add_if(true, {node.w[e], node.to[e], 1});
      worker.nodes.give(i);
      i = next;
    }
  }

  // Column and samples of the gathered pivot: put(a, b, w) for each sample, a < b, which belongs into the list of a.
  template <class Put>
  void eliminate(int32_t k, Worker& worker, Put&& put) {
    PivotWork<T>& pivot = worker.pivot;
    const int64_t before = pivot.entries();
    D_[k] = pivot.make_column(n_, graph_.floor, [](int32_t j) { return j; });
    length_[k] = static_cast<int32_t>(pivot.entries() - before);
    const std::span<const Edge> e = pivot.edges();
    worker.lost += pivot.sample(stream_of(options_.seed, perm_[k]), options_.samples, [&](int64_t i, int64_t j, double w) {
      put(std::min(e[i].to, e[j].to), std::max(e[i].to, e[j].to), w);
    });
  }

  // ---- several threads: the ranges -----------------------------------------------------------------------------------

  Factor<T> run_parallel() {
    grain_ = std::max<int64_t>(512, (n_ + int64_t{8} * options_.threads - 1) / (8 * options_.threads));
    scattered_ = jumps_about();
    waits_.resize(n_);
    ranges_.resize((n_ + grain_ - 1) / grain_);
    const int64_t edges = graph_.edges, share = std::min(3 * edges, 6 * edges / options_.threads);
    for (int t = 0; t < options_.threads; ++t) workers_.emplace_back(nodes_, share);
    for_range(options_.threads, n_, grain_, [&](int64_t from, int64_t to, int id) {
      Range& range = ranges_[from / grain_];
      range.worker = id;
      range.offset = workers_[id].pivot.entries();
      std::fill(waits_.begin() + from, waits_.begin() + to, 0);
      sweep(static_cast<int32_t>(from), static_cast<int32_t>(to), workers_[id], &range);
      interrupt::advance(to - from - static_cast<int64_t>(range.late.size()));
    });
    eliminate_late();
    return collected();
  }

  // Whether most vertices have a neighbour in an earlier range, as a few of them tell.
  bool jumps_about() const {
    constexpr int64_t looks = 512;
    const int64_t step = std::max<int64_t>(1, (n_ - grain_) / looks);
    int64_t looked = 0, needy = 0;
    for (int64_t k = grain_; k < n_; k += step, ++looked) {
      const int32_t v = perm_[k];
      const int64_t begin = k / grain_ * grain_;
      bool needs = false;
      for (int64_t p = matrix_.ptr[v]; p < matrix_.ptr[v + 1] && !needs; ++p) needs = iperm_[matrix_.idx[p]] < begin;
      needy += needs;
    }
    return 3 * needy > looked;
  }

  // ---- several threads: the late vertices ----------------------------------------------------------------------------

  void eliminate_late() {
    for (Range& range : ranges_) {
      range.first_late = late_.size();
      late_.insert(late_.end(), range.late.begin(), range.late.end());
    }
    waiting_.resize(late_.size());
    std::iota(waiting_.begin(), waiting_.end(), 0);
    bring_home();
    for (int64_t span = 2 * grain_; !scattered_ && span < n_ && span <= 8 * grain_; span *= 2) sweep_groups(span);
    if (waiting_.empty()) return;
    slot_.resize(n_);
    left_ = static_cast<int32_t>(waiting_.size());
    for_range(options_.threads, left_, 1 << 12, [&](int64_t from, int64_t to, int) { count_waits(from, to); });
    for (const int32_t i : waiting_)
      if (waits_[late_[i].k] == 0) starts_.push_back(late_[i].k);
    Pool::run(options_.threads, [&](int id) {
      try {
        work(workers_[id], id);
      } catch (...) {
        stop_ = true;
        throw;
      }
    });
  }

  // Puts the samples that belong to other workers' vertices into their lists.
  void bring_home() {
    for_range(options_.threads, options_.threads, 1, [&](int64_t from, int64_t to, int id) {
      for (int64_t t = from; t < to; ++t) {
        for (const Sampled& s : workers_[t].away) add(s.a, s.b, s.w, workers_[id]);
        workers_[t].away.clear();
      }
    });
  }

  // Sweeps over groups of `span` vertices: what waits for no other group is eliminated. Who has no earlier neighbour outside in the
  // matrix has none in the graph that is left, as vertices inside are eliminated after such neighbours of theirs alone.
  void sweep_groups(int64_t span) {
    std::vector<std::vector<int32_t>> left((n_ + span - 1) / span);
    for_range(options_.threads, n_, span, [&](int64_t from, int64_t to, int id) {
      const auto before = [this](int32_t i, int64_t k) { return late_[i].k < k; };
      const auto first = std::lower_bound(waiting_.begin(), waiting_.end(), from, before);
      const auto last = std::lower_bound(first, waiting_.end(), to, before);
      int64_t done = 0;
      for (auto i = first; i < last; ++i) {
        Late& late = late_[*i];
        if (late.least < from || waits_[late.k] != 0) {
          mark_later(late.k, row_of(late), late.count, static_cast<int32_t>(to));
          left[from / span].push_back(*i);
          continue;
        }
        gather_late(late, id);
        eliminate_within(static_cast<int32_t>(to), late.k, workers_[id]);
        if (++done % 1024 == 0) poll(1024);
      }
    });
    waiting_.clear();
    for (const std::vector<int32_t>& some : left) waiting_.insert(waiting_.end(), some.begin(), some.end());
    bring_home();
  }

  void count_waits(int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const Late& late = late_[waiting_[i]];
      slot_[late.k] = waiting_[i];
      for (int32_t e = 0; e < late.count; ++e) AtomicRef(waits_[row_of(late)[e]]).fetch_add(options_.samples, std::memory_order_relaxed);
      for_samples(late.k, [&](int32_t b) {
        if (b != n_) AtomicRef(waits_[b]).fetch_add(1, std::memory_order_relaxed);
      });
    }
  }

  const int32_t* row_of(const Late& late) const { return workers_[late.sweeper].to.data() + late.start; }

  void gather_late(Late& late, int id) {
    late.maker = id;
    late.offset = workers_[id].pivot.entries();
    gather(late.k, row_of(late), workers_[late.sweeper].w.data() + late.start, late.count, workers_[id]);
  }

  void add(int32_t a, int32_t b, double w, Worker& worker) {
    Hold<true> list(list_[a]);
    list.value = worker.nodes.put(list.value, w, b);
  }

  void work(Worker& worker, int id) {
    int64_t done = 0;
    for (int32_t k; (k = next_pivot(worker)) >= 0;) {
      gather_late(late_[slot_[k]], id);
      eliminate(k, worker, [&](int32_t a, int32_t b, double w) {      // one more edge that b waits for
        if (b != n_) AtomicRef(waits_[b]).fetch_add(1, std::memory_order_relaxed);
        add(a, b, w, worker);
      });
      for (const Edge& e : worker.pivot.edges())      // the last one to come sees all that was put into the lists
        if (e.to != n_ && AtomicRef(waits_[e.to]).fetch_add(-e.copies, std::memory_order_acq_rel) == e.copies)
          worker.ready.push_back(e.to);
      left_.fetch_sub(1, std::memory_order_acq_rel);
      if (stop_.load(std::memory_order_relaxed)) return;          // what another thread threw is on its way
      if (idle_.load(std::memory_order_relaxed) > 0 && worker.ready.size() > 1) share(worker);
      if (++done % 1024 == 0) poll(1024);
    }
  }

  // From the own stack, else from the vertices that were ready at the start, else what others share; -1 when all is done.
  int32_t next_pivot(Worker& worker) {
    if (worker.ready.empty()) {
      constexpr size_t grain = 64;
      const size_t from = started_.load(std::memory_order_relaxed) < starts_.size() ? started_.fetch_add(grain) : starts_.size();
      for (size_t i = std::min(from + grain, starts_.size()); i > from; --i) worker.ready.push_back(starts_[i - 1]);
    }
    if (worker.ready.empty() && !receive(worker)) return -1;
    if (worker.ready.size() <= 16)        // the end of the order, where others wait: the first there is waited for by most
      std::iter_swap(std::ranges::min_element(worker.ready), worker.ready.end() - 1);
    const int32_t k = worker.ready.back();
    worker.ready.pop_back();
    return k;
  }

  // The older half of a stack, for whoever is idle.
  void share(Worker& worker) {
    const std::unique_lock<std::mutex> lock(shared_lock_, std::try_to_lock);
    if (!lock || !shared_.empty()) return;
    const auto half = worker.ready.begin() + static_cast<std::ptrdiff_t>(worker.ready.size() / 2);
    shared_.assign(worker.ready.begin(), half);
    worker.ready.erase(worker.ready.begin(), half);
    offered_.store(true, std::memory_order_relaxed);
  }

  bool receive(Worker& worker) {
    idle_.fetch_add(1);
    bool got = false;
    while (!got && left_.load(std::memory_order_acquire) > 0 && !stop_.load(std::memory_order_relaxed)) {
      if (offered_.load(std::memory_order_relaxed)) {            // else the lock stays free for who would share
        const std::lock_guard<std::mutex> lock(shared_lock_);
        worker.ready.swap(shared_);
        offered_.store(false, std::memory_order_relaxed);
        got = !worker.ready.empty();
      }
      if (!got) {
        interrupt::poll();
        std::this_thread::yield();
      }
    }
    idle_.fetch_sub(1);
    return got;
  }

  // ---- the factor ----------------------------------------------------------------------------------------------------

  Factor<T> collected() {
    Factor<T> out;
    trisolve::ColumnStores<T>& columns = out.columns;
    columns.ptr.resize(n_ + int64_t{1});
    columns.ptr[0] = 0;
    for (int32_t k = 0; k < n_; ++k) columns.ptr[k + 1] = columns.ptr[k] + length_[k];
    if (workers_.size() > 1) find_columns(columns.place);
    for (Worker& worker : workers_) {
      columns.stores.push_back(worker.pivot.take_columns());
      out.pivots.lost += worker.lost;
      out.pivots.visits += worker.visits + worker.pivot.entries();
    }
    out.pivots.D = std::move(D_);
    out.pivots.perm.assign(perm_, perm_ + n_);
    return out;
  }

  // Where the columns are: those of a range one after the other, but for the late ones.
  void find_columns(RawVector<trisolve::Place>& place) const {
    place.resize(n_);
    for_range(options_.threads, n_, grain_, [&](int64_t from, int64_t to, int) {
      const Range& range = ranges_[from / grain_];
      const Late *late = late_.data() + range.first_late, *const end = late + range.late.size();
      int64_t offset = range.offset;
      for (int64_t k = from; k < to; ++k) {
        if (late < end && late->k == k) {
          place[k] = {late->offset, late->maker};
          ++late;
        } else {
          place[k] = {offset, range.worker};
          offset += length_[k];
        }
      }
    });
  }

  const Graph& graph_;
  const Pattern matrix_;
  const int32_t* perm_;
  const Options options_;
  const int32_t n_;
  RawVector<int32_t> iperm_;            // (n)
  RawVector<uint32_t> list_;            // (n) samples left for each pivot
  RawVector<int32_t> length_;           // (n) of the columns
  RawVector<double> D_;
  Nodes nodes_;

  std::vector<Worker> workers_;
  std::vector<Range> ranges_;
  int64_t grain_ = 0;                            // vertices in a range
  bool scattered_ = false;                       // no range is swept: all vertices are late
  RawVector<int32_t> waits_;                     // (n) copies of edges to earlier late vertices; in a sweep: 1 where it is late
  std::vector<Late> late_;                       // of all ranges, in order
  std::vector<int32_t> waiting_;                 // those that are not eliminated yet
  RawVector<int32_t> slot_;                      // (n) of a late vertex: where it is in late_
  std::vector<int32_t> starts_;                  // late vertices that wait for nothing
  std::atomic<size_t> started_{0};
  std::atomic<int32_t> left_{0}, idle_{0};
  std::atomic<bool> stop_{false}, offered_{false};       // offered_: something is shared
  std::mutex shared_lock_;
  std::vector<int32_t> shared_;
};

}  // namespace

template <class T>
Factor<T> factor_ordered(const Graph& graph, const int32_t* perm, const Options& options) {
  return Ordered<T>(graph, perm, options).run();
}

template Factor<double> factor_ordered(const Graph&, const int32_t*, const Options&);
template Factor<float> factor_ordered(const Graph&, const int32_t*, const Options&);

}  // namespace ms::parac
