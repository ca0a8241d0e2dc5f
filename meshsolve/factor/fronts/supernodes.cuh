// Supernodes of an analysis on the GPU: the front of a column, and local rows in a front. For tree.cu and the plans of other fronts.
#pragma once
#include "device/common.cuh"

namespace ms::fronts {

struct Supernodes {
  const int* first;                     // (count + 1)
  const long long* row_ptr;             // (count + 1)
  const int* rows;
  // Local row in front s of row i, a pivot of s or on its row list.
  __device__ int local(int s, int i) const {
    const int begin = first[s], end = first[s + 1];
    const long long list = row_ptr[s];
    return i < end ? i - begin : end - begin + lower_bound(rows + list, static_cast<int>(row_ptr[s + 1] - list), i);
  }
};

// The first k of 0, ..., count - 1 for which is_below(k) is false; it must be true before that k and false after it.
template <class IsBelow> __device__ inline int first_not(int count, IsBelow is_below) {
  int first = 0;
  while (count > 0) {
    const int half = count / 2;
    const bool below = is_below(first + half);
    first += below ? half + 1 : 0;
    count = below ? count - half - 1 : half;
  }
  return first;
}

// The front that contains column j.
__device__ inline int front_of(int count, const int* first, int j) {
  return first_not(count, [&](int s) { return first[s + 1] <= j; });
}

// Leading dimension of a block with this many rows, as in tree.cpp.
__device__ inline long long leading_dimension(long long rows) {
  const long long rounded = (rows + 7) / 8 * 8;
  return rows < 64 ? rows : rounded + (rounded % 64 == 0 ? 8 : 0);
}

}  // namespace ms::fronts
