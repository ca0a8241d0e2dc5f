// Symbolic Cholesky: the structure of L from the pattern of A and an ordering. Steps, one file each: strict triangle and
// elimination tree -> postorder -> column counts -> supernodes -> row lists of supernodes. Cost: almost linear in nnz(A). The
// pattern of L is computed on request only. Numbering: "given" is that of the given perm, "new" is that of Analysis::perm, the
// given one followed by a postorder. A is a full symmetric pattern (both triangles); its diagonal may be stored or not and is
// never read.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "sparse/csr.hpp"
#include "native/forest.hpp"
#include "native/memory/raw_vector.hpp"
#include "order/order.hpp"
#include "relaxation.hpp"

namespace ms::symbolic {

struct Analysis {                       // of A[perm][:, perm]
  std::vector<int32_t> perm;            // (n) perm[k] = old index of new k: the given ordering followed by a postorder
  std::vector<int32_t> iperm;           // (n) iperm[perm[k]] = k
  std::vector<int32_t> parent;          // (n) elimination tree: parent[j] > j or -1; a subtree is a range that ends with its root
  std::vector<int32_t> colcount;        // (n) nonzeros of column j of L, diagonal included
  int64_t nnz = 0;                      // nonzeros of L: sum of colcount
  double flops = 0;                     // sum of colcount^2 over the eliminated columns
  int32_t boundary = 0;                 // number of last columns not eliminated: the Schur interface, one dense supernode
  void total(int threads = 1);          // computes nnz and flops from colcount
  int32_t n() const { return static_cast<int32_t>(perm.size()); }
};

struct Supernodes {                     // columns of L that are stored as one dense block
  std::vector<int32_t> first;           // (s + 1) supernode s owns the columns [first[s], first[s + 1])
  std::vector<int32_t> parent;          // (s) assembly tree: parent[s] > s or -1, postordered
  std::vector<int64_t> row_ptr;         // (s + 1)
  RawVector<int32_t> rows;              // (row_ptr[s]) rows of L below the block of s, ascending
  int64_t nbytes() const;               // blocks in double precision, and `rows`
};

struct Symbolic {                          // _core.Analysis of Python
  Analysis analysis;
  Supernodes supernodes;
};

// The default relaxation: small supernodes with up to 256 zeros, which cost less than a front; larger ones by shares.
inline constexpr Rule kRules[] = {{4, 1.0, 256},
                                  {16, 0.25, std::numeric_limits<double>::infinity()},
                                  {48, 0.10, std::numeric_limits<double>::infinity()},
                                  {std::numeric_limits<double>::infinity(), 0.05, std::numeric_limits<double>::infinity()}};
inline constexpr Relaxation kRelaxation{kRules, 4};

// All steps. Threads process subtrees and the caller the nodes above them; the result does not depend on their number. The last
// `boundary` rows of perm stay last, see Analysis.
Symbolic analyze(const Pattern& A, const int32_t* perm, int threads, const Relaxation& relaxation = kRelaxation, int32_t boundary = 0);

// The same result from an ordering that has computed the elimination tree and the column counts.
Symbolic analyze(const Pattern& A, const order::Elimination& known, int threads, const Relaxation& relaxation = kRelaxation,
                 int32_t boundary = 0);

// The pattern of L by columns: the diagonal first, rows ascending.
OwnedPattern pattern_lca(const Pattern& A, const Analysis& analysis, int threads);

// The steps, in their order.

struct Triangles {                      // strict triangles of A[perm][:, perm] by rows, given numbering, columns unsorted
  std::vector<int64_t> begin;           // (n + 1) row k has the positions [begin[k], begin[k + 1]):
  std::vector<int32_t> lower, upper;    // (n) lower[k] columns j < k at its beginning, upper[k] columns j > k at its end
  std::unique_ptr<int32_t[]> columns;
  std::vector<int32_t> parent;          // (n) its elimination tree
  std::vector<Span> ranges;             // ascending, for threads: no row of a range has a column before the range
};

struct Postorder {
  std::vector<int32_t> position;        // (n) position[j] = position of node j
  std::vector<int32_t> size;            // (n) nodes of the subtree of the node at each position
};

struct Skeleton {                       // the leaves of the row subtree of each row, which determine L
  std::vector<int32_t> slot;            // (n) slot of new row k
  std::vector<int64_t> begin;           // (n or more) slot r holds the columns (new numbers, ascending)
  std::vector<int32_t> count;           // (n)         leaves[begin[r]] to leaves[begin[r] + count[r] - 1]
  std::unique_ptr<int32_t[]> leaves;
};

Triangles etree(const Pattern& A, const int32_t* perm, const int32_t* iperm, int threads);
Postorder postorder(const std::vector<int32_t>& parent, const std::vector<Span>& ranges = {}, int threads = 1);
std::vector<int32_t> inverse(const int32_t* perm, int32_t n, int threads);
// Subtrees for `threads` threads, ascending: the largest ones of at most share() nodes; empty for one thread.
std::vector<Span> subtrees(const std::vector<int32_t>& parent, int threads);
std::vector<Span> subtrees(const std::vector<int32_t>& parent, const std::vector<int32_t>& size, int threads);
std::vector<int32_t> subtree_sizes(const std::vector<int32_t>& parent);                    // of a postordered tree
// Column counts; `parent` is in postorder. They visit every leaf, so they also return the skeleton if requested.
std::vector<int32_t> colcount(Triangles A, const Postorder& order, const std::vector<int32_t>& parent, int threads, Skeleton* skeleton);
// Without the skeleton.
Analysis analyze_columns(const Pattern& A, const int32_t* perm, int threads, Skeleton* skeleton, int32_t boundary = 0);
std::vector<int32_t> fundamental_supernodes(const Analysis& analysis, int threads);        // (s + 1) first columns

// Relaxed supernodes. Another postorder moves children that join their parent next to it, and renumbers `analysis`. Row lists
// come from the skeleton, or from A without one.
Supernodes relax(const Pattern& A, const Skeleton* skeleton, Analysis& analysis, int threads, const Relaxation& relaxation);

// The skeleton of a pattern that was analyzed before, rows in parallel.
Skeleton skeleton(const Pattern& A, const Analysis& analysis, int threads);

// Appends each row to the lists of all blocks in its row subtree. A block is a connected part of the tree. Block ids ascend with
// the last column. `old_row[i]` = row i in the skeleton, block_of[j] = block of column j, up[b] = parent block of b, next[b] =
// begin of the list of b in `rows`, parent = elimination tree of the rows.
void row_lists(const Skeleton& skeleton, const std::vector<int32_t>& old_row, const std::vector<int32_t>& block_of,
               const std::vector<int32_t>& up, const std::vector<int32_t>& parent, std::vector<int64_t>& next,
               RawVector<int32_t>& rows, int threads);

// The same without a skeleton; block_of has the blocks of the vertices of A.
void row_lists(const Pattern& A, const Analysis& analysis, const std::vector<int32_t>& block_of, const std::vector<int32_t>& up,
               std::vector<int64_t>& next, RawVector<int32_t>& rows, int threads);

// Largest number of nodes of a subtree for one thread: small enough for load balance, large enough to leave few nodes above.
inline int32_t share(int32_t n, int threads) { return threads > 1 && n >= 50'000 ? n / 64 : n; }

}  // namespace ms::symbolic
