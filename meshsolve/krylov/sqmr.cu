// Updates of SQMR on blocks of k right-hand sides, stored by rows of k values; products and partial sums are in vectors.cu. The
// kernels compute the scalars of each column and decide by them, so the host need not read the state in every iteration.
// Source: Freund, Nachtigal 1995, algorithm 3.1 with M1 = I; names as in sqmr.py.
#include "device/common.cuh"

namespace ms::krylov {

// State of a column, as in sqmr_rules.py. Only a running column changes.
enum Status { running, at_target, broken, at_limit, done };

// Scalars of each column c, stored at name * k + c. `old`, `fresh`: factors of d and q in the new d. `look`: quasi-residual at
// which the host computes the true residual.
enum Scalar { rho, beta, step, theta, tau, old, fresh, look };

__device__ inline bool is_finite(double x) { return x - x == 0; }

}  // namespace ms::krylov

using namespace ms;
using namespace ms::krylov;

// Total the partial sums of k_dot of each column, one thread block per column, and decide by it. `what`:
//   0  r . M r: the new direction; columns in `starts` restart
//   1  q . A q: the step, or a breakdown
//   2  r . r after the step: the quasi-residual, stored in `history`; the column is at its target or runs on
// moves[c]: column c takes part in the next update.
extern "C" __global__ void __launch_bounds__(256)
k_quasi_decide(int what, int k, int count, int most, const double* parts, double* scalars, int* status, int* starts, int* moves,
               int* iterations, double* history) {
  const int c = blockIdx.x;
  double mine = 0, sum;
  for (int i = threadIdx.x; i < count; i += blockDim.x) mine += parts[static_cast<long long>(c) * count + i];
  block_exclusive_sum(mine, sum);
  if (threadIdx.x != 0) return;
  const auto at = [&](Scalar name) -> double& { return scalars[name * k + c]; };
  if (what == 0) {
    moves[c] = status[c] == running;
    if (!moves[c]) return;
    at(beta) = starts[c] ? 0 : sum / at(rho);
    at(rho) = sum;
    starts[c] = 0;
  } else if (what == 1) {
    const bool breaks = at(tau) == 0 || at(rho) == 0 || sum == 0 || !is_finite(at(rho)) || !is_finite(sum);
    if (status[c] == running && breaks) status[c] = broken;
    moves[c] = status[c] == running;
    if (moves[c]) at(step) = at(rho) / sum;
  } else {
    if (status[c] == running) {
      const double before = at(theta), now = sqrt(sum) / at(tau), c2 = 1 / (1 + now * now);
      at(theta) = now;
      if (!is_finite(now)) {
        status[c] = broken;
      } else {
        at(tau) *= now * sqrt(c2);
        at(old) = c2 * before * before;
        at(fresh) = c2 * at(step);
        iterations[c] += 1;
        if (at(tau) <= at(look)) status[c] = at_target;
        else if (iterations[c] >= most) status[c] = at_limit;
      }
      moves[c] = status[c] != broken;
    } else {
      moves[c] = 0;
    }
    history[c] = at(tau);
  }
}

// Q := Z + beta Q; Q is not read in a column that restarts (beta = 0).
extern "C" __global__ void __launch_bounds__(256)
k_quasi_direction(int n, int k, const double* scalars, const int* moves, const double* Z, double* Q) {
  const long long items = static_cast<long long>(n) * k;
  for (long long i = grid_begin(); i < items; i += grid_step()) {
    const int c = static_cast<int>(i % k);
    if (!moves[c]) continue;
    const double b = scalars[beta * k + c];
    Q[i] = b == 0 ? Z[i] : Z[i] + b * Q[i];
  }
}

// R -= step T.
extern "C" __global__ void __launch_bounds__(256)
k_quasi_subtract(int n, int k, const double* scalars, const int* moves, const double* T, double* R) {
  const long long items = static_cast<long long>(n) * k;
  for (long long i = grid_begin(); i < items; i += grid_step()) {
    const int c = static_cast<int>(i % k);
    if (moves[c]) R[i] -= scalars[step * k + c] * T[i];
  }
}

// D := old D + fresh Q, X += D.
extern "C" __global__ void __launch_bounds__(256)
k_quasi_smooth(int n, int k, const double* scalars, const int* moves, const double* Q, double* D, double* X) {
  const long long items = static_cast<long long>(n) * k;
  for (long long i = grid_begin(); i < items; i += grid_step()) {
    const int c = static_cast<int>(i % k);
    if (!moves[c]) continue;
    const double a = scalars[old * k + c], d = scalars[fresh * k + c] * Q[i];
    D[i] = a == 0 ? d : a * D[i] + d;
    X[i] += D[i];
  }
}
