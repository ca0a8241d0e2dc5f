// Traversals of the assembly tree from the leaves to the roots and from the roots to the leaves, with the memory of the update
// blocks. A block lies on one of two stacks per worker, by parity of depth: it never overwrites those of its children. A block
// that passes from one task to another is separate.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fronts.hpp"
#include "native/memory/scratch.hpp"
#include "native/threads/parallel.hpp"
#include "update.hpp"

namespace ms::fronts {

// Clears the lower triangle of an update matrix, and the few entries above its diagonal that the kernels access: for a front
// without pivots, whose update matrix no product writes.
template <class T>
void clear_update(T* update, PackedLower shape, int threads) {
  shape.each_tile(threads, [&](int64_t c) {
    T* column = update + shape.begin(c);
    for (int64_t j = 0; j < shape.width(c); ++j, column += shape.ld(c)) {
      const int64_t from = std::max<int64_t>(0, j - touched_above);
      std::memset(column + from, 0, sizeof(T) * (shape.ld(c) - from));
    }
  });
}

template <class T>
struct Target {                                // of an extend-add: the part of a front from row and column `origin` on
  T* Y;
  int64_t ld, origin;
};

// Extend-add of the columns [begin, end) of a child's update matrix X of `count` rows. Row i of X is row to[i] of the front.
// `target(j, stop)` returns the target of column j, and reduces `stop` if columns from there on have another target.
//
// The columns of the panel are added before the elimination. The others are added to the front's update matrix after the
// elimination has written it, so it is never cleared.
template <class T, class F>
void add_tiles(const T* X, int64_t count, const int32_t* to, int64_t begin, int64_t end, int threads, F&& target) {
  const PackedLower shape{count};
  for_range(threads, end - begin, threads > 1 ? 64 : end - begin, [&](int64_t b, int64_t e, int) {
    for (int64_t j = begin + b, stop; j < begin + e; j = stop) {
      const int64_t c = PackedLower::first_of(j);
      stop = std::min(begin + e, c + PackedLower::tile);
      const Target<T> t = target(j, stop);
      dense<T>().extend_add(j - c, stop - c, count - c, X + shape.begin(c), to + c, t.Y, t.ld, t.origin);
    }
  });
}

// All into Y.
template <class T>
void add_columns(const T* X, int64_t count, const int32_t* to, int64_t begin, int64_t end, int64_t origin, T* Y, int64_t ld,
                 int threads) {
  add_tiles(X, count, to, begin, end, threads, [&](int64_t, int64_t&) { return Target<T>{Y, ld, origin}; });
}

template <class T>
void add_to_panel(const T* X, int64_t count, const int32_t* to, int64_t columns, T* panel, int64_t ld, int threads) {
  add_columns(X, count, to, 0, std::lower_bound(to, to + count, columns) - to, 0, panel, ld, threads);
}

// The columns [from, end) of the child that are not pivots of the front, which has `columns` pivots.
template <class T>
void add_to_update(const T* X, int64_t count, const int32_t* to, int64_t from, int64_t end, int64_t columns, T* update,
                   PackedLower target, int threads) {
  if (end > 0 && to[end - 1] < columns) return;
  const int64_t begin = std::lower_bound(to + from, to + end, columns) - to;
  add_tiles(X, count, to, begin, end, threads, [&](int64_t j, int64_t& stop) {
    const int64_t c = PackedLower::first_of(to[j] - columns);
    if (target.rows > PackedLower::tile) stop = std::lower_bound(to + j, to + stop, columns + c + PackedLower::tile) - to;
    return Target<T>{update + target.begin(c), target.ld(c), columns + c};
  });
}

// Small blocks that pass between tasks; a forest of small trees has thousands. Each worker allocates them from its own memory, in
// sizes that are powers of two. It reuses the blocks that it freed last (its own or another worker's), which are still in its
// cache.
template <class T>
class SmallBlocks {
 public:
  static constexpr int64_t most = 4096;        // scalars

  T* take(int64_t size) {
    std::vector<T*>& free = free_[kind(size)];
    if (free.empty()) return cut(least << kind(size));
    T* const block = free.back();
    free.pop_back();
    return block;
  }
  void give(T* block, int64_t size) { free_[kind(size)].push_back(block); }

  void reset() {                               // frees all blocks
    for (std::vector<T*>& list : free_) list.clear();
    begun_ = used_ = 0;
  }
  int64_t scalars() const {
    int64_t sum = 0;
    for (const Buffer<T>& chunk : chunks_) sum += chunk.size();
    return sum;
  }

 private:
  static constexpr int64_t least = 16, least_chunk = 1 << 15, largest_chunk = 1 << 18;

  static int kind(int64_t size) { return std::bit_width(static_cast<uint64_t>((std::max<int64_t>(size, 1) - 1) / least)); }

  T* cut(int64_t size) {
    if (begun_ == 0 || used_ + size > chunks_[begun_ - 1].size()) {          // as large as all chunks so far, within bounds
      if (++begun_ > chunks_.size()) chunks_.emplace_back(std::clamp(scalars(), least_chunk, largest_chunk));
      used_ = 0;
    }
    return chunks_[begun_ - 1].data() + std::exchange(used_, used_ + size);
  }

  std::array<std::vector<T*>, 9> free_;        // by size: 16, 32, ... 4096
  std::vector<Buffer<T>> chunks_;
  size_t begun_ = 0;                           // chunks in use
  int64_t used_ = 0;                           // scalars used of the last of them
};

// Memory of update blocks, kept between traversals so that a refactorization allocates nothing.
template <class T>
class BlockMemory {
 public:
  struct alignas(cache_line) Worker {
    Buffer<T> stacks;                          // both stacks in one block
    SmallBlocks<T> small;
  };
  std::vector<Worker> workers;

  void clear() {                               // frees all memory
    workers.clear();
    spare_.clear();
  }

  // The smallest spare block that is large enough, or a new one in place of the largest spare block. So on a path of growing
  // fronts the number of blocks stays that of the blocks in use.
  Buffer<T> take(int64_t size, int threads) {
    Buffer<T> block;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (spare_.empty()) return Buffer<T>(size, threads);
      auto found = spare_.lower_bound(size);
      if (found == spare_.end()) --found;
      block = std::move(found->second);
      spare_.erase(found);
    }
    if (block.size() >= size) return block;
    block = Buffer<T>();                         // frees its memory first
    return Buffer<T>(size, threads);
  }

  void give(Buffer<T>&& block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int64_t size = block.size();
    spare_.emplace(size, std::move(block));
  }

  // Memory that is unused between two traversals, as workspace of a solve, or nullptr.
  Buffer<T>* idle() { return workers.empty() ? nullptr : &workers[0].stacks; }

  int64_t scalars() const {
    int64_t sum = 0;
    for (const Worker& w : workers) sum += w.stacks.size() + w.small.scalars();
    for (const auto& [size, block] : spare_) sum += size;
    return sum;
  }

 private:
  std::mutex mutex_;
  std::multimap<int64_t, Buffer<T>> spare_;    // by size
};

// A file for update matrices that have a slot: in memory each lasts only while its front is computed.
struct Spill {
  Spill(ScratchFile& f, int64_t begin) : file(f), ranges(begin) {}
  ScratchFile& file;
  ScratchRanges ranges;                        // in bytes
};

// Update blocks of one traversal: update matrices, or for solves `unit` scalars per update row. `systems`: number of matrices of one
// pattern whose blocks lie together.
template <class T>
class UpdateBlocks {
 public:
  UpdateBlocks(const AssemblyTree& tree, const Schedule& plan, int workers, int64_t unit, BlockMemory<T>& memory, Spill* spill = nullptr,
               int64_t systems = 1)
      : tree_(tree), plan_(plan), unit_(unit), systems_(systems), memory_(memory), block_(tree.count()), heap_(plan.slots), top_(workers), spill_(spill),
        in_file_(spill ? plan.slots : 0) {
    if (memory_.workers.size() < static_cast<size_t>(workers)) memory_.workers.resize(workers);
    for (auto& worker : memory_.workers) worker.small.reset();
  }
  // An interrupted traversal keeps its blocks for the next one, which must not need new memory.
  ~UpdateBlocks() {
    try {
      for (Buffer<T>& block : heap_)
        if (block.size() > 0 && !spill_) memory_.give(std::move(block));
    } catch (const std::bad_alloc&) {          // blocks that cannot be stored are freed
    }
  }
  UpdateBlocks(const UpdateBlocks&) = delete;
  UpdateBlocks& operator=(const UpdateBlocks&) = delete;

  int64_t size(int32_t s) const {
    const int64_t u = tree_.updates(s);
    return systems_ * (unit_ > 0 ? u * unit_ : matrix_scalars(unit_, u));
  }

  void enter_task(int worker) {
    constexpr int64_t line = 64 / sizeof(T);
    const int64_t even = systems_ * plan_.stacks.scalars(unit_, 0), odd = systems_ * plan_.stacks.scalars(unit_, 1);
    const int64_t begin_of_odd = (even + line - 1) / line * line;
    Buffer<T>& stacks = memory_.workers[worker].stacks;
    if (stacks.size() < begin_of_odd + odd) stacks = Buffer<T>(begin_of_odd + odd);
    top_[worker].at[0] = stacks.data();
    top_[worker].at[1] = stacks.data() + begin_of_odd;
  }

  T* open(int32_t s, int worker, int threads = 1) {
    const int32_t slot = plan_.slot[s];
    if (slot >= 0 && is_small(s)) return block_[s] = memory_.workers[worker].small.take(size(s));
    if (slot >= 0) {
      heap_[slot] = spill_ ? Buffer<T>(size(s), threads) : memory_.take(size(s), threads);
      return block_[s] = heap_[slot].data();
    }
    T*& top = top_[worker].at[plan_.parity[s]];
    block_[s] = top;
    top += size(s);
    return block_[s];
  }

  void close_children(int32_t s, int worker) {
    for (int32_t q = tree_.child_ptr[s]; q < tree_.child_ptr[s + 1]; ++q) {
      const int32_t c = tree_.child[q], slot = plan_.slot[c];
      if (slot >= 0 && is_small(c)) {
        memory_.workers[worker].small.give(block_[c], size(c));
      } else if (is_in_file(c)) {
        spill_->ranges.give(in_file_[slot], bytes(c));
      } else if (slot >= 0) {
        memory_.give(std::move(heap_[slot]));
      } else {
        T*& top = top_[worker].at[plan_.parity[c]];
        top = std::min(top, block_[c]);
      }
    }
  }

  const T* of(int32_t s) const { return block_[s]; }

  bool is_small(int32_t s) const { return size(s) <= SmallBlocks<T>::most; }
  bool is_in_file(int32_t s) const { return spill_ && plan_.slot[s] >= 0 && !is_small(s); }

  // Moves the finished update matrix of a front to the file if is_in_file(s).
  void store(int32_t s) {
    if (!is_in_file(s)) return;
    const int32_t slot = plan_.slot[s];
    in_file_[slot] = spill_->ranges.take(bytes(s));
    spill_->file.write(block_[s], bytes(s), in_file_[slot]);
    heap_[slot] = Buffer<T>();
  }

  // Calls add(X, first, last) for the columns [begin, end) of an update matrix in the file, tile by tile: X is the address that
  // its first entry would have. Threads share the tiles.
  template <class Add>
  void read(int32_t s, int64_t begin, int64_t end, int threads, Add&& add) const {
    const PackedLower shape{tree_.updates(s)};
    const int64_t from = PackedLower::first_of(begin);
    std::vector<Buffer<T>> tiles(threads);     // of each worker
    for_range(threads, begin < end ? (end - from + PackedLower::tile - 1) / PackedLower::tile : 0, 1, [&](int64_t b, int64_t e, int worker) {
      Buffer<T>& tile = tiles[worker];
      for (int64_t c = from + b * PackedLower::tile; c < from + e * PackedLower::tile; c += PackedLower::tile) {
        if (tile.size() == 0) tile = Buffer<T>(shape.ld(from) * shape.width(from));
        const int64_t at = in_file_[plan_.slot[s]] + shape.begin(c) * static_cast<int64_t>(sizeof(T));
        spill_->file.read(tile.data(), shape.ld(c) * shape.width(c) * static_cast<int64_t>(sizeof(T)), at);
        add(tile.data() - shape.begin(c), std::max(begin, c), std::min(end, c + PackedLower::tile));
      }
    });
  }

 private:
  int64_t bytes(int32_t s) const { return size(s) * static_cast<int64_t>(sizeof(T)); }

  struct alignas(cache_line) Tops {
    T* at[2];                                  // of the stacks of a worker
  };

  const AssemblyTree& tree_;
  const Schedule& plan_;
  const int64_t unit_;                         // or Storage
  const int64_t systems_;
  BlockMemory<T>& memory_;
  std::vector<T*> block_;
  std::vector<Buffer<T>> heap_;                // (slots) blocks that are not small
  std::vector<Tops> top_;
  Spill* const spill_;                         // or nullptr
  std::vector<int64_t> in_file_;               // (slots) positions in bytes
};

// Calls visit(front, update block, worker, threads inside the front), which returns -1 or the column (new numbering) where it
// failed. Returns the smallest such column or -1. All fronts before that column are visited, so the result does not depend on the
// number of threads. `count_fronts`: fronts are the progress of the phase; solves count right-hand sides instead.
template <class T, class Visit>
int32_t bottom_up(const AssemblyTree& tree, const Schedule& plan, int threads, UpdateBlocks<T>& blocks, Visit visit,
                  bool count_fronts = true) {
  constexpr int32_t none = INT32_MAX;
  std::atomic<int32_t> failed{none};
  const auto step = [&](int32_t s, int worker, int inside) {
    if (tree.first(s) > failed.load(std::memory_order_relaxed)) return;
    const int32_t column = visit(s, blocks.open(s, worker, inside), worker, inside);
    blocks.close_children(s, worker);
    blocks.store(s);
    int32_t seen = failed.load();
    while (column >= 0 && column < seen && !failed.compare_exchange_weak(seen, column)) {
    }
  };
  for_tree(threads, plan.parent, plan.leaves, [&](int32_t k, int worker) {
    blocks.enter_task(worker);
    const Schedule::Task task = plan.tasks[k];
    for (int32_t s = task.begin; s < task.end; ++s) {
      if (s % 256 == 0) interrupt::poll();
      step(s, worker, 1);
    }
    if (count_fronts) interrupt::advance(task.end - task.begin);
  });
  blocks.enter_task(0);
  for (const int32_t s : plan.last) {
    interrupt::poll();
    step(s, 0, threads);
  }
  return failed == none ? -1 : failed.load();
}

// For solves, which cannot fail. Calls `front(s, update block, worker)` for each front above the small subtrees, and `small(first front,
// root, update block of the root, worker)` for each small subtree.
template <class T, class Front, class Small>
void bottom_up(const AssemblyTree& tree, const Schedule& plan, int threads, UpdateBlocks<T>& blocks, Front front, Small small) {
  const auto step = [&](int32_t s, int worker) {
    front(s, blocks.open(s, worker), worker);
    blocks.close_children(s, worker);
  };
  for_tree(threads, plan.parent, plan.leaves, [&](int32_t k, int worker) {
    blocks.enter_task(worker);
    const Schedule::Task task = plan.tasks[k];
    for (int32_t s = task.begin; s < task.end; ++s) {
      if (s % 256 == 0) interrupt::poll();
      if (tree.direct[s] < 0) {
        step(s, worker);
        continue;
      }
      const int32_t first = s;                     // a leaf; its small subtree ends at the root above it
      while (tree.parent(s) >= 0 && tree.direct[tree.parent(s)] >= 0) s = tree.parent(s);
      if (s - first > 256) interrupt::poll();
      small(first, s, blocks.open(s, worker), worker);
    }
  });
}

// Calls visit(front, worker) for every front after its parent, by a schedule for solves.
template <class Visit>
void top_down(const Schedule& plan, int threads, Visit visit) {
  for_tree_down(threads, plan.parent, [&](int32_t k, int worker) {
    const Schedule::Task task = plan.tasks[k];
    for (int32_t s = task.end; s-- > task.begin;) visit(s, worker);
  });
}

// The same by a schedule for factorizations: fronts outside subtree tasks come first, one by one, and may use all threads.
template <class Visit>
void top_down_together(const Schedule& plan, int threads, Visit visit) {
  for (size_t k = plan.top.size(); k-- > 0;) visit(plan.top[k], 0);
  const int64_t count = static_cast<int64_t>(plan.tasks.size());
  for_range(threads, count, 1, [&](int64_t b, int64_t e, int worker) {
    for (int64_t k = e; k-- > b;) {
      const Schedule::Task task = plan.tasks[count - 1 - k];
      if (task.end == task.begin + 1 && std::binary_search(plan.top.begin(), plan.top.end(), task.begin)) continue;
      for (int32_t s = task.end; s-- > task.begin;) visit(s, worker);
    }
  });
}

}  // namespace ms::fronts
