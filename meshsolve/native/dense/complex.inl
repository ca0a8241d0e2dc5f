// Vectors of complex numbers for the register tiles of dense.inl, which is included before this file.
// A vector has W numbers, interleaved as in memory. A product with a number y takes two multiplications: of the vector by the
// real part, and of i times the vector by the imaginary part. All products with one vector share i times the vector.

namespace ms::ISA {
namespace {

template <int W>
struct __attribute__((may_alias)) ComplexVector {
  typedef double V __attribute__((vector_size(W * sizeof(Complex)), aligned(sizeof(double)), may_alias));
  V v;
};
template <int W> struct Vec<Complex, W> { typedef ComplexVector<W> type; };
template <> struct Vec<Complex, 1> { typedef Complex type; };

#if defined(__clang__)
#define MS_SHUFFLE(v, I, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define MS_SHUFFLE(v, I, ...) __builtin_shuffle(v, I{__VA_ARGS__})
#endif

// Permutes the parts (re, im) = (0, 1) of each number to (first, second).
template <int first, int second, int W>
inline __attribute__((always_inline)) typename ComplexVector<W>::V parts(typename ComplexVector<W>::V v) {
  typedef typename ComplexVector<W>::V V;
  typedef long long I __attribute__((vector_size(sizeof(V))));
  constexpr int a = first, b = second;
  static_assert(W == 1 || W == 2 || W == 4);
  if constexpr (W == 1)
    return MS_SHUFFLE(v, I, a, b);
  else if constexpr (W == 2)
    return MS_SHUFFLE(v, I, a, b, 2 + a, 2 + b);
  else
    return MS_SHUFFLE(v, I, a, b, 2 + a, 2 + b, 4 + a, 4 + b, 6 + a, 6 + b);
}
#undef MS_SHUFFLE

// (-im, re) of each number: the product with i.
template <int W>
inline __attribute__((always_inline)) typename ComplexVector<W>::V turned(typename ComplexVector<W>::V v) {
  typename ComplexVector<W>::V sign;
  for (int l = 0; l < 2 * W; l += 2) sign[l] = -1, sign[l + 1] = 1;
  return parts<1, 0, W>(v) * sign;
}

template <int W> struct ComplexProduct {
  ComplexVector<W> a;
  Complex y;
};
template <int W> inline __attribute__((always_inline)) ComplexProduct<W> operator*(ComplexVector<W> a, Complex y) { return {a, y}; }
template <int W> inline __attribute__((always_inline)) void operator-=(ComplexVector<W>& c, ComplexProduct<W> p) {
  c.v -= p.a.v * p.y.re;
  c.v -= turned<W>(p.a.v) * p.y.im;
}
template <int W> inline __attribute__((always_inline)) void operator+=(ComplexVector<W>& c, ComplexProduct<W> p) {
  c.v += p.a.v * p.y.re;
  c.v += turned<W>(p.a.v) * p.y.im;
}
template <int W> inline __attribute__((always_inline)) void operator*=(ComplexVector<W>& c, Complex y) {
  c.v = c.v * y.re + turned<W>(c.v) * y.im;
}
template <int W> inline __attribute__((always_inline)) ComplexVector<W> operator+(ComplexVector<W> a, ComplexVector<W> b) {
  return {a.v + b.v};
}
template <int W> inline __attribute__((always_inline)) void operator+=(ComplexVector<W>& a, ComplexVector<W> b) { a.v += b.v; }
template <int W> inline __attribute__((always_inline)) void operator-=(ComplexVector<W>& a, ComplexVector<W> b) { a.v -= b.v; }

}  // namespace
}  // namespace ms::ISA
