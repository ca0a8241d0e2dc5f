// What a captured step notes for a later check, and its solutions if it failed. Python side: capture.py.
#include "device/common.cuh"

using namespace ms;

namespace {
constexpr int kNone = 0x7fffffff;                           // no pivot has failed
enum Status { failed, least, bits, stalled };               // words of DeviceFactor that numeric phases and solves write
enum Noted { launches, first, first_status, last_status = first_status + 3, all_bits = last_status + 3 };
}  // namespace

// Sets `bit` if a right-hand side or a prescribed value is not finite.
extern "C" __global__ void __launch_bounds__(256)
k_check_rhs(long long count, const double* b, int bit, int* status) {
  for (long long i = grid_begin(); i < count; i += grid_step())
    if (!(b[i] - b[i] == 0.0)) atomicOr(status + bits, bit);
}

// Counts the launch, and notes its status, that of the first launch in doubt, and the bits of all launches. `accepted` has the bits
// that leave no doubt, `limit` the exponent below which a pivot does. `stall` is the bit of a wait in vain. One thread.
extern "C" __global__ void __launch_bounds__(32)
k_note(int accepted, int limit, int stall, int* status, int* noted) {
  if (threadIdx.x) return;
  if (status[stalled]) status[bits] |= stall;
  const int launch = ++noted[launches];
  const bool doubt = status[failed] != kNone || status[least] < limit || (status[bits] & ~accepted);
  const bool is_first = doubt && !noted[first];
  if (is_first) noted[first] = launch;
  noted[all_bits] |= status[bits];
  for (int k = 0; k < 3; ++k) {
    noted[last_status + k] = status[k];
    if (is_first) noted[first_status + k] = status[k];
  }
}

// x := NaN if a pivot has failed, or one of the bits `wrong` is set.
extern "C" __global__ void __launch_bounds__(256)
k_spoil(long long count, int wrong, const int* status, double* x) {
  if (status[failed] == kNone && !(status[bits] & wrong)) return;
  for (long long i = grid_begin(); i < count; i += grid_step()) x[i] = nan("");
}
