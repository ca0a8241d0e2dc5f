// The junction diode: current, charge and their slopes at a voltage, and the limits of Newton's method.
// Source: Nagel 1975, "SPICE2: a computer program to simulate semiconductor circuits", appendix B (model) and section 4.3
// (limiting); high injection and the cubic reverse current as in SPICE3f5. O(1) per diode. All constants hold at the
// temperature of the diode.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ms::circuit {

struct Law {                      // of a junction at one voltage
  double current, conductance;    // A, S
  double charge, capacitance;     // C, F
};

struct Diode {
  double saturation;              // A
  double vt;                      // V, emission coefficient times k T / q
  double breakdown;               // V: beyond -breakdown the current grows exponentially; 1e100 where it never does
  double vt_breakdown;            // V, as vt
  double knee_forward;            // A: high injection begins there; infinity where it never does
  double knee_reverse;            // A
  double cjo, vj, m, fc;          // F, V, grading, share of vj from which the depletion charge is a parabola
  double tt;                      // s
  double gmin;                    // S, in parallel
  double recombination;           // A: saturation current of recombination in the depletion layer
  double vt_recombination;        // V, as vt

  static constexpr size_t fields = 14;

  double critical() const;        // V: from here on Newton's method limits the voltage
  Law at(double v) const;
  double limited(double v, double before) const;      // the voltage of the next linearization
  double tolerance(double v, double reltol, double vntol) const;      // V by which a solution at v may be wrong
};

struct Ends { int32_t a, b; };    // nodes; -1 is ground

inline double across(const double* x, Ends e) { return (e.a < 0 ? 0.0 : x[e.a]) - (e.b < 0 ? 0.0 : x[e.b]); }

}  // namespace ms::circuit
