// The equations of one time step, (G + a C) x + (currents of the devices) = s, and their solver for small circuits.
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
  int32_t newton_steps;             // most Newton steps in a time step
};

struct Solution {
  Values x;                         // unknowns
  Values current, charge;           // of the device branches; currents do not include those of the charges
};

struct Request {                    // one set of equations
  double a;
  const Values* s;
  const Values* x;                  // a solution of similar equations: device voltages are limited relative to it
  const Values* guess;              // start of Newton's method, or nullptr for x
  const double* past;               // (branches,) charges q add the currents a q - past; nullptr without charges
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
  std::vector<int64_t> slots, which;      // sign * conductance[which] is added to the entry `slot`
  Values sign;
  Values floor;                     // (n,) absolute tolerances of the unknowns
  double share;                     // share of a voltage tolerance by which an unmatched current may move the voltage
};

struct Effort { int64_t newton_steps = 0, factorizations = 0; };

class SmallEquations : public Equations {
 public:
  SmallEquations(SmallSystem system, Tolerances tolerances, Equations& fallback);      // fallback: solves if a pivot is rounding
  bool solve(const Request& request, Solution& out) override;
  bool was_singular() const { return singular_; }        // the latest request
  const Effort& effort() const { return effort_; }

 private:
  enum class End { solved, diverged, singular };
  bool linear(const Request& request, Solution& out);
  End newton(const Request& request, Solution& out);
  void set_scale(double a);
  bool factor();
  bool step(const Values& s);       // adds the Newton step change_ to x_; false if it is not finite
  void voltages(const Values& x, Values& v) const;      // of the device branches
  void linearize(const Values& v, double a, const double* past);
  // Extrapolates the currents from the voltages `from` to the voltages `to` by the conductances.
  void follow_tangent(const Values& from, const Values& to, Values& current) const;
  bool agree() const;
  bool close() const;
  bool at_rest(bool limited) const;

  const SmallSystem system_;
  const Tolerances tolerances_;
  Equations& fallback_;
  SmallLu<double> lu_;
  Effort effort_;
  bool have_scale_ = false, factored_ = false, singular_ = false;
  double a_ = 0;
  Values scaled_;                   // a right-hand side in another unit
  Values linear_, entries_;         // entries of G + a C without and with the devices
  Values x_, change_, residual_;
  Values v_, at_, wanted_, limited_, expected_, volt_tolerance_;       // of the device branches
  Values current_, conductance_;    // of the devices, including their charges
  Laws plain_;                      // of the devices, without the currents of their charges
};

}  // namespace ms::circuit
