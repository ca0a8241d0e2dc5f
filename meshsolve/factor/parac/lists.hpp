// Storage of the sampled edges.
// Lists (for a given order): linked lists with four edges per node, which is a cache line, so there is one cache miss per four
// edges. Nodes lie in chunks that never move, so one thread may read a list while another allocates nodes. Each worker reuses its
// freed nodes first, since they are in its cache.
// Rows (for the rounds): blocks of edges, for rows that have outgrown their first storage.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "native/threads/atomic.hpp"
#include "native/memory/buffer.hpp"
#include "pivot.hpp"

namespace ms::parac {

struct alignas(64) Node {
  static constexpr int32_t capacity = 4;
  double w[capacity];
  int32_t to[capacity];
  uint32_t next;
  int32_t count;
};

constexpr uint32_t no_node = ~uint32_t{0}, locked = no_node - 1;     // locked: head of a list that a thread is changing

class Nodes {
 public:
  Nodes() : chunks_(static_cast<Node**>(std::calloc(most, sizeof(Node*)))) {
    if (!chunks_) throw std::bad_alloc();
  }
  Nodes(const Nodes&) = delete;
  ~Nodes() {
    for (uint32_t c = 0; c < made_.load(std::memory_order_relaxed); ++c) free_block(chunks_[c]);  // null if the allocation failed
    std::free(chunks_);
  }
  Node& operator[](uint32_t i) const { return chunks_[i >> bits][i & (size - 1)]; }

  // Allocates a chunk of `size` nodes. Returns its first node.
  uint32_t grow() {
    const uint32_t c = used_.fetch_add(1, std::memory_order_relaxed);
    if (c >= most - 1) throw std::length_error("more than 16 billion sampled edges at a time: the graph is too large");
    for (uint32_t m = made_; m < c + 1 && !made_.compare_exchange_weak(m, c + 1);) continue;
    if (!chunks_[c]) chunks_[c] = static_cast<Node*>(aligned_block(alignof(Node), size * sizeof(Node)));
    return c << bits;
  }

  static constexpr uint32_t bits = 13, size = 1u << bits;

 private:
  static constexpr uint32_t most = 1u << (32 - bits);
  Node** chunks_;                       // (most) the first made_ may be allocated
  std::atomic<uint32_t> used_{0}, made_{0};
};

class NodePool {                        // allocator of one worker
 public:
  explicit NodePool(Nodes& nodes) : nodes_(&nodes) {}

  // Adds an edge to the list that starts with node `head`. Returns its new first node.
  uint32_t push(uint32_t head, double w, int32_t to) {
    if (head != no_node) {
      Node& node = (*nodes_)[head];
      if (node.count < Node::capacity) {
        node.w[node.count] = w;
        node.to[node.count++] = to;
        return head;
      }
    }
    const uint32_t i = allocate();
    Node& node = (*nodes_)[i];
    node.w[0] = w;
    node.to[0] = to;
    node.count = 1;
    node.next = head;
    return i;
  }
  void release(uint32_t i) {
    (*nodes_)[i].next = free_;
    free_ = i;
  }

 private:
  uint32_t allocate() {
    if (free_ != no_node) {
      const uint32_t i = free_;
      free_ = (*nodes_)[i].next;
      return i;
    }
    if (next_ == end_) {
      next_ = nodes_->grow();
      end_ = next_ + Nodes::size;
    }
    return next_++;
  }

  Nodes* nodes_;
  uint32_t free_ = no_node, next_ = 0, end_ = 0;
};

class RowStorage {                      // of one worker
 public:
  Edge* allocate(int64_t entries) {
    if (entries > left_) {
      const int64_t size = entries > block ? entries : block;
      blocks_.emplace_back(size);
      next_ = blocks_.back().data();
      left_ = size;
    }
    left_ -= entries;
    return std::exchange(next_, next_ + entries);
  }
  void clear() {
    blocks_.clear();
    left_ = 0;
  }

 private:
  static constexpr int64_t block = 1 << 14;
  std::vector<Buffer<Edge>> blocks_;
  Edge* next_ = nullptr;
  int64_t left_ = 0;
};

// Spin lock of a list (its head) or of a row (its lock word), which other threads hold for a few stores. The destructor writes
// `value` back, also after an exception.
template <bool shared>
class SpinLock {
 public:
  explicit SpinLock(uint32_t& head) : value(shared ? acquire(head) : head), head_(head) {}
  ~SpinLock() {
    if constexpr (shared)
      AtomicRef(head_).store(value, std::memory_order_release);
    else
      head_ = value;
  }
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  uint32_t value;

 private:
  static uint32_t acquire(uint32_t& head) {
    for (int spin = 0;; ++spin) {
      const uint32_t found = AtomicRef(head).exchange(locked, std::memory_order_acquire);
      if (found != locked) return found;
      if (spin > 200) std::this_thread::yield();
    }
  }

  uint32_t& head_;
};

}  // namespace ms::parac
