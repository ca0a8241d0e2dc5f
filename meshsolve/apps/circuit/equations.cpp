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

SmallEquations::SmallEquations(SmallSystem system, Tolerances tolerances, Equations& otherwise)
    : system_(std::move(system)), tolerances_(tolerances), otherwise_(otherwise), lu_(system_.n, system_.indptr, system_.indices),
      linear_(system_.indices.size()), entries_(linear_), x_(system_.n), change_(system_.n), residual_(system_.n) {
  const size_t k = system_.diodes.size();
  for (Values* values : {&v_, &at_, &wanted_, &limited_, &expected_, &plain_current_}) values->resize(k);
  for (Values* values : {&laws_.current, &laws_.conductance, &laws_.charge}) values->resize(k);
}

bool SmallEquations::solve(const Request& request, Solution& out) {
  set_scale(request.a);
  if (system_.diodes.empty()) return linear(request, out);
  const End end = newton(request, out);
  return end == End::singular ? otherwise_.solve(request, out) : end == End::solved;
}

void SmallEquations::set_scale(double a) {
  if (have_scale_ && a_ == a) return;
  for (size_t p = 0; p < linear_.size(); ++p) linear_[p] = system_.fixed[p] + a * system_.moving[p];
  a_ = a, have_scale_ = true, factored_ = false;
}

// One solution, refined once: the pivots were accepted by a threshold.
bool SmallEquations::linear(const Request& request, Solution& out) {
  if (!factored_) {
    factored_ = lu_.factor(linear_.data());
    ++effort_.factorizations;
  }
  if (!factored_) return otherwise_.solve(request, out);
  out.x.resize(system_.n);
  lu_.solve(request.s->data(), out.x.data());
  lu_.residual(linear_.data(), request.s->data(), out.x.data(), residual_.data());
  lu_.solve(residual_.data(), change_.data());
  for (int32_t k = 0; k < system_.n; ++k) out.x[k] += change_[k];
  return finite(out.x) || otherwise_.solve(request, out);
}

// Newton's method: each step solves for the change of x. The currents at the new voltages, which the next step needs in any
// case, show whether there must be one.
SmallEquations::End SmallEquations::newton(const Request& request, Solution& out) {
  x_ = *request.x;
  junction_voltages(x_, v_);
  at_ = v_;
  bool at_tangent = false;          // is at_ another voltage than v_?
  if (request.guess) {
    wanted_ = v_;                   // the trusted voltages
    x_ = *request.guess;
    junction_voltages(x_, v_);
    std::swap(at_, wanted_);
    for (size_t k = 0; k < v_.size(); ++k) at_[k] = system_.diodes[k].limited(v_[k], wanted_[k]);
    at_tangent = at_ != v_;
  }
  linearize(at_, request.a, request.past);
  for (int32_t count = 0; count < tolerances_.newton_steps; ++count) {
    if (!factor()) return finite(laws_.conductance) ? End::singular : End::diverged;
    if (at_tangent)
      for (size_t k = 0; k < v_.size(); ++k) laws_.current[k] += laws_.conductance[k] * (v_[k] - at_[k]);
    if (!step(*request.s)) return End::diverged;
    junction_voltages(x_, wanted_);
    const bool limited = limit();
    for (size_t k = 0; k < v_.size(); ++k) expected_[k] = laws_.current[k] + laws_.conductance[k] * (wanted_[k] - v_[k]);
    linearize(limited_, request.a, request.past);
    const bool solved = !limited && agree();
    if (solved || (close() && at_rest(limited))) {
      if (limited) linearize(wanted_, request.a, request.past);
      out.x = x_, out.current = plain_current_, out.charge = laws_.charge;
      return End::solved;
    }
    v_ = wanted_, at_ = limited_, at_tangent = limited;
  }
  return End::diverged;
}

bool SmallEquations::factor() {
  std::copy(linear_.begin(), linear_.end(), entries_.begin());
  for (size_t j = 0; j < system_.slots.size(); ++j)
    entries_[system_.slots[j]] += system_.sign[j] * laws_.conductance[system_.diode[j]];
  ++effort_.factorizations;
  return lu_.factor(entries_.data());
}

bool SmallEquations::step(const Values& s) {
  lu_.residual(linear_.data(), s.data(), x_.data(), residual_.data());
  for (size_t k = 0; k < system_.junctions.size(); ++k) {
    const auto [a, b] = system_.junctions[k];
    if (a >= 0) residual_[a] -= laws_.current[k];
    if (b >= 0) residual_[b] += laws_.current[k];
  }
  ++effort_.newton_steps;
  lu_.solve(residual_.data(), change_.data());
  if (!finite(change_)) return false;
  for (int32_t k = 0; k < system_.n; ++k) x_[k] += change_[k];
  return true;
}

void SmallEquations::junction_voltages(const Values& x, Values& v) const {
  for (size_t k = 0; k < v.size(); ++k) v[k] = across(x.data(), system_.junctions[k]);
}

void SmallEquations::linearize(const Values& v, double a, const double* past) {
  for (size_t k = 0; k < v.size(); ++k) {
    const Law law = system_.diodes[k].at(v[k]);
    plain_current_[k] = law.current;
    laws_.charge[k] = law.charge;
    laws_.current[k] = past ? law.current + (a * law.charge - past[k]) : law.current;
    laws_.conductance[k] = past ? law.conductance + a * law.capacitance : law.conductance;
  }
}

bool SmallEquations::limit() {
  bool limited = false;
  for (size_t k = 0; k < wanted_.size(); ++k) {
    limited_[k] = system_.diodes[k].limited(wanted_[k], at_[k]);
    limited |= limited_[k] != wanted_[k];
  }
  return limited;
}

double SmallEquations::tolerance(size_t k) const {
  return system_.diodes[k].tolerance(wanted_[k], tolerances_.reltol, tolerances_.vntol);
}

// Do the junctions carry at the wanted voltages what the linear equations took for it?
bool SmallEquations::agree() const {
  for (size_t k = 0; k < wanted_.size(); ++k) {
    const double enough = std::abs(expected_[k]) * tolerances_.reltol + tolerances_.abstol;
    const double by_voltage = system_.share * laws_.conductance[k] * tolerance(k);
    if (!(std::abs(laws_.current[k] - expected_[k]) <= std::min(enough, by_voltage))) return false;
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

// Do the junction voltages no longer move?
bool SmallEquations::at_rest(bool limited) const {
  for (size_t k = 0; k < wanted_.size(); ++k) {
    if (!(std::abs(wanted_[k] - at_[k]) <= tolerance(k))) return false;
    const double room = tolerances_.vntol + tolerances_.reltol * std::abs(wanted_[k]);
    if (limited && !(std::abs(limited_[k] - wanted_[k]) <= room)) return false;
  }
  return true;
}

}  // namespace ms::circuit
