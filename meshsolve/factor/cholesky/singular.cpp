// Components on which a matrix takes the constants to 0, as Laplacians do: those of its values, which may be more than those of its
// pattern. Rounding decides the sign of their last pivot, and a factor with a positive one would give solutions of size 1e16.
#include "singular.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "native/forest.hpp"

namespace ms::cholesky {
namespace {

constexpr double eps = std::numeric_limits<double>::epsilon();
constexpr double rounding = 16 * eps;          // beside the sum of moduli: what assembling a row leaves of a sum that is 0

class Components {
 public:
  explicit Components(int32_t n) : diagonal_(n), sum_(n), moduli_(n), ancestor_(n) {
    for (int32_t i = 0; i < n; ++i) ancestor_[i] = i;
  }

  void add_diagonal(int32_t i, double v) {
    diagonal_[i] += std::abs(v);
    add(i, v);
  }
  // After the diagonal: an entry that vanishes in rounding beside those of both rows joins nothing.
  void add_pair(int32_t i, int32_t j, double v) {
    add(i, v);
    add(j, v);
    if (!(std::abs(v) > eps * std::min(diagonal_[i], diagonal_[j]))) return;
    const int32_t a = find_root(i, ancestor_.data()), b = find_root(j, ancestor_.data());
    ancestor_[std::min(a, b)] = std::max(a, b);
  }

  // The last row of the first component whose rows all sum to 0, or -1.
  int32_t constant() {
    const int32_t n = static_cast<int32_t>(ancestor_.size());
    std::vector<uint8_t> told(n, 0);           // by roots, which are last rows: a row does not sum to 0
    for (int32_t i = 0; i < n; ++i)
      if (!(moduli_[i] > 0 && std::abs(sum_[i]) <= rounding * moduli_[i])) told[find_root(i, ancestor_.data())] = 1;
    for (int32_t i = 0; i < n; ++i)
      if (ancestor_[i] == i && !told[i]) return i;
    return -1;
  }

 private:
  void add(int32_t i, double v) {
    sum_[i] += v;
    moduli_[i] += std::abs(v);
  }

  std::vector<double> diagonal_, sum_, moduli_;
  std::vector<int32_t> ancestor_;
};

}  // namespace

int32_t constant_component(const fronts::AssemblyTree& tree, const double* Ax) {
  Components found(tree.n());
  const auto each = [&](bool diagonal) {
    for (int32_t s = 0; s < tree.count(); ++s) {
      const int64_t w = tree.pivots(s);
      for (int32_t j = tree.first(s); j < tree.first(s) + w; ++j)
        for (int64_t p = tree.entry_ptr[j]; p < tree.entry_ptr[j + 1]; ++p) {
          const int64_t r = tree.entry_row.data()[p];
          const int32_t i = r < w ? tree.first(s) + static_cast<int32_t>(r) : tree.rows(s)[r - w];
          if ((i == j) != diagonal) continue;
          const double v = Ax[tree.entry_source.data()[p]];
          diagonal ? found.add_diagonal(j, v) : found.add_pair(i, j, v);
        }
    }
  };
  each(true);
  each(false);
  return found.constant();
}

int32_t constant_component(const Pattern& A, const double* Ax, const int32_t* iperm) {
  Components found(A.n);
  const auto each = [&](bool diagonal) {
    for (int32_t i = 0; i < A.n; ++i)
      for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
        const int32_t j = A.idx[p];
        if (j > i || (i == j) != diagonal) continue;
        diagonal ? found.add_diagonal(iperm[i], Ax[p]) : found.add_pair(iperm[i], iperm[j], Ax[p]);
      }
  };
  each(true);
  each(false);
  return found.constant();
}

}  // namespace ms::cholesky
