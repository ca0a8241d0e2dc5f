// Solves with a sparse unit triangular factor in one launch, k right-hand sides in rows of k values. A row waits for the values
// it needs, not for all earlier levels. A value that is not computed yet is one special NaN: the value is its own flag, and no
// fence is needed. Warps claim tasks, a few rows of one level each, in the order of the levels. A row waits only for rows that a
// running warp has claimed, so there is no deadlock for any number of resident blocks. A group of threads sums one row; the order
// of a sum is fixed and does not depend on k. A wait that takes too long is reported. Source: Liu et al. 2016, "A
// synchronization-free algorithm for parallel sparse triangular solves", with values for flags.
#include "device/common.cuh"

namespace ms::trisolve {

constexpr unsigned long long unset = ~0ull;                 // bits of a value that is not computed yet
constexpr unsigned long long some_nan = 0x7ff8000000000000ull;
constexpr int ahead = 4;                                    // entries that a thread loads at once
constexpr int longest_sleep = 256;                          // nanoseconds between two reads
constexpr int most_polls = 1 << 23;                         // reads before a stall is reported, some seconds

__device__ __forceinline__ unsigned long long look(const double* value) {
  return *reinterpret_cast<const volatile unsigned long long*>(value);
}

__device__ __forceinline__ void publish(double* to, double value) {
  const unsigned long long bits = value == value ? static_cast<unsigned long long>(__double_as_longlong(value)) : some_nan;
  *reinterpret_cast<volatile unsigned long long*>(to) = bits;
}

// Reads values until all of them are computed; skips negative `at`.
__device__ __forceinline__ void await(const double* Y, const long long* at, unsigned long long* y, int* stalled) {
  for (int looks = 0, sleep = 16;; ++looks) {
    bool all = true;
#pragma unroll
    for (int j = 0; j < ahead; ++j) {
      if (y[j] == unset) y[j] = at[j] < 0 ? 0 : look(Y + at[j]);
      all = all && y[j] != unset;
    }
    if (all) return;
    if (looks % 256 == 255 && (*static_cast<volatile int*>(stalled) || (looks > most_polls && atomicExch(stalled, 1) == 0))) return;
    __nanosleep(sleep);
    if (sleep < longest_sleep) sleep *= 2;
  }
}

template <class T> struct Rows {                            // minus the off-diagonal entries
  const long long* ptr;
  const int* idx;
  const T* value;

  // Sum of every step-th product of a row with column c of Y, from product `part` on.
  __device__ double product(long long row, long long c, int k, const double* Y, int part, int step, int* stalled) const {
    double sum = 0;
    for (long long p = ptr[row] + part, end = ptr[row + 1]; p < end; p += ahead * step) {
      long long at[ahead];
      double factor[ahead];
      unsigned long long y[ahead];
#pragma unroll
      for (int j = 0; j < ahead; ++j) {
        const long long q = p + j * step;
        at[j] = q < end ? idx[q] * static_cast<long long>(k) + c : -1;
        factor[j] = q < end ? value[q] : 0;
        y[j] = unset;
      }
      await(Y, at, y, stalled);
#pragma unroll
      for (int j = 0; j < ahead; ++j)
        if (at[j] >= 0) sum += factor[j] * __longlong_as_double(static_cast<long long>(y[j]));
    }
    return sum;
  }
};

struct Tasks {
  int count, step;                      // step -1: from the last to the first
  const int* first;                     // (count + 1) rows
  const int* lanes;                     // (count) threads per row

  __device__ int task(long long i) const { return static_cast<int>(step > 0 ? i : count - 1 - i); }
};

// A block whose row i is stored at position[i], or at i if `position` is null.
template <class V> struct Placed {
  V* block;
  const int* position;

  __device__ V& at(long long row, long long c, int k) const { return block[(position ? position[row] : row) * k + c]; }
};

// Y := scale B + N Y, and X := Y. A null `scale` is all ones; a null X is not written.
template <class T>
__device__ __forceinline__ void sweep(const Tasks& tasks, int k, const Rows<T>& N, const double* scale, Placed<const double> B,
                                      double* Y, Placed<double> X, unsigned long long* tickets, int* stalled) {
  const int lane = threadIdx.x & 31;
  for (;;) {
    unsigned long long ticket = 0;
    if (lane == 0) ticket = atomicAdd(tickets, 1ull);
    ticket = __shfl_sync(full_warp, ticket, 0);
    const long long i = static_cast<long long>(ticket) / k, c = static_cast<long long>(ticket) % k;
    if (i >= tasks.count) return;
    const int task = tasks.task(i), lanes = tasks.lanes[task], part = lane % lanes;
    const long long row = tasks.first[task] + lane / lanes;
    const bool on = row < tasks.first[task + 1];
    const double own = on ? (scale ? scale[row] : 1.0) * B.at(row, c, k) : 0;
    double sum = on ? N.product(row, c, k, Y, part, lanes, stalled) : 0;
    for (int d = lanes / 2; d > 0; d /= 2) sum += __shfl_xor_sync(full_warp, sum, d);
    if (!on || part != 0) continue;
    publish(Y + row * k + c, own + sum);
    if (X.block) X.at(row, c, k) = own + sum;
  }
}

}  // namespace ms::trisolve

using namespace ms;
using namespace ms::trisolve;

// Before the two sweeps of a solve: no value is computed and no task claimed.
extern "C" __global__ void __launch_bounds__(256)
k_clear(long long count, double* Y, unsigned long long* tickets) {
  for (long long i = grid_begin(); i < count; i += grid_step()) Y[i] = __longlong_as_double(static_cast<long long>(unset));
  if (grid_begin() < 2) tickets[grid_begin()] = 0;
}

extern "C" __global__ void __launch_bounds__(256)
k_sweep(int count, int step, const int* first, const int* lanes, const long long* ptr, const int* idx, const SCALAR* value,
        const double* scale, int k, int* stalled, const double* B, const int* place_b, double* Y, double* X,
        const int* place_x, unsigned long long* tickets) {
  sweep<SCALAR>({count, step, first, lanes}, k, {ptr, idx, value}, scale, {B, place_b}, Y, {X, place_x}, tickets, stalled);
}
