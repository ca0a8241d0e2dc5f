// Cholesky factors of a group of matrices of one pattern, one in each lane of a vector (native/dense/group.hpp), in double precision. A
// panel has a number of each matrix where panel.hpp has one number. Each lane has the bits of a factor of its own.
#pragma once
#include <memory>
#include <vector>

#include "factor/fronts/columns.hpp"
#include "factor/fronts/traverse.hpp"
#include "native/dense/group.hpp"

namespace ms::cholesky {

class Group {
 public:
  static constexpr int size = group_size;

  explicit Group(std::shared_ptr<const fronts::AssemblyTree> tree);

  // False for trees with fronts that threads share, or with a Schur interface.
  static bool is_worthwhile(const fronts::AssemblyTree& tree);
  int64_t scalars() const { return panel_ptr_.back() * size; }        // of the panels of a group

  struct Space {
    fronts::BlockMemory<double> memory;
    std::vector<double> diagonal;               // of the current front
    Buffer<double> panel;                       // of the current front
    double ratio[size];                         // of the last factorization: see LeastPivot
  };

  // Factors the matrices with values[lane] in the analyzed pattern. Returns a bit for each matrix that a single factorization must
  // compute: a pivot is not positive, or extremely large or small. Its panels are undefined. far: the panels will have left the caches
  // before they are read again.
  unsigned factor(const double* const (&values)[size], double* panels, bool far, Space& space) const;

  // Copies the panels of a single factor, stored as in panel.hpp, to one lane.
  void copy(const double* single, int lane, double* panels) const;

  // X[lane] := A^-1 B[lane] for one right-hand side of each matrix, rows `stride` apart. B[lane] may be X[lane]; both may be nullptr.
  void solve(const double* panels, const double* const (&B)[size], double* const (&X)[size], int64_t stride,
             fronts::SolveSpace<double>& space) const;

 private:
  std::shared_ptr<const fronts::AssemblyTree> tree_;
  std::vector<int64_t> panel_ptr_;              // (fronts + 1) in numbers of each matrix
};

}  // namespace ms::cholesky
