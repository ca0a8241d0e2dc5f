// Multifrontal Cholesky factorization L L^T = A[perm][:, perm] on an assembly tree, and solves with it.
// Sources: Liu 1992 (multifrontal method); Ng and Peyton 1993 (supernodal blocks).
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "factor/fronts/columns.hpp"
#include "factor/fronts/traverse.hpp"
#include "factor/fronts/values.hpp"
#include "native/memory/buffer.hpp"
#include "native/memory/strided.hpp"
#include "panel.hpp"
#include "singular.hpp"

namespace ms::cholesky {

enum class System { A, L, Lt };

struct SparseColumns {                    // in the caller's numbering, no row twice in a column; borrowed
  int64_t count;
  const int64_t* ptr;                     // (count + 1)
  const int32_t* row;
  const double* value;
};

struct PermutedColumns;

template <class T>
class Factor {
 public:
  explicit Factor(std::shared_ptr<const fronts::AssemblyTree> tree)
      : tree_(std::move(tree)), panel_ptr_(fronts::places(*tree_, [&](int32_t s) { return panel_shape(*tree_, s).scalars(); })) {}

  // Factors the matrix with values Ax in the analysed pattern (both triangles, only one half is read). Returns -1, or the
  // new column of the first pivot that is not positive, or is so by rounding alone; then an earlier factor is restored, bit for bit.
  int32_t factor(const double* Ax, int threads);

  // A := A + C C^T, or A - C C^T where `down`, and its factor with it. Returns -1, or a number from 0 on where that has none: then
  // the earlier factor stays, or is made again. Nothing of C C^T may be outside().
  int32_t update(const SparseColumns& C, bool down, int threads);
  // Row and column of the first entry of C C^T that the analysed pattern lacks, or {-1, -1}.
  std::pair<int32_t, int32_t> outside(const SparseColumns& C) const;

  // X := A^-1 B (in the caller's numbering), L^-1 B or L^-T B (in the permuted numbering) for k right-hand sides.
  // Several threads of the caller may solve at once.
  void solve(System system, Strided<const double> B, Strided<double> X, int64_t k, int threads) const;

  // Where the analysis has a boundary of m rows, the last ones, which are not eliminated: the (m, m) Schur complement of the others in
  // their place, by rows, both triangles; what the elimination of the others leaves of B there; and all of A^-1 B but for the rows of
  // the boundary, which are given. B and X are in the caller's numbering, the others in that of the boundary. In double precision.
  void boundary_block(double* S, int threads) const;
  void reduce(Strided<const double> B, Strided<double> X, int64_t k, int threads) const;
  void expand(Strided<const double> B, Strided<const double> given, Strided<double> X, int64_t k, int threads) const;

  // Values of L on its pattern (by columns, diagonal first), in that order.
  std::vector<double> values_on(const Pattern& L) const;
  std::vector<double> diagonal() const;
  double norm1() const;                   // of the factored matrix
  // Diagonal of A^-1 in the caller's numbering; its entries where A has some, placed like matrix().
  std::vector<double> inverse_diagonal(int threads) const;
  std::vector<double> inverse_on_matrix(int64_t nnz, int threads) const;
  int64_t inverse_scalars(int threads) const;       // that these two take beside their results
  // Values on the analysed pattern, `nnz` of them, from which the same factor comes: those that are never read are zeros.
  std::vector<double> matrix(int64_t nnz) const;
  bool may_be_singular() const { return may_be_singular_; }
  // How often this has become the factor of another matrix. Ctrl-C may come between that and the caller's next step, which then sees
  // here whether it did.
  int64_t changes() const { return values_.changes(); }
  int64_t nbytes() const;
  int64_t panel_scalars() const { return panel_ptr_.back(); }
  const fronts::AssemblyTree& tree() const { return *tree_; }

 private:
  int32_t run(const T* values, int threads);
  int32_t rotate_in(const PermutedColumns& C, bool down);
  template <class Visit> void each_column(int32_t s, Visit&& visit) const;
  template <class Block> void in_blocks(int64_t k, bool permuted, int threads, Block&& block) const;

  std::shared_ptr<const fronts::AssemblyTree> tree_;
  const std::vector<int64_t> panel_ptr_;  // (fronts + 1)
  Buffer<T> panels_;                      // panel.hpp
  bool may_be_singular_ = false;          // by the pivots of the last numeric phase
  fronts::MatrixValues<T> values_;
  mutable fronts::BlockMemory<T> blocks_; // update matrices, kept for the next refactorization; the first solve works in them
  mutable KeptSpace<fronts::SolveSpace<T>> space_;
};

}  // namespace ms::cholesky
