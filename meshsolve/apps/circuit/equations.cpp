// Newton's method on the equations of one time step, with the small LU factorization of small_lu.hpp; see equations.hpp. A linear
// circuit takes one factorization for each scale a and one solve for each step.
#include "equations.hpp"

#include <algorithm>
#include <cmath>

namespace ms::circuit {
namespace {

bool finite(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += std::abs(value);
  return std::isfinite(sum);
}

}  // namespace

SmallEquations::SmallEquations(SmallSystem system, Tolerances tolerances, Equations& fallback)
    : system_(std::move(system)), tolerances_(tolerances), fallback_(fallback), lu_(system_.n, system_.indptr, system_.indices),
      linear_(system_.indices.size()), entries_(linear_), x_(system_.n), change_(system_.n), residual_(system_.n) {
  const DeviceSet& devices = *system_.devices;
  plain_ = devices.empty();
  for (Values* values : {&v_, &at_, &wanted_, &limited_, &expected_, &volt_tolerance_, &current_}) values->resize(devices.branches);
  conductance_.resize(devices.column.size());
}

bool SmallEquations::solve(const Request& request, Solution& out) {
  set_scale(request.a);
  if (system_.ends.empty()) return linear(request, out);
  const End end = newton(request, out);
  singular_ = end == End::singular;
  return end == End::singular ? fallback_.solve(request, out) : end == End::solved;
}

void SmallEquations::set_scale(double a) {
  if (have_scale_ && a_ == a) return;
  for (size_t p = 0; p < linear_.size(); ++p) linear_[p] = system_.fixed[p] + a * system_.moving[p];
  a_ = a, have_scale_ = true, factored_ = false;
}

// Solves with one step of iterative refinement: threshold pivoting loses digits.
bool SmallEquations::linear(const Request& request, Solution& out) {
  if (!factored_) {
    factored_ = lu_.factor(linear_.data());
    ++effort_.factorizations;
  }
  if (!factored_) return fallback_.solve(request, out);
  const double unit = unit_of(*request.s);
  const Values* s = request.s;
  if (unit != 1) {
    scaled_ = *request.s;
    for (double& value : scaled_) value *= unit;
    s = &scaled_;
  }
  out.x.resize(system_.n);
  lu_.solve(s->data(), out.x.data());
  lu_.residual(linear_.data(), s->data(), out.x.data(), residual_.data());
  lu_.solve(residual_.data(), change_.data());
  for (int32_t k = 0; k < system_.n; ++k) out.x[k] = (out.x[k] + change_[k]) / unit;
  return finite(out.x) || fallback_.solve(request, out);
}

// Newton's method for the change of x. The test of convergence uses the currents at the new voltages, which the next step needs
// anyway.
SmallEquations::End SmallEquations::newton(const Request& request, Solution& out) {
  x_ = *request.x;
  voltages(x_, v_);
  at_ = v_;
  bool at_tangent = false;          // true if at_ differs from v_
  if (request.guess) {
    wanted_ = v_;                   // the voltages at x
    x_ = *request.guess;
    voltages(x_, v_);
    std::swap(at_, wanted_);
    at_tangent = system_.devices->limit(v_.data(), wanted_.data(), at_.data());
  }
  linearize(at_, request.a, request.past);
  for (int32_t count = 0; count < tolerances_.newton_steps; ++count) {
    if (!factor()) return finite(conductance_) ? End::singular : End::diverged;
    if (at_tangent) follow_tangent(at_, v_, current_);
    if (!step(*request.s)) return End::diverged;
    voltages(x_, wanted_);
    const bool limited = system_.devices->limit(wanted_.data(), at_.data(), limited_.data());
    follow_tangent(v_, wanted_, expected_);
    linearize(limited_, request.a, request.past);
    system_.devices->tolerances(wanted_.data(), tolerances_.reltol, tolerances_.vntol, volt_tolerance_.data());
    const bool solved = !limited && agree();
    if (solved || (close() && at_rest(limited))) {
      if (limited) linearize(wanted_, request.a, request.past);
      out.x = x_, out.current = plain_.current, out.charge = plain_.charge;
      return End::solved;
    }
    v_ = wanted_, at_ = limited_, at_tangent = limited;
  }
  return End::diverged;
}

bool SmallEquations::factor() {
  std::copy(linear_.begin(), linear_.end(), entries_.begin());
  for (size_t j = 0; j < system_.slots.size(); ++j)
    entries_[system_.slots[j]] += system_.sign[j] * conductance_[system_.which[j]];
  ++effort_.factorizations;
  return lu_.factor(entries_.data());
}

bool SmallEquations::step(const Values& s) {
  lu_.residual(linear_.data(), s.data(), x_.data(), residual_.data());
  for (size_t k = 0; k < system_.ends.size(); ++k) {
    const auto [a, b] = system_.ends[k];
    if (a >= 0) residual_[a] -= current_[k];
    if (b >= 0) residual_[b] += current_[k];
  }
  ++effort_.newton_steps;
  lu_.solve(residual_.data(), change_.data());
  if (!finite(change_)) return false;
  for (int32_t k = 0; k < system_.n; ++k) x_[k] += change_[k];
  return true;
}

void SmallEquations::voltages(const Values& x, Values& v) const {
  for (size_t k = 0; k < v.size(); ++k) v[k] = across(x.data(), system_.ends[k]);
}

void SmallEquations::linearize(const Values& v, double a, const double* past) {
  system_.devices->evaluate(v.data(), plain_);
  for (size_t k = 0; k < current_.size(); ++k)
    current_[k] = past ? plain_.current[k] + (a * plain_.charge[k] - past[k]) : plain_.current[k];
  for (size_t e = 0; e < conductance_.size(); ++e)
    conductance_[e] = past ? plain_.conductance[e] + a * plain_.capacitance[e] : plain_.conductance[e];
}

void SmallEquations::follow_tangent(const Values& from, const Values& to, Values& current) const {
  const DeviceSet& devices = *system_.devices;
  for (size_t k = 0; k < current.size(); ++k) {
    double sum = current_[k];
    for (int32_t e = devices.row[k]; e < devices.row[k + 1]; ++e)
      sum += conductance_[e] * (to[devices.column[e]] - from[devices.column[e]]);
    current[k] = sum;
  }
}

// True if the currents of the devices at the new voltages agree with those of the linear equations.
bool SmallEquations::agree() const {
  const DeviceSet& devices = *system_.devices;
  for (size_t k = 0; k < wanted_.size(); ++k) {
    const double by_current = std::abs(expected_[k]) * tolerances_.reltol + tolerances_.abstol;
    double by_voltage = 0;
    for (int32_t e = devices.row[k]; e < devices.row[k + 1]; ++e) {
      const int32_t at = devices.column[e];     // negative self-conductance: the voltage must stop moving
      by_voltage += system_.share * (static_cast<size_t>(at) == k ? conductance_[e] : std::abs(conductance_[e])) * volt_tolerance_[at];
    }
    if (!(std::abs(current_[k] - expected_[k]) <= std::min(by_current, by_voltage))) return false;
  }
  return true;
}

bool SmallEquations::close() const {
  for (int32_t k = 0; k < system_.n; ++k) {
    const double size = std::max(std::abs(x_[k]), std::abs(x_[k] - change_[k]));
    if (!(std::abs(change_[k]) <= size * tolerances_.reltol + system_.floor[k])) return false;
  }
  return true;
}

// True if the voltages of the devices no longer move.
bool SmallEquations::at_rest(bool limited) const {
  for (size_t k = 0; k < wanted_.size(); ++k) {
    if (!(std::abs(wanted_[k] - at_[k]) <= volt_tolerance_[k])) return false;
    const double tolerance = tolerances_.vntol + tolerances_.reltol * std::abs(wanted_[k]);
    if (limited && !(std::abs(limited_[k] - wanted_[k]) <= tolerance)) return false;
  }
  return true;
}

}  // namespace ms::circuit
