// Complete L D L^T factorization of a symmetric indefinite matrix on an assembly tree. Pivots of one and two rows are chosen
// inside each front. A column without an acceptable pivot is delayed to the parent front.
// Sources: Duff and Reid 1983 (multifrontal with 1x1 and 2x2 pivots); Hogg, Ovtchinnikov, Scott 2016 (threshold tests).
#pragma once
#include <memory>
#include <vector>

#include "factor/fronts/columns.hpp"
#include "factor/fronts/values.hpp"
#include "factor/ldlt/arena.hpp"
#include "native/dense/ldl.hpp"
#include "native/memory/strided.hpp"
#include "small_pivots.hpp"

namespace ms::ldlt {

struct Inertia {
  int64_t positive = 0, negative = 0, zero = 0;
};

// Counts and properties of the pivots of some fronts.
struct Pivots {
  Inertia inertia;
  int64_t pairs = 0;
  int64_t delayed = 0;                    // columns without an acceptable pivot, counted at each front that delays them
  int64_t undecided = 0;                  // pivots so close to zero that rounding may have changed their sign
  bool any_small = false;                 // some pivot is small enough to be compared with rounding errors
  bool any_doubtful = false;              // some pivot is zero, or so small that pivots should be chosen with the strict threshold

  Pivots& operator+=(const Pivots& other);
};

// L and D in the order of elimination: perm names rows in the new numbering of the analysis.
struct Extracted {
  std::vector<int32_t> perm;              // (n) new row eliminated k-th
  std::vector<int64_t> ptr;               // (n + 1) L by columns: unit diagonal first, rows ascending, without zeros
  std::vector<int32_t> rows;
  std::vector<double> values;
  std::vector<double> d, e;               // (n) diagonal of D, and below it (e[k] != 0: k and k + 1 are one pivot)
};

// One front after its elimination: `columns` are its pivots, then its delayed columns; the tree has the `rows` below them.
template <class T>
struct FrontState {
  int64_t columns = 0, pivots = 0, height = 0, ld = 0;
  T* panel = nullptr;
  int32_t* name = nullptr;                // (columns) new number of each column
  T *d = nullptr, *e = nullptr;           // (columns) D: its diagonal, and below it (0: none)
  int64_t delayed() const { return columns - pivots; }
};

// X := S A^-1 S B with the fronts of a factor, as Complete::solve. The space is reserved.
template <class T>
void solve_fronts(const fronts::AssemblyTree& tree, const std::vector<FrontState<T>>& state, int64_t panel_scalars, const double* scale,
                  Strided<const double> B, Strided<double> X, int64_t k, int threads, fronts::SolveSpace<T>& space);

// Adds the counts of the pivots of a front to `found`. A pair is small if all its entries are.
template <class T> void count_pivots(const FrontState<T>& f, Pivots& found);

template <class T>
class Complete {
 public:
  // rule: of the scaled matrix, whose largest entry is 1. is_strict: pivots are chosen by strict_threshold from the first
  // factorization on; else from the first matrix on that has doubtful pivots.
  Complete(std::shared_ptr<const fronts::AssemblyTree> tree, const LdlRule& rule, double strict_threshold, bool is_strict)
      : tree_(std::move(tree)), rule_(rule), strict_threshold_(strict_threshold), is_strict_(is_strict),
        panel_scalars_(fronts::sum(*tree_, [&](int32_t s) { return tree_->pivots(s) * fronts::leading_dimension(tree_->height(s)); })) {}

  // Factors the matrix with values Ax (scaled, both triangles). Returns -1, or the new number of a column that is not
  // finite after elimination; then the earlier factor is restored.
  int32_t factor(const double* Ax, int threads);

  // X := S A^-1 S B for the factored A and a diagonal S, in the caller's numbering. Zero pivots give zeros.
  void solve(const double* scale, Strided<const double> B, Strided<double> X, int64_t k, int threads) const;

  // For factors of many matrices: the fronts, valid until the next factorization, and the threshold of the next one.
  const std::vector<FrontState<T>>& fronts() const { return state_; }
  void choose_threshold(bool is_strict) { is_strict_ = is_strict; }

  Extracted extract() const;
  const Pivots& pivots() const;           // of all fronts
  int64_t nonzeros() const;               // of L, unit diagonal included
  int64_t nbytes() const;
  bool is_strict() const { return is_strict_; }
  int64_t changes() const { return values_.changes(); }               // number of matrices factored so far
  int64_t panel_scalars() const { return panel_scalars_; }            // without delayed columns

 private:
  struct alignas(cache_line) Worker {
    std::vector<int> to, order;
    std::vector<T> moved;
    Buffer<T> product;                    // L D of the current front
    Pivots pivots;                        // of the fronts so far
  };

  int32_t run(const T* values, double tiny, int threads);
  int32_t run_and_settle(const T* values, bool is_strict, int threads);
  void open(int32_t s, int worker, int threads);
  Noise settle_small_pivots(int threads);
  std::vector<T> row_magnitudes(fronts::SolveSpace<T>& space, const fronts::Schedule& plan, int threads) const;

  std::shared_ptr<const fronts::AssemblyTree> tree_;
  const LdlRule rule_;
  const double strict_threshold_;
  bool is_strict_;
  const int64_t panel_scalars_;
  Arena memory_;                          // of fronts: panel, column-major, leading_dimension(height); D, and names of columns
  std::vector<FrontState<T>> state_;
  std::vector<Worker> workers_;           // work space; large blocks are freed after each factorization
  Pivots pivots_;
  fronts::MatrixValues<T> values_;
  mutable fronts::BlockMemory<T> blocks_;           // of the numeric phase; also workspace of a solve
  mutable Workspace<fronts::SolveSpace<T>> space_;
};

}  // namespace ms::ldlt
