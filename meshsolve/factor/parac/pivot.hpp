// Arithmetic of one elimination, shared by the CPU code and the CUDA kernels: merge the copies of each edge, sort by weight,
// sample later neighbors. All sums have a fixed order, so the factor depends only on (graph, order, samples, seed).
// Source: Liang et al. 2025, "ParAC", Algorithm 1; sampling: Kyng, Sachdeva 2016 and Gao, Kyng, Spielman 2023.
#pragma once
#include "native/rng.hpp"

namespace ms::parac {

struct Edge {
  double w;                         // total weight of the copies
  int to;                           // neighbor
  int copies;                       // number of copies
};

// Number of samples that an edge draws.
MS_HD inline int draws(const Edge& e, int most) { return e.copies < most ? e.copies : most; }

MS_HD inline bool nearer(const Edge& a, const Edge& b) { return (a.to < b.to) | ((a.to == b.to) & (a.w < b.w)); }
MS_HD inline bool lighter(const Edge& a, const Edge& b) { return (a.w < b.w) | ((a.w == b.w) & (a.to < b.to)); }

// Merges the entries of one neighbor, from e[i] on, in a list sorted by nearer(). The lightest come first, so the sum is the same
// for any schedule. At most `most` copies are counted. Returns the first entry of the next neighbor.
MS_HD inline long long merge_entries(const Edge* e, long long i, long long d, int most, Edge& sum) {
  sum = e[i++];
  for (; i < d && e[i].to == sum.to; ++i) {
    sum.w += e[i].w;
    sum.copies += e[i].copies;
  }
  if (sum.copies > most) sum.copies = most;
  return i;
}

// suffix[i] = w_i + ... + w_{d-1}, summed from the end, which is monotone in floating point. total - prefix could cancel to zero.
MS_HD inline void suffix_sums(const Edge* e, long long d, double* suffix) {
  suffix[d] = 0;
  for (long long i = d - 1; i >= 0; --i) suffix[i] = suffix[i + 1] + e[i].w;
}

MS_HD inline unsigned long long stream_of(unsigned long long seed, int vertex) {
  return hash_key(seed, static_cast<unsigned long long>(vertex));
}

// The i-th number of a stream, in (0, 1].
MS_HD inline double uniform(unsigned long long stream, unsigned long long i) {
  return static_cast<double>((mix64(stream + i * 0xD1342543DE82EF95ull) >> 11) + 1) * 0x1p-53;
}

// The last j in (i, d) with suffix[j] >= r, for 0 < r <= suffix[i + 1]: j is drawn in proportion to w_j.
MS_HD inline long long draw(const double* suffix, long long i, long long d, double r) {
  if (d - i <= 16) {                    // suffixes descend: counting needs no branch
    long long count = 0;
    for (long long j = i + 1; j < d; ++j) count += suffix[j] >= r;
    return i + count;
  }
  long long low = i + 1;
  for (int left = static_cast<int>(d - low); left > 1;) {        // positions have 32 bits
    const int half = left >> 1;
    low += suffix[low + half] >= r ? half : 0;
    left -= half;
  }
  return low;
}

// Samples of edge i of a pivot whose edges are sorted by lighter(). Each of at most `most` copies draws one later edge j and
// calls emit(i, j, w_i S_{i+1} / S_0 / copies, number of the draw). S is the suffix sum, `drawn` the number of the first draw.
// The last edge draws nothing. Returns the number of samples whose weight underflowed to zero.
template <class Emit>
MS_HD inline long long draw_later(const Edge* e, long long i, long long d, const double* suffix, unsigned long long stream,
                                  unsigned long long drawn, int most, Emit&& emit) {
  if (i + 1 >= d) return 0;
  const int copies = draws(e[i], most);
  const double rest = suffix[i + 1], w = e[i].w * (rest / suffix[0]) / copies;
  if (!(w > 0)) return copies;
  for (int c = 0; c < copies; ++c, ++drawn) emit(i, draw(suffix, i, d, uniform(stream, drawn) * rest), w, drawn);
  return 0;
}

// The same with neighbors instead of edge indices, emit(a, b, w, draw). The copies must be limited already.
template <class Emit>
MS_HD inline long long sample_edge(const Edge* e, long long i, long long d, const double* suffix, unsigned long long stream,
                                   unsigned long long drawn, Emit&& emit) {
  return draw_later(e, i, d, suffix, stream, drawn, e[i].copies,
                    [&](long long a, long long b, double w, unsigned long long draw) { emit(e[a].to, e[b].to, w, draw); });
}

// draw_later() for all edges: emit(i, j, w).
template <class Emit>
MS_HD inline long long sample_clique(const Edge* e, long long d, const double* suffix, unsigned long long stream, int most,
                                     Emit&& emit) {
  long long lost = 0;
  unsigned long long drawn = 0;
  for (long long i = 0; i + 1 < d; drawn += draws(e[i++], most))
    lost += draw_later(e, i, d, suffix, stream, drawn, most,
                       [&](long long a, long long b, double w, unsigned long long) { emit(a, b, w); });
  return lost;
}

}  // namespace ms::parac
