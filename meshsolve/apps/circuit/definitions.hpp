// The definitions of a deck before expansion: subcircuits with their models, parameters and functions, and the control lines.
// Names and texts point into the lines. Cost: O(bytes).
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

constexpr int kDeepestSubcircuit = 100;        // most nested subcircuits, as definitions and as instances

struct Assignment {                            // name = text, not yet evaluated
  std::string_view name, text;
  const Line* line;
};

struct Definition {                            // a subcircuit, or the deck itself
  Definition* outer = nullptr;
  const Line* line = nullptr;
  int depth = 0;                               // number of enclosing definitions
  std::string_view name;
  std::vector<std::string_view> ports;         // a name may occur several times if the subcircuit does not use it
  std::vector<Assignment> defaults, locals;    // of the .subckt line; of .param lines inside
  std::vector<Assignment> stepped;             // of the .step lines of the deck: first values
  std::vector<std::pair<std::string_view, Function>> functions;
  std::unordered_map<std::string_view, std::unique_ptr<Definition>> subcircuits;
  std::unordered_map<std::string_view, const Line*> models;
  std::vector<const Line*> elements;
  std::vector<const Line*> settings;           // .ic and .nodeset lines of a subcircuit
};

// Unsupported elements and lines. One error lists all kinds, each with its number of lines and its first line.
class Unsupported {
 public:
  void add(const std::string& kind, std::string_view first, Place place);
  bool empty() const { return kinds_.empty(); }
  DeckError error(const std::vector<std::string>& files) const;

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
  bool is_output;                              // a request for output, whose expressions are not evaluated
};

struct Definitions {
  Definition deck;
  std::vector<Control> controls;
  std::vector<std::unique_ptr<Definition>> ignored;        // second definitions of subcircuits
  std::unordered_set<std::string_view> globals;            // nodes that subcircuits share with the deck
  Unsupported unsupported;
};

bool is_ground(std::string_view node);

// Collects the definitions, and the unsupported elements of the deck and of the subcircuits that it uses.
void collect(const std::vector<Line>& lines, Definitions& out, Notes& notes);

// The subcircuit that a name refers to inside `here`, or null.
const Definition* subcircuit_of(const Definition& here, std::string_view name);

// Appends the NAME = VALUE pairs at the end of `text`, the rest of a line, and returns the text before them. Blanks may surround
// '=' and occur in expressions. A name includes the (arguments) that follow it.
std::string_view split_assignments(const Line& line, std::string_view text, std::vector<Assignment>& out);

}  // namespace ms::circuit
