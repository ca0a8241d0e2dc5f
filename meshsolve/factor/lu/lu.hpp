// Sparse LU factorization with static pivots on two numeric engines: fronts (multifrontal) and columns (left-looking).
//
// The factored matrix is B = (R A C)[rows][:, columns]: scaled, large entries on the diagonal, block upper triangular, ordered.
// Position k of B is row rows[k] and column columns[k] of A. Only the diagonal blocks of B are factored; the entries above them
// (`Outside`) are stored as they are, for the solves.
// Sources: Duff and Koster 2001 (static pivots); Davis and Natarajan 2010, "KLU" (block form); Duff and Reid 1984
// (unsymmetric multifrontal on a symmetrized pattern); He et al. 2015, "GLU" (columns and levels).
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "factor/fronts/columns.hpp"
#include "factor/fronts/traverse.hpp"
#include "factor/symbolic/unsymmetric.hpp"
#include "native/memory/buffer.hpp"
#include "native/memory/strided.hpp"
#include "native/dense/complex.hpp"
#include "sparse/csr.hpp"
#include "native/dense/dense.hpp"
#include "native/dense/lu.hpp"
#include "factor/lu/lanes.hpp"

namespace ms::lu {

template <class T> using Scalar = std::conditional_t<std::is_same_v<T, float>, double, T>;      // of A, b and x
template <class T> using Size = std::conditional_t<std::is_same_v<T, Lanes>, Lanes, double>;     // of absolute values

// Permutations, scalings and diagonal blocks of B.
struct BlockTriangularForm {
  std::vector<int32_t> rows, columns;     // (n)
  std::vector<double> row_scale, col_scale;   // (n) in A's numbering
  std::vector<int32_t> block_ptr;         // (blocks + 1) first position of each block
  std::vector<double> row_factor = {}, col_factor = {};     // (n) the scalings by position, set by permute_scalings()

  void permute_scalings();
  int32_t n() const { return static_cast<int32_t>(rows.size()); }
  int32_t blocks() const { return static_cast<int32_t>(block_ptr.size()) - 1; }
};

// Entries of B above its diagonal blocks, by columns.
struct Outside {
  std::vector<int64_t> ptr;               // (n + 1)
  std::vector<int32_t> row;               // position
  std::vector<uint32_t> source;           // in A's data
};

template <class Size>
struct OutcomeOf {                        // counts of one factorization
  std::conditional_t<std::is_same_v<Size, double>, int64_t, Size> perturbed = 0;       // pivots that were too small and were replaced
  Size largest_entry = 0, largest_pivot_row = 0;        // max |B|, max |U|
};
using Outcome = OutcomeOf<double>;

// ---- fronts ---------------------------------------------------------------------------------------------------------

struct FrontPlan {                        // depends on the pattern alone
  BlockTriangularForm form;
  fronts::AssemblyTree tree;              // of the symmetrized diagonal blocks, without entries
  std::vector<int32_t> block_front;       // (blocks + 1) first front of each block
  std::vector<int64_t> base;              // (fronts + 1) storage of a front: P, then Q (see native/dense/lu.hpp)
  std::vector<int64_t> entry_ptr;         // (fronts + 1) entries of A that a front assembles
  Buffer<uint32_t> source, target;        // position in A's data, and in the storage of the front
  Buffer<double> scale;                   // factor of the entry
  Outside off_diagonal;

  int64_t leading_p(int32_t s) const { return fronts::leading_dimension(tree.height(s)); }
  int64_t leading_q(int32_t s) const { return fronts::leading_dimension(tree.updates(s)); }
};

// The position of each row and column of A, and the block of each position.
struct Positions {
  std::vector<int32_t> row, column, block;
  explicit Positions(const BlockTriangularForm& form);
};

FrontPlan front_plan(std::shared_ptr<const symbolic::Symbolic> symbolic, const Pattern& A, BlockTriangularForm form);

// L and U of B: U by rows, L by columns, without stored zeros; final_position[k] is where exchanges moved row k.
template <class T>
struct Triangles {
  std::vector<int64_t> l_ptr, u_ptr;
  std::vector<int32_t> l_row, u_column, final_position;
  std::vector<Scalar<T>> l, u;
};

template <class T>
class FrontFactor {
 public:
  using Number = T;
  using Plan = FrontPlan;
  using Memory = fronts::BlockMemory<T>;  // work space of a numeric phase
  using Space = fronts::SolveSpace<T>;    // of a solve

  explicit FrontFactor(std::shared_ptr<const FrontPlan> plan) : plan_(std::move(plan)) {}

  // Ax: values of A. Overwrites the earlier factor, even if interrupted.
  Outcome factor(const Scalar<T>* Ax, const Pivoting& rule, int threads) { return factor(Ax, rule, threads, blocks_); }

  // X := A^-1 B, or A^-T B. Several threads of the caller may solve at once.
  void solve(bool transposed, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k, int threads) const;

  // The same in work space that several factors share, one after the other; the solve on one thread.
  Outcome factor(const Scalar<T>* Ax, const Pivoting& rule, int threads, Memory& blocks);
  void solve_in(Space& space, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k) const;

  Triangles<T> triangles() const;         // of the diagonal blocks
  void load(const T* fronts, const T* off_diagonal, const int32_t* exchange);      // copies a factor from the GPU, in the same layout
  int64_t nbytes() const;
  const FrontPlan& plan() const { return *plan_; }

 private:
  void solve_blocks(Space& space, bool transposed, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k, int threads) const;

  std::shared_ptr<const FrontPlan> plan_;
  Buffer<T> fronts_;                      // plan.base
  Buffer<T> off_diagonal_;                     // plan.off_diagonal
  std::vector<int32_t> exchange_;         // (n) local row that was exchanged with pivot k of its front
  mutable Memory blocks_;                 // update matrices; also workspace of a solve
  mutable Workspace<Space> space_;
};

// ---- columns --------------------------------------------------------------------------------------------------------

struct ColumnPlan {                       // depends on the pattern and the pivots alone
  BlockTriangularForm form;
  std::vector<int64_t> entry_ptr;         // (n + 1) entries of the diagonal blocks by columns:
  std::vector<int32_t> row;               //   position
  std::vector<uint32_t> source;           //   in A's data
  std::vector<double> scale;              //   factor of the entry
  Outside off_diagonal;
  symbolic::Unsymmetric pattern;          // of L and U
  std::vector<int32_t> parent;            // (n) forest in which a column of U lies on the path from each of its rows to a root
  std::vector<double> work;               // (n) estimated operations of the subtree of a column
  double flops = 0, total_work = 0;
};
ColumnPlan column_plan(const Pattern& A, BlockTriangularForm form);

// Pivot rows by partial pivoting. The diagonal stays pivot if it is at least `threshold` times the largest entry of its column.
// rows[k] is the row of A for position k.
// Returns -1, the first position whose column has no entry of at least `least`, or n if L has more than `most` entries.
template <class T>
int32_t pivot_rows(const ColumnPlan& plan, const Scalar<T>* Ax, double threshold, double least, int64_t most,
                   std::vector<int32_t>& rows);

// Columns grouped into tasks: subtrees up to a share of the work, and single columns above them.
struct ColumnTasks {
  int threads = 0;
  std::vector<int32_t> parent;            // (tasks) ascending, -1 for a root
  std::vector<int32_t> begin, column;     // (tasks + 1), (n): columns of each task, ascending
};
ColumnTasks column_tasks(const ColumnPlan& plan, int threads);
std::vector<int32_t> upper_forest(const symbolic::Unsymmetric& pattern);       // ColumnPlan::parent

// A solve of the largest diagonal block in three stages: subtrees, the columns above them, subtrees. In their forest the rows of a
// column of L are its ancestors, those of a column of U its descendants.
struct SolveTasks {
  int32_t block = -1;                     // -1 if all blocks are too small for several threads
  std::vector<int32_t> bin;               // (bins + 1) first subtree of each task
  std::vector<int32_t> begin, column;     // (subtrees + 1) columns of each subtree, ascending, its root the last
  std::vector<int32_t> top;               // the columns above, ascending
  std::vector<int64_t> top_ptr;           // (top + 1) rows of L with these numbers:
  std::vector<int32_t> from;              //   column, ascending
  std::vector<int64_t> entry;             //   position in L by columns
  std::vector<int32_t> giving;            // columns of the block with entries in Outside
};
SolveTasks solve_tasks(const ColumnPlan& plan);

template <class T>                        // Lanes: four factors at once
class ColumnFactor {
 public:
  using Number = T;
  using Plan = ColumnPlan;
  using Memory = std::vector<Buffer<T>>;       // one dense column per worker, zeros between uses
  using Space = std::vector<Buffer<T>>;        // of each worker: n x up to 8 values

  explicit ColumnFactor(std::shared_ptr<const ColumnPlan> plan) : plan_(std::move(plan)) {}
  using Outcome = OutcomeOf<Size<T>>;
  Outcome factor(const Scalar<T>* Ax, const Pivoting& rule, int threads) { return factor(Ax, rule, threads, dense_); }     // as FrontFactor
  void solve(bool transposed, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k, int threads) const;
  Outcome factor(const Scalar<T>* Ax, const Pivoting& rule, int threads, Memory& dense);
  void solve_in(Space& space, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k) const;
  Triangles<T> triangles() const;
  void load(const T* columns, const T* off_diagonal);      // copies a factor from the GPU: U, pivot and L of each column
  int64_t nbytes() const;
  const ColumnPlan& plan() const { return *plan_; }

 private:
  void allocate();
  Outcome run(const Scalar<T>* Ax, const Pivoting& rule, int threads, Memory& dense);
  void column(int32_t k, const Scalar<T>* Ax, const Pivoting& rule, T* x, Outcome& seen);
  const SolveTasks& tasks_of_solve() const;
  void solve_pieces(Space& space, bool transposed, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k, const SolveTasks& tasks,
                    int threads) const;

  std::shared_ptr<const ColumnPlan> plan_;
  ColumnTasks tasks_;                     // of the last factorization with several threads
  Buffer<T> l_, u_, pivot_, off_diagonal_;     // pivot_: inverse
  Memory dense_;
  mutable std::mutex plan_lock_;
  mutable std::unique_ptr<SolveTasks> solve_tasks_;
  mutable Workspace<Space> space_;
};

// ---- steps of a solve on the GPU -------------------------------------------------------------------------------------------------

// A solve by columns as 2 n rows sorted by level: row position[k] is unknown k after the first triangle, row position[n + k] the
// solution. Row r of Y becomes scale Y[r] - sum of its entries times Y[column]. An entry is element `source` of the stored numbers:
// U, pivot and L of each column, then Outside, then -1. It is divided by the pivot of column `pivot` unless that is -1.
struct RowSteps {
  std::vector<int64_t> level_ptr, ptr, source;
  std::vector<int32_t> column, pivot, position;
};
RowSteps row_steps(const ColumnPlan& plan, bool transposed);

// ---- levels ---------------------------------------------------------------------------------------------------------

enum class LevelRule { upper, relaxed, exact };

// Longest-path levels of the columns for the stored patterns of L (by columns) and U (by rows), diagonals stored or not.
std::vector<int32_t> levels(const Pattern& L, const Pattern& U, LevelRule rule);

// L^-1 F for unit lower triangular L and sparse F, both by columns with sorted rows: (indptr, rows, values).
template <class S>
void lower_solve(const Pattern& L, const S* l, const Pattern& F, const S* f, std::vector<int64_t>& ptr, std::vector<int32_t>& row,
                 std::vector<S>& x);

}  // namespace ms::lu
