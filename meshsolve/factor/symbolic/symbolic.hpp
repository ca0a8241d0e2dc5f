// Symbolic Cholesky: what the pattern of A and an ordering say about L, before any number is touched.
// The chain is  strict triangle and elimination tree -> postorder -> column counts -> supernodes -> their row lists,
// each step a file of its own. Everything is near linear in nnz(A); L itself is written only when it is asked for.
// Numbering: "given" is that of perm as handed in, "new" is that of Analysis::perm, which follows it by a postorder.
// A is a full symmetric pattern (both triangles); its diagonal may be stored or not and is never read.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "sparse/csr.hpp"
#include "native/memory/raw_vector.hpp"
#include "order/order.hpp"
#include "relaxation.hpp"

namespace ms::symbolic {

struct Analysis {                       // of A[perm][:, perm]
  std::vector<int32_t> perm;            // (n) perm[k] = old index of new k: the given ordering followed by a postorder
  std::vector<int32_t> iperm;           // (n) iperm[perm[k]] = k
  std::vector<int32_t> parent;          // (n) elimination tree: parent[j] > j or -1; every subtree is a range ending in its root
  std::vector<int32_t> colcount;        // (n) nonzeros of column j of L, diagonal included
  int64_t nnz = 0;                      // of L: the sum of colcount
  double flops = 0;                     // the sum of colcount^2 of the columns that are eliminated
  int32_t boundary = 0;                 // the last columns, if any, are not: they are one dense supernode, which is assembled alone
  void total();                         // sets the two from colcount
  int32_t n() const { return static_cast<int32_t>(perm.size()); }
};

struct Supernodes {                     // columns of L that are stored as one dense block
  std::vector<int32_t> first;           // (s + 1) supernode s owns the columns [first[s], first[s + 1])
  std::vector<int32_t> parent;          // (s) assembly tree: parent[s] > s or -1, postordered
  std::vector<int64_t> row_ptr;         // (s + 1)
  RawVector<int32_t> rows;              // (row_ptr[s]) rows of L below the block of s, ascending
  int64_t nbytes() const;               // of the blocks in double precision and of `rows`
};

struct Symbolic {                          // what Python holds as _core.Analysis
  Analysis analysis;
  Supernodes supernodes;
};

// The relaxation taken where none is given: small supernodes at up to 256 zeros, which cost less than a front, larger ones by shares.
inline constexpr Rule kRules[] = {{4, 1.0, 256},
                                  {16, 0.25, std::numeric_limits<double>::infinity()},
                                  {48, 0.10, std::numeric_limits<double>::infinity()},
                                  {std::numeric_limits<double>::infinity(), 0.05, std::numeric_limits<double>::infinity()}};
inline constexpr Relaxation kRelaxation{kRules, 4};

// The whole chain. The result does not depend on the number of threads: they take subtrees, and the caller what is above them.
// The last `boundary` rows of perm stay in place, see Analysis.
Symbolic analyze(const Pattern& A, const int32_t* perm, int threads, const Relaxation& relaxation = kRelaxation, int32_t boundary = 0);

// The same result where the elimination tree and the column counts came with the ordering.
Symbolic analyze(const Pattern& A, const order::Elimination& known, int threads, const Relaxation& relaxation = kRelaxation);

// The pattern of L by columns: the diagonal first, rows ascending.
OwnedPattern pattern_lca(const Pattern& A, const Analysis& analysis, int threads);

// The parts, in the order in which they run.

struct Triangles {                      // the strict triangles of A[perm][:, perm] by rows, given numbers, columns in any order
  std::vector<int64_t> begin;           // (n + 1) row k has the room from begin[k] to begin[k + 1]:
  std::vector<int32_t> lower, upper;    // (n) lower[k] columns j < k at its beginning, upper[k] columns j > k at its end
  std::unique_ptr<int32_t[]> columns;
  std::vector<int32_t> parent;          // (n) its elimination tree
};

struct Span { int32_t begin, end; };    // the nodes [begin, end)

struct Skeleton {                       // per row of the triangle the leaves of its row subtree: they decide L
  std::vector<int32_t> slot;            // (n) new row k is kept in slot[k]
  std::vector<int64_t> begin;           // (n or more) slot r holds the columns (new numbers, ascending)
  std::vector<int32_t> count;           // (n)         leaves[begin[r]] to leaves[begin[r] + count[r] - 1]
  std::unique_ptr<int32_t[]> leaves;
};

Triangles etree(const Pattern& A, const int32_t* perm, const int32_t* iperm, int threads);
std::vector<int32_t> postorder(const std::vector<int32_t>& parent);         // place[j] = position of node j
std::vector<int32_t> inverse(const int32_t* perm, int32_t n, int threads);
// The subtrees that `threads` share out, ascending: the largest of at most share() nodes; none where one thread does it all.
std::vector<Span> subtrees(const std::vector<int32_t>& parent, int threads);
std::vector<Span> subtrees(const std::vector<int32_t>& parent, const std::vector<int32_t>& size, int threads);
std::vector<int32_t> subtree_sizes(const std::vector<int32_t>& parent);                    // of a postordered tree
// place[j] = position of node j; parent is that of positions. Column counts look at every leaf, so the skeleton comes with them
// where it is asked for.
std::vector<int32_t> colcount(Triangles A, const std::vector<int32_t>& place, const std::vector<int32_t>& parent, int threads,
                              Skeleton* skeleton);
// Those above.
Analysis analyze_columns(const Pattern& A, const int32_t* perm, int threads, Skeleton* skeleton, int32_t boundary = 0);
std::vector<int32_t> fundamental_supernodes(const Analysis& analysis, int threads);        // (s + 1) first columns

// Relaxed supernodes. Children that join their parent are moved next to it by another postorder: `analysis` is renumbered. Their
// rows come from the skeleton, or where there is none from A.
Supernodes relax(const Pattern& A, const Skeleton* skeleton, Analysis& analysis, int threads, const Relaxation& relaxation);

// The skeleton of a pattern that was analysed before, rows in parallel.
Skeleton skeleton(const Pattern& A, const Analysis& analysis, int threads);

// Appends each row to the lists of all blocks that it meets. A block is a connected piece of the tree, named by an id that
// ascends with its last column. old_row[i] = skeleton's number of row i, block_of[j] = block of column j, up[b] = block above b,
// next[b] = where the list of b begins in `rows`, parent = elimination tree of the rows.
void row_lists(const Skeleton& skeleton, const std::vector<int32_t>& old_row, const std::vector<int32_t>& block_of,
               const std::vector<int32_t>& up, const std::vector<int32_t>& parent, std::vector<int64_t>& next,
               RawVector<int32_t>& rows, int threads);

// The same lists without a skeleton; block_of has the blocks of the vertices of A.
void row_lists(const Pattern& A, const Analysis& analysis, const std::vector<int32_t>& block_of, const std::vector<int32_t>& up,
               std::vector<int64_t>& next, RawVector<int32_t>& rows, int threads);

// Nodes of the subtrees that threads take: small enough to share out, large enough to leave little above them.
inline int32_t share(int32_t n, int threads) { return threads > 1 && n >= 50'000 ? n / 64 : n; }

}  // namespace ms::symbolic
