// Rotations of one column of a factor with the columns of an update matrix C: the factor of A + C C^T or A - C C^T. Included
// after dense.inl, under the same rules. Sources: Gill, Golub, Murray and Saunders 1974, method C1; for hyperbolic ones
// Bojanczyk, Brent, van Dooren and de Hoog 1987.

namespace ms::ISA {
namespace {

// For q = 0 .. K-1 in turn, with four numbers r and a column v for each: x := r[0] x + r[1] v, and v := r[2] v + r[3] x. A
// hyperbolic rotation uses the new x, any other the old x. Each is stable in this form alone.
template <bool hyperbolic, int K, class T>
inline void rotate_together(Int m, const T* r, T* x, T* const* v) {
  constexpr int W = lanes<T>;
  T* column[K];
  for (int q = 0; q < K; ++q) column[q] = v[q];
  Int i = 0;
  for (; i + W <= m; i += W) {
    typename Vec<T, W>::type y = load<W>(x + i);
#pragma GCC unroll 4
    for (int q = 0; q < K; ++q) {
      const typename Vec<T, W>::type u = load<W>(column[q] + i), before = y;
      y = r[4 * q] * y + r[4 * q + 1] * u;
      store<W>(column[q] + i, r[4 * q + 2] * u + r[4 * q + 3] * (hyperbolic ? y : before));
    }
    store<W>(x + i, y);
  }
  for (; i < m; ++i)
    for (int q = 0; q < K; ++q) {
      const T u = column[q][i], before = x[i];
      x[i] = r[4 * q] * before + r[4 * q + 1] * u;
      column[q][i] = r[4 * q + 2] * u + r[4 * q + 3] * (hyperbolic ? x[i] : before);
    }
}

template <bool hyperbolic, class T>
void rotate(Int m, Int k, const T* r, T* x, T* const* v) {
  Int q = 0;
  for (; q + 4 <= k; q += 4) rotate_together<hyperbolic, 4>(m, r + 4 * q, x, v + q);
  for (; q + 2 <= k; q += 2) rotate_together<hyperbolic, 2>(m, r + 4 * q, x, v + q);
  if (q < k) rotate_together<hyperbolic, 1>(m, r + 4 * q, x, v + q);
}

template <class T>
constexpr Dense<T> kernels(const char* isa) {
  return {gemm_lower<T>, gemm_lower_overwrite<T>, panel<T>, trsm_rlt<T>, extend_add<T>, rotate<false, T>, rotate<true, T>, isa};
}

}  // namespace

extern const Dense<double> dense_double;
extern const Dense<float> dense_float;
const Dense<double> dense_double = kernels<double>(ISA_NAME);
const Dense<float> dense_float = kernels<float>(ISA_NAME);

}  // namespace ms::ISA
