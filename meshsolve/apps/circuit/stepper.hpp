// Time steps: trapezoidal rule or backward Euler with control of the local error.
//
// Length: steps are unit / 2^level and end at each target and at each corner of a source. Few lengths mean few factorizations of
// a linear circuit. A sine needs at least sixteen steps per period: an error estimated from states a whole period apart would be
// 0. Damping: after a corner the trapezoidal rule takes two backward Euler steps of half the length. They damp oscillations
// (Rannacher 1984, "Finite element solution of diffusion problems with irregular data") and have the matrix of the whole
// trapezoidal step. Two such steps also replace a step in which device voltages oscillate with the slopes of their charges.
// Error: a trapezoidal step is estimated from divided differences of the latest states (Nagel 1975, "SPICE2", section 5.4).
// Slopes may oscillate if a state follows a source; states do not. Start of Newton's method: the parabola through the latest
// three states, which is as accurate as the step. Cost of a step: one solution of the equations and O(states + sources).
#pragma once
#include <memory>
#include <unordered_map>
#include <utility>

#include "equations.hpp"
#include "waveform.hpp"

namespace ms::circuit {

struct Branches {                   // elements that contribute to the right-hand side of a step
  int32_t n;
  std::vector<Ends> capacitors, current_sources;
  std::vector<int32_t> inductors, voltage_sources;      // unknowns of the currents; rows of the voltages
  Values storage;                   // F of the capacitors, then H of the inductors
  std::vector<Ends> device_ends;    // nodes of the device branches
  std::shared_ptr<const DeviceSet> devices;
};

struct Schedule {
  double unit;                      // s: longest step, apart from rounding
  double longest;                   // s: upper limit of the step below the unit
  double same;                      // s: difference of times that count as equal
  std::vector<double> targets;      // ascending times at which a step must end; the first one is 0
  double first_kept, spacing;       // s: time of the first result, smallest distance of results
  bool only_targets;                // keep results at the targets alone, not at other ends of steps
  bool trapezoidal, fixed;          // fixed: steps of one unit without error control
  int32_t first_level;              // halvings of the unit in the first step
  int32_t coarsest, smallest;       // most halvings for sources, most halvings for the error
  int32_t jump;                     // halvings after which a change of state at a corner counts as a jump
};

struct State {
  double t = 0;
  Values x;                         // unknowns
  Values y, slope;                  // voltages of capacitors, currents of inductors, charges of device branches; time derivatives
  Values flow;                      // currents of the device branches without those of their charges
};
using StatePointer = std::shared_ptr<State>;

enum class Outcome { reached, more, too_small, diverged, too_fast };

class Stepper {
 public:
  Stepper(Branches branches, Sources volts, Sources amperes, Equations& equations, Tolerances tolerances, Schedule schedule,
          std::vector<int64_t> keep, StatePointer start, double most);      // most: size of an unknown that grows without bound

  Outcome march(int64_t attempts);  // polls for Ctrl-C and reports progress
  Values take_times() { return std::exchange(times_, {}); }
  Values take_rows() { return std::exchange(rows_, {}); }
  double failed_at() const { return failed_at_; }         // s, after a failure
  double failed_length() const { return failed_length_; }
  bool failed_by_newton() const { return by_newton_; }
  struct Growth { int32_t unknown = -1; double size = 0, since = 0; };
  const Growth& growth() const { return growth_; }        // first unknown beyond `most`
  double time() const { return state_->t; }
  int64_t taken() const { return taken_; }
  int64_t rejected() const { return rejected_; }

 private:
  struct Attempt {
    StatePointer state;             // null if Newton's method failed
    double excess;                  // error in tolerances
  };

  Outcome attempt();
  Outcome begin_segment();
  void end_segment();
  bool limit(double t);
  void record(double t, bool forced);
  void choose_length(double& length, double& end);
  Attempt step(double length, double end);
  Attempt damped(double length, double end);
  Attempt without_ringing(Attempt plain, double length, double end);
  bool reversals(const State& after, std::vector<char>& reversed);
  StatePointer advance(const State& from, double length, double end, bool trapezoidal);
  StatePointer free_state();
  bool guess(const State& from, double length);
  void right_hand_side(double end);
  void states(const State& at, const Values& charge, Values& y) const;
  double error_of_slopes(const State& before, const State& after, double length);
  double third_difference(const State& after, double length);
  double excess(const State& after, double length);
  void accept(StatePointer next);
  Outcome refine(double excess);
  void relax(double excess);
  double usual() const;
  bool can_jump() const { return after_corner_ && !jumped_ && level_ >= schedule_.jump; }

  const Branches branches_;
  const Sources volts_, amperes_;
  Equations& equations_;
  const Tolerances tolerances_;
  const Schedule schedule_;
  const std::vector<int64_t> keep_;
  const size_t stored_, states_;    // number of states without and with the charges of devices

  StatePointer state_;
  std::vector<StatePointer> pool_;
  std::vector<StatePointer> points_, recent_;             // latest states: three for the error, two before state_ for the guess
  std::vector<char> reversed_, reversing_;                // device branches with a reversed charging current: last step, this step
  Values largest_;                                        // largest absolute value of each state
  Values s_, past_, guess_, error_, device_volts_, volt_tolerance_, source_;
  Solution solution_;
  size_t target_ = 0;
  double stop_ = 0, corner_ = 0, last_kept_ = -kForever;
  bool in_segment_ = false, after_corner_ = true, jumped_ = false;
  int32_t level_ = 0, coarsest_ = 0;                      // halvings of the unit: usual step, longest allowed step
  double last_longest_ = -1;
  std::unordered_map<int64_t, double> lengths_;           // lengths of steps other than unit / 2^level
  int64_t taken_ = 0, rejected_ = 0;
  double failed_at_ = 0, failed_length_ = 0;
  bool by_newton_ = false;                                // the latest rejected step had no solution
  int32_t failures_ = 0;                                  // steps without a solution since an unknown exceeds most_
  const double most_;
  Growth growth_;
  Values times_, rows_;
};

}  // namespace ms::circuit
