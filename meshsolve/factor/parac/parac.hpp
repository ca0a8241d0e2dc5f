// Randomized approximate Cholesky factorization of a graph Laplacian: G diag(D) G^T is L[perm][:, perm] in expectation.
// A diagonally dominant matrix is the Laplacian of a graph with one more vertex, the ground (number n), that is never
// eliminated; its row is not part of G.
// Source: Liang et al. 2025, "ParAC"; the round-synchronous order is described in rounds.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "factor/trisolve/trisolve.hpp"
#include "native/memory/buffer.hpp"
#include "sparse/csr.hpp"
#include "native/memory/kept.hpp"
#include "native/memory/raw_vector.hpp"

namespace ms::parac {

struct Graph {
  int32_t n = 0;
  Pattern matrix;                       // whose off-diagonal entries are minus the weights of the edges: it has to stay
  const double* entries = nullptr;
  int64_t edges = 0, most = 0;          // both directions of every edge; of one vertex, at most
  RawVector<int64_t> ptr;               // (n + 1); empty with the next two where the edges were not asked for
  RawVector<int32_t> to;                // (edges)
  RawVector<double> w;                  // (edges) > 0, but for positive entries of the matrix
  std::vector<double> ground;           // (n) weights of the edges to the ground; empty where there is none
  std::vector<int32_t> origin;          // (n) the matrix' number of each vertex of ptr, to, w; empty: the same
  double floor = 0;                     // least weight of a pivot's edge; 0 where no entry is positive, or it was not asked for
  int64_t floored = 0;                  // positive off-diagonal entries: edges of negative weight
  int32_t bad_row = -1;                 // first row that is no row of a Laplacian
  double excess = 0;                    // its sum
  int64_t degree(int32_t v) const { return ptr[v + 1] - ptr[v]; }
};

// The graph of a symmetric matrix with non-negative row sums. Row sums within rounding of zero are zero.
enum class Detail { rows, floor, edges };       // what its rows are like; and the floor, for a factor in a given order; and the edges
Graph graph_of(const Pattern& A, const double* x, Detail detail, int threads = 1);

// Neighbours whose numbers differ by no more on average are found in the cache by whoever sweeps over the vertices.
constexpr int64_t near_enough = 8192;

bool is_scattered(const Graph& graph, int64_t apart, int threads = 1);

// Numbers the vertices in breadth-first order. What follows depends on the numbers through `origin` and through ties only. O(nnz).
void gather_neighbours(Graph& graph);

struct Options {
  int samples = 1;                      // copies of an edge, at most
  uint64_t seed = 0;
  int threads = 1;
};

struct Pivots {
  RawVector<double> D;                  // (n)
  RawVector<int32_t> perm;              // (n)
  int64_t rounds = 0;                   // of the round-synchronous order
  int64_t lost = 0;                     // samples whose weight underflowed
  int64_t visits = 0;                   // row entries and vertices that were read or moved: the work but for sorting
};

template <class T>
struct Factor {
  trisolve::ColumnStores<T> columns;    // of G; rows are positions in the order, ascending in a column for given orders
  Pivots pivots;
};

// Factor in a given order: left-looking, the paper's Algorithm 3 (parac.cpp). Reads the matrix itself.
template <class T> Factor<T> factor_ordered(const Graph& graph, const int32_t* perm, const Options& options);

// Factor in the round-synchronous dynamic order (rounds.cpp). Uses the graph up, which has its edges.
// Of a graph that is scattered neighbours are gathered first.
template <class T> Factor<T> factor_rounds(Graph&& graph, const Options& options);

// The inverse of G D G^T; where D is 0, its pseudo-inverse.
template <class T>
class Inverse {
 public:
  Inverse(Factor<T>&& factor, bool by_levels, int threads = 1);
  // The columns of G anew, in the order of elimination: the solves have them in another.
  void columns(RawVector<int64_t>& ptr, RawVector<int32_t>& rows, RawVector<T>& values) const { lower_.original(ptr, rows, values); }
  const Pivots& pivots() const { return pivots_; }
  int64_t nnz() const { return lower_.nnz(); }
  int32_t null_components() const { return null_components_; }
  bool connected() const { return null_components_ == 1 && label_.empty(); }         // and no ground anywhere
  int64_t nbytes() const;

  // X := (G D G^T)^+ B for k right-hand sides; element (i, c) at data[i * row + c * column].
  void apply(const double* B, int64_t row_b, int64_t column_b, double* X, int64_t row_x, int64_t column_x, int64_t k, int threads) const;
  // The same with B and X by rows of k values, row q of both standing for row places()[q]: in the numbering of the solves.
  void apply_inside(const double* B, double* X, int64_t k, int threads) const;
  const RawVector<int32_t>& places() const { return place_; }
  // B := B minus its mean on each component without a ground, in place, by rows of k values.
  void project(double* B, int64_t k) const;

 private:
  void label_components(const trisolve::ColumnStores<T>& columns);
  template <int K>
  void apply_block(const double* b, int64_t row_b, int64_t column_b, double* x, int64_t row_x, int64_t column_x, double* Y,
                   int threads) const;
  double* room(Buffer<double>& work, int64_t k) const;

  Pivots pivots_;
  RawVector<double> inverse_d_;         // (n) 1/D, 0 where D is 0, in the numbering of the solves
  RawVector<int32_t> place_;            // (n) the caller's row of each row of the solves
  std::vector<int32_t> label_;          // (n) component of each vertex without a ground, -1 with; empty if all are in one
  std::vector<double> size_;            // (null_components) rows
  int32_t null_components_ = 0;
  trisolve::UnitLower<T> lower_;
  std::unique_ptr<KeptSpace<Buffer<double>>> work_ = std::make_unique<KeptSpace<Buffer<double>>>();
};

}  // namespace ms::parac
