// The junction diode. Sources: Nagel 1975, "SPICE2: a computer program to simulate semiconductor circuits", appendix B (model)
// and section 4.3 (limiting). High injection and cubic reverse current as in SPICE3f5; temperature and breakdown as in the
// ngspice manual, chapter 7. Cost: O(1) per diode.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "device.hpp"

namespace ms::circuit {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kZeroCelsius = 273.15, kReference = 300.15;      // kelvin; the second is 27 degrees Celsius
constexpr double kVoltPerKelvin = 1.380649e-23 / 1.602176634e-19;
constexpr double kLargestExponent = 200;      // exponent above which exp continues as its tangent
constexpr double kNoBreakdown = 1e100;        // V: finite breakdown voltage of a diode without breakdown
constexpr double kSmallest = 1e-100, kLargest = 1e100;      // range of parameters at the temperature; their products are finite
constexpr int kBreakdownSteps = 25;           // most iterations for the knee voltage
constexpr double kBreakdownTolerance = 1e-12; // relative tolerance of the knee voltage

Declaration declaration() {
  return {
      .letter = 'd', .level = 1, .name = "diode", .types = {"d"}, .terminals = {"anode", "cathode"},
      .branches = {{0, 1}}, .series = {{"rs", 0}},
      .parameters = {
          {"is", "A", 1e-14, Range::positive}, {"n", "", 1, Range::positive}, {"rs", "ohm", 0, Range::not_negative},
          {"cjo", "F", 0, Range::not_negative}, {"vj", "V", 1, Range::positive}, {"m", "", 0.5, Range::at_most_one},
          {"fc", "", 0.5, Range::below_one}, {"tt", "s", 0, Range::not_negative}, {"bv", "V", kInfinity, Range::positive},
          {"ibv", "A", 1e-3, Range::positive}, {"nbv", "", kMissing, Range::positive}, {"ikf", "A", kInfinity},
          {"ikr", "A", kInfinity}, {"isr", "A", 0, Range::not_negative}, {"nr", "", 1, Range::positive}, {"eg", "eV", 1.11},
          {"xti", "", 3}, {"tnom", "C", kMissing, Range::temperature}, {"tlev", "", 0, Range::zero_or_one},
          {"tlevc", "", 0, Range::zero_or_one}, {"tcv", "1/K", 0}, {"cta", "1/K", 0}, {"tpb", "V/K", 0}, {"tm1", "1/K", 0},
          {"tm2", "1/K2", 0}, {"ttt1", "1/K", 0}, {"ttt2", "1/K2", 0}, {"trs1", "1/K", 0}, {"trs2", "1/K2", 0}},
      .line = {{{"area", "", 1, Range::positive}, true}, {{"ic", "V", kMissing}, false, 0}},
      .aliases = {{"cj0", "cjo"}, {"cj", "cjo"}, {"pb", "vj"}, {"mj", "m"}, {"js", "is"}, {"ik", "ikf"}, {"trs", "trs1"},
                  {"tref", "tnom"}, {"t_nom", "tnom"}, {"t_measured", "tnom"}},
      .ignored = {"kf", "af"},                // noise
      .unsupported = {"ron", "roff", "vfwd", "vrev", "rrev"}};      // each selects straight lines in LTspice
}

struct DiodeParameters {                      // in the order of the declaration
  double is, n, rs, cjo, vj, m, fc, tt, bv, ibv, nbv, ikf, ikr, isr, nr, eg, xti, tnom, tlev, tlevc, tcv, cta, tpb, tm1, tm2,
      ttt1, ttt2, trs1, trs2;
};

// Shift in volt of the barrier of a silicon junction from 300.15 K to `kelvin`, without its proportional growth.
double barrier_shift(double kelvin) {
  const double gap = 1.16 - 7.02e-4 * (kelvin * kelvin) / (kelvin + 1108), thermal = kVoltPerKelvin * kelvin;
  const double at_reference = 1.1150877 / (2 * (kVoltPerKelvin * kReference));
  return -2 * thermal * (1.5 * std::log(kelvin / kReference) - gap / (2 * thermal) + at_reference);
}

// Converts the parameters from the temperature `nominal` to `kelvin`.
void change_temperature(DiodeParameters& p, double kelvin, double nominal) {
  const double rise = kelvin / nominal, above = kelvin - kReference, change = kelvin - nominal, square = change * change;
  const auto grown = [&](double n) {
    return std::exp((rise - 1) * p.eg / (n * kVoltPerKelvin * kelvin) + p.xti / n * std::log(rise));
  };
  p.is *= grown(p.n);
  p.isr *= grown(p.nr);
  p.m = std::min(p.m * (1 + p.tm1 * change + p.tm2 * square), 1.0);
  p.tt *= 1 + p.ttt1 * change + p.ttt2 * square;
  p.rs *= 1 + p.trs1 * change + p.trs2 * square;
  p.bv = p.tlev == 0 ? p.bv - p.tcv * change : p.bv * (1 - p.tcv * change);
  if (p.tlevc != 0) {
    p.cjo *= 1 + p.cta * above;
    p.vj -= p.tpb * above;
    return;
  }
  const double barrier = (p.vj - barrier_shift(nominal)) / (nominal / kReference);
  const double vj = kelvin / kReference * barrier + barrier_shift(kelvin);
  const auto growth = [&](double t, double at) { return 1 + p.m * (4e-4 * (t - kReference) - (at - barrier) / barrier); };
  p.cjo *= growth(kelvin, vj) / growth(nominal, p.vj);
  p.vj = vj;
}

// The knee voltage of the breakdown, beyond which the reverse current grows so that it is IBV at BV. It solves the fixed-point
// equation (exp((BV - knee) / Vt) - 1 + knee / Vt) IS = IBV. If IBV is less than IS BV / Vt, the knee is BV, as in SPICE.
double knee_voltage(const DiodeParameters& p, double copies, double thermal, double vt_breakdown) {
  const double bv = std::min(p.bv, kNoBreakdown), ratio = copies * p.ibv / p.is;
  if (!(p.bv < kNoBreakdown && ratio >= bv / thermal)) return bv;
  double knee = bv;
  for (int k = 0; k < kBreakdownSteps; ++k) {
    const double before = knee;
    knee = bv - vt_breakdown * std::log(std::max(ratio + 1 - before / thermal, 1.0));
    if (std::abs(knee - before) <= kBreakdownTolerance * std::abs(before)) break;
  }
  return knee;
}

struct Diode {
  using Model = DiodeParameters;
  static constexpr size_t branches = 1;

  double saturation;              // A
  double vt;                      // V, emission coefficient times k T / q
  double breakdown;               // V: the current grows exponentially beyond -breakdown; 1e100 without breakdown
  double vt_breakdown;            // V, as vt
  double knee_forward;            // A: current at which high injection begins, or infinity
  double knee_reverse;            // A
  double cjo, vj, m, fc;          // F, V, grading, share of vj above which the depletion charge is a parabola
  double tt;                      // s
  double gmin;                    // S, in parallel
  double recombination;           // A: saturation current of recombination in the depletion layer
  double vt_recombination;        // V, as vt

  Diode(DiodeParameters p, const Given& given, double* series, OutOfRange& wrong);
  bool stores() const { return cjo > 0 || tt > 0; }
  void at(const double* v, Law out) const;
  void limit(const double* v, const double* before, double* out) const { *out = limited(*v, *before); }
  void tolerance(const double* v, double reltol, double vntol, double* out) const;
  void start(double* v) const { *v = critical(vt); }

 private:
  // V above which limits apply to an exponential with this thermal voltage: forward, or beyond -breakdown.
  double critical(double thermal) const { return std::max(thermal * std::log(thermal / (std::numbers::sqrt2 * saturation)), 0.0); }
  double limited(double v, double before) const;
};

Diode::Diode(DiodeParameters p, const Given& given, double* series, OutOfRange& wrong) {
  const double kelvin = given.celsius + kZeroCelsius, area = given.line[0], thermal = kVoltPerKelvin * kelvin;
  change_temperature(p, kelvin, (std::isnan(p.tnom) ? given.nominal : p.tnom) + kZeroCelsius);
  const struct { const char* name; double value, least, most; } checks[] = {
      {"is", p.is, kSmallest, kLargest}, {"n", p.n, kSmallest, kLargest}, {"vj", p.vj, kSmallest, kLargest},
      {"bv", p.bv, 0, kInfinity}};
  for (const auto& [name, value, least, most] : checks)
    if (!wrong.parameter && !(value > 0 && value >= least && value <= most)) wrong.parameter = name, wrong.value = value;
  for (double* current : {&p.ikf, &p.ikr})
    if (!(*current > 0)) *current = kInfinity;                 // no high injection, as in ngspice
  series[0] = p.rs / area;
  saturation = p.is * area, recombination = p.isr * area, cjo = p.cjo * area;
  knee_forward = p.ikf * area, knee_reverse = p.ikr * area;
  p.is = saturation;
  vt = p.n * thermal, vt_recombination = p.nr * thermal, vt_breakdown = (std::isnan(p.nbv) ? p.n : p.nbv) * thermal;
  breakdown = knee_voltage(p, given.copies, thermal, vt_breakdown);
  vj = p.vj, m = p.m, fc = p.fc, tt = p.tt, gmin = given.gmin;
}

struct SafeExp { double less, value; };   // exp(u) - 1 and exp(u)

SafeExp exponential(double u) {
  const double cut = std::min(u, kLargestExponent), less = std::expm1(cut), value = less + 1;
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

// Recombination in the depletion layer, which narrows towards vj. Below -3 vt it decays with the cube of v; ngspice sets it to 0.
void recombine(const Diode& d, double v, double& current, double& conductance) {
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
  const double below = std::min(v, d.fc * d.vj), gap = 1 - below / d.vj, power = std::pow(gap, -d.m);
  const double area = d.cjo * d.vj;
  capacitance = d.cjo * power;
  charge = d.m == 1 ? -area * std::log(gap) : area / (1 - d.m) * (1 - power * gap);
  if (v > below) {
    const double above = v - below, rise = d.cjo * d.m / d.vj * power / gap * above;
    charge += above * (capacitance + 0.5 * rise);
    capacitance += rise;
  }
}

double limited_forward(double v, double before, double vt) {
  const double step = (v - before) / vt;
  if (before <= 0) return vt * std::log(std::max(v, vt) / vt);
  return before + vt * (step > 0 ? 2 + std::log(step - 2) : -2 - std::log(2 - step));
}

void Diode::at(const double* voltage, Law out) const {
  const double v = *voltage;
  double current = 0, conductance = 0, charge = 0, capacitance = 0;
  ideal(*this, v, current, conductance);
  if (recombination > 0) recombine(*this, v, current, conductance);
  const double knee = v >= -3 * vt ? knee_forward : knee_reverse;
  if (std::isfinite(knee) && current != 0 && (current > 0) == (v >= -3 * vt)) {      // forward and reverse knee
    const double root = std::sqrt(std::abs(current) / knee);
    current /= 1 + root;
    conductance *= (1 + 0.5 * root) / ((1 + root) * (1 + root));
  }
  current += gmin * v;
  conductance += gmin;
  if (cjo > 0) depletion(*this, v, charge, capacitance);
  if (tt > 0) {
    charge += tt * current;
    capacitance += tt * conductance;
  }
  *out.current = current, *out.conductance = conductance, *out.charge = charge, *out.capacitance = capacitance;
}

// The voltage of the next linearization, limited so that the exponential does not overshoot.
double Diode::limited(double v, double before) const {
  if (v > 0) return std::abs(v - before) > 2 * vt && v > critical(vt) ? limited_forward(v, before, vt) : v;
  const double beyond = -(v + breakdown);
  if (breakdown < kNoBreakdown && before - v > 2 * vt_breakdown && beyond > critical(vt_breakdown))
    return -limited_forward(beyond, -(before + breakdown), vt_breakdown) - breakdown;
  return v;
}

// The tolerance is relative to the voltage in the exponent, forward or beyond breakdown. A tolerance relative to high node
// voltages would allow several times the current, and so would an absolute one above the thermal voltage.
void Diode::tolerance(const double* v, double reltol, double vntol, double* out) const {
  const double forward = std::abs(*v), beyond = breakdown < kNoBreakdown ? std::abs(*v + breakdown) : kInfinity;
  *out = std::min(forward, beyond) * reltol + std::min(vntol, beyond < forward ? vt_breakdown : vt);
}

}  // namespace

Kind diode() { return kind<Diode>(declaration()); }

}  // namespace ms::circuit
