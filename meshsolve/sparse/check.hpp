// Checks and repairs of compressed rows that arrays.py runs on everything a user hands over.
#pragma once
#include <array>

#include "csr.hpp"

namespace ms {

enum class RowState { valid, unsorted, invalid };
struct RowCheck { RowState state; int64_t row; };

// Are the pointers ascending from 0 to nnz, the indices in range, ascending and distinct in each row? Names the first bad row.
RowCheck check_rows(const Pattern& A, int64_t stored, int threads);

// Position of the first NaN or infinity, or -1.
int64_t first_not_finite(const double* x, int64_t size, int threads = 1);

struct Symmetry {
  bool pattern = true;           // every entry has a stored twin
  int32_t row = -1, column = -1; // where |A - A^T| is largest beside the largest entries of both rows, i and j
  double gap = 0;                // how large it is there
  double scale = 0;              // the smaller one of these largest entries: a penalty in one row is no excuse for another row
};
Symmetry symmetry(const Pattern& A, const double* x, int threads);

// d[i]: the entry (i, i) of rows in ascending order, 0 where none is stored.
void diagonal(const Pattern& A, const double* x, double* d, int threads);

// The sum of the values in each of `count` rows, or in the first ones where `rows` is null, and that of their moduli.
void row_sums(const int64_t* ptr, const int32_t* rows, int64_t count, const double* x, double* sums, double* moduli, int threads);

// Both triangles of the matrix whose lower triangle is stored in A; what lies above its diagonal is ignored.
// source[p] is the position in A of the p-th entry of the result.
OwnedPattern mirror_lower(const Pattern& A, std::vector<int64_t>& source);

// Is each of 0..n-1 there once?
bool is_permutation(const int32_t* perm, int32_t n);

// A without its diagonal.
OwnedPattern drop_diagonal(const Pattern& A);

// The pattern of A + A^T without the diagonal.
OwnedPattern symmetrize(const Pattern& A);

// The union of two patterns of the same size.
OwnedPattern unite(const Pattern& A, const Pattern& B);

bool same_pattern(const Pattern& A, const Pattern& B);

// 128 bits that tell one list of indices from another, in one sweep at about the speed of memory. Lists that differ share
// them with a probability of about 2^-64; whoever looks for two such lists can find them.
std::array<uint64_t, 2> fingerprint(const int32_t* idx, int64_t size);

// Writes the values of B into the pattern A, zeros where B has none. Returns the position in B of the first entry that A
// does not hold, or -1.
int64_t embed(const Pattern& A, const Pattern& B, const double* from, double* to);

}  // namespace ms
