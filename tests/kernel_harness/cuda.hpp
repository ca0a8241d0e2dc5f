// The CUDA functions that kernels of this library may use, for g++: launch indices, barriers, warp operations, atomics, fences,
// a few intrinsics. Kernels with other CUDA functions do not compile.
//
// Memory model under ThreadSanitizer, as in C++11: atomics and volatile accesses are relaxed. A __threadfence before a strong store
// releases, a __threadfence after a strong load acquires. So a missing fence around a plain payload is a data race.
// In other builds memory order is stronger than on a GPU. Lanes are never in lockstep.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "block.hpp"

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

// ---- memory order

#if HARNESS_TSAN
HARNESS_QUIET inline void strong_store(void* p) {         // releases the accesses before the last fence of this thread
  Block* const b = here;
  if (!b) return;
  Fiber& f = b->fiber();
  Quiet quiet(&f);
  if (!f.fenced) return;
  __tsan_switch_to_fiber(f.publisher, 1);
  __tsan_acquire(&f.fenced);
  __tsan_release(p);
  __tsan_switch_to_fiber(f.tsan, 1);
}
HARNESS_QUIET inline void strong_load(void* p) {
  Block* const b = here;
  if (!b) return;
  Quiet quiet(&b->fiber());
  auto& loads = b->fiber().strong_loads;
  if (std::find(loads.begin(), loads.end(), p) == loads.end()) loads.push_back(p);
}
HARNESS_QUIET inline void fence() {
  Fiber& f = here->fiber();
  for (void* p : f.strong_loads) __tsan_acquire(p);
  f.strong_loads.clear();
  f.fenced = 1;
  __tsan_release(&f.fenced);
}
#elif defined(HARNESS_RACES)
HARNESS_QUIET inline void strong_store(void* p) {
  if (!here || !here->running) return;
  Fiber& f = *here->running;
  Quiet quiet(&f);
  here->races.strong_store(f.linear, p);
}
HARNESS_QUIET inline void strong_load(void* p) {
  if (!here || !here->running) return;
  Fiber& f = *here->running;
  Quiet quiet(&f);
  here->races.strong_load(p, f.strong_loads);
}
HARNESS_QUIET inline void fence() {
  Fiber& f = *here->running;
  Quiet quiet(&f);
  here->races.fence(f.linear, f.strong_loads);
}
#else
inline void strong_store(void*) {}
inline void strong_load(void*) {}
inline void fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#endif

template <class To, class From> To bits(From from) {
  static_assert(sizeof(To) >= sizeof(From));
  To to{};
  memcpy(&to, &from, sizeof from);
  return to;
}

// One atomic read-modify-write; returns the old value.
template <class T, class F> T modify(T* p, F&& f) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "atomics are on 32 and 64 bits");
  maybe_yield();
  strong_store(const_cast<void*>(static_cast<const volatile void*>(p)));
  using U = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  U* const q = reinterpret_cast<U*>(p);
  U seen = __atomic_load_n(q, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(q, &seen, bits<U>(static_cast<T>(f(bits<T>(seen)))), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  strong_load(const_cast<void*>(static_cast<const volatile void*>(p)));
  return bits<T>(seen);
}

// ---- mutants: the construct at FILE:LINE of the environment variable MESHSOLVE_HARNESS_WITHOUT is skipped, see mutate.py

struct TakenAway {
  std::string file;
  unsigned line = 0;
  TakenAway() {
    const char* const given = getenv("MESHSOLVE_HARNESS_WITHOUT");
    const char* const colon = given ? strrchr(given, ':') : nullptr;
    if (!colon) return;
    file.assign(given, colon);
    line = static_cast<unsigned>(atoi(colon + 1));
  }
};
inline const TakenAway taken_away;

HARNESS_QUIET inline bool is_taken_away(const char* file, unsigned line) {
  if (line != taken_away.line) return false;
  const size_t length = strlen(file), tail = taken_away.file.size();
  return length >= tail && memcmp(file + length - tail, taken_away.file.data(), tail) == 0;
}

// ---- warps

HARNESS_QUIET inline int lane() { return static_cast<int>(here->fiber().linear & 31); }

template <class T> HARNESS_QUIET T shuffle(unsigned mask, T value, int source, bool valid) {
  unsigned parity;
  const WarpBarrier& warp = sync_warp(mask, bits<uint64_t>(value), false, parity);
  if (!valid) return value;
  if (!(warp.arrived[parity] >> source & 1)) fail(*here, "shuffle from a lane that takes no part: " + where(*here, here->fiber()));
  T got;
  memcpy(&got, &warp.slot[parity][source], sizeof got);
  return got;
}

template <class T, class F> HARNESS_QUIET T reduce(unsigned mask, T value, F&& f) {
  unsigned parity;
  const WarpBarrier& warp = sync_warp(mask, bits<uint64_t>(value), false, parity);
  T sum{};
  bool first = true;
  for (int i = 0; i < 32; ++i) {
    if (!(warp.arrived[parity] >> i & 1)) continue;
    T other;
    memcpy(&other, &warp.slot[parity][i], sizeof other);
    sum = first ? other : f(sum, other);
    first = false;
  }
  return sum;
}

// ---- asynchronous copies to shared memory (device/ptx.cuh): the number is read at once and stored when its thread waits for its group;
// until then the target has garbage

HARNESS_QUIET inline void note_copy(void* to, uint64_t bits, unsigned size) {
  Fiber& f = here->fiber();
  Quiet quiet(&f);
  f.copies.push_back({to, bits, size, f.groups});
}
HARNESS_QUIET inline void end_copies() { ++here->fiber().groups; }

// Takes the first unfinished copy out of the list, unless it is of the last `pending` groups or of none yet.
HARNESS_QUIET inline bool next_copy(unsigned pending, Copy& copy) {
  Fiber& f = here->fiber();
  Quiet quiet(&f);
  if (f.copies.empty() || f.copies.front().group + pending >= f.groups) return false;
  copy = f.copies.front();
  f.copies.erase(f.copies.begin());
  return true;
}

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

inline void __syncthreads(unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  if (!harness::is_taken_away(file, line)) harness::sync_block(line, file);
}
inline int __syncthreads_count(int vote, unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  int& count = harness::shared_variable<int>(1);
  harness::sync_block(line, file);
  if (harness::here->fiber().linear == 0) count = 0;
  harness::sync_block(line, file);
  __atomic_fetch_add(&count, vote != 0, __ATOMIC_RELAXED);
  harness::sync_block(line, file);
  return __atomic_load_n(&count, __ATOMIC_RELAXED);
}
inline int __syncthreads_or(int vote, unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  return __syncthreads_count(vote, line, file) != 0;
}
inline int __syncthreads_and(int vote, unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  return __syncthreads_count(!vote, line, file) == 0;
}
inline void __syncwarp(unsigned mask = ~0u, unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  if (harness::is_taken_away(file, line)) return;
  unsigned parity;
  harness::sync_warp(mask, 0, false, parity, file, line);
}
inline void __threadfence(unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  if (harness::is_taken_away(file, line)) return;
  harness::fence();
  harness::maybe_yield();
}
inline void __threadfence_block(unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) { __threadfence(line, file); }
inline void __threadfence_system(unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) { __threadfence(line, file); }
inline void __nanosleep(unsigned) { harness::yield(); }
inline long long clock64() { return harness::Clock::now().time_since_epoch().count(); }
[[noreturn]] inline void __trap() { harness::fail(*harness::here, "__trap: " + harness::where(*harness::here, harness::here->fiber())); }

// ---- warp operations

template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  return harness::shuffle(mask, value, (harness::lane() & ~(width - 1)) | (source & (width - 1)), true);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = harness::lane(), source = lane - static_cast<int>(delta);
  return harness::shuffle(mask, value, source, source >= (lane & ~(width - 1)));
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = harness::lane(), source = lane + static_cast<int>(delta);
  return harness::shuffle(mask, value, source, source <= (lane | (width - 1)));
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int other, int width = 32) {
  const int lane = harness::lane(), source = lane ^ other;
  return harness::shuffle(mask, value, source, source <= (lane | (width - 1)));
}
HARNESS_QUIET inline unsigned __ballot_sync(unsigned mask, int vote) {
  unsigned parity;
  return harness::sync_warp(mask, 0, vote != 0, parity).ballot[parity];
}
inline int __any_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) != 0; }
inline int __all_sync(unsigned mask, int vote) { return __ballot_sync(mask, !vote) == 0; }
template <class T> HARNESS_QUIET unsigned __match_any_sync(unsigned mask, T value) {
  unsigned parity, same = 0;
  const uint64_t mine = harness::bits<uint64_t>(value);
  const harness::WarpBarrier& warp = harness::sync_warp(mask, mine, false, parity);
  for (int i = 0; i < 32; ++i)
    if ((warp.arrived[parity] >> i & 1) && warp.slot[parity][i] == mine) same |= 1u << i;
  return same;
}
template <class T> T __reduce_add_sync(unsigned mask, T v) { return harness::reduce(mask, v, [](T a, T b) { return a + b; }); }
template <class T> T __reduce_min_sync(unsigned mask, T v) { return harness::reduce(mask, v, [](T a, T b) { return std::min(a, b); }); }
template <class T> T __reduce_max_sync(unsigned mask, T v) { return harness::reduce(mask, v, [](T a, T b) { return std::max(a, b); }); }
inline unsigned __reduce_or_sync(unsigned mask, unsigned v) { return harness::reduce(mask, v, [](unsigned a, unsigned b) { return a | b; }); }
inline unsigned __reduce_and_sync(unsigned mask, unsigned v) { return harness::reduce(mask, v, [](unsigned a, unsigned b) { return a & b; }); }

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

#if defined(HARNESS_RACES)
#include "hooks.hpp"
#endif
#if HARNESS_TSAN  // --param tsan-distinguish-volatile=1: volatile accesses are strong accesses in CUDA, not races
#define HARNESS_VOLATILE(N)                                                                                                   \
  extern "C" __attribute__((weak)) HARNESS_QUIET void __tsan_volatile_read##N(void* p) { harness::strong_load(p); }           \
  extern "C" __attribute__((weak)) HARNESS_QUIET void __tsan_volatile_write##N(void* p) { harness::strong_store(p); }
HARNESS_VOLATILE(1)
HARNESS_VOLATILE(2)
HARNESS_VOLATILE(4)
HARNESS_VOLATILE(8)
HARNESS_VOLATILE(16)
#endif

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

#define HARNESS_EXPORT(KERNEL)                                                                                              \
  extern "C" __attribute__((visibility("default"))) const char* signature_##KERNEL() { return harness::signature(KERNEL); }  \
  extern "C" __attribute__((visibility("default"))) int launch_##KERNEL(const unsigned* grid, const unsigned* block,         \
                                                                        size_t shared, void** args, unsigned resident,       \
                                                                        uint64_t seed, double timeout, char* error,          \
                                                                        size_t room) {                                       \
    return harness::launch(KERNEL, grid, block, shared, args, resident, seed, timeout, error, room);                         \
  }
