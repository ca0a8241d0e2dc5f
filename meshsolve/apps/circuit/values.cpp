// A recursive descent over the text of an expression; see values.hpp.
// Operators by rank: ?:  ||  &&  == != < <= > >=  + -  * / %  unary + - !  ** or ^. Of equal rank the left one comes first, also
// of powers, as in ngspice. 0 is false.
#include "values.hpp"

#include <cmath>
#include <numbers>
#include <vector>

#include "native/decimal.hpp"

namespace ms::circuit {
namespace {

constexpr int deepest = 200;                   // parentheses inside parentheses

bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool in_name(char c) { return letter(c) || digit(c) || c == '_'; }
bool in_unit(char c) { return c == '.' || static_cast<unsigned char>(c) >= 0x80; }          // besides what is in names
bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_expression(std::string_view word) { return word.size() >= 2 && (word[0] == '{' || word[0] == '\''); }

double suffix(const char*& at, const char* end) {
  const std::string_view rest(at, static_cast<size_t>(end - at));
  if (rest.starts_with("meg")) return at += 3, 1e6;
  if (rest.starts_with("mil")) return at += 3, 25.4e-6;
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

// The number at `at`, which begins with a digit or a point; goes past it, its suffix and its unit.
bool number(const char*& at, const char* end, double& value) {
  if (at == end || !(digit(*at) || (*at == '.' && at + 1 < end && digit(at[1])))) return false;
  const Decimal read = read_decimal(at, end);
  if (read.stop == at) return false;
  value = read.value;
  at = read.stop;
  // The power of ten joins the digits: 22p is the double next to 22e-12, not 22 times the one next to 1e-12.
  const double factor = suffix(at, end);
  value = factor < 1 && factor != 25.4e-6 ? value / std::round(1 / factor) : value * factor;
  for (;; ++at) {
    const std::string_view rest(at, static_cast<size_t>(end - at));
    if (rest.starts_with("\xce\xa9")) ++at;                  // two bytes of Omega, the Greek letter
    else if (rest.starts_with("\xe2\x84\xa6")) at += 2;       // three of the ohm sign
    else if (rest.empty() || !letter(rest[0])) break;
  }
  return std::isfinite(value);
}

// The names in the text of a value that may be parameters: those of an {expression} that are no functions, else the word.
class NamesIn {
 public:
  explicit NamesIn(std::string_view word) : at_(word.data()), end_(at_ + word.size()), plain_(!is_expression(word)) {}

  std::string_view next() {                    // empty at the end
    const char* from = at_;
    if (plain_) return at_ = end_, std::string_view(from, static_cast<size_t>(end_ - from));
    for (;;) {
      while (at_ < end_ && !in_name(*at_)) ++at_;
      from = at_;
      while (at_ < end_ && (in_name(*at_) || (digit(*from) && in_unit(*at_)))) ++at_;       // a number goes to the end of its unit
      const char* to = at_;
      while (at_ < end_ && blank(*at_)) ++at_;
      if (from == to || (!digit(*from) && (at_ == end_ || *at_ != '('))) return {from, static_cast<size_t>(to - from)};
    }
  }

 private:
  const char* at_;
  const char* end_;
  bool plain_;
};

}  // namespace

bool literal(std::string_view word, double& value) {
  const char* at = word.data();
  const char* end = at + word.size();
  const bool minus = word.starts_with('-');
  if (minus || word.starts_with('+')) ++at;
  if (!number(at, end, value) || (at != end && *at != '$')) return false;
  if (minus) value = -value;
  return true;
}

class Expression {
 public:
  Expression(Parameters& scope, std::string_view text, const Line& line)
      : scope_(scope), line_(line), at_(text.data()), end_(at_ + text.size()) {}

  double whole() {
    const double x = choice();
    skip();
    if (at_ != end_) fail("something else than " + in_quotes({at_, static_cast<size_t>(end_ - at_)}) + " is needed here");
    if (!std::isfinite(x)) fail("the value of the expression is not finite");
    return x;
  }

 private:
  Parameters& scope_;
  const Line& line_;
  const char* at_;
  const char* end_;
  int depth_ = 0;

  [[noreturn]] void fail(std::string what) const { throw Bad{line_.at({at_, 0}), std::move(what)}; }

  // What min, max, comparisons and conditions are given: of what is no number they would make one again.
  double real(double x) const {
    if (std::isnan(x)) fail("a part of the expression is not finite, as the root of a negative number");
    return x;
  }

  void skip() {
    while (at_ < end_ && blank(*at_)) ++at_;
  }

  bool take(std::string_view op) {
    skip();
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(op)) return false;
    if (op == "*" && at_ + 1 < end_ && at_[1] == '*') return false;
    at_ += op.size();
    return true;
  }

  double choice() {
    if (++depth_ > deepest) fail("the expression is nested too deep");
    double x = either();
    if (take("?")) {
      const double yes = choice();
      if (!take(":")) fail("a ':' is needed after '?'");
      const double no = choice();
      x = real(x) != 0 ? yes : no;
    }
    --depth_;
    return x;
  }

  double either() {
    double x = both();
    while (take("||")) {
      const double y = both();
      x = real(x) != 0 || real(y) != 0;
    }
    return x;
  }

  double both() {
    double x = comparison();
    while (take("&&")) {
      const double y = comparison();
      x = real(x) != 0 && real(y) != 0;
    }
    return x;
  }

  double comparison() {
    const double x = sum();
    if (take("==")) return real(x) == real(sum());
    if (take("!=")) return real(x) != real(sum());
    if (take("<=")) return real(x) <= real(sum());
    if (take(">=")) return real(x) >= real(sum());
    if (take("<")) return real(x) < real(sum());
    if (take(">")) return real(x) > real(sum());
    return x;
  }

  double sum() {
    double x = product();
    for (;;) {
      if (take("+")) x += product();
      else if (take("-")) x -= product();
      else return x;
    }
  }

  double product() {
    double x = sign();
    for (;;) {
      if (take("*")) x *= sign();
      else if (take("/")) x /= sign();
      else if (take("%")) x = std::fmod(x, sign());
      else return x;
    }
  }

  double sign() {
    if (++depth_ > deepest) fail("the expression is nested too deep");
    const double x = take("-") ? -sign() : take("+") ? sign() : take("!") ? real(sign()) == 0 : power();
    --depth_;
    return x;
  }

  double power() {
    double x = atom();
    while (take("**") || take("^")) {
      bool minus = false;
      while (take("-")) minus = !minus;
      const double y = atom();
      x = std::pow(x, minus ? -y : y);
    }
    return x;
  }

  double atom() {
    skip();
    if (take("(")) {
      const double x = choice();
      if (!take(")")) fail("a ')' is missing");
      return x;
    }
    if (at_ < end_ && (letter(*at_) || *at_ == '_')) return named();
    double x = 0;
    if (at_ == end_) fail("the expression ends too early");
    if (!number(at_, end_, x)) fail(in_quotes({at_, 1}) + " is not the begin of a number");
    return x;
  }

  double named() {
    const char* from = at_;
    while (at_ < end_ && in_name(*at_)) ++at_;
    const std::string_view name(from, static_cast<size_t>(at_ - from));
    if (take("(")) return function(name);
    if (const auto* known = scope_.known(name)) return known->value;
    if (name != "pi") fail("there is no parameter " + in_quotes(name));
    return std::numbers::pi;
  }

  double function(std::string_view name) {
    double x[3] = {0, 0, 0};
    int count = 0;
    do {
      if (count == 3) fail("too many arguments of " + in_quotes(name));
      x[count++] = choice();
    } while (take(","));
    if (!take(")")) fail("a ')' is missing");
    const auto is = [&](std::string_view known, int arguments) { return name == known && count == arguments; };
    if (is("sqrt", 1)) return std::sqrt(x[0]);
    if (is("exp", 1)) return std::exp(x[0]);
    if (is("log", 1) || is("ln", 1)) return std::log(x[0]);
    if (is("log10", 1)) return std::log10(x[0]);
    if (is("sin", 1)) return std::sin(x[0]);
    if (is("cos", 1)) return std::cos(x[0]);
    if (is("tan", 1)) return std::tan(x[0]);
    if (is("atan", 1)) return std::atan(x[0]);
    if (is("tanh", 1)) return std::tanh(x[0]);
    if (is("abs", 1)) return std::fabs(x[0]);
    if (is("int", 1)) return std::trunc(x[0]);
    if (is("floor", 1)) return std::floor(x[0]);
    if (is("ceil", 1)) return std::ceil(x[0]);
    if (is("sgn", 1)) return real(x[0]) > 0 ? 1 : x[0] < 0 ? -1 : 0;
    if (is("pow", 2)) return std::pow(x[0], x[1]);
    if (is("min", 2)) return std::fmin(real(x[0]), real(x[1]));
    if (is("max", 2)) return std::fmax(real(x[0]), real(x[1]));
    if (is("if", 3) || is("ternary_fcn", 3)) return real(x[0]) != 0 ? x[1] : x[2];
    fail("there is no function " + in_quotes(name) + " of " + std::to_string(count) + " arguments");
  }
};

double Parameters::value(std::string_view word, const Line& line) {
  double x = 0;
  if (literal(word, x)) return x;
  require(word, line);
  return computed(word, line);
}

std::pair<Parameters*, Parameters::Parameter*> Parameters::find(std::string_view name) {
  for (Parameters* scope = this; scope; scope = scope->outer_) {
    const auto found = scope->own_.find(name);
    if (found != scope->own_.end()) return {scope, &found->second};
  }
  return {nullptr, nullptr};
}

const Parameters::Parameter* Parameters::known(std::string_view name) const {
  for (const Parameters* scope = this; scope; scope = scope->outer_) {
    const auto found = scope->own_.find(name);
    if (found != scope->own_.end() && found->second.state == State::known) return &found->second;
  }
  return nullptr;
}

void Parameters::require(std::string_view word, const Line& line) {
  struct Open {                                // a text whose names are being looked at, and the parameter it belongs to
    Parameters* scope;
    Parameter* parameter;
    const Line* line;
    NamesIn names;
  };
  std::vector<Open> open = {{this, nullptr, &line, NamesIn(word)}};
  while (!open.empty()) {
    Open& last = open.back();
    const std::string_view name = last.names.next();
    if (name.empty()) {
      if (Parameter* p = last.parameter) p->value = last.scope->computed(p->text, *p->line), p->state = State::known;
      open.pop_back();
      continue;
    }
    auto [scope, p] = last.scope->find(name);
    if (p && p == last.parameter && scope->outer_)        // r = {r} inside a subcircuit: the one outside
      if (const auto around = scope->outer_->find(name); around.second) scope = around.first, p = around.second;
    if (!p || p->state == State::known) continue;         // what is not there is refused where it is computed
    if (p->state == State::busy) throw Bad{last.line->at(name), "the parameter " + in_quotes(name) + " depends on itself"};
    p->state = State::busy;
    open.push_back({scope, p, p->line, NamesIn(p->text)});
  }
}

double Parameters::computed(std::string_view word, const Line& line) {
  double x = 0;
  if (literal(word, x)) return x;
  if (is_expression(word)) return Expression(*this, word.substr(1, word.size() - 2), line).whole();
  if (const Parameter* there = known(word)) return there->value;
  const bool name = !word.empty() && letter(word[0]), formula = word.find_first_of("*/") != std::string_view::npos;
  throw Bad{line.at(word), in_quotes(word) + (name ? " is neither a number nor a parameter" : " is not a number") +
                               (formula ? ": expressions are written in { } or ' '" : "")};
}

}  // namespace ms::circuit
