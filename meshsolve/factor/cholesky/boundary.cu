// The front of a Schur complement on the GPU, which is assembled and not eliminated: the dense matrix, and its rows of a forward sweep.
//
// CUDA counterpart of boundary_block in extract.cpp and of reduce_block in solve.cpp. The sweeps (sweeps.cu) have the tree without this
// front. So the vectors of its children are still to be added to its rows: in ascending order, as those of any front.
#include "factor/fronts/fronts.cuh"

using namespace ms;
using ms::fronts::Front;

// S := the lower triangle of the front, and its mirror entries.
extern "C" __global__ void __launch_bounds__(256)
k_boundary_block(const long long* table, int front, const double* panels, double* S) {
  const Front& f = reinterpret_cast<const Front*>(table)[front];
  for (long long k = grid_begin(); k < f.pivots * f.pivots; k += grid_step()) {
    const long long i = k / f.pivots, j = k % f.pivots;
    S[k] = panels[f.panel + max(i, j) + min(i, j) * f.leading];
  }
}

// Adds the vectors of the children to the rows of the front in Y. One thread block for each right-hand side; a pass of the sweeps has
// `width` of them. After a wait in vain the rows become NaN.
extern "C" __global__ void __launch_bounds__(256)
k_boundary_rows(const long long* table, int front, const int* child, const int* relative, int width, long long n, long long vector_rows,
                const int* stalled, const double* vectors, double* Y) {
  const Front* const fronts = reinterpret_cast<const Front*>(table);
  const Front& f = fronts[front];
  const long long pass = blockIdx.x / width, c = blockIdx.x % width;
  double* const y = Y + blockIdx.x * n + f.first;
  for (long long q = f.child_begin; q < f.child_end; ++q) {
    const Front& from = fronts[child[q]];
    const double* const v = vectors + pass * width * vector_rows + from.rows * width + c * from.updates();
    for (int i = threadIdx.x; i < from.updates(); i += blockDim.x) y[relative[from.rows + i]] += v[i];
    __syncthreads();                                        // another child may have the same row
  }
  if (*stalled)
    for (int i = threadIdx.x; i < f.pivots; i += blockDim.x) y[i] = __longlong_as_double(0x7ff8000000000000ll);
}
