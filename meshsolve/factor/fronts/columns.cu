// Copies right-hand sides into the work array of solves with fronts, and solutions back.
#include "device/common.cuh"

namespace ms::fronts {

// Y(position[i], c) = scale[i] B(from[i], c) for n rows and `columns` right-hand sides, zeros up to `width`. `row` and `column` are
// the strides of B. A null `from` or `position` is the identity, a null `scale` all ones.
template <class T>
__device__ __forceinline__ void to_columns(const int* from, const int* position, const double* scale, int n, int columns, int width,
                                           const double* B, long long row, long long column, T* Y) {
  for (long long k = grid_begin(); k < static_cast<long long>(n) * width; k += grid_step()) {
    const long long i = k % n, c = k / n;
    const double x = c < columns ? B[(from ? from[i] : i) * row + c * column] : 0.0;
    Y[(position ? position[i] : i) + c * n] = static_cast<T>(scale && c < columns ? x * scale[i] : x);
  }
}

// X(to[i], c) = Y(position[i], c) scale[i], or NaN if *failed is not 0. A null `failed` is 0.
template <class T>
__device__ __forceinline__ void from_columns(const int* to, const int* position, const double* scale, const int* failed, int n, int columns,
                                             const T* Y, double* X, long long row, long long column) {
  const double factor = failed && *failed ? __longlong_as_double(0x7ff8000000000000ll) : 1.0;
  for (long long k = grid_begin(); k < static_cast<long long>(n) * columns; k += grid_step()) {
    const long long i = k % n, c = k / n;
    const double y = static_cast<double>(Y[(position ? position[i] : i) + c * n]);
    X[(to ? to[i] : i) * row + c * column] = (scale ? y * scale[i] : y) * factor;
  }
}

}  // namespace ms::fronts

extern "C" __global__ void __launch_bounds__(256)
k_to_columns(const int* from, const int* position, const double* scale, int n, int columns, int width, const double* B,
             long long offset, long long row, long long column, SCALAR* Y) {
  ms::fronts::to_columns(from, position, scale, n, columns, width, B + offset, row, column, Y);
}

extern "C" __global__ void __launch_bounds__(256)
k_from_columns(const int* to, const int* position, const double* scale, const int* failed, int n, int columns, const SCALAR* Y,
               double* X, long long offset, long long row, long long column) {
  ms::fronts::from_columns(to, position, scale, failed, n, columns, Y, X + offset, row, column);
}
