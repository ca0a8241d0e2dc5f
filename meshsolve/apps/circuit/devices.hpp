// The table of nonlinear devices, and the devices of one circuit, ordered by kind.
#pragma once
#include "device.hpp"

namespace ms::circuit {

using Values = std::vector<double>;

const std::vector<Kind>& device_table();
const Declaration* device_of(char letter);      // the first kind of a letter, or null; kinds of a letter share the element line

struct Laws { Values current, conductance, charge, capacitance; };      // (branches,), (entries,), (branches,), (entries,)

struct DeviceSet {
  explicit DeviceSet(std::vector<std::shared_ptr<const Devices>> kinds);

  Laws empty() const;
  void evaluate(const double* v, Laws& out) const;
  bool limit(const double* v, const double* before, double* out) const;       // true if `out` differs from v
  void tolerances(const double* v, double reltol, double vntol, double* out) const;
  void start(double* v) const;

  struct Part { std::shared_ptr<const Devices> devices; size_t branch, entry; };      // one kind, its first branch and entry
  std::vector<Part> parts;
  size_t branches = 0;
  bool stores = false;
  // Derivatives in compressed rows: branch k has the entries row[k] to row[k + 1]; column: branch of the voltage.
  std::vector<int32_t> row = {0}, column;
};

}  // namespace ms::circuit
