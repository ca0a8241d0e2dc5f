// The table of devices, and the devices of one circuit one kind after the other; see devices.hpp.
#include "devices.hpp"

namespace ms::circuit {

// Each device has a line here and a line in device_table().
Kind diode();

const std::vector<Kind>& device_table() {
  static const std::vector<Kind> table = {
      diode(),
  };
  return table;
}

const Declaration* device_of(char letter) {
  for (const Kind& kind : device_table())
    if (kind.what.letter == letter) return &kind.what;
  return nullptr;
}

DeviceSet::DeviceSet(std::vector<std::shared_ptr<const Devices>> kinds) {
  for (auto& kind : kinds) {
    const size_t n = kind->branches(), last = branches + n * kind->size();
    stores |= kind->stores();
    parts.push_back({std::move(kind), branches, column.size()});
    for (; branches < last; ++branches) {
      const size_t first = branches - (branches - parts.back().branch) % n;
      for (size_t k = first; k < first + n; ++k) column.push_back(static_cast<int32_t>(k));
      row.push_back(static_cast<int32_t>(column.size()));
    }
  }
}

Laws DeviceSet::empty() const { return {Values(branches), Values(column.size()), Values(branches), Values(column.size())}; }

void DeviceSet::evaluate(const double* v, Laws& out) const {
  for (const auto& [all, branch, entry] : parts)
    all->evaluate(v + branch, {&out.current[branch], &out.conductance[entry], &out.charge[branch], &out.capacitance[entry]});
}

bool DeviceSet::limit(const double* v, const double* before, double* out) const {
  for (const auto& [all, branch, _] : parts) all->limit(v + branch, before + branch, out + branch);
  bool changed = false;
  for (size_t k = 0; k < branches; ++k) changed |= out[k] != v[k];
  return changed;
}

void DeviceSet::tolerances(const double* v, double reltol, double vntol, double* out) const {
  for (const auto& [all, branch, _] : parts) all->tolerances(v + branch, reltol, vntol, out + branch);
}

void DeviceSet::start(double* v) const {
  for (const auto& [all, branch, _] : parts) all->start(v + branch);
}

}  // namespace ms::circuit
