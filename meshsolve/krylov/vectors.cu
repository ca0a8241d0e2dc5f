// Vector operations of conjugate gradients on blocks of k right-hand sides, stored by rows of k values. A sum has two steps of
// fixed shape: partial sums of a fixed number of thread blocks, then their total by one thread block. The latter also decides
// when a column stops, so the host need not read the state in every iteration.
// Source: Saad 2003, "Iterative methods for sparse linear systems", algorithm 9.1.
#include "device/common.cuh"

namespace ms::krylov {

// State of a column, as in cg_cuda.py.
enum Status { running, at_target, diverged, broken, done };

// Scalars of each column c, stored at name * k + c.
enum Scalar { rho, curvature, alpha, beta, residual, target, saved };

constexpr int together = 4;                                 // columns of a dot product per thread: 32 bytes of a row

// Sum over the thread block in a fixed order; valid in thread 0.
__device__ __forceinline__ double block_sum(double value) {
  double total;
  block_exclusive_sum(value, total);
  return total;
}

__device__ __forceinline__ void judge(double* s, int k, int c, double diverged_at, int* status, int* iterations, double* history) {
  if (status[c] == running) {
    iterations[c] += 1;
    if (s[residual * k + c] <= s[target * k + c]) status[c] = at_target;
    else if (!(s[residual * k + c] <= diverged_at * s[saved * k + c])) status[c] = diverged;
  }
  history[c] = s[residual * k + c];
}

}  // namespace ms::krylov

using namespace ms;
using namespace ms::krylov;

// parts[c * gridDim.x + b] := u_c . v_c over the rows of thread block b. A thread reads `together` columns, which share a memory
// sector; the grid in y covers the columns in such groups.
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
      if (c >= columns) continue;                           // uniform in the thread block
      const double all = block_sum(sum[c]);
      if (threadIdx.x == 0) parts[static_cast<long long>(first + c) * gridDim.x + blockIdx.x] = all;
    }
  }
}

// Total the partial sums of each column, one thread block per column, and decide by it. `what`:
//   rho        r . M r of a new residual: beta from the old rho, 0 for a column that is fresh (restarts)
//   curvature  p . A p: alpha, 0 for a column that is no longer running
//   residual   norm after a step, stored in `history`: the column is at its target, has diverged (growth above diverged_at) or runs on
extern "C" __global__ void __launch_bounds__(256)
k_decide(int what, int k, int count, double diverged_at, const double* parts, double* scalars, int* status, int* fresh,
         int* iterations, double* history) {
  const int c = blockIdx.x;
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += parts[static_cast<long long>(c) * count + i];
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  const double before = scalars[rho * k + c];
  if (what == residual) {
    scalars[residual * k + c] = sqrt(sum);
    judge(scalars, k, c, diverged_at, status, iterations, history);
  } else if (what == rho) {
    scalars[rho * k + c] = sum;
    scalars[beta * k + c] = fresh[c] || before == 0 || status[c] != running ? 0 : sum / before;
    fresh[c] = 0;
  } else {
    if (status[c] == running && !(sum > 0 && before > 0)) status[c] = broken;
    scalars[curvature * k + c] = sum;
    scalars[alpha * k + c] = status[c] == running ? before / sum : 0;
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
