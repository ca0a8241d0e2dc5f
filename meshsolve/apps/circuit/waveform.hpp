// Waveforms of independent sources: values over time, and corners, at which a time step must end. Each class holds all sources of
// one shape; sources.py computes its parameters. The value at a corner is the one before it. Cost: O(1) per source and value.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace ms::circuit {

constexpr double kForever = std::numeric_limits<double>::infinity();

class Waveform {
 public:
  virtual ~Waveform() = default;
  virtual int64_t size() const = 0;
  virtual void at(double t, double* out) const = 0;             // one value per source
  virtual double next_corner(double t) const = 0;               // first time after t at which a source is not smooth
  virtual double longest_step(double) const { return kForever; }  // longest step at t that resolves the sources
  virtual bool fades() const { return false; }                  // true if the longest step may change between corners
};

struct PulseShape { double start, rise, width, fall, every, stop; };

class Pulses : public Waveform {
 public:
  Pulses(std::vector<double> low, std::vector<double> high, std::vector<int64_t> shape, std::vector<PulseShape> shapes,
         double late);
  int64_t size() const override { return static_cast<int64_t>(low_.size()); }
  void at(double t, double* out) const override;
  double next_corner(double t) const override;

 private:
  double share(const PulseShape& p, double t) const;
  const std::vector<double> low_, high_;
  const std::vector<int64_t> shape_;          // of each source
  const std::vector<PulseShape> shapes_;
  const double late_;                         // s: difference of times that count as equal
  mutable std::vector<double> shares_;
};

struct Sine { double offset, amplitude, omega, delay, damping, phase; };

class Sines : public Waveform {
 public:
  Sines(std::vector<Sine> sines, double steps_a_period, double faded);
  int64_t size() const override { return static_cast<int64_t>(sines_.size()); }
  void at(double t, double* out) const override;
  double next_corner(double t) const override;
  double longest_step(double t) const override;
  bool fades() const override;

 private:
  const std::vector<Sine> sines_;
  const double steps_a_period_, faded_;       // faded: time constants of damping after which a sine counts as zero
};

struct Exponential { double low, high, delay1, tau1, delay2, tau2; };

class Exponentials : public Waveform {
 public:
  explicit Exponentials(std::vector<Exponential> sources) : sources_(std::move(sources)) {}
  int64_t size() const override { return static_cast<int64_t>(sources_.size()); }
  void at(double t, double* out) const override;
  double next_corner(double t) const override;

 private:
  const std::vector<Exponential> sources_;
};

class Lines : public Waveform {               // piecewise linear
 public:
  Lines(std::vector<int64_t> first, std::vector<double> time, std::vector<double> value, double late);
  int64_t size() const override { return static_cast<int64_t>(segment_.size()); }
  void at(double t, double* out) const override;
  double next_corner(double t) const override;

 private:
  const std::vector<int64_t> first_;          // first point of each source, then the number of points
  const std::vector<double> time_, value_;
  const double late_;
  std::vector<double> corners_;
  mutable std::vector<int64_t> segment_;      // latest segment of each source
};

class Sources {                               // all voltage or all current sources of a deck
 public:
  using Part = std::pair<std::vector<int64_t>, std::shared_ptr<const Waveform>>;
  Sources(std::vector<double> dc, std::vector<Part> parts) : dc_(std::move(dc)), parts_(std::move(parts)) {}
  int64_t size() const { return static_cast<int64_t>(dc_.size()); }
  void at(double t, double* out) const;
  double next_corner(double t) const;
  double longest_step(double t) const;

 private:
  const std::vector<double> dc_;
  const std::vector<Part> parts_;
  mutable std::vector<double> values_;
  mutable double since_ = kForever, until_ = -kForever, longest_ = -1;      // cached results
};

}  // namespace ms::circuit
