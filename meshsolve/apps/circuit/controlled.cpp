// Controlled sources: E G F H with a gain, a polynomial or an expression, and B. Each term of a linear source becomes an element.
// The terms of a voltage are sources in series with nodes `e1#1`, ... between them; the terms of a current are in parallel. The
// first term has the name of the source, the others are `e1#2`, ...
#include <algorithm>
#include <cmath>
#include <utility>

#include "reader.hpp"

namespace ms::circuit {

struct Reader::Output {                        // the nodes that a source drives
  std::string_view name;
  int32_t plus, minus;
  bool is_voltage;
};

namespace {

constexpr const char* kNonlinear = "controlled sources that are not linear";

bool begins_formula(std::string_view next) { return next == "=" || next.starts_with('{') || next.starts_with('\''); }

}  // namespace

void Reader::controlled(char letter, std::string_view name, Words& words, Instance& at) {
  Words ahead(words);
  ahead.next(), ahead.next();
  const Words before(ahead);
  const std::string_view kind = ahead.next(), next = ahead.peek();
  if (kind == "poly") return polynomial(letter, name, words, at);
  if ((kind == "value" || kind == "vol" || kind == "cur") && begins_formula(next)) return formula(letter, name, before, at);
  if (kind == "pwl" || ((kind == "table" || kind == "laplace" || kind == "freq") && begins_formula(next)))
    return definitions_.unsupported.add("controlled sources with " + std::string(kind), name, words.line().at(kind));
  Group& g = begin(letter, name, words, at);
  if (g.arity == 2) {
    const std::string_view source = words.next();
    if (source.empty()) words.fail(name, in_quotes(name) + " has no controlling voltage source");
    defer_reference(letter, source, words, at);
  }
  double gain = number(words, at, "the gain");
  gain *= copies_of_current(letter, words, at);
  g.values.push_back(letter == 'g' ? gain * at.copies : gain);
}

// m= of a G or F element, the only option.
double Reader::copies_of_current(char letter, Words& words, Instance& at) {
  double m = 1;
  options(words, at, [&](std::string_view key, double x) {
    if (key != "m" || (letter != 'g' && letter != 'f')) return false;
    return m = require_copies(x, words.line().at(key)), true;
  });
  return m;
}

// Records the controlling source of the latest f or h element.
void Reader::defer_reference(char letter, std::string_view source, const Words& words, Instance& at) {
  const double copies = letter == 'f' ? at.copies : 1;
  pending_.push_back({letter, group(letter).names.size() - 1, std::string(full(source, at)), words.line().at(source), copies});
}

// E1 a b VALUE={...}, B1 a b V=...: `words` begins at the keyword.
void Reader::formula(char letter, std::string_view name, const Words& words, Instance& at) {
  Words from(words.line());
  from.next();
  const int32_t plus = node(from.next(), from, at), minus = node(from.next(), from, at);
  std::vector<Assignment> given;
  std::string_view text = words.rest();
  Words keyword(words);
  const std::string_view key = keyword.next();
  if (!keyword.take("=") && !keyword.peek().empty()) {           // VALUE {...}
    Words after(keyword);
    given.push_back({key, after.next(), &words.line()});
    text = after.rest();
  }
  const std::string_view head = split_assignments(words.line(), text, given);
  const Line left{head, words.line().place};
  if (!Words(left).next().empty()) words.fail(head, "unexpected text after the expression of " + in_quotes(name));
  double gain = 1, tc1 = 0, tc2 = 0, temp = kMissing, dtemp = kMissing, copies = 1;
  const Assignment* source = nullptr;
  bool is_voltage = letter == 'e';
  for (const Assignment& a : given) {
    const bool is_source = letter == 'b' ? a.name == "v" || a.name == "i" : a.name == "value" || a.name == (letter == 'e' ? "vol" : "cur");
    if (is_source && !source) {
      source = &a;
      if (letter == 'b') is_voltage = a.name == "v";
      continue;
    }
    const double x = at.parameters.formula(a.text, words.line());
    if (a.name == "m" && letter != 'e') copies = x;
    else if (a.name == "tc1") tc1 = x;
    else if (a.name == "tc2") tc2 = x;
    else if (a.name == "temp") temp = x;
    else if (a.name == "dtemp") dtemp = x;
    else words.fail(a.name, "the element has no parameter " + in_quotes(a.name));
  }
  if (!source) words.fail(name, in_quotes(name) + " has no expression, such as " + (letter == 'b' ? "V={...}" : "VALUE={...}"));
  if (letter == 'f' || letter == 'h')
    words.fail(name, in_quotes(source->name) + " of " + in_quotes(name) + " is not supported: write the source as E, G or B");
  require_copies(copies, words.line().at(name));
  const double d = celsius(temp, dtemp, name, words) - out_.temperatures.nominal;
  gain = (1 + tc1 * d + tc2 * d * d) * (is_voltage ? 1 : copies);
  try {
    emit({name, plus, minus, is_voltage}, at.parameters.linear_form(source->text, words.line()), gain, words, at);
  } catch (const Nonlinear& n) {
    definitions_.unsupported.add(kNonlinear, name, n.place);
  }
}

void Reader::behavioral(std::string_view name, Words& words, Instance& at) {
  Words ahead(words);
  ahead.next(), ahead.next();
  formula('b', name, ahead, at);
}

// POLY(n), n controls, coefficients: first the constant, then one for each control. Further ones must be 0.
void Reader::polynomial(char letter, std::string_view name, Words& words, Instance& at) {
  const int32_t plus = node(words.next(), words, at), minus = node(words.next(), words, at);
  const std::string_view keyword = words.next();
  const double n = number(words, at, "the number of controls of poly");
  if (!(n >= 1 && n <= 1000 && n == std::floor(n)))
    words.fail(keyword, "the number of controls of poly must be an integer from 1 to 1000, got " + shown(n));
  LinearForm form(0);
  for (int k = 0; k < static_cast<int>(n); ++k)
    for (const double sign : {1.0, -1.0}) {
      if (sign < 0 && (letter == 'f' || letter == 'h')) break;
      const std::string_view control = words.next();
      if (control.empty() || control == "=") words.fail(name, in_quotes(name) + " ends before the last control of poly");
      form.terms.push_back({letter == 'f' || letter == 'h' ? 'i' : 'v', control, sign});
    }
  const size_t per_control = form.terms.size() / static_cast<size_t>(n);
  std::vector<double> coefficients;
  while (number_follows(words)) coefficients.push_back(number(words, at, "a coefficient"));
  if (coefficients.empty()) words.fail(name, in_quotes(name) + " has no coefficients");
  const double gain = copies_of_current(letter, words, at);
  if (n == 1 && coefficients.size() == 1)
    deck_.notes.add(words.line().at(keyword), "poly(1) with one coefficient is a constant here and in ngspice 39, but a gain in SPICE2 and "
                                              "PSpice: write poly(1) ... 0 GAIN for a gain");
  form.constant = coefficients[0];
  for (size_t k = 0; k < form.terms.size(); ++k) {
    const size_t c = 1 + k / per_control;
    form.terms[k].factor *= c < coefficients.size() ? coefficients[c] : 0;
  }
  const size_t linear = std::min(coefficients.size(), 1 + static_cast<size_t>(n));
  if (std::any_of(coefficients.begin() + static_cast<long>(linear), coefficients.end(), [](double c) { return c != 0; }))
    return definitions_.unsupported.add(kNonlinear, name, words.line().at(keyword));
  emit({name, plus, minus, letter == 'e' || letter == 'h'}, form, gain, words, at);
}

namespace {

struct Part {                                  // one element of the result
  char kind;                                   // v: voltage between two nodes; i: current of a source; c: constant
  int32_t a, b;
  std::string_view source;
  double gain;
};

// Combines node voltages with opposite factors into differences.
std::vector<Part> differences_of(const std::vector<std::pair<int32_t, double>>& nodes) {
  std::vector<Part> out;
  std::vector<char> used(nodes.size(), 0);
  for (size_t k = 0; k < nodes.size(); ++k) {
    if (used[k] || nodes[k].second == 0) continue;
    int32_t other = -1;
    for (size_t j = k + 1; j < nodes.size() && other < 0; ++j)
      if (!used[j] && nodes[j].second == -nodes[k].second) used[j] = 1, other = nodes[j].first;
    out.push_back({'v', nodes[k].first, other, {}, nodes[k].second});
  }
  return out;
}

}  // namespace

// Adds the elements of a source with a linear form.
void Reader::emit(const Output& to, const LinearForm& form, double gain, const Words& words, Instance& at) {
  std::vector<std::pair<int32_t, double>> nodes;
  std::vector<std::pair<std::string_view, double>> sources;
  const auto add_to = [](auto& sums, const auto& key, double x) {
    for (auto& [known, sum] : sums)
      if (known == key) return void(sum += x);
    sums.emplace_back(key, x);
  };
  for (const LinearForm::Term& t : form.terms) {
    if (t.kind == 'i') {
      add_to(sources, t.name, t.factor * gain);
      continue;
    }
    const int32_t n = node(t.name, words, at);
    if (n >= 0) add_to(nodes, n, t.factor * gain);
  }
  std::vector<Part> parts = differences_of(nodes);
  for (const auto& [source, factor] : sources) parts.push_back({'i', -1, -1, source, factor});
  if (form.constant * gain != 0 || parts.empty()) parts.push_back({'c', -1, -1, {}, form.constant * gain});
  const std::string whole(full(to.name, at));
  int32_t plus = to.plus;
  for (size_t k = 0; k < parts.size(); ++k) {
    const Part& c = parts[k];
    const std::string_view pair = c.kind == 'v' ? "eg" : c.kind == 'i' ? "hf" : "vi";
    const char letter = pair[to.is_voltage ? 0 : 1];
    const bool is_last = !to.is_voltage || k + 1 == parts.size();
    const int32_t minus = is_last ? to.minus : out_.nodes.add(whole + "#" + std::to_string(k + 1));
    const int32_t ends[] = {plus, minus, c.a, c.b};
    Group& g = add(letter, k ? whole + "#" + std::to_string(k + 1) : whole, ends, to.name, words);
    if (c.kind == 'i') defer_reference(letter, c.source, words, at);
    const double value = letter == 'g' || letter == 'i' ? c.gain * at.copies : c.gain;
    g.values.push_back(value);
    if (c.kind == 'c') g.values.insert(g.values.end(), {0.0, 0.0});
    if (letter == 'v' && at.copies != 1) source_copies_[g.names.back()] = at.copies;
    if (to.is_voltage) plus = minus;
  }
}

}  // namespace ms::circuit
