// List nodes in chunks that never move, so that one thread may walk a list while another takes new nodes. Every worker keeps
// the nodes it was given back and takes those first: what was read last is in its cache.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>

namespace ms::parac {

struct Node {
  double w;
  int32_t to;
  uint32_t next;
};

constexpr uint32_t no_node = ~uint32_t{0};

class Nodes {
 public:
  Nodes() : chunks_(new std::unique_ptr<Node[]>[most]) {}
  Node& operator[](uint32_t i) const { return chunks_[i >> bits][i & (size - 1)]; }

  // The first node of a fresh chunk of `size` nodes.
  uint32_t grow() {
    const uint32_t c = used_.fetch_add(1, std::memory_order_relaxed);
    if (c >= most - 1) throw std::length_error("more than 4 billion sampled edges at a time: the graph is too large");
    if (!chunks_[c]) chunks_[c].reset(new Node[size]);
    return c << bits;
  }

  void clear() { used_.store(0, std::memory_order_relaxed); }        // chunks are kept for the next nodes

  static constexpr uint32_t bits = 15, size = 1u << bits;

 private:
  static constexpr uint32_t most = 1u << (32 - bits);
  std::unique_ptr<std::unique_ptr<Node[]>[]> chunks_;
  std::atomic<uint32_t> used_{0};
};

class NodeKeeper {                      // of one worker
 public:
  explicit NodeKeeper(Nodes& nodes) : nodes_(&nodes) {}
  uint32_t take(double w, int32_t to) {
    uint32_t i;
    if (free_ != no_node) {
      i = free_;
      free_ = (*nodes_)[i].next;
    } else {
      if (next_ == end_) {
        next_ = nodes_->grow();
        end_ = next_ + Nodes::size;
      }
      i = next_++;
    }
    Node& node = (*nodes_)[i];
    node.w = w;
    node.to = to;
    return i;
  }
  void give(uint32_t i) {
    (*nodes_)[i].next = free_;
    free_ = i;
  }

 private:
  Nodes* nodes_;
  uint32_t free_ = no_node, next_ = 0, end_ = 0;
};

}  // namespace ms::parac
