// The columns engine: left-looking LU on the exact static pattern, column by column, independent subtrees in parallel.
// Source: Gilbert and Peierls 1988; Davis and Natarajan 2010 ("KLU", refactorization). Time O(flops); workspace of one dense column per
// thread. A column needs the columns of L for the entries of its column of U. They are its descendants in a forest, so one task
// has a whole subtree. Every sum has a fixed order on any number of threads.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "factor/lu/lu.hpp"
#include "native/threads/parallel.hpp"
#include "sparse/rearrange.hpp"
#include "factor/lu/scalar.hpp"

namespace ms::lu {
namespace {

constexpr double parallel_work = 400'000;        // operations below which one thread is faster
constexpr int32_t looks = 64;                    // columns between two polls for Ctrl-C: the last columns may take milliseconds each

// Entries of A by columns of B: inside the diagonal blocks, and above them.
void distribute(ColumnPlan& p, const Pattern& A) {
  const Positions at(p.form);
  const int32_t n = A.n;
  p.entry_ptr.assign(n + 1, 0);
  p.off_diagonal.ptr.assign(n + 1, 0);
  const auto inside = [&](int32_t r, int32_t c) { return at.block[r] == at.block[c]; };
  for (int32_t i = 0; i < n; ++i)
    for (int64_t q = A.ptr[i]; q < A.ptr[i + 1]; ++q) {
      const int32_t c = at.column[A.idx[q]];
      ++(inside(at.row[i], c) ? p.entry_ptr : p.off_diagonal.ptr)[c + 1];
    }
  std::vector<int64_t> next = cumsum_with_cursors(p.entry_ptr), next_outside = cumsum_with_cursors(p.off_diagonal.ptr);
  p.row.resize(p.entry_ptr[n]);
  p.source.resize(p.entry_ptr[n]);
  p.scale.resize(p.entry_ptr[n]);
  p.off_diagonal.row.resize(p.off_diagonal.ptr[n]);
  p.off_diagonal.source.resize(p.off_diagonal.ptr[n]);
  for (int32_t k = 0; k < n; ++k) {
    const int32_t i = p.form.rows[k];
    for (int64_t q = A.ptr[i]; q < A.ptr[i + 1]; ++q) {
      const int32_t c = at.column[A.idx[q]];
      if (inside(k, c)) {
        const int64_t to = next[c]++;
        p.row[to] = k;
        p.source[to] = static_cast<uint32_t>(q);
        p.scale[to] = p.form.row_scale[i] * p.form.col_scale[A.idx[q]];
      } else {
        const int64_t to = next_outside[c]++;
        p.off_diagonal.row[to] = k;
        p.off_diagonal.source[to] = static_cast<uint32_t>(q);
      }
    }
  }
}

// Work of each subtree: entries cost more than operations here.
void weigh(ColumnPlan& p) {
  const symbolic::Unsymmetric& f = p.pattern;
  const int32_t n = p.form.n();
  p.work.assign(n, 0.0);
  for (int32_t k = 0; k < n; ++k) {
    double own = 20.0 + 2.0 * static_cast<double>(f.l_ptr[k + 1] - f.l_ptr[k]);
    for (int64_t q = f.u_ptr[k]; q < f.u_ptr[k + 1]; ++q) {
      const int32_t i = f.u_row[q];
      own += 8.0 + 2.0 * static_cast<double>(f.l_ptr[i + 1] - f.l_ptr[i]);
    }
    p.work[k] += own;
    p.total_work += own;
    if (p.parent[k] >= 0) p.work[p.parent[k]] += p.work[k];
  }
  p.flops = f.flops();
}

}  // namespace

ColumnPlan column_plan(const Pattern& A, BlockTriangularForm form) {
  if (A.nnz() > INT64_C(0xFFFFFFFF)) throw std::length_error("the matrix has more than 2^32 - 1 entries");
  ColumnPlan p;
  p.form = std::move(form);
  p.form.permute_scalings();
  distribute(p, A);
  p.pattern = symbolic::unsymmetric(p.form.n(), p.entry_ptr.data(), p.row.data());
  p.parent = upper_forest(p.pattern);
  weigh(p);
  return p;
}

// Column k of L and U; x is a dense column of zeros, before and after. The counts stay in registers until the end: the
// outcomes of two workers share a cache line.
template <class T>
void ColumnFactor<T>::column(int32_t k, const Scalar<T>* Ax, const Pivoting& rule, T* x, Outcome& seen) {
  const ColumnPlan& p = *plan_;
  const symbolic::Unsymmetric& f = p.pattern;
  const int64_t* const l_ptr = f.l_ptr.data();
  const int32_t* const l_row = f.l_row.data();
  const int32_t* const u_row = f.u_row.data();
  T *const l = l_.data(), *const u_out = u_.data();
  Size<T> entry = 0, largest = 0;
  for (int64_t q = p.entry_ptr[k]; q < p.entry_ptr[k + 1]; ++q) {
    const T a = static_cast<T>(Ax[p.source[q]] * p.scale[q]);
    x[p.row[q]] += a;
    entry = larger(entry, magnitude(a));
  }
  for (int64_t q = f.u_ptr[k], end = f.u_ptr[k + 1]; q < end; ++q) {
    const int32_t i = u_row[q];
    const T u = x[i];
    x[i] = T(0);
    u_out[q] = u;
    largest = larger(largest, magnitude(u));
    for (int64_t s = l_ptr[i], last = l_ptr[i + 1]; s < last; ++s) x[l_row[s]] -= l[s] * u;
  }
  T pivot = x[k];
  x[k] = T(0);
  seen.perturbed += perturb(pivot, rule);
  const T inverse = pivot_.data()[k] = T(1) / pivot;
  for (int64_t s = l_ptr[k], end = l_ptr[k + 1]; s < end; ++s) {
    l[s] = x[l_row[s]] * inverse;
    x[l_row[s]] = T(0);
  }
  for (int64_t q = p.off_diagonal.ptr[k]; q < p.off_diagonal.ptr[k + 1]; ++q)
    off_diagonal_.data()[q] = static_cast<T>(
        Ax[p.off_diagonal.source[q]] * (p.form.row_factor[p.off_diagonal.row[q]] * p.form.col_factor[k]));
  seen.largest_entry = larger(seen.largest_entry, entry);
  seen.largest_pivot_row = larger(seen.largest_pivot_row, larger(largest, magnitude(pivot)));
}

template <class T>
OutcomeOf<Size<T>> ColumnFactor<T>::run(const Scalar<T>* Ax, const Pivoting& rule, int threads, Memory& dense) {
  const int32_t n = plan_->form.n();
  std::vector<Outcome> outcome(threads);
  interrupt::begin(n);
  if (std::is_same_v<T, Lanes> || threads == 1) {
    for (int32_t k = 0; k < n; ++k) {
      if (k % looks == 0) interrupt::poll();
      column(k, Ax, rule, dense[0].data(), outcome[0]);
    }
    return outcome[0];
  }
  if (tasks_.threads != threads) tasks_ = column_tasks(*plan_, threads);
  for_tree(threads, tasks_.parent, [&](int32_t task, int worker) {
    for (int32_t q = tasks_.begin[task]; q < tasks_.begin[task + 1]; ++q) {
      if (q % looks == 0) interrupt::poll();
      column(tasks_.column[q], Ax, rule, dense[worker].data(), outcome[worker]);
    }
    interrupt::advance(tasks_.begin[task + 1] - tasks_.begin[task]);
  });
  for (int w = 1; w < threads; ++w) {
    outcome[0].perturbed += outcome[w].perturbed;
    outcome[0].largest_entry = larger(outcome[0].largest_entry, outcome[w].largest_entry);
    outcome[0].largest_pivot_row = larger(outcome[0].largest_pivot_row, outcome[w].largest_pivot_row);
  }
  return outcome[0];
}

template <class T>
OutcomeOf<Size<T>> ColumnFactor<T>::factor(const Scalar<T>* Ax, const Pivoting& rule, int threads, Memory& dense) {
  const ColumnPlan& p = *plan_;
  const int32_t n = p.form.n();
  if (p.total_work < parallel_work) threads = 1;
  if (!pivot_.data()) allocate();
  while (static_cast<int>(dense.size()) < threads) {
    dense.emplace_back(n);
    std::fill(dense.back().data(), dense.back().data() + n, T(0));
  }
  try {
    return run(Ax, rule, threads, dense);
  } catch (...) {
    dense.clear();                       // they are zeros only after a complete run
    throw;
  }
}

template <class T>
void ColumnFactor<T>::load(const T* columns, const T* off_diagonal) {
  const symbolic::Unsymmetric& f = plan_->pattern;
  const int32_t n = plan_->form.n();
  if (!pivot_.data()) allocate();
  for (int32_t k = 0; k < n; ++k) {
    const T* const u = columns + f.u_ptr[k] + f.l_ptr[k] + k;
    const T* const pivot = u + (f.u_ptr[k + 1] - f.u_ptr[k]);
    std::copy(u, pivot, u_.data() + f.u_ptr[k]);
    pivot_.data()[k] = T(1) / *pivot;
    std::copy(pivot + 1, pivot + 1 + (f.l_ptr[k + 1] - f.l_ptr[k]), l_.data() + f.l_ptr[k]);
  }
  std::copy(off_diagonal, off_diagonal + off_diagonal_.size(), off_diagonal_.data());
}

template <class T>
void ColumnFactor<T>::allocate() {
  l_ = Buffer<T>(plan_->pattern.l_row.size());
  u_ = Buffer<T>(plan_->pattern.u_row.size());
  off_diagonal_ = Buffer<T>(plan_->off_diagonal.row.size());
  pivot_ = Buffer<T>(plan_->form.n());                // allocated last: if it is not empty, all buffers are allocated
}

template <class T>
int64_t ColumnFactor<T>::nbytes() const {
  int64_t scalars = l_.size() + u_.size() + pivot_.size() + off_diagonal_.size();
  for (const Buffer<T>& x : dense_) scalars += x.size();
  const int64_t indices = static_cast<int64_t>(plan_->pattern.l_row.size() + plan_->pattern.u_row.size());
  return scalars * static_cast<int64_t>(sizeof(T)) + 4 * indices;
}

template <class T>
Triangles<T> ColumnFactor<T>::triangles() const {
  const symbolic::Unsymmetric& f = plan_->pattern;
  const int32_t n = plan_->form.n();
  Triangles<T> out;
  out.l_ptr.assign(1, 0);
  out.u_ptr.assign(n + 1, 0);
  out.final_position.resize(n);
  for (int32_t k = 0; k < n; ++k) {
    out.final_position[k] = k;
    out.l_row.push_back(k);
    out.l.push_back(Scalar<T>(1));
    for (int64_t p = f.l_ptr[k]; p < f.l_ptr[k + 1]; ++p) {
      out.l_row.push_back(f.l_row[p]);
      out.l.push_back(static_cast<Scalar<T>>(l_.data()[p]));
    }
    out.l_ptr.push_back(static_cast<int64_t>(out.l_row.size()));
  }
  for (const int32_t i : f.u_row) ++out.u_ptr[i + 1];
  for (int32_t k = 0; k < n; ++k) out.u_ptr[k + 1] += out.u_ptr[k] + 1;
  out.u_column.resize(out.u_ptr[n]);
  out.u.resize(out.u_ptr[n]);
  std::vector<int64_t> next(out.u_ptr.begin(), out.u_ptr.end() - 1);
  const auto put = [&](int32_t i, int32_t k, T x) {
    out.u_column[next[i]] = k;
    out.u[next[i]++] = static_cast<Scalar<T>>(x);
  };
  for (int32_t k = 0; k < n; ++k) {                 // ascending columns; those of a row come after its diagonal
    put(k, k, T(1) / pivot_.data()[k]);
    for (int64_t p = f.u_ptr[k]; p < f.u_ptr[k + 1]; ++p) put(f.u_row[p], k, u_.data()[p]);
  }
  return out;
}

template class ColumnFactor<double>;
template class ColumnFactor<float>;
template class ColumnFactor<Complex>;
template OutcomeOf<Lanes> ColumnFactor<Lanes>::factor(const Lanes*, const Pivoting&, int, Memory&);

}  // namespace ms::lu
