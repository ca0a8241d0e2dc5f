// One front of the complete factorization on the GPU: storage, assembly, elimination.
//
// Host counterparts: front.cpp and native/dense/ldl.inl, with the same choice of pivots (ldl_pivot.hpp) and of the columns to try
// (search.hpp). The rows of a front are in the order: its own pivots, the delayed columns of its children, the rows below. A
// group is a warp or a thread block. Each thread of it computes all decisions, so no thread waits for another.
#pragma once
#include "factor/fronts/fronts.cuh"
#include "factor/ldlt/search.hpp"
#include "native/dense/ldl_pivot.hpp"

namespace ms::ldlt {

using fronts::Block;
using fronts::Front;
using fronts::Warp;

struct Location {                          // one row of the table that fronts_cuda.py makes; offsets are in scalars
  long long panel, leading;             // in `panels`, or in `late` if there are delayed columns; column-major
  long long slot;                       // position of its columns in names, d and e
  long long columns;                    // number of columns: its own, then the delayed columns of its children
};

struct Rule {
  double threshold, tiny;               // LdlRule in dense_ldl.hpp
};

// Smallest column that is not finite; numbers of delayed columns and of finished large fronts. Those after them are of k_survey:
// pivots that are small, 1x1 pivots that are doubtful, positive, negative and zero eigenvalues of D, 2x2 pivots.
enum Flag { failed, delayed, finished, small_pivots, doubtful_pivots, positive, negative, zeros, pairs };

template <class T> struct Tree {
  fronts::Tree<T> planned;
  const Location* locations;
  T* late;
  int* names;                           // new number of each column
  T *d, *e;                             // D: its diagonal, and below it (0: none)
  int *pivots, *flags;                  // pivots: eliminated columns of each front
};

template <class T> struct View {
  const Front f;
  const Location at;
  T* const panel;
  const long long leading;
  const int own, columns, received, updates, height;
  int* const name;
  T *const d, *const e;

  __device__ View(const Tree<T>& t, int s)
      : f(t.planned.fronts[s]), at(t.locations[s]), panel((at.columns > f.pivots ? t.late : t.planned.panels) + at.panel),
        leading(at.leading), own(static_cast<int>(f.pivots)), columns(static_cast<int>(at.columns)), received(columns - own),
        updates(f.updates()), height(columns + updates), name(t.names + at.slot), d(t.d + at.slot), e(t.e + at.slot) {}

  // Row of the front for a row number that does not count delayed columns.
  __device__ int row(int planned) const { return planned < own ? planned : planned + received; }
};

// ---- assembly

// Copies the delayed columns of child c, which follow its `done` pivots, to the columns from `base` on. Their rows below may be
// pivots of the front. Such an entry is stored in the column of the pivot, which comes first. Writes only the columns [from, to).
template <class T, class Group, class At>
__device__ __forceinline__ void take_delayed(const View<T>& v, const View<T>& c, const int* relative, int done, int base,
                                             const Group& g, int from, int to, At at) {
  const int count = c.columns - done, below = lower_bound(relative, c.updates, v.own);
  for (int r = lower_bound(relative, c.updates, from) + g.warp; r < below && relative[r] < to; r += g.warps)
    for (int q = g.lane; q < count; q += 32) *at(base + q, relative[r]) = c.panel[c.columns + r + (done + q) * c.leading];
  for (int q = max(0, from - base) + g.warp; q < min(count, to - base); q += g.warps) {
    const T* const column = c.panel + (done + q) * c.leading;
    for (int r = q + g.lane; r < count; r += 32) *at(base + r, base + q) = column[done + r];
    for (int r = below + g.lane; r < c.updates; r += 32) *at(relative[r] + v.received, base + q) = column[c.columns + r];
    if (g.lane == 0) v.name[base + q] = c.name[done + q];
  }
}

// Assembles the entries of A and of the children in the cleared columns [from, to) of a panel; at(i, j) points to an entry.
template <class T, class Group, class At>
__device__ __forceinline__ void assemble_panel(const Tree<T>& t, const View<T>& v, const Group& g, int from, int to, At at) {
  const int end = min(to, v.own);
  const auto planned = [&](int i, int j) { return at(v.row(i), j); };
  for (int j = from + g.rank; j < end; j += g.size) v.name[j] = static_cast<int>(v.f.first) + j;
  if (from < end) {
    fronts::add_entries(t.planned, v.f, g, from, end, planned);
    fronts::add_children(t.planned, v.f, g, from, end, planned);
  }
  int base = v.own;
  for (long long q = v.f.child_begin; q < v.f.child_end && v.received > 0; ++q) {
    const int child = t.planned.child[q];
    const View<T> c(t, child);
    const int done = t.pivots[child];
    take_delayed(v, c, t.planned.relative + c.f.rows, done, base, g, from, to, at);
    base += c.columns - done;
  }
  g.sync();
}

// ---- largest entries, returned in every thread of a group

template <class T> struct Peak {
  T most;                               // largest absolute value
  int row;                              // first row with it
  T rest;                               // largest absolute value of another set
  __device__ void join(T other, int its) {
    if (other > most || (other == most && other > 0 && its < row)) {
      most = other;
      row = its;
    }
  }
  __device__ void in_warp() {
    for (int step = 16; step > 0; step /= 2) {
      const T other = __shfl_xor_sync(full_warp, most, step), others = __shfl_xor_sync(full_warp, rest, step);
      const int its = __shfl_xor_sync(full_warp, row, step);
      join(other, its);
      if (others > rest) rest = others;
    }
  }
};

template <class T> __device__ __forceinline__ Peak<T> peak_of(const Warp&, Peak<T> p, int) {
  p.in_warp();
  return p;
}

// At most 16 warps. One barrier: the next call must use the other `turn` of the shared memory, or follow another barrier.
template <class T> __device__ __forceinline__ Peak<T> peak_of(const Block& g, Peak<T> p, int turn) {
  __shared__ T mosts[32];
  __shared__ T rests[32];
  __shared__ int rows[32];
  p.in_warp();
  if (g.lane == 0) {
    mosts[16 * turn + g.warp] = p.most;
    rests[16 * turn + g.warp] = p.rest;
    rows[16 * turn + g.warp] = p.row;
  }
  g.sync();
  for (int k = 0; k < g.warps; ++k) {
    p.join(mosts[16 * turn + k], rows[16 * turn + k]);
    if (rests[16 * turn + k] > p.rest) p.rest = rests[16 * turn + k];
  }
  return p;
}

// ---- elimination

// L D L^T among the first w columns of m rows; host counterpart: LdlBlock in native/dense/ldl.inl. Row and column 0
// belong to the first column. `ahead` columns before it exchange rows at once. For the other columns, `order` returns the column
// at each position.
template <class T, class Group> struct PivotBlock {
  const Group& g;
  T* const a;
  const long long leading;
  const int m, w, ahead;
  int *const name, *const order;
  T *const d, *const e;
  int k = 0;
  mutable T rest = T(0);                // largest entry of column k without row r, from survey_partner

  __device__ T& at(int i, int j) const { return a[i + j * leading]; }
  __device__ static T magnitude(T x) { return x < 0 ? -x : x; }

  __device__ T survey(int c, int& row) const {
    Peak<T> p{T(0), c, T(0)};
    for (int i = c + 1 + g.rank; i < m; i += g.size) {
      const T x = magnitude(at(i, c));
      if (i < w)
        p.join(x, i);
      else if (x > p.rest)
        p.rest = x;
    }
    p = peak_of(g, p, 0);
    row = p.row;
    return p.rest > p.most ? p.rest : p.most;
  }

  __device__ T survey_partner(int c, int r) const {
    Peak<T> p{T(0), c, T(0)};
    for (int i = c + 1 + g.rank; i < m; i += g.size) {
      if (i == r) continue;
      const T x = magnitude(i > r ? at(i, r) : at(r, i)), own = magnitude(at(i, c));
      if (x > p.most) p.most = x;
      if (own > p.rest) p.rest = own;
    }
    p = peak_of(g, p, 1);
    rest = p.rest;
    return p.most;
  }

  __device__ T without(int, int) const { return rest; }

  __device__ bool holds_nan(int c) const {
    Peak<T> p{T(0), c, T(0)};
    for (int i = c + 1 + g.rank; i < m; i += g.size)
      if (at(i, c) != at(i, c)) p.most = T(1);
    return peak_of(g, p, 1).most > T(0);
  }

  __device__ static void swap(T& x, T& y) {
    const T kept = x;
    x = y;
    y = kept;
  }

  // Exchanges rows and columns i < j.
  __device__ void exchange(int i, int j) const {
    if (i == j) return;
    for (int c = g.rank - ahead; c < i; c += g.size) swap(at(i, c), at(j, c));
    for (int r = i + 1 + g.rank; r < m; r += g.size)
      if (r != j) swap(at(r, i), r < j ? at(j, r) : at(r, j));
    if (g.rank == 0) {
      swap(at(i, i), at(j, j));
      const int its = name[i];
      name[i] = name[j];
      name[j] = its;
      if (order) {
        const int position = order[i];
        order[i] = order[j];
        order[j] = position;
      }
    }
    g.sync();
  }

  // Subtracts the update of `width` pivots from k on from the later columns of the block. A warp has 32 rows and a part of the
  // columns. The entries of L in a row, computed by row(x, y) from those of A, stay in registers.
  template <int width, class Row> __device__ __forceinline__ void update(Row row) const {
    const int first = k + width, chunks = (m - first + 31) / 32, shares = chunks > 0 ? max(1, g.warps / chunks) : 1;
    for (int item = g.warp; item < chunks * shares; item += g.warps) {
      const int i = first + 32 * (item % chunks) + g.lane;
      if (i >= m) continue;
      T l[2] = {at(i, k), width == 2 ? at(i, k + 1) : T(0)};
      row(l[0], l[1]);
      for (int j = first + item / chunks; j < w && j <= i; j += shares)
        at(i, j) -= width == 2 ? at(j, k) * l[0] + at(j, k + 1) * l[1] : at(j, k) * l[0];
    }
    g.sync();                                               // the old columns have been read
    for (int i = first + g.rank; i < m; i += g.size) {
      T l[2] = {at(i, k), width == 2 ? at(i, k + 1) : T(0)};
      row(l[0], l[1]);
      at(i, k) = l[0];
      if (width == 2) at(i, k + 1) = l[1];
    }
  }

  __device__ void zero() {
    for (int i = k + 1 + g.rank; i < m; i += g.size) at(i, k) = T(0);
    if (g.rank == 0) {
      at(k, k) = T(1);
      d[k] = e[k] = T(0);
    }
    ++k;
  }

  __device__ void single() {
    const T pivot = at(k, k), inverse = T(1) / pivot;
    update<1>([&](T& x, T&) { x *= inverse; });
    if (g.rank == 0) {
      at(k, k) = T(1);
      d[k] = pivot;
      e[k] = T(0);
    }
    ++k;
  }

  __device__ void pair() {
    const T x = at(k, k), y = at(k + 1, k), z = at(k + 1, k + 1);
    const T scaled = LdlChoice<T, PivotBlock>::scaled_determinant(x, y, z);
    const T p = z / y / scaled, q = T(1) / scaled, r = x / y / scaled;       // D^-1 = [p -q; -q r]
    update<2>([&](T& u, T& v) {
      const T first = p * u - q * v;
      v = r * v - q * u;
      u = first;
    });
    if (g.rank == 0) {
      at(k, k) = at(k + 1, k + 1) = T(1);
      at(k + 1, k) = T(0);
      d[k] = x;
      d[k + 1] = z;
      e[k] = y;
      e[k + 1] = T(0);
    }
    k += 2;
  }

  // One step at column k, unless it has no acceptable pivot or is not finite.
  __device__ LdlStep step(const Rule& rule) {
    int r = k;
    const LdlChoice<T, PivotBlock> choice{*this, static_cast<T>(rule.threshold), static_cast<T>(rule.tiny)};
    const LdlStep found = choice.at_column(k, r);
    g.sync();                                               // the choice is read before the step writes
    if (found == LdlStep::none || found == LdlStep::overflow) return found;
    if (found == LdlStep::pair) exchange(k + 1, r);
    if (found == LdlStep::swapped) exchange(k, r);
    if (found == LdlStep::zero)
      zero();
    else if (found == LdlStep::pair)
      pair();
    else
      single();
    return found;
  }

  // Columns that fail move to the end, and are tried again after other columns have been eliminated. Returns the number k of
  // pivots, or ~k if column k is not finite.
  __device__ int run(const Rule& rule) {
    for (int c = g.rank; order && c < w; c += g.size) order[c] = c;
    bool finite = true;
    for (int before = -1; finite && before < k && k < w;) {
      before = k;
      for (int end = w; finite && k < end;) {
        const LdlStep found = step(rule);
        finite = found != LdlStep::overflow;
        if (found == LdlStep::none) exchange(k, --end);
      }
    }
    g.sync();
    return finite ? k : ~k;
  }
};

// (L D)(j, t) for pivot t of a front, from row j of its panel.
template <class T> __device__ __forceinline__ T weighted(const T* row, long long leading, const T* d, const T* e, int t) {
  T x = row[t * leading] * d[t];
  if (e[t] != T(0)) x += row[(t + 1) * leading] * e[t];
  if (t > 0 && e[t - 1] != T(0)) x += row[(t - 1) * leading] * e[t - 1];
  return x;
}

}  // namespace ms::ldlt
