// Fibers: the CUDA threads of a block run in turns on one OS thread, each with a separate stack.
//
// A switch saves the callee-saved registers and exchanges the stack pointer, about 30 ns. AddressSanitizer is notified of each
// change of stack. For ThreadSanitizer every fiber is a thread, and only barriers order two of them.
// Accesses of the harness are hidden from the sanitizers: functions marked HARNESS_QUIET are not instrumented, and a Quiet in
// scope hides the functions that they inline.
#pragma once
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "engine.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(HARNESS_RACES)                                // g++'s calls at accesses go to races.hpp
#define HARNESS_TSAN 0
#define HARNESS_BARE __attribute__((no_sanitize("thread")))
inline void __tsan_acquire(void*) {}
inline void __tsan_release(void*) {}
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
extern "C" void* __tsan_create_fiber(unsigned);
extern "C" void __tsan_switch_to_fiber(void*, unsigned);
extern "C" void* __tsan_get_current_fiber();
extern "C" void AnnotateIgnoreReadsBegin(const char*, int);
extern "C" void AnnotateIgnoreReadsEnd(const char*, int);
extern "C" void AnnotateIgnoreWritesBegin(const char*, int);
extern "C" void AnnotateIgnoreWritesEnd(const char*, int);
#define HARNESS_TSAN 1
#else
#define HARNESS_TSAN 0
inline void __tsan_acquire(void*) {}
inline void __tsan_release(void*) {}
#endif

namespace harness {

// ---- the switch

#if defined(__x86_64__)
asm(".text\n.weak harness_switch\n.hidden harness_switch\n.type harness_switch,@function\nharness_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\nmovq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n.size harness_switch,.-harness_switch\n");
extern "C" __attribute__((visibility("hidden"))) void harness_switch(void** save, void* load);

struct Context {
  void* sp = nullptr;
  void prepare(char* low, size_t size, void (*entry)()) {
    void** p = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(low + size) & ~uintptr_t{15});
    *--p = nullptr;                                       // return address of entry, which never returns
    *--p = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--p = nullptr;           // six saved registers
    sp = p;
  }
  static void swap(Context& from, Context& to) { harness_switch(&from.sp, to.sp); }
};
#else
}  // namespace harness
#include <ucontext.h>
namespace harness {
struct Context {
  ucontext_t u;
  void prepare(char* low, size_t size, void (*entry)()) {
    getcontext(&u);
    u.uc_stack.ss_sp = low;
    u.uc_stack.ss_size = size;
    u.uc_link = nullptr;
    makecontext(&u, entry, 0);
  }
  static void swap(Context& from, Context& to) { swapcontext(&from.u, &to.u); }
};
#endif

// ---- one fiber

struct Fiber {
  Context context;
  char* stack = nullptr;
  size_t size = 0;
  uint3 thread{};                                         // threadIdx
  unsigned linear = 0;                                    // its rank in the block
  bool live = false;
  const unsigned* waits_for = nullptr;                    // blocked while *waits_for == generation
  unsigned generation = 0;
  int quiet = 0;                                          // depth of Quiet
  void *tsan = nullptr, *publisher = nullptr;             // ThreadSanitizer's fibers: of the thread, and of its accesses before fences
  char fenced = 0;                                        // 1 after a fence; its address defines the order
  std::vector<void*> strong_loads;                        // flags read since the last fence
  std::vector<Copy> copies;                               // unfinished ones, in order
  unsigned groups = 0;                                    // of copies that have ended
};

constexpr size_t stack_bytes = size_t{64} << 10;
constexpr size_t page = 4096;

inline void allocate_stack(Fiber& f) {
  f.size = stack_bytes;
  char* p = static_cast<char*>(
      mmap(nullptr, f.size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (p == MAP_FAILED) abort();
  mprotect(p, page, PROT_NONE);                           // a stack overflow faults
  f.stack = p + page;
}

#if HARNESS_TSAN
// Gives the fiber identities that ThreadSanitizer tells apart, which take a millisecond to create. A stack has one identity for as long
// as it is mapped: accesses of another would be races.
HARNESS_QUIET inline void identify(Fiber& f) {
  if (!f.tsan) {
    mmap(f.stack, f.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    f.tsan = __tsan_create_fiber(0);
  }
  if (!f.publisher) f.publisher = __tsan_create_fiber(0);
}
#endif

// Resets the stack for another thread; `rank` staggers the stacks over the sets of the cache.
HARNESS_QUIET inline void prepare(Fiber& f, unsigned rank, void (*entry)()) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(f.stack, f.size);
#endif
  f.fenced = 0;
  f.quiet = 0;
  f.strong_loads.clear();
  f.context.prepare(f.stack, f.size - (rank * 7 % 61) * 64, entry);
}

// ---- sanitizer notifications

#if HARNESS_TSAN
HARNESS_QUIET inline void quiet_begin(Fiber* f) {
  if (f) ++f->quiet;
  AnnotateIgnoreReadsBegin("", 0);
  AnnotateIgnoreWritesBegin("", 0);
}
HARNESS_QUIET inline void quiet_end(Fiber* f) {
  if (f) --f->quiet;
  AnnotateIgnoreReadsEnd("", 0);
  AnnotateIgnoreWritesEnd("", 0);
}
struct Quiet {
  Fiber* f;
  HARNESS_QUIET explicit Quiet(Fiber* fiber) : f(fiber) { quiet_begin(f); }
  HARNESS_QUIET ~Quiet() { quiet_end(f); }
};
#elif defined(HARNESS_RACES)
struct Quiet {
  Fiber* f;
  HARNESS_BARE explicit Quiet(Fiber* fiber) : f(fiber) {
    if (f) ++f->quiet;
  }
  HARNESS_BARE ~Quiet() {
    if (f) --f->quiet;
  }
};
#else
struct Quiet {
  explicit Quiet(Fiber*) {}
  ~Quiet() {}
};
#endif

// Stack and identity of the OS thread, to which fibers return.
struct Home {
  Context context;
  const void* low = nullptr;
  size_t size = 0;
  void* tsan = nullptr;
};

HARNESS_QUIET inline void note_home(Home& home) {
#if defined(__SANITIZE_ADDRESS__)
  pthread_attr_t attributes;
  void* low;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &home.size);
  pthread_attr_destroy(&attributes);
  home.low = low;
#endif
#if HARNESS_TSAN
  home.tsan = __tsan_get_current_fiber();
#endif
  (void)home;
}

// Switches from `from` (null: home) to `to` (null: home); returns when another fiber switches back.
HARNESS_QUIET inline void switch_fiber(Home& home, Fiber* from, Fiber* to) {
#if HARNESS_TSAN
  if (from && !from->live)
    while (from->quiet) quiet_end(from);
  __tsan_switch_to_fiber(to ? to->tsan : home.tsan, 1);   // 1: no order is implied
#endif
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, to ? to->stack : home.low, to ? to->size : home.size);
#endif
  Context::swap(from ? from->context : home.context, to ? to->context : home.context);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

inline void arrived_on_new_stack() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

}  // namespace harness
