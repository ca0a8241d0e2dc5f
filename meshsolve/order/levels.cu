// The upper levels of a nested dissection on the GPU, whose nodes are large: one launch for each step of all nodes of a level.
//
// The steps are those of dissect.cu, with the same result. Many thread blocks work on a node: by rows of the quotient graph, by trials of
// the bisection, by vertices. Coarsening and flow have one thread block per node. A wave of a flow has some hundred entries, which a
// barrier between thread blocks would slow down. The quotient graph has one vertex for some sixty of the graph.
// Nodes of level k have the numbers of a heap, from 2^k - 1 on; some do not exist. The host reads nothing.
#include "order/coarsen.cuh"
#include "order/dissect.cuh"
#include "order/separator.cuh"

using namespace ms;
using namespace ms::order;

// Quotient graphs, one warp per row.
extern "C" __global__ void __launch_bounds__(256) k_rows(DISSECTION_ARGUMENTS) {
  const Dissection d{DISSECTION_VALUES};
  for (long long w = grid_begin() >> 5; w < patches; w += grid_step() >> 5) {
    const int p = static_cast<int>(w), k = d.node()[p];
    if (k >= 0) write_row(d, d.nodes + k, p);
  }
}

// Coarser graphs, one thread block per node.
extern "C" __global__ void __launch_bounds__(1024, 1) k_coarsen(DISSECTION_ARGUMENTS, int first, int* levels) {
  const Dissection d{DISSECTION_VALUES};
  const Node& x = d.nodes[first + blockIdx.x];
  if (x.weight > 0) coarsen(d, x, levels + level_row * blockIdx.x);
}

// One thread block per node and trial. scores: of the trials of each node.
extern "C" __global__ void __launch_bounds__(256, 2) k_bisect(DISSECTION_ARGUMENTS, int first, int* levels, double* scores) {
  const Dissection d{DISSECTION_VALUES};
  const int k = blockIdx.x / trials;
  const Node& x = d.nodes[first + k];
  if (x.weight == 0) return;
  const double score = bisect_once<Block>(d, x, levels + level_row * k, blockIdx.x % trials);
  if (threadIdx.x == 0) scores[blockIdx.x] = score;
}

// Sides of the patches by the best trial, one thread block per node.
extern "C" __global__ void __launch_bounds__(512) k_choose(DISSECTION_ARGUMENTS, int first, const double* scores) {
  const Dissection d{DISSECTION_VALUES};
  Node* const node = d.nodes + first + blockIdx.x;
  if (node->weight == 0) return;
  Best best;
  for (int k = 0; k < trials; ++k) best.compare(scores[blockIdx.x * trials + k], k);
  choose(d, node, best.trial);
}

// Initial sides of the vertices, and the vertices at the cut.
extern "C" __global__ void __launch_bounds__(256) k_boundary(DISSECTION_ARGUMENTS) {
  const Dissection d{DISSECTION_VALUES};
  for (long long i = grid_begin(); i < n; i += grid_step()) {
    const int v = static_cast<int>(i);
    if (patch[v] >= 0) start_vertex(d, d.nodes + d.node()[patch[v]], v);
  }
}

// Separators and children, one thread block per node.
extern "C" __global__ void __launch_bounds__(512, 1) k_separate(DISSECTION_ARGUMENTS, int shared_bytes, int first) {
  extern __shared__ int shared[];
  const Dissection d{DISSECTION_VALUES};
  const int k = first + blockIdx.x;
  const Node& x = d.nodes[k];
  if (x.weight == 0) return;
  Node* const children = d.nodes + 2 * k + 1;
  separate(d, x, shared, shared_bytes, children);
  __syncthreads();
  for (int p = x.first_patch + threadIdx.x; p < x.last_patch; p += blockDim.x) {
    const int side = p < children[0].last_patch ? 0 : 1;
    const bool exists = children[side].weight > 0 && p < children[side].last_patch;
    d.node()[p] = exists ? 2 * k + 1 + side : none;
  }
}

// Vertices move to the next level.
extern "C" __global__ void __launch_bounds__(256) k_relabel(DISSECTION_ARGUMENTS, int depth) {
  const Dissection d{DISSECTION_VALUES};
  for (long long v = grid_begin(); v < n; v += grid_step()) relabel(d, static_cast<int>(v), depth);
}
