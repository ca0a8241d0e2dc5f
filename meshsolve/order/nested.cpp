// Nested dissection on small patches. The graph is divided into patches, and the weighted quotient graph of the patches is
// bisected recursively. Each edge cut becomes a minimum vertex separator of the graph within a band around it. Parts of a few
// hundred vertices are ordered by minimum degree with halo.
// Source: patches and quotient graph: Changcheng Yuan's thesis (2024) and Homa (arXiv 2602.00898). Edge weights, band and halo
// are added.
// Cost: per node proportional to its patches and its band, not to its vertices; 0.4 to 0.8 us per vertex on meshes. The random
// numbers of a subtree are keyed by its path in the tree, and it only changes its own vertices (members.hpp). So the result does
// not depend on the number of threads.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>

#include "coarsen.hpp"
#include "estimate.hpp"
#include "leaf.hpp"
#include "members.hpp"
#include "native/threads/interrupt.hpp"
#include "native/threads/parallel.hpp"
#include "native/threads/trace.hpp"
#include "native/rng.hpp"
#include "order.hpp"
#include "prepass.hpp"
#include "quotient.hpp"
#include "separator.hpp"
#include "subpatch.hpp"

namespace ms::order {
namespace {

constexpr int64_t kMostEntries = INT32_MAX; // largest nnz: positions in quotient graphs and bands are 32-bit
constexpr double kLargestSeparator = 0.3;   // share of its node above which a separator is useless
constexpr int64_t kLopsided = 8;            // smaller side >= weight / 8 if the depth of the tree is bounded
constexpr int64_t kSharedSubtree = 3000;    // vertices from which another thread may work on a subtree
constexpr int64_t kSharedNode = 40000;      // vertices from which idle threads help with one separator

int patch_size(const Pattern& G, const Options& options) {
  return has_many_neighbors(G) ? std::max(16, options.patch_size / kFiner) : options.patch_size;
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Node {
  Quotient q;
  int64_t weight;
  int32_t begin;                            // its vertices get the positions [begin, begin + weight)
  uint64_t path;                            // key of its random numbers
  bool has_halo;
  int32_t after = -1;                       // in a trace: the task that has made it
};

struct Worker;

// Part of the work at one node that an idle thread can run.
struct Task {
  std::function<void(Worker&)> run;
  std::exception_ptr error;
  bool started = false, done = false;       // by another thread
};

// Nodes and tasks that wait for a thread. pop() returns false when all work is done or has failed.
class Queue {
 public:
  void add(Node&& node) {
    std::lock_guard<std::mutex> lock(mutex_);
    nodes_.push_back(std::move(node));
    ++open_;
    changed_.notify_one();
  }
  // Waits for a node or a task; tasks come first, then the heaviest node.
  bool pop(Node& node, Task*& task) {
    std::unique_lock<std::mutex> lock(mutex_);
    wait_polling(changed_, lock, [&] { return !nodes_.empty() || !tasks_.empty() || open_ == 0 || failed_; });
    task = nullptr;
    if (!tasks_.empty()) {
      task = tasks_.back();
      tasks_.pop_back();
      task->started = true;
      return true;
    }
    if (failed_ || nodes_.empty()) return false;
    const auto lighter = [](const Node& a, const Node& b) { return a.weight < b.weight; };
    const auto heaviest = std::max_element(nodes_.begin(), nodes_.end(), lighter);
    std::swap(*heaviest, nodes_.back());
    node = std::move(nodes_.back());
    nodes_.pop_back();
    return true;
  }
  void finish_node() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (--open_ == 0) changed_.notify_all();
  }
  void push(Task& task) {
    std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(&task);
    changed_.notify_one();
  }
  bool withdraw(Task& task) {           // false: another thread has started it
    std::lock_guard<std::mutex> lock(mutex_);
    std::erase(tasks_, &task);
    return !task.started;
  }
  void finish(Task& task) {
    std::lock_guard<std::mutex> lock(mutex_);
    task.done = true;
    finished_.notify_all();
  }
  void wait_for(const Task& task) {     // also after an error: the task uses the caller's stack
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.wait(lock, [&] { return task.done; });
  }
  void cancel() {
    std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_, finished_;
  std::vector<Node> nodes_;
  std::vector<Task*> tasks_;
  int64_t open_ = 0;                        // nodes that are queued or being dissected
  bool failed_ = false;
};

struct Worker {                             // state of one thread
  Worker(Members& m, Sides& more, const Options& o) : finder(m, m.sides, o), second_finder(m, more, o), leaf(m, o.bounded) {}
  Bisector bisector;
  SeparatorFinder finder, second_finder;    // the second one runs while another thread uses its first one at the same node
  LeafOrder leaf;
  std::vector<Node> stack;                  // nodes below kSharedSubtree
  std::vector<TreeNode> nodes;
  Separator best, other, second;
  struct Trial { double score; std::vector<uint8_t> side; };
  std::vector<Trial> trials;
};

class Dissection {
 public:
  Dissection(SubPatches& patches, const Options& options, std::vector<int32_t>& perm)
      : members_(patches), old_(patches.old), options_(options), perm_(perm),
        balances_patches_(has_many_neighbors(members_.graph)), trace_(options.threads), more_sides_(shares(members_.graph.n) ? members_.graph.n : 0, members_.start.size()) {}
  std::vector<TreeNode> run(Quotient&& whole);

 private:
  void work(Worker& w);
  void run_task(Worker& w, Task& task);
  void dissect(Worker& w, Node&& node);
  bool split_components(Worker& w, Node& node);
  bool find_separator(Worker& w, const Node& node, std::vector<uint8_t>& patch_side);
  void find_two(Worker& w, const Node& node);
  void bisect(Worker& w, const Node& node);
  void score_trial(Worker& w, const Node& node, int k, Worker::Trial& trial) const;
  bool shares(int64_t weight) const { return options_.threads > 1 && weight >= kSharedNode; }
  template <class Own>
  void run_parallel(Worker& w, std::vector<Task>& tasks, Own&& own);
  template <class Own>
  void record_parallel(Worker& w, std::vector<Task>& tasks, Own&& own);
  void begin_task(const std::vector<int32_t>& needed);
  void split(Worker& w, Node&& node, const std::vector<uint8_t>& patch_side);
  using Edge = std::pair<int32_t, int32_t>;
  std::vector<Edge> reassign(const Separator& s, Quotient& q, const std::vector<uint8_t>& patch_side);
  int32_t adjacent_patch(int32_t v, uint8_t side, const Quotient& q) const;
  void order_leaf(Worker& w, const Node& node);
  void push(Worker& w, Node&& node);

  Members members_;
  const RawVector<int32_t>& old_;
  const Options& options_;
  std::vector<int32_t>& perm_;
  const bool balances_patches_;             // moved vertices join the lightest adjacent patch
  std::vector<int32_t> index_;              // index of each patch in the quotient graph of its node
  trace::Recorded trace_;
  Sides more_sides_;                        // scratch of second searches at one node
  Queue queue_;
};

std::vector<TreeNode> Dissection::run(Quotient&& whole) {
  const int32_t n = members_.graph.n;
  index_.resize(whole.n());
  interrupt::begin(n);
  queue_.add({std::move(whole), n, 0, options_.seed, false});
  std::vector<std::vector<TreeNode>> nodes(std::max(1, options_.threads));
  Pool::run(options_.threads, [&](int thread) {
    Worker w(members_, more_sides_, options_);
    try {
      work(w);
    } catch (...) {
      queue_.cancel();
      throw;
    }
    nodes[thread] = std::move(w.nodes);
  });
  std::vector<TreeNode> all;
  for (const auto& s : nodes) all.insert(all.end(), s.begin(), s.end());
  return all;
}

void Dissection::work(Worker& w) {
  Node node;
  for (Task* task; queue_.pop(node, task);) {
    if (task) {
      run_task(w, *task);
      continue;
    }
    if (trace_) begin_task({node.after});
    dissect(w, std::move(node));
    while (!w.stack.empty()) {
      node = std::move(w.stack.back());
      w.stack.pop_back();
      dissect(w, std::move(node));
    }
    if (trace_) trace_.end_task();
    queue_.finish_node();
  }
}

void Dissection::run_task(Worker& w, Task& task) {
  try {
    task.run(w);
  } catch (...) {
    task.error = std::current_exception();
  }
  queue_.finish(task);
}

// Offers the tasks to idle threads, runs own(), then runs the tasks that no thread has started. Waits for all of them.
template <class Own>
void Dissection::run_parallel(Worker& w, std::vector<Task>& tasks, Own&& own) {
  if (trace_) return record_parallel(w, tasks, own);
  std::exception_ptr error;
  try {
    for (Task& task : tasks) queue_.push(task);
    own();
  } catch (...) {
    error = std::current_exception();
  }
  for (Task& task : tasks) {
    if (!queue_.withdraw(task))
      queue_.wait_for(task);
    else if (!error)
      run_task(w, task);
    if (!error) error = task.error;
  }
  if (error) std::rethrow_exception(error);
}

void Dissection::begin_task(const std::vector<int32_t>& needed) {
  trace_.begin_task();
  for (const int32_t t : needed)
    if (t >= 0) trace_.needs(t);
}

// Records them as tasks of their own between two parts of the current one.
template <class Own>
void Dissection::record_parallel(Worker& w, std::vector<Task>& tasks, Own&& own) {
  trace_.end_task();
  const int32_t before = trace_.current();
  std::vector<int32_t> all;
  for (size_t k = 0; k <= tasks.size(); ++k) {
    begin_task({before});
    if (k < tasks.size())
      tasks[k].run(w);
    else
      own();
    trace_.end_task();
    all.push_back(trace_.current());
  }
  begin_task(all);
}

void Dissection::push(Worker& w, Node&& node) {
  if (node.weight == 0) return;
  if (trace_) node.after = trace_.current();
  if (options_.threads > 1 && node.weight >= kSharedSubtree)
    queue_.add(std::move(node));
  else
    w.stack.push_back(std::move(node));
}

void Dissection::dissect(Worker& w, Node&& node) {
  interrupt::poll();
  const bool small = !node.has_halo && node.weight < kSmall;
  if (small || node.weight <= std::max<int64_t>(options_.leaf_size, options_.stop) || node.q.n() <= 2) return order_leaf(w, node);
  if (split_components(w, node)) return;
  std::vector<uint8_t> patch_side;
  if (!find_separator(w, node, patch_side)) return order_leaf(w, node);
  split(w, std::move(node), patch_side);
}

// ---- parts of a quotient graph (quotient.hpp)

// Splits a node into its connected components, which need no separator. Small ones share a part, up to the size of a leaf.
// Returns false if there is only one part.
bool Dissection::split_components(Worker& w, Node& node) {
  std::vector<int32_t> label;
  const std::vector<int64_t> weight = components(node.q, label);
  if (weight.size() == 1) return false;
  std::vector<int32_t> by_weight(weight.size()), group(weight.size());
  std::iota(by_weight.begin(), by_weight.end(), 0);
  std::stable_sort(by_weight.begin(), by_weight.end(), [&](int32_t a, int32_t b) { return weight[a] > weight[b]; });
  int32_t groups = 0;
  int64_t filled = options_.leaf_size;
  for (const int32_t c : by_weight) {
    if (filled + weight[c] > options_.leaf_size) ++groups, filled = 0;
    filled += weight[c];
    group[c] = groups - 1;
  }
  if (groups == 1) return false;
  for (int32_t& l : label) l = group[l];
  std::vector<Quotient> out = parts(node.q, label, groups, {});
  int32_t begin = node.begin;
  for (int32_t g = 0; g < groups; ++g) {
    const int64_t part = weight_of(out[g]);
    push(w, {std::move(out[g]), part, begin, hash_key(node.path, 2, g), node.has_halo});
    begin += static_cast<int32_t>(part);
  }
  return true;
}

// ---- one separator

// w.best = the best of the separators from the best bisections. Returns false if none is useful.
bool Dissection::find_separator(Worker& w, const Node& node, std::vector<uint8_t>& patch_side) {
  bisect(w, node);
  const size_t candidates = std::min<size_t>(effort(options_, node.weight).candidates, w.trials.size());
  const bool two = candidates > 1 && shares(node.weight);
  if (two) find_two(w, node);
  w.best.score = -1;
  for (size_t k = 0; k < candidates; ++k) {
    const double to_beat = w.best.score < 0 ? std::numeric_limits<double>::infinity() : w.best.score;
    Separator& found = two && k == 1 ? w.second : w.other;
    if (!two || k > 1) w.finder.find(node.q, w.trials[k].side, to_beat, found);
    const bool empty_side = std::max(found.weight[0], found.weight[1]) == node.weight;
    if (found.score < 0 || empty_side || found.score >= to_beat || SeparatorFinder::stays_behind(found, to_beat)) continue;
    std::swap(w.best, found);
    patch_side = w.trials[k].side;
  }
  if (w.best.score < 0 || static_cast<double>(w.best.size) > kLargestSeparator * static_cast<double>(node.weight)) return false;
  return !options_.bounded || std::min(w.best.weight[0], w.best.weight[1]) >= node.weight / kLopsided;
}

// The separators of the two best bisections, in parallel: w.other and w.second.
void Dissection::find_two(Worker& w, const Node& node) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<Task> tasks(1);
  tasks[0].run = [&](Worker& any) { any.second_finder.find(node.q, w.trials[1].side, infinity, w.second); };
  run_parallel(w, tasks, [&] { w.finder.find(node.q, w.trials[0].side, infinity, w.other); });
}

void Dissection::score_trial(Worker& w, const Node& node, int k, Worker::Trial& trial) const {
  const int64_t cut = w.bisector.bisect(node.q, options_.balance, Stream(hash_key(node.path, 3, k)), trial.side);
  int64_t left = 0;
  for (int32_t i = 0; i < node.q.n(); ++i) left += trial.side[i] ? 0 : node.q.vertex_weight[i];
  trial.score = separator_score(cut, std::max(left, node.weight - left), node.weight);
}

// w.trials = bisections of the quotient graph, best first.
void Dissection::bisect(Worker& w, const Node& node) {
  const int trials = effort(options_, node.weight).trials;
  w.trials.resize(trials);
  std::vector<Task> tasks(shares(node.weight) ? trials - 1 : 0);
  for (size_t k = 0; k < tasks.size(); ++k)
    tasks[k].run = [&, k](Worker& any) { score_trial(any, node, static_cast<int>(k) + 1, w.trials[k + 1]); };
  run_parallel(w, tasks, [&] {
    for (int k = 0; k < trials - static_cast<int>(tasks.size()); ++k) score_trial(w, node, k, w.trials[k]);
  });
  std::stable_sort(w.trials.begin(), w.trials.end(), [](const auto& a, const auto& b) { return a.score < b.score; });
}

// Numbers the separator last, reassigns moved vertices to patches of their new side, and pushes both sides.
void Dissection::split(Worker& w, Node&& node, const std::vector<uint8_t>& patch_side) {
  Quotient& q = node.q;
  const Separator& s = w.best;
  for (int32_t i = 0; i < q.n(); ++i) {
    index_[q.patch[i]] = i;
    members_.sides.patch_side[q.patch[i]] = patch_side[i];
  }
  const std::vector<Edge> more = reassign(s, q, patch_side);
  std::vector<int32_t> separator;
  for (size_t k = 0; k < s.vertices.size(); ++k)
    if (s.side[k] == 2) separator.push_back(s.vertices[k]);
  std::sort(separator.begin(), separator.end());
  const int32_t middle = node.begin + static_cast<int32_t>(s.weight[0]);
  const int32_t top = middle + static_cast<int32_t>(s.weight[1]), end = top + static_cast<int32_t>(s.size);
  for (size_t k = 0; k < separator.size(); ++k) perm_[top + k] = old_[separator[k]];
  if (!separator.empty()) w.nodes.push_back({node.begin, top, end});
  interrupt::advance(s.size);
  std::vector<Quotient> half = parts(q, std::vector<int32_t>(patch_side.begin(), patch_side.end()), 2, more);
  const bool halo = node.has_halo || s.size > 0;
  push(w, {std::move(half[1]), s.weight[1], middle, hash_key(node.path, 1), halo});
  push(w, {std::move(half[0]), s.weight[0], node.begin, hash_key(node.path, 0), halo});
}

// Vertices that changed side join an adjacent patch of the new side. Returns the new edges between patches: without them, later
// cuts would miss boundary vertices.
std::vector<Dissection::Edge> Dissection::reassign(const Separator& s, Quotient& q, const std::vector<uint8_t>& patch_side) {
  std::vector<int32_t> moved;               // positions in s
  for (size_t k = 0; k < s.vertices.size(); ++k) {
    const int32_t v = s.vertices[k], i = index_[members_.patch[v]];
    if (s.side[k] == patch_side[i]) continue;
    --q.vertex_weight[i];
    members_.remove(v);
    if (s.side[k] < 2) moved.push_back(static_cast<int32_t>(k));
  }
  std::vector<Edge> more;
  const auto join = [&](int32_t v, int32_t patch) {
    const int32_t i = index_[patch];
    ++q.vertex_weight[i];
    members_.insert(v, patch);
    for (int64_t k = members_.graph.ptr[v]; k < members_.graph.ptr[v + 1]; ++k) {
      const int32_t p = members_.patch[members_.graph.idx[k]];
      if (p >= 0 && p != patch && members_.sides.patch_side[p] == members_.sides.patch_side[patch]) more.push_back({i, index_[p]});
    }
  };
  while (!moved.empty()) {                  // from the boundary inwards; without an adjacent patch: any patch of the side
    std::vector<int32_t> later;
    for (const int32_t k : moved) {
      const int32_t patch = adjacent_patch(s.vertices[k], s.side[k], q);
      if (patch >= 0)
        join(s.vertices[k], patch);
      else
        later.push_back(k);
    }
    if (later.size() == moved.size()) {
      const int32_t k = later.back();
      const auto any = std::find(patch_side.begin(), patch_side.end(), s.side[k]) - patch_side.begin();
      join(s.vertices[k], q.patch[any]);
      later.pop_back();
    }
    moved.swap(later);
  }
  return more;
}

// A patch of this side with a neighbor of v, or -1. In graphs of high degree it is the lightest one: if a few patches got all
// moved vertices, the quotient graph could not be bisected evenly.
int32_t Dissection::adjacent_patch(int32_t v, uint8_t side, const Quotient& q) const {
  int32_t lightest = -1;
  for (int64_t k = members_.graph.ptr[v]; k < members_.graph.ptr[v + 1]; ++k) {
    const int32_t p = members_.patch[members_.graph.idx[k]];
    if (p < 0 || members_.sides.patch_side[p] != side) continue;
    if (!balances_patches_) return p;
    if (lightest < 0 || q.vertex_weight[index_[p]] < q.vertex_weight[index_[lightest]]) lightest = p;
  }
  return lightest;
}

void Dissection::order_leaf(Worker& w, const Node& node) {
  int32_t at = node.begin;
  for (const int32_t v : options_.stop > 0 ? w.leaf.vertices(node.q) : w.leaf.order(node.q)) perm_[at++] = old_[v];
  w.nodes.push_back({node.begin, node.begin, at});
  interrupt::advance(node.weight);
}

}  // namespace

Ordering nested_dissection(const Pattern& A, const Options& options) {
  const auto start = Clock::now();
  Ordering result;
  Reduced reduced;
  reduce(A, reduced);
  const Pattern& G = reduced.graph;
  Partial partial;
  if (G.n < kSmall || static_cast<double>(G.nnz()) < kNearTree * G.n || G.nnz() > kMostEntries) {
    if (options.cheap > 0) return result;      // the caller uses minimum degree
    partial = by_components(G, options.bounded ? bounded(G.nnz()) : Limits{});
  } else {
    SubPatches patches = sub_patches(G, patch_size(G, options), options.seed);
    Quotient whole = quotient_graph(G, patches, options.threads);
    result.patches = partial.patches = patches.count();
    result.too_many = takes_too_many(whole, reduced, options.most * A.n);
    const bool no_dissection = result.too_many || minimum_degree_is_cheap(whole, reduced, options.cheap);
    if (!no_dissection) renumber(G, patches, options.threads);
    result.patch_seconds = seconds_since(start);
    if (no_dissection) return result;
    partial.perm.resize(G.n);
    partial.nodes = Dissection(patches, options, partial.perm).run(std::move(whole));
  }
  expand(reduced, partial, result);
  result.order_seconds = seconds_since(start) - result.patch_seconds;
  return result;
}

}  // namespace ms::order
