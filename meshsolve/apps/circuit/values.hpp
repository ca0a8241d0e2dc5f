// Numbers with engineering suffixes, arithmetic expressions, and parameters and functions in them. A parameter is evaluated when
// it is first needed, in the scope of its definition, so the order of definitions is free. An explicit stack holds the parameters
// that depend on others: chains of parameters may be as long as a deck.
#pragma once
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "linear_form.hpp"
#include "lines.hpp"

namespace ms::circuit {

// Parses 4.7k, 2meg, 1e-9, 10uf, also with the signs for micro and ohm. A unit follows the suffix (1a is an ampere); '$' begins a
// comment. False if `word` is not a number or does not fit a double.
bool literal(std::string_view word, double& value);

// Parses the number at `at`, which begins with a digit or a point, and skips its suffix and unit.
bool read_number(const char*& at, const char* end, double& value);

bool is_letter(char c);
bool is_in_name(char c);
bool is_blank(char c);

// Evaluates a built-in function. False if there is no function of this name with `count` arguments. log is natural, as in
// ngspice.
bool built_in(std::string_view name, int count, const double* x, double& value);

struct NoFunction : DeckError {};              // an expression calls an unknown function

class Parameters;

struct Function {                              // of a .func line
  std::vector<std::string_view> arguments;
  std::string_view body;
  const Line* line = nullptr;
  Parameters* scope = nullptr;                 // scope of the definition
  bool busy = false;                           // its body is being scanned for names
  bool scanned = false;                        // all parameters in its body have values
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
  explicit Parameters(Parameters* outer) : outer_(outer), left_(outer ? outer->left_ : &own_left_) {}
  Parameters(const Parameters&) = delete;
  void define(std::string_view name, std::string_view text, const Line& line) { own_[name] = {text, &line, 0.0, State::text}; }
  void define(std::string_view name, double value) { own_[name] = {{}, nullptr, value, State::known}; }
  void define(std::string_view name, Function f) {
    f.scope = this;
    functions_[name] = std::move(f);
  }
  bool has(std::string_view name) const { return own_.count(name) > 0; }
  bool names(std::string_view word) { return find(word).second != nullptr; }         // true if a parameter has this name

  // A word of `line`: a number, {expression}, 'expression' or the name of a parameter.
  double value(std::string_view word, const Line& line);

  // The value in a .param or X line: a word, or an expression without braces.
  double formula(std::string_view text, const Line& line);

  // An expression in voltages and currents, with or without braces.
  LinearForm linear_form(std::string_view text, const Line& line);

  // Allows this further cost of function calls, in characters of their bodies, in all scopes. Functions that call another one twice
  // each would need 2^n calls.
  void allow(int64_t cost) { *left_ += cost; }

  // Evaluates the remaining parameters: unused ones must have values too. Text in double quotes has none.
  void require_values();

 private:
  using State = Parameter::State;
  Parameters* outer_;
  int64_t own_left_ = 0;
  int64_t* left_;                              // of the outermost scope
  std::unordered_map<std::string_view, Parameter> own_;
  std::unordered_map<std::string_view, Function> functions_;

  std::pair<Parameters*, Parameter*> find(std::string_view name);       // in the innermost scope that has it, or null
  const Parameter* known(std::string_view name) const;                  // the innermost evaluated parameter, or null
  Function* function(std::string_view name);                            // the innermost function, or null
  void charge(int64_t cost, const Line& line, std::string_view word);      // polls for Ctrl-C
  void require(std::string_view text, const Line& line, bool formula);  // evaluates the parameters in the text
  double computed(std::string_view text, const Line& line, bool formula);        // all parameters in the text have values
  template <class T> friend class Expression;
};

}  // namespace ms::circuit
