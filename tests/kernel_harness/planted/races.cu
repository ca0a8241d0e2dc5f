// Kernels for races.hpp: each has a race between threads of one block, except for k_needed and k_flag.
#include "device/common.cuh"

// The next round writes before every thread has read.
extern "C" __global__ void __launch_bounds__(64) k_overwritten(int* out) {
  __shared__ int value[64];
  int sum = 0;
  for (int round = 0; round < 2; ++round) {
    value[threadIdx.x] = round;
    __syncthreads();
    sum += value[63 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

// Lanes exchange values through shared memory without __syncwarp.
extern "C" __global__ void __launch_bounds__(64) k_lockstep(int* out) {
  __shared__ int value[64];
  value[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = value[threadIdx.x ^ 1];
}

// A barrier of the warp where threads of another warp are read.
extern "C" __global__ void __launch_bounds__(64) k_weak_barrier(int* out) {
  __shared__ int value[64];
  value[threadIdx.x] = threadIdx.x;
  __syncwarp();
  out[threadIdx.x] = value[63 - threadIdx.x];
}

// One thread writes a byte of the number that another one reads.
extern "C" __global__ void __launch_bounds__(64) k_byte(int* out) {
  __shared__ int value;
  if (threadIdx.x == 0) value = 0;
  __syncthreads();
  if (threadIdx.x == 1) reinterpret_cast<char*>(&value)[2] = 1;
  if (threadIdx.x == 40) out[0] = value;
}

// A counter is read while other threads add to it.
extern "C" __global__ void __launch_bounds__(64) k_plain_read(int* out) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);
  out[threadIdx.x] = count;
}

// One warp sends to another through a flag. It has no race if with_fence.
extern "C" __global__ void __launch_bounds__(64) k_flag(int* out, int* flag, int with_fence) {
  __shared__ int value[32];
  if (threadIdx.x < 32) {
    value[threadIdx.x] = threadIdx.x;
    __syncwarp();
    if (with_fence) __threadfence();
    if (threadIdx.x == 0) *static_cast<volatile int*>(flag) = 1;
  } else {
    if (threadIdx.x == 32)
      while (*static_cast<volatile int*>(flag) == 0) __nanosleep(20);
    __threadfence();
    __syncwarp();
    out[threadIdx.x - 32] = value[63 - threadIdx.x];
  }
}

// The first barrier and the volatile access are needed. The second barrier is not.
extern "C" __global__ void __launch_bounds__(64) k_needed(int* out, int* last) {
  __shared__ int value[64];
  value[threadIdx.x] = threadIdx.x;
  __syncthreads();
  const int other = value[63 - threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = other;
  *static_cast<volatile int*>(last) = 1;
}
