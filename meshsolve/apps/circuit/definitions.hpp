// What the lines of a deck define, before anything is written out: subcircuits with their own models and parameters, and the
// control lines of the deck. Names and texts point into the lines.
#pragma once
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lines.hpp"

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
  std::unordered_map<std::string_view, std::unique_ptr<Definition>> subcircuits;
  std::unordered_map<std::string_view, const Line*> models;
  std::vector<const Line*> elements;
};

struct Definitions {
  Definition deck;
  std::vector<const Line*> controls;
  std::unordered_set<std::string_view> globals;            // nodes that subcircuits share with the deck
};

void collect(const std::vector<Line>& lines, Definitions& out);

std::string_view value_word(Words& words, std::string_view name);      // what follows the '=' after `name`

}  // namespace ms::circuit
