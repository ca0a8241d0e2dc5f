// Copies the values of A to the positions that the analysis has computed, scaled.
#include "factor/lu/pivot.cuh"

namespace ms::lu {

// out[target[p]] = data[source[p]] * scale[p] for distinct positions. A null `target` is the identity; `seen` may be null.
template <class T>
__device__ __forceinline__ void scatter(long long count, const unsigned* source, const long long* target, const double* scale,
                                        const double* data, T* out, unsigned long long* seen) {
  double most = 0;
  for (long long p = grid_begin(); p < count; p += grid_step()) {
    const T x = static_cast<T>(data[source[p]] * scale[p]);
    out[target ? target[p] : p] = x;
    most = fmax(most, magnitude(x));
  }
  most = warp_max(most);
  if (seen && (threadIdx.x & 31) == 0) Seen{seen}.entry(most);
}

}  // namespace ms::lu

extern "C" __global__ void __launch_bounds__(256)
k_scatter(long long count, const unsigned* source, const long long* target, const double* scale, const double* data,
          SCALAR* out, unsigned long long* seen) {
  ms::lu::scatter(count, source, target, scale, data, out, seen);
}
