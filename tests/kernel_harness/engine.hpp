// What kernels call of the harness: barriers, warp operations, fences, shared memory. engine.cpp defines it.
//
// The engine is compiled once for each sanitizer, not with each kernel. ThreadSanitizer and the detector of races share the code of
// the kernels and differ in the engine.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#define HARNESS_QUIET __attribute__((no_sanitize("thread"), noinline))
#else
#define HARNESS_QUIET
#endif

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

#pragma GCC visibility push(hidden)
namespace harness {

extern __thread dim3 block_dim, grid_dim;
extern __thread uint3 block_idx, thread_idx;

// Mutants: the barrier or fence at FILE:LINE of the environment variable MESHSOLVE_HARNESS_WITHOUT is skipped, see mutate.py.
void sync_threads(unsigned line, const char* file);
void sync_warp(unsigned mask, unsigned line, const char* file);
void fence(unsigned line, const char* file);
int sync_and_count(bool vote, unsigned line, const char* file);

void yield();
long long now();                                          // nanoseconds
[[noreturn]] void trap();

// Values of all lanes of the mask, as bits.
int lane();
uint64_t shuffle(unsigned mask, uint64_t bits, int source, bool valid);           // the own bits unless `valid`
uint64_t reduce(unsigned mask, uint64_t bits, uint64_t (*combine)(uint64_t, uint64_t));
unsigned match(unsigned mask, uint64_t bits);
unsigned ballot(unsigned mask, bool vote);

// Around an atomic operation at p.
void begin_atomic(const volatile void* p);
void end_atomic(const volatile void* p);

// Asynchronous copies of 4 or 8 bytes to shared memory. The number is read at once, and stored when its thread waits for its group.
struct Copy {
  void* to;
  uint64_t bits;
  unsigned size, group;
};
void note_copy(void* to, uint64_t bits, unsigned size);
void end_copies();
bool next_copy(unsigned pending, Copy& copy);             // takes out the first unfinished one, unless it is of the last `pending` groups

// A variable in shared memory: a heap block of its exact size, filled with garbage at the start of every block of threads.
void* shared_slot(unsigned id, size_t size);
void* dynamic_shared();

}  // namespace harness
#pragma GCC visibility pop
