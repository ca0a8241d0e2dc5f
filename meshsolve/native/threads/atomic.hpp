// Atomic access to a plain variable: std::atomic_ref, which some standard libraries (Apple's, before 2025) lack. It uses the
// builtin operations of g++ and clang++ (also as clang-cl).
#pragma once
#include <atomic>
#include <type_traits>

namespace ms {

#ifdef __cpp_lib_atomic_ref
template <class T>
struct AtomicRef : std::atomic_ref<T> {   // no alias: clang++ deduces the arguments of one from 19 on only
  using std::atomic_ref<T>::atomic_ref;
};
template <class T> AtomicRef(T&) -> AtomicRef<T>;
#else
template <class T>
class AtomicRef {
  static_assert(std::is_integral_v<T> || std::is_pointer_v<T>);

 public:
  explicit AtomicRef(T& x) : x_(&x) {}
  T load(std::memory_order order) const { return __atomic_load_n(x_, native(order)); }
  void store(T value, std::memory_order order) const { __atomic_store_n(x_, value, native(order)); }
  T exchange(T value, std::memory_order order) const { return __atomic_exchange_n(x_, value, native(order)); }
  T fetch_add(T value, std::memory_order order) const { return __atomic_fetch_add(x_, value, native(order)); }
  T fetch_or(T value, std::memory_order order) const { return __atomic_fetch_or(x_, value, native(order)); }
  bool compare_exchange_weak(T& seen, T value, std::memory_order order) const {
    return __atomic_compare_exchange_n(x_, &seen, value, true, native(order), __ATOMIC_RELAXED);
  }

 private:
  static constexpr int native(std::memory_order order) {
    switch (order) {
      case std::memory_order_relaxed: return __ATOMIC_RELAXED;
      case std::memory_order_acquire: return __ATOMIC_ACQUIRE;
      case std::memory_order_release: return __ATOMIC_RELEASE;
      case std::memory_order_acq_rel: return __ATOMIC_ACQ_REL;
      default: return __ATOMIC_SEQ_CST;
    }
  }
  T* x_;
};
#endif

}  // namespace ms
