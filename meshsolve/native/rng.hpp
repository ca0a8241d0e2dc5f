// Counter-based random numbers: a value is a hash of its key, so results do not depend on the number of threads or their order.
// The CUDA kernels use the same arithmetic.
// Source: the finalizer of SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").
#pragma once

#ifdef __CUDACC__
#define MS_HD __host__ __device__
#else
#define MS_HD
#endif

namespace ms {

MS_HD inline unsigned long long mix64(unsigned long long x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

MS_HD inline unsigned long long hash_key(unsigned long long seed, unsigned long long a, unsigned long long b = 0) {
  return mix64(mix64(mix64(seed) ^ a) ^ b);
}

// A stream of numbers from one key, for one task (a tree node, a patch).
struct Stream {
  unsigned long long state;
  MS_HD explicit Stream(unsigned long long key) : state(mix64(key)) {}
  MS_HD unsigned next() {
    state += 0x9E3779B97F4A7C15ull;
    return static_cast<unsigned>(mix64(state) >> 32);
  }
  MS_HD unsigned below(unsigned n) { return static_cast<unsigned>((static_cast<unsigned long long>(next()) * n) >> 32); }
};

}  // namespace ms
