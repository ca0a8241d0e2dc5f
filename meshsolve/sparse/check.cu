// All checks of a later matrix with the pattern of an earlier one, and its values in the analyzed pattern, in one kernel.
//
// The result of the checks is a word of bits. After a set bit the host runs the exact check. A bit may be set for an acceptable
// matrix: an entry may differ from its mirror entry by rounding of a larger entry. It is never missing. Sums have a fixed order.
// Counterparts: as_csr_cuda and Gather in cuda.py, ConstantNullSpace in factor/cholesky/singular.py, Pinned.reduce in constraints.py.
#include "device/common.cuh"

namespace ms::check {

enum Bit { other_pattern = 1, not_finite = 2, not_symmetric = 4, vanishes = 8, too_large = 16, sizable = 32,
           other_null_space = 64 };

// Sets a bit. Few threads change the word, so most only read it.
__device__ __forceinline__ void set(int* bits, int bit) {
  if (!(*static_cast<volatile int*>(bits) & bit)) atomicOr(bits, bit);
}

// Entry at position - 1, or 0 at position 0: the index maps of Gather. Without a map, the entry p itself.
__device__ __forceinline__ double entry(const double* data, const long long* positions, long long p) {
  if (!positions) return data[p];
  const long long position = positions[p];
  return position > 0 ? data[position - 1] : 0.0;
}

__device__ __forceinline__ void check_pattern(int n, long long nnz, const long long* known_ptr, const int* known_indices, const int* ptr,
                                              const long long* wide_ptr, const int* indices, int* bits) {
  for (long long i = grid_begin(); i <= n; i += grid_step())
    if ((ptr ? ptr[i] : wide_ptr[i]) != known_ptr[i]) set(bits, other_pattern);
  for (long long p = grid_begin(); p < nnz; p += grid_step())
    if (indices[p] != known_indices[p]) set(bits, other_pattern);
}

// Magnitudes from `most` on are too large, one above `least` is enough to be sizable.
__device__ __forceinline__ void check_sizes(long long nnz, const double* data, double least, double most, int* bits) {
  for (long long p = grid_begin(); p < nnz; p += grid_step()) {
    const double size = fabs(data[p]);
    if (!(size - size == 0.0)) set(bits, not_finite);
    if (size >= most) set(bits, too_large);
    if (size > least) set(bits, sizable);
  }
}

// Entries and mirror entries. `own` is null if the pattern is symmetric: then `mirror` has positions from 0 on.
__device__ __forceinline__ void check_symmetry(long long count, const double* data, const long long* own, const long long* mirror,
                                               double tolerance, int* bits) {
  for (long long p = grid_begin(); p < count; p += grid_step()) {
    const double a = entry(data, own, p), b = own ? entry(data, mirror, p) : data[mirror[p]];
    if (a != b && !(fabs(a - b) <= tolerance * fmin(fabs(a), fabs(b)))) set(bits, not_symmetric);
  }
}

// Rows of the analyzed matrix, given by the positions of their entries: does one of them sum to 0? One warp per row.
__device__ __forceinline__ void check_rows(int rows, const long long* begin, const long long* entries, const double* data,
                                           const long long* take, double rounding, int* bits) {
  for (long long r = grid_begin() / 32; r < rows; r += grid_step() / 32) {
    double sum = 0.0, size = 0.0;
    for (long long p = begin[r] + (threadIdx.x & 31); p < begin[r + 1]; p += 32) {
      const double x = entry(data, take, entries[p]);
      sum += x;
      size += fabs(x);
    }
    sum = warp_sum(sum);
    size = warp_sum(size);
    if ((threadIdx.x & 31) == 0 && size > 0.0 && fabs(sum) <= rounding * size) set(bits, vanishes);
  }
}

// Does each row sum to 0, and is each nonzero inside a component? `lanes` threads per row.
__device__ __forceinline__ void check_null_space(int n, int lanes, const long long* ptr, const int* indices, const long long* take,
                                                 const double* data, const int* component, double rounding, int* bits) {
  const int lane = threadIdx.x & 31, part = lane % lanes;
  for (long long base = (grid_begin() - lane) / lanes; base < n; base += grid_step() / lanes) {
    const long long row = base + lane / lanes;
    double sum = 0.0, size = 0.0;
    if (row < n)
      for (long long p = ptr[row] + part; p < ptr[row + 1]; p += lanes) {
        const double x = entry(data, take, p);
        sum += x;
        size += fabs(x);
        if (x != 0.0 && component[row] != component[indices[p]]) set(bits, other_null_space);
      }
    for (int d = lanes / 2; d > 0; d /= 2) {
      sum += __shfl_xor_sync(full_warp, sum, d);
      size += __shfl_xor_sync(full_warp, size, d);
    }
    if (row < n && part == 0 && !(fabs(sum) <= rounding * size)) set(bits, other_null_space);
  }
}

}  // namespace ms::check

using namespace ms;
using namespace ms::check;

// Either ptr or wide_ptr is null. `take` has the positions of the analyzed entries, or is null if the matrix has the same entries.
// The entries go to values, (count,), and those between free and fixed rows to coupling, (coupled,).
extern "C" __global__ void __launch_bounds__(256)
k_check_later(int n, long long nnz, const long long* known_ptr, const int* known_indices, const int* ptr, const long long* wide_ptr,
              const int* indices, const double* data, double least, double most, long long mirrored, const long long* own,
              const long long* mirror, double tolerance, int rows, const long long* begin, const long long* entries, double rounding,
              long long count, const long long* take, double* values, long long coupled, const long long* across, double* coupling,
              int* bits) {
  check_pattern(n, nnz, known_ptr, known_indices, ptr, wide_ptr, indices, bits);
  check_sizes(nnz, data, least, most, bits);
  check_symmetry(mirrored, data, own, mirror, tolerance, bits);
  check_rows(rows, begin, entries, data, take, rounding, bits);
  for (long long p = grid_begin(); p < count; p += grid_step()) values[p] = entry(data, take, p);
  for (long long p = grid_begin(); p < coupled; p += grid_step()) coupling[p] = entry(data, across, p);
}

// As k_check_later, for a matrix that must take the constants on each component to 0. Pattern of both triangles.
extern "C" __global__ void __launch_bounds__(256)
k_check_null_space(int n, int lanes, const long long* ptr, const int* indices, const long long* take, const double* data,
                   const int* component, double rounding, int* bits) {
  check_null_space(n, lanes, ptr, indices, take, data, component, rounding, bits);
}
