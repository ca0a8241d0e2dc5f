// The CUDA functions that kernels of this library may use, for g++: launch indices, barriers, warp operations, atomics, fences,
// a few intrinsics. Kernels with other CUDA functions do not compile.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "engine.hpp"

#define HARNESS_VECTOR(T, U, align2, align4)           \
  struct alignas(align2) U##2 {                        \
    T x, y;                                            \
  };                                                   \
  struct alignas(align4) U##4 {                        \
    T x, y, z, w;                                      \
  };                                                   \
  inline U##2 make_##U##2(T x, T y) { return {x, y}; } \
  inline U##4 make_##U##4(T x, T y, T z, T w) { return {x, y, z, w}; }
HARNESS_VECTOR(int, int, 8, 16)
HARNESS_VECTOR(unsigned, uint, 8, 16)
HARNESS_VECTOR(float, float, 8, 16)
HARNESS_VECTOR(double, double, 16, 16)

namespace harness {

template <class To, class From> To bits(From from) {
  static_assert(sizeof(To) >= sizeof(From));
  To to{};
  memcpy(&to, &from, sizeof from);
  return to;
}

// One atomic read-modify-write; returns the old value.
template <class T, class F> T modify(T* p, F&& f) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "atomics are on 32 and 64 bits");
  begin_atomic(p);
  using U = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  U* const q = reinterpret_cast<U*>(p);
  U seen = __atomic_load_n(q, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(q, &seen, bits<U>(static_cast<T>(f(bits<T>(seen)))), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  end_atomic(p);
  return bits<T>(seen);
}

template <class T> T value_of(uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T> T shuffled(unsigned mask, T value, int source, bool valid) {
  return value_of<T>(shuffle(mask, bits<uint64_t>(value), source, valid));
}
template <class T> T reduced(unsigned mask, T value, uint64_t (*combine)(uint64_t, uint64_t)) {
  return value_of<T>(reduce(mask, bits<uint64_t>(value), combine));
}

template <class T> T& shared_variable(unsigned id) { return *static_cast<T*>(shared_slot(id, sizeof(T))); }

template <class T> void copy_async(T* to, T value) {
  T garbage;
  memset(&garbage, 0xCD, sizeof garbage);
  *to = garbage;
  note_copy(to, bits<uint64_t>(value), sizeof(T));
}
inline void wait_for_copies(unsigned pending) {
  for (Copy copy; next_copy(pending, copy);)
    if (copy.size == 8) memcpy(copy.to, &copy.bits, 8);
    else memcpy(copy.to, &copy.bits, 4);
}

}  // namespace harness

// ---- indices, barriers, fences

#define threadIdx harness::thread_idx
#define blockIdx harness::block_idx
#define blockDim harness::block_dim
#define gridDim harness::grid_dim
static constexpr int warpSize = 32;

inline void __syncthreads(unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) { harness::sync_threads(line, file); }
inline int __syncthreads_count(int vote, unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  return harness::sync_and_count(vote != 0, line, file);
}
inline int __syncthreads_or(int vote, unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  return __syncthreads_count(vote, line, file) != 0;
}
inline int __syncthreads_and(int vote, unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  return __syncthreads_count(!vote, line, file) == 0;
}
inline void __syncwarp(unsigned mask = ~0u, unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  harness::sync_warp(mask, line, file);
}
inline void __threadfence(unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) { harness::fence(line, file); }
inline void __threadfence_block(unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) { __threadfence(line, file); }
inline void __threadfence_system(unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) { __threadfence(line, file); }
inline void __nanosleep(unsigned) { harness::yield(); }
inline long long clock64() { return harness::now(); }
[[noreturn]] inline void __trap() { harness::trap(); }

// ---- warp operations

template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  return harness::shuffled(mask, value, (harness::lane() & ~(width - 1)) | (source & (width - 1)), true);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = harness::lane(), source = lane - static_cast<int>(delta);
  return harness::shuffled(mask, value, source, source >= (lane & ~(width - 1)));
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = harness::lane(), source = lane + static_cast<int>(delta);
  return harness::shuffled(mask, value, source, source <= (lane | (width - 1)));
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int other, int width = 32) {
  const int lane = harness::lane(), source = lane ^ other;
  return harness::shuffled(mask, value, source, source <= (lane | (width - 1)));
}
inline unsigned __ballot_sync(unsigned mask, int vote) { return harness::ballot(mask, vote != 0); }
inline int __any_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) != 0; }
inline int __all_sync(unsigned mask, int vote) { return __ballot_sync(mask, !vote) == 0; }
template <class T> unsigned __match_any_sync(unsigned mask, T value) { return harness::match(mask, harness::bits<uint64_t>(value)); }
#define HARNESS_REDUCE(NAME, RESULT)                                                                \
  template <class T> T NAME(unsigned mask, T value) {                                               \
    return harness::reduced(mask, value, [](uint64_t left, uint64_t right) {                        \
      const T a = harness::value_of<T>(left), b = harness::value_of<T>(right);                      \
      return harness::bits<uint64_t, T>(RESULT);                                                    \
    });                                                                                             \
  }
HARNESS_REDUCE(__reduce_add_sync, a + b)
HARNESS_REDUCE(__reduce_min_sync, std::min(a, b))
HARNESS_REDUCE(__reduce_max_sync, std::max(a, b))
HARNESS_REDUCE(__reduce_or_sync, a | b)
HARNESS_REDUCE(__reduce_and_sync, a & b)

// ---- atomics

#define HARNESS_ATOMIC(NAME, RESULT)                                      \
  template <class T> T NAME(T* p, std::common_type_t<T> value) {          \
    return harness::modify(p, [&](T old) -> T { return (RESULT); });      \
  }
HARNESS_ATOMIC(atomicAdd, old + value)
HARNESS_ATOMIC(atomicSub, old - value)
HARNESS_ATOMIC(atomicExch, value)
HARNESS_ATOMIC(atomicMin, old < value ? old : value)
HARNESS_ATOMIC(atomicMax, old < value ? value : old)
HARNESS_ATOMIC(atomicAnd, old & value)
HARNESS_ATOMIC(atomicOr, old | value)
HARNESS_ATOMIC(atomicXor, old ^ value)
template <class T> T atomicCAS(T* p, std::common_type_t<T> expected, std::common_type_t<T> value) {
  return harness::modify(p, [&](T old) -> T { return old == expected ? value : old; });
}

// ---- intrinsics

template <class T> T __ldg(const T* p) { return *p; }
template <class T> T __ldcg(const T* p) { return *p; }
template <class T> void __stcg(T* p, std::common_type_t<T> value) { *p = value; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (x >> i & 1) << (31 - i);
  return r;
}
inline int __float_as_int(float x) { return harness::bits<int>(x); }
inline float __int_as_float(int x) { return harness::bits<float>(x); }
inline long long __double_as_longlong(double x) { return harness::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return harness::bits<double>(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
using std::max;
using std::min;

#define __KERNEL_HARNESS__ 1
#define __CUDA_ARCH__ 900
#define __host__
#define __device__
#define __global__ __attribute__((visibility("default")))
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

// ---- what ctypes calls: a kernel with pointers to its arguments, and their types

namespace harness {

template <class... A, size_t... I> void call(void (*kernel)(A...), void** args, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_const_t<A>*>(args[I])...);
}
template <class... A> void call(void (*kernel)(A...), void** args) { call(kernel, args, std::index_sequence_for<A...>()); }

struct Code {                                             // "*i4" for int*, "f8" for double, "V16" for double2
  char text[8];
};
template <class T> constexpr Code code_of() {
  using Item = std::remove_cv_t<std::remove_pointer_t<T>>;
  Code code{};
  char* at = code.text;
  if (std::is_pointer_v<T>) *at++ = '*';
  *at++ = std::is_same_v<Item, bool>      ? 'b'
          : std::is_floating_point_v<Item> ? 'f'
          : std::is_unsigned_v<Item>       ? 'u'
          : std::is_integral_v<Item>       ? 'i'
                                           : 'V';
  if (sizeof(Item) > 9) *at++ = static_cast<char>('0' + sizeof(Item) / 10);
  *at = static_cast<char>('0' + sizeof(Item) % 10);
  return code;
}
template <class... A> const Code* codes(void (*)(A...)) {                         // ends with an empty one
  static constexpr Code all[] = {code_of<std::remove_cv_t<A>>()..., Code{}};
  return all;
}

}  // namespace harness

#define HARNESS_EXPORT(KERNEL)                                                                                                        \
  extern "C" __attribute__((visibility("default"))) const harness::Code* codes_##KERNEL() { return harness::codes(KERNEL); }            \
  extern "C" __attribute__((visibility("default"))) void call_##KERNEL(void** args) { harness::call(KERNEL, args); }
