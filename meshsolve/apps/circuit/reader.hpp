// The state of the reader: lines and definitions of the deck, and the netlist under construction. Its functions are in
// netlist.cpp (instances, models, control lines), elements.cpp (R C L V I and devices) and controlled.cpp (E F G H B).
#pragma once
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "definitions.hpp"
#include "netlist.hpp"
#include "values.hpp"

namespace ms::circuit {

struct Instance {                              // a definition with values for its nodes and parameters
  const Definition* what;
  Instance* outer;                             // of the definition around `what`; null for the deck
  const Instance* caller;                      // its parameters are visible as well, as in ngspice
  double copies = 1;                            // number of copies in parallel: product of m= over all enclosing instances
  std::string prefix;                          // "x1.x2."
  std::unordered_map<std::string_view, int32_t> ports;
  std::unordered_map<std::string_view, int32_t> models;
  Parameters parameters;
  Instance(const Definition* what_, Instance* outer_, Instance* caller_)
      : what(what_), outer(outer_), caller(caller_), parameters(caller_ ? &caller_->parameters : nullptr) {
    for (const auto& [name, f] : what->functions) parameters.define(name, f);
  }
};

class Reader {
 public:
  explicit Reader(Netlist& out);
  void read(const std::string& path, const Load& load);

 private:
  Netlist& out_;
  Deck deck_;
  Definitions definitions_;
  std::unordered_map<const Line*, int32_t> plain_models_;     // models without parameters: one for all instances
  std::unordered_set<int64_t> told_;                          // places of models whose texts have been reported
  std::vector<Place> element_place_;                          // (elements)
  std::vector<int32_t> source_;                               // (elements) number among the voltage sources, or -1
  std::unordered_map<int32_t, double> source_copies_;         // Instance::copies of voltage sources other than 1
  struct Pending { char letter; size_t k; std::string name; Place place; double copies; };
  std::vector<Pending> pending_;                              // f and h elements whose controlling source is still to be found
  std::string scratch_;
  std::array<uint8_t, 256> which_ = {};                       // group of each letter
  int64_t polled_ = 0, left_ = 0;              // lines expanded; cost of expansion that is left

  // netlist.cpp
  Group& group(char letter) { return out_.groups[which_[static_cast<unsigned char>(letter)]]; }
  void temperatures(Instance& top);
  void expand_deck(Instance& top);
  void expand(Instance& at, int depth);
  void expanded(size_t cost, Place place);     // throws if the deck expands to too many elements
  void element(const Line& line, Instance& at, int depth);
  int32_t node(std::string_view name, const Words& words, Instance& at);
  std::string_view full(std::string_view name, const Instance& at);
  const Model* find_model(std::string_view name, Instance& from, int32_t& number);
  int32_t evaluate_model(const Line& line, Instance& at, bool& is_plain);
  static std::string_view text_value(Words& words);
  void require_numbers(const Model& m, const std::function<bool(std::string_view)>& is_known);
  void subcircuit(std::string_view name, Words& words, Instance& at, int depth);
  void parameters(const Definition& what, const std::vector<Assignment>& values, Instance& at, Instance& made);
  Instance& around(std::string_view kind, const Words& words, Instance& at);
  void title_as_element(Instance& top);
  void connect_controls();
  void drop_unused_nodes();
  void setting(const Line& line, Instance& at);
  void control(const Control& control, Instance& top);

  // Adds an element with its name and nodes. The caller adds its values and its reference.
  Group& begin(char letter, std::string_view name, Words& words, Instance& at);
  Group& add(char letter, std::string_view whole, const int32_t* nodes, std::string_view name, const Words& words);
  static double number(Words& words, Instance& at, std::string_view what);
  static bool number_follows(const Words& words);
  static double require_copies(double m, Place place);

  // key = value pairs at the end of a line.
  template <class F> static void options(Words& words, Instance& at, F&& take) {
    for (std::string_view key = words.next(); !key.empty(); key = words.next()) {
      if (!words.take("=")) words.fail(key, "unexpected " + in_quotes(key) + ": only NAME = VALUE may follow");
      const double value = number(words, at, key);
      if (!take(key, value)) words.fail(key, "the element has no parameter " + in_quotes(key));
    }
  }

  // elements.cpp
  struct Passive;
  void passive(char letter, std::string_view name, Words& words, Instance& at);
  void short_circuit(Group& r, double copies);
  void source(char letter, std::string_view name, Words& words, Instance& at);
  int32_t waveform(std::string_view word, Words& words, Instance& at);
  void device(const Declaration& what, std::string_view name, Words& words, Instance& at);
  double celsius(double temp, double dtemp, std::string_view name, const Words& words);

  // controlled.cpp
  void controlled(char letter, std::string_view name, Words& words, Instance& at);
  void formula(char letter, std::string_view name, const Words& words, Instance& at);
  void polynomial(char letter, std::string_view name, Words& words, Instance& at);
  static double copies_of_current(char letter, Words& words, Instance& at);
  void behavioral(std::string_view name, Words& words, Instance& at);
  struct Output;
  void emit(const Output& to, const LinearForm& form, double gain, const Words& words, Instance& at);
  void defer_reference(char letter, std::string_view source, const Words& words, Instance& at);
};

}  // namespace ms::circuit
