// Numbers with engineering suffixes, arithmetic expressions, and the parameters and functions they name.
// A parameter is evaluated when it is first needed, in the scope in which its text stands, so their order is free. Those it
// needs come first, on a stack of their own: chains of parameters may be as long as a deck.
#pragma once
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "linear_form.hpp"
#include "lines.hpp"

namespace ms::circuit {

// 4.7k, 2meg, 1e-9, 10uf, also with the signs for micro and ohm: what follows the suffix is a unit (1a is an ampere), and from '$'
// on a comment. False where `word` is no number or none that fits a double.
bool literal(std::string_view word, double& value);

// The number at `at`, which begins with a digit or a point; goes past it, its suffix and its unit.
bool read_number(const char*& at, const char* end, double& value);

bool is_letter(char c);
bool is_in_name(char c);
bool is_blank(char c);

// The functions that every expression knows; false where there is none of this name and count. log is the natural one, as in ngspice.
bool built_in(std::string_view name, int count, const double* x, double& value);

struct NoFunction : Bad {};                    // an expression calls a function that is not there

class Parameters;

struct Function {                              // of a .func line
  std::vector<std::string_view> arguments;
  std::string_view body;
  const Line* line = nullptr;
  Parameters* scope = nullptr;                 // where it is defined
  bool busy = false;                           // its names are being looked at
};

struct Parameter {
  enum class State { text, busy, known };
  std::string_view text;
  const Line* line = nullptr;
  double value = 0;
  State state = State::text;
};

class Parameters {
 public:
  explicit Parameters(Parameters* outer) : outer_(outer) {}
  void define(std::string_view name, std::string_view text, const Line& line) { own_[name] = {text, &line, 0.0, State::text}; }
  void define(std::string_view name, double value) { own_[name] = {{}, nullptr, value, State::known}; }
  void define(std::string_view name, Function f) {
    f.scope = this;
    functions_[name] = std::move(f);
  }
  bool has(std::string_view name) const { return own_.count(name) > 0; }

  // A word of `line`: a number, {expression}, 'expression' or the name of a parameter.
  double value(std::string_view word, const Line& line);

  // The text of a .param line, of the values of a subcircuit: as a word, or an expression without braces.
  double formula(std::string_view text, const Line& line);

  // An expression, with or without braces, of voltages and currents.
  LinearForm linear_form(std::string_view text, const Line& line);

  // Evaluates what nothing has needed so far: also a parameter that is not used must have a value. Text in double quotes has none.
  void require_values();

 private:
  using State = Parameter::State;
  Parameters* outer_;
  std::unordered_map<std::string_view, Parameter> own_;
  std::unordered_map<std::string_view, Function> functions_;

  std::pair<Parameters*, Parameter*> find(std::string_view name);       // the innermost scope that has it; null: none
  const Parameter* known(std::string_view name) const;                  // the innermost one that is evaluated
  Function* function(std::string_view name);                            // the innermost one; null: none
  void require(std::string_view text, const Line& line, bool formula);  // evaluates the parameters that the text needs
  double computed(std::string_view text, const Line& line, bool formula);        // of parameters that are known
  template <class T> friend class Expression;
};

}  // namespace ms::circuit
