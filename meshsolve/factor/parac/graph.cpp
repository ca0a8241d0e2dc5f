// From a symmetric matrix with non-negative row sums to the weighted graph that is factored. One sweep on one thread; two on
// more where edges are written: where those of a piece of the rows begin has to be counted first. O(nnz).
#include <algorithm>
#include <atomic>
#include <cmath>

#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "parac.hpp"

namespace ms::parac {
namespace {

constexpr double eps = 2.220446049250313e-16;
constexpr double rounding = 1e-10;       // of the sum of moduli: a row sum that is negative by less is zero

constexpr int32_t block = 32;            // rows that are fetched together
constexpr int64_t grain = 1 << 14;       // rows that a thread takes at a time

struct Row {
  double sum = 0, moduli = 0;
  int64_t negative = 0, positive = 0;    // off-diagonal entries by sign
};

Row look_at(const Pattern& A, const double* x, int32_t i) {
  Row r;
  for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
    r.sum += x[p];
    r.moduli += std::abs(x[p]);
    const int aside = A.idx[p] != i;          // no branch: where the diagonal stands is as good as random
    r.negative += aside & (x[p] < 0);
    r.positive += aside & (x[p] > 0);
  }
  return r;
}

// A thousandth of the median weight: the least that an edge weighs when one of its ends is eliminated. Edges of negative weight
// (positive entries) stay in the graph until then, because the pivots before that one sample edges which make up for them: the
// long edge of a sliver has the weight -K, and the two short ones, once their common vertex is gone, leave +K there.
double floor_weight(const Pattern& A, const double* x) {
  std::vector<double> w;
  for (int32_t i = 0; i < A.n; ++i)
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p)
      if (A.idx[p] != i && x[p] < 0) w.push_back(-x[p]);
  if (w.empty()) return 1;
  std::nth_element(w.begin(), w.begin() + w.size() / 2, w.end());
  return 1e-3 * w[w.size() / 2];
}

// The edges anew, with the positive entries, which are rare.
void add_negative_weights(Graph& g) {
  const Pattern& A = g.matrix;
  g.ptr[0] = 0;
  g.to.clear();
  g.w.clear();
  g.to.reserve(g.edges);
  g.w.reserve(g.edges);
  for (int32_t i = 0; i < g.n; ++i) {
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p)
      if (A.idx[p] != i && g.entries[p] != 0) {
        g.to.push_back(A.idx[p]);
        g.w.push_back(-g.entries[p]);
      }
    g.ptr[i + 1] = static_cast<int64_t>(g.to.size());
  }
}

// Rows met[k .. end) one after the other, with their old names. They lie anywhere, and so do the names of their neighbours: each
// step asks for what the next one reads.
void copy_rows(const Graph& g, const int32_t* met, int32_t k, int32_t end, const std::vector<int32_t>& name, Graph& next) {
  for (int32_t i = k; i < end; ++i) {
    const int64_t p = g.ptr[met[i]], length = g.ptr[met[i] + 1] - p;
    next.ptr[i + 1] = next.ptr[i] + length;
    fetch(g.to.data() + p);
    fetch(g.w.data() + p);
    fetch(g.w.data() + p + length);
  }
  for (int32_t i = k; i < end; ++i) {
    const int64_t from = g.ptr[met[i]] - next.ptr[i];
    for (int64_t p = next.ptr[i]; p < next.ptr[i + 1]; ++p) {
      next.to[p] = g.to[from + p];
      next.w[p] = g.w[from + p];
      fetch(&name[next.to[p]]);
    }
  }
}

}  // namespace

bool is_scattered(const Graph& g, int64_t apart, int threads) {
  std::atomic<int64_t> sum{0};
  for_range(threads, g.n, grain, [&](int64_t from, int64_t to, int) {
    int64_t here = 0;
    for (int64_t v = from; v < to; ++v)
      for (int64_t p = g.ptr[v]; p < g.ptr[v + 1]; ++p) here += std::abs(g.to[p] - v);
    sum += here;
  });
  return sum > apart * g.ptr[g.n];
}

void gather_neighbours(Graph& g) {
  Graph next;
  next.ptr.resize(g.ptr.size());
  next.ptr[0] = 0;
  next.to.resize(g.to.size());
  next.w.resize(g.w.size());
  std::vector<int32_t> name(g.n, -1), met(g.n + int64_t{1});        // one more, for a vertex that is not new
  int32_t known = 0;
  for (int32_t k = 0, root = 0; k < g.n;) {
    if (k == known) {                                   // a new component
      while (name[root] >= 0) ++root;
      name[root] = known;
      met[known++] = root;
    }
    const int32_t end = std::min(known, k + block);
    copy_rows(g, met.data(), k, end, name, next);
    for (int64_t p = next.ptr[k]; p < next.ptr[end]; ++p) {
      int32_t& to = name[next.to[p]];
      met[known] = next.to[p];
      const bool is_new = to < 0;
      to = is_new ? known : to;
      known += is_new;
      next.to[p] = to;
    }
    k = end;
  }
  if (!g.ground.empty())
    for (int32_t k = 0; k < g.n; ++k) next.ground.push_back(g.ground[met[k]]);
  g.ptr.swap(next.ptr);
  g.to.swap(next.to);
  g.w.swap(next.w);
  g.ground.swap(next.ground);
  met.resize(g.n);
  g.origin = std::move(met);
}

namespace {

struct Rows {                            // what was found in a piece of the rows
  int64_t edges = 0, most = 0, floored = 0;
  std::vector<double> ground;            // of all its rows, from the first that has some on
  int32_t bad_row = -1;
  double excess = 0;
};

int64_t count_edges(const Pattern& A, const double* x, int64_t from, int64_t to) {
  int64_t edges = 0;
  for (int64_t i = from; i < to; ++i)
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) edges += A.idx[p] != i && x[p] < 0;
  return edges;
}

// The edges of row i, from position `next` of the graph on.
void write_edges(const Pattern& A, const double* x, int32_t i, int64_t next, int64_t end, Graph& g) {
  g.ptr[i] = next;
  for (int64_t p = A.ptr[i]; next < end; ++p) {        // what is behind them may be another thread's
    g.to[next] = A.idx[p];
    g.w[next] = -x[p];
    next += A.idx[p] != i && x[p] < 0;
  }
}

// Looks at the rows [from, to) up to one that is no row of a Laplacian; writes their edges, from position `start` of the graph
// on, where it has room for any.
void read_rows(const Pattern& A, const double* x, int64_t from, int64_t to, int64_t start, Graph& g, Rows& found) {
  for (int32_t i = static_cast<int32_t>(from); i < to; ++i) {
    const Row row = look_at(A, x, i);
    const double noise = 4 * static_cast<double>(A.degree(i) + 1) * eps * row.moduli;
    if (row.sum < -std::max(noise, rounding * row.moduli) || !std::isfinite(row.moduli)) {
      found.bad_row = i;
      found.excess = row.sum;
      return;
    }
    if (row.sum > noise) {
      if (found.ground.empty()) found.ground.assign(to - from, 0);
      found.ground[i - from] = row.sum;
    }
    if (!g.ptr.empty()) write_edges(A, x, i, start + found.edges, start + found.edges + row.negative, g);
    found.edges += row.negative;
    found.floored += row.positive;
    found.most = std::max(found.most, row.negative + row.positive);
  }
}

}  // namespace

Graph graph_of(const Pattern& A, const double* x, Detail detail, int threads) {
  const bool with_edges = detail == Detail::edges;
  Graph g;
  g.n = A.n;
  g.matrix = A;
  g.entries = x;
  const int64_t piece = threads > 1 ? grain : A.n, pieces = (A.n + piece - 1) / piece;
  std::vector<int64_t> start(pieces + 1, 0);
  if (with_edges) {
    g.ptr.resize(A.n + int64_t{1});
    g.to.resize(A.nnz());
    g.w.resize(A.nnz());
    if (pieces > 1)
      for_range(threads, A.n, piece, [&](int64_t b, int64_t e, int) { start[b / piece + 1] = count_edges(A, x, b, e); });
    for (int64_t i = 0; i < pieces; ++i) start[i + 1] += start[i];
  }
  std::vector<Rows> found(pieces);
  for_range(threads, A.n, piece, [&](int64_t b, int64_t e, int) {
    read_rows(A, x, b, e, start[b / piece], g, found[b / piece]);
  });
  for (int64_t i = 0; i < pieces; ++i) {
    if (found[i].bad_row >= 0) {
      g.bad_row = found[i].bad_row;
      g.excess = found[i].excess;
      return g;
    }
    g.edges += found[i].edges;
    g.most = std::max(g.most, found[i].most);
    g.floored += found[i].floored;
    if (found[i].ground.empty()) continue;
    if (g.ground.empty()) g.ground.assign(A.n, 0);
    std::copy(found[i].ground.begin(), found[i].ground.end(), g.ground.begin() + i * piece);
  }
  if (with_edges) {
    g.ptr[A.n] = g.edges;
    g.to.resize(g.edges);
    g.w.resize(g.edges);
  }
  g.edges += g.floored;
  if (g.floored && detail != Detail::rows) g.floor = floor_weight(A, x);
  if (g.floored && with_edges) add_negative_weights(g);
  return g;
}

}  // namespace ms::parac
