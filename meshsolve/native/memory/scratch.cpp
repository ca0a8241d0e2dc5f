#include "scratch.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>

#ifndef _WIN32
#include <unistd.h>
#endif

namespace ms {
#ifndef _WIN32
namespace {

constexpr int64_t most = int64_t{1} << 30;     // bytes of one call: the limit of macOS is 2 GiB

[[noreturn]] void fail(const std::string& folder, const std::string& what, int error) {
  const std::string message = folder + ": " + what + ": " + std::generic_category().message(error);
  if (error == ENOSPC || error == EFBIG || error == EDQUOT)
    throw ScratchFull(message + ". Free some space, raise the limit, or pass another folder=");
  throw ScratchError(message);
}

// Calls step(done, bytes) until all bytes are transferred; step returns their number, 0 at the end of the file, or -1 with errno.
template <class Step>
void transfer(int64_t bytes, const std::string& folder, const char* what, int64_t at, Step&& step) {
  for (int64_t done = 0; done < bytes;) {
    const int64_t count = step(done, std::min(bytes - done, most));
    if (count > 0) {
      done += count;
    } else if (count == 0) {
      throw ScratchError(folder + ": the file of the factor ends before byte " + std::to_string(at + bytes) +
                         ": another program has cut it, refactor() writes it again");
    } else if (errno != EINTR) {
      fail(folder, std::string("the file of the factor cannot be ") + what + " at byte " + std::to_string(at + done), errno);
    }
  }
}

}  // namespace

void ScratchFile::write(const void* data, int64_t bytes, int64_t at) {
  transfer(bytes, folder_, "written", at, [&](int64_t done, int64_t count) {
    return int64_t{pwrite(descriptor_, static_cast<const char*>(data) + done, static_cast<size_t>(count), at + done)};
  });
  written_.fetch_add(bytes, std::memory_order_relaxed);
}

void ScratchFile::read(void* data, int64_t bytes, int64_t at) {
  transfer(bytes, folder_, "read", at, [&](int64_t done, int64_t count) {
    return int64_t{pread(descriptor_, static_cast<char*>(data) + done, static_cast<size_t>(count), at + done)};
  });
  read_.fetch_add(bytes, std::memory_order_relaxed);
}

void ScratchFile::cut(int64_t bytes) {
  if (ftruncate(descriptor_, bytes) != 0) fail(folder_, "the file of the factor cannot be cut", errno);
}
#else
void ScratchFile::write(const void*, int64_t, int64_t) { throw ScratchError("files of factors are not supported on Windows"); }
void ScratchFile::read(void*, int64_t, int64_t) { throw ScratchError("files of factors are not supported on Windows"); }
void ScratchFile::cut(int64_t) { throw ScratchError("files of factors are not supported on Windows"); }
#endif

int64_t ScratchRanges::take(int64_t size) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [begin, available] = *it;
    if (available < size) continue;
    free_.erase(it);
    if (available > size) free_.emplace(begin + size, available - size);
    return begin;
  }
  const int64_t begin = end_;
  end_ += size;
  return begin;
}

void ScratchRanges::give(int64_t begin, int64_t size) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto it = free_.emplace(begin, size).first;
  if (const auto next = std::next(it); next != free_.end() && begin + size == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it != free_.begin()) {
    if (const auto before = std::prev(it); before->first + before->second == it->first) {
      before->second += it->second;
      free_.erase(it);
      it = before;
    }
  }
  if (it->first + it->second == end_) {
    end_ = it->first;
    free_.erase(it);
  }
}

}  // namespace ms
