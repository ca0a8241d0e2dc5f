// Factorization in a given order, left-looking: a pivot gathers its edges from the matrix and from the list that earlier
// pivots left for it. The edges to later vertices are copied in the order of elimination first, a block of pivots at a time: that
// fetches together what lies scattered in the matrix, and the pivots find their rows one after the other.
// One thread takes the pivots in order. More threads follow the paper's Algorithm 3: a vertex is ready
// when no edge to an earlier one is left (raw copies are counted); what becomes ready goes on the stack of the thread that
// made it so, which keeps its neighbours in the cache, and threads without work are handed the old end of a busy one's stack.
// Source: Liang et al. 2025, "ParAC", Algorithms 1 and 3.
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "lists.hpp"
#include "native/parallel.hpp"
#include "pivot_work.hpp"

namespace ms::parac {
namespace {

template <class T>
class Ordered {
 public:
  Ordered(const Graph& graph, const int32_t* perm, const Options& options)
      : graph_(graph), perm_(perm), options_(options), n_(graph.n), iperm_(n_), list_(n_, no_node), length_(n_),
        D_(n_, 0.0) {
    for (int32_t k = 0; k < n_; ++k) iperm_[perm[k]] = k;
  }

  Columns<T> run() {
    interrupt::begin(n_);
    const bool parallel = options_.threads > 1 && n_ > 1000;
    if (parallel) return run_parallel();
    row_.resize(block);
    Worker worker(nodes_);
    worker.pivot.reserve(3 * graph_.ptr[n_]);
    for (int32_t k = 0; k < n_; ++k) {
      if (k % 1024 == 0) poll(1024);
      if (k % block == 0) {                    // the rows of the next pivots, one after the other in the cache
        const int32_t end = std::min(n_, k + block);
        make_room(edges_of(k, end));
        copy_block(k, end, 0, row_.data());
      }
      gather(k, row_[k % block], worker);
      eliminate<false>(k, worker);
    }
    return whole(std::move(worker));
  }

 private:
  struct Worker {
    explicit Worker(Nodes& nodes) : nodes(nodes) {}
    PivotWork<T> pivot;
    NodeKeeper nodes;
    std::vector<int32_t> ready;                // stack of pivots
    int64_t lost = 0;
  };
  struct Place {                               // of a column: worker and offset in its rows
    int64_t offset;
    int32_t worker;
  };
  struct Row {                                 // edges of the matrix to later vertices
    int64_t start;
    int32_t count;
  };

  static constexpr int32_t block = 32;         // pivots whose rows are copied together

  static void poll(int64_t done) {
    interrupt::poll();
    interrupt::advance(done);
  }

  // Writes the edges of the pivots [from, to), at most `block`, to later vertices. Their rows lie anywhere in the matrix and
  // so do the positions of their neighbours: each step asks for all that the next one reads, and no branch waits for memory.
  void copy_block(int64_t from, int64_t to, int64_t next, Row* rows) {
    int32_t* const name = to_.get();
    double* const w = w_.get();
    const int64_t count = to - from;
    std::array<int64_t, block> start;
    std::array<int32_t, block> length;
    for (int64_t i = 0; i < count; ++i)
      if (to + i < n_) __builtin_prefetch(&graph_.ptr[perm_[to + i]]);        // of the next block
    for (int64_t i = 0; i < count; ++i) {
      const int32_t v = perm_[from + i];
      start[i] = graph_.ptr[v];
      length[i] = static_cast<int32_t>(graph_.degree(v));
      __builtin_prefetch(graph_.to.data() + start[i]);
      __builtin_prefetch(graph_.w.data() + start[i]);
      __builtin_prefetch(graph_.w.data() + start[i] + length[i]);
    }
    int64_t at = next;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t p = start[i]; p < start[i] + length[i]; ++p, ++at) {
        name[at] = graph_.to[p];
        w[at] = graph_.w[p];
        __builtin_prefetch(&iperm_[name[at]]);
      }
    at = next;
    for (int64_t i = 0; i < count; ++i) {
      Row& row = rows[i];
      row.start = next;
      for (int32_t e = 0; e < length[i]; ++e, ++at) {
        const int32_t j = iperm_[name[at]];
        name[next] = j;                        // never behind what was read
        w[next] = w[at];
        next += j > from + i;
      }
      row.count = static_cast<int32_t>(next - row.start);
    }
  }

  int64_t edges_of(int64_t from, int64_t to) const {
    int64_t edges = 0;
    for (int64_t k = from; k < to; ++k) edges += graph_.degree(perm_[k]);
    return edges;
  }

  // All rows, for several threads. Those of each piece have more room than they take: for their earlier vertices too.
  void copy_rows() {
    constexpr int64_t grain = 1 << 14;
    std::vector<int64_t> base(n_ / grain + 2, 0);
    for_range(options_.threads, n_, grain, [&](int64_t from, int64_t to, int) { base[from / grain + 1] = edges_of(from, to); });
    for (size_t i = 1; i < base.size(); ++i) base[i] += base[i - 1];
    make_room(graph_.ptr[n_]);
    row_.resize(n_);
    for_range(options_.threads, n_, grain, [&](int64_t from, int64_t to, int) {
      int64_t next = base[from / grain];
      for (int64_t k = from; k < to; k += block) {
        const int64_t end = std::min(to, k + block);
        copy_block(k, end, next, row_.data() + k);
        next = row_[end - 1].start + row_[end - 1].count;
      }
    });
  }

  void make_room(int64_t edges) {
    if (edges <= room_) return;
    room_ = edges;
    to_.reset(new int32_t[edges]);
    w_.reset(new double[edges]);
  }

  void gather(int32_t k, const Row& row, Worker& worker) {
    PivotWork<T>& pivot = worker.pivot;
    pivot.begin(row.count + options_.samples);
    for (int64_t p = row.start; p < row.start + row.count; ++p) pivot.add_if(true, {w_[p], to_[p], options_.samples});
    if (!graph_.ground.empty() && graph_.ground[perm_[k]] > 0)
      for (int c = 0; c < options_.samples; ++c) pivot.add_if(true, {graph_.ground[perm_[k]] / options_.samples, n_, 1});
    for (uint32_t i = list_[k]; i != no_node;) {
      const Node& node = nodes_[i];
      const uint32_t next = node.next;
      pivot.more(Node::room);
      for (int32_t e = 0; e < node.count; ++e) pivot.add_if(true, {node.w[e], node.to[e], 1});
      worker.nodes.give(i);
      i = next;
    }
  }

  // Column and samples of the gathered pivot. A sample (a, b), a < b, joins the list of a and is one more edge that b waits for.
  template <bool shared>
  void eliminate(int32_t k, Worker& worker) {
    PivotWork<T>& pivot = worker.pivot;
    const int64_t before = pivot.entries();
    D_[k] = pivot.make_column(n_, graph_.floor, [](int32_t j) { return j; });
    length_[k] = static_cast<int32_t>(pivot.entries() - before);
    const std::span<const Edge> e = pivot.edges();
    worker.lost += pivot.sample(stream_of(options_.seed, perm_[k]), options_.samples, [&](int64_t i, int64_t j, double w) {
      const int32_t a = std::min(e[i].to, e[j].to), b = std::max(e[i].to, e[j].to);
      if (shared && b != n_) waits_[b].fetch_add(1, std::memory_order_relaxed);
      release<shared>(list_[a], worker.nodes.put(hold<shared>(list_[a]), w, b));
    });
  }

  // ---- several threads ----------------------------------------------------------------------------------------------

  void count_waits() {
    waits_ = std::vector<std::atomic<int32_t>>(n_);
    for (int32_t k = 0; k < n_; ++k) {
      const int32_t earlier = static_cast<int32_t>(graph_.degree(perm_[k])) - row_[k].count;
      waits_[k].store(earlier * options_.samples, std::memory_order_relaxed);
      if (earlier == 0) starts_.push_back(k);
    }
  }

  Columns<T> run_parallel() {
    copy_rows();
    count_waits();
    place_.resize(n_);
    std::vector<Worker> workers;
    for (int t = 0; t < options_.threads; ++t) {
      workers.emplace_back(nodes_);
      workers.back().pivot.reserve(3 * graph_.ptr[n_] / options_.threads);
    }
    Pool::run(options_.threads, [&](int id) {
      try {
        work(workers[id], id);
      } catch (...) {
        stop_ = true;
        throw;
      }
    });
    return joined(workers);
  }

  void work(Worker& worker, int id) {
    int64_t done = 0;
    for (int32_t k; (k = next_pivot(worker)) >= 0;) {
      place_[k] = {worker.pivot.entries(), id};
      gather(k, row_[k], worker);
      eliminate<true>(k, worker);
      for (const Edge& e : worker.pivot.edges())      // the last one to come sees all that was put into the lists
        if (e.to != n_ && waits_[e.to].fetch_sub(e.copies, std::memory_order_acq_rel) == e.copies) worker.ready.push_back(e.to);
      left_.fetch_sub(1, std::memory_order_acq_rel);
      if (idle_.load(std::memory_order_relaxed) > 0 && worker.ready.size() > 8) share(worker);
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
  }

  bool receive(Worker& worker) {
    idle_.fetch_add(1);
    bool got = false;
    while (!got && left_.load(std::memory_order_acquire) > 0 && !stop_.load(std::memory_order_relaxed)) {
      {
        const std::lock_guard<std::mutex> lock(shared_lock_);
        worker.ready.swap(shared_);
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

  Columns<T> frame() {
    Columns<T> out;
    out.ptr.resize(n_ + int64_t{1});
    for (int32_t k = 0; k < n_; ++k) out.ptr[k + 1] = out.ptr[k] + length_[k];
    out.D = std::move(D_);
    out.perm.assign(perm_, perm_ + n_);
    return out;
  }

  Columns<T> whole(Worker&& worker) {
    Columns<T> out = frame();
    worker.pivot.finish();
    out.rows = std::move(worker.pivot.rows);
    out.values = std::move(worker.pivot.values);
    out.lost = worker.lost;
    return out;
  }

  Columns<T> joined(const std::vector<Worker>& workers) {
    Columns<T> out = frame();
    out.rows.resize(out.ptr[n_]);
    out.values.resize(out.ptr[n_]);
    for_range(options_.threads, n_, 1 << 14, [&](int64_t from, int64_t to, int) {
      for (int64_t k = from; k < to; ++k) {
        const PivotWork<T>& made = workers[place_[k].worker].pivot;
        std::copy_n(made.rows.data() + place_[k].offset, length_[k], out.rows.data() + out.ptr[k]);
        std::copy_n(made.values.data() + place_[k].offset, length_[k], out.values.data() + out.ptr[k]);
      }
    });
    for (const Worker& worker : workers) out.lost += worker.lost;
    return out;
  }

  const Graph& graph_;
  const int32_t* perm_;
  const Options options_;
  const int32_t n_;
  std::vector<int32_t> iperm_;          // (n)
  std::vector<uint32_t> list_;          // (n) samples left for each pivot
  std::vector<Row> row_;                // (n), on one thread those of a block
  std::unique_ptr<int32_t[]> to_;       // (room_) of all rows, on one thread of a block
  std::unique_ptr<double[]> w_;
  int64_t room_ = 0;
  std::vector<int32_t> length_;         // (n) of the columns
  std::vector<double> D_;
  Nodes nodes_;

  std::vector<std::atomic<int32_t>> waits_;      // (n) copies of edges to earlier vertices that are not eliminated
  std::vector<int32_t> starts_;                  // vertices that wait for nothing
  std::vector<Place> place_;
  std::atomic<size_t> started_{0};
  std::atomic<int32_t> left_{n_}, idle_{0};
  std::atomic<bool> stop_{false};
  std::mutex shared_lock_;
  std::vector<int32_t> shared_;
};

}  // namespace

template <class T>
Columns<T> factor_ordered(const Graph& graph, const int32_t* perm, const Options& options) {
  return Ordered<T>(graph, perm, options).run();
}

template Columns<double> factor_ordered(const Graph&, const int32_t*, const Options&);
template Columns<float> factor_ordered(const Graph&, const int32_t*, const Options&);

}  // namespace ms::parac
