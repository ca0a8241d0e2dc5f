// Compressed sparse rows of the C++ core. Row pointers are 64-bit, because nnz(L) exceeds 2^31 long before n does; indices are 32-bit.
// `Pattern` has pointers to the caller's arrays, `OwnedPattern` its own arrays.
// Invariants, checked by matrix.py: indices in range, ascending within a row, no duplicates.
#pragma once
#include <cstdint>
#include <vector>

namespace ms {

struct Pattern {
  int32_t n = 0;                  // rows = columns
  const int64_t* ptr = nullptr;   // (n + 1)
  const int32_t* idx = nullptr;   // (ptr[n])
  int64_t nnz() const { return ptr[n]; }
  int64_t degree(int32_t i) const { return ptr[i + 1] - ptr[i]; }
};

struct OwnedPattern {
  std::vector<int64_t> ptr;
  std::vector<int32_t> idx;
  int32_t n() const { return static_cast<int32_t>(ptr.size()) - 1; }
  Pattern view() const { return {n(), ptr.data(), idx.data()}; }
};

}  // namespace ms
