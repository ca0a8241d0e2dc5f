// The functions that g++ -fsanitize=thread calls, for races.hpp. Atomic operations do their work here too.
#pragma once

namespace harness {

HARNESS_BARE inline void note_access(void* p, unsigned size, bool write, bool strong, void* pc) {
  Block* const b = here;
  if (!b || !b->running) return;
  Fiber& f = *b->running;
  char* const at = static_cast<char*>(p);
  if (f.quiet || (at >= f.stack && at < f.stack + f.size)) return;
  ++f.quiet;
  const bool clean = b->races.access(f.linear, p, size, write, strong, pc);
  if (!clean) fail(*b, b->races.found + ": " + where(*b, f));
  --f.quiet;
}

}  // namespace harness

#define HARNESS_HOOK extern "C" __attribute__((used)) HARNESS_QUIET
#define HARNESS_NOTE(size, write, strong) harness::note_access(p, size, write, strong, __builtin_return_address(0))

#define HARNESS_ACCESSES(N)                                                                     \
  HARNESS_HOOK void __tsan_read##N(void* p) { HARNESS_NOTE(N, false, false); }                  \
  HARNESS_HOOK void __tsan_write##N(void* p) { HARNESS_NOTE(N, true, false); }                  \
  HARNESS_HOOK void __tsan_unaligned_read##N(void* p) { HARNESS_NOTE(N, false, false); }        \
  HARNESS_HOOK void __tsan_unaligned_write##N(void* p) { HARNESS_NOTE(N, true, false); }        \
  HARNESS_HOOK void __tsan_volatile_read##N(void* p) {                                          \
    HARNESS_NOTE(N, false, true);                                                               \
    harness::strong_load(p);                                                                    \
  }                                                                                             \
  HARNESS_HOOK void __tsan_volatile_write##N(void* p) {                                         \
    HARNESS_NOTE(N, true, true);                                                                \
    harness::strong_store(p);                                                                   \
  }
HARNESS_ACCESSES(1)
HARNESS_ACCESSES(2)
HARNESS_ACCESSES(4)
HARNESS_ACCESSES(8)
HARNESS_ACCESSES(16)

HARNESS_HOOK void __tsan_read_range(void* p, unsigned long size) { HARNESS_NOTE(static_cast<unsigned>(size), false, false); }
HARNESS_HOOK void __tsan_write_range(void* p, unsigned long size) { HARNESS_NOTE(static_cast<unsigned>(size), true, false); }
HARNESS_HOOK void __tsan_init() {}
HARNESS_HOOK void __tsan_func_entry(void*) {}
HARNESS_HOOK void __tsan_func_exit(void*) {}
HARNESS_HOOK void __tsan_vptr_update(void*, void*) {}
HARNESS_HOOK void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

#define HARNESS_FETCH(N, NAME)                                                                  \
  HARNESS_HOOK uint##N##_t __tsan_atomic##N##_fetch_##NAME(volatile void* a, uint##N##_t v, int) { \
    void* const p = const_cast<void*>(a);                                                       \
    HARNESS_NOTE(N / 8, true, true);                                                            \
    return __atomic_fetch_##NAME(static_cast<uint##N##_t*>(p), v, __ATOMIC_SEQ_CST);            \
  }
#define HARNESS_ATOMICS(N)                                                                      \
  HARNESS_HOOK uint##N##_t __tsan_atomic##N##_load(const volatile void* a, int) {               \
    void* const p = const_cast<void*>(a);                                                       \
    HARNESS_NOTE(N / 8, false, true);                                                           \
    return __atomic_load_n(static_cast<uint##N##_t*>(p), __ATOMIC_SEQ_CST);                     \
  }                                                                                             \
  HARNESS_HOOK void __tsan_atomic##N##_store(volatile void* a, uint##N##_t v, int) {            \
    void* const p = const_cast<void*>(a);                                                       \
    HARNESS_NOTE(N / 8, true, true);                                                            \
    __atomic_store_n(static_cast<uint##N##_t*>(p), v, __ATOMIC_SEQ_CST);                        \
  }                                                                                             \
  HARNESS_HOOK uint##N##_t __tsan_atomic##N##_exchange(volatile void* a, uint##N##_t v, int) {  \
    void* const p = const_cast<void*>(a);                                                       \
    HARNESS_NOTE(N / 8, true, true);                                                            \
    return __atomic_exchange_n(static_cast<uint##N##_t*>(p), v, __ATOMIC_SEQ_CST);              \
  }                                                                                             \
  HARNESS_HOOK bool __tsan_atomic##N##_compare_exchange_weak(volatile void* a, void* seen, uint##N##_t v, int, int) { \
    void* const p = const_cast<void*>(a);                                                       \
    HARNESS_NOTE(N / 8, true, true);                                                            \
    return __atomic_compare_exchange_n(static_cast<uint##N##_t*>(p), static_cast<uint##N##_t*>(seen), v, false, __ATOMIC_SEQ_CST, \
                                       __ATOMIC_SEQ_CST);                                       \
  }                                                                                             \
  HARNESS_HOOK bool __tsan_atomic##N##_compare_exchange_strong(volatile void* a, void* seen, uint##N##_t v, int, int) { \
    return __tsan_atomic##N##_compare_exchange_weak(a, seen, v, 0, 0);                          \
  }                                                                                             \
  HARNESS_FETCH(N, add)                                                                         \
  HARNESS_FETCH(N, sub)
HARNESS_ATOMICS(8)
HARNESS_ATOMICS(32)
HARNESS_ATOMICS(64)

// One line for each line of source with a barrier: kind, file, line, passes, pairs that need it, code of the first pair.
extern "C" __attribute__((visibility("default"))) HARNESS_QUIET void harness_sites(char* out, size_t size) {
  const std::lock_guard<std::mutex> guard(harness::site_mutex);
  for (unsigned i = 0; i < harness::site_count; ++i) {
    const harness::Site& s = harness::sites[i];
    const int used = snprintf(out, size, "%c\t%s\t%u\t%llu\t%llu\t%d\t%d\n", s.kind, s.file, s.line, s.passes, s.needed, s.first, s.second);
    if (used < 0 || static_cast<size_t>(used) >= size) break;
    out += used;
    size -= used;
  }
}

// Offsets of the code of volatile and atomic accesses that must be so.
extern "C" __attribute__((visibility("default"))) HARNESS_QUIET const int* harness_strong_code(unsigned* size) {
  *size = harness::StrongCode::size;
  return harness::strong_code.pcs_;
}
