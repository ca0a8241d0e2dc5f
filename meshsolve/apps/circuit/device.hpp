// What a nonlinear device declares and computes. A device is one source file and its lines in the table of devices.cpp. The
// reader, the checks of parameters, Newton's method, time steps and small signals work from the declaration.
//
// To them a device is a few branches. Each branch lies between two nodes of the device and has a voltage. It carries a current
// and the rate of change of a charge, and both may depend on the voltages of all branches of the device. A diode has one branch.
// A transistor has one for each pair of nodes between which a current flows, a charge is stored, or a voltage controls others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ms::circuit {

struct Ends { int32_t a, b; };      // nodes; -1 is ground

inline double across(const double* x, Ends e) { return (e.a < 0 ? 0.0 : x[e.a]) - (e.b < 0 ? 0.0 : x[e.b]); }

enum class Range { any, positive, not_negative, at_most_one, below_one, zero_or_one, temperature };

struct ModelParameter {             // of a .model line
  const char *name, *unit;
  double otherwise;                 // its value where the deck gives none; NaN: the device derives it
  Range range = Range::any;
};

struct LineParameter : ModelParameter {      // of an element's line, as an area
  bool times_copies = false;        // m= multiplies it
  int32_t initial = -1;             // branch whose voltage at time 0 it is
};

struct Branch {
  int32_t a, b;                     // terminals, behind their series resistances; count of terminals + k: terminal k itself
  bool conducts = true;             // may a direct current flow?
};

struct Series { const char* parameter; int32_t terminal; };       // a positive resistance has an inner node behind the terminal
struct Alias { const char *other, *name; };

struct Declaration {
  char letter;
  int32_t level;                                // of .model lines
  const char* name;                             // in messages
  std::vector<const char*> types, terminals;    // types: of .model lines, as npn and pnp
  std::vector<Branch> branches;
  std::vector<Series> series;
  std::vector<ModelParameter> parameters;
  std::vector<LineParameter> line;              // the first may stand without its name
  std::vector<Alias> aliases;                   // other names of parameters
  std::vector<const char*> ignored;             // parameters of .model lines that change nothing here
};

struct Given {                      // what a deck gives for one device, all parameters of the declaration in its order
  const double* model;
  const double* line;
  int32_t type;
  double celsius, nominal;          // temperatures: of the device; at which parameters were measured unless the model has another
  double copies;                    // m=
  double gmin;                      // S
};

struct OutOfRange { size_t device = 0; const char* parameter = nullptr; double value = 0; };

// Currents and charges of branches, and their derivatives by the voltages of the same device, row by row.
struct Law { double *current, *conductance, *charge, *capacitance; };

class Devices {                     // all devices of one kind in a circuit; arrays have the branches of each device in turn
 public:
  virtual ~Devices() = default;
  virtual size_t size() const = 0;
  virtual size_t branches() const = 0;                  // of one device
  virtual bool stores() const = 0;                      // is there any charge?
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
//   void at(const double* v, Law out) const;           the currents and charges at voltages v; writes all of `out`
//   void limit(const double* v, const double* before, double* out) const;      voltages of the next linearization
//   void tolerance(const double* v, double reltol, double vntol, double* out) const;      V by which a solution may be wrong
//   void start(double* v) const;                       voltages at which a search for an operating point may begin
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
