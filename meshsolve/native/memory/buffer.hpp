// A block of memory that is neither initialized nor moved: panels of a factor, stacks of update matrices.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

namespace ms {

// Makes the pages of a fresh block before its first use. `data` is aligned to pages.
void make_pages(void* data, size_t bytes, int threads = 1);

// Allocates a block at a multiple of `alignment`, which divides `bytes`; throws std::bad_alloc. Free it with free_block.
void* aligned_block(size_t alignment, size_t bytes);
void free_block(void* data);

// The same for blocks of at least mapped_from bytes, which get their own pages and return them to the system. Smaller blocks
// reuse the pages that ordering and analysis have freed: new pages would cost a sixth of the factorization time of a factor of
// some MB.
constexpr size_t mapped_from = size_t{16} << 20;
void* mapped_block(size_t bytes);
void unmap_block(void* data, size_t bytes, int threads = 1) noexcept;

// Returns freed memory to the system, which the C library would keep for later blocks of the same size. Call it between phases,
// before allocating blocks of `bytes` in total that get their own pages. Cost: about 10 us per MB, and the same again when the
// next analysis gets its pages. Does nothing below `many` bytes.
constexpr size_t many = size_t{128} << 20;
void return_free_memory(size_t bytes);

// Keeps freed memory in the process. Call it before phases that use blocks of some MB each, about `bytes` in total: each phase
// then reuses the blocks of the one before. The C library would return such blocks one by one, and each phase would get new
// pages. From huge_work bytes on, the first 32 MB are allocated here, in huge pages while the system provides these quickly. It
// saves a tenth of the time of an analysis.
constexpr size_t huge_work = size_t{8} << 20;
void keep_free_memory(size_t bytes, int threads);

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size, int threads = 1) : Buffer(without_pages(size, threads)) { make(0, size, threads); }
  static Buffer without_pages(int64_t size, int threads = 1) {       // for make() later; `threads` threads free them
    Buffer made;
    if (size <= 0) return made;
    const size_t bytes = static_cast<size_t>(size) * sizeof(T), alignment = bytes >= large ? page : 64;
    made.data_ = static_cast<T*>(bytes >= mapped_from ? mapped_block(bytes)
                                                      : aligned_block(alignment, (bytes + alignment - 1) / alignment * alignment));
    made.size_ = size;                                 // after the allocation, as the destructor frees it
    made.threads_ = threads;
    return made;
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), threads_(other.threads_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(threads_, other.threads_);
    return *this;
  }
  ~Buffer() {
    if (bytes() >= mapped_from)
      unmap_block(data_, bytes(), threads_);
    else
      free_block(data_);
  }

  // Makes the pages of [begin, end) if the block is large enough to start at a page; `begin` must too.
  void make(int64_t begin, int64_t end, int threads) {
    if (bytes() >= large) make_pages(data_ + begin, static_cast<size_t>(end - begin) * sizeof(T), threads);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  static constexpr size_t page = 4096, large = size_t{1} << 20;      // bytes; blocks of `large` bytes or more start at a page
  size_t bytes() const { return static_cast<size_t>(size_) * sizeof(T); }

  T* data_ = nullptr;
  int64_t size_ = 0;
  int threads_ = 1;
};

}  // namespace ms
