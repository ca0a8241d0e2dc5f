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
  int64_t k;
  int threads;
  SolveSpace<T>& space;

  int64_t row(int64_t j) const { return perm ? perm[j] : j; }

  T* local_block(int worker, int64_t scalars) {
    Buffer<T>& local = space.local[worker];
    if (local.size() < scalars) local = Buffer<T>(2 * scalars);
    return local.data();
  }

  // Y := L^-1 P B in the new numbering, k values a row: a front gathers whole rows.
  void forward(Strided<const double> B, T* Y) {
    UpdateBlocks<T> blocks(tree, plan, threads, k, space.stacks);
    fronts::bottom_up(tree, plan, threads, blocks, [&](int32_t s, T* update, int worker, int) {
      const int64_t w = tree.pivots(s), u = tree.updates(s), m = w + u, ldv = m + solve_padding, begin = tree.first(s);
      T* const V = local_block(worker, ldv * k);
      for (int64_t j = 0; j < w; ++j)
        for (int64_t c = 0; c < k; ++c) V[j + c * ldv] = static_cast<T>(B.at(row(begin + j), c));
      for (int64_t c = 0; c < k; ++c) std::fill(V + w + c * ldv, V + ldv + c * ldv, T(0));
      for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) add_child(tree.child[q], blocks.of(tree.child[q]), V, ldv);
      dense<T>().forward(m, w, panels + tree.panel_ptr[s], tree.leading(s), k, V, ldv);
      for (int64_t j = 0; j < w; ++j)
        for (int64_t c = 0; c < k; ++c) Y[(begin + j) * k + c] = V[j + c * ldv];
      for (int64_t c = 0; c < k; ++c) std::copy(V + c * ldv + w, V + c * ldv + m, update + c * u);
      return -1;
    });
  }

  void add_child(int32_t child, const T* from, T* V, int64_t ldv) const {
    const int32_t* const to = tree.relative_rows(child);
    const int64_t count = tree.updates(child);
    for (int64_t c = 0; c < k; ++c)
      for (int64_t i = 0; i < count; ++i) V[to[i] + c * ldv] += from[i + c * count];
  }

  // Y := L^-T Y, and X := P^T Y.
  void backward(T* Y, Strided<double> X) {
    fronts::top_down(plan, threads, [&](int32_t s, int worker) {
      const int64_t w = tree.pivots(s), u = tree.updates(s), m = w + u, ldv = m + solve_padding, begin = tree.first(s);
      const int32_t* const rows = tree.rows(s);
      T* const V = local_block(worker, ldv * k);
      for (int64_t j = 0; j < w; ++j)
        for (int64_t c = 0; c < k; ++c) V[j + c * ldv] = Y[(begin + j) * k + c];
      for (int64_t i = 0; i < u; ++i)
        for (int64_t c = 0; c < k; ++c) V[w + i + c * ldv] = Y[rows[i] * k + c];
      for (int64_t c = 0; c < k; ++c) std::fill(V + m + c * ldv, V + ldv + c * ldv, T(0));
      dense<T>().backward(m, w, panels + tree.panel_ptr[s], tree.leading(s), k, V, ldv);
      for (int64_t j = 0; j < w; ++j)
        for (int64_t c = 0; c < k; ++c) {
          Y[(begin + j) * k + c] = V[j + c * ldv];
          X.at(row(begin + j), c) = static_cast<double>(V[j + c * ldv]);
        }
    });
  }
};

}  // namespace

template <class T>
void Factor<T>::solve(System system, Strided<const double> B, Strided<double> X, int64_t k, int threads) const {
  const fronts::AssemblyTree& tree = *tree_;
  const int64_t n = tree.n();
  if (panels_.size() * std::min(k, chunk) < parallel_work) threads = 1;
  const fronts::Schedule plan = fronts::schedule(tree, threads);
  const int32_t* const perm = system == System::A ? tree.symbolic->analysis.perm.data() : nullptr;
  SolveSpace<T> own;
  const std::unique_lock<std::mutex> first(space_lock_, std::try_to_lock);
  SolveSpace<T>& space = first ? space_ : own;
  if (space.work.size() < n * std::min(k, chunk)) space.work = Buffer<T>(n * std::min(k, chunk));
  space.local.resize(std::max<size_t>(space.local.size(), threads));
  T* const Y = space.work.data();
  interrupt::begin(k);
  for (int64_t at = 0; at < k; at += chunk) {
    const int64_t here = std::min(chunk, k - at);
    Sweep<T> sweep{tree, plan, panels_.data(), perm, here, threads, space};
    if (system == System::Lt)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < here; ++c) Y[i * here + c] = static_cast<T>(B.at(i, at + c));
    else
      sweep.forward(B.from(at), Y);
    if (system == System::L)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < here; ++c) X.at(i, at + c) = static_cast<double>(Y[i * here + c]);
    else
      sweep.backward(Y, X.from(at));
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
        const int64_t r = tree.entry_row.data()[p], w = tree.pivots(s);
        const int32_t i = r < w ? tree.first(s) + static_cast<int32_t>(r) : tree.rows(s)[r - w];
        sum[j] += std::abs(static_cast<double>(values_.data()[p]));
        if (i != j) sum[i] += std::abs(static_cast<double>(values_.data()[p]));
      }
  return *std::max_element(sum.begin(), sum.end());
}

template class Factor<double>;
template class Factor<float>;

}  // namespace ms::cholesky
