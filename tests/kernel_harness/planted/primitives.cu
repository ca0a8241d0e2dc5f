// The operations of a thread block in device/common.cuh, each twice in a row without a barrier in between.
#include "device/common.cuh"

using namespace ms;

extern "C" __global__ void __launch_bounds__(96) k_primitives(const int* in, int count, int* rows, int* numbers) {
  int total, at = 0;
  for (int round = 0; round < 2; ++round) {
    const int value = in[threadIdx.x + round];
    const int before = block_exclusive_sum(value, total);
    numbers[96 * at++ + threadIdx.x] = before;
    numbers[96 * at++ + threadIdx.x] = total;
    numbers[96 * at++ + threadIdx.x] = block_max(value);
    numbers[96 * at++ + threadIdx.x] = block_max(-value);
  }
  int* const sorted = rows + count;
  for (int round = 0; round < 2; ++round) {
    const int sum = block_exclusive_sums(rows, count);
    numbers[96 * at++ + threadIdx.x] = sum + rows[count - 1 - threadIdx.x];
  }
  block_sort(sorted, count);
  numbers[96 * at + threadIdx.x] = sorted[count - 1 - threadIdx.x];
}

// A wait in vain by all thread blocks. The first that gives up ends the other waits.
extern "C" __global__ void __launch_bounds__(32) k_wait_in_vain(const int* flag, int* stalled, int* ended) {
  if (threadIdx.x != 0) return;
  ms::Timeout timeout(stalled);
  timeout.left = 2000;
  ended[blockIdx.x] = !timeout.until([&] { return *static_cast<const volatile int*>(flag) != 0; });
}
