// The multifrontal engine that the factorizations share: an assembly tree of fronts, where each front is a dense block
// whose first `pivots` rows are eliminated and whose remaining rows form an update matrix for its parent.
// A user supplies what happens to one front; this room says where its parts lie, in which order fronts may run, and
// where update matrices live meanwhile.
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

// Everything that depends on the pattern alone. Front s owns the columns [first[s], first[s+1]) of L; its rows are those
// columns followed by the supernode's row list. Local row i of a front is counted from its first pivot.
struct AssemblyTree {
  std::shared_ptr<const symbolic::Symbolic> symbolic;
  std::vector<int32_t> child_ptr, child;        // (count + 1), (edges): children in ascending order
  RawVector<int32_t> relative;                  // (rows): local row in the parent's front of each row below the pivots
  std::vector<uint32_t> entry_ptr;              // (n + 1): lower entries of the permuted matrix by columns:
  Buffer<uint32_t> entry_source;                //   position in A's data
  Buffer<int32_t> entry_row;                    //   local row in the front of the column
  std::vector<int32_t> direct;                  // (count): of a front in a small subtree how many of its rows below the pivots lie
                                                //   in that subtree; -1 of a front above
  std::shared_ptr<const KeptSchedules> schedules;

  const symbolic::Supernodes& supernodes() const { return symbolic->supernodes; }
  int64_t entries() const { return entry_ptr.back(); }
  int32_t n() const { return static_cast<int32_t>(symbolic->analysis.perm.size()); }
  int32_t count() const { return static_cast<int32_t>(supernodes().parent.size()); }
  int32_t eliminated() const { return n() - symbolic->analysis.boundary; }         // columns
  int32_t boundary() const { return eliminated() < n() ? count() - 1 : -1; }       // the front that is not, or -1
  int32_t parent(int32_t s) const { return supernodes().parent[s]; }
  int32_t first(int32_t s) const { return supernodes().first[s]; }
  int64_t pivots(int32_t s) const { return supernodes().first[s + 1] - supernodes().first[s]; }
  int64_t updates(int32_t s) const { return supernodes().row_ptr[s + 1] - supernodes().row_ptr[s]; }
  int64_t height(int32_t s) const { return pivots(s) + updates(s); }
  const int32_t* rows(int32_t s) const { return supernodes().rows.data() + supernodes().row_ptr[s]; }
  const int32_t* relative_rows(int32_t s) const { return relative.data() + supernodes().row_ptr[s]; }
  int64_t nbytes() const;                       // of this and of the analysis
};

// A: the pattern that was analysed, both triangles. O(nnz(A) + rows) time and memory.
AssemblyTree assembly_tree(std::shared_ptr<const symbolic::Symbolic> symbolic, const Pattern& A, int threads);

// The (nnz(A),) indices of the pattern that was analysed, from the row pointers of A and the half of its entries that the tree
// knows: the other half are their mirror images. O(nnz(A)) time, 8 n bytes beside the result.
std::vector<int32_t> analysed_indices(const AssemblyTree& tree, const int64_t* ptr);

// An assembly tree without the entries of a matrix, for users that place their own: unsymmetric fronts.
AssemblyTree assembly_frame(std::shared_ptr<const symbolic::Symbolic> symbolic);

// An odd multiple of 8 from 64 rows on keeps the columns of a large panel from falling onto the same cache sets.
constexpr int64_t leading_dimension(int64_t height) {
  if (height < 64) return height;
  const int64_t rounded = (height + 7) / 8 * 8;
  return rounded % 64 ? rounded : rounded + 8;
}

// Whether threads, or one thread by steps, share the columns of a front: there is much work in it.
constexpr bool is_wide(int64_t pivots, int64_t height) { return pivots * height * height >= 40'000'000; }

// (count + 1): where each front's share of a factor begins, scalars(s) for front s.
template <class Scalars>
std::vector<int64_t> places(const AssemblyTree& tree, Scalars&& scalars) {
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

// Memory for a factor. Before a large one, what ordering and analysis worked in goes back to the system.
template <class T>
Buffer<T> panels(int64_t scalars, int threads) {
  return_free_memory(scalars * sizeof(T));
  return Buffer<T>(scalars, threads);
}

// Which fronts run together. Depends on the number of threads, results do not: a front always adds its children in
// ascending order.
struct Schedule {
  struct Task {
    int32_t begin, end;          // fronts [begin, end), a group of sibling subtrees or one front near the root
  };
  std::vector<Task> tasks;       // ascending
  std::vector<int32_t> parent;   // (tasks): the task of the parent front, -1 if that is in `last` or there is none
  std::vector<int32_t> leaves;   // tasks without children, that with the most work on its way to the root first
  std::vector<int32_t> last;     // ascending: fronts near the root, one after the other with all threads inside each; none for solves
  std::vector<int32_t> top;      // ascending: all fronts that are in no subtree task (single-front tasks and `last`)
  std::vector<int32_t> slot;     // (count): update matrix on the heap in this slot, or -1: on the worker's stack
  int32_t slots = 0;
  struct Stacks {                // sums over update matrices of what one of u rows takes
    int64_t square[2] = {0, 0};  // u^2
    int64_t lower[2] = {0, 0};   // UpdateShape
    int64_t linear[2] = {0, 0};  // u
    // `unit` scalars for each row, or what is Held of a matrix
    int64_t scalars(int64_t unit, int d) const { return unit > 0 ? linear[d] * unit : unit == squares ? square[d] : lower[d]; }
  } stacks;                      // sizes of the two stacks, by parity of depth, that suffice for every task
  std::vector<uint8_t> parity;   // (count): of the front's depth
};
// What a schedule is for. A solve works on a front with one thread; that of Cholesky takes small subtrees as a whole.
enum class Use { factor, solve, solve_small_subtrees };
Schedule schedule(const AssemblyTree& tree, int threads, Use use);

// The tasks of a solve in the whole trees that have the fronts [begin, end).
Schedule tasks_within(const Schedule& plan, int32_t begin, int32_t end);

// The last two schedules of one tree, for its numeric phases and its solves. Several threads may ask at once.
class KeptSchedules {
 public:
  std::shared_ptr<const Schedule> of(const AssemblyTree& tree, int threads, Use use) const {
    if (threads <= 1) use = Use::factor;               // one thread takes all fronts in one go
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

// Scalars that a numeric phase takes beside the panels: stacks, update matrices that pass between tasks, entries of A.
int64_t work_scalars(const AssemblyTree& tree, int threads, Held held);

}  // namespace ms::fronts
