// Components on which all rows of a matrix sum to 0, as for Laplacians. They are components of the values, which may be more than
// those of the pattern. Rounding decides the sign of their last pivot; with a positive one, solutions have size 1e16.
#include "singular.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "native/forest.hpp"

namespace ms::cholesky {
namespace {

constexpr double eps = std::numeric_limits<double>::epsilon();
constexpr double rounding = 16 * eps;          // rounding error of a row sum, relative to the sum of absolute values
constexpr double kClear = eps;                 // row sum relative to the same that is no rounding error if all rows have larger ones

class Components {
 public:
  explicit Components(int32_t n) : diagonal_(n), sum_(n), moduli_(n) {}

  // First pass, for every entry (i, j) of the lower triangle.
  void add(int32_t i, int32_t j, double v) {
    add(i, v);
    if (i == j)
      diagonal_[i] += std::abs(v);
    else
      add(j, v);
  }

  // Second pass over the same entries, if a row sums to 0. An entry that is zero in rounding relative to both rows connects
  // nothing.
  bool begin_joining() {
    const int32_t n = static_cast<int32_t>(sum_.size());
    int32_t i = 0;
    while (i < n && !vanishes(i)) ++i;
    if (i == n) return false;
    ancestor_.resize(n);
    for (i = 0; i < n; ++i) ancestor_[i] = i;
    return true;
  }
  void join(int32_t i, int32_t j, double v) {
    if (!(std::abs(v) > eps * std::min(diagonal_[i], diagonal_[j]))) return;
    const int32_t a = find_root(i, ancestor_.data()), b = find_root(j, ancestor_.data());
    ancestor_[std::min(a, b)] = std::max(a, b);
  }

  // The last row of the first component whose rows all sum to 0, or -1. A small diagonal matrix added to a Laplacian leaves sums of one
  // sign, rounding does not.
  int32_t constant() {
    const int32_t n = static_cast<int32_t>(ancestor_.size());
    std::vector<uint8_t> nonzero(n, 0);           // by roots, the last rows of components: a row has a nonzero sum
    std::vector<uint8_t> unclear(n, 0);           // a row has no clearly positive sum
    for (int32_t i = 0; i < n; ++i) {
      const int32_t root = find_root(i, ancestor_.data());
      if (!vanishes(i)) nonzero[root] = 1;
      if (!(sum_[i] > kClear * moduli_[i])) unclear[root] = 1;
    }
    for (int32_t i = 0; i < n; ++i)
      if (ancestor_[i] == i && !nonzero[i] && unclear[i]) return i;
    return -1;
  }

 private:
  void add(int32_t i, double v) {
    sum_[i] += v;
    moduli_[i] += std::abs(v);
  }
  bool vanishes(int32_t i) const { return moduli_[i] > 0 && std::abs(sum_[i]) <= rounding * moduli_[i]; }

  std::vector<double> diagonal_, sum_, moduli_;
  std::vector<int32_t> ancestor_;
};

// each(f) calls f(i, j, value) for the entries of the lower triangle in the first n rows.
template <class Each>
int32_t find_constant(int32_t n, Each&& each) {
  Components found(n);
  each([&](int32_t i, int32_t j, double v) {
    if (i < n) found.add(i, j, v);
  });
  if (!found.begin_joining()) return -1;
  each([&](int32_t i, int32_t j, double v) {
    if (i != j && i < n) found.join(i, j, v);
  });
  return found.constant();
}

}  // namespace

int32_t constant_component(const fronts::AssemblyTree& tree, const double* Ax) {
  return find_constant(tree.eliminated(), [&](const auto& f) {
    for (int32_t s = 0; s < tree.count(); ++s) {
      const int64_t w = tree.pivots(s);
      for (int32_t j = tree.first(s); j < tree.first(s) + w; ++j)
        for (int64_t p = tree.entry_ptr[j]; p < tree.entry_ptr[j + 1]; ++p) {
          const int64_t r = tree.entry_row.data()[p];
          f(r < w ? tree.first(s) + static_cast<int32_t>(r) : tree.rows(s)[r - w], j, Ax[tree.entry_source.data()[p]]);
        }
    }
  });
}

int32_t constant_component(const Pattern& A, const double* Ax, const int32_t* iperm, int32_t n) {
  return find_constant(n, [&](const auto& f) {
    for (int32_t i = 0; i < A.n; ++i)
      for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p)
        if (A.idx[p] <= i) f(std::max(iperm[i], iperm[A.idx[p]]), std::min(iperm[i], iperm[A.idx[p]]), Ax[p]);
  });
}

}  // namespace ms::cholesky
