// SPICE decks as arrays: subcircuits are expanded, parameters evaluated, names numbered. Cost: O(bytes + elements), about a
// second for a million elements. Grammar: SPICE3f3 manual (see lines.hpp); parameters and their scopes as in ngspice. Elements of
// one letter form a group, in the order of the deck. Nodes are numbered from 0 in order of appearance; ground ("0", "gnd") is -1.
// Names inside subcircuits have the path of their instance as prefix: node "n" of "x1" is "x1.n".
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices.hpp"
#include "lines.hpp"
#include "names.hpp"

namespace ms::circuit {

const std::string& letters();        // of elements: r c l v i e g f h, then the letters of the device table

// The elements of one letter. Values of an element; NaN: not given:
//   r        resistance
//   c        capacitance, initial voltage
//   l        inductance, initial current
//   v, i     dc, ac magnitude, ac phase in degrees
//   e g f h  gain
//   devices  parameters of the line, temperature in degrees Celsius, m
struct Group {
  int arity = 2;                     // nodes of one element
  int width = 1;                     // values of one element
  std::vector<int32_t> nodes;        // (k arity)
  std::vector<double> values;        // (k width)
  std::vector<int32_t> refs;         // (k) v, i: waveform or -1; f, h: controlling v; devices: model; others: -1
  std::vector<int32_t> names;        // (k) number of the element's name
  std::vector<int32_t> files, lines; // (k) location
};

struct WaveformData {                // parameters of a waveform
  char kind;                         // p pulse, s sin, e exp, w pwl
  std::vector<double> values;        // as in the deck; pwl: time, value, time, value, ...
};

struct Model {
  std::string name, type;
  std::vector<std::pair<std::string, double>> values;
  std::vector<std::pair<std::string, std::string>> texts;        // values that are no numbers; "" for a word without a value
  Place place;
};

struct ControlText {                 // in lower case, with values for expressions except in requests for output
  std::string text;
  Place place;
};

struct Temperatures {                // degrees Celsius
  double ambient = 27;               // of the circuit: .temp, .options temp
  double nominal = 27;               // of the parameters: .options tnom
};

struct Netlist {
  std::vector<Group> groups;         // in the order of `letters`
  std::vector<WaveformData> waveforms;
  std::vector<Model> models;
  std::vector<ControlText> controls;
  Names nodes, elements;
  std::string title;
  std::vector<std::string> files;
  Notes notes;
  Temperatures temperatures;
};

// Throws DeckError.
void read_netlist(const std::string& path, const Load& load, Netlist& out);

}  // namespace ms::circuit
