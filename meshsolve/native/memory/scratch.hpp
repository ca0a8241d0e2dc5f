// A file for data larger than memory, such as a factor. The caller opens it and removes its name at once, so the system frees its
// space when the descriptor is closed, also after a kill. Each call names its position: several threads may read and write.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

namespace ms {

struct ScratchError : std::runtime_error {     // a read or write failed
  using runtime_error::runtime_error;
};
struct ScratchFull : ScratchError {            // the disk, a quota, or the limit of the process
  using ScratchError::ScratchError;
};

class ScratchFile {
 public:
  // An open file with reading and writing, which the caller closes. `folder`: its folder, for messages.
  ScratchFile(int descriptor, std::string folder) : descriptor_(descriptor), folder_(std::move(folder)) {}

  void write(const void* data, int64_t bytes, int64_t at);
  void read(void* data, int64_t bytes, int64_t at);
  void cut(int64_t bytes);                     // frees the space after the first `bytes`

  int64_t written() const { return written_.load(std::memory_order_relaxed); }       // bytes so far
  int64_t bytes_read() const { return read_.load(std::memory_order_relaxed); }

 private:
  const int descriptor_;
  const std::string folder_;
  std::atomic<int64_t> written_{0}, read_{0};
};

// Ranges of a file from a position on, first fit. Thread-safe.
class ScratchRanges {
 public:
  explicit ScratchRanges(int64_t begin) : end_(begin) {}
  int64_t take(int64_t size);                  // position of a free range
  void give(int64_t begin, int64_t size);

 private:
  std::mutex mutex_;
  std::map<int64_t, int64_t> free_;            // size by position; neighbors are joined
  int64_t end_;                                // everything from here on is free
};

}  // namespace ms
