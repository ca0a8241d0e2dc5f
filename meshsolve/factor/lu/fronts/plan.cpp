// The plan of the fronts engine, which depends on the pattern alone: the position in the fronts of each entry of A.
// O(nnz(A) + rows of the fronts).
#include <stdexcept>

#include "factor/lu/lu.hpp"
#include "native/threads/interrupt.hpp"
#include "sparse/rearrange.hpp"

namespace ms::lu {
namespace {

void lay_out(FrontPlan& p) {
  const int32_t count = p.tree.count();
  p.base.resize(count + 1);
  p.base[0] = 0;
  for (int32_t s = 0; s < count; ++s) {
    const int64_t size = p.tree.pivots(s) * (p.leading_p(s) + p.leading_q(s));
    if (size > INT64_C(0xFFFFFFFF)) throw std::length_error("a front has more than 2^32 - 1 entries");
    p.base[s + 1] = p.base[s] + size;
  }
  p.block_front.assign(1, 0);
  for (int32_t s = 0; s < count; ++s)
    if (p.tree.parent(s) < 0) p.block_front.push_back(s + 1);
}

struct Entry {
  uint32_t source;
  int32_t row, column;                    // positions
  double scale;
};

// Entries by fronts, and those above the diagonal blocks by columns.
std::vector<Entry> distribute(FrontPlan& p, const Pattern& A) {
  const int32_t n = A.n;
  const Positions at(p.form);
  std::vector<int32_t> front(n);
  for (int32_t s = 0; s < p.tree.count(); ++s) std::fill(front.begin() + p.tree.first(s), front.begin() + p.tree.first(s + 1), s);
  p.entry_ptr.assign(p.tree.count() + 1, 0);
  p.off_diagonal.ptr.assign(n + 1, 0);
  for (int32_t i = 0; i < n; ++i)
    for (int64_t q = A.ptr[i]; q < A.ptr[i + 1]; ++q) {
      const int32_t r = at.row[i], c = at.column[A.idx[q]];
      if (at.block[r] == at.block[c])
        ++p.entry_ptr[front[std::min(r, c)] + 1];
      else
        ++p.off_diagonal.ptr[c + 1];
    }
  std::vector<int64_t> next = cumsum_with_cursors(p.entry_ptr), next_outside = cumsum_with_cursors(p.off_diagonal.ptr);
  std::vector<Entry> entries(p.entry_ptr.back());
  p.off_diagonal.row.resize(p.off_diagonal.ptr[n]);
  p.off_diagonal.source.resize(p.off_diagonal.ptr[n]);
  for (int32_t i = 0; i < n; ++i)
    for (int64_t q = A.ptr[i]; q < A.ptr[i + 1]; ++q) {
      const int32_t r = at.row[i], c = at.column[A.idx[q]];
      const double scale = p.form.row_scale[i] * p.form.col_scale[A.idx[q]];
      if (at.block[r] == at.block[c]) {
        entries[next[front[std::min(r, c)]]++] = {static_cast<uint32_t>(q), r, c, scale};
      } else {
        const int64_t to = next_outside[c]++;
        p.off_diagonal.row[to] = r;
        p.off_diagonal.source[to] = static_cast<uint32_t>(q);
      }
    }
  return entries;
}

void set_positions(FrontPlan& p, const std::vector<Entry>& entries) {
  const fronts::AssemblyTree& t = p.tree;
  p.source = Buffer<uint32_t>(entries.size());
  p.target = Buffer<uint32_t>(entries.size());
  p.scale = Buffer<double>(entries.size());
  std::vector<int32_t> local(p.form.n());
  for (int32_t s = 0; s < t.count(); ++s) {
    if (s % 4096 == 0) interrupt::poll();
    const int32_t first = t.first(s), end = t.first(s + 1);
    const int64_t w = t.pivots(s), u = t.updates(s), ldp = p.leading_p(s), ldq = p.leading_q(s);
    for (int64_t i = 0; i < u; ++i) local[t.rows(s)[i]] = static_cast<int32_t>(w + i);
    for (int64_t q = p.entry_ptr[s]; q < p.entry_ptr[s + 1]; ++q) {
      const Entry& e = entries[q];
      const int64_t r = e.row < end ? e.row - first : local[e.row], c = e.column < end ? e.column - first : local[e.column];
      p.source.data()[q] = e.source;
      p.target.data()[q] = static_cast<uint32_t>(c < w ? r + c * ldp : w * ldp + (c - w) + r * ldq);
      p.scale.data()[q] = e.scale;
    }
  }
}

}  // namespace

Positions::Positions(const BlockTriangularForm& f) : row(f.n()), column(f.n()), block(f.n()) {
  for (int32_t k = 0; k < f.n(); ++k) {
    row[f.rows[k]] = k;
    column[f.columns[k]] = k;
  }
  for (int32_t b = 0; b < f.blocks(); ++b) std::fill(block.begin() + f.block_ptr[b], block.begin() + f.block_ptr[b + 1], b);
}

void BlockTriangularForm::permute_scalings() {
  row_factor.resize(n());
  col_factor.resize(n());
  for (int32_t k = 0; k < n(); ++k) {
    row_factor[k] = row_scale[rows[k]];
    col_factor[k] = col_scale[columns[k]];
  }
}

FrontPlan front_plan(std::shared_ptr<const symbolic::Symbolic> symbolic, const Pattern& A, BlockTriangularForm form) {
  if (A.nnz() > INT64_C(0xFFFFFFFF)) throw std::length_error("the matrix has more than 2^32 - 1 entries");
  FrontPlan p;
  p.form = std::move(form);
  p.form.permute_scalings();
  p.tree = fronts::assembly_frame(std::move(symbolic));
  lay_out(p);
  set_positions(p, distribute(p, A));
  return p;
}

}  // namespace ms::lu
