// Values and corners of the waveforms, one shape after the other; see waveform.hpp. Formulas: SPICE3f3 manual, chapter 3.
#include "waveform.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ms::circuit {

Pulses::Pulses(std::vector<double> low, std::vector<double> high, std::vector<int64_t> shape, std::vector<PulseShape> shapes,
               double late)
    : low_(std::move(low)), high_(std::move(high)), shape_(std::move(shape)), shapes_(std::move(shapes)), late_(late),
      shares_(shapes_.size()) {}

double Pulses::share(const PulseShape& p, double t) const {
  const double late = std::min(std::max(t, 0.0), late_);
  double s = t - p.start;
  if (t > p.stop + late) return 0;
  s -= p.every * std::max(std::ceil((s - late) / p.every) - 1, 0.0);
  return std::clamp(s / p.rise, 0.0, 1.0) - std::clamp((s - p.rise - p.width) / p.fall, 0.0, 1.0);
}

void Pulses::at(double t, double* out) const {
  for (size_t k = 0; k < shapes_.size(); ++k) shares_[k] = share(shapes_[k], t);
  for (size_t k = 0; k < low_.size(); ++k) out[k] = low_[k] + (high_[k] - low_[k]) * shares_[shape_[k]];
}

double Pulses::next_corner(double t) const {
  double next = kForever;
  for (const PulseShape& p : shapes_) {
    const double base = p.start + p.every * std::max(std::floor((t - p.start) / p.every), 0.0);
    const double up = p.rise, high = up + p.width, down = high + p.fall;
    for (const double corner : {base, base + up, base + high, base + down, base + p.every})
      if (corner > t && corner <= p.stop + late_) next = std::min(next, corner);
  }
  return next;
}

Sines::Sines(std::vector<Sine> sines, double steps_a_period, double faded)
    : sines_(std::move(sines)), steps_a_period_(steps_a_period), faded_(faded) {}

void Sines::at(double t, double* out) const {
  for (const Sine& w : sines_) {
    const double s = std::max(t - w.delay, 0.0), swing = w.amplitude * std::sin(w.omega * s + w.phase);
    *out++ = w.offset + (w.damping != 0 ? swing * std::exp(-s * w.damping) : swing);
  }
}

double Sines::next_corner(double t) const {
  double next = kForever;
  for (const Sine& w : sines_)
    if (w.delay > t) next = std::min(next, w.delay);
  return next;
}

double Sines::longest_step(double t) const {
  double fastest = 0;
  for (const Sine& w : sines_)
    if (w.amplitude != 0 && t >= w.delay && (t - w.delay) * w.damping < faded_) fastest = std::max(fastest, std::abs(w.omega));
  return fastest > 0 ? 2 * std::numbers::pi / steps_a_period_ / fastest : kForever;
}

bool Sines::fades() const {
  return std::any_of(sines_.begin(), sines_.end(), [](const Sine& w) { return w.damping != 0; });
}

void Exponentials::at(double t, double* out) const {
  for (const Exponential& w : sources_) {
    const double up = -std::expm1(-std::max(t - w.delay1, 0.0) / w.tau1);
    const double down = -std::expm1(-std::max(t - w.delay2, 0.0) / w.tau2);
    *out++ = w.low + (w.high - w.low) * (up - down);
  }
}

double Exponentials::next_corner(double t) const {
  double next = kForever;
  for (const Exponential& w : sources_)
    for (const double delay : {w.delay1, w.delay2})
      if (delay > t) next = std::min(next, delay);
  return next;
}

Lines::Lines(std::vector<int64_t> first, std::vector<double> time, std::vector<double> value, double late)
    : first_(std::move(first)), time_(std::move(time)), value_(std::move(value)), late_(late), corners_(time_),
      segment_(first_.begin(), first_.end() - 1) {
  std::sort(corners_.begin(), corners_.end());
  corners_.erase(std::unique(corners_.begin(), corners_.end()), corners_.end());
}

void Lines::at(double t, double* out) const {
  const double before = t - std::min(std::max(t, 0.0), late_);
  for (size_t k = 0; k < segment_.size(); ++k) {
    const int64_t first = first_[k], last = first_[k + 1] - 1;
    int64_t& low = segment_[k];               // last point before the time, or the first point
    if (!(low == first || time_[low] < before) || (low < last && time_[low + 1] < before)) {
      const auto next = std::lower_bound(time_.begin() + first, time_.begin() + last + 1, before);
      low = std::max(first, static_cast<int64_t>(next - time_.begin()) - 1);
    }
    const int64_t after = std::min(low + 1, last);
    const double gap = time_[after] - time_[low], share = std::clamp((t - time_[low]) / (gap > 0 ? gap : 1.0), 0.0, 1.0);
    out[k] = value_[low] + share * (value_[after] - value_[low]);
  }
}

double Lines::next_corner(double t) const {
  const auto next = std::upper_bound(corners_.begin(), corners_.end(), t);
  return next == corners_.end() ? kForever : *next;
}

void Sources::at(double t, double* out) const {
  std::copy(dc_.begin(), dc_.end(), out);
  for (const auto& [which, wave] : parts_) {
    values_.resize(which.size());
    wave->at(t, values_.data());
    for (size_t k = 0; k < which.size(); ++k) out[which[k]] = values_[k];
  }
}

double Sources::next_corner(double t) const {
  if (!(since_ <= t && t < until_)) {
    since_ = t, until_ = kForever, longest_ = -1;
    for (const auto& part : parts_) until_ = std::min(until_, part.second->next_corner(t));
  }
  return until_;
}

double Sources::longest_step(double t) const {
  next_corner(t);                             // only fading sources change the longest step before the next corner
  const bool fades = std::any_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.second->fades(); });
  if (longest_ < 0 || fades) {
    longest_ = kForever;
    for (const auto& part : parts_) longest_ = std::min(longest_, part.second->longest_step(t));
  }
  return longest_;
}

}  // namespace ms::circuit
