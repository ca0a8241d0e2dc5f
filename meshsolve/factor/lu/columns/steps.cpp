// The levels of the steps of a solve on the GPU; the steps of one level run together.
// A solve with several diagonal blocks is one graph: entries above the blocks make the forward part of one block depend on the
// backward part of another. Levels are longest paths in that graph. O(n + nnz(L + U)) time.
#include <algorithm>
#include <stdexcept>

#include "factor/lu/lu.hpp"
#include "sparse/rearrange.hpp"

namespace ms::lu {
namespace {

// The transpose of a pattern by columns.
Transposed by_rows(const std::vector<int64_t>& ptr, const std::vector<int32_t>& row) {
  return Transposed({static_cast<int32_t>(ptr.size()) - 1, ptr.data(), row.data()});
}

// One unknown of a block: its value after the first triangle is node k, its solution node n + k.
class Rows {
 public:
  Rows(int32_t n, RowSteps& out) : out_(out), n_(n), level_(2 * n, 0) {}

  void open(int32_t node, int32_t pivot) {
    node_ = node;
    pivot_ = pivot;
    order_.push_back(node);
  }
  void add(int32_t from, int64_t source) {
    level_[node_] = std::max(level_[node_], level_[from] + 1);
    idx_.push_back(from);
    out_.source.push_back(source);
    out_.pivot.push_back(pivot_);
  }
  void close() { end_.push_back(static_cast<int64_t>(idx_.size())); }

  // Rows sorted by level, stable.
  void finish() {
    const int32_t levels = *std::max_element(level_.begin(), level_.end()) + 1, count = 2 * n_;
    out_.level_ptr.assign(levels + 1, 0);
    for (const int32_t l : level_) ++out_.level_ptr[l + 1];
    std::vector<int64_t> next = cumsum_with_cursors(out_.level_ptr);
    out_.position.resize(count);
    std::vector<int32_t> came(count);
    for (int32_t q = 0; q < count; ++q) {
      const int32_t node = order_[q], to = static_cast<int32_t>(next[level_[node]]++);
      out_.position[node] = to;
      came[to] = q;
    }
    RowSteps sorted;
    for (int32_t r = 0; r < count; ++r) {
      for (int64_t e = came[r] ? end_[came[r] - 1] : 0; e < end_[came[r]]; ++e) {
        sorted.column.push_back(out_.position[idx_[e]]);
        sorted.source.push_back(out_.source[e]);
        sorted.pivot.push_back(out_.pivot[e]);
      }
      out_.ptr.push_back(static_cast<int64_t>(sorted.column.size()));
    }
    out_.column = std::move(sorted.column);
    out_.source = std::move(sorted.source);
    out_.pivot = std::move(sorted.pivot);
  }

 private:
  RowSteps& out_;
  const int32_t n_;
  std::vector<int32_t> level_, order_, idx_;
  std::vector<int64_t> end_;
  int32_t node_ = 0, pivot_ = -1;
};

void plain_rows(const ColumnPlan& p, const std::vector<int64_t>& upper, const std::vector<int64_t>& lower, int64_t stored,
                Rows& rows) {
  const symbolic::Unsymmetric& f = p.pattern;
  const int32_t n = p.form.n();
  const Transposed L = by_rows(f.l_ptr, f.l_row), U = by_rows(f.u_ptr, f.u_row), above = by_rows(p.off_diagonal.ptr, p.off_diagonal.row);
  const int64_t one = stored + static_cast<int64_t>(p.off_diagonal.row.size());
  for (int32_t b = p.form.blocks(); b-- > 0;) {
    for (int32_t k = p.form.block_ptr[b]; k < p.form.block_ptr[b + 1]; ++k) {
      rows.open(k, -1);
      for (int64_t q = above.ptr[k]; q < above.ptr[k + 1]; ++q) rows.add(n + above.idx[q], stored + above.entry[q]);
      for (int64_t q = L.ptr[k]; q < L.ptr[k + 1]; ++q) rows.add(L.idx[q], lower[L.idx[q]] + (L.entry[q] - f.l_ptr[L.idx[q]]));
      rows.close();
    }
    for (int32_t k = p.form.block_ptr[b + 1]; k-- > p.form.block_ptr[b];) {
      rows.open(n + k, k);
      rows.add(k, one);
      for (int64_t q = U.ptr[k]; q < U.ptr[k + 1]; ++q) rows.add(n + U.idx[q], upper[U.idx[q]] + (U.entry[q] - f.u_ptr[U.idx[q]]));
      rows.close();
    }
  }
}

void transposed_rows(const ColumnPlan& p, const std::vector<int64_t>& upper, const std::vector<int64_t>& lower, int64_t stored,
                     Rows& rows) {
  const symbolic::Unsymmetric& f = p.pattern;
  const int32_t n = p.form.n();
  const int64_t one = stored + static_cast<int64_t>(p.off_diagonal.row.size());
  for (int32_t b = 0; b < p.form.blocks(); ++b) {
    for (int32_t k = p.form.block_ptr[b]; k < p.form.block_ptr[b + 1]; ++k) {
      rows.open(k, k);
      for (int64_t q = p.off_diagonal.ptr[k]; q < p.off_diagonal.ptr[k + 1]; ++q) rows.add(n + p.off_diagonal.row[q], stored + q);
      for (int64_t q = f.u_ptr[k]; q < f.u_ptr[k + 1]; ++q) rows.add(f.u_row[q], upper[k] + (q - f.u_ptr[k]));
      rows.close();
    }
    for (int32_t k = p.form.block_ptr[b + 1]; k-- > p.form.block_ptr[b];) {
      rows.open(n + k, -1);
      rows.add(k, one);
      for (int64_t q = f.l_ptr[k]; q < f.l_ptr[k + 1]; ++q) rows.add(n + f.l_row[q], lower[k] + (q - f.l_ptr[k]));
      rows.close();
    }
  }
}

}  // namespace

RowSteps row_steps(const ColumnPlan& p, bool transposed) {
  const symbolic::Unsymmetric& f = p.pattern;
  const int32_t n = p.form.n();
  if (n > INT32_MAX / 2) throw std::length_error("a solve by columns on a GPU takes at most 2^30 - 1 unknowns");
  std::vector<int64_t> upper(n), lower(n);            // positions of the parts of a column: U, pivot, L
  for (int32_t k = 0; k < n; ++k) {
    upper[k] = f.u_ptr[k] + f.l_ptr[k] + k;
    lower[k] = f.u_ptr[k + 1] + f.l_ptr[k] + k + 1;
  }
  const int64_t stored = f.u_ptr[n] + f.l_ptr[n] + n;
  RowSteps out;
  out.ptr.assign(1, 0);
  Rows rows(n, out);
  if (transposed)
    transposed_rows(p, upper, lower, stored, rows);
  else
    plain_rows(p, upper, lower, stored, rows);
  rows.finish();
  return out;
}

}  // namespace ms::lu
