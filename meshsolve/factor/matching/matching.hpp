// Permutations before an unsymmetric factorization: large entries onto the diagonal, and block triangular form. Pairs of rows
// that are candidates of 2x2 pivots, for symmetric matrices. A is given by rows. A matching has for each column j the row
// row_of[j]; the entry (row_of[j], j) moves to the diagonal.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "sparse/csr.hpp"

namespace ms::matching {

struct Matching {
  std::vector<int32_t> row_of;               // (n) row matched with each column, or -1 if the matrix is structurally singular
  std::vector<double> row_scale, col_scale;  // (n) |r_i a_ij c_j| <= 1, and = 1 on the entries of a maximum product
  int32_t rank = 0;                          // structural rank: matched columns
};

// Maximizes the product of the absolute values of the matched entries; zeros are not matched. Then diagonal entries that are
// nearly as large replace matched entries, which keeps symmetric patterns symmetric.
Matching maximum_product(const Pattern& A, const double* values, int threads);

struct SymmetricMatching {
  std::vector<double> scale;                 // (n) |s_i a_ij s_j| <= 1
  std::vector<int32_t> partner;              // (n) the other row of a candidate 2x2 pivot, or -1 for a 1x1 pivot
  int32_t rank = 0;                          // structural rank
};

// For a symmetric A with both triangles. The entry of a matched pair has the scaled absolute value 1 up to rounding; with a dense
// row it is at most 1.
SymmetricMatching symmetric(const Pattern& A, const double* values, int threads);

// Most entries of a row that is not dense, as in minimum degree orderings.
inline double sparse_most(int64_t n) { return 16 + 10 * std::sqrt(static_cast<double>(n)); }

// Dense rows, ascending; empty if there are too many.
std::vector<int32_t> dense_rows(const Pattern& A);

// A matching of a symmetric A (row_of and rank) and its scaling. The product is maximal for the other rows; dense rows are
// matched last. False if the other rows have no complete matching, or if one exchange is not enough for a dense row.
bool match_around(const Pattern& A, const double* values, const std::vector<int32_t>& dense, int threads, Matching& matched,
                  std::vector<double>& scale);

// 1 for each row that is no 1x1 pivot in the order perm: its scaled diagonal entry is small, and no earlier 1x1 pivot is its
// neighbor and fills it.
std::vector<uint8_t> weak_rows(const Pattern& A, const double* values, const double* scale, const int32_t* perm);

struct Compression {                         // the graph in which each pair is one vertex
  OwnedPattern graph;                        // symmetric, without diagonal, ascending
  std::vector<int32_t> first;                // (vertices) smallest row of each vertex
};
Compression compress(const Pattern& A, const int32_t* partner, int threads);

// The rows of vertices in their order, both rows of a pair side by side.
std::vector<int32_t> rows_of_vertices(const int32_t* first, const int32_t* vertices, int64_t count, const int32_t* partner, int64_t n);

// The vertices in the order of the rows perm; a vertex takes the position of its later row.
std::vector<int32_t> vertices_of_rows(const int32_t* first, int64_t count, const int32_t* perm, const int32_t* partner, int64_t n);

// The pattern of n rows, without diagonal, in which both rows of a pair have the neighbors of either, because a 2x2 pivot
// fills them.
OwnedPattern expand(const Pattern& graph, const int32_t* first, const int32_t* partner, int32_t n, int threads);

// Strongly connected components of the matrix with row row_of[j] at position j. block[j] numbers them so that
// the reordered matrix is block upper triangular. Returns the number of blocks.
int32_t block_triangular(const Pattern& A, const std::vector<int32_t>& row_of, std::vector<int32_t>& block);

// The pattern of A + A^T without its diagonal, of the diagonal blocks of the reordered matrix: row j is row row_of[j] of A.
OwnedPattern diagonal_blocks(const Pattern& A, const std::vector<int32_t>& row_of, const std::vector<int32_t>& block);

}  // namespace ms::matching
