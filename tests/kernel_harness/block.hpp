// A thread block on one OS thread: fibers for its threads, barriers, shared memory; and the launch of a grid.
//
// A fiber runs until it reaches a barrier, an atomic or a sleep. With a seed the next fiber is chosen at random, and atomics and
// fences yield at random. Several blocks run at once on separate OS threads, so that kernels whose blocks wait for each other
// make progress.
// Detected: threads waiting at different barriers, a barrier that not all live threads can reach, lanes outside their mask, a spin
// without progress (timeout). A failure ends the launch with a message that names block and thread. The sanitizers detect other
// faults.
#pragma once
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fiber.hpp"
#if defined(HARNESS_RACES)
#include "races.hpp"
#endif

namespace harness {

using Clock = std::chrono::steady_clock;

struct Barrier {                                          // __syncthreads
  unsigned count = 0, generation = 0, line = 0;
  const char* file = nullptr;
  char order[2] = {0, 0};                                 // addresses that define the order for the sanitizer, by parity
};
struct WarpBarrier {                                      // barrier of one mask; values of its lanes by parity of the generation
  unsigned mask = 0, count = 0, generation = 0, arrived[2] = {0, 0}, ballot[2] = {0, 0}, line = 0;
  const char* file = nullptr;
  char order[2] = {0, 0};
  uint64_t slot[2][32];
};
struct Warp {
  unsigned alive = 0;
  std::vector<std::unique_ptr<WarpBarrier>> barriers;
};
struct Slot {                                             // one __shared__ variable: a heap block of its exact size
  void* memory = nullptr;
  size_t size = 0;
  bool fresh = false;
};

struct Launch {
  dim3 grid, block;
  size_t shared = 0;
  unsigned blocks = 0, threads = 0;
  void (*kernel)(void**) = nullptr;                       // with pointers to its arguments
  void** args = nullptr;
  uint64_t seed = 0;
  double timeout = 60;
  std::atomic<unsigned> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::string error;
  char begin = 0, end = 0;                                // order of the launch before and after the kernel
};

struct Block {                                            // reused for block after block
  Launch* launch = nullptr;
  uint3 index{};
  Home home;
  std::vector<std::unique_ptr<Fiber>> fibers;
  unsigned used = 0, started = 0, alive = 0, current = 0;
  Barrier barrier;
  std::vector<Warp> warps;
  std::vector<Slot> slots;
  uint64_t random = 1;
  unsigned operations = 0;
  Clock::time_point progress;
  bool aborted = false;
#if defined(HARNESS_RACES)
  Races races;
  Fiber* running = nullptr;                               // null: no thread of the kernel
#endif
  HARNESS_QUIET Fiber& fiber() { return *fibers[current]; }
  HARNESS_QUIET bool draw(unsigned bits) {                              // true once in 2^bits
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    return random >> (64 - bits) == 0;
  }
};

inline thread_local Block* here = nullptr;

inline void fiber_main();

// ---- scheduling

HARNESS_QUIET inline void enter(Block& b, Fiber* from, Fiber* to) {
  if (to) thread_idx = to->thread;
#if defined(HARNESS_RACES)
  b.running = to;
#endif
  switch_fiber(b.home, from, to);
  if (from) thread_idx = from->thread;
}

HARNESS_QUIET inline void start_thread(Block& b, Fiber& f) {
  f.linear = b.started++;
  const dim3& d = b.launch->block;
  f.thread = {f.linear % d.x, f.linear / d.x % d.y, f.linear / (d.x * d.y)};
  f.live = true;
  f.waits_for = nullptr;
  f.copies.clear();
  f.groups = 0;
}

HARNESS_QUIET inline void make_fiber(Block& b, unsigned rank) {
  if (rank == b.fibers.size()) {
    b.fibers.push_back(std::make_unique<Fiber>());
    allocate_stack(*b.fibers.back());
  }
}

// ThreadSanitizer orders a fiber after its creator, so all fibers are created before the block begins.
HARNESS_QUIET inline Fiber& start_fiber(Block& b) {
  if (!HARNESS_TSAN) make_fiber(b, b.used);
  Fiber& f = *b.fibers[b.used];
  prepare(f, b.used++, fiber_main);
  start_thread(b, f);
  return f;
}

#if HARNESS_TSAN
// Two threads of one rank in two blocks would else be one to ThreadSanitizer, and races between them be hidden. What a failed
// block abandoned is not used again.
HARNESS_QUIET inline void exchange_identities(Block& b, unsigned threads) {
  for (unsigned rank = 0; rank < threads; ++rank) {
    make_fiber(b, rank);
    identify(*b.fibers[rank]);
  }
  for (unsigned rank = 0; rank + 1 < threads; ++rank) {
    std::swap(b.fibers[rank]->tsan, b.fibers[rank + 1]->tsan);
    std::swap(b.fibers[rank]->stack, b.fibers[rank + 1]->stack);
  }
}
HARNESS_QUIET inline void drop_identities(Block& b) {
  for (auto& f : b.fibers) f->tsan = f->publisher = nullptr;
}
#else
inline void exchange_identities(Block&, unsigned) {}
inline void drop_identities(Block&) {}
#endif

HARNESS_QUIET inline std::string where(const Block& b, const Fiber& f) {
  char text[160];
  snprintf(text, sizeof text, "block (%u,%u,%u) thread (%u,%u,%u)", b.index.x, b.index.y, b.index.z, f.thread.x, f.thread.y,
           f.thread.z);
  return text;
}

// Ends the launch; every fiber of the block is abandoned.
[[noreturn]] HARNESS_QUIET inline void fail(Block& b, const std::string& message) {
  {
    std::lock_guard<std::mutex> guard(b.launch->mutex);
    if (!b.launch->failed.exchange(true)) b.launch->error = message;
  }
  b.aborted = true;
  Fiber& f = b.fiber();
  f.live = false;
  enter(b, &f, nullptr);
  abort();
}

[[noreturn]] HARNESS_QUIET inline void fail_deadlock(Block& b) {
  unsigned at_block = 0, at_warp = 0;
  for (unsigned k = 0; k < b.used; ++k)
    if (b.fibers[k]->live) ++(b.fibers[k]->waits_for == &b.barrier.generation ? at_block : at_warp);
  fail(b, "deadlock: " + where(b, b.fiber()) + "; waiting: " + std::to_string(at_block) + " at __syncthreads, " +
              std::to_string(at_warp) + " at a warp barrier, of " + std::to_string(b.alive) + " live threads");
}

HARNESS_QUIET inline void check_progress(Block& b) {
  sched_yield();                                          // other blocks may have to run first
  if ((++b.operations & 255) == 0 && std::chrono::duration<double>(Clock::now() - b.progress).count() > b.launch->timeout)
    fail(b, "timeout: " + where(b, b.fiber()) + " spins without progress");
}

// Runs another thread of the block; returns when this one is scheduled again.
HARNESS_QUIET inline void reschedule(Block& b, bool spinning) {
  Fiber* const me = &b.fiber();
  if (b.launch->failed.load(std::memory_order_relaxed)) fail(b, "");
  if (b.started < b.launch->threads) {
    Fiber& f = start_fiber(b);
    b.current = b.used - 1;
    enter(b, me, &f);
    return;
  }
  unsigned i = b.current;
  if (b.launch->seed) {
    b.draw(1);
    i = static_cast<unsigned>((b.random >> 33) % b.used);
  }
  for (unsigned k = 0; k < b.used; ++k) {
    if (++i >= b.used) i = 0;
    Fiber* const f = b.fibers[i].get();
    if (!f->live || (f->waits_for && *f->waits_for == f->generation)) continue;
    if (spinning && i <= b.current) check_progress(b);
    if (f == me) return;
    b.current = i;
    enter(b, me, f);
    return;
  }
  fail_deadlock(b);
}

HARNESS_QUIET inline void wait_while(Block& b, const unsigned* generation, unsigned value) {
  const unsigned self = b.current;
  Fiber& f = b.fiber();
  f.waits_for = generation;
  f.generation = value;
  reschedule(b, false);
  b.current = self;
  f.waits_for = nullptr;
}

HARNESS_QUIET void yield() {
  Block& b = *here;
  Quiet quiet(&b.fiber());
  const unsigned self = b.current;
  b.fiber().waits_for = nullptr;
  reschedule(b, true);
  b.current = self;
}

// Called in atomics and fences, for spin loops without a sleep.
HARNESS_QUIET inline void maybe_yield() {
  Block& b = *here;
  if (b.launch->seed ? b.draw(4) : (++b.operations & 63) == 0) yield();
}

// ---- barriers

HARNESS_QUIET inline void release(Barrier& barrier, Block& b) {
#if defined(HARNESS_RACES)
  b.races.block_barrier(barrier.file, barrier.line);
#endif
  barrier.count = barrier.line = 0;
  ++barrier.generation;
  b.progress = Clock::now();
}

HARNESS_QUIET inline void sync_block(unsigned line, const char* file) {
  Block& b = *here;
  Quiet quiet(&b.fiber());
  Barrier& barrier = b.barrier;
  const unsigned generation = barrier.generation;
  if (barrier.line && barrier.line != line)
    fail(b, "divergent __syncthreads: " + where(b, b.fiber()) + " is at line " + std::to_string(line) + ", others at line " +
                std::to_string(barrier.line));
  barrier.line = line;
  barrier.file = file;
  __tsan_release(&barrier.order[generation & 1]);
  if (++barrier.count == b.alive) release(barrier, b);
  else wait_while(b, &barrier.generation, generation);
  __tsan_acquire(&barrier.order[generation & 1]);
}

HARNESS_QUIET inline WarpBarrier& barrier_of(Warp& warp, unsigned mask) {
  for (auto& known : warp.barriers)
    if (known->mask == mask) return *known;
  warp.barriers.push_back(std::make_unique<WarpBarrier>());
  warp.barriers.back()->mask = mask;
  return *warp.barriers.back();
}

HARNESS_QUIET inline void release(WarpBarrier& barrier, Block& b, const Warp& warp) {
  barrier.count = 0;
  ++barrier.generation;
#if defined(HARNESS_RACES)
  if (barrier.file && barrier.mask == ~0u)                // barriers of some lanes count as none
    b.races.warp_barrier(static_cast<unsigned>(&warp - b.warps.data()), barrier.file, barrier.line);
#endif
  (void)b, (void)warp;
}

// Exchanges `bits` and `vote` of all lanes of the mask, stored in the barrier by `parity`. Only __syncwarp orders memory; it is the
// one with a file and a line.
HARNESS_QUIET inline WarpBarrier& sync_warp(unsigned mask, uint64_t bits, bool vote, unsigned& parity, const char* file = nullptr,
                                            unsigned line = 0) {
  Block& b = *here;
  Fiber& f = b.fiber();
  Quiet quiet(&f);
  Warp& warp = b.warps[f.linear >> 5];
  const unsigned lane = f.linear & 31;
  if (!(mask >> lane & 1)) fail(b, "warp operation: the calling lane is not in its mask: " + where(b, f));
  WarpBarrier& barrier = barrier_of(warp, mask);
  const unsigned generation = barrier.generation;
  parity = generation & 1;
  if (barrier.count == 0) barrier.arrived[parity] = barrier.ballot[parity] = 0;
  barrier.slot[parity][lane] = bits;
  barrier.arrived[parity] |= 1u << lane;
  if (vote) barrier.ballot[parity] |= 1u << lane;
  barrier.file = file;
  barrier.line = line;
  if (file) __tsan_release(&barrier.order[parity]);
  if (++barrier.count == static_cast<unsigned>(__builtin_popcount(mask & warp.alive))) release(barrier, b, warp);
  else wait_while(b, &barrier.generation, generation);
  if (file) __tsan_acquire(&barrier.order[parity]);
  return barrier;
}

// A thread that has returned no longer counts at barriers. Returns true if this fiber continues with the next thread of the block.
HARNESS_QUIET inline bool finish_thread(Block& b, Fiber& f) {
  Quiet quiet(&f);
  Warp& warp = b.warps[f.linear >> 5];
  warp.alive &= ~(1u << (f.linear & 31));
  for (auto& barrier : warp.barriers)
    if (barrier->count && barrier->count == static_cast<unsigned>(__builtin_popcount(barrier->mask & warp.alive)))
      release(*barrier, b, warp);
  if (--b.alive && b.barrier.count == b.alive) release(b.barrier, b);
  if (!HARNESS_TSAN && b.started < b.launch->threads) {
    start_thread(b, f);
    thread_idx = f.thread;
    return true;
  }
  f.live = false;
  return false;
}

HARNESS_QUIET inline void fiber_main() {
  arrived_on_new_stack();
  Block& b = *here;
  Fiber& f = b.fiber();
  const unsigned self = b.current;
  do {
    __tsan_acquire(&b.launch->begin);
    b.launch->kernel(b.launch->args);
    b.current = self;
    __tsan_release(&b.launch->end);
  } while (finish_thread(b, f));
  {
    Quiet quiet(&f);
    if (b.alive) reschedule(b, false);
    else enter(b, &f, nullptr);
  }
  abort();
}

// ---- shared memory: filled with garbage at the start of every block

HARNESS_QUIET void* shared_slot(unsigned id, size_t size) {
  Block& b = *here;
  Quiet quiet(&b.fiber());
  if (b.slots.size() <= id) b.slots.resize(id + 1);
  Slot& slot = b.slots[id];
  if (slot.size != size) {
    const size_t rounded = (size + 127) / 128 * 128;
    free(slot.memory);
    slot = {aligned_alloc(128, rounded), size, false};
#if defined(__SANITIZE_ADDRESS__)
    __asan_poison_memory_region(static_cast<char*>(slot.memory) + size, rounded - size);
#endif
    __tsan_release(slot.memory);
  }
  if (!slot.fresh && !HARNESS_TSAN) {
    volatile unsigned char* bytes = static_cast<volatile unsigned char*>(slot.memory);
    for (size_t i = 0; i < size; ++i) bytes[i] = 0xCD;
  }
  slot.fresh = true;
  __tsan_acquire(slot.memory);
  return slot.memory;
}

void* dynamic_shared() { return shared_slot(0, here->launch->shared ? here->launch->shared : 1); }

// ---- the grid

struct Spare {                                            // blocks kept with their stacks between launches
  std::mutex mutex;
  std::vector<std::unique_ptr<Block>> blocks;
};
inline Spare* spare = nullptr;

// Takes the blocks of a library that was built in the same way, or makes an empty list (null); returns the list. Without sharing, a
// process would reach the limits of its mappings, 65,530 and two for each stack, and of ThreadSanitizer's threads, 8,128 and two.
extern "C" __attribute__((visibility("default"))) HARNESS_QUIET void* harness_share(void* other) {
  return spare = other ? static_cast<Spare*>(other) : new Spare;
}

HARNESS_QUIET inline void begin_block(Block& b, unsigned number) {
  const Launch& L = *b.launch;
  block_idx = b.index = {number % L.grid.x, number / L.grid.x % L.grid.y, number / (L.grid.x * L.grid.y)};
  b.random = L.seed * 0x9E3779B97F4A7C15ull + number;
  b.used = b.started = b.current = 0;
  b.alive = L.threads;
  b.barrier = Barrier();
  b.progress = Clock::now();
  b.warps.resize((L.threads + 31) / 32);
#if defined(HARNESS_RACES)
  b.races.begin_block(L.threads);
#endif
  for (unsigned i = 0; i < b.warps.size(); ++i) {
    const unsigned lanes = std::min(32u, L.threads - i * 32);
    b.warps[i].alive = lanes == 32 ? ~0u : (1u << lanes) - 1;
    for (auto& barrier : b.warps[i].barriers) barrier->count = 0;
  }
  for (Slot& slot : b.slots) {
    slot.fresh = false;
    if (!HARNESS_TSAN) continue;
    free(slot.memory);                                    // so the sanitizer drops the accesses of the last block
    slot = {};
  }
}

HARNESS_QUIET inline void run_blocks(Launch& L) {
  std::unique_ptr<Block> own;
  {
    std::lock_guard<std::mutex> guard(spare->mutex);
    auto& blocks = spare->blocks;                         // the one with most threads first, so that the others stay small
    const auto most = std::max_element(blocks.begin(), blocks.end(), [](auto& a, auto& b) { return a->fibers.size() < b->fibers.size(); });
    if (most == blocks.end()) {
      own = std::make_unique<Block>();
    } else {
      own = std::move(*most);
      blocks.erase(most);
    }
  }
  Quiet quiet(nullptr);
  Block& b = *own;
  Block* const outer = here;
  here = &b;
  b.launch = &L;
  b.aborted = false;
  block_dim = L.block;
  grid_dim = L.grid;
  note_home(b.home);
  for (unsigned number; !b.aborted && !L.failed && (number = L.next.fetch_add(1)) < L.blocks;) {
    begin_block(b, number);
    exchange_identities(b, L.threads);
    Fiber& first = start_fiber(b);
    enter(b, nullptr, &first);
  }
#if defined(__SANITIZE_ADDRESS__)
  for (auto& f : b.fibers) __asan_unpoison_memory_region(f->stack, f->size);
#endif
  if (b.aborted) drop_identities(b);
  here = outer;
  std::lock_guard<std::mutex> guard(spare->mutex);
  spare->blocks.push_back(std::move(own));
}

// Runs the kernel on at most `resident` OS threads. Returns 0, or 1 with a message in `error`.
inline int run(Launch& L, unsigned resident, char* error, size_t error_size) {
  L.blocks = L.grid.x * L.grid.y * L.grid.z;
  L.threads = L.block.x * L.block.y * L.block.z;
  if (L.threads == 0 || L.threads > 1024 || L.blocks == 0) {
    snprintf(error, error_size, "a grid of %u blocks of %u threads cannot be launched", L.blocks, L.threads);
    return 1;
  }
  __tsan_release(&L.begin);
  std::vector<std::thread> workers;
  const unsigned count = std::max(1u, std::min(resident, L.blocks));
  for (unsigned i = HARNESS_TSAN ? 0 : 1; i < count; ++i) workers.emplace_back([&L] { run_blocks(L); });
  if (!HARNESS_TSAN) run_blocks(L);
  for (auto& worker : workers) worker.join();
  __tsan_acquire(&L.end);
  if (L.failed) snprintf(error, error_size, "%s", L.error.c_str());
  return L.failed;
}

}  // namespace harness
