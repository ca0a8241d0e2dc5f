// The solves themselves. Forward by columns on one thread, by rows on several; backward by columns on both.
#include <atomic>
#include <thread>

#include "native/parallel.hpp"
#include "trisolve.hpp"

namespace ms::trisolve {
namespace {

constexpr int64_t parallel_work = 300'000;       // entries times right-hand sides below which one thread is faster

// f(chunk) for all chunks; workers claim them in order, one of segment s waits until all before segment s are done.
// Correct on any number of workers: whoever waits has claimed a later chunk than those that are being worked on.
template <bool up, class F>
void run_chunks(const Segments& s, int threads, F&& f) {
  const int32_t count = s.chunks();
  std::vector<int32_t> needs(count);             // chunks that have to be done before
  for (size_t g = 0; g + 1 < s.first.size(); ++g)
    for (int32_t c = s.first[g]; c < s.first[g + 1]; ++c)
      if constexpr (up)
        needs[count - 1 - c] = count - s.first[g + 1];
      else
        needs[c] = s.first[g];
  std::atomic<int32_t> next{0}, done{0};
  Pool::run(threads, [&](int) {
    for (int32_t c; (c = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      for (int spin = 0; done.load(std::memory_order_acquire) < needs[c];)
        if (++spin > 2000) std::this_thread::yield();
      f(up ? count - 1 - c : c);
      done.fetch_add(1, std::memory_order_acq_rel);
    }
  });
}

}  // namespace

template <class T>
UnitLower<T>::UnitLower(int32_t n, const int64_t* ptr, const int32_t* rows, const T* values, bool by_levels, const int32_t* order)
    : n_(n), ptr_(ptr), rows_(rows), values_(values), by_levels_(by_levels) {
  if (!order) return;
  order_.assign(order, order + n);
  std::vector<int32_t> position(n);
  own_ptr_.assign(n + int64_t{1}, 0);
  for (int32_t q = 0; q < n; ++q) {
    position[order[q]] = q;
    own_ptr_[q + 1] = own_ptr_[q] + ptr[order[q] + 1] - ptr[order[q]];
  }
  own_rows_.resize(ptr[n]);
  own_values_.resize(ptr[n]);
  for (int32_t q = 0; q < n; ++q) {
    int64_t to = own_ptr_[q];
    for (int64_t p = ptr[order[q]]; p < ptr[order[q] + 1]; ++p, ++to) {
      own_rows_[to] = position[rows[p]];
      own_values_[to] = values[p];
    }
  }
  ptr_ = own_ptr_.data();
  rows_ = own_rows_.data();
  values_ = own_values_.data();
}

template <class T>
int64_t UnitLower<T>::nbytes() const {
  const int64_t copies = (by_rows_ ? 1 : 0) + !own_ptr_.empty();
  return copies * (nnz() * static_cast<int64_t>(sizeof(int32_t) + sizeof(T)) + n_ * static_cast<int64_t>(sizeof(int64_t)));
}

template <class T>
const typename UnitLower<T>::ByRows& UnitLower<T>::by_rows() const {
  std::call_once(*once_, [this] {
    auto R = std::make_unique<ByRows>();
    R->ptr.assign(n_ + int64_t{1}, 0);
    R->columns.resize(nnz());
    R->values.resize(nnz());
    for (int64_t p = 0; p < nnz(); ++p) ++R->ptr[rows_[p] + 1];
    for (int32_t i = 0; i < n_; ++i) R->ptr[i + 1] += R->ptr[i];
    std::vector<int64_t> next(R->ptr.begin(), R->ptr.end() - 1);
    for (int32_t k = 0; k < n_; ++k)
      for (int64_t p = ptr_[k]; p < ptr_[k + 1]; ++p) {
        const int64_t at = next[rows_[p]]++;
        R->columns[at] = k;
        R->values[at] = values_[p];
      }
    R->segments = by_levels_ ? cut_levels(level_sets(n_, ptr_, rows_), ptr_) : cut_bins(n_, ptr_, rows_, R->ptr.data(), R->columns.data());
    by_rows_ = std::move(R);
  });
  return *by_rows_;
}

template <class T>
template <int K>
void UnitLower<T>::forward_rows(const ByRows& R, int32_t chunk, double* Y) const {
  const Segments& s = R.segments;
  for (int32_t at = s.begin[chunk]; at < s.begin[chunk + 1]; ++at) {
    const int64_t i = s.rows.empty() ? at : s.rows[at];
    double sum[K];
    for (int c = 0; c < K; ++c) sum[c] = Y[i * K + c];
    for (int64_t p = R.ptr[i]; p < R.ptr[i + 1]; ++p) {
      const double v = static_cast<double>(R.values[p]);
      const double* const y = Y + int64_t{R.columns[p]} * K;
      for (int c = 0; c < K; ++c) sum[c] += v * y[c];
    }
    for (int c = 0; c < K; ++c) Y[i * K + c] = sum[c];
  }
}

template <class T>
template <int K>
void UnitLower<T>::backward_rows(const ByRows& R, int32_t chunk, double* Y, const double* d) const {
  const Segments& s = R.segments;
  for (int32_t at = s.begin[chunk + 1] - 1; at >= s.begin[chunk]; --at) {
    const int64_t k = s.rows.empty() ? at : s.rows[at];
    const double scale = d ? d[k] : 1.0;
    double sum[K];
    for (int c = 0; c < K; ++c) sum[c] = Y[k * K + c] * scale;
    for (int64_t p = ptr_[k]; p < ptr_[k + 1]; ++p) {
      const double v = static_cast<double>(values_[p]);
      const double* const y = Y + int64_t{rows_[p]} * K;
      for (int c = 0; c < K; ++c) sum[c] += v * y[c];
    }
    for (int c = 0; c < K; ++c) Y[k * K + c] = sum[c];
  }
}

namespace {

template <int K, class T>
void forward_columns(int32_t n, const int64_t* ptr, const int32_t* rows, const T* values, double* Y) {
  for (int64_t k = 0; k < n; ++k) {
    double s[K];
    for (int c = 0; c < K; ++c) s[c] = Y[k * K + c];
    for (int64_t p = ptr[k]; p < ptr[k + 1]; ++p) {
      const double v = static_cast<double>(values[p]);
      double* const y = Y + int64_t{rows[p]} * K;
      for (int c = 0; c < K; ++c) y[c] += v * s[c];
    }
  }
}

template <int K, class T>
void backward_columns(int32_t n, const int64_t* ptr, const int32_t* rows, const T* values, const double* d, double* Y) {
  for (int64_t k = n - 1; k >= 0; --k) {
    const double scale = d ? d[k] : 1.0;
    double s[K];
    for (int c = 0; c < K; ++c) s[c] = Y[k * K + c] * scale;
    for (int64_t p = ptr[k]; p < ptr[k + 1]; ++p) {
      const double v = static_cast<double>(values[p]);
      const double* const y = Y + int64_t{rows[p]} * K;
      for (int c = 0; c < K; ++c) s[c] += v * y[c];
    }
    for (int c = 0; c < K; ++c) Y[k * K + c] = s[c];
  }
}

}  // namespace

template <class T>
template <int K>
void UnitLower<T>::run(double* Y, const double* d, bool down, bool up, int threads) const {
  if (threads <= 1 || nnz() * K < parallel_work) {
    if (down) forward_columns<K>(n_, ptr_, rows_, values_, Y);
    if (up) backward_columns<K>(n_, ptr_, rows_, values_, d, Y);
    return;
  }
  const ByRows& R = by_rows();
  if (down) run_chunks<false>(R.segments, threads, [&](int32_t c) { forward_rows<K>(R, c, Y); });
  if (up) run_chunks<true>(R.segments, threads, [&](int32_t c) { backward_rows<K>(R, c, Y, d); });
}

template <class T>
void UnitLower<T>::solve_pair(double* Y, int K, const double* d, int threads) const {
  K == 8 ? run<8>(Y, d, true, true, threads) : K == 4 ? run<4>(Y, d, true, true, threads)
  : K == 2 ? run<2>(Y, d, true, true, threads) : run<1>(Y, d, true, true, threads);
}

template <class T>
void UnitLower<T>::forward(double* Y, int K, int threads) const {
  K == 8 ? run<8>(Y, nullptr, true, false, threads) : K == 4 ? run<4>(Y, nullptr, true, false, threads)
  : K == 2 ? run<2>(Y, nullptr, true, false, threads) : run<1>(Y, nullptr, true, false, threads);
}

template <class T>
void UnitLower<T>::backward(double* Y, int K, const double* d, int threads) const {
  K == 8 ? run<8>(Y, d, false, true, threads) : K == 4 ? run<4>(Y, d, false, true, threads)
  : K == 2 ? run<2>(Y, d, false, true, threads) : run<1>(Y, d, false, true, threads);
}

template class UnitLower<double>;
template class UnitLower<float>;

}  // namespace ms::trisolve
