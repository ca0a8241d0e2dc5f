// Copies of values of the factor on the GPU: its diagonal, and its values on the pattern of L. CUDA counterpart of extract.cpp.
#include "factor/fronts/fronts.cuh"

namespace ms::cholesky {

using fronts::Block;
using fronts::Front;

template <class T> __device__ __forceinline__ void copy_diagonal(const Front& f, const T* panels, double* diagonal) {
  for (int j = threadIdx.x; j < f.pivots; j += blockDim.x)
    diagonal[f.first + j] = static_cast<double>(panels[f.panel + j * (f.leading + 1)]);
}

// The values of one front on the pattern of L. One warp per column.
template <class T>
__device__ __forceinline__ void copy_values(const Front& f, const int* rows, const long long* Lp, const int* Li, const T* panels,
                                            double* Lx) {
  const Block g;
  const int width = static_cast<int>(f.pivots);
  for (int j = g.warp; j < width; j += g.warps)
    for (long long p = Lp[f.first + j] + g.lane; p < Lp[f.first + j + 1]; p += 32) {
      const int i = Li[p] - static_cast<int>(f.first);
      const int local = i < width ? i : width + lower_bound(rows + f.rows, f.updates(), Li[p]);
      Lx[p] = static_cast<double>(panels[f.panel + local + j * f.leading]);
    }
}

}  // namespace ms::cholesky

using namespace ms;
using namespace ms::cholesky;

extern "C" __global__ void __launch_bounds__(128)
k_diagonal(const long long* table, const SCALAR* panels, double* diagonal) {
  copy_diagonal(reinterpret_cast<const Front*>(table)[blockIdx.x], panels, diagonal);
}

extern "C" __global__ void __launch_bounds__(128)
k_values(const long long* table, const int* rows, const long long* Lp, const int* Li, const SCALAR* panels, double* Lx) {
  copy_values(reinterpret_cast<const Front*>(table)[blockIdx.x], rows, Lp, Li, panels, Lx);
}
