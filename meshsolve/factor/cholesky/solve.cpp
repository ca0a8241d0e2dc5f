// Solves with the factor. Forward: like the factorization, each front adds up what its children pass on, so that the order
// of additions is fixed by the tree. Backward: each front gathers the unknowns of its ancestors, parents first.
// Right-hand sides are taken `chunk` at a time; L is read once per chunk in each direction.
#include <algorithm>
#include <cmath>

#include "cholesky.hpp"
#include "factor/fronts/traverse.hpp"
#include "native/parallel.hpp"

namespace ms::cholesky {
namespace {

using fronts::AssemblyTree;
using fronts::UpdateBlocks;

constexpr int64_t chunk = 8;
constexpr int64_t parallel_work = 200'000;       // scalars of L and of all right-hand sides below which one thread is faster

template <class T>
struct Sweep {
  const AssemblyTree& tree;
  const fronts::Schedule& plan;
  const T* panels;
  const int32_t* perm;                // caller's row of each new row, nullptr for the permuted numbering itself
  int64_t n, k;
  int threads;
  std::vector<Buffer<T>> local;       // per worker: the front at hand, padded height x k

  int64_t row(int64_t j) const { return perm ? perm[j] : j; }

  T* local_block(int worker, int64_t scalars) {
    if (local[worker].size() < scalars) local[worker] = Buffer<T>(2 * scalars);
    return local[worker].data();
  }

  // Y := L^-1 P B; Y is n x k in the new numbering.
  void forward(const double* B, T* Y, std::vector<Buffer<T>>& memory) {
    UpdateBlocks<T> blocks(tree, plan, threads, k, memory);
    fronts::bottom_up(tree, plan, threads, blocks, [&](int32_t s, T* update, int worker, int) {
      const int64_t w = tree.pivots(s), u = tree.updates(s), m = w + u, ldv = m + solve_padding, begin = tree.first(s);
      T* const V = local_block(worker, ldv * k);
      for (int64_t c = 0; c < k; ++c) {
        for (int64_t j = 0; j < w; ++j) V[j + c * ldv] = static_cast<T>(B[row(begin + j) + c * n]);
        std::fill(V + w + c * ldv, V + ldv + c * ldv, T(0));
      }
      for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
        const int32_t child = tree.child[q];
        const int32_t* const to = tree.relative_rows(child);
        const int64_t count = tree.updates(child);
        const T* const from = blocks.of(child);
        for (int64_t c = 0; c < k; ++c)
          for (int64_t i = 0; i < count; ++i) V[to[i] + c * ldv] += from[i + c * count];
      }
      dense<T>().forward(m, w, panels + tree.panel_ptr[s], tree.leading(s), k, V, ldv);
      for (int64_t c = 0; c < k; ++c) {
        std::copy(V + c * ldv, V + c * ldv + w, Y + begin + c * n);
        std::copy(V + c * ldv + w, V + c * ldv + m, update + c * u);
      }
      return -1;
    });
  }

  // Y := L^-T Y, and X := P^T Y.
  void backward(T* Y, double* X) {
    fronts::top_down(plan, threads, [&](int32_t s, int worker) {
      const int64_t w = tree.pivots(s), u = tree.updates(s), m = w + u, ldv = m + solve_padding, begin = tree.first(s);
      const int32_t* const rows = tree.rows(s);
      T* const V = local_block(worker, ldv * k);
      for (int64_t c = 0; c < k; ++c) {
        std::copy(Y + begin + c * n, Y + begin + c * n + w, V + c * ldv);
        for (int64_t i = 0; i < u; ++i) V[w + i + c * ldv] = Y[rows[i] + c * n];
        std::fill(V + m + c * ldv, V + ldv + c * ldv, T(0));
      }
      dense<T>().backward(m, w, panels + tree.panel_ptr[s], tree.leading(s), k, V, ldv);
      for (int64_t c = 0; c < k; ++c)
        for (int64_t j = 0; j < w; ++j) {
          Y[begin + j + c * n] = V[j + c * ldv];
          X[row(begin + j) + c * n] = static_cast<double>(V[j + c * ldv]);
        }
    });
  }
};

}  // namespace

template <class T>
void Factor<T>::solve(System system, const double* B, double* X, int64_t k, int threads) const {
  const fronts::AssemblyTree& tree = *tree_;
  const int64_t n = tree.n();
  if (panels_.size() * std::min(k, chunk) < parallel_work) threads = 1;
  const fronts::Schedule plan = fronts::schedule(tree, threads);
  const int32_t* const perm = system == System::A ? tree.symbolic->analysis.perm.data() : nullptr;
  Buffer<T> work(n * std::min(k, chunk));
  std::vector<Buffer<T>> memory;
  std::vector<Buffer<T>> local(threads);
  interrupt::begin(k);
  for (int64_t c = 0; c < k; c += chunk) {
    const int64_t here = std::min(chunk, k - c);
    Sweep<T> sweep{tree, plan, panels_.data(), perm, n, here, threads, std::move(local)};
    T* const Y = work.data();
    if (system == System::Lt)
      for (int64_t i = 0; i < n * here; ++i) Y[i] = static_cast<T>(B[c * n + i]);
    else
      sweep.forward(B + c * n, Y, memory);
    if (system == System::L)
      for (int64_t i = 0; i < n * here; ++i) X[c * n + i] = static_cast<double>(Y[i]);
    else
      sweep.backward(Y, X + c * n);
    local = std::move(sweep.local);
  }
}

template <class T>
std::vector<double> Factor<T>::values_on(const Pattern& L) const {
  const fronts::AssemblyTree& tree = *tree_;
  std::vector<double> x(L.nnz());
  for (int32_t s = 0; s < tree.count(); ++s) {
    const int32_t begin = tree.first(s);
    const int64_t w = tree.pivots(s), ld = tree.leading(s);
    const int32_t* const rows = tree.rows(s);
    for (int64_t j = 0; j < w; ++j) {
      const T* const column = panel(s) + j * ld;
      int64_t q = 0;
      for (int64_t p = L.ptr[begin + j]; p < L.ptr[begin + j + 1]; ++p) {
        const int32_t i = L.idx[p];
        if (i < begin + w) {
          x[p] = static_cast<double>(column[i - begin]);
          continue;
        }
        while (rows[q] < i) ++q;
        x[p] = static_cast<double>(column[w + q]);
      }
    }
  }
  return x;
}

template <class T>
std::vector<double> Factor<T>::diagonal() const {
  std::vector<double> d(tree_->n());
  for (int32_t s = 0; s < tree_->count(); ++s)
    for (int64_t j = 0; j < tree_->pivots(s); ++j) d[tree_->first(s) + j] = static_cast<double>(panel(s)[j * (tree_->leading(s) + 1)]);
  return d;
}

template <class T>
double Factor<T>::norm1() const {
  const fronts::AssemblyTree& tree = *tree_;
  std::vector<double> sum(tree.n());
  for (int32_t s = 0; s < tree.count(); ++s)
    for (int32_t j = tree.first(s); j < tree.first(s) + tree.pivots(s); ++j)
      for (int64_t p = tree.entry_ptr[j]; p < tree.entry_ptr[j + 1]; ++p) {
        const int64_t r = tree.entry_row[p], w = tree.pivots(s);
        const int32_t i = r < w ? tree.first(s) + static_cast<int32_t>(r) : tree.rows(s)[r - w];
        sum[j] += std::abs(static_cast<double>(values_[p]));
        if (i != j) sum[i] += std::abs(static_cast<double>(values_[p]));
      }
  return *std::max_element(sum.begin(), sum.end());
}

template class Factor<double>;
template class Factor<float>;

}  // namespace ms::cholesky
