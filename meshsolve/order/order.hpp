// Fill-reducing orderings of symmetric patterns: nested dissection with its separator tree, and approximate minimum degree.
// perm[k] is the old index of the k-th new row: A[perm][:, perm] is what is factored.
// Patterns come in symmetric and without diagonal (arrays.symmetric_pattern); minimum degree leaves out one that is stored.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sparse/csr.hpp"

namespace ms::order {

constexpr int32_t kSmall = 5000;            // vertices below which minimum degree alone has less fill and takes a millisecond
constexpr double kNearTree = 3.2;           // mean degree below which minimum degree is hard to beat

struct Options {               // nested.py has what they are as a rule
  int32_t patch_size;          // vertices of a sub-patch, the unit of the quotient graph
  int32_t leaf_size;           // parts up to this size are ordered by minimum degree
  int32_t band;                // layers on each side of a cut in which the minimum separator is looked for
  int32_t rounds;              // how often the band is laid anew around the separator found
  int32_t trials;              // bisections of the quotient graph, the best is refined
  int32_t candidates;          // of the trials, how many get a separator before one is chosen
  int32_t large;               // nodes below this size have one trial and one round; ten times as large: more of each
  double balance;              // the larger side may have (1 + balance) / 2 of a node
  double cheap;                // operations a row: where minimum degree is foreseen to need no more, nothing is ordered;
  double most;                 // nor where any order is foreseen to need more than so many
  uint64_t seed;
  int threads;
  bool bounded;                // minimum degree within the visits of bounded() below
};

// What one node of `weight` vertices is worth: little for the many small ones, more near the root, where a separator decides
// most of the operations and costs least.
struct Effort {
  int layers, rounds, trials, candidates;
};
Effort effort(const Options& options, int64_t weight);

// What minimum degree may spend.
struct Limits {
  double flops = std::numeric_limits<double>::infinity();        // bound of the Cholesky operations of its order
  double visits = std::numeric_limits<double>::infinity();       // entries of lists that it reads
};

// Near linear for every pattern. Meshes need at most 0.6 of it. Graphs without small separators, random ones and social networks, would
// need far more, for an order that is no better for an incomplete factor.
inline Limits bounded(int64_t nnz) {
  constexpr double kAnyway = 1 << 20;           // some milliseconds
  const double entries = static_cast<double>(std::max<int64_t>(nnz, 2));
  return {.visits = std::max(kAnyway, entries * std::log2(entries))};
}

// Nodes in postorder: parent[k] > k, or -1 for a root. [first[k], last[k]) are the new positions of node k's own vertices,
// its subtree lies right before them. The nodes partition 0..n; an edge joins a node with itself or with an ancestor.
struct Tree {
  std::vector<int32_t> parent, first, last;
};

struct Ordering {
  std::vector<int32_t> perm;
  Tree tree;
  bool too_many = false;       // nothing was ordered because of Options::most
  int32_t patches = 0;
  double patch_seconds = 0, order_seconds = 0;
};

Ordering nested_dissection(const Pattern& A, const Options& options);

// What minimum degree knows when it is done: the order, and the elimination tree and column counts of the pattern in that order.
// The latter two are empty where it has only bounds of them, because dense rows were put last or visits ran out.
struct Elimination {
  std::vector<int32_t> perm;
  std::vector<int32_t> parent, colcount;       // parent[j] > j or -1; the diagonal counts
  int64_t visits = 0;                          // entries of lists that were read
};


// Approximate minimum degree of the whole pattern; the vectors are empty once its operations pass limits.flops. Past limits.visits
// the vertices that are left follow by the bounds of their degrees.
Elimination amd(const Pattern& A, const Limits& limits = {});

// Reverse Cuthill-McKee order of a pattern without diagonal; each of the (n) roots that is not reached from earlier ones begins a search.
std::vector<int32_t> rcm(const Pattern& A, const int32_t* roots);

// The smallest color that no neighbor has, vertex by vertex, (n).
std::vector<int32_t> greedy_coloring(const Pattern& graph);

// Standard deviation of the lengths of rows beside their mean, or beside 1 if that is less; so many of the longest do not count.
double degree_spread(const int64_t* ptr, int64_t n, int64_t left_out);

// What breadth-first searches tell, which end after `most` levels or at half of the graph; nothing of graphs made of hubs.
struct Levels {
  int64_t width = 0;           // the most vertices in a level, without those with fewer than three neighbours. Without small separators,
                               // a factorization takes at least a tenth of its cube in operations; elsewhere more by far
  double dimension = 0;        // the power of the levels with which the vertices grow; 0 where there are fewer than four
};
Levels levels(const Pattern& A, int most, bool diagonal);          // diagonal: A has one

}  // namespace ms::order
