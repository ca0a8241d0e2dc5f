// Sweeps of small circuits: small signals over frequency, and operating points over the values of a source. Sources: Ho, Ruehli,
// Brennan 1975, "The modified nodal approach to network analysis"; continuation from point to point as in the SPICE3f3 manual, .dc.
// Cost of a point: one factorization on the pivot order of the first one, and O(entries); a few for each point of nonlinear circuits.
#pragma once
#include "equations.hpp"

namespace ms::circuit {

struct SmallSignals {               // (G + j w C) x = s, with the conductances and capacitances of the devices in G and C
  int32_t n;
  std::vector<int32_t> indptr, indices;
  Values g, c;                      // entries
  std::vector<Complex> s;
  std::vector<int64_t> keep;        // unknowns
};

// Writes the unknowns to keep at each of `count` angular frequencies to `out` (count x keep). Returns the points that are not solved:
// the matrix is singular, or a value is not finite. The same bits on any number of threads.
std::vector<int64_t> sweep_frequencies(const SmallSignals& system, const double* omega, int64_t count, Complex* out, int threads);

struct SourceSweep {                      // s = fixed + value * moving
  Values fixed;
  std::vector<std::pair<int32_t, double>> moving;      // rows and factors
  std::vector<int64_t> keep;
};

// Writes the unknowns to keep at each value of a source to `out` (count x keep). `x` is the solution at the first value. Newton's
// method starts from the line through the two points before, then from the point before; `at_rest` solves where both fail. Returns
// the largest absolute current of a device branch, in ampere.
double sweep_source(const SourceSweep& sweep, SmallEquations& equations, Equations& at_rest, Values x, const double* values, int64_t count,
                    double* out);

}  // namespace ms::circuit
