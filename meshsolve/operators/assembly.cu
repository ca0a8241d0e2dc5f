// Sums of contributions to the entries of a sparse matrix: the counterpart of `assemble` in assembly.cpp, with the same order of additions.
#include "device/common.cuh"

using namespace ms;

// data[e] = sum of values[source[p]] for p from ptr[e] to ptr[e + 1] - 1. A number has `width` doubles: 1, or 2 for complex numbers.
extern "C" __global__ void __launch_bounds__(256)
k_assemble(long long count, int width, const long long* ptr, const int* source, const double* values, double* data) {
  for (long long k = grid_begin(); k < count * width; k += grid_step()) {
    const long long e = k / width, c = k % width;
    double sum = values[source[ptr[e]] * (long long)width + c];
    for (long long p = ptr[e] + 1; p < ptr[e + 1]; ++p) sum += values[source[p] * (long long)width + c];
    data[k] = sum;
  }
}
