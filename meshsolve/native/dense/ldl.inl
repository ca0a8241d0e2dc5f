// Pivoted elimination of a block of columns, compiled once per instruction set after dense.inl; see ldl.hpp.
// ldl_pivot.hpp chooses the pivots. Right-looking: O(m w^2). No std header may be included here.

namespace ms::ISA {
namespace {

template <class T> inline T absolute(T x) { return x < 0 ? -x : x; }

// The largest absolute value; NaN is ignored. Four vectors, because each maximum waits for the one before.
template <class T>
inline T greatest(Int n, const T* x) {
  constexpr int W = 16 / static_cast<int>(sizeof(T)), most_vectors = 4;
  typedef typename Vec<T, W>::type V;
  V most[most_vectors] = {};
  const auto raise = [](V& to, V v) {
    v = v < 0 ? -v : v;
    to = v > to ? v : to;
  };
  Int i = 0;
  for (; i + most_vectors * W <= n; i += most_vectors * W)
#pragma GCC unroll 4
    for (int c = 0; c < most_vectors; ++c) raise(most[c], load<W>(x + i + c * W));
  for (; i + W <= n; i += W) raise(most[0], load<W>(x + i));
  raise(most[0], most[1]);
  raise(most[2], most[3]);
  raise(most[0], most[2]);
  T all = 0;
  for (int c = 0; c < W; ++c) all = most[0][c] > all ? most[0][c] : all;
  for (; i < n; ++i) {
    const T v = absolute(x[i]);
    all = v > all ? v : all;
  }
  return all;
}

template <class T>
struct LdlBlock {
  const Int m, w;
  T* const A;
  const Int lda;
  T* const W;
  const Int ldw;
  int* const order;
  T *const d, *const e;
  const T threshold, tiny;
  Int k = 0;                                // pivots so far

  T& at(Int i, Int j) const { return A[i + j * lda]; }
  T& product(Int i, Int j) const { return W[i + j * ldw]; }

  // Exchanges rows and columns i < j, and rows i and j of the pivot columns before them.
  void exchange(Int i, Int j) const {
    if (i == j) return;
    const auto swap = [](T& x, T& y) { const T t = x; x = y; y = t; };
    for (Int c = 0; c < i; ++c) swap(at(i, c), at(j, c));
    for (Int c = 0; c < k; ++c) swap(product(i, c), product(j, c));
    swap(at(i, i), at(j, j));
    for (Int t = i + 1; t < j; ++t) swap(at(t, i), at(j, t));
    for (Int t = j + 1; t < m; ++t) swap(at(t, i), at(t, j));
    const int name = order[i];
    order[i] = order[j];
    order[j] = name;
  }

  // Largest absolute value of column c below its diagonal. Unless the diagonal is accepted at once, `row` becomes the largest one's row
  // within the block, or c.
  T survey(Int c, Int& row) const {
    const T most = greatest(m - c - 1, &at(0, c) + c + 1);
    row = c;
    if (LdlChoice<T, LdlBlock>::accepts_at_once(absolute(at(c, c)), most)) return most;
    T found = 0;
    for (Int i = c + 1; i < w; ++i)
      if (const T v = absolute(at(i, c)); v > found) {
        found = v;
        row = i;
      }
    return most;
  }

  // Largest absolute value off the diagonal of column r > c, without row c.
  T survey_partner(Int c, Int r) const {
    T most = greatest(m - r - 1, &at(0, r) + r + 1);
    for (Int t = c + 1; t < r; ++t)
      if (const T v = absolute(at(r, t)); v > most) most = v;
    return most;
  }

  // Largest absolute value of column c below its diagonal, without row r.
  T without(Int c, Int r) const {
    const T above = greatest(r - c - 1, &at(0, c) + c + 1), below = greatest(m - r - 1, &at(0, c) + r + 1);
    return above > below ? above : below;
  }

  bool holds_nan(Int c) const {
    for (Int i = c + 1; i < m; ++i)
      if (at(i, c) != at(i, c)) return true;
    return false;
  }

  void zero() {
    for (Int i = k + 1; i < m; ++i) at(i, k) = product(i, k) = 0;
    d[k] = e[k] = 0;
    at(k, k) = 1;
    ++k;
  }

  void single() {
    const T pivot = at(k, k), inverse = 1 / pivot;
    T* __restrict const l = &at(0, k);
    T* __restrict const y = &product(0, k);
    for (Int i = k + 1; i < m; ++i) {
      y[i] = l[i];
      l[i] *= inverse;
    }
    for (Int j = k + 1; j < w; ++j) {
      T* __restrict const x = &at(0, j);
      const T f = y[j];
      for (Int i = j; i < m; ++i) x[i] -= f * l[i];
    }
    d[k] = pivot;
    e[k] = 0;
    l[k] = 1;
    ++k;
  }

  void pair() {
    const T a = at(k, k), b = at(k + 1, k), c = at(k + 1, k + 1);
    const T scaled = LdlChoice<T, LdlBlock>::scaled_determinant(a, b, c), p = c / b / scaled, q = 1 / scaled, r = a / b / scaled;       // D^-1 = [p -q; -q r]
    T* __restrict const l0 = &at(0, k);
    T* __restrict const l1 = &at(0, k + 1);
    T* __restrict const y0 = &product(0, k);
    T* __restrict const y1 = &product(0, k + 1);
    for (Int i = k + 2; i < m; ++i) {
      const T x = l0[i], y = l1[i];
      y0[i] = x;
      y1[i] = y;
      l0[i] = p * x - q * y;
      l1[i] = r * y - q * x;
    }
    for (Int j = k + 2; j < w; ++j) {
      T* __restrict const x = &at(0, j);
      const T f = y0[j], g = y1[j];
      for (Int i = j; i < m; ++i) x[i] -= f * l0[i] + g * l1[i];
    }
    d[k] = a;
    d[k + 1] = c;
    e[k] = b;
    e[k + 1] = 0;
    l0[k] = l1[k + 1] = 1;
    l0[k + 1] = 0;
    k += 2;
  }

  // One elimination step at column k, unless it has no acceptable pivot or is not finite.
  LdlStep step() {
    Int r = k;
    const LdlStep found = LdlChoice<T, LdlBlock>{*this, threshold, tiny}.at_column(k, r);
    if (found == LdlStep::none || found == LdlStep::overflow) return found;
    if (found == LdlStep::zero) return zero(), found;
    if (found == LdlStep::pair) {
      exchange(k + 1, r);
      return pair(), found;
    }
    if (found == LdlStep::swapped) exchange(k, r);
    return single(), found;
  }

  // Columns without an acceptable pivot move to the end, and are tried again after other columns have been eliminated.
  Int run() {
    for (Int c = 0; c < w; ++c) order[c] = static_cast<int>(c);
    for (Int before = -1; before < k && k < w;) {
      before = k;
      for (Int end = w; k < end;) {
        const LdlStep found = step();
        if (found == LdlStep::overflow) return ~k;
        if (found == LdlStep::none) exchange(k, --end);
      }
    }
    return k;
  }
};

template <class T>
Int eliminate(Int m, Int w, T* A, Int lda, T* W, Int ldw, int* order, T* d, T* e, const LdlRule& rule) {
  return LdlBlock<T>{m, w, A, lda, W, ldw, order, d, e, static_cast<T>(rule.threshold), static_cast<T>(rule.tiny)}.run();
}

}  // namespace

extern const DenseLdl<double> ldl_double;
extern const DenseLdl<float> ldl_float;
const DenseLdl<double> ldl_double{eliminate<double>};
const DenseLdl<float> ldl_float{eliminate<float>};

}  // namespace ms::ISA
