// Sorts of compressed rows: what several rooms do to bring entries into another order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "csr.hpp"

namespace ms {

// The lengths of rows 0, 1, ... at ptr[1], ptr[2], ... become the places where the rows begin.
template <class Int>
void add_up(std::vector<Int>& ptr) {
  for (size_t i = 1; i < ptr.size(); ++i) ptr[i] += ptr[i - 1];
}

// The same, and where the next entry of each row goes: to be counted up as the rows are filled.
template <class Int>
std::vector<Int> begin_rows(std::vector<Int>& ptr) {
  add_up(ptr);
  return {ptr.begin(), ptr.end() - 1};
}

// For rows that are short and nearly sorted, as a rule.
inline void sort_row(int32_t* begin, int32_t* end) {
  if (end - begin > 24) return std::sort(begin, end);
  for (int32_t* i = begin; i < end; ++i) {
    const int32_t x = *i;
    int32_t* j = i;
    for (; j > begin && j[-1] > x; --j) *j = j[-1];
    *j = x;
  }
}

// The transposed of A, or of one of its diagonal blocks, whose rows and columns are numbered from `first` on: entries of a row ascend.
// put(to, p): entry p of A is the entry `to` of the result.
template <class Put>
OwnedPattern transpose(const Pattern& A, int32_t first, Put&& put) {
  OwnedPattern T;
  T.ptr.assign(A.n + int64_t{1}, 0);
  for (int64_t p = A.ptr[0]; p < A.ptr[A.n]; ++p) ++T.ptr[A.idx[p] - first + 1];
  std::vector<int64_t> next = begin_rows(T.ptr);
  T.idx.resize(T.ptr.back());
  for (int32_t i = 0; i < A.n; ++i)
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
      const int64_t to = next[A.idx[p] - first]++;
      T.idx[to] = first + i;
      put(to, p);
    }
  return T;
}

// The same, with the number of each entry in A.
struct Transposed : OwnedPattern {
  std::vector<int64_t> entry;
  explicit Transposed(const Pattern& A, int32_t first = 0) : entry(A.ptr[A.n] - A.ptr[0]) {
    static_cast<OwnedPattern&>(*this) = transpose(A, first, [&](int64_t to, int64_t p) { entry[to] = p; });
  }
};

}  // namespace ms
