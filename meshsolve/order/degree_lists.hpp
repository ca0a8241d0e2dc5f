// Vertices by degree, the latest first. Node has `degree` and the links `next` and `prev`, which are the lists' own while the
// vertex is in one of them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace ms::order {

template <class Node>
class DegreeLists {
 public:
  void begin(Node* nodes, int32_t most) {               // for degrees up to `most`
    node_ = nodes;
    head_.assign(static_cast<size_t>(most) + 1, -1);
    least_ = 0;
  }

  void insert(int32_t i) {
    Node& a = node_[i];
    a.prev = -1;
    a.next = head_[a.degree];
    if (a.next >= 0) node_[a.next].prev = i;
    head_[a.degree] = i;
    least_ = std::min(least_, a.degree);
  }

  void remove(int32_t i) {
    const Node& a = node_[i];
    if (a.next >= 0) node_[a.next].prev = a.prev;
    if (a.prev >= 0)
      node_[a.prev].next = a.next;
    else
      head_[a.degree] = a.next;
  }

  // Takes out a vertex of the smallest degree; there has to be one.
  int32_t take() {
    while (head_[least_] < 0) ++least_;
    const int32_t i = head_[least_];
    remove(i);
    return i;
  }

  int32_t next() const { return head_[least_]; }         // of the degree taken last, or -1

 private:
  Node* node_ = nullptr;
  std::vector<int32_t> head_;                            // first of each list
  int32_t least_ = 0;                                    // no vertex has a smaller degree
};

}  // namespace ms::order
