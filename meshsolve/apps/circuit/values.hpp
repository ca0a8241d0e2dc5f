// Numbers with engineering suffixes, arithmetic expressions and the parameters they name.
// A parameter is evaluated when it is first asked for, in the scope in which its text stands, so their order is free. Those it
// needs come first, on a stack of their own: chains of parameters may be as long as a deck.
#pragma once
#include <string_view>
#include <unordered_map>
#include <utility>

#include "lines.hpp"

namespace ms::circuit {

// 4.7k, 2meg, 1e-9, 10uf, also with the signs for micro and ohm: what follows the suffix is a unit (1a is an ampere), and from '$'
// on a comment. False where `word` is no number or none that fits a double.
bool literal(std::string_view word, double& value);

class Parameters {
 public:
  explicit Parameters(Parameters* outer) : outer_(outer) {}
  void define(std::string_view name, std::string_view text, const Line& line) { own_[name] = {text, &line, 0.0, State::text}; }
  void define(std::string_view name, double value) { own_[name] = {{}, nullptr, value, State::known}; }

  // A word of `line`: a number, {expression}, 'expression' or the name of a parameter.
  double value(std::string_view word, const Line& line);

 private:
  enum class State { text, busy, known };
  struct Parameter {
    std::string_view text;
    const Line* line = nullptr;
    double value = 0;
    State state = State::text;
  };

  Parameters* outer_;
  std::unordered_map<std::string_view, Parameter> own_;

  std::pair<Parameters*, Parameter*> find(std::string_view name);       // the innermost scope that has it; null: none
  const Parameter* known(std::string_view name) const;                  // the innermost one that is evaluated
  void require(std::string_view word, const Line& line);                // evaluates the parameters that the word needs
  double computed(std::string_view word, const Line& line);             // of parameters that are known
  friend class Expression;
};

}  // namespace ms::circuit
