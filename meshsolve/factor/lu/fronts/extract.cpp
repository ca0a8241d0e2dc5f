// Copies of the triangles of the diagonal blocks out of the fronts, entry by entry, without stored zeros.
#include <algorithm>

#include "factor/lu/lu.hpp"

namespace ms::lu {
namespace {

bool is_zero(double x) { return x == 0; }
bool is_zero(float x) { return x == 0; }
bool is_zero(Complex x) { return x.re == 0 && x.im == 0; }

}  // namespace

template <class T>
Triangles<T> FrontFactor<T>::triangles() const {
  const FrontPlan& p = *plan_;
  const fronts::AssemblyTree& tree = p.tree;
  Triangles<T> out;
  const int32_t n = p.form.n();
  std::vector<int32_t> standing(n);                 // row at each position after the exchanges
  for (int32_t k = 0; k < n; ++k) standing[k] = k;
  for (int32_t s = 0; s < tree.count(); ++s)
    for (int32_t k = tree.first(s); k < tree.first(s + 1); ++k) std::swap(standing[k], standing[tree.first(s) + exchange_[k]]);
  out.final_position.resize(n);
  for (int32_t k = 0; k < n; ++k) out.final_position[standing[k]] = k;
  out.l_ptr.assign(1, 0);
  out.u_ptr.assign(1, 0);
  for (int32_t s = 0; s < tree.count(); ++s) {
    const int64_t w = tree.pivots(s), u = tree.updates(s), ldp = p.leading_p(s), ldq = p.leading_q(s);
    const int32_t first = tree.first(s);
    const T* const P = fronts_.data() + p.base[s];
    const auto add_l = [&](int32_t row, T x) {
      if (is_zero(x)) return;
      out.l_row.push_back(row);
      out.l.push_back(static_cast<Scalar<T>>(x));
    };
    const auto add_u = [&](int32_t column, T x) {
      if (is_zero(x)) return;
      out.u_column.push_back(column);
      out.u.push_back(static_cast<Scalar<T>>(x));
    };
    for (int64_t c = 0; c < w; ++c) {
      add_l(first + static_cast<int32_t>(c), T(1));
      for (int64_t i = c + 1; i < w; ++i) add_l(first + static_cast<int32_t>(i), P[i + c * ldp]);
      for (int64_t i = 0; i < u; ++i) add_l(out.final_position[tree.rows(s)[i]], P[w + i + c * ldp]);
      for (int64_t j = c; j < w; ++j) add_u(first + static_cast<int32_t>(j), P[c + j * ldp]);
      for (int64_t i = 0; i < u; ++i) add_u(tree.rows(s)[i], P[w * ldp + i + c * ldq]);
      out.l_ptr.push_back(static_cast<int64_t>(out.l.size()));
      out.u_ptr.push_back(static_cast<int64_t>(out.u.size()));
    }
  }
  return out;
}

template <class T>
void FrontFactor<T>::load(const T* fronts, const T* off_diagonal, const int32_t* exchange) {
  const int64_t size = plan_->base.back(), above = static_cast<int64_t>(plan_->off_diagonal.source.size());
  if (!fronts_.data()) {
    fronts_ = Buffer<T>(size);
    off_diagonal_ = Buffer<T>(above);
  }
  std::copy(fronts, fronts + size, fronts_.data());
  std::copy(off_diagonal, off_diagonal + above, off_diagonal_.data());
  exchange_.assign(exchange, exchange + plan_->form.n());
}

template void FrontFactor<double>::load(const double*, const double*, const int32_t*);
template void FrontFactor<float>::load(const float*, const float*, const int32_t*);
template void FrontFactor<Complex>::load(const Complex*, const Complex*, const int32_t*);
template Triangles<double> FrontFactor<double>::triangles() const;
template Triangles<float> FrontFactor<float>::triangles() const;
template Triangles<Complex> FrontFactor<Complex>::triangles() const;

}  // namespace ms::lu
