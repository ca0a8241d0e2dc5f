// What the lines of a deck define, before anything is written out: subcircuits with their own models, parameters and functions, and
// the control lines of the deck. Names and texts point into the lines.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lines.hpp"
#include "values.hpp"

namespace ms::circuit {

constexpr int deepest = 100;                   // subcircuits inside subcircuits, as definitions and as instances

struct Assignment {                            // name = text, not yet evaluated
  std::string_view name, text;
  const Line* line;
};

struct Definition {                            // a subcircuit as it is written, or the deck itself
  Definition* outer = nullptr;
  const Line* line = nullptr;
  int depth = 0;                               // definitions around it
  std::string_view name;
  std::vector<std::string_view> ports;
  std::vector<Assignment> defaults, locals;    // of its .subckt line, of .param lines inside
  std::vector<std::pair<std::string_view, Function>> functions;
  std::unordered_map<std::string_view, std::unique_ptr<Definition>> subcircuits;
  std::unordered_map<std::string_view, const Line*> models;
  std::vector<const Line*> elements;
};

// What a deck uses and this reader does not support: each kind with its number of lines and the first of them, named in one error.
class Unsupported {
 public:
  void add(const std::string& kind, std::string_view first, Place place);
  bool empty() const { return kinds_.empty(); }
  Bad error(const std::vector<std::string>& files) const;

 private:
  struct Kind {
    std::string what, first;
    Place place;
    int64_t count;
  };
  std::vector<Kind> kinds_;
  std::map<std::string, size_t> index_;
};

struct Control {                               // a control line
  const Line* line;
  bool is_output;                              // asks for output: its expressions are kept as they are
};

struct Definitions {
  Definition deck;
  std::vector<Control> controls;
  std::vector<std::unique_ptr<Definition>> ignored;        // second definitions of subcircuits
  std::unordered_set<std::string_view> globals;            // nodes that subcircuits share with the deck
  Unsupported unsupported;
};

bool is_ground(std::string_view node);

// Collects the definitions. Kinds of elements that are not supported are looked for in the deck and in the subcircuits that it uses.
void collect(const std::vector<Line>& lines, Definitions& out, Notes& notes);

// The subcircuit that a name means inside `here`, or null.
const Definition* subcircuit_of(const Definition& here, std::string_view name);

// The `name = text` pairs at the end of a line, of which `text` is what is left; returns what stands before them. Blanks may stand in
// expressions and around '='. A name followed by (arguments) is kept with them.
std::string_view split_assignments(const Line& line, std::string_view text, std::vector<Assignment>& out);

}  // namespace ms::circuit
