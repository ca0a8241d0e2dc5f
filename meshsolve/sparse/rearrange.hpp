// Scans, sorts and transposes of compressed rows. Cost: O(n + nnz).
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "csr.hpp"

namespace ms {

// Row pointers from row lengths: ptr[i + 1] holds the length of row i on entry, ptr[i] its first position on return.
template <class Int>
void cumsum(std::vector<Int>& ptr) {
  for (size_t i = 1; i < ptr.size(); ++i) ptr[i] += ptr[i - 1];
}

// The same. Returns a copy of the row pointers, from which rows are filled: the position of the next entry of each row.
template <class Int>
std::vector<Int> cumsum_with_cursors(std::vector<Int>& ptr) {
  cumsum(ptr);
  return {ptr.begin(), ptr.end() - 1};
}

// Sorts a row. Most rows are short and nearly sorted.
inline void sort_row(int32_t* begin, int32_t* end) {
  if (end - begin > 24) return std::sort(begin, end);
  for (int32_t* i = begin; i < end; ++i) {
    const int32_t x = *i;
    int32_t* j = i;
    for (; j > begin && j[-1] > x; --j) *j = j[-1];
    *j = x;
  }
}

// The transpose of A, or of a diagonal block whose rows and columns are numbered from `first` on. The entries of a row ascend.
// put(to, p) is called for each entry p of A, which becomes entry `to` of the result.
template <class Put>
OwnedPattern transpose(const Pattern& A, int32_t first, Put&& put) {
  OwnedPattern T;
  T.ptr.assign(A.n + int64_t{1}, 0);
  for (int64_t p = A.ptr[0]; p < A.ptr[A.n]; ++p) ++T.ptr[A.idx[p] - first + 1];
  std::vector<int64_t> next = cumsum_with_cursors(T.ptr);
  T.idx.resize(T.ptr.back());
  for (int32_t i = 0; i < A.n; ++i)
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
      const int64_t to = next[A.idx[p] - first]++;
      T.idx[to] = first + i;
      put(to, p);
    }
  return T;
}

// The transpose with the position of each entry in A.
struct Transposed : OwnedPattern {
  std::vector<int64_t> entry;
  explicit Transposed(const Pattern& A, int32_t first = 0) : entry(A.ptr[A.n] - A.ptr[0]) {
    static_cast<OwnedPattern&>(*this) = transpose(A, first, [&](int64_t to, int64_t p) { entry[to] = p; });
  }
};

}  // namespace ms
