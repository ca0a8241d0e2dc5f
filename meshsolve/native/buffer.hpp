// A block of memory that is neither initialized nor moved: panels of a factor, stacks of update matrices.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

namespace ms {

// Makes the pages of a fresh block before its first use. `data` is aligned to pages.
void make_pages(void* data, size_t bytes, int threads = 1);

// A block at a multiple of `alignment`, which divides `bytes`; throws std::bad_alloc. It goes back through free_block alone.
void* aligned_block(size_t alignment, size_t bytes);
void free_block(void* data);

// Gives memory that was freed back to the system, which the C library would keep for later blocks of the same size. To be
// called between phases, before a block that is much larger than what the phase before it worked in: about 10 us a MB.
void return_free_memory();

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size, int threads = 1) : Buffer() {
    if (size <= 0) return;
    size_ = size;
    constexpr size_t large = size_t{1} << 20, page = 4096;
    const size_t bytes = static_cast<size_t>(size) * sizeof(T);
    const size_t alignment = bytes >= large ? page : 64;
    data_ = static_cast<T*>(aligned_block(alignment, (bytes + alignment - 1) / alignment * alignment));
    if (bytes >= large) make_pages(data_, bytes, threads);
  }
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() { free_block(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace ms
