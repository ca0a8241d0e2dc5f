// Small pivots of the complete factor on the host: magnitudes of the rows, the forward solve, the decisions of small_pivots.hpp.
// Cost: two passes through L, of which one has 8 columns; only for factors that have a small pivot.
#include "small_pivots.hpp"

#include <algorithm>
#include <cmath>

#include "forward.hpp"
#include "native/threads/parallel.hpp"

namespace ms::ldlt {
namespace {

// Adds the magnitudes of the pivots of a front to its rows: `y` for its columns, `below` for the rows below.
template <class T>
void add_magnitudes(const FrontState<T>& f, T* y, T* below) {
  for (int64_t k = 0, next; k < f.pivots; k = next) {
    const bool is_pair = f.e[k] != T(0);
    next = is_pair ? k + 2 : k + 1;
    y[k] += std::abs(f.d[k]) + std::abs(f.e[k]);                       // the unit diagonal of L
    if (is_pair) y[k + 1] += std::abs(f.d[k + 1]) + std::abs(f.e[k]);
    const T *const x = f.panel + k * f.ld, *const z = is_pair ? x + f.ld : x, d = f.d[k], e = f.e[k], other = is_pair ? f.d[k + 1] : T(0);
    for (int64_t i = next; i < f.columns; ++i) y[i] += added_magnitude(d, e, other, x[i], z[i]);
    for (int64_t i = f.columns; i < f.height; ++i) below[i - f.columns] += added_magnitude(d, e, other, x[i], z[i]);
  }
}

// Sets column k of L to that of a zero pivot; returns true if an entry was above 1.
template <class T>
bool clear_column(const FrontState<T>& f, int64_t k) {
  T* const column = f.panel + k * f.ld;
  T most = 0;
  for (int64_t i = k + 1; i < f.height; ++i) most = std::max(most, std::abs(column[i]));
  std::fill(column + k + 1, column + f.height, T(0));
  return most > 1;
}

// Decides on the small pivots of a front; returns the number of undecided ones. Y: the forward solve.
template <class T>
int64_t settle(const FrontState<T>& f, const T* Y, const T* row_magnitude, Noise& noise) {
  const auto sum_of = [&](int64_t k) {
    const T* const y = Y + f.name[k] * int64_t{pivot_samples};
    double sum = 0;
    for (int64_t c = 0; c < pivot_samples; ++c) sum += static_cast<double>(y[c]) * static_cast<double>(y[c]);
    return larger(sum / pivot_samples, static_cast<double>(row_magnitude[f.name[k]]));        // z_j is 1 in its own row
  };
  int64_t undecided = 0;
  for (int64_t k = 0; k < f.pivots; ++k) {
    const bool is_pair = f.e[k] != T(0);
    const double size = size_of_pivot(f.d, f.e, k);
    if (is_small<T>(size)) undecided += settle_pivot(f.d, f.e, k, sum_of(k), is_pair ? sum_of(k + 1) : 0.0);
    if (f.d[k] == T(0) && f.e[k] == T(0)) {
      noise.largest = larger(noise.largest, size);
      for (int64_t j = k; j < k + 1 + is_pair; ++j) noise.grows = clear_column(f, j) || noise.grows;
    } else {
      noise.least_other = std::min(noise.least_other, size);
    }
    k += is_pair;
  }
  return undecided;
}

}  // namespace

template <class T>
void count_pivots(const FrontState<T>& f, Pivots& found) {
  Inertia& inertia = found.inertia;
  found.delayed += f.delayed();
  for (int64_t j = 0; j < f.pivots; ++j) {
    found.any_small = found.any_small || is_small<T>(size_of_pivot(f.d, f.e, j));
    if (f.e[j] != T(0)) {                        // the pivot test accepts no definite pair, but the signs are counted in any case
      const bool definite = f.d[j] / f.e[j] * f.d[j + 1] / f.e[j] > T(1);
      inertia.positive += definite ? 2 * (f.d[j] > T(0)) : 1;
      inertia.negative += definite ? 2 * (f.d[j] < T(0)) : 1;
      ++found.pairs;
      ++j;
    } else {
      inertia.positive += f.d[j] > T(0);
      inertia.negative += f.d[j] < T(0);
      inertia.zero += f.d[j] == T(0);
      found.any_doubtful = found.any_doubtful || !(std::abs(f.d[j]) >= PivotSizes<T>::doubtful);
    }
  }
}

// (n) magnitude of each row, by new number. Children before parents, as in the forward solve.
template <class T>
std::vector<T> Complete<T>::row_magnitudes(fronts::SolveSpace<T>& space, const fronts::Schedule& plan, int threads) const {
  const fronts::AssemblyTree& tree = *tree_;
  std::vector<T> magnitude(tree.n(), T(0));
  const Problem<T> p{tree, plan, state_, nullptr, threads, space, fronts::leaves_cache<T>(panel_scalars_)};
  fronts::UpdateBlocks<T> blocks(tree, plan, threads, 1, space.blocks);
  fronts::bottom_up(tree, plan, threads, blocks, [&](int32_t s, T* below, int worker, int) {
    p.fetch_front(s + fronts::fronts_ahead);
    const FrontColumns<T, 1> columns(p, s, worker);
    std::fill(below, below + tree.updates(s), T(0));
    for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
      const int32_t child = tree.child[q];
      row_kernels<T>().add_rows(1, tree.updates(child), tree.relative_rows(child), tree.pivots(s), blocks.of(child),
                          magnitude.data() + tree.first(s), below);
    }
    columns.load(magnitude.data());
    add_magnitudes(columns.f, columns.y, below);
    columns.store(magnitude.data(), columns.f.columns);
    return -1;
  }, false);
  return magnitude;
}

template <class T>
Noise Complete<T>::settle_small_pivots(int threads) {
  const fronts::AssemblyTree& tree = *tree_;
  threads = fronts::threads_worthwhile(panel_scalars_, pivot_samples, threads);
  const auto plan = fronts::plan_of(tree, threads, fronts::Use::solve);
  auto space = space_.lease();
  space->reserve(tree.n(), pivot_samples, threads, nullptr);
  const std::vector<T> magnitude = row_magnitudes(*space, *plan, threads);
  T* const Y = space->work;
  for_range(threads, tree.n(), kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t c = 0; c < pivot_samples; ++c)
        Y[i * pivot_samples + c] = static_cast<T>(std::sqrt(magnitude[i]) * pivot_sample(i, static_cast<int>(c)));
  });
  const Problem<T> p{tree, *plan, state_, nullptr, threads, *space, fronts::leaves_cache<T>(panel_scalars_)};
  forward<T, pivot_samples, false>(p, Y);
  Pivots found;
  Noise noise;
  for (const FrontState<T>& f : state_) {
    found.undecided += settle(f, Y, magnitude.data(), noise);
    count_pivots(f, found);
  }
  pivots_ = found;
  return noise;
}

template void count_pivots<double>(const FrontState<double>&, Pivots&);
template void count_pivots<float>(const FrontState<float>&, Pivots&);
template Noise Complete<double>::settle_small_pivots(int);
template Noise Complete<float>::settle_small_pivots(int);

}  // namespace ms::ldlt
