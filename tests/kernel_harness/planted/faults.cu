// Kernels with one fault each.
#include "device/common.cuh"

// Half of the block waits at one barrier, half at another.
extern "C" __global__ void __launch_bounds__(64) k_divergent_barrier(int* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
    out[threadIdx.x] = 1;
  } else {
    __syncthreads();
    out[threadIdx.x] = 2;
  }
}

// Half of a warp waits at the block's barrier, the other half at the warp's.
extern "C" __global__ void __launch_bounds__(32) k_deadlock(int* out) {
  if (threadIdx.x < 16) __syncthreads();
  else __syncwarp();
  out[threadIdx.x] = 1;
}

// Every block waits until all have arrived, which needs all blocks in flight.
extern "C" __global__ void __launch_bounds__(32) k_grid_barrier(int* arrived) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1);
    while (*static_cast<volatile int*>(arrived) < static_cast<int>(gridDim.x)) __nanosleep(20);
  }
  __syncthreads();
}

// The same with a limited wait.
extern "C" __global__ void __launch_bounds__(32) k_patient_barrier(int* arrived, int* stalled) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1);
    ms::Timeout timeout(stalled);
    timeout.left = gridDim.x > 2 ? 2000 : 1 << 30;          // two resident blocks do meet, however late one begins
    timeout.until([&] { return *static_cast<volatile int*>(arrived) == static_cast<int>(gridDim.x); });
  }
}

// A sum over the warps of a block with a missing barrier before it.
extern "C" __global__ void __launch_bounds__(128) k_missing_barrier(const int* in, int* out) {
  __shared__ int value[128];
  value[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int k = 0; k < static_cast<int>(blockDim.x); ++k) sum += value[k];
    *out = sum;
  }
}

// Two blocks add to one number without an atomic.
extern "C" __global__ void __launch_bounds__(32) k_lost_update(int* out) {
  if (threadIdx.x == 0) *out += 1;
}

extern "C" __global__ void __launch_bounds__(32) k_shared_overrun(int* out) {
  extern __shared__ int shared[];
  shared[threadIdx.x + 1] = threadIdx.x;                      // shared memory has 32 numbers
  __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x + 1];
}

extern "C" __global__ void __launch_bounds__(32) k_static_overrun(int* out, int n) {
  __shared__ int shared[32];
  for (int k = threadIdx.x; k < n; k += blockDim.x) shared[k] = k;
  __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(32) k_signed_overflow(int* out) {
  const int largest = 0x7fffffff - out[threadIdx.x];
  out[threadIdx.x] = largest + 1;
}

extern "C" __global__ void __launch_bounds__(32) k_misaligned(int* out) {
  if (threadIdx.x == 0) *reinterpret_cast<int*>(reinterpret_cast<char*>(out) + 1) = 1;
}

extern "C" __global__ void __launch_bounds__(32) k_null(int* out) {
  int* const nowhere = reinterpret_cast<int*>(static_cast<unsigned long long>(out[threadIdx.x]));
  *nowhere = 1;
}

// A shuffle from a lane outside the mask.
extern "C" __global__ void __launch_bounds__(32) k_absent_lane(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffffu, 1, 16);
}

// Reads shared memory that was not initialized.
extern "C" __global__ void __launch_bounds__(32) k_uninitialized(int* out) {
  __shared__ int sum;
  atomicAdd(&sum, 1);
  __syncthreads();
  if (threadIdx.x == 0) *out = sum;
}
