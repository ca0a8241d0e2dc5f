// Memory from which the workers of a traversal cut consecutive blocks, and which is freed as a whole: for parts of a factor whose
// sizes are not known in advance. The next traversal reuses the memory. Pages are allocated at first use, so unused memory at the
// end of a chunk costs only addresses.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "native/memory/buffer.hpp"
#include "native/threads/interrupt.hpp"

namespace ms {

class Arena {
 public:
  // Frees all blocks; their contents stay until new blocks overwrite them. Sets the number of workers, and the least size of new
  // chunks in bytes.
  void reset(int workers, size_t chunk);

  // An uninitialized block, aligned to 8 bytes, a large one to 64; throws std::bad_alloc. Pages are made by so many threads. One
  // thread for each worker may call at the same time.
  void* take(size_t bytes, int worker, int threads = 1);

  int64_t nbytes() const;                      // of all blocks and of free chunks

 private:
  struct Chunk {
    Buffer<char> memory;
    size_t made = 0, used = 0;
    size_t size() const { return static_cast<size_t>(memory.size()); }
  };
  struct alignas(cache_line) Worker {
    Chunk* current = nullptr;
  };

  Chunk* chunk_for(size_t bytes);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::multimap<size_t, Chunk*> free_;         // by size
  std::vector<Worker> workers_;
  size_t least_ = 0;                           // bytes of a new chunk
};

}  // namespace ms
