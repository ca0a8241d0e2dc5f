// Fill-reducing orderings of symmetric patterns: nested dissection with its separator tree, and approximate minimum degree.
//
// perm[k] is the old index of the k-th new row: the matrix A[perm][:, perm] is factored.
// Patterns are symmetric and without diagonal (sparse.matrix.symmetric_pattern). Minimum degree skips a diagonal that is stored.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sparse/csr.hpp"

namespace ms::order {

constexpr int32_t kSmall = 5000;            // number of vertices below which minimum degree alone has less fill, in about 1 ms
constexpr double kNearTree = 3.2;           // mean degree of a near-tree, for which minimum degree is close to optimal

struct Options {               // defaults: EFFORTS in nested.py
  int32_t patch_size;          // vertices per sub-patch, a vertex of the quotient graph
  int32_t leaf_size;           // largest part that minimum degree orders
  int32_t band;                // layers on each side of a cut that are searched for the minimum separator
  int32_t rounds;              // rounds of band refinement; each rebuilds the band around the last separator
  int32_t trials;              // bisections of the quotient graph per node
  int32_t candidates;          // best trials whose vertex separators are computed and compared
  int32_t large;               // vertices of a node: one trial and one round below it, extra ones above ten times as many
  double balance;              // the larger side has at most the share (1 + balance) / 2 of a node
  double cheap;                // operations per row: if minimum degree is estimated to need no more, nothing is ordered
  double most;                 // operations per row: if every order is estimated to need more, nothing is ordered
  uint64_t seed;
  int threads;
  bool bounded;                // minimum degree keeps to the visits of bounded() below
  int64_t stop;                // parts of up to so many vertices are left in any order: only larger separators are computed; 0: none
};

// Effort spent on the separator of a node of `weight` vertices. Nodes near the root get more: they are few, and their separators
// account for most of the operations.
struct Effort {
  int layers, rounds, trials, candidates;
};
Effort effort(const Options& options, int64_t weight);

// Limits of minimum degree.
struct Limits {
  double flops = std::numeric_limits<double>::infinity();        // upper bound of the Cholesky operations of the order
  double visits = std::numeric_limits<double>::infinity();       // list entries read
};

// Visits of nnz log2(nnz): nearly linear time for every pattern. Meshes need at most 0.6 of it. Graphs without small separators
// (random graphs, social networks) would need far more, and an incomplete factor gains nothing from it.
inline Limits bounded(int64_t nnz) {
  constexpr double kFewVisits = 1 << 20;        // smallest limit: a few milliseconds
  const double entries = static_cast<double>(std::max<int64_t>(nnz, 2));
  return {.visits = std::max(kFewVisits, entries * std::log2(entries))};
}

// Separator tree, nodes in postorder: parent[k] > k, or -1 for a root. [first[k], last[k]) are the new positions of the vertices
// of node k; its subtree lies right before them. The nodes partition 0..n. Every edge joins a node with itself or with an
// ancestor.
struct Tree {
  std::vector<int32_t> parent, first, last;
};

struct Ordering {
  std::vector<int32_t> perm;
  Tree tree;
  bool too_many = false;       // nothing was ordered: more than Options::most operations estimated
  int32_t patches = 0;
  double patch_seconds = 0, order_seconds = 0;
};

Ordering nested_dissection(const Pattern& A, const Options& options);

// A minimum degree order, with the elimination tree and the column counts of the pattern in that order. Tree and counts are empty
// if only bounds of them are available, because dense rows come last or the limit of visits was reached. Rows that are never
// eliminated are a chain at the top of the tree, as in symbolic::Analysis.
struct Elimination {
  std::vector<int32_t> perm;
  std::vector<int32_t> parent, colcount;       // parent[j] > j or -1; the counts include the diagonal
  int64_t visits = 0;                          // list entries read
};

// Approximate minimum degree of the whole pattern. The vectors are empty if the operations exceed limits.flops. Once the visits
// exceed limits.visits, the remaining vertices follow by ascending bounds of their degrees. The rows `last` follow all others, in
// this order: they are never eliminated, but count in the degrees.
Elimination amd(const Pattern& A, const Limits& limits = {}, std::span<const int32_t> last = {});

// Reverse Cuthill-McKee order of a pattern without diagonal. roots: (n) vertices; each that is not yet reached starts a search.
std::vector<int32_t> rcm(const Pattern& A, const int32_t* roots);

// Greedy coloring: each vertex in turn gets the smallest color that no neighbor has, (n).
std::vector<int32_t> greedy_coloring(const Pattern& graph);

// Standard deviation of the row lengths divided by max(mean, 1), without the `left_out` longest rows.
double degree_spread(const int64_t* ptr, int64_t n, int64_t left_out);

// Shape of the level structures of breadth-first searches. Zero for graphs in which dense rows hold most entries.
struct Levels {
  int64_t width = 0;           // most vertices of degree >= 3 in a level. Without small separators, a factorization takes at least
                               // width^3 / 10 operations; with them, far more than that
  double dimension = 0;        // exponent d in vertices ~ levels^d; 0 if there are fewer than four levels
};
Levels levels(const Pattern& A, int most, bool diagonal);    // up to `most` levels; diagonal: A stores it

}  // namespace ms::order
