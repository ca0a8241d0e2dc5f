// Vector work of conjugate gradients on blocks of k right-hand sides, by rows of k values. Sums run in two steps of a fixed
// shape: a part for each of a fixed number of blocks, then all parts by one block, which also takes the decisions of the
// iteration for each column, so that the host need not look. Source: Saad 2003, "Iterative methods for sparse linear systems",
// algorithm 9.1.
#include "device/common.cuh"

namespace ms::krylov {

// State of a column; cg_cuda.py has the same numbers.
enum Standing { running, arrived, diverged, broken, settled };

// Of each column c, at name * k + c.
enum Scalar { rho, curvature, alpha, beta, residual, target, saved };

constexpr int together = 4;                                 // columns of a dot product by one thread: 32 bytes of a row

// The sum over the block, known to thread 0 at least: of the same shape each time.
__device__ __forceinline__ double block_sum(double value) {
  double total;
  block_exclusive_sum(value, total);
  return total;
}

__device__ __forceinline__ void judge(double* s, int k, int c, int* standing, int* iterations, double* history) {
  if (standing[c] == running) {
    iterations[c] += 1;
    if (s[residual * k + c] <= s[target * k + c]) standing[c] = arrived;
    else if (!(s[residual * k + c] <= 1e4 * s[saved * k + c])) standing[c] = diverged;
  }
  history[c] = s[residual * k + c];
}

}  // namespace ms::krylov

using namespace ms;
using namespace ms::krylov;

// parts[c * gridDim.x + b] := u_c . v_c over the rows of block b. A block goes on by rows of the grid in y, `together` columns each:
// what lies in one sector of memory is read by one thread.
extern "C" __global__ void __launch_bounds__(256)
k_dot(int n, int k, const double* U, const double* V, double* parts) {
  for (int first = static_cast<int>(blockIdx.y) * together; first < k; first += static_cast<int>(gridDim.y) * together) {
    const int columns = min(together, k - first);
    double sum[together] = {};
    for (long long i = grid_begin(); i < n; i += grid_step()) {
      const double *const u = U + i * k + first, *const v = V + i * k + first;
#pragma unroll
      for (int c = 0; c < together; ++c)
        if (c < columns) sum[c] += u[c] * v[c];
    }
#pragma unroll
    for (int c = 0; c < together; ++c) {
      if (c >= columns) continue;                           // by the whole block
      const double all = block_sum(sum[c]);
      if (threadIdx.x == 0) parts[static_cast<long long>(first + c) * gridDim.x + blockIdx.x] = all;
    }
  }
}

// The parts become a scalar of each column, a block per column, and what follows from it is decided.
//   rho        a new residual: beta from the old rho, 0 where the column is fresh (starts anew)
//   curvature  p . A p: alpha, and 0 for a column that is no longer running
//   residual   its norm after a step: has the column arrived? `history` gets it
extern "C" __global__ void __launch_bounds__(256)
k_decide(int what, int k, int count, const double* parts, double* scalars, int* standing, int* fresh, int* iterations,
         double* history) {
  const int c = blockIdx.x;
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += parts[static_cast<long long>(c) * count + i];
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  const double before = scalars[rho * k + c];
  if (what == residual) {
    scalars[residual * k + c] = sqrt(sum);
    judge(scalars, k, c, standing, iterations, history);
  } else if (what == rho) {
    scalars[rho * k + c] = sum;
    scalars[beta * k + c] = fresh[c] || before == 0 || standing[c] != running ? 0 : sum / before;
    fresh[c] = 0;
  } else {
    if (standing[c] == running && !(sum > 0 && before > 0)) standing[c] = broken;
    scalars[curvature * k + c] = sum;
    scalars[alpha * k + c] = standing[c] == running ? before / sum : 0;
  }
}

// X += P diag(alpha), R -= Q diag(alpha).
extern "C" __global__ void __launch_bounds__(256)
k_step(int n, int k, const double* scalars, const double* P, const double* Q, double* X, double* R) {
  const long long items = static_cast<long long>(n) * k;
  for (long long i = grid_begin(); i < items; i += grid_step()) {
    const double a = scalars[alpha * k + i % k];
    if (a == 0) continue;
    X[i] += a * P[i];
    R[i] -= a * Q[i];
  }
}

// P := Z + P diag(beta).
extern "C" __global__ void __launch_bounds__(256)
k_direction(int n, int k, const double* scalars, const double* Z, double* P) {
  const long long items = static_cast<long long>(n) * k;
  for (long long i = grid_begin(); i < items; i += grid_step()) {
    const double b = scalars[beta * k + i % k];
    P[i] = b == 0 ? Z[i] : Z[i] + b * P[i];
  }
}
