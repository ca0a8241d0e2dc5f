// Rotations of one column of a factor with the columns of a matrix that is added to A. Included after dense.inl, under its rules.
// Source: Gill, Golub, Murray and Saunders 1974, method C1.

namespace ms::ISA {
namespace {

// For q = 0 .. K-1 in turn: x := r[0] x + r[1] v, then v := r[2] v + r[3] x, four numbers r and a column v for each q.
template <int K, class T>
inline void rotate_together(Int m, const T* r, T* x, T* const* v) {
  constexpr int W = lanes<T>;
  T* column[K];
  for (int q = 0; q < K; ++q) column[q] = v[q];
  Int i = 0;
  for (; i + W <= m; i += W) {
    typename Vec<T, W>::type y = load<W>(x + i);
#pragma GCC unroll 4
    for (int q = 0; q < K; ++q) {
      const typename Vec<T, W>::type u = load<W>(column[q] + i);
      y = r[4 * q] * y + r[4 * q + 1] * u;
      store<W>(column[q] + i, r[4 * q + 2] * u + r[4 * q + 3] * y);
    }
    store<W>(x + i, y);
  }
  for (; i < m; ++i)
    for (int q = 0; q < K; ++q) {
      T& u = column[q][i];
      x[i] = r[4 * q] * x[i] + r[4 * q + 1] * u;
      u = r[4 * q + 2] * u + r[4 * q + 3] * x[i];
    }
}

template <class T>
void rotate(Int m, Int k, const T* r, T* x, T* const* v) {
  Int q = 0;
  for (; q + 4 <= k; q += 4) rotate_together<4>(m, r + 4 * q, x, v + q);
  for (; q + 2 <= k; q += 2) rotate_together<2>(m, r + 4 * q, x, v + q);
  if (q < k) rotate_together<1>(m, r + 4 * q, x, v + q);
}

}  // namespace
}  // namespace ms::ISA
