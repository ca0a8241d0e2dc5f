// Controlled sources: E G F H with a gain, a polynomial or an expression, and B. What is linear becomes elements of these letters:
// the terms of a voltage are sources in series, with nodes `e1#1`, ... between them, and those of a current are in parallel. The
// first term has the name of the source, the others follow as `e1#2`, ...
#include <algorithm>
#include <cmath>
#include <utility>

#include "reader.hpp"

namespace ms::circuit {

struct Reader::Output {                        // what a source drives
  std::string_view name;
  int32_t plus, minus;
  bool is_voltage;
};

namespace {

constexpr const char* nonlinear = "controlled sources that are not linear";

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
    pend(letter, source, words, at);
  }
  double gain = number(words, at, "the gain");
  options(words, at, [&](std::string_view key, double x) {
    if (key != "m" || (letter != 'g' && letter != 'f')) return false;
    if (!(x > 0)) words.fail(key, "m has to be positive");
    gain *= x;
    return true;
  });
  g.values.push_back(letter == 'g' ? gain * at.times : gain);
}

// The latest f or h element is controlled by this source.
void Reader::pend(char letter, std::string_view source, const Words& words, Instance& at) {
  const double times = letter == 'f' ? at.times : 1;
  pending_.push_back({letter, group(letter).names.size() - 1, std::string(full(source, at)), words.line().at(source), times});
}

// E1 a b VALUE={...}, and B1 a b V=..., whose words up to the nodes were taken: `words` stands before the keyword.
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
  if (!Words(left).next().empty()) words.fail(head, "the expression of " + in_quotes(name) + " is followed by something else");
  double gain = 1, tc1 = 0, tc2 = 0, temp = missing, dtemp = missing, times = 1;
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
    if (a.name == "m" && letter != 'e') times = x;
    else if (a.name == "tc1") tc1 = x;
    else if (a.name == "tc2") tc2 = x;
    else if (a.name == "temp") temp = x;
    else if (a.name == "dtemp") dtemp = x;
    else words.fail(a.name, "the parameter " + in_quotes(a.name) + " is not known here");
  }
  if (!source) words.fail(name, in_quotes(name) + " has no expression that says what it is");
  if (letter == 'f' || letter == 'h')
    words.fail(name, in_quotes(name) + ": " + in_quotes(source->name) + " is not supported; write it as E, G or B");
  if (!(times > 0)) words.fail(name, "m has to be positive");
  const double d = celsius(temp, dtemp, name, words) - out_.temperatures.nominal;
  gain = (1 + tc1 * d + tc2 * d * d) * (is_voltage ? 1 : times);
  try {
    emit({name, plus, minus, is_voltage}, at.parameters.linear_form(source->text, words.line()), gain, words, at);
  } catch (const Nonlinear& n) {
    definitions_.unsupported.add(nonlinear, name, n.place);
  }
}

void Reader::behavioral(std::string_view name, Words& words, Instance& at) {
  Words ahead(words);
  ahead.next(), ahead.next();
  formula('b', name, ahead, at);
}

// POLY(n), n controls, coefficients: the first is the constant, the next n belong to the controls; further ones have to be 0.
void Reader::polynomial(char letter, std::string_view name, Words& words, Instance& at) {
  const int32_t plus = node(words.next(), words, at), minus = node(words.next(), words, at);
  const std::string_view keyword = words.next();
  const double n = number(words, at, "the number of controls of poly");
  if (!(n >= 1 && n <= 1000 && n == std::floor(n))) words.fail(keyword, "poly needs the number of its controls, 1 to 1000");
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
  double gain = 1;
  options(words, at, [&](std::string_view key, double x) {
    if (key != "m" || (letter != 'g' && letter != 'f')) return false;
    if (!(x > 0)) words.fail(key, "m has to be positive");
    return gain = x, true;
  });
  form.constant = coefficients[0];
  for (size_t k = 0; k < form.terms.size(); ++k) {
    const size_t c = 1 + k / per_control;
    form.terms[k].factor *= c < coefficients.size() ? coefficients[c] : 0;
  }
  const size_t linear = std::min(coefficients.size(), 1 + static_cast<size_t>(n));
  if (std::any_of(coefficients.begin() + static_cast<long>(linear), coefficients.end(), [](double c) { return c != 0; }))
    return definitions_.unsupported.add(nonlinear, name, words.line().at(keyword));
  emit({name, plus, minus, letter == 'e' || letter == 'h'}, form, gain, words, at);
}

namespace {

struct Part {                                  // one element of the result
  char kind;                                   // v: the voltage between two nodes, i: the current of a source, c: a constant
  int32_t a, b;
  std::string_view source;
  double gain;
};

// Node voltages with opposite factors become one difference.
std::vector<Part> differences_of(const std::vector<std::pair<int32_t, double>>& nodes) {
  std::vector<Part> out;
  std::vector<char> taken(nodes.size(), 0);
  for (size_t k = 0; k < nodes.size(); ++k) {
    if (taken[k] || nodes[k].second == 0) continue;
    int32_t other = -1;
    for (size_t j = k + 1; j < nodes.size() && other < 0; ++j)
      if (!taken[j] && nodes[j].second == -nodes[k].second) taken[j] = 1, other = nodes[j].first;
    out.push_back({'v', nodes[k].first, other, {}, nodes[k].second});
  }
  return out;
}

}  // namespace

// The elements that a linear form makes of a source.
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
    if (c.kind == 'i') pend(letter, c.source, words, at);
    const double value = letter == 'g' || letter == 'i' ? c.gain * at.times : c.gain;
    g.values.push_back(value);
    if (c.kind == 'c') g.values.insert(g.values.end(), {0.0, 0.0});
    if (letter == 'v' && at.times != 1) source_times_[g.names.back()] = at.times;
    if (to.is_voltage) plus = minus;
  }
}

}  // namespace ms::circuit
