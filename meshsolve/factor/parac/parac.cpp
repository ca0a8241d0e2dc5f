// Factorization in a given order, left-looking. A pivot gathers its edges from the matrix and from its list of samples of earlier
// pivots. The matrix edges to later vertices are first copied in elimination order, a block of pivots at a time, with
// prefetching: the rows are scattered in the matrix.
//
// One thread eliminates the pivots in order. Several threads split the order into ranges, and one thread sweeps over each range.
// Orders that follow an elimination tree (amd, nested dissection) list its subtrees one after the other, so most pivots of a
// range depend on no other range. Pivots that do, and their later neighbors within the range, are deferred: 1 to 3 % of the
// vertices of a mesh, 10 % of a 3-D grid. Then groups of two, four and eight ranges are swept in the same way.
//
// The remaining vertices, and all vertices of a scattered order (nnz_sort, random), follow Algorithm 3 of the paper. A vertex is
// ready when no edge to an earlier vertex is left (copies are counted separately). It goes onto the stack of the thread that made
// it ready, whose cache holds its neighbors. Idle threads get the older half of another thread's stack. If vertices have many
// neighbors, this counting costs as much as it gains: each count is in another thread's cache.
//
// Source: Liang et al. 2025, "ParAC", Algorithms 1 and 3. Cost: O(nnz + samples), and the sorts of the pivots.
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
  struct Deferred {                            // a vertex that is deferred
    int32_t k, least;                          // its position; the smallest position of its neighbors in the matrix
    int64_t start;                             // first of its edges to later vertices, in the copies of the sweeping worker
    int32_t count;                             // number of these edges
    int32_t sweep_worker, pivot_worker = 0;    // workers that sweep over it and that eliminate it
    int64_t offset = 0;                        // start of its column in the store of pivot_worker
  };
  struct Sampled {                             // a sampled edge
    double w;
    int32_t a, b;
  };
  struct alignas(cache_line) Worker {
    Worker(Nodes& nodes, int64_t entries) : nodes(nodes) { pivot.reserve(entries); }
    PivotWork<T> pivot;
    NodePool nodes;
    RawVector<int32_t> to;                     // copied edges to later vertices: of deferred vertices, then of a block of pivots
    RawVector<double> w;
    int64_t kept = 0;                          // number of copies of deferred vertices
    std::vector<Sampled> outgoing;             // samples whose earlier end is beyond the range or group
    std::vector<int32_t> ready;                // stack of deferred vertices
    int64_t lost = 0, visits = 0;
  };
  struct Range {                               // a range of the order
    int32_t worker = 0;
    int64_t offset = 0;                        // start of its columns in the worker's store, without those of deferred vertices
    std::vector<Deferred> deferred;
    size_t first_deferred = 0;                 // index of the first one in deferred_
  };
  struct Row {                                 // edges of the matrix to later vertices
    int64_t start;
    int32_t count, least;                      // number of edges; smallest position of the vertex and its neighbors
  };

  static void poll(int64_t done) {
    interrupt::poll();
    interrupt::advance(done);
  }

  // Copies the edges of the pivots [from, to), at most kBlock, to later vertices. Rows and positions are scattered in memory:
  // each step prefetches the data of the next one, and no branch waits for memory.
  void copy_block(int64_t from, int64_t to, Worker& worker, Row* rows) const {
    const int64_t count = to - from;
    std::array<int64_t, kBlock> start;
    std::array<int32_t, kBlock> length;
    for (int64_t i = 0; i < count; ++i)
      if (to + i < n_) fetch(&matrix_.ptr[perm_[to + i]]);       // for the next block
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
        name[next] = j;                        // next <= at
        w[next] = w[at];
        next += (j > k) & (w[next] != 0);
        least = std::min(least, j);
      }
      rows[i].count = static_cast<int32_t>(next - rows[i].start);
      rows[i].least = least;
    }
  }

  // Eliminates the pivots [begin, end) in order. With a `range`, pivots that depend on an earlier range or on a deferred vertex
  // are deferred.
  void sweep(int32_t begin, int32_t end, Worker& worker, Range* range) {
    std::array<Row, kBlock> rows;
    for (int32_t k = begin; k < end; ++k) {
      const int32_t i = (k - begin) % kBlock;
      if ((k - begin) % 1024 == 0) poll(range ? 0 : 1024);
      if (i == 0) copy_block(k, std::min<int64_t>(end, int64_t{k} + kBlock), worker, rows.data());
      if (range && (scattered_ || rows[i].least < begin || pending_[k] != 0)) {
        range->deferred.push_back(keep_row(k, rows[i], worker, range->worker));
        if (!scattered_) defer_later(k, worker.to.data() + range->deferred.back().start, rows[i].count, end);
        continue;
      }
      gather(k, worker.to.data() + rows[i].start, worker.w.data() + rows[i].start, rows[i].count, worker);
      eliminate_within(end, k, worker);
    }
  }

  // Eliminates pivot k. Samples whose earlier end is at or beyond `end` are kept in `outgoing`: other workers may change those
  // lists.
  void eliminate_within(int32_t end, int32_t k, Worker& worker) {
    eliminate(k, worker, [&](int32_t a, int32_t b, double w) {
      if (a < end)
        list_[a] = worker.nodes.push(list_[a], w, b);
      else
        worker.outgoing.push_back({w, a, b});
    });
  }

  Deferred keep_row(int32_t k, const Row& row, Worker& worker, int32_t id) const {
    const int64_t at = worker.kept;
    std::copy_n(worker.to.data() + row.start, row.count, worker.to.data() + at);
    std::copy_n(worker.w.data() + row.start, row.count, worker.w.data() + at);
    worker.kept += row.count;
    return {k, row.least, at, row.count, id};
  }

  // Defers the later neighbors of the deferred vertex k before `end`.
  void defer_later(int32_t k, const int32_t* to, int32_t count, int32_t end) {
    pending_[k] = 0;
    for (int32_t e = 0; e < count; ++e)
      if (to[e] < end) pending_[to[e]] = 1;
    for_samples(k, [&](int32_t b) {
      if (b < end) pending_[b] = 1;
    });
  }

  template <class F>
  void for_samples(int32_t k, F&& f) const {   // f(later end) for each edge in the list of k
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
      pivot.more(Node::capacity);
      worker.visits += node.count;
      for (int32_t e = 0; e < node.count; ++e) pivot.add_if(true, {node.w[e], node.to[e], 1});
      worker.nodes.release(i);
      i = next;
    }
  }

  // Computes column and samples of the gathered pivot. push(a, b, w) must add each sample, a < b, to the list of a.
  template <class Push>
  void eliminate(int32_t k, Worker& worker, Push&& push) {
    PivotWork<T>& pivot = worker.pivot;
    const int64_t before = pivot.entries();
    D_[k] = pivot.make_column(n_, graph_.floor, [](int32_t j) { return j; });
    length_[k] = static_cast<int32_t>(pivot.entries() - before);
    const std::span<const Edge> e = pivot.edges();
    worker.lost += pivot.sample(stream_of(options_.seed, perm_[k]), options_.samples, [&](int64_t i, int64_t j, double w) {
      push(std::min(e[i].to, e[j].to), std::max(e[i].to, e[j].to), w);
    });
  }

  // ---- several threads: ranges ---------------------------------------------------------------------------------------

  Factor<T> run_parallel() {
    grain_ = std::max<int64_t>(512, (n_ + int64_t{8} * options_.threads - 1) / (8 * options_.threads));
    scattered_ = is_scattered_order();
    pending_.resize(n_);
    ranges_.resize((n_ + grain_ - 1) / grain_);
    const int64_t edges = graph_.edges, share = std::min(3 * edges, 6 * edges / options_.threads);
    for (int t = 0; t < options_.threads; ++t) workers_.emplace_back(nodes_, share);
    for_range(options_.threads, n_, grain_, [&](int64_t from, int64_t to, int id) {
      Range& range = ranges_[from / grain_];
      range.worker = id;
      range.offset = workers_[id].pivot.entries();
      std::fill(pending_.begin() + from, pending_.begin() + to, 0);
      sweep(static_cast<int32_t>(from), static_cast<int32_t>(to), workers_[id], &range);
      interrupt::advance(to - from - static_cast<int64_t>(range.deferred.size()));
    });
    eliminate_deferred();
    return collected();
  }

  // True if more than a third of the vertices have a neighbor in an earlier range, estimated from a sample.
  bool is_scattered_order() const {
    constexpr int64_t sample_size = 512;
    const int64_t step = std::max<int64_t>(1, (n_ - grain_) / sample_size);
    int64_t sampled = 0, dependent = 0;
    for (int64_t k = grain_; k < n_; k += step, ++sampled) {
      const int32_t v = perm_[k];
      const int64_t begin = k / grain_ * grain_;
      bool depends = false;
      for (int64_t p = matrix_.ptr[v]; p < matrix_.ptr[v + 1] && !depends; ++p) depends = iperm_[matrix_.idx[p]] < begin;
      dependent += depends;
    }
    return 3 * dependent > sampled;
  }

  // ---- several threads: deferred vertices ----------------------------------------------------------------------------

  void eliminate_deferred() {
    for (Range& range : ranges_) {
      range.first_deferred = deferred_.size();
      deferred_.insert(deferred_.end(), range.deferred.begin(), range.deferred.end());
    }
    remaining_.resize(deferred_.size());
    std::iota(remaining_.begin(), remaining_.end(), 0);
    deliver_samples();
    for (int64_t span = 2 * grain_; !scattered_ && span < n_ && span <= 8 * grain_; span *= 2) sweep_groups(span);
    if (remaining_.empty()) return;
    slot_.resize(n_);
    left_ = static_cast<int32_t>(remaining_.size());
    for_range(options_.threads, left_, 1 << 12, [&](int64_t from, int64_t to, int) { count_pending(from, to); });
    for (const int32_t i : remaining_)
      if (pending_[deferred_[i].k] == 0) starts_.push_back(deferred_[i].k);
    Pool::run(options_.threads, [&](int id) {
      try {
        work(workers_[id], id);
      } catch (...) {
        stop_ = true;
        throw;
      }
    });
  }

  // Adds the outgoing samples of all workers to the lists of their earlier ends.
  void deliver_samples() {
    for_range(options_.threads, options_.threads, 1, [&](int64_t from, int64_t to, int id) {
      for (int64_t t = from; t < to; ++t) {
        for (const Sampled& s : workers_[t].outgoing) add(s.a, s.b, s.w, workers_[id]);
        workers_[t].outgoing.clear();
      }
    });
  }

  // Sweeps over groups of `span` vertices and eliminates those that depend on no other group. If a vertex has no earlier neighbor
  // outside its group in the matrix, it has none in the remaining graph either. The eliminated vertices of the group had no such
  // neighbor.
  void sweep_groups(int64_t span) {
    std::vector<std::vector<int32_t>> left((n_ + span - 1) / span);
    for_range(options_.threads, n_, span, [&](int64_t from, int64_t to, int id) {
      const auto before = [this](int32_t i, int64_t k) { return deferred_[i].k < k; };
      const auto first = std::lower_bound(remaining_.begin(), remaining_.end(), from, before);
      const auto last = std::lower_bound(first, remaining_.end(), to, before);
      int64_t done = 0;
      for (auto i = first; i < last; ++i) {
        Deferred& deferred = deferred_[*i];
        if (deferred.least < from || pending_[deferred.k] != 0) {
          defer_later(deferred.k, row_of(deferred), deferred.count, static_cast<int32_t>(to));
          left[from / span].push_back(*i);
          continue;
        }
        gather_deferred(deferred, id);
        eliminate_within(static_cast<int32_t>(to), deferred.k, workers_[id]);
        if (++done % 1024 == 0) poll(1024);
      }
    });
    remaining_.clear();
    for (const std::vector<int32_t>& some : left) remaining_.insert(remaining_.end(), some.begin(), some.end());
    deliver_samples();
  }

  void count_pending(int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const Deferred& deferred = deferred_[remaining_[i]];
      slot_[deferred.k] = remaining_[i];
      for (int32_t e = 0; e < deferred.count; ++e)
        AtomicRef(pending_[row_of(deferred)[e]]).fetch_add(options_.samples, std::memory_order_relaxed);
      for_samples(deferred.k, [&](int32_t b) {
        if (b != n_) AtomicRef(pending_[b]).fetch_add(1, std::memory_order_relaxed);
      });
    }
  }

  const int32_t* row_of(const Deferred& deferred) const { return workers_[deferred.sweep_worker].to.data() + deferred.start; }

  void gather_deferred(Deferred& deferred, int id) {
    deferred.pivot_worker = id;
    deferred.offset = workers_[id].pivot.entries();
    gather(deferred.k, row_of(deferred), workers_[deferred.sweep_worker].w.data() + deferred.start, deferred.count, workers_[id]);
  }

  void add(int32_t a, int32_t b, double w, Worker& worker) {
    SpinLock<true> list(list_[a]);
    list.value = worker.nodes.push(list.value, w, b);
  }

  void work(Worker& worker, int id) {
    int64_t done = 0;
    for (int32_t k; (k = next_pivot(worker)) >= 0;) {
      gather_deferred(deferred_[slot_[k]], id);
      eliminate(k, worker, [&](int32_t a, int32_t b, double w) {      // b depends on one more edge
        if (b != n_) AtomicRef(pending_[b]).fetch_add(1, std::memory_order_relaxed);
        add(a, b, w, worker);
      });
      for (const Edge& e : worker.pivot.edges())      // the last decrement makes all list changes visible
        if (e.to != n_ && AtomicRef(pending_[e.to]).fetch_add(-e.copies, std::memory_order_acq_rel) == e.copies)
          worker.ready.push_back(e.to);
      left_.fetch_sub(1, std::memory_order_acq_rel);
      if (stop_.load(std::memory_order_relaxed)) return;          // another thread has thrown an exception
      if (idle_.load(std::memory_order_relaxed) > 0 && worker.ready.size() > 1) share(worker);
      if (++done % 1024 == 0) poll(1024);
    }
  }

  // The next pivot: from the worker's stack, else from the vertices that were ready at the start, else from another worker. -1:
  // all done.
  int32_t next_pivot(Worker& worker) {
    if (worker.ready.empty()) {
      constexpr size_t grain = 64;
      const size_t from = started_.load(std::memory_order_relaxed) < starts_.size() ? started_.fetch_add(grain) : starts_.size();
      for (size_t i = std::min(from + grain, starts_.size()); i > from; --i) worker.ready.push_back(starts_[i - 1]);
    }
    if (worker.ready.empty() && !receive(worker)) return -1;
    if (worker.ready.size() <= 16)        // near the end most vertices depend on the first one
      std::iter_swap(std::ranges::min_element(worker.ready), worker.ready.end() - 1);
    const int32_t k = worker.ready.back();
    worker.ready.pop_back();
    return k;
  }

  // Offers the older half of the stack to idle workers.
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
      if (offered_.load(std::memory_order_relaxed)) {            // else leave the lock to workers that share
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
    if (workers_.size() > 1) find_columns(columns.position);
    for (Worker& worker : workers_) {
      columns.stores.push_back(worker.pivot.take_columns());
      out.pivots.lost += worker.lost;
      out.pivots.visits += worker.visits + worker.pivot.entries();
    }
    out.pivots.D = std::move(D_);
    out.pivots.perm.assign(perm_, perm_ + n_);
    return out;
  }

  // Locations of the columns. The columns of a range are consecutive, except those of deferred vertices.
  void find_columns(RawVector<trisolve::Location>& position) const {
    position.resize(n_);
    for_range(options_.threads, n_, grain_, [&](int64_t from, int64_t to, int) {
      const Range& range = ranges_[from / grain_];
      const Deferred *deferred = deferred_.data() + range.first_deferred, *const end = deferred + range.deferred.size();
      int64_t offset = range.offset;
      for (int64_t k = from; k < to; ++k) {
        if (deferred < end && deferred->k == k) {
          position[k] = {deferred->offset, deferred->pivot_worker};
          ++deferred;
        } else {
          position[k] = {offset, range.worker};
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
  RawVector<uint32_t> list_;            // (n) first node of each pivot's list of samples
  RawVector<int32_t> length_;           // (n) length of each column
  RawVector<double> D_;
  Nodes nodes_;

  std::vector<Worker> workers_;
  std::vector<Range> ranges_;
  int64_t grain_ = 0;                            // vertices per range
  bool scattered_ = false;                       // all vertices are deferred
  RawVector<int32_t> pending_;                   // (n) copies of edges to earlier deferred vertices; during sweeps 1 if deferred
  std::vector<Deferred> deferred_;               // of all ranges, in order
  std::vector<int32_t> remaining_;               // indices of those that are not eliminated
  RawVector<int32_t> slot_;                      // (n) index of a deferred vertex in deferred_
  std::vector<int32_t> starts_;                  // deferred vertices that are ready at the start
  std::atomic<size_t> started_{0};
  std::atomic<int32_t> left_{0}, idle_{0};
  std::atomic<bool> stop_{false}, offered_{false};       // offered_: shared_ is not empty
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
