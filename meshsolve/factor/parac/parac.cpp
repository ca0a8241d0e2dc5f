// Factorization in a given order, left-looking: a pivot gathers its edges from the matrix and from the list that earlier
// pivots left for it. One thread takes the pivots in order. More threads follow the paper's Algorithm 3: a vertex is ready
// when no edge to an earlier one is left (raw copies are counted); what becomes ready goes on the stack of the thread that
// made it so, which keeps its neighbours in the cache, and threads without work are handed the old end of a busy one's stack.
// Source: Liang et al. 2025, "ParAC", Algorithms 1 and 3.
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "native/atomic.hpp"
#include "native/parallel.hpp"
#include "nodes.hpp"
#include "pivot_work.hpp"

namespace ms::parac {
namespace {

template <class T>
class Ordered {
 public:
  Ordered(const Graph& graph, const int32_t* perm, const Options& options)
      : graph_(graph), perm_(perm), options_(options), n_(graph.n), iperm_(n_), list_(n_, no_node), length_(n_), D_(n_, 0.0) {
    for (int32_t k = 0; k < n_; ++k) iperm_[perm[k]] = k;
  }

  Columns<T> run() {
    interrupt::begin(n_);
    if (options_.threads > 1 && n_ > 1000) return run_parallel();
    Worker worker(nodes_);
    for (int32_t k = 0; k < n_; ++k) {
      if (k % 1024 == 0) poll(1024);
      gather(k, worker);
      eliminate<false>(k, worker);
    }
    return whole(std::move(worker));
  }

 private:
  struct Worker {
    explicit Worker(Nodes& nodes) : nodes(nodes) {}
    PivotWork<T> pivot;
    NodeKeeper nodes;
    std::vector<int32_t> ready, gone;          // stack of pivots; neighbours of the pivot at hand, once per raw copy
    int64_t lost = 0;
  };
  struct Place {                               // of a column: worker and offset in its rows
    int64_t offset;
    int32_t worker;
  };

  static void poll(int64_t done) {
    interrupt::poll();
    interrupt::advance(done);
  }

  void gather(int32_t k, Worker& worker) {
    PivotWork<T>& pivot = worker.pivot;
    const int32_t v = perm_[k];
    pivot.begin(graph_.degree(v));
    for (int64_t p = graph_.ptr[v]; p < graph_.ptr[v + 1]; ++p) {
      const int32_t j = iperm_[graph_.to[p]];
      pivot.add_if(j > k, {graph_.w[p], j, options_.samples});
    }
    if (!graph_.ground.empty() && graph_.ground[v] > 0)
      for (int c = 0; c < options_.samples; ++c) pivot.add({graph_.ground[v] / options_.samples, n_, 1});
    for (uint32_t i = list_[k]; i != no_node;) {
      const Node& node = nodes_[i];
      const uint32_t next = node.next;
      pivot.add({node.w, node.to, 1});
      worker.nodes.give(i);
      i = next;
    }
  }

  // Column and samples of the gathered pivot. A sample (a, b), a < b, joins the list of a and is one more edge that b waits for.
  template <bool shared>
  void eliminate(int32_t k, Worker& worker) {
    PivotWork<T>& pivot = worker.pivot;
    const size_t before = pivot.rows.size();
    D_[k] = pivot.make_column(options_.samples, n_, nullptr, graph_.floor);
    length_[k] = static_cast<int32_t>(pivot.rows.size() - before);
    worker.lost += pivot.sample(stream_of(options_.seed, perm_[k]), [&](int32_t a, int32_t b, double w) {
      if (a > b) std::swap(a, b);
      const uint32_t i = worker.nodes.take(w, b);
      if constexpr (shared) {
        if (b != n_) waits_[b].fetch_add(1, std::memory_order_relaxed);
        nodes_[i].next = AtomicRef(list_[a]).exchange(i, std::memory_order_relaxed);
      } else {
        nodes_[i].next = std::exchange(list_[a], i);
      }
    });
  }

  // ---- several threads ----------------------------------------------------------------------------------------------

  void count_waits() {
    waits_ = std::vector<std::atomic<int32_t>>(n_);
    for_range(options_.threads, n_, 1 << 14, [&](int64_t from, int64_t to, int) {
      for (int64_t k = from; k < to; ++k) {
        const int32_t v = perm_[k];
        int32_t earlier = 0;
        for (int64_t p = graph_.ptr[v]; p < graph_.ptr[v + 1]; ++p) earlier += iperm_[graph_.to[p]] < k;
        waits_[k].store(earlier, std::memory_order_relaxed);
      }
    });
    for (int32_t k = 0; k < n_; ++k)
      if (waits_[k].load(std::memory_order_relaxed) == 0) starts_.push_back(k);
  }

  Columns<T> run_parallel() {
    count_waits();
    place_.resize(n_);
    std::vector<Worker> workers;
    for (int t = 0; t < options_.threads; ++t) workers.emplace_back(nodes_);
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
      place_[k] = {static_cast<int64_t>(worker.pivot.rows.size()), id};
      gather(k, worker);
      worker.gone.clear();
      for (const Edge& e : worker.pivot.edges())
        if (e.to != n_) worker.gone.push_back(e.to);
      eliminate<true>(k, worker);
      for (const int32_t j : worker.gone)      // release what was put into the lists; the last one to come sees it all
        if (waits_[j].fetch_sub(1, std::memory_order_acq_rel) == 1) worker.ready.push_back(j);
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
