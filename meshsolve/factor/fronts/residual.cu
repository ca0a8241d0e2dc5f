// What a solution leaves over, for factors of any kind.
#include "device/common.cuh"

using namespace ms;

// R = B - A X for a matrix in compressed rows, C-ordered (n, k) arrays; `magnitudes`: |A| in place of A. A thread has one entry.
extern "C" __global__ void __launch_bounds__(256)
k_residual(int n, int k, int magnitudes, const long long* Ap, const int* Ai, const double* Ax, const double* X, const double* B,
           double* R) {
  for (long long q = grid_begin(); q < static_cast<long long>(n) * k; q += grid_step()) {
    const long long i = q / k, c = q % k;
    double sum = 0;
    for (long long p = Ap[i]; p < Ap[i + 1]; ++p)
      sum += (magnitudes ? fabs(Ax[p]) : Ax[p]) * X[Ai[p] * static_cast<long long>(k) + c];
    R[q] = B[q] - sum;
  }
}
