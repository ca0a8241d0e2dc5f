// Blocks of right-hand sides and solutions, cut down to the free rows and put together again, less their means over components.
// Python side: rows_cuda.py. Blocks have k columns. Strides are in numbers: 0 repeats a row or a column.
#include "device/common.cuh"

using namespace ms;

// out = rows `rows` of X, or all rows, less the means of their components if `component` is not null. `sums` has the sums of the columns
// over each component, (components, k), and `size` its rows. `out` is C contiguous, and may be a C contiguous X if all rows are taken.
extern "C" __global__ void __launch_bounds__(256)
k_take_rows(long long count, int k, const int* rows, long long across, long long along, const double* X, const int* component,
            const double* size, const double* sums, double* out) {
#pragma unroll 1
  for (long long q = grid_begin(); q < count * k; q += grid_step()) {
    const long long i = q / k, c = q % k, row = rows ? rows[i] : i;
    const double mean = component ? sums[static_cast<long long>(component[row]) * k + c] / size[component[row]] : 0.0;
    out[q] = X[row * across + c * along] - mean;
  }
}

// Rows of X from those of the free and of the fixed rows, C contiguous; zeros for the latter if `fixed` is null. `position` is the
// position among the free rows, or -1 minus that among the fixed ones.
extern "C" __global__ void __launch_bounds__(256)
k_put_rows(long long n, int k, const int* position, const double* free, const double* fixed, long long across, long long along, double* X) {
  for (long long q = grid_begin(); q < n * k; q += grid_step()) {
    const long long i = q / k, c = q % k, at = position[i];
    X[i * across + c * along] = at >= 0 ? free[at * k + c] : fixed ? fixed[(-1 - at) * k + c] : 0.0;
  }
}

// Sets `bit` if the part of a column that is constant on components is longer than `most` times the column. `squares` has the sums of the
// squares over each component. Squares beyond the range of float64 set no bit. Grid: columns.
extern "C" __global__ void __launch_bounds__(256)
k_check_range(int components, int k, const double* size, const double* sums, const double* squares, double most, int bit, int* bits) {
  for (int c = blockIdx.x; c < k; c += gridDim.x) {
    double outside = 0, length = 0, all_outside, all_length;
    for (long long g = threadIdx.x; g < components; g += blockDim.x) {
      const double sum = sums[g * k + c];
      outside += sum * (sum / size[g]);
      length += squares[g * k + c];
    }
    block_exclusive_sum(outside, all_outside);
    block_exclusive_sum(length, all_length);
    if (threadIdx.x == 0 && all_outside > most * most * all_length) atomicOr(bits, bit);
  }
}
