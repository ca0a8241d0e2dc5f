// The engine of the harness: a launch, and what engine.hpp declares for kernels. Compiled once for each sanitizer.
//
// Memory model under ThreadSanitizer, as in C++11: atomics and volatile accesses are relaxed. A __threadfence before a strong store
// releases, a __threadfence after a strong load acquires. So a missing fence around a plain payload is a data race.
// In other builds memory order is stronger than on a GPU. Lanes are never in lockstep.
#include "block.hpp"

#include <cstring>

namespace harness {

__thread dim3 block_dim, grid_dim;
__thread uint3 block_idx, thread_idx;

// ---- memory order

#if HARNESS_TSAN
HARNESS_QUIET static void strong_store(void* p) {         // releases the accesses before the last fence of this thread
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
HARNESS_QUIET static void strong_load(void* p) {
  Block* const b = here;
  if (!b) return;
  Quiet quiet(&b->fiber());
  auto& loads = b->fiber().strong_loads;
  if (std::find(loads.begin(), loads.end(), p) == loads.end()) loads.push_back(p);
}
HARNESS_QUIET static void fence() {
  Fiber& f = here->fiber();
  for (void* p : f.strong_loads) __tsan_acquire(p);
  f.strong_loads.clear();
  f.fenced = 1;
  __tsan_release(&f.fenced);
}
#elif defined(HARNESS_RACES)
HARNESS_QUIET static void strong_store(void* p) {
  if (!here || !here->running) return;
  Fiber& f = *here->running;
  Quiet quiet(&f);
  here->races.strong_store(f.linear, p);
}
HARNESS_QUIET static void strong_load(void* p) {
  if (!here || !here->running) return;
  Fiber& f = *here->running;
  Quiet quiet(&f);
  here->races.strong_load(p, f.strong_loads);
}
HARNESS_QUIET static void fence() {
  Fiber& f = *here->running;
  Quiet quiet(&f);
  here->races.fence(f.linear, f.strong_loads);
}
#else
static void strong_store(void*) {}
static void strong_load(void*) {}
static void fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#endif

void begin_atomic(const volatile void* p) {
  maybe_yield();
  strong_store(const_cast<void*>(p));
}
void end_atomic(const volatile void* p) { strong_load(const_cast<void*>(p)); }

// ---- barriers and fences

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
static const TakenAway taken_away;

HARNESS_QUIET static bool is_taken_away(const char* file, unsigned line) {
  if (line != taken_away.line) return false;
  const size_t length = strlen(file), tail = taken_away.file.size();
  return length >= tail && memcmp(file + length - tail, taken_away.file.data(), tail) == 0;
}

void sync_threads(unsigned line, const char* file) {
  if (!is_taken_away(file, line)) sync_block(line, file);
}
void sync_warp(unsigned mask, unsigned line, const char* file) {
  if (is_taken_away(file, line)) return;
  unsigned parity;
  sync_warp(mask, 0, false, parity, file, line);
}
void fence(unsigned line, const char* file) {
  if (is_taken_away(file, line)) return;
  fence();
  maybe_yield();
}

int sync_and_count(bool vote, unsigned line, const char* file) {
  int& count = *static_cast<int*>(shared_slot(1, sizeof(int)));
  sync_block(line, file);
  if (here->fiber().linear == 0) count = 0;
  sync_block(line, file);
  __atomic_fetch_add(&count, vote, __ATOMIC_RELAXED);
  sync_block(line, file);
  return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

long long now() { return Clock::now().time_since_epoch().count(); }
void trap() { fail(*here, "__trap: " + where(*here, here->fiber())); }

// ---- warps

HARNESS_QUIET int lane() { return static_cast<int>(here->fiber().linear & 31); }

HARNESS_QUIET uint64_t shuffle(unsigned mask, uint64_t bits, int source, bool valid) {
  unsigned parity;
  const WarpBarrier& warp = sync_warp(mask, bits, false, parity);
  if (!valid) return bits;
  if (!(warp.arrived[parity] >> source & 1)) fail(*here, "shuffle from a lane that takes no part: " + where(*here, here->fiber()));
  return warp.slot[parity][source];
}

HARNESS_QUIET uint64_t reduce(unsigned mask, uint64_t bits, uint64_t (*combine)(uint64_t, uint64_t)) {
  unsigned parity;
  const WarpBarrier& warp = sync_warp(mask, bits, false, parity);
  const unsigned arrived = warp.arrived[parity];
  int i = __builtin_ctz(arrived);
  uint64_t sum = warp.slot[parity][i];
  while (++i < 32)
    if (arrived >> i & 1) sum = combine(sum, warp.slot[parity][i]);
  return sum;
}

HARNESS_QUIET unsigned match(unsigned mask, uint64_t bits) {
  unsigned parity, same = 0;
  const WarpBarrier& warp = sync_warp(mask, bits, false, parity);
  for (int i = 0; i < 32; ++i)
    if ((warp.arrived[parity] >> i & 1) && warp.slot[parity][i] == bits) same |= 1u << i;
  return same;
}

HARNESS_QUIET unsigned ballot(unsigned mask, bool vote) {
  unsigned parity;
  return sync_warp(mask, 0, vote, parity).ballot[parity];
}

// ---- asynchronous copies

HARNESS_QUIET void note_copy(void* to, uint64_t bits, unsigned size) {
  Fiber& f = here->fiber();
  Quiet quiet(&f);
  f.copies.push_back({to, bits, size, f.groups});
}
HARNESS_QUIET void end_copies() { ++here->fiber().groups; }

HARNESS_QUIET bool next_copy(unsigned pending, Copy& copy) {
  Fiber& f = here->fiber();
  Quiet quiet(&f);
  if (f.copies.empty() || f.copies.front().group + pending >= f.groups) return false;
  copy = f.copies.front();
  f.copies.erase(f.copies.begin());
  return true;
}

}  // namespace harness

#if defined(HARNESS_RACES)
#include "hooks.hpp"
#endif
#if HARNESS_TSAN  // --param tsan-distinguish-volatile=1: volatile accesses are strong accesses in CUDA, not races
#define HARNESS_VOLATILE(N)                                                                                                   \
  extern "C" HARNESS_QUIET void __tsan_volatile_read##N(void* p) { harness::strong_load(p); }           \
  extern "C" HARNESS_QUIET void __tsan_volatile_write##N(void* p) { harness::strong_store(p); }
HARNESS_VOLATILE(1)
HARNESS_VOLATILE(2)
HARNESS_VOLATILE(4)
HARNESS_VOLATILE(8)
HARNESS_VOLATILE(16)
#endif

// Launches a kernel, given as a function of pointers to its arguments, with at most `resident` blocks in flight. Returns 0, or 1 with a
// message in `error`.
extern "C" __attribute__((visibility("default"))) int harness_launch(void (*kernel)(void**), const unsigned* grid, const unsigned* block,
                                                                     size_t shared, void** args, unsigned resident, uint64_t seed,
                                                                     double timeout, char* error, size_t error_size) {
  harness::Launch L;
  L.grid = dim3(grid[0], grid[1], grid[2]);
  L.block = dim3(block[0], block[1], block[2]);
  L.shared = shared;
  L.kernel = kernel;
  L.args = args;
  L.seed = seed;
  L.timeout = timeout;
  return harness::run(L, resident, error, error_size);
}
