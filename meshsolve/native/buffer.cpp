// Pages of large blocks. A page fault costs as much as some hundred operations on the page's numbers, so the pages are made
// in one call before the block is used. Huge pages are not asked for: where memory is fragmented, or where a virtual machine
// has given its free blocks back to its host, making them may take longer than a whole factorization.
#include "buffer.hpp"

#include "poison.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__GLIBC__) || defined(_WIN32)
#include <malloc.h>
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace ms {

#if defined(__linux__) && defined(MADV_POPULATE_WRITE)
void make_pages(void* data, size_t bytes) { madvise(data, bytes, MADV_POPULATE_WRITE); }      // older kernels refuse: no harm
#else
void make_pages(void*, size_t) {}
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

void return_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace ms
