// The equations of one time step, (G + a C) x + (currents of the devices) = s, and what solves them: for small circuits the
// code here, otherwise a function of the caller.
// Source: Nagel 1975, "SPICE2", sections 4.1 to 4.3 (linearized companion models, convergence).
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "devices.hpp"
#include "small_lu.hpp"

namespace ms::circuit {

struct Tolerances {
  double reltol, vntol, abstol, chgtol, trtol;
  int32_t newton_steps;             // at most, in a time step
};

struct Solution {
  Values x;                         // unknowns
  Values current, charge;           // of the device branches; currents without those of the charges
};

struct Request {                    // one set of equations
  double a;
  const Values* s;
  const Values* x;                  // a solution of similar equations, from which the voltages of devices are limited
  const Values* guess;              // where Newton's method begins, or nullptr for x
  const double* past;               // (branches,) their charges q add the currents a q - past; nullptr where none stores
};

class Equations {
 public:
  virtual ~Equations() = default;
  virtual bool solve(const Request& request, Solution& out) = 0;      // false: Newton's method does not converge
};

struct SmallSystem {                // G + a C in compressed rows, and the devices
  int32_t n;
  std::vector<int32_t> indptr, indices;
  Values fixed, moving;             // entries of G and C
  std::shared_ptr<const DeviceSet> devices;
  std::vector<Ends> ends;                 // of the device branches
  std::vector<int64_t> slots, which;      // sign * conductance[which] is added at the entry `slot`
  Values sign;
  Values floor;                     // (n,) changes of unknowns that do not count
  double share;                     // of the tolerance of a device's voltage that an unmatched current may move it by
};

struct Effort { int64_t newton_steps = 0, factorizations = 0; };

class SmallEquations : public Equations {
 public:
  SmallEquations(SmallSystem system, Tolerances tolerances, Equations& otherwise);      // otherwise: where pivots are rounding
  bool solve(const Request& request, Solution& out) override;
  const Effort& effort() const { return effort_; }

 private:
  enum class End { solved, diverged, singular };
  bool linear(const Request& request, Solution& out);
  End newton(const Request& request, Solution& out);
  void set_scale(double a);
  bool factor();
  bool step(const Values& s);       // the change of x, into change_; false where it is not finite
  void voltages(const Values& x, Values& v) const;      // of the device branches
  void linearize(const Values& v, double a, const double* past);
  // The currents at the voltages `to`, by the conductances, from those at the voltages `from`.
  void follow_tangent(const Values& from, const Values& to, Values& current) const;
  bool agree() const;
  bool close() const;
  bool at_rest(bool limited) const;

  const SmallSystem system_;
  const Tolerances tolerances_;
  Equations& otherwise_;
  SmallLu lu_;
  Effort effort_;
  bool have_scale_ = false, factored_ = false;
  double a_ = 0;
  Values linear_, entries_;         // G + a C, and with the devices
  Values x_, change_, residual_;
  Values v_, at_, wanted_, limited_, expected_, room_;       // of the device branches
  Values current_, conductance_;    // of the devices, with those of their charges
  Laws plain_;                      // without
};

}  // namespace ms::circuit
