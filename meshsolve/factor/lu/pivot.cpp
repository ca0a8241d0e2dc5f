// Pivot rows by partial pivoting, for matrices that static pivots do not factor well: a left-looking factorization of which only
// the choice of rows is kept. Source: Gilbert and Peierls 1988; the diagonal is preferred as in Davis and Natarajan 2010, section
// 3.3. Time proportional to arithmetic operations and to the searches, O(nnz(L)) memory.
#include <algorithm>
#include <cmath>

#include "lu.hpp"
#include "native/threads/interrupt.hpp"
#include "scalar.hpp"

namespace ms::lu {
namespace {

// Rows are numbered by their static positions; pivot[r] is the step at which row r became pivot, or -1.
template <class T>
class Pivots {
 public:
  Pivots(const ColumnPlan& plan, const Scalar<T>* Ax)
      : p_(plan), Ax_(Ax), n_(plan.form.n()), x_(n_, T(0)), pivot_(n_, -1), mark_(n_, -1), next_(n_), l_ptr_{0} {}

  int32_t run(double threshold, double least, int64_t most) {
    for (int32_t k = 0; k < n_; ++k) {
      if (k % 256 == 0) interrupt::poll();
      reach(k);
      if (!eliminate(k, threshold, least)) return k;
      if (static_cast<int64_t>(l_row_.size()) > most) return n_;
    }
    return -1;
  }
  const std::vector<int32_t>& pivot() const { return pivot_; }

 private:
  // Rows that column k of B reaches: upper_ in reversed topological order; lower_ the rows that are not pivots yet.
  void reach(int32_t k) {
    upper_.clear();
    lower_.clear();
    for (int64_t q = p_.entry_ptr[k]; q < p_.entry_ptr[k + 1]; ++q)
      if (mark_[p_.row[q]] != k) search(p_.row[q], k);
    for (int64_t q = p_.entry_ptr[k]; q < p_.entry_ptr[k + 1]; ++q)
      x_[p_.row[q]] += static_cast<T>(Ax_[p_.source[q]] * p_.scale[q]);
  }

  void met(int32_t r, int32_t k) {
    mark_[r] = k;
    if (pivot_[r] < 0) return lower_.push_back(r);
    path_.push_back(r);
    next_[r] = l_ptr_[pivot_[r]];
  }

  void search(int32_t r, int32_t k) {
    met(r, k);
    while (!path_.empty()) {
      const int32_t at = path_.back();
      const int64_t end = l_ptr_[pivot_[at] + 1];
      while (next_[at] < end && mark_[l_row_[next_[at]]] == k) ++next_[at];
      if (next_[at] < end) {
        met(l_row_[next_[at]++], k);
      } else {
        upper_.push_back(at);
        path_.pop_back();
      }
    }
  }

  bool eliminate(int32_t k, double threshold, double least) {
    for (size_t q = upper_.size(); q-- > 0;) {
      const int32_t r = upper_[q];
      const T u = x_[r];
      x_[r] = T(0);
      for (int64_t s = l_ptr_[pivot_[r]]; s < l_ptr_[pivot_[r] + 1]; ++s) x_[l_row_[s]] -= l_[s] * u;
    }
    int32_t best = -1;
    double most = 0;
    for (const int32_t r : lower_)
      if (magnitude(x_[r]) > most) most = magnitude(x_[best = r]);
    if (!(most > least)) return false;
    if (pivot_[k] < 0 && mark_[k] == k && magnitude(x_[k]) >= threshold * most) best = k;
    pivot_[best] = k;
    const T inverse = T(1) / x_[best];
    for (const int32_t r : lower_) {
      if (r != best) {
        l_row_.push_back(r);
        l_.push_back(x_[r] * inverse);
      }
      x_[r] = T(0);
    }
    l_ptr_.push_back(static_cast<int64_t>(l_row_.size()));
    return true;
  }

  const ColumnPlan& p_;
  const Scalar<T>* const Ax_;
  const int32_t n_;
  std::vector<T> x_;
  std::vector<int32_t> pivot_, mark_;
  std::vector<int64_t> next_, l_ptr_;
  std::vector<int32_t> l_row_, upper_, lower_, path_;
  std::vector<T> l_;
};

}  // namespace

template <class T>
int32_t pivot_rows(const ColumnPlan& plan, const Scalar<T>* Ax, double threshold, double least, int64_t most,
                   std::vector<int32_t>& rows) {
  Pivots<T> pivots(plan, Ax);
  const int32_t failed = pivots.run(threshold, least, most);
  if (failed >= 0) return failed;
  rows.resize(plan.form.n());
  for (int32_t r = 0; r < plan.form.n(); ++r) rows[pivots.pivot()[r]] = plan.form.rows[r];
  return -1;
}

template int32_t pivot_rows<double>(const ColumnPlan&, const double*, double, double, int64_t, std::vector<int32_t>&);
template int32_t pivot_rows<Complex>(const ColumnPlan&, const Complex*, double, double, int64_t, std::vector<int32_t>&);

}  // namespace ms::lu
