// The schedule: subtrees of about equal cost as tasks, the fronts above them one by one, the topmost ones with all threads.
#include <algorithm>
#include <cmath>

#include "fronts.hpp"

namespace ms::fronts {
namespace {

constexpr double front_overhead = 4000;       // overhead of one front, in operations
constexpr int tasks_per_thread = 8;
constexpr double stacked_share = 1.0 / 3;     // rows of an update matrix on the stacks of one thread, relative to the tallest front: the
                                              // stacks then take less memory than that front

struct Costs {
  std::vector<double> front, subtree;         // (count): operations of the front, and of its subtree
  std::vector<int32_t> leftmost;              // (count): first front of the subtree
  double total = 0;
};

Costs costs(const AssemblyTree& t) {
  Costs c;
  c.front.resize(t.count());
  c.subtree.resize(t.count());
  c.leftmost.resize(t.count());
  for (int32_t s = 0; s < t.count(); ++s) {
    const double w = s == t.boundary() ? 0 : static_cast<double>(t.pivots(s)), m = static_cast<double>(t.height(s));
    c.front[s] = w * m * m + m * m + front_overhead;
    c.subtree[s] += c.front[s];
    const bool leaf = t.child_ptr[s] == t.child_ptr[s + 1];
    c.leftmost[s] = leaf ? s : c.leftmost[t.child[t.child_ptr[s]]];
    if (t.parent(s) >= 0)
      c.subtree[t.parent(s)] += c.subtree[s];
    else
      c.total += c.subtree[s];
  }
  return c;
}

std::vector<int64_t> tallest_fronts(const AssemblyTree& t) {
  std::vector<int64_t> tallest(t.count(), 0);
  for (int32_t s = 0; s < t.count(); ++s) {
    tallest[s] = std::max(tallest[s], t.height(s));
    if (t.parent(s) >= 0) tallest[t.parent(s)] = std::max(tallest[t.parent(s)], tallest[s]);
  }
  return tallest;
}

// Sibling subtrees follow each other in postorder, so a group of them is one range of fronts.
void group_subtrees(const AssemblyTree& t, const Costs& c, double limit, const std::vector<uint8_t>& is_top,
                    const std::vector<uint8_t>& is_last, Schedule& out) {
  double gathered = 0;
  int32_t group_parent = -2;
  for (int32_t s = 0; s < t.count(); ++s) {
    const int32_t p = t.parent(s);
    if (is_top[s]) {
      if (!is_last[s]) out.tasks.push_back({s, s + 1});
      group_parent = -2;                        // the next subtree may not join the task before this front
      continue;
    }
    if (p >= 0 && !is_top[p]) continue;         // inside a subtree whose root follows
    const bool adjacent = p == group_parent && !out.tasks.empty() && out.tasks.back().end == c.leftmost[s];
    const bool joins = adjacent && gathered + c.subtree[s] <= limit;
    if (joins) {
      out.tasks.back().end = s + 1;
      gathered += c.subtree[s];
    } else {
      out.tasks.push_back({c.leftmost[s], s + 1});
      gathered = c.subtree[s];
      group_parent = p;
    }
  }
}

// Gives a slot to each update matrix that is passed between tasks or has more than `most_rows` rows.
void link_tasks(const AssemblyTree& t, int64_t most_rows, Schedule& out) {
  std::vector<int32_t> task_of(t.count(), -1);
  for (size_t k = 0; k < out.tasks.size(); ++k)
    std::fill(task_of.begin() + out.tasks[k].begin, task_of.begin() + out.tasks[k].end, static_cast<int32_t>(k));
  out.parent.resize(out.tasks.size());
  for (size_t k = 0; k < out.tasks.size(); ++k) {
    const int32_t p = t.parent(out.tasks[k].end - 1);
    out.parent[k] = p < 0 ? -1 : task_of[p];
  }
  out.slot.assign(t.count(), -1);
  for (int32_t s = 0; s < t.count(); ++s) {
    if (t.parent(s) < 0 || t.updates(s) == 0) continue;
    const bool is_passed = task_of[s] < 0 || task_of[t.parent(s)] != task_of[s];
    if (is_passed || t.updates(s) > most_rows) out.slot[s] = out.slots++;
  }
}

// Starting with the longest paths to the root, all workers reach the root at about the same time.
void order_leaves(const Costs& c, Schedule& out) {
  const int32_t count = static_cast<int32_t>(out.tasks.size());
  std::vector<double> way(count);
  std::vector<uint8_t> has_child(count, 0);
  for (int32_t k = count; k-- > 0;) {
    const Schedule::Task task = out.tasks[k];
    for (int32_t s = task.begin; s < task.end; ++s) way[k] += c.front[s];
    if (const int32_t p = out.parent[k]; p >= 0) {
      way[k] += way[p];
      has_child[p] = 1;
    }
  }
  for (int32_t k = 0; k < count; ++k)
    if (!has_child[k]) out.leaves.push_back(k);
  std::stable_sort(out.leaves.begin(), out.leaves.end(), [&](int32_t a, int32_t b) { return way[a] > way[b]; });
}

// Simulates the tasks and counts the scalars on the two stacks.
void measure_stacks(const AssemblyTree& t, Schedule& out) {
  out.parity.assign(t.count(), 0);
  for (int32_t s = t.count() - 1; s >= 0; --s)
    if (t.parent(s) >= 0) out.parity[s] = out.parity[t.parent(s)] ^ 1;
  for (const Schedule::Task& task : out.tasks) {
    Schedule::Stacks held;
    const auto change = [&](int32_t s, int d, int64_t sign) {
      const int64_t u = t.updates(s);
      held.square[d] += sign * u * u;
      held.lower[d] += sign * matrix_scalars(packed_lower, u);
      held.linear[d] += sign * u;
    };
    for (int32_t s = task.begin; s < task.end; ++s) {
      const int d = out.parity[s];
      if (out.slot[s] < 0) {
        change(s, d, 1);
        out.stacks.square[d] = std::max(out.stacks.square[d], held.square[d]);
        out.stacks.lower[d] = std::max(out.stacks.lower[d], held.lower[d]);
        out.stacks.linear[d] = std::max(out.stacks.linear[d], held.linear[d]);
      }
      for (int32_t q = t.child_ptr[s]; q < t.child_ptr[s + 1]; ++q)
        if (out.slot[t.child[q]] < 0) change(t.child[q], d ^ 1, -1);
    }
  }
}

// Upper bound of the scalars of update matrices passed between tasks, for any order of the tasks. Below a front it is the maximum
// of the sum over its subtrees, and of its own matrix plus those of its children.
int64_t passing_scalars(const AssemblyTree& t, const Schedule& plan, Storage storage) {
  std::vector<int64_t> below(t.count(), 0), children(t.count(), 0);
  int64_t total = 0;
  for (int32_t s = 0; s < t.count(); ++s) {
    const int64_t own = plan.slot[s] >= 0 ? matrix_scalars(storage, t.updates(s)) : 0, most = std::max(below[s], own + children[s]);
    const int32_t p = t.parent(s);
    if (p < 0) {
      total += most;
    } else {
      below[p] += most;
      children[p] += own;
    }
  }
  return total;
}

}  // namespace

Schedule schedule(const AssemblyTree& t, int threads, Use use) {
  Schedule out;
  // With a file, the fronts and stacks of all workers together take about as much memory as the tallest front.
  std::vector<int64_t> tallest;                 // (count): rows of the tallest front of each subtree
  int64_t most_rows = t.n(), most_height = t.n();
  if (use == Use::factor_in_file && t.count() > 0) {
    tallest = tallest_fronts(t);
    most_height = static_cast<int64_t>(*std::max_element(tallest.begin(), tallest.end()) / std::sqrt(threads));
    most_rows = static_cast<int64_t>(most_height * stacked_share);
  }
  if (threads <= 1 || t.count() == 0) {
    out.tasks.push_back({0, t.count()});
    link_tasks(t, most_rows, out);
  } else {
    const Costs c = costs(t);
    const double limit = c.total / (threads * tasks_per_thread);
    std::vector<uint8_t> is_top(t.count()), is_last(t.count());
    for (int32_t s = 0; s < t.count(); ++s) {
      const bool is_tall = !tallest.empty() && tallest[s] > most_height;
      is_top[s] = (c.subtree[s] > limit || is_tall) && (use != Use::solve_small_subtrees || t.direct[s] < 0);
      is_last[s] = is_top[s] && (use == Use::factor_in_file || (use == Use::factor && c.subtree[s] > 1.2 * limit * tasks_per_thread));
      if (is_top[s]) out.top.push_back(s);
      if (is_last[s]) out.last.push_back(s);
    }
    group_subtrees(t, c, limit, is_top, is_last, out);
    link_tasks(t, most_rows, out);
    order_leaves(c, out);
  }
  measure_stacks(t, out);
  return out;
}

Schedule tasks_within(const Schedule& plan, int32_t begin, int32_t end) {
  Schedule out;
  const int32_t first = static_cast<int32_t>(std::ranges::upper_bound(plan.tasks, begin, {}, &Schedule::Task::end) - plan.tasks.begin());
  for (size_t k = first; k < plan.tasks.size() && plan.tasks[k].begin < end; ++k) {
    out.tasks.push_back({std::max(begin, plan.tasks[k].begin), std::min(end, plan.tasks[k].end)});
    out.parent.push_back(plan.parent[k] < 0 ? -1 : plan.parent[k] - first);
  }
  const int32_t count = static_cast<int32_t>(out.tasks.size());
  for (const int32_t leaf : plan.leaves)
    if (leaf >= first && leaf < first + count) out.leaves.push_back(leaf - first);
  return out;
}

int64_t work_scalars(const AssemblyTree& t, int threads, Storage storage) {
  const auto plan = plan_of(t, threads, Use::factor);
  return threads * (plan->stacks.scalars(storage, 0) + plan->stacks.scalars(storage, 1)) + 2 * t.entries() + passing_scalars(t, *plan, storage);
}

}  // namespace ms::fronts
