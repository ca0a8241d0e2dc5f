// Parts of both sweeps: the arrays of a pass, the counters of tasks, a front, products with the inverse of a diagonal block.
#pragma once
#include "factor/cholesky/tasks.cuh"

namespace ms::cholesky {

constexpr int most_columns = 8;         // right-hand sides of a pass
constexpr int header = 4;               // counters of all passes: tickets of both directions

template <class T> struct Shared {      // memory of a thread block
  T* sum;                               // slots x most_columns, by right-hand sides
  T* y;                                 // block_columns x most_columns, by right-hand sides
  T* inverse;                           // packed
};

template <class T> struct Sweep {
  const Front* fronts;
  const int *parent, *child, *relative, *rows;
  const T* panels;
  long long n, vector_rows;
  int count, partial_slots;
  int* stalled;
  int* arrived;                         // children of each front whose vectors are complete
  int* finished;                        // tiles of each front that are complete, pivots first
  int* solved;                          // column blocks of each front that are solved backward, the last one first
  int* summed;                          // partial sums of each column block that are stored, at its first slot
  T *Y, *vectors, *partial;

  __device__ void enter(int pass, int columns, int* counters) {
    arrived = counters + header + pass * (3ll * count + partial_slots);
    finished = arrived + count;
    solved = finished + count;
    summed = solved + count;
    Y += pass * columns * n;
    vectors += pass * columns * vector_rows;
    partial += pass * columns * static_cast<long long>(partial_slots) * block_columns;
  }

  // Waits, by one thread, until a counter is at least `value`.
  __device__ void wait(const int* counter, int value) const {
    Timeout timeout(stalled);
    timeout.longest = 128;                                  // nanoseconds: a task on the longest path must not sleep
    timeout.until([&] { return *static_cast<const volatile int*>(counter) >= value; });
  }

  // Adds to a counter, by one thread after a barrier: data written before the barrier is visible after a wait.
  __device__ int raise(int* counter, int value) const {
    __threadfence();
    return atomicAdd(counter, value) + value;
  }
};

// A front for K right-hand sides of a pass.
template <int K, class T> struct Rows {
  const int pivots, height, updates, blocks;
  const long long n, leading;
  const T* const L;
  T *const y, *const below;             // pivots in Y; the other rows in the vectors
  const int* const rows;
  __device__ Rows(const Sweep<T>& t, const Front& f)
      : pivots(static_cast<int>(f.pivots)), height(static_cast<int>(f.height)), updates(f.updates()),
        blocks(ceil_div(pivots, block_columns)), n(t.n), leading(f.leading), L(t.panels + f.panel), y(t.Y + f.first),
        below(t.vectors + f.rows * K), rows(t.rows + f.rows) {}
};

// Loads the packed inverse of a diagonal block of `width` columns.
template <class T> __device__ __forceinline__ void load_inverse(const T* D, long long leading, int width, T* inverse) {
  for (int p = threadIdx.x; p < width * block_columns; p += blockDim.x) {
    const int i = p / block_columns, k = p % block_columns;
    if (k <= i) inverse[packed(i, k)] = k < i ? D[k + i * leading] : T(1) / D[i * (leading + 1)];
  }
}

// Y(k, c) := sum over i of entry(k, i) y(i, c) for a block of `width` unknowns.
template <int K, class T, class Entry>
__device__ __forceinline__ void multiply(int width, const Shared<T>& m, T* Y, long long n, Entry entry) {
  constexpr int parts = slots / block_columns;
  for (int item = threadIdx.x; item < slots; item += blockDim.x) {
    const int k = item % block_columns;
    T sum[K] = {};
    for (int i = item / block_columns; i < width; i += parts) {
      const T w = k < width ? entry(k, i) : T(0);
#pragma unroll
      for (int c = 0; c < K; ++c) sum[c] += w * m.y[i + c * block_columns];
    }
#pragma unroll
    for (int c = 0; c < K; ++c) m.sum[item + c * slots] = sum[c];
  }
  __syncthreads();
  for (int p = threadIdx.x; p < width * K; p += blockDim.x) {
    const int k = p % width, c = p / width;
    T sum = m.sum[k + c * slots];
    for (int part = 1; part < parts; ++part) sum += m.sum[k + part * block_columns + c * slots];
    Y[k + c * n] = sum;
  }
  __syncthreads();
}

}  // namespace ms::cholesky
