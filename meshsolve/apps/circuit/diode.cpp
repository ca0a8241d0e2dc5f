#include "diode.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ms::circuit {
namespace {

constexpr double largest_exponent = 200;      // exp continues as its tangent from here on
constexpr double never = 1e99;                // V: larger breakdown voltages stand for none

struct Exponential { double less, value; };   // exp(u) - 1 and exp(u)

Exponential exponential(double u) {
  const double cut = std::min(u, largest_exponent), less = std::expm1(cut), value = less + 1;
  return {less + (u - cut) * value, value};
}

// Current and conductance of the ideal junction, without high injection.
void ideal(const Diode& d, double v, double& current, double& conductance) {
  if (v >= -3 * d.vt) {
    const auto [less, value] = exponential(v / d.vt);
    current = d.saturation * less;
    conductance = d.saturation / d.vt * value;
  } else if (v >= -d.breakdown) {
    const double ratio = 3 * d.vt / (v * std::numbers::e), cube = ratio * ratio * ratio;
    current = -d.saturation * (1 + cube);
    conductance = 3 * d.saturation * cube / v;
  } else {
    const auto [less, value] = exponential(-(v + d.breakdown) / d.vt_breakdown);
    current = -d.saturation * (less + 1);
    conductance = d.saturation / d.vt_breakdown * value;
  }
}

// Recombination in the depletion layer, which narrows towards vj. In reverse it fades, where ngspice drops it at -3 vt.
void recombination(const Diode& d, double v, double& current, double& conductance) {
  const double at = std::max(v, -3 * d.vt), gap = 1 - at / d.vj, width = gap * gap + 0.005;
  const double narrowing = std::pow(width, d.m / 2), slope = -d.m * gap * narrowing / (width * d.vj);
  const auto [less, value] = exponential(at / d.vt_recombination);
  double added = d.recombination * less * narrowing;
  double rise = d.recombination * (value / d.vt_recombination * narrowing + less * slope);
  if (v < at) {
    const double fading = at / v, cube = fading * fading * fading;
    rise = -3 * added * cube / v;
    added *= cube;
  }
  current += added;
  conductance += rise;
}

// Depletion charge and capacitance.
void depletion(const Diode& d, double v, double& charge, double& capacitance) {
  const double below = std::min(v, d.fc * d.vj), room = 1 - below / d.vj, power = std::pow(room, -d.m);
  const double area = d.cjo * d.vj;
  capacitance = d.cjo * power;
  charge = d.m == 1 ? -area * std::log(room) : area / (1 - d.m) * (1 - power * room);
  if (v > below) {
    const double above = v - below, rise = d.cjo * d.m / d.vj * power / room * above;
    charge += above * (capacitance + 0.5 * rise);
    capacitance += rise;
  }
}

double limited_forward(double v, double before, double vt) {
  const double step = (v - before) / vt;
  if (before <= 0) return vt * std::log(std::max(v, vt) / vt);
  return before + vt * (step > 0 ? 2 + std::log(step - 2) : -2 - std::log(2 - step));
}

}  // namespace

double Diode::critical() const { return vt * std::log(vt / (std::numbers::sqrt2 * saturation)); }

Law Diode::at(double v) const {
  Law out{0, 0, 0, 0};
  ideal(*this, v, out.current, out.conductance);
  if (recombination > 0) circuit::recombination(*this, v, out.current, out.conductance);
  const double knee = v >= -3 * vt ? knee_forward : knee_reverse;
  if (std::isfinite(knee) && out.current != 0 && (out.current > 0) == (v >= -3 * vt)) {      // one sign for each knee
    const double root = std::sqrt(std::abs(out.current) / knee);
    out.current /= 1 + root;
    out.conductance *= (1 + 0.5 * root) / ((1 + root) * (1 + root));
  }
  out.current += gmin * v;
  out.conductance += gmin;
  if (cjo > 0) depletion(*this, v, out.charge, out.capacitance);
  if (tt > 0) {
    out.charge += tt * out.current;
    out.capacitance += tt * out.conductance;
  }
  return out;
}

double Diode::limited(double v, double before) const {
  if (!(std::abs(v - before) > 2 * vt)) return v;
  const double top = critical();
  if (v > top) return limited_forward(v, before, vt);
  if (breakdown < never && v < before && std::abs(v - before) > 2 * vt_breakdown && -(v + breakdown) > top)
    return -limited_forward(-(v + breakdown), -(before + breakdown), vt_breakdown) - breakdown;
  return v;
}

double Diode::tolerance(double v, double reltol, double vntol) const {
  double size = std::abs(v);
  if (breakdown < never) size = std::min(size, std::abs(v + breakdown));
  return size * reltol + vntol;
}

}  // namespace ms::circuit
