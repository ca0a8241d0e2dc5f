// The loop over the steps, the control of their length, and the parts of one step; see stepper.hpp for the methods.
#include "stepper.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "native/threads/interrupt.hpp"

namespace ms::circuit {
namespace {

constexpr double kDistinct = 64;          // shortest step, in spacings of doubles at its time
constexpr double kMinor = 1e-3;           // share of the largest state of a group: smaller states have its tolerance
constexpr double kReversed = 0.5;         // smallest ratio of a reversed charging current to the one before, in an oscillation
constexpr double kRelaxed = 0.1;          // tolerances: the next step may be twice as long if the error is smaller
constexpr double kEven = 1e-6;            // remainder, in steps, that counts as rounding
constexpr double kSlack = 0.011;          // remainder, in steps, that is merged with the last step
constexpr double kNewtonFailed = 16;      // excess of a step in which Newton's method fails: a quarter or less of the length
constexpr int32_t kMostFailures = 20;     // steps without a solution of a circuit that grows without bound: it creeps towards its end
constexpr int64_t kProgressUnits = 1'000'000;      // progress of the whole run

bool whole(double count) { return std::abs(count - std::round(count)) < kEven * std::max(1.0, count); }

// Key of a length. Lengths that agree to nine digits share a key and a matrix.
int64_t rounded(double length) {
  int exponent = 0;
  const double mantissa = std::frexp(length, &exponent);
  return (static_cast<int64_t>(exponent) << 32) + std::llround(std::ldexp(mantissa, 30));
}

double spacing(double t) { return std::nextafter(t, kForever) - t; }

void add(Values& s, Ends e, double value) {
  if (e.a >= 0) s[e.a] += value;
  if (e.b >= 0) s[e.b] -= value;
}

}  // namespace

Stepper::Stepper(Branches branches, Sources volts, Sources amperes, Equations& equations, Tolerances tolerances,
                 Schedule schedule, std::vector<int64_t> keep, StatePointer start, double most)
    : branches_(std::move(branches)), volts_(std::move(volts)), amperes_(std::move(amperes)), equations_(equations),
      tolerances_(tolerances), schedule_(std::move(schedule)), keep_(std::move(keep)), stored_(branches_.storage.size()),
      states_(stored_ + (branches_.devices->stores ? branches_.device_ends.size() : 0)), state_(std::move(start)), largest_(states_),
      s_(branches_.n), past_(states_), error_(states_), device_volts_(states_ - stored_), volt_tolerance_(device_volts_),
      level_(schedule_.first_level), most_(most) {
  for (size_t k = 0; k < states_; ++k) largest_[k] = std::abs(state_->y[k]);
  source_.resize(static_cast<size_t>(std::max(volts_.size(), amperes_.size())));
  record(schedule_.targets.front(), true);
  target_ = 1;
}

Outcome Stepper::march(int64_t attempts) {
  const double whole_run = schedule_.targets.back();
  interrupt::begin(kProgressUnits);
  int64_t shown = 0;
  for (int64_t k = 0; target_ < schedule_.targets.size(); ++k) {
    if (k == attempts) return Outcome::more;
    const auto done = static_cast<int64_t>(static_cast<double>(kProgressUnits) * (state_->t / whole_run));
    interrupt::advance(done - std::exchange(shown, done));
    interrupt::poll();
    const Outcome outcome = attempt();
    if (outcome != Outcome::more) return outcome;
  }
  return Outcome::reached;
}

// One step, accepted or rejected. A segment is the interval between two corners or targets.
Outcome Stepper::attempt() {
  if (!in_segment_) {
    const Outcome outcome = begin_segment();
    if (outcome != Outcome::more) return outcome;
  }
  double length = 0, end = 0;
  choose_length(length, end);
  Attempt next = step(length, end);
  by_newton_ = !next.state;
  if (!next.state && schedule_.fixed) {
    failed_at_ = end;
    return Outcome::diverged;
  }
  const bool jumps = next.state && next.excess > 1 && can_jump();
  if (next.excess > 1 && !jumps) return refine(next.excess);
  accept(std::move(next.state));
  if (jumps) {                            // continue as after a corner
    after_corner_ = jumped_ = true;
    level_ = coarsest_;
  } else {
    relax(next.excess);
  }
  if (state_->t >= stop_ - schedule_.same) end_segment();
  else record(state_->t, false);
  return Outcome::more;
}

Outcome Stepper::begin_segment() {
  const double later = state_->t + schedule_.same, target = schedule_.targets[target_];
  corner_ = schedule_.fixed ? kForever : std::min(volts_.next_corner(later), amperes_.next_corner(later));
  if (!limit(later)) return Outcome::too_fast;
  stop_ = corner_ < target - schedule_.same ? corner_ : target;
  in_segment_ = true;
  return Outcome::more;
}

void Stepper::end_segment() {
  const bool at_target = state_->t >= schedule_.targets[target_] - schedule_.same;
  const bool at_corner = corner_ <= state_->t + schedule_.same;
  if (at_corner) after_corner_ = true, jumped_ = false;
  in_segment_ = false;
  if (at_target || !schedule_.only_targets) record(at_target ? schedule_.targets[target_] : state_->t, at_target || at_corner);
  if (at_target) ++target_;
}

// Sets the longest step from time t on. False if the sources need too short steps. Without states there is no error: if all results
// are at given times, steps need no limit.
bool Stepper::limit(double t) {
  if (schedule_.fixed || (states_ == 0 && schedule_.only_targets)) return true;
  const double longest = std::min({schedule_.longest, volts_.longest_step(t), amperes_.longest_step(t)});
  if (longest != last_longest_) {
    last_longest_ = longest;
    coarsest_ = std::max(0, static_cast<int32_t>(std::ceil(std::log2(schedule_.unit / longest) - 1e-9)));
  }
  if (coarsest_ > schedule_.coarsest) {
    failed_at_ = t, failed_length_ = longest;
    return false;
  }
  level_ = std::max(level_, coarsest_);
  return true;
}

void Stepper::record(double t, bool forced) {
  if (t < schedule_.first_kept || (!forced && (schedule_.only_targets || t < last_kept_ + schedule_.spacing))) return;
  last_kept_ = t;
  times_.push_back(t);
  for (const int64_t k : keep_) rows_.push_back(state_->x[k]);
}

double Stepper::usual() const { return std::ldexp(schedule_.unit, -level_); }

// The length of the next step and its end. Lengths that agree up to rounding are made equal: they share a matrix.
void Stepper::choose_length(double& length, double& end) {
  const double rest = stop_ - state_->t, steps = rest / usual(), count = std::max(1.0, std::ceil(steps - kSlack));
  length = whole(steps) ? usual() : lengths_.try_emplace(rounded(rest / count), rest / count).first->second;
  end = count == 1 ? stop_ : state_->t + length;
}

Stepper::Attempt Stepper::step(double length, double end) {
  if (!schedule_.trapezoidal && (schedule_.fixed || !after_corner_)) {
    StatePointer next = advance(*state_, length, end, false);
    if (!next) return {nullptr, kNewtonFailed};
    const double excess = error_of_slopes(*state_, *next, length);
    return {std::move(next), excess};
  }
  if (after_corner_) return damped(length, end);          // slopes may be discontinuous
  StatePointer next = advance(*state_, length, end, true);
  if (!next) return {nullptr, kNewtonFailed};
  const double excess = third_difference(*next, length);
  Attempt plain{std::move(next), excess};
  return excess > 1 ? plain : without_ringing(std::move(plain), length, end);
}

// Returns the trapezoidal step `plain`, or a damped step if charging currents of device branches reverse and the damped step is
// accurate enough. Otherwise branches that also reversed in the step before get their mean slope, which ends the oscillation.
Stepper::Attempt Stepper::without_ringing(Attempt plain, double length, double end) {
  if (reversals(*plain.state, reversing_)) {
    const std::vector<char> before = reversed_;
    if (!schedule_.fixed) {                               // a fixed step has no error estimate
      const std::vector<StatePointer> points = points_;
      Attempt instead = damped(length, end);
      if (!instead.state || instead.excess <= 1) return instead;
      points_ = points;
    }
    for (size_t k = 0; k < reversing_.size() && !before.empty(); ++k)
      if (reversing_[k] && before[k])
        plain.state->slope[stored_ + k] = (plain.state->y[stored_ + k] - state_->y[stored_ + k]) / length;
  } else {
    reversing_.clear();
  }
  std::swap(reversed_, reversing_);
  return plain;
}

// Two backward Euler steps of half the length.
Stepper::Attempt Stepper::damped(double length, double end) {
  StatePointer middle = advance(*state_, length / 2, end - length / 2, false);
  StatePointer next = middle ? advance(*middle, length / 2, end, false) : nullptr;
  if (!next) return {nullptr, kNewtonFailed};
  points_ = {state_, middle};
  reversed_.clear();
  const double excess = error_of_slopes(*middle, *next, length);
  return {std::move(next), excess};
}

// Marks device branches whose charging current reverses at about the same size and whose voltage changes by more than its
// tolerance. Steps much longer than the charging time oscillate in this way about the voltage at rest. The error of the charges
// need not show it: in reverse they hardly depend on the voltage, or they are below chgtol. True if there is such a branch.
bool Stepper::reversals(const State& after, std::vector<char>& reversed) {
  bool any = false;
  reversed.assign(states_ - stored_, 0);
  for (size_t k = 0; k < reversed.size(); ++k) {
    const double was = state_->slope[stored_ + k], is = after.slope[stored_ + k];
    reversed[k] = was * is < 0 && std::abs(is) > kReversed * std::abs(was) && !(std::abs(is) > std::abs(was));
    any |= reversed[k] != 0;
  }
  if (!any) return false;
  for (size_t k = 0; k < reversed.size(); ++k) device_volts_[k] = across(after.x.data(), branches_.device_ends[k]);
  branches_.devices->tolerances(device_volts_.data(), tolerances_.reltol, tolerances_.vntol, volt_tolerance_.data());
  any = false;
  for (size_t k = 0; k < reversed.size(); ++k) {
    const double before = across(state_->x.data(), branches_.device_ends[k]);
    reversed[k] = reversed[k] && std::abs(device_volts_[k] - before) > volt_tolerance_[k];
    any |= reversed[k] != 0;
  }
  return any;
}

// The state at `end`, `length` after `from`. Null if Newton's method fails.
StatePointer Stepper::advance(const State& from, double length, double end, bool trapezoidal) {
  const double a = (trapezoidal ? 2 : 1) / length;
  for (size_t k = 0; k < states_; ++k) past_[k] = trapezoidal ? a * from.y[k] + from.slope[k] : a * from.y[k];
  right_hand_side(end);
  const bool guessed = !branches_.device_ends.empty() && guess(from, length);
  const double* const charges = branches_.devices->stores ? past_.data() + stored_ : nullptr;
  const Request request{a, &s_, &from.x, guessed ? &guess_ : nullptr, charges};
  if (!equations_.solve(request, solution_)) return nullptr;
  StatePointer next = free_state();
  next->t = end;
  next->x = solution_.x;
  next->flow = solution_.current;
  states(*next, solution_.charge, next->y);
  next->slope.resize(states_);
  for (size_t k = 0; k < states_; ++k) {
    const double slope = a * (next->y[k] - from.y[k]);
    next->slope[k] = trapezoidal ? slope - from.slope[k] : slope;
  }
  return next;
}

// A state of the pool that is not in use: most steps allocate nothing.
StatePointer Stepper::free_state() {
  for (const StatePointer& state : pool_)
    if (state.use_count() == 1) return state;
  return pool_.emplace_back(std::make_shared<State>());
}

void Stepper::states(const State& at, const Values& charge, Values& y) const {
  y.resize(states_);
  const size_t capacitors = branches_.capacitors.size();
  for (size_t k = 0; k < capacitors; ++k) y[k] = across(at.x.data(), branches_.capacitors[k]);
  for (size_t k = capacitors; k < stored_; ++k) y[k] = at.x[branches_.inductors[k - capacitors]];
  for (size_t k = stored_; k < states_; ++k) y[k] = charge[k - stored_];
}

// Sources at `end`, and the contributions of earlier states of capacitors and inductors.
void Stepper::right_hand_side(double end) {
  std::fill(s_.begin(), s_.end(), 0.0);
  amperes_.at(end, source_.data());
  for (size_t k = 0; k < branches_.current_sources.size(); ++k) add(s_, branches_.current_sources[k], -source_[k]);
  volts_.at(end, source_.data());
  for (size_t k = 0; k < branches_.voltage_sources.size(); ++k) s_[branches_.voltage_sources[k]] = source_[k];
  const size_t capacitors = branches_.capacitors.size();
  for (size_t k = 0; k < capacitors; ++k) add(s_, branches_.capacitors[k], branches_.storage[k] * past_[k]);
  for (size_t k = capacitors; k < stored_; ++k) s_[branches_.inductors[k - capacitors]] -= branches_.storage[k] * past_[k];
}

// Extrapolates the unknowns by the parabola through the latest three states since a corner, or by the line through two. False if
// there is only one.
bool Stepper::guess(const State& from, double length) {
  if (after_corner_ || recent_.empty()) return false;
  const double here = from.t, t = here + length;
  const State& last = *recent_.back();
  guess_.resize(from.x.size());
  if (recent_.size() == 1) {
    const double share = length / (here - last.t);
    for (size_t k = 0; k < guess_.size(); ++k) guess_[k] = from.x[k] + (from.x[k] - last.x[k]) * share;
    return true;
  }
  const State& first = *recent_.front();
  const double t0 = first.t, t1 = last.t;
  const double of_here = (t - t0) * (t - t1) / ((here - t0) * (here - t1));
  const double of_last = (t - t0) * length / ((t1 - t0) * (t1 - here));
  const double of_first = length * (t - t1) / ((t0 - here) * (t0 - t1));
  for (size_t k = 0; k < guess_.size(); ++k) guess_[k] = from.x[k] * of_here + last.x[k] * of_last + first.x[k] * of_first;
  return true;
}

double Stepper::error_of_slopes(const State& before, const State& after, double length) {
  for (size_t k = 0; k < states_ && !schedule_.fixed; ++k) error_[k] = 0.5 * length * std::abs(after.slope[k] - before.slope[k]);
  return excess(after, length);
}

// Excess of a trapezoidal step, from its error: half the cube of the length times the third divided difference of the states.
double Stepper::third_difference(const State& after, double length) {
  if (schedule_.fixed || states_ == 0) return 0;
  std::fill(error_.begin(), error_.end(), 0.0);
  std::vector<const State*> all;
  for (const StatePointer& point : points_) all.push_back(point.get());
  all.push_back(&after);
  for (const State* state : all) {
    double weight = 1;
    for (const State* other : all)
      if (other->t != state->t) weight *= state->t - other->t;
    for (size_t k = 0; k < states_; ++k) error_[k] += state->y[k] * (1 / weight);
  }
  for (double& error : error_) error = 0.5 * length * length * length * std::abs(error);
  return excess(after, length);
}

// Largest error of a state, in tolerances.
double Stepper::excess(const State& after, double length) {
  if (schedule_.fixed || states_ == 0) return 0;
  const size_t ends[] = {0, branches_.capacitors.size(), stored_, states_};      // groups of states with one unit
  const double floors[] = {tolerances_.vntol, tolerances_.abstol, 0};         // absolute tolerances
  double worst = 0;
  for (size_t group = 0; group < 3; ++group) {
    double top = 0;
    for (size_t k = ends[group]; k < ends[group + 1]; ++k) top = std::max({top, largest_[k], std::abs(after.y[k])});
    for (size_t k = ends[group]; k < ends[group + 1]; ++k) {
      const double size = std::max({largest_[k], std::abs(after.y[k]), kMinor * top});
      double floor = floors[group];     // for a charge reltol times the charge that flows in this step, plus chgtol
      if (group == 2) floor = std::abs(after.flow[k - stored_]) * (length * tolerances_.reltol) + tolerances_.chgtol;
      const double share = error_[k] / (size * tolerances_.reltol + floor);
      if (!(share <= worst)) worst = share;
    }
  }
  return worst / tolerances_.trtol;
}

void Stepper::accept(StatePointer next) {
  ++taken_;
  if (after_corner_) recent_.clear();
  recent_.push_back(state_);
  if (recent_.size() > 2) recent_.erase(recent_.begin());
  points_.push_back(next);
  if (points_.size() > 3) points_.erase(points_.begin());
  after_corner_ = false;
  state_ = std::move(next);
  for (size_t k = 0; growth_.unknown < 0 && k < state_->x.size(); ++k)
    if (std::abs(state_->x[k]) > most_) growth_ = {static_cast<int32_t>(k), most_, state_->t};
  if (schedule_.fixed) return;          // without error estimates
  for (size_t k = 0; k < stored_; ++k) largest_[k] = std::max(largest_[k], std::abs(state_->y[k]));
  for (size_t k = stored_; k < states_; ++k) largest_[k] = std::abs(state_->y[k]);      // charges vary over many decades
}

Outcome Stepper::refine(double excess) {
  ++rejected_;
  const double halvings = std::ceil(std::log2(excess) / (schedule_.trapezoidal ? 3 : 2));
  level_ += std::isfinite(halvings) ? static_cast<int32_t>(std::clamp(halvings, 1.0, 4.0)) : 4;
  const bool hopeless = growth_.unknown >= 0 && by_newton_ && ++failures_ > kMostFailures;
  if (!hopeless && level_ <= schedule_.smallest && !(usual() < kDistinct * spacing(state_->t))) return Outcome::more;
  failed_at_ = state_->t, failed_length_ = usual();
  return Outcome::too_small;
}

// Doubles the length if the error allows it. Steps that divide the rest of the segment must still divide it.
void Stepper::relax(double excess) {
  const double rest = stop_ - state_->t;
  const bool odd = whole(rest / usual()) && !whole(rest / (2 * usual()));
  if (excess < kRelaxed && level_ > coarsest_ && !odd) --level_;
}

}  // namespace ms::circuit
