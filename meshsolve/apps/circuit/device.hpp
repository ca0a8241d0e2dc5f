// Declaration and interface of a nonlinear device. A device is one source file and two lines in the table of devices.cpp. The
// reader, the checks of parameters, Newton's method, time steps and small signals depend on the declaration alone.
//
// A device consists of branches. Each branch lies between two nodes of the device and has a voltage. It carries a current and the
// rate of change of a charge. Both may depend on the voltages of all branches of the device. A diode has one branch. A transistor
// has one for each pair of nodes between which a current flows, a charge is stored, or a voltage controls other branches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ms::circuit {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();          // a parameter that was not given

struct Ends { int32_t a, b; };      // nodes; -1 is ground

inline double across(const double* x, Ends e) { return (e.a < 0 ? 0.0 : x[e.a]) - (e.b < 0 ? 0.0 : x[e.b]); }

enum class Range { any, positive, not_negative, at_most_one, below_one, zero_or_one, temperature };

struct ModelParameter {             // of a .model line
  const char *name, *unit;
  double otherwise;                 // default; NaN: the device computes its own
  Range range = Range::any;
};

struct LineParameter : ModelParameter {      // of an element line, such as an area
  bool times_copies = false;        // m= multiplies it
  int32_t initial = -1;             // branch for which it is the voltage at time 0
};

struct Branch {
  int32_t a, b;                     // terminals behind their series resistances; number of terminals + k: terminal k itself
  bool conducts = true;             // a direct current can flow
};

struct Series { const char* parameter; int32_t terminal; };       // a positive resistance adds an inner node behind the terminal
struct Alias { const char *other, *name; };

struct Declaration {
  char letter;
  int32_t level;                                // of .model lines
  const char* name;                             // for messages
  std::vector<const char*> types, terminals;    // types: of .model lines, such as npn and pnp
  std::vector<Branch> branches;
  std::vector<Series> series;
  std::vector<ModelParameter> parameters;
  std::vector<LineParameter> line;              // the name of the first one may be omitted
  std::vector<Alias> aliases;                   // other names of parameters
  std::vector<const char*> ignored;             // parameters of .model lines without effect on these analyses
  std::vector<const char*> unsupported;         // parameters that select another model
  bool accepts(std::string_view parameter) const {              // of .model lines
    for (const auto& p : parameters)
      if (parameter == p.name) return true;
    for (const auto& a : aliases)
      if (parameter == a.other) return true;
    for (const char* name : ignored)
      if (parameter == name) return true;
    return parameter == "level";
  }
};

struct Given {                      // parameters of one device, in the order of the declaration
  const double* model;
  const double* line;
  int32_t type;
  double celsius, nominal;          // temperatures of the device, and of the parameters unless the model has its own
  double copies;                    // m=
  double gmin;                      // S
};

struct OutOfRange { size_t device = 0; const char* parameter = nullptr; double value = 0; };

// Currents and charges of branches, and their derivatives with respect to the voltages of the same device, row by row.
struct Law { double *current, *conductance, *charge, *capacitance; };

class Devices {                     // all devices of one kind in a circuit; arrays list the branches device by device
 public:
  virtual ~Devices() = default;
  virtual size_t size() const = 0;
  virtual size_t branches() const = 0;                  // of one device
  virtual bool stores() const = 0;                      // true if a device stores charge
  virtual void evaluate(const double* v, Law out) const = 0;
  virtual void limit(const double* v, const double* before, double* out) const = 0;
  virtual void tolerances(const double* v, double reltol, double vntol, double* out) const = 0;
  virtual void start(double* v) const = 0;
};

// Devices of a class D with the members
//   struct Model;                                      a double for each parameter of the declaration, in its order
//   static constexpr size_t branches;
//   D(Model, const Given&, double* series, OutOfRange&);      constants at the temperature, and series resistances in ohm
//   bool stores() const;
//   void at(const double* v, Law out) const;           currents and charges at voltages v; writes all of `out`
//   void limit(const double* v, const double* before, double* out) const;      voltages of the next linearization
//   void tolerance(const double* v, double reltol, double vntol, double* out) const;      tolerances of the solution in volt
//   void start(double* v) const;                       start voltages of a search for an operating point
template <class D> class DevicesOf final : public Devices {
 public:
  DevicesOf(std::span<const Given> given, double* series, size_t resistances, OutOfRange& wrong) {
    all_.reserve(given.size());
    for (size_t k = 0; k < given.size() && !wrong.parameter; ++k) {
      typename D::Model model;
      std::memcpy(&model, given[k].model, sizeof model);
      wrong.device = k;
      all_.emplace_back(model, given[k], series + k * resistances, wrong);
    }
  }
  size_t size() const override { return all_.size(); }
  size_t branches() const override { return n; }
  bool stores() const override {
    for (const D& d : all_)
      if (d.stores()) return true;
    return false;
  }
  void evaluate(const double* v, Law out) const override {
    for (size_t k = 0; k < all_.size(); ++k)
      all_[k].at(v + n * k, {out.current + n * k, out.conductance + n * n * k, out.charge + n * k, out.capacitance + n * n * k});
  }
  void limit(const double* v, const double* before, double* out) const override {
    for (size_t k = 0; k < all_.size(); ++k) all_[k].limit(v + n * k, before + n * k, out + n * k);
  }
  void tolerances(const double* v, double reltol, double vntol, double* out) const override {
    for (size_t k = 0; k < all_.size(); ++k) all_[k].tolerance(v + n * k, reltol, vntol, out + n * k);
  }
  void start(double* v) const override {
    for (size_t k = 0; k < all_.size(); ++k) all_[k].start(v + n * k);
  }

 private:
  static constexpr size_t n = D::branches;
  std::vector<D> all_;
};

struct Kind {                       // a row of the table
  Declaration what;
  std::shared_ptr<const Devices> (*make)(std::span<const Given>, double* series, size_t resistances, OutOfRange&);
};

template <class D> Kind kind(Declaration what) {
  if (what.parameters.size() * sizeof(double) != sizeof(typename D::Model) || what.branches.size() != D::branches)
    throw std::logic_error(std::string("the declaration of the ") + what.name + " does not fit its class");
  return {std::move(what), [](std::span<const Given> given, double* series, size_t resistances, OutOfRange& wrong) {
            return std::shared_ptr<const Devices>(std::make_shared<DevicesOf<D>>(given, series, resistances, wrong));
          }};
}

}  // namespace ms::circuit
