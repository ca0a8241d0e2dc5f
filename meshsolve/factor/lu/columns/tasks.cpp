// The distribution of the columns of L and U over threads. In a forest a column depends only on its subtree, or updates only its
// ancestors. Each forest is cut into subtrees of about the same work and the columns above them. O(nnz(L + U)) time and memory;
// only the pattern counts.
// Source: Liu 1990, "The role of elimination trees in sparse factorization".
#include <algorithm>

#include "factor/lu/lu.hpp"
#include "native/forest.hpp"
#include "sparse/rearrange.hpp"

namespace ms::lu {
namespace {

constexpr double factor_work = 20'000;           // smallest work of a task of the numeric phase
constexpr double parallel_solve = 100'000;       // work of a solve below which one thread is faster
constexpr double solve_bins = 32;                // bins of subtrees in a solve: enough for 16 threads

// Liu's algorithm: the root above each row i < k of column k becomes a child of k.
struct Forest {
  std::vector<int32_t> parent, ancestor;
  explicit Forest(int32_t n) : parent(n, -1), ancestor(n, -1) {}
  void join(int32_t i, int32_t k) { climb(i, k, ancestor.data(), parent.data()); }
};

// Work of each column's subtree in a solve, for the columns of one block; `parent` is relative to its first column.
std::vector<double> solve_work(const symbolic::Unsymmetric& f, int32_t begin, const std::vector<int32_t>& parent) {
  const int32_t m = static_cast<int32_t>(parent.size());
  std::vector<double> work(m, 0.0);
  for (int32_t j = 0; j < m; ++j) {
    const int32_t k = begin + j;
    work[j] += 4.0 + static_cast<double>(f.l_ptr[k + 1] - f.l_ptr[k] + f.u_ptr[k + 1] - f.u_ptr[k]);
    if (parent[j] >= 0) work[parent[j]] += work[j];
  }
  return work;
}

// Cuts the forest of a block into subtrees of work at most `limit`, collected in bins of about this work, and the columns above.
void cut(SolveTasks& out, int32_t begin, const std::vector<int32_t>& parent, const std::vector<double>& work, double limit) {
  const int32_t m = static_cast<int32_t>(parent.size());
  std::vector<int32_t> owner(m, -1), root;
  for (int32_t j = m; j-- > 0;) {
    if (work[j] > limit) continue;
    const int32_t up = parent[j];
    owner[j] = up >= 0 && owner[up] >= 0 ? owner[up] : static_cast<int32_t>(root.size());
    if (owner[j] == static_cast<int32_t>(root.size())) root.push_back(j);
  }
  const int32_t count = static_cast<int32_t>(root.size());
  out.begin.assign(count + 1, 0);
  for (int32_t j = 0; j < m; ++j) {
    if (owner[j] < 0) out.top.push_back(begin + j);
    else ++out.begin[count - owner[j]];
  }
  std::vector<int32_t> next = cumsum_with_cursors(out.begin);
  out.column.resize(out.begin[count]);
  for (int32_t j = 0; j < m; ++j)
    if (owner[j] >= 0) out.column[next[count - 1 - owner[j]]++] = begin + j;
  double filled = 0;
  for (int32_t s = 0; s < count; ++s) {             // subtrees by ascending roots
    if (s == 0 || filled + work[root[count - 1 - s]] > limit) {
      out.bin.push_back(s);
      filled = 0;
    }
    filled += work[root[count - 1 - s]];
  }
  out.bin.push_back(count);
}

}  // namespace

std::vector<int32_t> upper_forest(const symbolic::Unsymmetric& f) {
  const int32_t n = static_cast<int32_t>(f.u_ptr.size()) - 1;
  Forest forest(n);
  for (int32_t k = 0; k < n; ++k)
    for (int64_t q = f.u_ptr[k]; q < f.u_ptr[k + 1]; ++q) forest.join(f.u_row[q], k);
  return std::move(forest.parent);
}

ColumnTasks column_tasks(const ColumnPlan& p, int threads) {
  const int32_t n = p.form.n();
  const double limit = std::max(p.total_work / (8 * threads), factor_work);
  std::vector<int32_t> owner(n), root;              // task of each column, and its last column, counted from the end
  for (int32_t k = n; k-- > 0;) {
    const int32_t up = p.parent[k];
    if (up >= 0 && p.work[up] <= limit) {
      owner[k] = owner[up];
    } else {
      owner[k] = static_cast<int32_t>(root.size());
      root.push_back(k);
    }
  }
  const int32_t count = static_cast<int32_t>(root.size());
  ColumnTasks t{threads, std::vector<int32_t>(count), std::vector<int32_t>(count + 1), std::vector<int32_t>(n)};
  for (int32_t k = 0; k < n; ++k) ++t.begin[count - owner[k]];
  std::vector<int32_t> next = cumsum_with_cursors(t.begin);
  for (int32_t k = 0; k < n; ++k) t.column[next[count - 1 - owner[k]]++] = k;
  for (int32_t c = 0; c < count; ++c) {
    const int32_t up = p.parent[root[count - 1 - c]];
    t.parent[c] = up < 0 ? -1 : count - 1 - owner[up];
  }
  return t;
}

SolveTasks solve_tasks(const ColumnPlan& p) {
  SolveTasks out;
  const symbolic::Unsymmetric& f = p.pattern;
  const std::vector<int32_t>& block = p.form.block_ptr;
  int32_t largest = 0;
  for (int32_t b = 1; b < p.form.blocks(); ++b)
    if (block[b + 1] - block[b] > block[largest + 1] - block[largest]) largest = b;
  if (p.form.n() == 0) return out;
  const int32_t begin = block[largest], end = block[largest + 1];
  const int64_t entries = f.l_ptr[end] - f.l_ptr[begin] + f.u_ptr[end] - f.u_ptr[begin];
  const double total = static_cast<double>(entries) + 4.0 * (end - begin);
  if (total < parallel_solve) return out;
  out.block = largest;
  const Transposed rows({end - begin, f.l_ptr.data() + begin, f.l_row.data()}, begin);      // of L
  Forest forest(end - begin);
  for (int32_t k = begin; k < end; ++k) {
    for (int64_t q = f.u_ptr[k]; q < f.u_ptr[k + 1]; ++q) forest.join(f.u_row[q] - begin, k - begin);
    for (int64_t q = rows.ptr[k - begin]; q < rows.ptr[k - begin + 1]; ++q) forest.join(rows.idx[q] - begin, k - begin);
    if (p.off_diagonal.ptr[k + 1] > p.off_diagonal.ptr[k]) out.giving.push_back(k);
  }
  cut(out, begin, forest.parent, solve_work(f, begin, forest.parent), total / solve_bins);
  out.top_ptr.assign(1, 0);
  for (const int32_t k : out.top) {
    const int64_t a = rows.ptr[k - begin], e = rows.ptr[k - begin + 1];
    out.from.insert(out.from.end(), rows.idx.begin() + a, rows.idx.begin() + e);
    out.entry.insert(out.entry.end(), rows.entry.begin() + a, rows.entry.begin() + e);
    out.top_ptr.push_back(static_cast<int64_t>(out.from.size()));
  }
  return out;
}

}  // namespace ms::lu
