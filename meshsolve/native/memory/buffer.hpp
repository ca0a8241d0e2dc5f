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

// The same for blocks of at least mapped_from bytes, which get pages of their own and give them back. Smaller ones take the pages
// that ordering and analysis have left: new ones would cost a sixth of the time in which a factor of some MB is made.
constexpr size_t mapped_from = size_t{16} << 20;
void* mapped_block(size_t bytes);
void unmap_block(void* data, size_t bytes, int threads = 1) noexcept;

// Gives memory that was freed back to the system, which the C library would keep for later blocks of the same size. To be
// called between phases, before blocks of `bytes` together that take pages of their own. It takes about 10 us a MB, and as long again
// in which the next analysis waits for its pages: nothing is done where they are few.
constexpr size_t many = size_t{128} << 20;
void return_free_memory(size_t bytes);

// To be called before phases that work in blocks of some MB each, of about `bytes` together: what one of them frees, the next one
// takes. The C library would give such blocks back one by one, and each phase would wait for its pages anew. From huge_work on the
// first 32 MB of them are made here, in huge pages as long as these come quickly: it takes a tenth of the time of an analysis.
constexpr size_t huge_work = size_t{8} << 20;
void keep_free_memory(size_t bytes, int threads);

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size, int threads = 1) : Buffer(without_pages(size, threads)) { make(0, size, threads); }
  static Buffer without_pages(int64_t size, int threads = 1) {       // to be made later; so many threads give them back
    Buffer made;
    if (size <= 0) return made;
    const size_t bytes = static_cast<size_t>(size) * sizeof(T), alignment = bytes >= large ? page : 64;
    made.data_ = static_cast<T*>(bytes >= mapped_from ? mapped_block(bytes)
                                                      : aligned_block(alignment, (bytes + alignment - 1) / alignment * alignment));
    made.size_ = size;                                 // not before there is memory, which the destructor gives back
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

  // Makes the pages of [begin, end), where it is large enough to begin with a page, as `begin` does.
  void make(int64_t begin, int64_t end, int threads) {
    if (bytes() >= large) make_pages(data_ + begin, static_cast<size_t>(end - begin) * sizeof(T), threads);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  static constexpr size_t page = 4096, large = size_t{1} << 20;      // bytes; from there on a block begins with a page
  size_t bytes() const { return static_cast<size_t>(size_) * sizeof(T); }

  T* data_ = nullptr;
  int64_t size_ = 0;
  int threads_ = 1;
};

}  // namespace ms
