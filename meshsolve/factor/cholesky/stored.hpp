// Panels of a factor in a file, in the order and layout of main memory (panel.hpp). The numeric phase writes each panel once,
// and a solve reads it once in each direction. Small panels are transferred together; of a large one, a solve holds one step.
#pragma once
#include <cstdint>
#include <vector>

#include "native/memory/buffer.hpp"
#include "native/memory/scratch.hpp"
#include "panel.hpp"

namespace ms::cholesky {

enum class Order { forward, backward };       // of the fronts that a solve visits

constexpr int64_t window_bytes = 1 << 20;     // transferred at a time: a call takes about 1 us, the copy of so many bytes 100 us
template <class T> constexpr int64_t window = window_bytes / static_cast<int64_t>(sizeof(T));

// Panels that one worker of a numeric phase computes.
template <class T>
class PanelWriter {
 public:
  PanelWriter(ScratchFile& file, const std::vector<int64_t>& panel_ptr) : file_(file), ptr_(panel_ptr) {}
  T* open(int32_t s, int threads);            // memory of the panel of front s until close(s)
  void close(int32_t s);
  void flush();                               // writes closed panels that are still in memory

 private:
  void write(const T* data, int64_t begin, int64_t size);

  ScratchFile& file_;
  const std::vector<int64_t>& ptr_;
  Buffer<T> group_, large_;                   // panels that follow each other; a panel that is larger than the window
  int64_t begin_ = 0, size_ = 0;              // of the closed panels of the group, in scalars of the file
};

template <class T>
class PanelReader {
 public:
  PanelReader(const fronts::AssemblyTree& tree, const fronts::Schedule& plan, ScratchFile& file, const std::vector<int64_t>& panel_ptr,
              int workers)
      : tree_(tree), plan_(plan), file_(file), ptr_(panel_ptr), windows_(workers) {}

  // Step k of front s, valid until the next call of this worker.
  Step<const T> step(int32_t s, int64_t k, int worker, Order order);

 private:
  struct alignas(128) Window {
    Buffer<T> data;
    int64_t begin = 0, end = 0;               // scalars of the file
  };
  void read(Window& window, int64_t begin, int64_t end);
  bool is_small(int32_t s) const { return ptr_[s + 1] - ptr_[s] <= window<T>; }

  const fronts::AssemblyTree& tree_;
  const fronts::Schedule& plan_;
  ScratchFile& file_;
  const std::vector<int64_t>& ptr_;
  std::vector<Window> windows_;
};

struct FileNeeds {                            // in scalars
  int64_t memory;                             // of the numeric phase, from above; without the analysis
  int64_t file;                               // panels and update matrices; some more on several threads
};

template <class T> FileNeeds fronts_in_file(const fronts::AssemblyTree& tree, const std::vector<int64_t>& panel_ptr, int threads);

}  // namespace ms::cholesky
