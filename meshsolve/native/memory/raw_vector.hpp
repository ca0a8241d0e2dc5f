// A vector whose resize() does not initialize its elements, for large arrays that are filled afterwards: memory is written once,
// and each thread makes the pages that it writes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "buffer.hpp"

namespace ms {

template <class T>
struct Unwritten {                        // allocator that does not initialize elements
  using value_type = T;
  Unwritten() = default;
  template <class U> Unwritten(const Unwritten<U>&) noexcept {}
  T* allocate(size_t count) {
    constexpr size_t line = 64;
    return static_cast<T*>(aligned_block(line, (count * sizeof(T) + line - 1) / line * line));
  }
  void deallocate(T* data, size_t) noexcept { free_block(data); }
  template <class U> void construct(U* at) noexcept { ::new (static_cast<void*>(at)) U; }
  template <class U, class... Args> void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
  template <class U> bool operator==(const Unwritten<U>&) const noexcept { return true; }
};

template <class T> using RawVector = std::vector<T, Unwritten<T>>;

// Makes the pages of the elements [begin, end) before they are written: a page fault takes longer than writing the page.
template <class T>
void make_pages_of(RawVector<T>& all, size_t begin, size_t end, int threads = 1) {
  constexpr uintptr_t page = 4096;
  const uintptr_t from = reinterpret_cast<uintptr_t>(all.data() + begin) / page * page, to = reinterpret_cast<uintptr_t>(all.data() + end);
  if (begin < end) make_pages(reinterpret_cast<void*>(from), to - from, threads);
}

}  // namespace ms
