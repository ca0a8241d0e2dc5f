// Where the sampled edges of many vertices are kept.
// Lists (of a given order): four edges to a node, which is a cache line, so that a list is read with a miss per four edges and
// not per edge. Nodes lie in chunks that never move, so that one thread may walk a list while another takes new nodes. Every
// worker keeps the nodes it was given back and takes those first: what was read last is in its cache.
// Rows (of the rounds): blocks of edges, for rows that have outgrown the first place they were given.
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
  static constexpr int32_t room = 4;
  double w[room];
  int32_t to[room];
  uint32_t next;
  int32_t count;
};

constexpr uint32_t no_node = ~uint32_t{0}, held = no_node - 1;       // held: the head of a list that a thread is changing

class Nodes {
 public:
  Nodes() : chunks_(static_cast<Node**>(std::calloc(most, sizeof(Node*)))) {
    if (!chunks_) throw std::bad_alloc();
  }
  Nodes(const Nodes&) = delete;
  ~Nodes() {
    for (uint32_t c = 0; c < made_.load(std::memory_order_relaxed); ++c) free_block(chunks_[c]);      // some may be null
    std::free(chunks_);
  }
  Node& operator[](uint32_t i) const { return chunks_[i >> bits][i & (size - 1)]; }

  // The first node of a fresh chunk of `size` nodes.
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
  Node** chunks_;                       // (most) of which the first made_ may be there
  std::atomic<uint32_t> used_{0}, made_{0};
};

class NodeKeeper {                      // of one worker
 public:
  explicit NodeKeeper(Nodes& nodes) : nodes_(&nodes) {}

  // Puts an edge into the list that starts with node `head`; returns where the list starts now.
  uint32_t put(uint32_t head, double w, int32_t to) {
    if (head != no_node) {
      Node& node = (*nodes_)[head];
      if (node.count < Node::room) {
        node.w[node.count] = w;
        node.to[node.count++] = to;
        return head;
      }
    }
    const uint32_t i = take();
    Node& node = (*nodes_)[i];
    node.w[0] = w;
    node.to[0] = to;
    node.count = 1;
    node.next = head;
    return i;
  }
  void give(uint32_t i) {
    (*nodes_)[i].next = free_;
    free_ = i;
  }

 private:
  uint32_t take() {
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

class Rows {                            // of one worker
 public:
  Edge* take(int64_t entries) {
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

// What several threads add to, a list by its head or a row by its lock, is held while one of them does; the others wait for a
// few stores. They wait for an exception too: `value` goes back as it then is.
template <bool shared>
class Hold {
 public:
  explicit Hold(uint32_t& head) : value(shared ? take(head) : head), head_(head) {}
  ~Hold() {
    if constexpr (shared)
      AtomicRef(head_).store(value, std::memory_order_release);
    else
      head_ = value;
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  uint32_t value;

 private:
  static uint32_t take(uint32_t& head) {
    for (int spin = 0;; ++spin) {
      const uint32_t found = AtomicRef(head).exchange(held, std::memory_order_acquire);
      if (found != held) return found;
      if (spin > 200) std::this_thread::yield();
    }
  }

  uint32_t& head_;
};

}  // namespace ms::parac
