// Numbers, built-in functions and the order in which parameters are evaluated; see values.hpp.
#include "values.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "expression.hpp"
#include "native/text/decimal.hpp"

namespace ms::circuit {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }
bool in_unit(char c) { return c == '.' || static_cast<unsigned char>(c) >= 0x80; }          // or in a name

// True if the whole text is one {expression} or 'expression'; {a}*{b} is not.
bool is_expression(std::string_view text) {
  if (text.size() < 2 || (text[0] != '{' && text[0] != '\'')) return false;
  if (text[0] == '\'') return text.find('\'', 1) == text.size() - 1;
  int depth = 0;
  for (size_t k = 0; k + 1 < text.size(); ++k) {
    depth += (text[k] == '{') - (text[k] == '}');
    if (depth == 0) return false;
  }
  return text.back() == '}';
}

constexpr double kMil = 25.4e-6;               // meter

double suffix(const char*& at, const char* end) {
  const std::string_view rest(at, static_cast<size_t>(end - at));
  if (rest.starts_with("meg")) return at += 3, 1e6;
  if (rest.starts_with("mil")) return at += 3, kMil;
  for (const std::string_view micro : {"\xc2\xb5", "\xce\xbc", "\xb5"})           // the sign, the Greek letter, the sign in Latin-1
    if (rest.starts_with(micro)) return at += micro.size(), 1e-6;
  if (rest.empty()) return 1;
  switch (rest[0]) {
    case 't': return ++at, 1e12;
    case 'g': return ++at, 1e9;
    case 'k': return ++at, 1e3;
    case 'm': return ++at, 1e-3;
    case 'u': return ++at, 1e-6;
    case 'n': return ++at, 1e-9;
    case 'p': return ++at, 1e-12;
    case 'f': return ++at, 1e-15;
    default: return 1;
  }
}

// 4k7 is 4.7k: the digits behind the suffix are those behind the decimal point.
double with_fraction(const char* from, const char* stop, const char*& at, const char* end) {
  std::string digits = std::string(from, stop) + '.';
  for (; at < end && digit(*at); ++at) digits += *at;
  return read_decimal(digits.data(), digits.data() + digits.size()).value;
}

// Applies an exponent of Fortran (1d3) and skips an 'e' without digits (1eu is a millionth), as in ngspice.
void exponent(const char*& at, const char* end, double& value) {
  if (at == end) return;
  const char* digits = at + 1;
  if (digits < end && (*digits == '+' || *digits == '-')) ++digits;
  if (*at == 'd' && digits < end && digit(*digits)) {
    double power = 0;
    const bool minus = at[1] == '-';
    for (at = digits; at < end && digit(*at); ++at) power = 10 * power + (*at - '0');
    value = minus ? value / std::pow(10.0, power) : value * std::pow(10.0, power);
  } else if (*at == 'e') {
    ++at;
  }
}

}  // namespace

bool is_in_name(char c) { return is_letter(c) || digit(c) || c == '_'; }

bool read_number(const char*& at, const char* end, double& value) {
  if (at == end || !(digit(*at) || (*at == '.' && at + 1 < end && digit(at[1])))) return false;
  const char* const from = at;
  const Decimal read = read_decimal(at, end);
  if (read.stop == at) return false;
  value = read.value;
  at = read.stop;
  exponent(at, end, value);
  const bool plain = at == read.stop && std::all_of(from, at, digit);
  // A division rounds once: 22p is the double nearest to 22e-12, not 22 times the double nearest to 1e-12.
  const double factor = suffix(at, end);
  if (plain && factor != 1 && factor != kMil && at < end && digit(*at)) value = with_fraction(from, read.stop, at, end);
  value = factor < 1 && factor != kMil ? value / std::round(1 / factor) : value * factor;
  for (;; ++at) {
    const std::string_view rest(at, static_cast<size_t>(end - at));
    if (rest.starts_with("\xce\xa9")) ++at;                  // two bytes of Omega, the Greek letter
    else if (rest.starts_with("\xe2\x84\xa6")) at += 2;       // three of the ohm sign
    else if (rest.empty() || !is_letter(rest[0])) break;
  }
  return std::isfinite(value);
}

namespace {

// Iterates over the names in a text that may be parameters or functions.
class NamesIn {
 public:
  // `whole`: the text is one word, a name or an expression.
  NamesIn(std::string_view text, bool whole) : at_(text.data()), end_(at_ + text.size()), whole_(whole && !is_expression(text)) {}

  bool next(std::string_view& name, bool& is_call) {
    is_call = false;
    if (std::exchange(whole_, false)) return name = {at_, static_cast<size_t>(end_ - at_)}, at_ = end_, !name.empty();
    for (;;) {
      while (at_ < end_ && !is_in_name(*at_)) ++at_;
      const char* from = at_;
      while (at_ < end_ && (is_in_name(*at_) || (digit(*from) && in_unit(*at_)))) ++at_;       // a number includes its unit
      name = {from, static_cast<size_t>(at_ - from)};
      if (name.empty()) return false;
      if (digit(*from)) continue;
      const char* after = at_;
      while (after < end_ && is_blank(*after)) ++after;
      is_call = after < end_ && *after == '(';
      if (!is_call || (name != "v" && name != "i")) return true;
      while (at_ < end_ && *at_ != ')') ++at_;            // v(node) has no parameter
    }
  }

 private:
  const char* at_;
  const char* end_;
  bool whole_;
};

}  // namespace

bool built_in(std::string_view name, int count, const double* x, double& value) {
  const auto is = [&](std::string_view known, int arguments) { return name == known && count == arguments; };
  if (is("sqrt", 1)) return value = std::sqrt(x[0]), true;
  if (is("exp", 1)) return value = std::exp(x[0]), true;
  if (is("log", 1) || is("ln", 1)) return value = std::log(x[0]), true;
  if (is("log10", 1)) return value = std::log10(x[0]), true;
  if (is("sin", 1)) return value = std::sin(x[0]), true;
  if (is("cos", 1)) return value = std::cos(x[0]), true;
  if (is("tan", 1)) return value = std::tan(x[0]), true;
  if (is("asin", 1)) return value = std::asin(x[0]), true;
  if (is("acos", 1)) return value = std::acos(x[0]), true;
  if (is("atan", 1) || is("arctan", 1)) return value = std::atan(x[0]), true;
  if (is("sinh", 1)) return value = std::sinh(x[0]), true;
  if (is("cosh", 1)) return value = std::cosh(x[0]), true;
  if (is("tanh", 1)) return value = std::tanh(x[0]), true;
  if (is("asinh", 1)) return value = std::asinh(x[0]), true;
  if (is("acosh", 1)) return value = std::acosh(x[0]), true;
  if (is("atanh", 1)) return value = std::atanh(x[0]), true;
  if (is("abs", 1)) return value = std::fabs(x[0]), true;
  if (is("sqr", 1)) return value = x[0] * x[0], true;
  if (is("int", 1)) return value = std::trunc(x[0]), true;
  if (is("nint", 1)) return value = std::nearbyint(x[0]), true;
  if (is("floor", 1)) return value = std::floor(x[0]), true;
  if (is("ceil", 1)) return value = std::ceil(x[0]), true;
  if (is("sgn", 1)) return value = x[0] > 0 ? 1 : x[0] < 0 ? -1 : 0, true;
  if (is("pow", 2)) return value = std::pow(x[0], x[1]), true;
  if (is("min", 2)) return value = std::fmin(x[0], x[1]), true;
  if (is("max", 2)) return value = std::fmax(x[0], x[1]), true;
  if (is("if", 3) || is("ternary_fcn", 3)) return value = x[0] != 0 ? x[1] : x[2], true;
  return false;
}

bool literal(std::string_view word, double& value) {
  const char* at = word.data();
  const char* end = at + word.size();
  const bool minus = word.starts_with('-');
  if (minus || word.starts_with('+')) ++at;
  if (!read_number(at, end, value) || (at != end && *at != '$')) return false;
  if (minus) value = -value;
  return true;
}

double Parameters::value(std::string_view word, const Line& line) {
  double x = 0;
  if (literal(word, x)) return x;
  require(word, line, false);
  return computed(word, line, false);
}

double Parameters::formula(std::string_view text, const Line& line) {
  double x = 0;
  if (literal(text, x)) return x;
  require(text, line, true);
  return computed(text, line, true);
}

LinearForm Parameters::linear_form(std::string_view text, const Line& line) {
  if (is_expression(text)) text = text.substr(1, text.size() - 2);
  require(text, line, true);
  return Expression<LinearForm>(*this, text, line).whole();
}

void Parameters::require_values() {
  std::vector<DeckError> wrong;
  for (auto& [name, p] : own_) {
    if (p.state == State::known || p.text.starts_with('"')) continue;
    try {
      require(name, *p.line, false);
    } catch (const NoFunction&) {                // agauss(), mc(), ...: an error only where the value is needed
    } catch (const DeckError& bad) {
      wrong.push_back(bad);
    }
  }
  const auto before = [](const DeckError& a, const DeckError& b) {
    return std::pair(a.place.file, a.place.line) < std::pair(b.place.file, b.place.line);
  };
  if (!wrong.empty()) throw *std::min_element(wrong.begin(), wrong.end(), before);
}

std::pair<Parameters*, Parameter*> Parameters::find(std::string_view name) {
  for (Parameters* scope = this; scope; scope = scope->outer_) {
    const auto found = scope->own_.find(name);
    if (found != scope->own_.end()) return {scope, &found->second};
  }
  return {nullptr, nullptr};
}

const Parameter* Parameters::known(std::string_view name) const {
  for (const Parameters* scope = this; scope; scope = scope->outer_) {
    const auto found = scope->own_.find(name);
    if (found != scope->own_.end() && found->second.state == State::known) return &found->second;
  }
  return nullptr;
}

Function* Parameters::function(std::string_view name) {
  for (Parameters* scope = this; scope; scope = scope->outer_) {
    const auto found = scope->functions_.find(name);
    if (found != scope->functions_.end()) return &found->second;
  }
  return nullptr;
}

namespace {

struct Open {                                  // a text that is being scanned for names, and its parameter or function
  Parameters* scope;
  Parameter* parameter;
  Function* function;
  const Line* line;
  NamesIn names;
};

// Resets the busy flags after an error: other parameters are evaluated later.
struct Stack {
  std::vector<Open> open;
  ~Stack() {
    for (const Open& o : open) {
      if (o.parameter) o.parameter->state = Parameter::State::text;
      if (o.function) o.function->busy = false;
    }
  }
};

}  // namespace

void Parameters::require(std::string_view text, const Line& line, bool formula) {
  Stack stack{{{this, nullptr, nullptr, &line, NamesIn(text, !formula)}}};
  std::vector<Open>& open = stack.open;
  std::string_view name;
  bool is_call = false;
  while (!open.empty()) {
    Open& last = open.back();
    if (!last.names.next(name, is_call)) {
      if (Parameter* p = last.parameter) p->value = last.scope->computed(p->text, *p->line, true), p->state = State::known;
      if (Function* f = last.function) f->busy = false, f->scanned = true;
      open.pop_back();
      continue;
    }
    if (last.function && std::count(last.function->arguments.begin(), last.function->arguments.end(), name)) continue;
    if (is_call) {
      Function* f = last.scope->function(name);
      if (!f || f->scanned) continue;
      charge(static_cast<int64_t>(f->body.size()), *last.line, name);
      if (f->busy) throw DeckError{last.line->at(name), "the function " + in_quotes(name) + " calls itself"};
      f->busy = true;
      open.push_back({f->scope, nullptr, f, f->line, NamesIn(f->body, false)});
      continue;
    }
    auto [scope, p] = last.scope->find(name);
    if (p && p == last.parameter && scope->outer_)        // r = {r} inside a subcircuit refers to the outer r
      if (const auto around = scope->outer_->find(name); around.second) scope = around.first, p = around.second;
    if (!p || p->state == State::known) continue;         // computed() reports unknown names
    if (p->state == State::busy) throw DeckError{last.line->at(name), "the parameter " + in_quotes(name) + " depends on itself"};
    p->state = State::busy;
    open.push_back({scope, p, nullptr, p->line, NamesIn(p->text, false)});
  }
}

void Parameters::charge(int64_t cost, const Line& line, std::string_view word) {
  interrupt::poll();
  if ((*left_ -= 1 + cost) < 0)
    throw DeckError{line.at(word), "the expressions of the deck need too many calls of .func functions: does each of them call another one several times?"};
}

double Parameters::computed(std::string_view text, const Line& line, bool formula) {
  double x = 0;
  if (literal(text, x)) return x;
  if (text.starts_with('"')) throw DeckError{line.at(text), "the text " + in_quotes(text) + " is not a number"};
  if (is_expression(text)) return Expression<double>(*this, text.substr(1, text.size() - 2), line).whole();
  if (const Parameter* found = known(text)) return found->value;
  const bool plain_name = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return is_in_name(c) || c == '.'; });
  if (formula && !plain_name) return Expression<double>(*this, text, line).whole();
  const bool name = !text.empty() && is_letter(text[0]), operators = text.find_first_of("*/") != std::string_view::npos;
  throw DeckError{line.at(text), in_quotes(text) + (name ? " is neither a number nor a parameter" : " is not a number") +
                               (operators ? ": write expressions in { } or ' '" : "")};
}

}  // namespace ms::circuit
