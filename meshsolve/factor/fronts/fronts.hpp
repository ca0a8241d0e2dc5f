// The multifrontal engine that the factorizations share: an assembly tree of fronts. Each front is a dense block: its first
// `pivots` rows are eliminated, and its remaining rows form an update matrix for its parent. A factorization supplies the
// elimination of one front. This package has the positions of its parts, the order of the fronts, and the memory of the update
// matrices.
//
// Sources: Duff and Reid 1983 (multifrontal), Liu 1992 ("The multifrontal method for sparse matrix solution").
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "factor/symbolic/symbolic.hpp"
#include "native/memory/buffer.hpp"
#include "sparse/csr.hpp"
#include "native/dense/dense.hpp"
#include "native/memory/raw_vector.hpp"
#include "update.hpp"

namespace ms::fronts {

class KeptSchedules;

// Everything that depends on the pattern only. Front s owns the columns [first[s], first[s+1]) of L. Its rows are the indices of
// these columns, followed by the row list of the supernode. Local rows of a front start at 0 for its first pivot.
struct AssemblyTree {
  std::shared_ptr<const symbolic::Symbolic> symbolic;
  std::vector<int32_t> child_ptr, child;        // (count + 1), (edges): children in ascending order
  RawVector<int32_t> relative;                  // (rows): local row in the parent's front of each row below the pivots
  std::vector<uint32_t> entry_ptr;              // (n + 1): lower entries of the permuted matrix by columns:
  Buffer<uint32_t> entry_source;                //   position in A's data
  Buffer<int32_t> entry_row;                    //   local row in the front of the column
  std::vector<int32_t> direct;                  // (count): number of rows below the pivots within the small subtree of the front;
                                                //   -1 for a front above the small subtrees
  std::shared_ptr<const KeptSchedules> schedules;

  const symbolic::Supernodes& supernodes() const { return symbolic->supernodes; }
  int64_t entries() const { return entry_ptr.back(); }
  int32_t n() const { return static_cast<int32_t>(symbolic->analysis.perm.size()); }
  int32_t count() const { return static_cast<int32_t>(supernodes().parent.size()); }
  int32_t eliminated() const { return n() - symbolic->analysis.boundary; }         // columns
  int32_t boundary() const { return eliminated() < n() ? count() - 1 : -1; }       // the front that is not eliminated, or -1
  int32_t parent(int32_t s) const { return supernodes().parent[s]; }
  int32_t first(int32_t s) const { return supernodes().first[s]; }
  int64_t pivots(int32_t s) const { return supernodes().first[s + 1] - supernodes().first[s]; }
  int64_t updates(int32_t s) const { return supernodes().row_ptr[s + 1] - supernodes().row_ptr[s]; }
  int64_t height(int32_t s) const { return pivots(s) + updates(s); }
  const int32_t* rows(int32_t s) const { return supernodes().rows.data() + supernodes().row_ptr[s]; }
  const int32_t* relative_rows(int32_t s) const { return relative.data() + supernodes().row_ptr[s]; }
  int64_t nbytes() const;                       // including the analysis
};

// A: the analyzed pattern, both triangles. O(nnz(A) + rows) time and memory.
AssemblyTree assembly_tree(std::shared_ptr<const symbolic::Symbolic> symbolic, const Pattern& A, int threads);

// The (nnz(A),) column indices of the analyzed pattern, from the row pointers of A and the half of its entries in the tree. The
// other half are the mirror entries. O(nnz(A)) time, 8 n bytes in addition to the result.
std::vector<int32_t> analyzed_indices(const AssemblyTree& tree, const int64_t* ptr);

// An assembly tree without the entries of a matrix, for unsymmetric fronts, which store their own.
AssemblyTree assembly_frame(std::shared_ptr<const symbolic::Symbolic> symbolic);

// Leading dimension of a panel. From 64 rows on an odd multiple of 8, so that columns do not share cache sets.
constexpr int64_t leading_dimension(int64_t height) {
  if (height < 64) return height;
  const int64_t rounded = (height + 7) / 8 * 8;
  return rounded % 64 ? rounded : rounded + 8;
}

// True for a front with so much work that threads share its columns (or one thread does them in steps).
constexpr bool is_large(int64_t pivots, int64_t height) { return pivots * height * height >= 40'000'000; }

// (count + 1): begin of each front's part of a factor; front s has scalars(s) scalars.
template <class Scalars>
std::vector<int64_t> positions(const AssemblyTree& tree, Scalars&& scalars) {
  std::vector<int64_t> ptr(tree.count() + 1);
  for (int32_t s = 0; s < tree.count(); ++s) ptr[s + 1] = ptr[s] + scalars(s);
  return ptr;
}

template <class Scalars>
int64_t sum(const AssemblyTree& tree, Scalars&& scalars) {
  int64_t all = 0;
  for (int32_t s = 0; s < tree.count(); ++s) all += scalars(s);
  return all;
}

// Memory for a factor. Before a large one, returns the freed memory of ordering and analysis to the system.
template <class T>
Buffer<T> panels(int64_t scalars, int threads) {
  return_free_memory(scalars * sizeof(T));
  return Buffer<T>(scalars, threads);
}

// Tasks of fronts that run in parallel. It depends on the number of threads, the results do not: a front always adds its children
// in ascending order.
struct Schedule {
  struct Task {
    int32_t begin, end;          // fronts [begin, end), a group of sibling subtrees or one front near the root
  };
  std::vector<Task> tasks;       // ascending
  std::vector<int32_t> parent;   // (tasks): the task of the parent front; -1 for a root or a parent in `last`
  std::vector<int32_t> leaves;   // tasks without children, by descending work on the path to the root
  std::vector<int32_t> last;     // ascending: fronts near the root, one by one with all threads in each; empty for solves
  std::vector<int32_t> top;      // ascending: all fronts outside subtree tasks (single-front tasks and `last`)
  std::vector<int32_t> slot;     // (count): slot of the update matrix on the heap or in a file, or -1: on the worker's stack
  int32_t slots = 0;
  struct Stacks {                // sums over update matrices of u rows, in scalars
    int64_t square[2] = {0, 0};  // u^2
    int64_t lower[2] = {0, 0};   // PackedLower
    int64_t linear[2] = {0, 0};  // u
    // unit > 0: scalars per row; else a value of Storage
    int64_t scalars(int64_t unit, int d) const { return unit > 0 ? linear[d] * unit : unit == full ? square[d] : lower[d]; }
  } stacks;                      // sizes of the two stacks, by parity of depth, sufficient for every task
  std::vector<uint8_t> parity;   // (count): parity of the front's depth
};
// Use of a schedule. A solve has one thread per front; the solve of Cholesky treats a small subtree as one unit. A factorization in
// a file saves memory: large update matrices are not on stacks, and all threads share each front above the subtrees.
enum class Use { factor, factor_in_file, solve, solve_small_subtrees };
Schedule schedule(const AssemblyTree& tree, int threads, Use use);

// The tasks of a solve for the complete trees with the fronts [begin, end).
Schedule tasks_within(const Schedule& plan, int32_t begin, int32_t end);

// The last two schedules of one tree, for its numeric phases and its solves. Thread-safe.
class KeptSchedules {
 public:
  std::shared_ptr<const Schedule> of(const AssemblyTree& tree, int threads, Use use) const {
    if (threads <= 1 && use != Use::factor_in_file) use = Use::factor;     // one thread runs all fronts as one task
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!kept_[0].is(threads, use)) std::swap(kept_[0], kept_[1]);
    if (!kept_[0].is(threads, use)) kept_[0] = {threads, use, std::make_shared<const Schedule>(schedule(tree, threads, use))};
    return kept_[0].plan;
  }

 private:
  struct Kept {
    int threads = 0;
    Use use = Use::factor;
    std::shared_ptr<const Schedule> plan;
    bool is(int t, Use u) const { return threads == t && use == u; }
  };
  mutable std::mutex mutex_;
  mutable Kept kept_[2];
};

inline std::shared_ptr<const Schedule> plan_of(const AssemblyTree& tree, int threads, Use use) {
  return tree.schedules->of(tree, threads, use);
}

// Scalars of a numeric phase in addition to the panels: stacks, update matrices passed between tasks, entries of A.
int64_t work_scalars(const AssemblyTree& tree, int threads, Storage storage);

}  // namespace ms::fronts
