// Nested dissection of a graph on the GPU by one persistent kernel. CPU counterpart: nested.cpp.
//
// A thread block dissects one node: quotient graph, bisection, separator, two children. It goes on with one child and puts the other
// into a queue, down to the leaves. So launches and reads of the host do not depend on the number of levels. The largest nodes of a
// large graph would occupy one multiprocessor each; levels.cu divides them before, with many thread blocks for each.
//
// Each block draws a ticket, an index of the queue, and waits until that entry is filled or all nodes are dissected. Running blocks alone
// fill entries, so there is no deadlock for any number of resident blocks. The order of the queue does not change the result.
// Cost per node: the waves of the flows (separator.cuh) and the moves of the bisection (coarsen.cuh).
#include "order/coarsen.cuh"
#include "order/dissect.cuh"
#include "order/separator.cuh"

namespace ms::order {

struct Queue {
  // Tickets, entries that were added, unfinished nodes beyond the given ones, divided nodes.
  enum Counter { drawn, added, open, divided, stalled };
  int* const counters;
  int* const is_filled;                                     // flag of each entry; the first `given` entries need none
  Node* const nodes;
  const int given, capacity;

  // Index of the next node, or -1 if all nodes are dissected. By one thread.
  __device__ __forceinline__ int draw() const {
    const int ticket = atomicAdd(counters + drawn, 1);
    if (ticket < given || ticket >= capacity) return ticket < given ? ticket : none;
    Timeout timeout(counters + stalled);
    const long long patience = timeout.left;
    int seen = 0;
    const auto ends = [&] {
      const int steps = peek(counters + divided);
      if (steps != seen) timeout.left = patience;           // the kernel stalls if no node is divided for so long
      seen = steps;
      return peek(is_filled + ticket) != 0 || peek(counters + open) + given == 0;
    };
    return timeout.until(ends) && peek(is_filled + ticket) != 0 ? ticket : none;
  }

  // Adds a node. By one thread, after a barrier: other blocks read what all threads of this one have written.
  __device__ __forceinline__ void push(const Node& node) const {
    const int at = given + atomicAdd(counters + added, 1);
    nodes[at] = node;
    atomicAdd(counters + open, 1);
    __threadfence();
    *static_cast<volatile int*>(is_filled + at) = 1;
  }
};

// Divides one node by the thread block.
__device__ inline void divide(const Dissection& d, Node* node, int* shared, int shared_bytes, Node* children) {
  const int* const list = d.list(node->depth) + node->begin;
  const int weight = node->weight;
  for (int p = node->first_patch + (threadIdx.x >> 5); p < node->last_patch; p += blockDim.x >> 5) write_row(d, node, p);
  __syncthreads();
  bisect(d, node);
  for (int i = threadIdx.x; i < weight; i += blockDim.x) start_vertex(d, node, list[i]);
  __syncthreads();
  separate(d, *node, shared, shared_bytes, children);
  __syncthreads();
  for (int i = threadIdx.x; i < weight; i += blockDim.x) relabel(d, list[i], node->depth);
  __syncthreads();
}

}  // namespace ms::order

using namespace ms;
using namespace ms::order;

// The root and its patches. Vertices are numbered patch by patch.
extern "C" __global__ void __launch_bounds__(256) k_begin(DISSECTION_ARGUMENTS, unsigned long long seed) {
  const Dissection d{DISSECTION_VALUES};
  if (grid_begin() == 0) d.nodes[0] = {0, d.room * d.ptr[n], mix64(seed), 0, n, 0, patches, none, 0, 0, 0, 0};
  for (long long i = grid_begin(); i < n; i += grid_step()) {
    d.list(0)[i] = static_cast<int>(i);
    d.span_end()[i] = 0;
    if (i >= patches) continue;
    const int p = static_cast<int>(i), first = lower_bound(patch, n, p), last = lower_bound(patch, n, p + 1);
    d.weight()[p] = last - first;
    d.degree()[p] = static_cast<int>(d.ptr[last] - d.ptr[first]);
    d.list_begin()[p] = first;
    d.node()[p] = 0;
  }
}

// Dissects `given` nodes, from `first` on, down to leaves. capacity: largest number of nodes in the queue.
extern "C" __global__ void __launch_bounds__(256, 2)
k_dissect(DISSECTION_ARGUMENTS, int shared_bytes, int first, int given, int capacity, int* counters, int* is_filled) {
  extern __shared__ int shared[];
  __shared__ int task;
  __shared__ Node node;
  __shared__ Node children[2];
  const Dissection d{DISSECTION_VALUES};
  const Queue queue{counters, is_filled, d.nodes + first, given, capacity};
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) {
      task = queue.draw();
      if (task >= 0) node = queue.nodes[task];
    }
    __syncthreads();
    if (task < 0) return;
    for (bool goes_on = node.weight > 0; goes_on;) {
      divide(d, &node, shared, shared_bytes, children);
      const bool both = children[0].weight > 0 && children[1].weight > 0;
      goes_on = children[0].weight > 0 || children[1].weight > 0;
      if (threadIdx.x == 0) {
        if (both) queue.push(children[1]);
        if (goes_on) node = children[0].weight > 0 ? children[0] : children[1];
        atomicAdd(counters + Queue::divided, 1);
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) atomicSub(counters + Queue::open, 1);
  }
}
