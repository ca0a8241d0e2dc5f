// Pages of large blocks. A page fault costs as much as some hundred operations on the page's numbers, so the pages are made
// in one call before the block is used. Huge pages are not asked for: where memory is fragmented, or where a virtual machine
// has given its free blocks back to its host, making them may take longer than a whole factorization.
#include "buffer.hpp"

#ifdef __GLIBC__
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

void return_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace ms
