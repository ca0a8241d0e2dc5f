// Multifrontal Cholesky factorization L L^T = A[perm][:, perm] on an assembly tree, and solves with it.
// Sources: Liu 1992 (multifrontal method); Ng and Peyton 1993 (supernodal blocks).
#pragma once
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "factor/fronts/columns.hpp"
#include "factor/fronts/traverse.hpp"
#include "factor/fronts/values.hpp"
#include "native/memory/buffer.hpp"
#include "native/memory/strided.hpp"
#include "native/memory/scratch.hpp"
#include "panel.hpp"
#include "singular.hpp"
#include "stored.hpp"

namespace ms::cholesky {

enum class System { A, L, Lt };

struct SparseColumns {                    // in the caller's numbering, rows of a column distinct; not owned
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
      : tree_(std::move(tree)), panel_ptr_(fronts::positions(*tree_, [&](int32_t s) { return panel_shape(*tree_, s).scalars(); })) {}

  // Keeps the panels in this file instead of main memory. Call it before the first factor(). update() and the two functions of the
  // inverse need panels in main memory.
  void use_file(std::shared_ptr<ScratchFile> file) { file_ = std::move(file); }
  const ScratchFile* file() const { return file_.get(); }
  FileNeeds file_needs(int threads) const { return fronts_in_file<T>(*tree_, panel_ptr_, threads); }

  // Factors the matrix with values Ax in the analyzed pattern (both triangles, only one half is read). Returns -1, or the new
  // column of the first pivot that is not positive, or is positive only by rounding; then the earlier factor is restored, bit for
  // bit.
  int32_t factor(const double* Ax, int threads);

  // Replaces A by A + C C^T, or by A - C C^T if `down`, and updates the factor. Returns -1, or a number >= 0 if the new matrix
  // has no factor; then the earlier factor is kept or restored. C C^T must not have entries outside().
  int32_t update(const SparseColumns& C, bool down, int threads);
  // Row and column of the first entry of C C^T that is not in the analyzed pattern, or {-1, -1}.
  std::pair<int32_t, int32_t> outside(const SparseColumns& C) const;

  // X := A^-1 B (in the caller's numbering), L^-1 B or L^-T B (in the permuted numbering) for k right-hand sides.
  // Thread-safe: several threads may solve at the same time.
  void solve(System system, Strided<const double> B, Strided<double> X, int64_t k, int threads) const;

  // The same for a matrix of some rows of a larger problem: new row j is at row[j] of B and X. Other rows of X are not written.
  void solve_at(const int32_t* row, Strided<const double> B, Strided<double> X, int64_t k, int threads) const;

  // The rows `wanted` of A^-1 B; others of X are arbitrary. B is zero outside the rows `nonzero`. Only fronts on the paths from
  // these rows to the roots are read. The values are those of solve(), except the sign of a zero. One thread.
  struct Rows {
    const int32_t* data;
    int64_t count;
  };
  void solve_rows(Strided<const double> B, Rows nonzero, Rows wanted, Strided<double> X, int64_t k) const;

  // X := A^-1 B for B with few entries: value[i] is added at (row[i], column[i]). The forward solve visits only the fronts on the
  // paths from these rows to the roots. Values are those of solve(), except the sign of a zero.
  struct Entries {
    int64_t count;
    const int32_t* row;
    const int32_t* column;
    const double* value;
  };
  void solve_entries(const Entries& B, Strided<double> X, int64_t k, int threads) const;

  // For an analysis with a Schur interface: m rows at the end, which are not eliminated. In double precision. B and X are in the
  // caller's numbering, interface vectors in that of the interface. `boundary_block`: the (m, m) Schur complement, by rows, both
  // triangles. `reduce`: rows of B at the interface after the elimination of the others. `expand`: X = A^-1 B with X given at the
  // interface.
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
  int64_t inverse_scalars(int threads) const;       // workspace of these two, in scalars
  // The `nnz` values on the analyzed pattern that give the same factor; values that are never read are zero.
  std::vector<double> matrix(int64_t nnz) const;
  bool may_be_singular() const { return may_be_singular_; }
  // Number of successful factorizations and updates. After Ctrl-C the caller compares it to see whether the factor has changed.
  int64_t changes() const { return values_.changes(); }
  int64_t nbytes() const;
  int64_t panel_scalars() const { return panel_ptr_.back(); }
  const fronts::AssemblyTree& tree() const { return *tree_; }

 private:
  int32_t run(const T* values, int threads);
  int32_t rotate_in(const PermutedColumns& C, bool down);
  template <class Visit> void each_column(Visit&& visit) const;
  template <class Block> void in_blocks(int64_t k, const int32_t* perm, int threads, Block&& block) const;
  const int32_t* perm() const { return tree_->symbolic->analysis.perm.data(); }

  int64_t file_bytes() const { return panel_ptr_.back() * static_cast<int64_t>(sizeof(T)); }
  // Reader of the panels in the file for a traversal by this schedule, or nothing.
  std::optional<PanelReader<T>> reader(const fronts::Schedule& plan, int workers) const {
    return file_ ? std::optional<PanelReader<T>>(std::in_place, *tree_, plan, *file_, panel_ptr_, workers) : std::nullopt;
  }

  std::shared_ptr<const fronts::AssemblyTree> tree_;
  const std::vector<int64_t> panel_ptr_;  // (fronts + 1)
  Buffer<T> panels_;                      // panel.hpp; empty if they are in a file
  std::shared_ptr<ScratchFile> file_;     // stored.hpp; or nullptr
  bool may_be_singular_ = false;          // according to the pivots of the last numeric phase
  fronts::MatrixValues<T> values_;
  mutable fronts::BlockMemory<T> blocks_; // memory of update matrices, kept for the next refactorization and the first solve
  mutable Workspace<fronts::SolveSpace<T>> space_;
};

}  // namespace ms::cholesky
