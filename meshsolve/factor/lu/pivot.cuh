// The rule of static pivots on the GPU, and the counts of a factorization. Host counterparts: Pivoting (native/dense/lu.hpp) and
// Outcome.
#pragma once
#include "device/common.cuh"

namespace ms::lu {

struct Rule {
  double threshold, tiny, perturbed_size;
};

// seen[0] counts perturbed pivots; seen[1], seen[2] have the bits of max |B| and max |U|, which are ordered like the numbers.
struct Seen {
  unsigned long long* const counts;
  __device__ void perturbed(int count) const {
    if (count) atomicAdd(counts, static_cast<unsigned long long>(count));
  }
  __device__ void entry(double x) const { raise(counts + 1, x); }
  __device__ void upper(double x) const { raise(counts + 2, x); }

 private:
  __device__ static void raise(unsigned long long* most, double x) {
    const auto bits = static_cast<unsigned long long>(__double_as_longlong(x));
    if (bits > *static_cast<volatile unsigned long long*>(most)) atomicMax(most, bits);
  }
};

// |x| for comparisons and maxima; infinity for NaN, which would otherwise be lost.
template <class T> __device__ __forceinline__ double magnitude(T x) {
  const double size = fabs(static_cast<double>(x));
  return size == size ? size : __longlong_as_double(0x7ff0000000000000LL);
}

// The pivot used for x: perturbed if x is too small.
template <class T> __device__ __forceinline__ T usable(T x, const Rule& rule) {
  return fabs(static_cast<double>(x)) >= rule.tiny ? x : x < T(0) ? T(-rule.perturbed_size) : T(rule.perturbed_size);
}

}  // namespace ms::lu
