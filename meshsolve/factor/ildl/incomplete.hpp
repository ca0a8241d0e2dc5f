// Incomplete L D L^T factorization by tiles: matched rows share a tile of at most 32 rows, and fill is allowed up to a coarse
// level. Pivots of one and two rows are chosen inside the diagonal tile. Small entries of a finished block row are dropped.
// Source: Thuerck, Naumov, Garland, Goesele 2018, "A block-oriented, parallel and collective approach to sparse indefinite
// preconditioning on GPUs"; level of fill on blocks as in Hysom and Pothen 2001.
// Numbers below are "new": those of the rows in the order of the tiles.
#pragma once
#include <memory>
#include <vector>

#include "factor/ildl/pivoting.hpp"
#include "factor/trisolve/trisolve.hpp"
#include "sparse/csr.hpp"
#include "native/memory/kept.hpp"
#include "native/memory/raw_vector.hpp"
#include "native/memory/strided.hpp"

namespace ms::ildl {

// Tiles cut from an order of vertices of size[v] rows, filled up to `capacity` rows (a larger vertex is a tile by itself). With
// the elimination tree of a postorder a tile also ends with a subtree of more rows whose parent is not next. The next rows are
// independent of this subtree, and a common tile would delay both.
std::vector<int32_t> cut_tiles(const int32_t* size, int32_t count, int32_t capacity, const int32_t* parent = nullptr);

// Group of each vertex, by first vertices: vertices with similar neighborhoods, together at most `capacity` rows.
std::vector<int32_t> similar_vertices(const Pattern& graph, const int32_t* size, int32_t capacity);

// The matrix whose k-th row is rows[k]; entry p of it is entry source[p] of A. Entries of a row keep their order.
struct Renumbered {
  OwnedPattern matrix;
  std::vector<int64_t> source;
};
Renumbered renumber(const Pattern& A, const int32_t* rows, int threads);

// Block rows of the upper triangle without the diagonal tiles, and the rows above that each depends on.
struct LevelPattern {
  std::vector<int64_t> ptr;               // (tiles + 1)
  std::vector<int32_t> column;            // tiles j > i that row i may fill, ascending
  std::vector<int64_t> above_ptr;         // (tiles + 1)
  std::vector<int32_t> above;             // tiles k < i whose row may fill tile i, ascending
  std::vector<int32_t> order, depth_ptr;  // tiles by depth: tiles of one depth are independent
  int64_t original = 0;                   // entries of `column` that hold entries of A
};

// `tile_of[i]` ascends with i. O(work of a factorization of the coarse pattern).
LevelPattern level_pattern(const Pattern& A, const std::vector<int32_t>& tile_begin, const std::vector<int32_t>& tile_of,
                           int64_t level);

struct Rule {
  Pivoting pivoting = Pivoting::rook;
  double droptol = 1e-3;                  // dropped entries, relative to the norm of their row
  double max_fill = 8;                    // columns a block row may keep, as a multiple of its columns in A; later rows get the rest
};

struct Statistics {
  int64_t perturbed = 0, pairs = 0, dropped = 0, stored = 0;
  int64_t positive = 0, negative = 0;
};

// A factor, in the order of elimination.
struct IncompleteFactor {
  std::vector<int32_t> order;             // (n) new row eliminated k-th: differs inside tiles only
  std::vector<double> d, e;               // (n) diagonal of D, and below it (e[k] != 0: k and k + 1 are one pivot)
  OwnedPattern columns;                   // of L below its diagonal, rows unsorted
  std::vector<double> minus_values;       // -L
  Statistics statistics;
  int32_t n() const { return static_cast<int32_t>(d.size()); }
};

// The part of the factorization that depends on the pattern alone.
class Incomplete {
 public:
  // A: the matrix in new numbers, both triangles.
  Incomplete(std::vector<int32_t> tile_begin, const Pattern& A, int64_t level);

  // The factor of A with these values (scaled).
  IncompleteFactor factor(const Pattern& A, const double* values, const Rule& rule, int threads) const;

  int32_t n() const { return static_cast<int32_t>(tile_of_.size()); }
  int32_t tiles() const { return static_cast<int32_t>(tile_begin_.size()) - 1; }
  const LevelPattern& pattern() const { return pattern_; }

 private:
  class Numeric;

  std::vector<int32_t> tile_begin_, tile_of_;
  LevelPattern pattern_;
  std::vector<int64_t> square_;           // (tiles + 1) begin of each tile's unit lower triangle in the array of all
};

// The inverse of an incomplete factor as an operator, its L stored as T. Rows are renumbered by level sets for the threads.
template <class T>
class Inverse {
 public:
  // row[k] = caller's row of the k-th row eliminated; scale = diagonal of S, in the caller's numbering.
  Inverse(const IncompleteFactor& factor, const int32_t* row, const double* scale, int threads);

  // X := S P (L D L^T)^-1 P^T S B in the caller's numbering.
  void solve(Strided<const double> B, Strided<double> X, int64_t k, int threads) const;
  int64_t nbytes() const;

 private:
  trisolve::UnitLower<T> lower_;
  std::vector<int32_t> row_;              // (n) the caller's row of each row of lower_
  std::vector<double> scale_;             // (n) its entry of S
  std::vector<double> p_, q_;             // D^-1: x_k -> p_k x_k + q_k x_partner
  std::vector<int32_t> partner_;          // (n) other row of the pivot of each row of lower_; the row itself for a 1x1 pivot
  struct Space {
    RawVector<double> y, z;
  };
  mutable Workspace<Space> space_;
};

// Pivoted L D L^T of the full symmetric m x m tile a (column-major, overwritten), m <= 32. L: unit lower, by columns; order[k] =
// row of the tile eliminated k-th; e[k] != 0: k and k + 1 are one pivot. Pivots below `tiny` become +-tiny. Returns their number.
constexpr int32_t largest_tile = 32;
int factor_tile(int m, double* a, double* L, double* d, double* e, int* order, Pivoting pivoting);

}  // namespace ms::ildl
