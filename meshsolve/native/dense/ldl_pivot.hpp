// The choice of the next pivot in a symmetric indefinite front, which the dense kernels of the CPU and the CUDA kernels share.
// Source: threshold tests of Duff and Reid 1983 ("The multifrontal solution of indefinite sparse symmetric linear equations",
// section 3), guarded against cancellation as in Hogg, Ovtchinnikov, Scott 2016 (SSIDS), section 3.1.
// Everything is a member of a template of the caller's type: each instruction set has code of its own. No std header: dense.inl.
#pragma once

namespace ms {

enum class LdlStep {
  none,                          // no acceptable pivot in this column
  zero,                          // the column is zero: so is its pivot
  overflow,                      // the column holds what is not finite
  single,
  swapped,                       // column r as a pivot of its own, ahead of column k
  pair                           // columns k and r
};

// Pivots of the scaled matrix below this size are compared with rounding errors when all is eliminated.
template <class T> struct SmallPivot {
  static constexpr T size = sizeof(T) == 8 ? T(1e-5) : T(1e-2);
};

// The block has `at(i, j)`, and the largest moduli off the diagonal: `survey(k, r)` of column k below its diagonal, r the row in
// the block that has its largest, or k where there is none; `survey_partner(k, r)` of row and column r without row k;
// `without(k, r)` of column k without row r, asked for after survey_partner. They may leave out NaN, which spreads to the
// diagonal with the pivot of its column; only a column that seems to be zero is asked whether it `holds_nan(k)` below its diagonal.
template <class T, class Block>
struct LdlChoice {
  static constexpr double prompt = 0.1;      // a diagonal entry this large against its column is taken without another look
  const Block& f;
  const T threshold, tiny;                   // LdlRule in dense_ldl.hpp

  static T modulus(T x) { return x < 0 ? -x : x; }
  static bool is_finite(T x) { return x - x == 0; }

  // The determinant of the pivot [a b; b c] over b.
  static T scaled_determinant(T a, T b, T c) { return (a / b) * c - b; }

  template <class Index>
  bool acceptable_pair(Index k, Index r, T partner) const {
    const T a = f.at(k, k), b = f.at(r, k), c = f.at(r, r);
    const T scaled = scaled_determinant(a, b, c), product = modulus((a / b) * c);
    const T least = product > modulus(b) ? product : modulus(b);
    if (!(modulus(scaled) > least / 2)) return false;               // cancellation: the pair is nearly singular
    const T bound = modulus(scaled) * modulus(b) / threshold, own = f.without(k, r);
    return modulus(c) * own + modulus(b) * partner <= bound && modulus(b) * own + modulus(a) * partner <= bound;
  }

  template <class Index>
  LdlStep at_column(Index k, Index& r) const {
    const T most = f.survey(k, r), own = modulus(f.at(k, k));
    if (!is_finite(own) || !is_finite(most)) return LdlStep::overflow;
    if (own <= tiny && most <= tiny) return f.holds_nan(k) ? LdlStep::overflow : LdlStep::zero;
    if (own >= static_cast<T>(prompt) * most) return LdlStep::single;
    if (r > k) {
      const T partner = f.survey_partner(k, r), shared = modulus(f.at(r, k)), other = modulus(f.at(r, r));
      const bool may_swap = other >= threshold * (partner > shared ? partner : shared) && other > tiny;
      if (may_swap && other >= SmallPivot<T>::size && most < SmallPivot<T>::size) return LdlStep::swapped;      // column k may be zero in rounding
      if (acceptable_pair(k, r, partner)) return LdlStep::pair;
      if (own >= threshold * most) return LdlStep::single;
      return may_swap ? LdlStep::swapped : LdlStep::none;
    }
    return own >= threshold * most ? LdlStep::single : LdlStep::none;
  }
};

}  // namespace ms
