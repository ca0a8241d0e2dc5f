// Resistors, capacitors, inductors, independent sources and the devices of the table. Values of R, C and L from geometry, models
// and temperature follow ngspice 39.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "reader.hpp"

namespace ms::circuit {
namespace {

constexpr double kDefaultSize = 10e-6;         // meter: default length and width of R and C

bool is_size(std::string_view key) { return key == "l" || key == "w"; }

bool is_type(char letter, std::string_view type) {
  if (letter == 'r') return type == "r" || type == "res";
  return type == std::string_view(&letter, 1) || (letter == 'l' && type == "ind") || (letter == 'c' && type == "cap");
}

}  // namespace

// The parameters of one R, C or L and of its model.
struct Reader::Passive {
  char letter;
  const Model* model = nullptr;
  double value = kMissing, initial = kMissing, copies = 1, scale = 1, length = kMissing, width = kMissing;
  double tc1 = kMissing, tc2 = kMissing, tce = kMissing, temp = kMissing, dtemp = kMissing;

  // Sets a parameter of the element line. False if there is no such parameter.
  bool take(std::string_view key, double x) {
    if (key.size() == 1 && key[0] == letter) value = x;
    else if (key == "ic" && letter != 'r') initial = x;
    else if (key == "m") copies = x;
    else if (key == "scale") scale = x;
    else if (key == "tc1") tc1 = x;
    else if (key == "tc2") tc2 = x;
    else if (key == "tce" && letter == 'r') tce = x;
    else if (key == "temp") temp = x;
    else if (key == "dtemp") dtemp = x;
    else if (is_size(key) && letter != 'l') (key == "l" ? length : width) = x;
    else return (key == "noisy" || key == "noise") && letter == 'r';
    return true;
  }

  // The last value of a model parameter with one of these names, or `otherwise`.
  double of_model(std::initializer_list<std::string_view> names, double otherwise) const {
    if (!model) return otherwise;
    double out = otherwise;
    for (const auto& [key, x] : model->values)
      if (std::find(names.begin(), names.end(), key) != names.end()) out = x;
    return out;
  }

  // True for model parameters that are used or have no effect on these analyses.
  bool is_known(std::string_view key) const {
    static constexpr std::array<std::string_view, 15> common = {
        "tc1", "tc1r", "tc1c", "tc2", "tc2r", "tc2c", "tnom", "kf", "af", "lf", "wf", "ef", "bv_max", "vc_max", "level"};
    static constexpr std::array<std::string_view, 10> resistor = {
        "rsh", "r", "res", "tce", "tcer", "defw", "narrow", "dw", "short", "dlr"};
    static constexpr std::array<std::string_view, 10> capacitor = {
        "cap", "c", "cj", "cox", "cjsw", "capsw", "defw", "defl", "narrow", "short"};
    const auto among = [&](const auto& names) { return std::find(names.begin(), names.end(), key) != names.end(); };
    if (among(common)) return true;
    return letter == 'r' ? among(resistor) : letter == 'c' ? among(capacitor) : key == "ind" || key == "l";
  }

  double size(double given, std::string_view key) const { return std::isnan(given) ? of_model({key}, kDefaultSize) : given; }

  // The value at the nominal temperature, or NaN if neither line nor model gives one.
  double nominal() const {
    if (!std::isnan(value)) return value;
    if (letter == 'l') return of_model({"ind", "l"}, kMissing);
    const double w = size(width, "defw"), l = size(length, letter == 'c' ? "defl" : "");
    const double narrow = of_model({"narrow", "dw"}, 0), shorter = of_model({"short", "dlr"}, 0);
    if (letter == 'r') {
      const double sheet = of_model({"rsh"}, 0);
      return sheet * l * w > 0 ? sheet * (l - 2 * shorter) / (w - 2 * narrow) : of_model({"r", "res"}, kMissing);
    }
    const double cap = of_model({"cap", "c"}, kMissing), area = of_model({"cj", "cox"}, 0), side = of_model({"cjsw", "capsw"}, 0);
    if (!std::isnan(cap) || (area == 0 && side == 0)) return cap;
    return area * (w - narrow) * (l - shorter) + side * 2 * ((l - shorter) + (w - narrow));
  }

  // The factor on the nominal value at a temperature in degrees Celsius.
  double factor(double at, double global_nominal) const {
    const double d = at - of_model({"tnom"}, global_nominal);
    const double e = std::isnan(tce) ? of_model({"tce", "tcer"}, kMissing) : tce;
    if (letter == 'r' && !std::isnan(e)) return std::pow(1.01, e * d);
    const double a = std::isnan(tc1) ? of_model({"tc1", "tc1r", "tc1c"}, 0) : tc1;
    const double b = std::isnan(tc2) ? of_model({"tc2", "tc2r", "tc2c"}, 0) : tc2;
    return 1 + a * d + b * d * d;
  }
};

void Reader::passive(char letter, std::string_view name, Words& words, Instance& at) {
  Group& g = begin(letter, name, words, at);
  Passive p{letter};
  for (std::string_view word = words.peek(); !word.empty(); word = words.peek()) {          // value and model, in any order
    Words ahead(words);
    ahead.next();
    if (ahead.peek() == "=") break;
    int32_t model = -1;
    double x;
    if (!p.model && !literal(word, x)) p.model = find_model(word, at, model);
    if (p.model && model >= 0) {
      if (!is_type(letter, p.model->type))
        words.fail(word, "the model " + in_quotes(word) + " is of type " + in_quotes(p.model->type) + ", not " +
                             static_cast<char>(letter - 32));
      words.next();
    } else if (std::isnan(p.value)) {
      p.value = number(words, at, "the value");
    } else {
      break;
    }
  }
  options(words, at, [&](std::string_view key, double x) {
    if (key != "tc") return p.take(key, x);
    p.tc1 = x;
    if (number_follows(words)) p.tc2 = number(words, at, key);
    return true;
  });
  if (p.model) require_numbers(*p.model, [&](std::string_view key) { return p.is_known(key); });
  if (p.model)
    for (const auto& [key, x] : p.model->values)
      if (!p.is_known(key))
        deck_.notes.add(p.model->place, "the parameter " + in_quotes(key) + " of the model " + in_quotes(p.model->name) +
                                            " is unknown and has no effect");
  const double nominal = p.nominal(), celsius_ = celsius(p.temp, p.dtemp, name, words);
  if (std::isnan(nominal)) words.fail(name, in_quotes(name) + " has no value" + in_line(words.line()));
  const double copies = require_copies(p.copies, words.line().at(name)) * at.copies;
  const double whole = nominal * p.factor(celsius_, out_.temperatures.nominal) * p.scale;
  const double value = letter == 'c' ? whole * copies : whole / copies;
  if (letter == 'r' && value == 0) return short_circuit(g, at.copies);
  if (!std::isfinite(letter == 'r' ? 1 / value : value))
    words.fail(name, "the value of " + in_quotes(name) + " is out of range: " + shown(value));
  g.values.push_back(value);
  if (letter != 'r') g.values.push_back(letter == 'l' ? p.initial * at.copies : p.initial);
}

// The temperature of an element: temp=, or the temperature of the circuit plus dtemp=.
double Reader::celsius(double temp, double dtemp, std::string_view name, const Words& words) {
  if (!std::isnan(temp) && !std::isnan(dtemp))
    deck_.notes.add(words.line().at(name), "an element has temp= and dtemp=: dtemp= is ignored");
  const double out = std::isnan(temp) ? out_.temperatures.ambient + (std::isnan(dtemp) ? 0 : dtemp) : temp;
  if (!(out > -273.15 && out < 1e4)) words.fail(name, "the temperature of " + in_quotes(name) + " is out of range: " + shown(out));
  return out;
}

// Turns a resistor of 0 ohm into a voltage source of 0 V: the same equations, with its current as an unknown.
void Reader::short_circuit(Group& r, double copies) {
  Group& v = group('v');
  v.nodes.insert(v.nodes.end(), r.nodes.end() - 2, r.nodes.end());
  r.nodes.resize(r.nodes.size() - 2);
  source_.back() = static_cast<int32_t>(v.names.size());
  if (copies != 1) source_copies_[r.names.back()] = copies;
  for (auto member : {&Group::refs, &Group::names, &Group::files, &Group::lines}) {
    (v.*member).push_back((r.*member).back());
    (r.*member).pop_back();
  }
  v.values.insert(v.values.end(), {0.0, 0.0, 0.0});
}

// ---- independent sources --------------------------------------------------------------------------------------------------

namespace {

bool is_shape(std::string_view word) { return word == "pulse" || word == "sin" || word == "sine" || word == "exp" || word == "pwl"; }

bool is_unsupported_shape(std::string_view word) {
  return word == "sffm" || word == "am" || word == "trnoise" || word == "trrandom" || word == "external" || word == "pat";
}

void scale(WaveformData& w, double factor) {       // scales currents, not times, frequencies and angles
  for (size_t k = 0; k < w.values.size(); ++k)
    if (w.kind == 'w' ? k % 2 == 1 : k < 2) w.values[k] *= factor;
}

}  // namespace

void Reader::source(char letter, std::string_view name, Words& words, Instance& at) {
  Group& g = begin(letter, name, words, at);
  double dc = kMissing, ac = 0, phase = 0, copies = 1;
  int32_t wave = -1;
  bool first = true, small_signal = false;
  for (std::string_view word = words.next(); !word.empty(); word = words.next(), first = false) {
    if ((word == "dc" && !std::isnan(dc)) || (word == "ac" && std::exchange(small_signal, true))) {
      words.fail(word, "the source has a second " + std::string(word) + " value");
    } else if (word == "dc") {
      words.take("=");
      dc = number(words, at, "the dc value");
    } else if (word == "ac") {
      words.take("=");
      ac = number_follows(words) ? number(words, at, "the ac magnitude") : 1.0;
      phase = number_follows(words) ? number(words, at, "the ac phase") : 0.0;
    } else if (is_shape(word)) {
      if (wave >= 0) words.fail(word, "the source has a second waveform");
      wave = waveform(word, words, at);
    } else if (word == "m" && letter == 'i' && words.take("=")) {
      copies = require_copies(number(words, at, "m"), words.line().at(word));
    } else if (word == "distof1" || word == "distof2") {         // of .disto, which is ignored
      while (number_follows(words)) number(words, at, word);
    } else if (is_unsupported_shape(word)) {
      std::string kind(word);
      std::transform(kind.begin(), kind.end(), kind.begin(), [](char c) { return static_cast<char>(is_letter(c) ? c - 32 : c); });
      definitions_.unsupported.add(kind + " waveforms", name, words.line().at(word));
      break;
    } else if (first) {
      dc = at.parameters.value(word, words.line());
    } else {
      words.fail(word, "unexpected " + in_quotes(word) + ": DC, AC, PULSE, SIN, EXP or PWL is needed");
    }
  }
  if (std::isnan(dc) && wave < 0) dc = 0;
  copies *= letter == 'i' ? at.copies : 1;
  if (wave >= 0 && copies != 1) scale(out_.waveforms[wave], copies);
  g.values.insert(g.values.end(), {dc * copies, ac * copies, phase});
  g.refs.back() = wave;
}

int32_t Reader::waveform(std::string_view word, Words& words, Instance& at) {
  WaveformData w{word == "pwl" ? 'w' : word[0], {}};
  const bool pairs = w.kind == 'w';
  const auto ends = [&] {
    const std::string_view next = words.peek();
    Words ahead(words);
    ahead.next();
    return next.empty() || next == "ac" || next == "dc" || is_shape(next) || next.starts_with("distof") || ahead.peek() == "=";
  };
  while (!ends()) w.values.push_back(number(words, at, "a value"));
  for (std::string_view key = words.peek(); pairs && (key == "td" || key == "r"); key = words.peek()) {
    words.next(), words.take("=");
    const double x = number(words, at, key);
    if (key == "r" && x != -1) words.fail(key, "a PWL waveform that repeats, r=, is not supported: write its periods out");
    for (size_t k = 0; key == "td" && k < w.values.size(); k += 2) w.values[k] += x;
  }
  const size_t n = w.values.size(), most = w.kind == 'p' ? 8 : 6;
  if (n < 2 || (pairs ? n % 2 : n > most)) {
    const std::string needed = pairs ? "pairs of a time and a value" : "2 to " + std::to_string(most);
    words.fail(word, in_quotes(word) + " needs " + needed + (pairs ? "" : " values") + ", got " + std::to_string(n) + " numbers");
  }
  for (size_t k = 2; pairs && k < n; k += 2)
    if (w.values[k] < w.values[k - 2])
      words.fail(word, "the times of 'pwl' must ascend, got " + shown(w.values[k]) + " after " + shown(w.values[k - 2]));
  if (w.kind == 'p' && n == 8 && !(w.values[7] >= 0 && w.values[7] == std::floor(w.values[7])))
    words.fail(word, "the number of pulses must be an integer of at least 0, got " + shown(w.values[7]));
  for (size_t k = 3; k < std::min<size_t>(n, 7); ++k)          // rise, fall, width, period; tau1, tau2
    if (w.values[k] < 0 && (w.kind == 'p' || (w.kind == 'e' && k % 2)))
      words.fail(word, "the times of " + in_quotes(word) + " after the delay must be at least 0, got " + shown(w.values[k]));
  if (w.kind == 'e' && n > 4 && w.values[4] < w.values[2])
    words.fail(word, "the second delay of 'exp' must be at least the first one");
  out_.waveforms.push_back(std::move(w));
  return static_cast<int32_t>(out_.waveforms.size()) - 1;
}

// ---- devices --------------------------------------------------------------------------------------------------------------

// NAME NODES MODEL [first parameter without its name] KEY = VALUE ...
void Reader::device(const Declaration& what, std::string_view name, Words& words, Instance& at) {
  Group& g = begin(what.letter, name, words, at);
  const std::string_view model_name = words.next();
  if (model_name.empty()) words.fail(name, in_quotes(name) + " has no model" + in_line(words.line()));
  const Model* model = find_model(model_name, at, g.refs.back());
  if (!model) words.fail(model_name, "there is no model " + in_quotes(model_name));
  if (std::find(what.types.begin(), what.types.end(), model->type) == what.types.end())
    words.fail(model_name, "the model " + in_quotes(model_name) + " is of type " + in_quotes(model->type) +
                               ", not of a " + what.name);
  require_numbers(*model, [&](std::string_view key) { return what.accepts(key); });
  Values line;
  for (const LineParameter& p : what.line) line.push_back(p.otherwise);
  double copies = 1, temp = kMissing, dtemp = kMissing;
  words.take("off");
  if (number_follows(words)) line[0] = number(words, at, std::string("the ") + what.line[0].name);
  words.take("off");
  options(words, at, [&](std::string_view key, double value) {
    double* to = key == "m" ? &copies : key == "temp" ? &temp : key == "dtemp" ? &dtemp : nullptr;
    for (size_t k = 0; k < line.size(); ++k)
      if (key == what.line[k].name) to = &line[k];
    if (to) *to = value;
    words.take("off");
    return to != nullptr;
  });
  for (size_t k = 0; k < line.size(); ++k) {
    const LineParameter& p = what.line[k];
    if (p.range == Range::positive && !(line[k] * copies > 0))
      words.fail(name, std::string("the ") + p.name + " of a " + what.name + " must be positive, got " + shown(line[k] * copies));
    if (p.times_copies) line[k] *= copies * at.copies;
  }
  g.values.insert(g.values.end(), line.begin(), line.end());
  g.values.insert(g.values.end(), {celsius(temp, dtemp, name, words), copies * at.copies});
}

}  // namespace ms::circuit
