// One pass over the logical lines; a stack of open .subckt lines is the chain of their `outer` pointers.
#include "definitions.hpp"

#include <algorithm>
#include <array>

namespace ms::circuit {
namespace {

// What controls.py obeys, names in a warning, or passes over because it changes no value.
constexpr std::array<std::string_view, 21> control_lines = {
    ".op", ".dc", ".ac", ".tran", ".print", ".ic", ".nodeset", ".temp", ".options", ".option", ".optio", ".opti", ".opt",
    ".four", ".meas", ".measure", ".width", ".save", ".probe", ".plot", ".title"};

// Refused before any element is looked at: what an unknown line defines or leaves out, the elements would be blamed for.
void require_known(const Words& words) {
  const std::string_view text = words.line().text, keyword = text.substr(0, text.find_first_of(" \t\r\n"));
  if (std::find(control_lines.begin(), control_lines.end(), keyword) != control_lines.end()) return;
  words.fail(keyword, "the control line " + in_quotes(keyword) + " is not supported; known are .op, .dc, .ac, .tran, .print, "
                      ".ic, .nodeset, .temp, .options, .include, .subckt, .ends, .param, .model, .global and .end");
}

Definition* open(Definition& outer, Words& words) {
  auto made = std::make_unique<Definition>();
  made->outer = &outer;
  made->line = &words.line();
  made->depth = outer.depth + 1;
  const std::string_view name = made->name = words.next();
  if (name.empty()) words.fail(name, ".subckt needs a name");
  if (made->depth > deepest) words.fail(name, "subcircuits are defined more than " + std::to_string(deepest) + " deep");
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word == "params:") continue;
    if (words.take("=")) {
      made->defaults.push_back({word, value_word(words, word), &words.line()});
    } else {
      if (!made->defaults.empty()) words.fail(word, "a node after the parameters: " + in_quotes(word));
      if (word == "0" || word == "gnd") words.fail(word, "a node of a subcircuit cannot be called " + in_quotes(word) + ", as ground is");
      if (std::find(made->ports.begin(), made->ports.end(), word) != made->ports.end())
        words.fail(word, "a second node " + in_quotes(word) + " of the subcircuit " + in_quotes(name));
      made->ports.push_back(word);
    }
  }
  auto& there = outer.subcircuits[name];
  if (there) words.fail(name, "the subcircuit " + in_quotes(name) + " is defined twice");
  there = std::move(made);
  return there.get();
}

Definition* close(const Definition& here, Words& words, std::string_view keyword) {
  if (!here.outer) words.fail(keyword, ".ends without .subckt");
  const std::string_view name = words.next();
  if (!name.empty() && name != here.name)
    words.fail(name, ".ends " + std::string(name) + " closes .subckt " + std::string(here.name));
  return here.outer;
}

void assignments(Words& words, std::vector<Assignment>& into) {
  for (std::string_view name = words.next(); !name.empty(); name = words.next()) {
    if (!words.take("=")) words.fail(name, "a '=' is needed after " + in_quotes(name));
    if (name[0] >= '0' && name[0] <= '9') words.fail(name, in_quotes(name) + " cannot be the name of a parameter");
    into.push_back({name, value_word(words, name), &words.line()});
  }
}

void model(Definition& here, Words& words, std::string_view keyword) {
  const std::string_view name = words.next();
  if (name.empty()) words.fail(keyword, ".model needs a name and a type");
  if (!here.models.emplace(name, &words.line()).second) words.fail(name, "the model " + in_quotes(name) + " is defined twice");
}

}  // namespace

void collect(const std::vector<Line>& lines, Definitions& out) {
  Definition* here = &out.deck;
  for (const Line& line : lines) {
    if (line.text[0] != '.') {
      here->elements.push_back(&line);
      continue;
    }
    Words words(line);
    const std::string_view keyword = words.next();
    if (keyword == ".subckt") here = open(*here, words);
    else if (keyword == ".ends") here = close(*here, words, keyword);
    else if (keyword == ".param" || keyword == ".params") assignments(words, here->locals);
    else if (keyword == ".model") model(*here, words, keyword);
    else if (keyword == ".global") for (std::string_view w = words.next(); !w.empty(); w = words.next()) out.globals.insert(w);
    else {
      require_known(words);
      if (here != &out.deck) words.fail(keyword, in_quotes(keyword) + " inside a subcircuit");
      out.controls.push_back(&line);
    }
  }
  if (here != &out.deck)
    throw Bad{here->line->place, ".subckt " + std::string(here->name) + " has no .ends: was the file cut?"};
}

std::string_view value_word(Words& words, std::string_view name) {
  const std::string_view text = words.next();
  if (text.empty() || text == "=") words.fail(name, in_quotes(name) + " has no value");
  return text;
}

}  // namespace ms::circuit
