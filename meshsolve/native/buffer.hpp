// A block of memory that is neither initialized nor moved: panels of a factor, stacks of update matrices.
// The pages of a large block are made at once, which is cheaper than a fault for each; huge pages are not asked for, because
// where memory is fragmented the kernel may take longer to make them than the whole factorization.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace ms {

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size) : size_(size) {
    if (size <= 0) return;
    constexpr size_t large = size_t{4} << 20, page = 4096;
    const size_t bytes = static_cast<size_t>(size) * sizeof(T);
    const size_t alignment = bytes >= large ? page : 64;
    data_ = static_cast<T*>(std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
    if (!data_) throw std::bad_alloc();
#ifdef MADV_POPULATE_WRITE
    if (alignment == page) madvise(data_, bytes, MADV_POPULATE_WRITE);       // older kernels refuse: no harm
#endif
  }
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() { std::free(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace ms
