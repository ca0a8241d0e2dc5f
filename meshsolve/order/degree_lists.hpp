// Priority queue of vertices by degree: one doubly linked list per degree, last in, first out. `Node` has the member `degree` and
// the links `next` and `prev`, which belong to the lists while the vertex is in one of them. Cost: O(1) per call, apart from
// pop().
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace ms::order {

template <class Node>
class DegreeLists {
 public:
  void begin(Node* nodes, int32_t most) {               // empties the lists; degrees are at most `most`
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

  // Removes and returns a vertex of the smallest degree. The lists must not be empty.
  int32_t pop() {
    while (head_[least_] < 0) ++least_;
    const int32_t i = head_[least_];
    remove(i);
    return i;
  }

  int32_t next() const { return head_[least_]; }         // a vertex of the degree popped last, or -1

 private:
  Node* node_ = nullptr;
  std::vector<int32_t> head_;                            // first vertex of each list
  int32_t least_ = 0;                                    // lower bound of the degrees
};

}  // namespace ms::order
