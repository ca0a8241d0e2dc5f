// Choice of the next pivot in a symmetric indefinite front, shared by the dense kernels of the host and the CUDA kernels. Source:
// threshold tests of Duff and Reid 1983 ("The multifrontal solution of indefinite sparse symmetric linear equations", section 3),
// guarded against cancellation as in Hogg, Ovtchinnikov, Scott 2016 (SSIDS), section 3.1. All functions are members of a template
// on the caller's type, so each instruction set has its own code. No std header, see dense.inl.
#pragma once

namespace ms {

enum class LdlStep {
  none,                          // no acceptable pivot in this column
  zero,                          // the column and its pivot are zero
  overflow,                      // the column has an entry that is not finite
  single,
  swapped,                       // column r as 1x1 pivot, before column k
  pair                           // columns k and r as 2x2 pivot
};

// Pivots of the scaled matrix below this size are compared with rounding errors after the factorization.
template <class T> struct SmallPivot {
  static constexpr T size = sizeof(T) == 8 ? T(1e-5) : T(1e-2);
};

// Block has `at(i, j)` and three functions that return the largest absolute value off the diagonal:
//   survey(k, r)          of column k below its diagonal; sets r to the row of the largest one within the block, or to k, if the diagonal
//                         is not accepted at once;
//   survey_partner(k, r)  of row and column r without row k;
//   without(k, r)         of column k without row r, called after survey_partner.
// They may ignore NaN, which reaches the diagonal with the pivot of its column. `holds_nan(k)`, of column k below its diagonal,
// is called only for a column that seems to be zero.
template <class T, class Block>
struct LdlChoice {
  static constexpr double prompt = 0.1;      // smallest diagonal entry, relative to its column, accepted at once
  const Block& f;
  const T threshold, tiny;                   // LdlRule in ldl.hpp

  static T absolute(T x) { return x < 0 ? -x : x; }
  static bool is_finite(T x) { return x - x == 0; }
  static bool accepts_at_once(T own, T most) { return own >= static_cast<T>(prompt) * most; }

  // The determinant of the pivot [a b; b c] over b.
  static T scaled_determinant(T a, T b, T c) { return (a / b) * c - b; }

  template <class Index>
  bool acceptable_pair(Index k, Index r, T partner) const {
    const T a = f.at(k, k), b = f.at(r, k), c = f.at(r, r);
    const T scaled = scaled_determinant(a, b, c), product = absolute((a / b) * c);
    const T least = product > absolute(b) ? product : absolute(b);
    if (!(absolute(scaled) > least / 2)) return false;               // cancellation: the pair is nearly singular
    const T bound = absolute(scaled) * absolute(b) / threshold, own = f.without(k, r);
    return absolute(c) * own + absolute(b) * partner <= bound && absolute(b) * own + absolute(a) * partner <= bound;
  }

  template <class Index>
  LdlStep at_column(Index k, Index& r) const {
    const T most = f.survey(k, r), own = absolute(f.at(k, k));
    if (!is_finite(own) || !is_finite(most)) return LdlStep::overflow;
    if (own <= tiny && most <= tiny) return f.holds_nan(k) ? LdlStep::overflow : LdlStep::zero;
    if (accepts_at_once(own, most)) return LdlStep::single;
    if (r > k) {
      const T partner = f.survey_partner(k, r), shared = absolute(f.at(r, k)), other = absolute(f.at(r, r));
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
