// What a solution leaves over, for factors of any kind.
#include "device/common.cuh"

namespace ms::fronts {

constexpr int longest = 1024;                               // entries above which a row is added up by the whole block

struct Rows {                                               // a matrix in compressed rows, or its magnitudes
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

}  // namespace ms::fronts

using namespace ms;

// R = B - A X for C-ordered (n, k) arrays; `magnitudes`: |A| in place of A. `lanes` threads have one entry. Those of long rows wait
// until the block has done the others: so the host need not look for them.
extern "C" __global__ void __launch_bounds__(256)
k_residual(int n, int k, int lanes, int magnitudes, const long long* Ap, const int* Ai, const double* Ax, const double* X,
           const double* B, double* R) {
  __shared__ int waiting;
  __shared__ long long left[256];
  const fronts::Rows A{Ap, Ai, Ax, magnitudes};
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

// out = the diagonal of A, of which a row has one entry there or none. A thread has a row.
extern "C" __global__ void __launch_bounds__(256)
k_matrix_diagonal(int n, const long long* Ap, const int* Ai, const double* Ax, double* out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    double found = 0;
    for (long long p = Ap[i]; p < Ap[i + 1]; ++p)
      if (Ai[p] == i) found = Ax[p];
    out[i] = found;
  }
}
