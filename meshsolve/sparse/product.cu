// Products and residuals of a matrix in compressed rows with blocks of k columns, C contiguous, and its diagonal. Sums have a fixed
// order. k_multiply is for iterations: the host lists the long rows once. k_residual finds them itself.
#include "device/common.cuh"

namespace ms::sparse {

constexpr int longest = 1024;                               // entries above which the whole thread block sums a row

struct Rows {                                               // a matrix in compressed rows, or its absolute values
  const long long* Ap;
  const int* Ai;
  const double* Ax;
  int magnitudes;

  __device__ bool is_long(long long i) const { return Ap[i + 1] - Ap[i] > longest; }

  // Every step-th product of row i with column c of X, from the part-th on.
  __device__ double product(long long i, long long c, int k, const double* X, int part, int step) const {
    double sum = 0;
    for (long long p = Ap[i] + part; p < Ap[i + 1]; p += step)
      sum += (magnitudes ? fabs(Ax[p]) : Ax[p]) * X[Ai[p] * static_cast<long long>(k) + c];
    return sum;
  }
};

}  // namespace ms::sparse

using namespace ms;

// R = B - A X for C-ordered (n, k) arrays; `magnitudes`: |A| in place of A. `lanes` threads compute one entry. Long rows follow when the
// thread block has finished the others, so the host need not find them.
extern "C" __global__ void __launch_bounds__(256)
k_residual(int n, int k, int lanes, int magnitudes, const long long* Ap, const int* Ai, const double* Ax, const double* X,
           const double* B, double* R) {
  __shared__ int waiting;
  __shared__ long long left[256];
  const sparse::Rows A{Ap, Ai, Ax, magnitudes};
  const int part = threadIdx.x % lanes, together = blockDim.x / lanes;
  const long long items = static_cast<long long>(n) * k, step = static_cast<long long>(gridDim.x) * together;
  for (long long first = static_cast<long long>(blockIdx.x) * together; first < items; first += step) {
    if (threadIdx.x == 0) waiting = 0;
    __syncthreads();
    const long long q = first + threadIdx.x / lanes;
    const bool on = q < items, at_once = on && !A.is_long(q / k);
    double sum = at_once ? A.product(q / k, q % k, k, X, part, lanes) : 0;
    for (int d = lanes / 2; d > 0; d /= 2) sum += __shfl_xor_sync(full_warp, sum, d);
    if (at_once && part == 0) R[q] = B[q] - sum;
    if (on && !at_once && part == 0) left[atomicAdd(&waiting, 1)] = q;
    __syncthreads();
    for (int w = 0; w < waiting; ++w) {
      const long long r = left[w];
      double all;
      block_exclusive_sum(A.product(r / k, r % k, k, X, threadIdx.x, blockDim.x), all);
      if (threadIdx.x == 0) R[r] = B[r] - all;
    }
    __syncthreads();
  }
}

// Q := A P, except for rows of more than `most` entries. Groups of `lanes` threads sum a row for one column.
extern "C" __global__ void __launch_bounds__(256)
k_multiply(int n, int k, int lanes, int most, const long long* ptr, const int* idx, const double* value, const double* P,
           double* Q) {
  const int lane = threadIdx.x & 31, part = lane % lanes;
  const long long items = static_cast<long long>(n) * k;
  for (long long base = (grid_begin() - lane) / lanes; base < items; base += grid_step() / lanes) {
    const long long item = base + lane / lanes, row = item / k, c = item % k;
    const bool mine = item < items && ptr[row + 1] - ptr[row] <= most;
    double sum = 0;
    if (mine)
      for (long long p = ptr[row] + part; p < ptr[row + 1]; p += lanes) sum += value[p] * P[idx[p] * static_cast<long long>(k) + c];
    for (int d = lanes / 2; d > 0; d /= 2) sum += __shfl_xor_sync(full_warp, sum, d);
    if (mine && part == 0) Q[item] = sum;
  }
}

// The rows that k_multiply leaves out, one thread block for each row and column.
extern "C" __global__ void __launch_bounds__(512)
k_multiply_long(const int* rows, int count, int k, const long long* ptr, const int* idx, const double* value, const double* P,
                double* Q) {
  for (long long item = blockIdx.x; item < static_cast<long long>(count) * k; item += gridDim.x) {
    const long long row = rows[item / k], c = item % k;
    double sum = 0;
    for (long long p = ptr[row] + threadIdx.x; p < ptr[row + 1]; p += blockDim.x)
      sum += value[p] * P[idx[p] * static_cast<long long>(k) + c];
    double all;
    block_exclusive_sum(sum, all);
    if (threadIdx.x == 0) Q[row * k + c] = all;
  }
}

// out = the diagonal of A; a row has at most one diagonal entry. One thread per row.
extern "C" __global__ void __launch_bounds__(256)
k_matrix_diagonal(int n, const long long* Ap, const int* Ai, const double* Ax, double* out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    double found = 0;
    for (long long p = Ap[i]; p < Ap[i + 1]; ++p)
      if (Ai[p] == i) found = Ax[p];
    out[i] = found;
  }
}

// out[e] = -(row rows[e] of Y) . (row columns[e] of X) for C-ordered arrays of k columns. One thread per entry.
extern "C" __global__ void __launch_bounds__(256)
k_sampled(long long count, const int* rows, const int* columns, long long k, const double* Y, const double* X, double* out) {
  for (long long e = grid_begin(); e < count; e += grid_step()) {
    const double *const y = Y + rows[e] * k, *const x = X + columns[e] * k;
    double sum = 0;
    for (long long c = 0; c < k; ++c) sum += y[c] * x[c];
    out[e] = -sum;
  }
}

// out[e] = the sum of values[source[p]] for p in [ptr[e], ptr[e + 1]), in the order of `assemble` in operators/assembly.cpp. A number has
// `width` doubles: 1, or 2 if it is complex. One thread per double.
extern "C" __global__ void __launch_bounds__(256)
k_assemble(long long count, int width, const long long* ptr, const int* source, const double* values, double* out) {
  for (long long k = grid_begin(); k < count * width; k += grid_step()) {
    const long long e = k / width, begin = ptr[e], end = ptr[e + 1];
    const double* const from = values + k % width;
    double sum = begin < end ? from[source[begin] * static_cast<long long>(width)] : 0;
    for (long long p = begin + 1; p < end; ++p) sum += from[source[p] * static_cast<long long>(width)];
    out[k] = sum;
  }
}
