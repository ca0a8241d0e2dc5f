// Inverses of the diagonal blocks of a Cholesky factor on the GPU.
//
// A block of up to 64 columns is inverted by one thread block, after each numeric phase. Its two halves are inverted by one warp
// each, a column per lane in registers; the square below them is -W22 (L21 W11). Strict entries W(i, k) are stored at (k, i), in the
// triangle above the diagonal of the panel, which the factorization does not read. The diagonal of W is 1 / L(i, i). Cost: 64^3 / 3
// multiplications a block. Source: Yamazaki, Rajamanickam, Ellingwood 2020, see sweeps.cu.
#include "factor/cholesky/tasks.cuh"

namespace ms::cholesky {

constexpr int half = block_columns / 2;

// Inverts N unknowns of a packed triangle from `begin` on, in place, by one warp.
template <int N, class T> __device__ __forceinline__ void invert_half(T* L, int begin) {
  const int lane = threadIdx.x & 31;
  T x[N];
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = i == lane ? T(1) : T(0);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    x[i] *= T(1) / L[packed(begin + i, begin + i)];
#pragma unroll
    for (int k = i + 1; k < N; ++k) x[k] -= L[packed(begin + k, begin + i)] * x[i];
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (lane <= i) L[packed(begin + i, begin + lane)] = x[i];
}

template <class T> __device__ __forceinline__ void invert(T* D, long long leading, int width) {
  __shared__ T L[triangle];
  __shared__ T product[half * half];
  for (int p = threadIdx.x; p < block_columns * block_columns; p += blockDim.x) {
    const int i = p % block_columns, k = p / block_columns;
    if (k <= i) L[packed(i, k)] = i < width ? D[i + k * leading] : k == i ? T(1) : T(0);
  }
  __syncthreads();
  for (int begin = half * (threadIdx.x >> 5); begin < width; begin += half * (blockDim.x >> 5)) invert_half<half>(L, begin);
  __syncthreads();
  for (int p = threadIdx.x; width > half && p < half * half; p += blockDim.x) {
    const int i = half + p % half, j = p / half;
    T sum = T(0);
    for (int k = j; k < half; ++k) sum += L[packed(i, k)] * L[packed(k, j)];
    product[p] = sum;
  }
  __syncthreads();
  for (int p = threadIdx.x; width > half && p < half * half; p += blockDim.x) {
    const int i = half + p % half, j = p / half;
    T sum = T(0);
    for (int k = half; k <= i; ++k) sum -= L[packed(i, k)] * product[k - half + j * half];
    L[packed(i, j)] = sum;
  }
  __syncthreads();
  for (int p = threadIdx.x; p < width * block_columns; p += blockDim.x) {
    const int i = p / block_columns, k = p % block_columns;
    if (k < i) D[k + i * leading] = L[packed(i, k)];
  }
}

}  // namespace ms::cholesky

using namespace ms;
using namespace ms::cholesky;

// blocks: pairs (front, block), one for each thread block. If `changed` is given, only blocks of fronts with a 1 there are inverted.
extern "C" __global__ void __launch_bounds__(128)
k_invert(const int* blocks, const long long* table, const int* changed, SCALAR* panels) {
  const int s = blocks[2 * blockIdx.x];
  if (changed && !changed[s]) return;
  const Front& f = reinterpret_cast<const Front*>(table)[s];
  const int from = blocks[2 * blockIdx.x + 1] * block_columns;
  invert(panels + f.panel + from + from * f.leading, f.leading, min(block_columns, static_cast<int>(f.pivots) - from));
}
