// Kernels that are wrong, each in one way.
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

// Every block waits until all have arrived: needs as many in flight as there are.
extern "C" __global__ void __launch_bounds__(32) k_grid_barrier(int* arrived) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1);
    while (*static_cast<volatile int*>(arrived) < static_cast<int>(gridDim.x)) __nanosleep(20);
  }
  __syncthreads();
}

// The same with an end.
extern "C" __global__ void __launch_bounds__(32) k_patient_barrier(int* arrived, int* stalled) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1);
    ms::Patience patience(stalled);
    patience.left = gridDim.x > 2 ? 2000 : 1 << 30;          // two blocks are resident: they do meet, however long the other takes to begin
    patience.until([&] { return *static_cast<volatile int*>(arrived) == static_cast<int>(gridDim.x); });
  }
}

// A sum over the warps of a block without a barrier before it.
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
  extern __shared__ int room[];
  room[threadIdx.x + 1] = threadIdx.x;                      // 32 numbers were asked for
  __syncthreads();
  out[threadIdx.x] = room[threadIdx.x + 1];
}

extern "C" __global__ void __launch_bounds__(32) k_static_overrun(int* out, int n) {
  __shared__ int room[32];
  for (int k = threadIdx.x; k < n; k += blockDim.x) room[k] = k;
  __syncthreads();
  out[threadIdx.x] = room[threadIdx.x];
}

// A lane that takes no part is asked for its value.
extern "C" __global__ void __launch_bounds__(32) k_absent_lane(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffffu, 1, 16);
}

// Shared memory is not zero when a block begins.
extern "C" __global__ void __launch_bounds__(32) k_uninitialized(int* out) {
  __shared__ int sum;
  atomicAdd(&sum, 1);
  __syncthreads();
  if (threadIdx.x == 0) *out = sum;
}
