// Pages of large blocks. A page fault costs as much as some hundred operations on the numbers of the page, so all pages are made
// in one call before the block is used. Huge pages cost a quarter of that if the system has free ones. If memory is fragmented,
// or a virtual machine has returned its free blocks to the host, one may take milliseconds. So they are made one by one, never by
// a page fault, and after a slow one no more are requested for a while. Blocks that are done in less time than one slow page takes
// get none.
#include "buffer.hpp"

#include "native/threads/interrupt.hpp"
#include "native/threads/parallel.hpp"
#include "poison.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#if defined(__GLIBC__) || defined(_WIN32)
#include <malloc.h>
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace ms {

#if defined(__linux__) && defined(MADV_POPULATE_WRITE)
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t huge_page = size_t{2} << 20;
constexpr ptrdiff_t piece = ptrdiff_t{4} << 20;                // bytes that a thread makes at a time
constexpr auto slow = std::chrono::microseconds(700);          // time of its 512 small pages
constexpr auto rest = std::chrono::seconds(10);
std::atomic<Clock::rep> rests_until{0};

bool resting() { return Clock::now().time_since_epoch().count() < rests_until.load(std::memory_order_relaxed); }

void make_small(char* begin, char* end) {
  if (begin < end) madvise(begin, end - begin, MADV_POPULATE_WRITE);            // fails on older kernels, without harm
}

// Makes huge pages from `at` on while that is quick; returns the end of the last one.
char* make_huge(char* at, char* end) {
  for (; end - at >= static_cast<ptrdiff_t>(huge_page); at += huge_page) {
    if (resting()) break;
    const Clock::time_point begin = Clock::now();
    if (madvise(at, huge_page, MADV_HUGEPAGE) != 0) break;
    make_small(at, at + huge_page);
    const Clock::time_point made = Clock::now();
    if (made - begin > slow) rests_until = (made + rest).time_since_epoch().count();
  }
  return at;
}

char* first_huge(char* begin) { return begin + (huge_page - reinterpret_cast<uintptr_t>(begin) % huge_page) % huge_page; }

bool is_made(char* page) {
  unsigned char state = 0;
  return mincore(page, 1, &state) == 0 && (state & 1) != 0;
}

// Makes the first `used` bytes of a block, in huge pages until one is slow: then more of them would be. The rest gets small
// pages, in two thirds of the time of single page faults. Pages of an earlier phase exist already.
void make_huge_pages(void* data, size_t bytes, size_t used, int threads) {
  char *const begin = static_cast<char*>(data), *const first = first_huge(begin), *const end = std::min(begin + bytes, first + used);
  for_range(threads, (end - first) / static_cast<ptrdiff_t>(huge_page), 1, [&](int64_t from, int64_t to, int) {
    for (char *at = first + from * huge_page, *const stop = first + to * huge_page; at < stop; at += huge_page)
      if (!is_made(at)) make_small(make_huge(at, at + huge_page), at + huge_page);
  });
}

}  // namespace

void make_pages(void* data, size_t bytes, int threads) {
  char* const begin = static_cast<char*>(data);
  char* const end = begin + bytes;
  char* at = first_huge(begin);
  if (bytes < mapped_from || at > end) at = end;
  make_small(begin, at);
  for_range(threads, (end - at + piece - 1) / piece, 1, [&](int64_t b, int64_t e, int) {
    char* const to = std::min(at + e * piece, end);
    make_small(make_huge(at + b * piece, to), to);
  });
}
#else
void make_pages(void*, size_t, int) {}
[[maybe_unused]] static void make_huge_pages(void*, size_t, size_t, int) {}
#endif

#ifdef _WIN32
static void* allocate(size_t alignment, size_t bytes) { return _aligned_malloc(bytes, alignment); }
void free_block(void* data) { _aligned_free(data); }
#else
static void* allocate(size_t alignment, size_t bytes) { return std::aligned_alloc(alignment, bytes); }
void free_block(void* data) { std::free(data); }
#endif

std::atomic<bool> poisoned{false};

void* aligned_block(size_t alignment, size_t bytes) {
  void* const data = allocate(alignment, bytes);
  if (!data) throw std::bad_alloc();
  if (poisoned.load(std::memory_order_relaxed)) std::memset(data, 0xff, bytes);
  return data;
}

// glibc maps each large block separately until a block of that size has been freed; after that it uses its heap. So a block of
// the largest size that counts is allocated and freed here, without touching its pages.
#ifdef __GLIBC__
namespace {
constexpr size_t largest = (size_t{32} << 20) - (size_t{64} << 10);
}

void keep_free_memory(size_t bytes, int threads) {
  static const bool shown = [] {
    void* volatile block = std::malloc(largest);       // volatile, so that the compiler keeps both calls
    std::free(block);
    return true;
  }();
  static_cast<void>(shown);
  if (bytes < huge_work) return;
  // Extends the heap unless it has that much free memory.
  const std::unique_ptr<void, decltype(&std::free)> block(std::malloc(largest), std::free);
  if (block) make_huge_pages(block.get(), largest, bytes, threads);
}
#else
void keep_free_memory(size_t, int) {}
#endif

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)       // which checks blocks of the C library only
namespace {
size_t whole_pages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

constexpr int64_t given_back = int64_t{8} << 20;               // bytes at a time
}  // namespace

void* mapped_block(size_t bytes) {
  constexpr size_t huge = size_t{2} << 20;                    // bytes of a huge page
  const size_t size = whole_pages(bytes), mapped_bytes = size + huge;
  void* const mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  char* const begin = static_cast<char*>(mapped);
  char* const data = begin + (huge - reinterpret_cast<uintptr_t>(begin) % huge) % huge;
  if (data > begin) munmap(begin, data - begin);
  if (data + size < begin + mapped_bytes) munmap(data + size, begin + mapped_bytes - (data + size));
  if (poisoned.load(std::memory_order_relaxed)) std::memset(data, 0xff, bytes);
  return data;
}

// Most of the time is spent on the pages, which several threads may return.
void unmap_block(void* data, size_t bytes, int threads) noexcept {
  const interrupt::Undisturbed undisturbed;
  try {
    for_range(threads, static_cast<int64_t>(bytes), given_back, [&](int64_t from, int64_t to, int) {
      if (to - from < static_cast<int64_t>(bytes)) madvise(static_cast<char*>(data) + from, to - from, MADV_DONTNEED);
    });
  } catch (...) {                                             // no memory for a thread: munmap returns all pages
  }
  munmap(data, whole_pages(bytes));
}
#else
void* mapped_block(size_t bytes) { return aligned_block(4096, (bytes + 4095) / 4096 * 4096); }
void unmap_block(void* data, size_t, int) noexcept { free_block(data); }
#endif

void return_free_memory(size_t bytes) {
#ifdef __GLIBC__
  if (bytes >= many) malloc_trim(0);
#else
  static_cast<void>(bytes);
#endif
}

}  // namespace ms
