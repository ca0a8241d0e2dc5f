// Data races between the threads of a block, found from barriers instead of luck with the schedule.
//
// g++ -fsanitize=thread calls a function at each access. Here these functions are the harness's own. They keep, for each word of
// memory, its last accesses. Two accesses of different threads, at least one of them a plain one and one a write, must have a
// barrier or a pair of fences in between. The order in which the fibers run is irrelevant.
// The log of the barriers also answers which of them are needed: if all barriers between two conflicting accesses are at one line
// of the source, a kernel without this line has a race. `harness_sites` returns these lines.
// Races between blocks are left to ThreadSanitizer.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "fiber.hpp"

namespace harness {

// Bytes from a fixed function to a place in the code: the same wherever the library is loaded.
extern "C" HARNESS_QUIET inline void harness_zero() {}
HARNESS_BARE inline int code_offset(const void* pc) {
  return static_cast<int>(static_cast<const char*>(pc) - reinterpret_cast<const char*>(&harness_zero));
}

struct Site {                                             // one line with a barrier
  const char* file;
  unsigned line;
  char kind;                                              // 'b': of the block, 'w': of a warp
  unsigned long long passes, needed;
  int first, second;                                      // code of two accesses that need it
};
constexpr unsigned most_sites = 512;
inline Site sites[most_sites];
inline unsigned site_count = 0;
inline std::mutex site_mutex;

HARNESS_QUIET inline unsigned site_at(const char* file, unsigned line, char kind) {
  const std::lock_guard<std::mutex> guard(site_mutex);
  unsigned i = 0;
  while (i < site_count && (sites[i].line != line || sites[i].kind != kind || strcmp(sites[i].file, file) != 0)) ++i;
  if (i == most_sites) abort();
  if (i == site_count) sites[site_count++] = {file, line, kind, 0, 0, 0, 0};
  ++sites[i].passes;
  return i;
}

// Code of volatile and atomic accesses that would be a race if they were plain.
class StrongCode {
 public:
  HARNESS_BARE bool has(int pc) const {
    for (unsigned i = start(pc); pcs_[i]; i = (i + 1) % size)
      if (pcs_[i] == pc) return true;
    return false;
  }
  HARNESS_QUIET void add(int pc) {
    const std::lock_guard<std::mutex> guard(site_mutex);
    unsigned i = start(pc);
    while (pcs_[i] && pcs_[i] != pc) i = (i + 1) % size;
    if (pcs_[i] || 2 * used_ == size) return;
    pcs_[i] = pc;
    ++used_;
  }
  static constexpr unsigned size = 4096;
  int pcs_[size];

 private:
  HARNESS_BARE static unsigned start(int pc) { return static_cast<unsigned>(pc) * 2654435761u >> 20; }
  unsigned used_;
};
inline StrongCode strong_code;                            // zero at first

struct BarrierLog {                                       // barriers of a block or a warp in their order
  struct Event {
    unsigned site, run;                                   // run: first of the events up to this one that are all at one site
  };
  std::vector<Event> events;
  HARNESS_QUIET void add(unsigned site) {
    const unsigned at = static_cast<unsigned>(events.size());
    events.push_back({site, at && events[at - 1].site == site ? events[at - 1].run : at});
    length = at + 1;
    last = events[at];
  }
  HARNESS_QUIET void clear() {
    events.clear();
    length = 0;
  }
  unsigned length = 0;
  Event last{};
};

// These three have no constructors: the compiler would instrument them.
struct Access {
  int pc;
  unsigned time, block_epoch, warp_epoch;                 // time 0: no access
  unsigned short thread;
};

// The last access, the last one by another thread, and the last one by another warp.
struct Latest {
  Access of[3];
  HARNESS_BARE void add(const Access& a) {
    if (of[0].time && of[0].thread != a.thread) {
      if (of[0].thread >> 5 != a.thread >> 5) of[2] = of[0];
      of[1] = of[0];
    }
    of[0] = a;
  }
};

struct Word {                                             // accesses of a word, or of a byte of one that is accessed by bytes
  uintptr_t address;
  unsigned serial;                                        // of the block
  bool by_bytes;
  Access write;                                           // the last plain one; the others are those after it
  Latest reads, strong_reads, strong_writes;              // in this order, see check
};

class Races {
 public:
  std::string found;                                      // the first race

  ~Races() { free(words_); }

  HARNESS_QUIET void begin_block(unsigned threads) {
    ++serial_;
    used_ = 0;
    now_ = 1;
    threads_ = threads;
    block_.clear();
    warps_.resize((threads + 31) / 32);
    for (auto& warp : warps_) warp.clear();
    warp_data_ = warps_.data();
    warp_times_.assign(warps_.size(), 0);
    acquired_.assign(threads, {});
    fenced_.assign(threads, {});
    acquired_data_ = acquired_.data();
    any_acquired_ = false;
    released_.clear();
    found.clear();
  }

  HARNESS_QUIET void block_barrier(const char* file, unsigned line) {
    const unsigned site = site_at(file, line, 'b');
    ++now_;
    block_.add(site);
    for (auto& warp : warps_) warp.add(site);
  }

  // Each lane is then ordered after whatever any lane acquired.
  HARNESS_QUIET void warp_barrier(unsigned warp, const char* file, unsigned line) {
    warp_times_[warp] = now_++;
    warps_[warp].add(site_at(file, line, 'w'));
    if (!any_acquired_) return;
    const unsigned first = warp * 32, last = first + 32 < threads_ ? first + 32 : threads_;
    std::vector<unsigned> all;
    for (unsigned t = first; t < last; ++t) join(all, acquired_[t]);
    for (unsigned t = first; t < last; ++t) acquired_[t] = all;
  }

  // ---- fences: a strong store releases what precedes the last fence before it, a fence acquires what a strong load saw

  HARNESS_QUIET void fence(unsigned thread, std::vector<void*>& strong_loads) {
    for (void* p : strong_loads) {
      join(acquired_[thread], released_[p]);
      any_acquired_ = true;
    }
    strong_loads.clear();
    std::vector<unsigned>& times = fenced_[thread];
    times = acquired_[thread];
    times.resize(threads_);
    for (unsigned t = thread & ~31u; t < threads_ && t < (thread | 31u) + 1; ++t)
      if (times[t] < warp_times_[thread >> 5]) times[t] = warp_times_[thread >> 5];
    times[thread] = now_++;
  }
  HARNESS_QUIET void strong_store(unsigned thread, void* p) {
    if (!fenced_[thread].empty()) join(released_[p], fenced_[thread]);
  }
  HARNESS_QUIET void strong_load(void* p, std::vector<void*>& strong_loads) {
    if (released_.empty() || !released_.count(p)) return;
    for (void* seen : strong_loads)
      if (seen == p) return;
    strong_loads.push_back(p);
  }

  // ---- accesses

  // Returns false if this access has a race with an earlier one.
  HARNESS_BARE bool access(unsigned thread, void* p, unsigned size, bool write, bool strong, void* pc) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(p), end = begin + size;
    const Access now{code_offset(pc), now_, block_.length, warp_data_[thread >> 5].length, static_cast<unsigned short>(thread)};
    for (uintptr_t word = begin & ~uintptr_t{3}; word < end; word += 4) {
      Word* w = find(word);
      if (!w->by_bytes && begin <= word && word + 4 <= end) {
        if (!check(*w, now, write, strong)) return false;
        continue;
      }
      if (!w->by_bytes) split(word);
      for (uintptr_t byte = word > begin ? word : begin; byte < end && byte < word + 4; ++byte)
        if (!check(*find(byte), now, write, strong)) return false;
    }
    return true;
  }

 private:
  HARNESS_QUIET static void join(std::vector<unsigned>& a, const std::vector<unsigned>& b) {
    if (a.size() < b.size()) a.resize(b.size());
    for (size_t i = 0; i < b.size(); ++i)
      if (a[i] < b[i]) a[i] = b[i];
  }

  HARNESS_BARE bool check(Word& w, const Access& now, bool write, bool strong) {
    if (!ordered(w.write, now)) return false;
    if (strong && !strong_code.has(now.pc) && (loose(w.strong_writes, now) || (write && loose(w.strong_reads, now)))) strong_code.add(now.pc);
    if (!strong && !ordered(w.strong_writes, now)) return false;
    if (write && !ordered(w.reads, now)) return false;
    if (write && !strong && !ordered(w.strong_reads, now)) return false;
    if (!write) {
      (strong ? w.strong_reads : w.reads).add(now);
    } else if (strong) {
      w.strong_writes.add(now);
    } else {
      w.write = now;
      memset(&w.reads, 0, 3 * sizeof(Latest));
    }
    return true;
  }
  HARNESS_BARE bool ordered(const Latest& before, const Access& now) {
    return ordered(before.of[0], now) && ordered(before.of[1], now) && ordered(before.of[2], now);
  }
  HARNESS_BARE bool ordered(const Access& before, const Access& now) {
    if (!before.time || before.thread == now.thread) return true;
    if (any_acquired_ && acquired(now.thread, before.thread) >= before.time) return true;
    const bool same_warp = before.thread >> 5 == now.thread >> 5;
    const BarrierLog& log = same_warp ? warp_data_[now.thread >> 5] : block_;
    const unsigned from = same_warp ? before.warp_epoch : before.block_epoch;
    if (from == log.length) return report(before, now);
    if (log.last.run <= from) need(log.last.site, before, now);
    return true;
  }
  // A strong access may be in a race with an earlier strong one. Both are added: the earlier ones may have no later conflict.
  HARNESS_BARE bool loose(const Latest& before, const Access& now) {
    bool found = false;
    for (int i = 0; i < 3; ++i) {
      if (!before.of[i].time || before.of[i].thread == now.thread || !unordered(before.of[i], now)) continue;
      strong_code.add(before.of[i].pc);
      found = true;
    }
    return found;
  }
  HARNESS_BARE bool unordered(const Access& before, const Access& now) const {
    if (any_acquired_ && acquired(now.thread, before.thread) >= before.time) return false;
    return before.thread >> 5 == now.thread >> 5 ? before.warp_epoch == warp_data_[now.thread >> 5].length
                                                 : before.block_epoch == block_.length;
  }
  HARNESS_QUIET unsigned acquired(unsigned thread, unsigned from) const {
    const std::vector<unsigned>& has = acquired_data_[thread];
    return from < has.size() ? has[from] : 0;
  }
  HARNESS_BARE static void need(unsigned site, const Access& before, const Access& now) {
    Site& s = sites[site];
    if (__atomic_fetch_add(&s.needed, 1, __ATOMIC_RELAXED)) return;
    s.first = before.pc;
    s.second = now.pc;
  }
  HARNESS_QUIET bool report(const Access& before, const Access& now) {
    char text[160];
    snprintf(text, sizeof text, "data race: thread %u at {%d}, thread %u at {%d}, no barrier between them", before.thread, before.pc,
             now.thread, now.pc);
    found = text;
    return false;
  }

  // ---- the table of words: open addressing; words of earlier blocks count as empty places

  HARNESS_BARE Word* find(uintptr_t address) {
    if (2 * used_ >= size_) grow();
    size_t at = place(address);
    while (words_[at].serial == serial_ && words_[at].address != address) at = (at + 1) & (size_ - 1);
    Word& w = words_[at];
    if (w.serial == serial_) return &w;
    ++used_;
    memset(&w, 0, sizeof w);
    w.address = address;
    w.serial = serial_;
    return &w;
  }
  HARNESS_BARE size_t place(uintptr_t address) const { return (address * 0x9E3779B97F4A7C15ull >> 20) & (size_ - 1); }
  HARNESS_QUIET void grow() {
    Word* const old = words_;
    const size_t before = size_;
    size_ = before ? 2 * before : 4096;
    words_ = static_cast<Word*>(calloc(size_, sizeof(Word)));
    if (!words_) abort();
    for (size_t i = 0; i < before; ++i) {
      if (old[i].serial != serial_) continue;
      size_t at = place(old[i].address);
      while (words_[at].serial == serial_) at = (at + 1) & (size_ - 1);
      words_[at] = old[i];
    }
    free(old);
  }
  HARNESS_BARE void split(uintptr_t word) {
    find(word)->by_bytes = true;
    for (int i = 1; i < 4; ++i) {
      find(word + i);                                       // may move the table
      Word &byte = *find(word + i), &whole = *find(word);
      byte.write = whole.write;
      byte.reads = whole.reads;
      byte.strong_reads = whole.strong_reads;
      byte.strong_writes = whole.strong_writes;
    }
  }

  Word* words_ = nullptr;
  size_t size_ = 0, used_ = 0;
  unsigned serial_ = 0, now_ = 1, threads_ = 0;
  BarrierLog block_;
  std::vector<BarrierLog> warps_;
  BarrierLog* warp_data_ = nullptr;
  std::vector<unsigned> warp_times_;                      // of the last barrier of each warp
  std::vector<std::vector<unsigned>> acquired_, fenced_;  // per thread: times of other threads that it is ordered after
  std::vector<unsigned>* acquired_data_ = nullptr;
  bool any_acquired_ = false;
  std::unordered_map<void*, std::vector<unsigned>> released_;
};

}  // namespace harness
