// The weighted graph of a symmetric matrix with nonnegative row sums, and its breadth-first renumbering. Cost: O(nnz). One thread
// needs one sweep. Several threads need two if edges are written: the first one counts the edges of each piece of rows.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "parac.hpp"

namespace ms::parac {
namespace {

constexpr double eps = 2.220446049250313e-16;
constexpr double rounding = 1e-10;       // relative to the sum of absolute values: a row sum above -rounding counts as zero

struct Row {
  double sum = 0, abs_sum = 0;           // of the entries, of their absolute values
  int64_t negative = 0, positive = 0;    // numbers of off-diagonal entries by sign
};

Row read_row(const Pattern& A, const double* x, int32_t i) {
  Row r;
  for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
    r.sum += x[p];
    r.abs_sum += std::abs(x[p]);
    const int off_diagonal = A.idx[p] != i;   // no branch: the position of the diagonal is hard to predict
    r.negative += off_diagonal & (x[p] < 0);
    r.positive += off_diagonal & (x[p] > 0);
  }
  return r;
}

// Smallest weight of an edge when one of its ends is eliminated: a thousandth of the median weight. Edges of negative weight
// (positive entries) stay in the graph until then, because earlier pivots sample edges that compensate them. Example: the long
// edge of a sliver triangle has the weight -K, and eliminating the vertex of its two short edges adds +K.
double floor_weight(const Pattern& A, const double* x) {
  std::vector<double> w;
  for (int32_t i = 0; i < A.n; ++i)
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p)
      if (A.idx[p] != i && x[p] < 0) w.push_back(-x[p]);
  if (w.empty()) return 1;
  std::nth_element(w.begin(), w.begin() + w.size() / 2, w.end());
  return 1e-3 * w[w.size() / 2];
}

// Writes the edges again, including the positive entries, which are rare.
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

// Copies rows old[k .. end) in this order, with their old column numbers. Rows and numbers of neighbors are scattered in memory:
// each step prefetches the data of the next one.
void copy_rows(const Graph& g, const int32_t* old, int32_t k, int32_t end, const std::vector<int32_t>& renumbered, Graph& next) {
  for (int32_t i = k; i < end; ++i) {
    const int64_t p = g.ptr[old[i]], length = g.ptr[old[i] + 1] - p;
    next.ptr[i + 1] = next.ptr[i] + length;
    fetch(g.to.data() + p);
    fetch(g.w.data() + p);
    fetch(g.w.data() + p + length);
  }
  for (int32_t i = k; i < end; ++i) {
    const int64_t from = g.ptr[old[i]] - next.ptr[i];
    for (int64_t p = next.ptr[i]; p < next.ptr[i + 1]; ++p) {
      next.to[p] = g.to[from + p];
      next.w[p] = g.w[from + p];
      fetch(&renumbered[next.to[p]]);
    }
  }
}

}  // namespace

bool is_scattered(const Graph& g, int64_t apart, int threads) {
  std::atomic<int64_t> sum{0};
  for_range(threads, g.n, kGrain, [&](int64_t from, int64_t to, int) {
    int64_t part = 0;
    for (int64_t v = from; v < to; ++v)
      for (int64_t p = g.ptr[v]; p < g.ptr[v + 1]; ++p) part += std::abs(g.to[p] - v);
    sum += part;
  });
  return sum > apart * g.ptr[g.n];
}

void gather_neighbors(Graph& g) {
  Graph next;
  next.ptr.resize(g.ptr.size());
  next.ptr[0] = 0;
  next.to.resize(g.to.size());
  next.w.resize(g.w.size());
  std::vector<int32_t> renumbered(g.n, -1), old(g.n + int64_t{1});        // one more entry, written for vertices that are not new
  int32_t known = 0;
  for (int32_t k = 0, root = 0; k < g.n;) {
    if (k == known) {                                   // a new component
      while (renumbered[root] >= 0) ++root;
      renumbered[root] = known;
      old[known++] = root;
    }
    const int32_t end = std::min(known, k + kBlock);
    copy_rows(g, old.data(), k, end, renumbered, next);
    for (int64_t p = next.ptr[k]; p < next.ptr[end]; ++p) {
      int32_t& to = renumbered[next.to[p]];
      old[known] = next.to[p];
      const bool is_new = to < 0;
      to = is_new ? known : to;
      known += is_new;
      next.to[p] = to;
    }
    k = end;
  }
  if (!g.ground.empty())
    for (int32_t k = 0; k < g.n; ++k) next.ground.push_back(g.ground[old[k]]);
  g.ptr.swap(next.ptr);
  g.to.swap(next.to);
  g.w.swap(next.w);
  g.ground.swap(next.ground);
  old.resize(g.n);
  g.origin = std::move(old);
}

namespace {

struct Rows {                            // results for a piece of the rows, as in Graph
  int64_t edges = 0, most = 0, floored = 0;
  std::vector<double> ground;            // of all rows of the piece; empty if there are no edges to the ground
  int32_t bad_row = -1;
  double excess = 0;
};

int64_t count_edges(const Pattern& A, const double* x, int64_t from, int64_t to) {
  int64_t edges = 0;
  for (int64_t i = from; i < to; ++i)
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) edges += A.idx[p] != i && x[p] < 0;
  return edges;
}

// Writes the edges of row i to the positions [next, end) of the graph.
void write_edges(const Pattern& A, const double* x, int32_t i, int64_t next, int64_t end, Graph& g) {
  g.ptr[i] = next;
  for (int64_t p = A.ptr[i]; next < end; ++p) {        // positions from `end` on may belong to another thread
    g.to[next] = A.idx[p];
    g.w[next] = -x[p];
    next += A.idx[p] != i && x[p] < 0;
  }
}

// Reads the rows [from, to), up to the first with a negative sum. Writes their edges, from position `start` of the graph on, if
// the graph stores edges.
void read_rows(const Pattern& A, const double* x, int64_t from, int64_t to, int64_t start, Graph& g, Rows& found) {
  for (int32_t i = static_cast<int32_t>(from); i < to; ++i) {
    const Row row = read_row(A, x, i);
    const double noise = 4 * static_cast<double>(A.degree(i) + 1) * eps * row.abs_sum;
    if (row.sum < -std::max(noise, rounding * row.abs_sum) || !std::isfinite(row.abs_sum)) {
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
  const int64_t piece = threads > 1 ? kGrain : A.n, pieces = (A.n + piece - 1) / piece;
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
