// Evaluates an expression by recursive descent, as a number or as a linear form in voltages and currents.
// Operators from lowest to highest precedence: ?:  ||  &&  == != < <= > >=  + -  * / %  unary + - !  ** or ^. All are left
// associative, powers too, as in ngspice. 0 is false. Cost: O(text) plus that of the .func functions it calls, which
// Parameters::charge bounds.
#pragma once
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "linear_form.hpp"
#include "native/threads/interrupt.hpp"
#include "values.hpp"

namespace ms::circuit {

constexpr int kDeepestExpression = 200;        // most nested parentheses and function calls
constexpr int64_t kCostOfTerm = 100;           // of a copied term of a linear form, in characters: bounds its memory

// T is double, or LinearForm for sources with v(node) and i(source).
template <class T>
class Expression {
 public:
  using Bindings = std::vector<std::pair<std::string_view, T>>;          // (name, value) of the arguments of a function

  Expression(Parameters& scope, std::string_view text, const Line& line, const Bindings* bound = nullptr, int depth = 0)
      : scope_(scope), line_(line), bound_(bound), at_(text.data()), end_(at_ + text.size()), depth_(depth) {}

  T whole() {
    T x = choice();
    skip();
    if (at_ != end_) fail("unexpected " + in_quotes({at_, static_cast<size_t>(end_ - at_)}) + " in an expression");
    if (!finite(x)) fail("the value of the expression is not finite");
    return x;
  }

 private:
  Parameters& scope_;
  const Line& line_;
  const Bindings* bound_;
  const char* at_;
  const char* end_;
  int depth_;

  [[noreturn]] void fail(std::string what) const { throw DeckError{line_.at({at_, 0}), std::move(what)}; }

  // The value of a form without voltages and currents.
  double plain(const T& x) const {
    if constexpr (std::is_same_v<T, double>) return x;
    else if (x.terms.empty()) return x.constant;
    else throw Nonlinear{line_.at({at_, 0})};
  }

  // An argument of min, max, a comparison or a condition, which would turn NaN into a number.
  double real(const T& x) const {
    const double value = plain(x);
    if (std::isnan(value)) fail("a part of the expression is not finite, such as the root of a negative number");
    return value;
  }

  void skip() {
    while (at_ < end_ && is_blank(*at_)) ++at_;
  }

  bool take(std::string_view op) {
    skip();
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(op)) return false;
    if (op == "*" && at_ + 1 < end_ && at_[1] == '*') return false;
    at_ += op.size();
    return true;
  }

  T choice() {
    if (++depth_ > kDeepestExpression) fail("an expression is nested more than " + std::to_string(kDeepestExpression) + " deep");
    T x = either();
    if (take("?")) {
      T yes = choice();
      if (!take(":")) fail("a ':' is needed after '?'");
      T no = choice();
      x = real(x) != 0 ? std::move(yes) : std::move(no);
    }
    --depth_;
    return x;
  }

  T either() {
    T x = both();
    while (take("||")) {
      const T y = both();
      x = T(real(x) != 0 || real(y) != 0);
    }
    return x;
  }

  T both() {
    T x = comparison();
    while (take("&&")) {
      const T y = comparison();
      x = T(real(x) != 0 && real(y) != 0);
    }
    return x;
  }

  T comparison() {
    T x = sum();
    if (take("==")) return T(real(x) == real(sum()));
    if (take("!=") || take("<>")) return T(real(x) != real(sum()));
    if (take("<=")) return T(real(x) <= real(sum()));
    if (take(">=")) return T(real(x) >= real(sum()));
    if (take("<")) return T(real(x) < real(sum()));
    if (take(">")) return T(real(x) > real(sum()));
    return x;
  }

  T sum() {
    T x = product();
    for (;;) {
      if (take("+")) x += product();
      else if (take("-")) x -= product();
      else return x;
    }
  }

  T product() {
    T x = sign();
    for (;;) {
      if (take("*")) {
        T y = sign();
        if constexpr (!std::is_same_v<T, double>)
          if (!x.terms.empty()) std::swap(x, y);               // at most one factor has voltages or currents
        const double factor = plain(x);
        x = std::move(y);
        x *= factor;
      } else if (take("/")) {
        x /= plain(sign());
      } else if (take("%")) {
        x = T(std::fmod(plain(x), plain(sign())));
      } else {
        return x;
      }
    }
  }

  T sign() {
    if (++depth_ > kDeepestExpression) fail("an expression is nested more than " + std::to_string(kDeepestExpression) + " deep");
    T x(0.0);
    if (take("-")) {
      x = sign();
      x *= -1.0;
    } else if (take("+")) {
      x = sign();
    } else if (take("!")) {
      x = T(real(sign()) == 0);
    } else {
      x = power();
    }
    --depth_;
    return x;
  }

  T power() {
    T x = atom();
    while (take("**") || take("^")) {
      bool minus = false;
      while (take("-")) minus = !minus;
      const double y = plain(atom());
      x = T(std::pow(plain(x), minus ? -y : y));
    }
    return x;
  }

  T atom() {
    skip();
    for (const auto& [open, close] : {std::pair("(", ")"), std::pair("{", "}")}) {
      if (!take(open)) continue;
      T x = choice();
      if (!take(close)) fail(std::string("a '") + close + "' is missing");
      return x;
    }
    if (at_ < end_ && (is_letter(*at_) || *at_ == '_')) return named();
    double x = 0;
    if (at_ == end_) fail("the expression ends where a value is needed");
    if (!read_number(at_, end_, x)) fail(in_quotes({at_, 1}) + " does not begin a number, a name or a parenthesis");
    return T(x);
  }

  T named() {
    const char* from = at_;
    while (at_ < end_ && is_in_name(*at_)) ++at_;
    const std::string_view name(from, static_cast<size_t>(at_ - from));
    if (take("(")) return called(name);
    if (bound_)
      for (const auto& [argument, value] : *bound_)
        if (argument == name) return copied(value, name);
    if (const auto* known = scope_.known(name)) return T(known->value);
    if constexpr (!std::is_same_v<T, double>)
      if (name == "time" || name == "freq" || name == "hertz") throw Nonlinear{line_.at(name)};
    if (name != "pi") fail("there is no parameter " + in_quotes(name));
    return T(std::numbers::pi);
  }

  // The value of an argument. Forms grow with each use of an argument that has terms.
  T copied(const T& x, std::string_view name) {
    if constexpr (!std::is_same_v<T, double>)
      if (!x.terms.empty()) scope_.charge(kCostOfTerm * static_cast<int64_t>(x.terms.size()), line_, name);
    return x;
  }

  T called(std::string_view name) {
    if constexpr (!std::is_same_v<T, double>)
      if (name == "v" || name == "i") return signal(name[0]);
    if (const Function* f = scope_.function(name)) return defined(name, *f);
    double x[3] = {0, 0, 0};
    int count = 0;
    skip();
    if (at_ < end_ && *at_ == ')') {
      ++at_;
    } else {
      do {
        if (count == 3) fail("too many arguments of " + in_quotes(name));
        x[count++] = plain(choice());
      } while (take(","));
      if (!take(")")) fail("a ')' is missing");
    }
    if (count == 1 && name == "sgn") real(T(x[0]));
    if ((count == 2 && (name == "min" || name == "max"))) real(T(x[0])), real(T(x[1]));
    if (count == 3) real(T(x[0]));
    double value = 0;
    if (!built_in(name, count, x, value))
      throw NoFunction{{line_.at(name), "there is no function " + in_quotes(name) + " of " + std::to_string(count) + " arguments"}};
    return T(value);
  }

  // Evaluates the body of a .func function with its arguments.
  T defined(std::string_view name, const Function& f) {
    scope_.charge(static_cast<int64_t>(f.body.size()), line_, name);
    Bindings values;
    skip();
    while (at_ < end_ && *at_ != ')') {
      if (values.size() == f.arguments.size()) break;
      values.emplace_back(f.arguments[values.size()], choice());
      if (!take(",")) break;
    }
    if (!take(")") || values.size() != f.arguments.size())
      fail("the function " + in_quotes(name) + " needs " + std::to_string(f.arguments.size()) + " arguments");
    return Expression(*f.scope, f.body, *f.line, &values, depth_ + 1).whole();
  }

  // v(node), v(node,node), i(source): names of nodes and sources, not of parameters.
  T signal(char kind) {
    std::string_view names[2];
    int count = 0;
    for (bool more = true; more;) {
      skip();
      const char* from = at_;
      while (at_ < end_ && *at_ != ',' && *at_ != ')') ++at_;
      std::string_view name(from, static_cast<size_t>(at_ - from));
      while (!name.empty() && is_blank(name.back())) name.remove_suffix(1);
      if (at_ == end_ || name.empty() || count == 2)
        fail(kind == 'v' ? "v() needs one or two names of nodes" : "i() needs the name of a source");
      names[count++] = name;
      more = *at_++ == ',';
    }
    if (kind == 'i' && count == 2) fail("i() needs the name of one source, got two");
    T out(0.0);
    out.terms.push_back({kind, names[0], 1.0});
    if (count == 2) out.terms.push_back({kind, names[1], -1.0});
    return out;
  }
};

}  // namespace ms::circuit
