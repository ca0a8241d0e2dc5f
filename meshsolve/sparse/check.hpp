// Checks of a user's matrix in compressed rows, and patterns derived from others. Called by matrix.py. Cost: O(n + nnz) each.
#pragma once
#include <array>
#include <vector>

#include "csr.hpp"

namespace ms {

enum class RowState { valid, unsorted, invalid };
struct RowCheck { RowState state; int64_t row; };

// Checks that the pointers ascend from 0 to nnz, and the indices are in range, ascending and distinct in each row. Returns the first bad
// row.
RowCheck check_rows(const Pattern& A, int64_t stored, int threads);

// Position of the first NaN or infinity, or -1.
int64_t first_not_finite(const double* x, int64_t size, int threads = 1);

// Two mirror entries may differ by kOfEntries of the larger of them plus kOfRows of the largest entry of their rows, in which summands may
// have cancelled. Of the two rows the one with the smaller largest entry counts: a penalty in one row does not excuse another row. A
// difference above one rounding error leaves a doubt. Up to kManyRoundings of them it is likely that of a sum.
constexpr double kOfEntries = 1e-10, kOfRows = 1e-13;
constexpr double kRounding = 4 * 0x1p-52, kManyRoundings = 8;        // of the larger entry plus the largest one of the rows

enum Doubt : int32_t { none, rounding, skew };

struct Symmetry {
  bool pattern = true;           // every entry has a stored mirror entry
  int32_t doubt = none;          // the largest one of an entry
  int32_t row = -1, column = -1; // entry with the largest |A - A^T|, relative to the allowed difference
  double gap = 0;                // |A - A^T| of this entry
  double allowed = 0;            // largest difference of this entry and its mirror entry that passes as symmetric
};
Symmetry symmetry(const Pattern& A, const double* x, int threads);      // of the pattern alone if x is null

// Of matrices with one symmetric pattern, x: (count, nnz). NaN and infinity are not compared.
struct Asymmetry {
  int64_t system = -1;           // the first that does not pass as symmetric, or -1
  Symmetry entry;
  std::vector<int64_t> doubtful; // systems whose skew part is no rounding, ascending; empty if one does not pass
};
Asymmetry first_asymmetry(const Pattern& A, const double* x, int64_t count, int threads);

// d[i] := entry (i, i), 0 if none is stored. Indices ascend in each row.
void diagonal(const Pattern& A, const double* x, double* d, int threads);

// Sums of the values and of their absolute values in each of `count` rows; in the first `count` rows if `rows` is null.
void row_sums(const int64_t* ptr, const int32_t* rows, int64_t count, const double* x, double* sums, double* magnitudes, int threads);

// Both triangles of the symmetric matrix with the lower triangle of A. Entries above the diagonal of A are ignored.
// source[p]: position in A of entry p of the result.
OwnedPattern mirror_lower(const Pattern& A, std::vector<int64_t>& source);

// True if perm holds each of 0..n-1 once.
bool is_permutation(const int32_t* perm, int32_t n, int threads);

// A without its diagonal.
OwnedPattern drop_diagonal(const Pattern& A, int threads);

// The pattern of A + A^T without the diagonal.
OwnedPattern symmetrize(const Pattern& A, int threads);

// The union of two patterns of the same size.
OwnedPattern unite(const Pattern& A, const Pattern& B);

bool same_pattern(const Pattern& A, const Pattern& B);

// A 128-bit hash of a list of indices, in one sweep at about the speed of memory. Two different lists have the same hash with a
// probability of about 2^-64. It is not cryptographic: such lists can be constructed.
std::array<uint64_t, 2> fingerprint(const int32_t* idx, int64_t size, int threads);

// Writes the values of B in the pattern of A, with zeros where B has no entry. Returns the position in B of the first entry outside the
// pattern of A, or -1.
int64_t embed(const Pattern& A, const Pattern& B, const double* from, double* to);

}  // namespace ms
