// A constant plus multiples of node voltages and source currents: the expression of a linear controlled source.
#pragma once
#include <cmath>
#include <string_view>
#include <vector>

#include "lines.hpp"

namespace ms::circuit {

struct Nonlinear {             // thrown if an expression is not linear in voltages and currents, or depends on time
  Place place;
};

struct LinearForm {
  struct Term {
    char kind;                 // v: node voltage; i: source current
    std::string_view name;
    double factor;
  };
  double constant = 0;
  std::vector<Term> terms;     // a name may occur several times

  explicit LinearForm(double x) : constant(x) {}

  LinearForm& add(const LinearForm& other, double factor) {
    constant += factor * other.constant;
    for (const Term& t : other.terms) terms.push_back({t.kind, t.name, factor * t.factor});
    return *this;
  }
  LinearForm& operator+=(const LinearForm& other) { return add(other, 1); }
  LinearForm& operator-=(const LinearForm& other) { return add(other, -1); }
  LinearForm& operator*=(double x) {
    constant *= x;
    for (Term& t : terms) t.factor *= x;
    return *this;
  }
  LinearForm& operator/=(double x) {
    constant /= x;
    for (Term& t : terms) t.factor /= x;
    return *this;
  }
};

inline bool finite(double x) { return std::isfinite(x); }

inline bool finite(const LinearForm& x) {
  for (const LinearForm::Term& t : x.terms)
    if (!std::isfinite(t.factor)) return false;
  return std::isfinite(x.constant);
}

}  // namespace ms::circuit
