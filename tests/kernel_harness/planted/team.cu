// Values of the first thread of a block, one after the other without a barrier in between.
#include "factor/parac/team.cuh"

extern "C" __global__ void __launch_bounds__(96) k_from_first(const unsigned long long* in, unsigned long long* out) {
  const ms::parac::Block block;
  for (int k = 0; k < 3; ++k) out[96 * k + threadIdx.x] = block.from_first(in[k]);
}
