// Time steps: trapezoidal rule or backward Euler with control of the local error.
//
// Steps are unit / 2^level and end at each target and at each corner of a source, so that a linear circuit needs few
// factorizations. A sine takes sixteen steps a period or more: an error that is estimated from states a whole period apart is
// 0. After a corner the trapezoidal rule makes two backward Euler steps of half the length. They damp what it would let ring
// (Rannacher 1984, "Finite element solution of diffusion problems with irregular data") and have the matrix of a trapezoidal
// step of the whole length. The error of a trapezoidal step is estimated from divided differences of the latest states (Nagel
// 1975, "SPICE2", section 5.4): the slopes may ring where a state follows a source, the states do not. Where the voltages of
// devices ring with the slopes of their charges, two such steps are taken as well. Newton's method begins on the parabola
// through the latest three states, whose error is that of the step itself.
// Cost of a step: one solution of the equations and O(states + sources).
#pragma once
#include <memory>
#include <unordered_map>
#include <utility>

#include "equations.hpp"
#include "waveform.hpp"

namespace ms::circuit {

struct Branches {                   // what a step adds to the right-hand side
  int32_t n;
  std::vector<Ends> capacitors, current_sources;
  std::vector<int32_t> inductors, voltage_sources;      // unknowns of their currents; rows of their voltages
  Values storage;                   // F, then H
  std::vector<Ends> device_ends;    // of the device branches
  std::shared_ptr<const DeviceSet> devices;
};

struct Schedule {
  double unit;                      // s: the longest step, apart from rounding
  double longest;                   // s: a limit below it
  double same;                      // s: times that count as equal
  std::vector<double> targets;      // ascending times at which a step ends; the first one is 0
  double first_kept, spacing;       // results before the one, or closer than the other, are not kept
  bool only_targets;                // are results kept at the targets alone, and not at other ends of steps?
  bool trapezoidal, fixed;          // fixed: steps of one unit whatever the error and the sources
  int32_t first_level;              // halvings of the unit in the first step
  int32_t coarsest, smallest, jump; // halvings that sources may ask for, that the error may ask for, after which a state may jump
};

struct State {
  double t = 0;
  Values x;                         // unknowns
  Values y, slope;                  // voltages of capacitors, currents of inductors, charges of device branches; their slopes
  Values flow;                      // currents of the device branches without those of their charges
};
using StatePointer = std::shared_ptr<State>;

enum class Outcome { reached, more, too_small, diverged, too_fast };

class Stepper {
 public:
  Stepper(Branches branches, Sources volts, Sources amperes, Equations& equations, Tolerances tolerances, Schedule schedule,
          std::vector<int64_t> keep, StatePointer start);

  Outcome march(int64_t attempts);  // polls for Ctrl-C and shows progress
  Values take_times() { return std::exchange(times_, {}); }
  Values take_rows() { return std::exchange(rows_, {}); }
  double failed_at() const { return failed_at_; }         // s, after a failure
  double failed_length() const { return failed_length_; }
  int64_t taken() const { return taken_; }
  int64_t rejected() const { return rejected_; }

 private:
  struct Attempt {
    StatePointer state;             // null where Newton's method failed
    double excess;                  // its error, in tolerances
  };

  Outcome attempt();
  Outcome begin_segment();
  void end_segment();
  bool limit(double t);
  void record(double t, bool forced);
  void choose_length(double& length, double& end);
  Attempt step(double length, double end);
  Attempt damped(double length, double end);
  Attempt steadied(Attempt plain, double length, double end);
  bool turn(const State& after, std::vector<char>& turned);
  StatePointer to(const State& from, double length, double end, bool trapezoidal);
  StatePointer unused();
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
  bool may_jump() const { return after_corner_ && !jumped_ && level_ >= schedule_.jump; }

  const Branches branches_;
  const Sources volts_, amperes_;
  Equations& equations_;
  const Tolerances tolerances_;
  const Schedule schedule_;
  const std::vector<int64_t> keep_;
  const size_t stored_, all_;       // states of capacitors and inductors, and with the charges of devices

  StatePointer state_;
  std::vector<StatePointer> all_states_;
  std::vector<StatePointer> points_, recent_;             // latest states: three for the error, two before state_ for the guess
  std::vector<char> turned_, turning_;                    // device branches whose charging currents turned lately; or empty
  Values largest_;                                        // absolute values of the states
  Values s_, past_, guess_, error_, device_volts_, room_, source_;
  Solution solution_;
  size_t target_ = 0;
  double stop_ = 0, corner_ = 0, last_kept_ = -forever;
  bool in_segment_ = false, after_corner_ = true, jumped_ = false;
  int32_t level_ = 0, coarsest_ = 0;                      // halvings of the unit: of the usual step, and of the longest allowed
  double known_longest_ = -1;
  std::unordered_map<int64_t, double> lengths_;           // of steps that do not divide the unit
  int64_t taken_ = 0, rejected_ = 0;
  double failed_at_ = 0, failed_length_ = 0;
  Values times_, rows_;
};

}  // namespace ms::circuit
