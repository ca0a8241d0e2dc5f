// Randomized approximate Cholesky factorization of a graph Laplacian L: the expectation of G diag(D) G^T is L[perm][:, perm].
// A diagonally dominant matrix is the Laplacian of a graph with one more vertex, the ground (number n). The ground is never
// eliminated; its row is not part of G.
// Source: Liang et al. 2025, "ParAC". The round-synchronous order is described in rounds.cpp.
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
  Pattern matrix;                       // off-diagonal entries are minus the edge weights; must outlive the graph
  const double* entries = nullptr;
  int64_t edges = 0, most = 0;          // edges, counted in both directions; largest number at one vertex
  RawVector<int64_t> ptr;               // (n + 1); empty, as the next two, unless Detail::edges
  RawVector<int32_t> to;                // (edges)
  RawVector<double> w;                  // (edges) > 0, except for positive entries of the matrix
  std::vector<double> ground;           // (n) weights of the edges to the ground; empty if no vertex has one
  std::vector<int32_t> origin;          // (n) matrix row of each vertex of ptr, to, w; empty: the same numbers
  double floor = 0;                     // smallest weight of a pivot's edge; 0 if no entry is positive, or for Detail::rows
  int64_t floored = 0;                  // number of positive off-diagonal entries: edges of negative weight
  int32_t bad_row = -1;                 // first row with a negative sum: not a Laplacian
  double excess = 0;                    // sum of that row
  int64_t degree(int32_t v) const { return ptr[v + 1] - ptr[v]; }
};

// The graph of a symmetric matrix with nonnegative row sums. Row sums within rounding of zero are zero.
enum class Detail { rows, floor, edges };       // checks of the rows; also the floor, for a given order; also the edges
Graph graph_of(const Pattern& A, const double* x, Detail detail, int threads = 1);

constexpr int64_t kGrain = 1 << 14;     // rows per task
constexpr int32_t kBlock = 32;          // rows that are prefetched or copied together

// Mean difference of the numbers of neighbors up to which a sweep over the vertices finds neighbors in the cache.
constexpr int64_t near_enough = 8192;

// True if the numbers of neighbors differ by more than `apart` on average.
bool is_scattered(const Graph& graph, int64_t apart, int threads = 1);

// Renumbers the vertices in breadth-first order. The factor depends on the numbers only through `origin` and through ties.
// O(nnz).
void gather_neighbors(Graph& graph);

struct Options {
  int samples = 1;                      // most copies of an edge
  uint64_t seed = 0;
  int threads = 1;
};

struct Pivots {
  RawVector<double> D;                  // (n)
  RawVector<int32_t> perm;              // (n)
  int64_t rounds = 0;                   // number of rounds of the round-synchronous order
  int64_t lost = 0;                     // samples whose weight underflowed
  int64_t visits = 0;                   // row entries and vertices read or moved: the work, except sorting
};

template <class T>
struct Factor {
  trisolve::ColumnStores<T> columns;    // columns of G; rows are positions in the order, ascending in a column for given orders
  Pivots pivots;
};

// Factor in a given order: left-looking, Algorithm 3 of the paper (parac.cpp). Reads the matrix.
template <class T> Factor<T> factor_ordered(const Graph& graph, const int32_t* perm, const Options& options);

// Factor in the round-synchronous dynamic order (rounds.cpp). Consumes the graph, which must have its edges. A scattered graph is
// renumbered first.
template <class T> Factor<T> factor_rounds(Graph&& graph, const Options& options);

// The operator G^-T D^+ G^-1: the inverse of G D G^T if no D is 0, else a symmetric generalized inverse. See inverse.cpp.
template <class T>
class Inverse {
 public:
  Inverse(Factor<T>&& factor, bool by_levels, int threads = 1);
  // Copies the columns of G in elimination order; the solves store them in another order.
  void columns(RawVector<int64_t>& ptr, RawVector<int32_t>& rows, RawVector<T>& values) const { lower_.original(ptr, rows, values); }
  const Pivots& pivots() const { return pivots_; }
  int64_t nnz() const { return lower_.nnz(); }
  int32_t null_components() const { return null_components_; }
  bool connected() const { return null_components_ == 1 && label_.empty(); }         // one component, without a ground
  int64_t nbytes() const;

  // X = G^-T D^+ G^-1 B for k right-hand sides; element (i, c) is at data[i * row + c * column].
  void apply(const double* B, int64_t row_b, int64_t column_b, double* X, int64_t row_x, int64_t column_x, int64_t k, int threads) const;
  // The same in the numbering of the solves: B and X have rows of k values, and row q belongs to matrix row positions()[q].
  void apply_inside(const double* B, double* X, int64_t k, int threads) const;
  const RawVector<int32_t>& positions() const { return position_; }
  // Subtracts from B, in place, its mean on each component without a ground. Rows of k values.
  void project(double* B, int64_t k) const;

 private:
  void label_components(const trisolve::ColumnStores<T>& columns);
  template <int K>
  void apply_block(const double* b, int64_t row_b, int64_t column_b, double* x, int64_t row_x, int64_t column_x, double* Y,
                   int threads) const;
  double* workspace(Buffer<double>& work, int64_t k) const;

  Pivots pivots_;
  RawVector<double> inverse_d_;         // (n) 1/D, 0 where D is 0, in the numbering of the solves
  RawVector<int32_t> position_;            // (n) matrix row of each row of the solves
  std::vector<int32_t> label_;          // (n) component without a ground of each row, or -1; empty if all rows are in one
  std::vector<double> size_;            // (null_components) number of rows
  int32_t null_components_ = 0;
  trisolve::UnitLower<T> lower_;
  std::unique_ptr<Workspace<Buffer<double>>> work_ = std::make_unique<Workspace<Buffer<double>>>();
};

}  // namespace ms::parac
