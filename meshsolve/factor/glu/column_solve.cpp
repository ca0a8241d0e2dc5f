// Solves with the columns engine: block back substitution, and inside a block the sparse triangles column by column.
// Several right-hand sides are taken 8, 4, 2 or 1 at a time; threads share the right-hand sides.
#include "glu.hpp"
#include "native/parallel.hpp"

namespace ms::glu {
namespace {

template <class T, int64_t K>
struct ColumnSolve {
  const ColumnPlan& p;
  const T *l, *u, *pivot, *outside;
  T* Y;                                   // K values a position

  void subtract(int64_t to, T x, int64_t from) const {
    for (int64_t c = 0; c < K; ++c) Y[to * K + c] -= x * Y[from * K + c];
  }
  void divide(int64_t k) const {
    for (int64_t c = 0; c < K; ++c) Y[k * K + c] *= pivot[k];
  }

  // L, then U backwards, then the entries above the block.
  void plain(int32_t begin, int32_t end) const {
    const symbolic::Unsymmetric& f = p.pattern;
    for (int32_t k = begin; k < end; ++k)
      for (int64_t q = f.l_ptr[k]; q < f.l_ptr[k + 1]; ++q) subtract(f.l_row[q], l[q], k);
    for (int32_t k = end; k-- > begin;) {
      divide(k);
      for (int64_t q = f.u_ptr[k]; q < f.u_ptr[k + 1]; ++q) subtract(f.u_row[q], u[q], k);
      for (int64_t q = p.outside.ptr[k]; q < p.outside.ptr[k + 1]; ++q) subtract(p.outside.row[q], outside[q], k);
    }
  }

  void transposed(int32_t begin, int32_t end) const {
    const symbolic::Unsymmetric& f = p.pattern;
    for (int32_t k = begin; k < end; ++k) {
      for (int64_t q = p.outside.ptr[k]; q < p.outside.ptr[k + 1]; ++q) subtract(k, outside[q], p.outside.row[q]);
      for (int64_t q = f.u_ptr[k]; q < f.u_ptr[k + 1]; ++q) subtract(k, u[q], f.u_row[q]);
      divide(k);
    }
    for (int32_t k = end; k-- > begin;)
      for (int64_t q = f.l_ptr[k]; q < f.l_ptr[k + 1]; ++q) subtract(k, l[q], f.l_row[q]);
  }
};

}  // namespace

template <class T>
void ColumnFactor<T>::solve(bool transposed, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k, int threads) const {
  const Frame& frame = plan_->frame;
  const int64_t n = frame.n();
  const std::vector<int32_t>& from = transposed ? frame.columns : frame.rows;
  const std::vector<int32_t>& to = transposed ? frame.rows : frame.columns;
  const std::vector<double>& before = transposed ? frame.col_factor : frame.row_factor;
  const std::vector<double>& after = transposed ? frame.row_factor : frame.col_factor;
  const auto block = [&]<int64_t K>(int64_t at, T* Y) {
    const auto b = B.from(at);
    const auto x = X.from(at);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < K; ++c) Y[i * K + c] = static_cast<T>(b.at(from[i], c) * before[i]);
    const ColumnSolve<T, K> s{*plan_, l_.data(), u_.data(), pivot_.data(), outside_.data(), Y};
    for (int32_t q = 0; q < frame.blocks(); ++q) {
      const int32_t one = transposed ? q : frame.blocks() - 1 - q;
      if (transposed)
        s.transposed(frame.block_ptr[one], frame.block_ptr[one + 1]);
      else
        s.plain(frame.block_ptr[one], frame.block_ptr[one + 1]);
    }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < K; ++c) x.at(to[i], c) = static_cast<Scalar<T>>(Y[i * K + c]) * after[i];
  };
  const int64_t pieces = (k + 7) / 8;
  interrupt::begin(pieces);
  for_range(threads, pieces, 1, [&](int64_t begin, int64_t end, int) {
    Buffer<T> Y(n * std::min<int64_t>(k, 8));
    for (int64_t at = begin * 8; at < std::min(end * 8, k);) {
      interrupt::poll();
      const int64_t left = std::min((at / 8 + 1) * 8, k) - at, width = left == 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
      if (width == 8) block.template operator()<8>(at, Y.data());
      if (width == 4) block.template operator()<4>(at, Y.data());
      if (width == 2) block.template operator()<2>(at, Y.data());
      if (width == 1) block.template operator()<1>(at, Y.data());
      at += width;
    }
  });
}

template void ColumnFactor<double>::solve(bool, Strided<const double>, Strided<double>, int64_t, int) const;
template void ColumnFactor<float>::solve(bool, Strided<const double>, Strided<double>, int64_t, int) const;
template void ColumnFactor<Complex>::solve(bool, Strided<const Complex>, Strided<Complex>, int64_t, int) const;

}  // namespace ms::glu
