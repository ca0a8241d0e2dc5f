// The entries of C C^T in the analyzed pattern of a matrix on the GPU: a check that they are all in it, and their addition to the values.
//
// A warp has a row i of C. For each column of C with that row it visits the rows j of the column, in both triangles. It owns the entries
// of row i, and the columns ascend: sums have the same bits in every run.
#include "device/common.cuh"

using namespace ms;

// by_row: for each of `count` rows of C its number i, and begin and end of its columns and values. ptr, row, value: C by columns. Without
// `data` words[0] := 1 if an entry is outside the pattern. With it the products times `sign` are added, unless one of the first two
// words is set (enum Words in update.cu).
extern "C" __global__ void __launch_bounds__(256)
k_products(int count, const int* number, const int* begin, const int* column, const double* by_row, const int* ptr, const int* row,
           const double* value, const long long* indptr, const int* indices, double sign, double* data, int* words) {
  const int lane = threadIdx.x & 31;
  if (data && (words[0] || words[1])) return;
  for (long long k = grid_begin() >> 5; k < count; k += grid_step() >> 5) {
    const int i = number[k], length = static_cast<int>(indptr[i + 1] - indptr[i]);
    const int* const line = indices + indptr[i];
    for (int e = begin[k]; e < begin[k + 1]; ++e) {
      const double x = sign * by_row[e];
      for (int p = ptr[column[e]] + lane; p < ptr[column[e] + 1]; p += 32) {
        const int at = lower_bound(line, length, row[p]);
        if (at == length || line[at] != row[p]) atomicExch(words, 1);
        else if (data) data[indptr[i] + at] += x * value[p];
      }
      __syncwarp();                                         // another column may have the same rows
    }
  }
}
