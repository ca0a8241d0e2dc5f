// SPICE decks as arrays: subcircuits are written out, parameters evaluated, names numbered. A million elements take about a
// second; O(bytes + elements). Grammar: SPICE3f3 manual (see lines.hpp), parameters and their scopes as in ngspice.
// Elements of one letter form a group, in the order of the deck. Nodes count from 0 in the order in which they appear; ground
// ("0", "gnd") is -1. Inside subcircuits names carry the path of their instances: node "n" of "x1" is "x1.n".
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices.hpp"
#include "lines.hpp"
#include "names.hpp"

namespace ms::circuit {

const std::string& letters();        // of elements: r c l v i e g f h, then those of the table of devices

// Values of one element, by letter:
//   r resistance; c capacitance, initial voltage; l inductance, initial current; v, i dc, ac magnitude, ac phase in degrees;
//   e, g, f, h gain; devices the parameters of their lines, temperature in degrees Celsius, m. NaN: not given.
// `refs`: v, i the waveform or -1; f, h the controlling v; devices the model; else -1.
struct Group {
  int arity = 2;                     // nodes of one element
  int width = 1;                     // values of one element
  std::vector<int32_t> nodes;        // (k arity)
  std::vector<double> values;        // (k width)
  std::vector<int32_t> refs;         // (k)
  std::vector<int32_t> names;        // (k) number of the element's name
  std::vector<int32_t> files, lines; // (k) where it stands
};

struct Waveform {
  char kind;                         // p pulse, s sin, e exp, w pwl
  std::vector<double> values;        // as in the deck; pwl: times and values in turn
};

struct Model {
  std::string type;
  std::vector<std::pair<std::string, double>> values;
  Place place;
};

struct ControlText {                 // of .op, .tran, ...: in lower case, expressions replaced by their values but for requests for output
  std::string text;
  Place place;
};

struct Temperatures {                // degrees Celsius
  double ambient = 27;               // of the circuit: .temp, .options temp
  double nominal = 27;               // at which parameters were measured: .options tnom
};

struct Netlist {
  std::vector<Group> groups;         // in the order of `letters`
  std::vector<Waveform> waveforms;
  std::vector<Model> models;
  std::vector<ControlText> controls;
  Names nodes, elements;
  std::string title;
  std::vector<std::string> files;
  Notes notes;
  Temperatures temperatures;
};

// Throws Bad.
void read_netlist(const std::string& path, const Load& load, Netlist& out);

}  // namespace ms::circuit
