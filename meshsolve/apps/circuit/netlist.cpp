// Expands the deck: at each X line the elements of the subcircuit are added. An instance is a definition with values for its
// nodes and parameters. One function for each kind of element parses the words of its line.
#include "netlist.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "native/threads/interrupt.hpp"
#include "reader.hpp"

namespace ms::circuit {

namespace {

// Largest cost for any deck, and in addition for each of its bytes or elements: of calls of functions, in characters of their bodies, and of
// expanded subcircuits, in elements. Subcircuits that contain another one twice each have 2^n elements.
constexpr int64_t kCalls = 3'000'000, kCallsPerByte = 100, kCallsPerElement = 1000;
constexpr int64_t kExpanded = 5'000'000, kExpandedPerByte = 1000;
constexpr std::array<std::string_view, 3> kFlags = {"noiseless", "off", "thermal"};      // words of models, without a value
constexpr std::array<std::string_view, 6> kTexts = {"mfg", "type", "vendor", "manufacturer", "part", "desc"};      // may be empty
constexpr size_t kLongName = 64;               // characters of a name's prefix that cost as much as an element
constexpr int32_t kTwice = -2;                 // node of a port whose name occurs twice, at different nodes of the X line

std::string exact(double x) {                  // digits from which the same double is read
  std::array<char, 32> digits;
  return {digits.data(), static_cast<size_t>(std::snprintf(digits.data(), digits.size(), "%.17g", x))};
}

}  // namespace

Reader::Reader(Netlist& out) : out_(out) {
  out_.groups.resize(letters().size());
  for (size_t k = 0; k < letters().size(); ++k) which_[static_cast<unsigned char>(letters()[k])] = static_cast<uint8_t>(k);
  for (const char c : {'e', 'g'}) group(c).arity = 4;
  for (const char c : {'c', 'l'}) group(c).width = 2;
  for (const char c : {'v', 'i'}) group(c).width = 3;
  for (const Kind& kind : device_table()) {
    Group& g = group(kind.what.letter);
    g.arity = static_cast<int>(kind.what.terminals.size()), g.width = static_cast<int>(kind.what.line.size()) + 2;
  }
}

const std::string& letters() {
  static const std::string all = [] {
    std::string out = "rclviegfh";
    for (const Kind& kind : device_table())
      if (out.find(kind.what.letter) == std::string::npos) out += kind.what.letter;
    return out;
  }();
  return all;
}

void Reader::read(const std::string& path, const Load& load) {
  struct Names {                               // messages need the names of files even after an error
    Reader& of;
    ~Names() {
      for (const auto& file : of.deck_.files) of.out_.files.push_back(file.first);
      of.out_.title = of.deck_.title;
      of.out_.notes = std::move(of.deck_.notes);
    }
  } names{*this};
  read_lines(path, load, deck_);
  collect(deck_.lines, definitions_, deck_.notes);
  Instance top(&definitions_.deck, nullptr, nullptr);
  int64_t bytes = 0;
  for (const auto& file : deck_.files) bytes += static_cast<int64_t>(file.second.bytes.size());
  top.parameters.allow(kCalls + kCallsPerByte * bytes);
  left_ = kExpanded + kExpandedPerByte * bytes;
  for (const Assignment& a : definitions_.deck.locals) top.parameters.define(a.name, a.text, *a.line);
  for (const Assignment& a : definitions_.deck.stepped)
    if (!top.parameters.has(a.name)) top.parameters.define(a.name, a.text, *a.line);
  Unsupported& unsupported = definitions_.unsupported;
  try {
    expand_deck(top);
  } catch (const DeckError&) {                 // may follow from an unsupported line, which is reported instead
    if (unsupported.empty()) throw;
  }
  if (unsupported.empty()) return;
  std::vector<std::string> files;
  for (const auto& file : deck_.files) files.push_back(file.first);
  throw unsupported.error(files);
}

void Reader::expand_deck(Instance& top) {
  temperatures(top);
  expand(top, 0);
  if (!definitions_.unsupported.empty()) return;
  title_as_element(top);
  connect_controls();
  drop_unused_nodes();
  for (const Control& c : definitions_.controls) control(c, top);
  top.parameters.require_values();
}

// .temp and .options temp= tnom=. As in ngspice .temp overrides .options, and the last of several lines counts.
void Reader::temperatures(Instance& top) {
  Temperatures& t = out_.temperatures;
  double from_temp = kMissing;
  const auto celsius = [&](Words& words, std::string_view key) {
    const double x = number(words, top, key);
    if (!(x > -273.15 && x < 1e4))
      words.fail(key, "a temperature must be above -273.15 and below 1e4 degrees Celsius, got " + shown(x));
    return x;
  };
  for (const Control& c : definitions_.controls) {
    if (c.is_output) continue;
    Words words(*c.line);
    const std::string_view keyword = words.next();
    if (keyword == ".temp") {
      words.take("=");
      from_temp = celsius(words, keyword);
      if (!words.peek().empty()) words.fail(words.peek(), ".temp takes one temperature: read the deck once for each");
    }
    for (std::string_view key = words.next(); keyword.starts_with(".opt") && !key.empty(); key = words.next())
      if ((key == "temp" || key == "tnom") && words.take("=")) (key == "temp" ? t.ambient : t.nominal) = celsius(words, key);
  }
  if (!std::isnan(from_temp)) t.ambient = from_temp;
  if (!top.parameters.has("temper")) top.parameters.define("temper", t.ambient);
}

// ---- expand -------------------------------------------------------------------------------------------------------------

void Reader::expand(Instance& at, int depth) {
  try {
    for (const Line* line : at.what->elements) {
      if ((++polled_ & 4095) == 0) interrupt::poll();
      expanded(1 + at.prefix.size() / kLongName, line->place);
      at.parameters.allow(kCallsPerElement);
      element(*line, at, depth);
    }
    for (const Line* line : at.what->settings) setting(*line, at);
    if (depth) at.parameters.require_values();
  } catch (DeckError& bad) {
    if (!at.prefix.empty() && bad.what.find(" (in ") == std::string::npos)
      bad.what += " (in " + std::string(at.prefix.size() > kLongName ? "..." : "") +
                  at.prefix.substr(at.prefix.size() - std::min(at.prefix.size(), kLongName), std::min(at.prefix.size(), kLongName) - 1) + ")";
    throw;
  }
}

void Reader::expanded(size_t cost, Place place) {
  if ((left_ -= static_cast<int64_t>(cost)) < 0)
    throw DeckError{place, "the subcircuits of the deck expand to too many elements, after " + std::to_string(out_.elements.size()) +
                               ": does each of them contain another one several times?"};
}

void Reader::element(const Line& line, Instance& at, int depth) {
  Words words(line);
  const std::string_view name = words.next();
  const char letter = name.empty() ? ' ' : name[0];
  switch (letter) {
    case 'r': case 'c': case 'l': return passive(letter, name, words, at);
    case 'v': case 'i': return source(letter, name, words, at);
    case 'e': case 'g': case 'f': case 'h': return controlled(letter, name, words, at);
    case 'b': return behavioral(name, words, at);
    case 'x': return subcircuit(name, words, at, depth);
    default:                                   // other letters are in Definitions::unsupported
      if (const Declaration* what = device_of(letter)) device(*what, name, words, at);
  }
}

Group& Reader::begin(char letter, std::string_view name, Words& words, Instance& at) {
  std::array<int32_t, 4> nodes;
  const int arity = group(letter).arity;
  for (int k = 0; k < arity; ++k) nodes[k] = node(words.next(), words, at);
  Group& g = add(letter, full(name, at), nodes.data(), name, words);
  if (letter == 'v' && at.copies != 1) source_copies_[g.names.back()] = at.copies;
  return g;
}

Group& Reader::add(char letter, std::string_view whole, const int32_t* nodes, std::string_view name, const Words& words) {
  const int32_t id = out_.elements.add(whole);
  if (id < static_cast<int32_t>(element_place_.size())) {
    const Place& first = element_place_[id];
    words.fail(name, "there is already an element " + in_quotes(whole) + ", in " + deck_.files[first.file].first + ":" +
                         std::to_string(first.line));
  }
  const Place& place = words.line().place;
  element_place_.push_back(place);
  Group& g = group(letter);
  source_.push_back(letter == 'v' ? static_cast<int32_t>(g.names.size()) : -1);
  g.nodes.insert(g.nodes.end(), nodes, nodes + g.arity);
  g.names.push_back(id);
  g.files.push_back(place.file);
  g.lines.push_back(place.line);
  g.refs.push_back(-1);
  return g;
}

int32_t Reader::node(std::string_view name, const Words& words, Instance& at) {
  if (name.empty() || name == "=") words.fail(name, "the line ends before its last node" + in_line(words.line()));
  if (is_ground(name)) return -1;
  if (at.prefix.empty()) return out_.nodes.add(name);
  const auto port = at.ports.find(name);
  if (port != at.ports.end() && port->second == kTwice)
    words.fail(name, "the subcircuit " + in_quotes(at.what->name) + " has the node " + in_quotes(name) + " twice");
  if (port != at.ports.end()) return port->second;
  return out_.nodes.add(definitions_.globals.count(name) ? name : full(name, at));
}

std::string_view Reader::full(std::string_view name, const Instance& at) {
  if (at.prefix.empty()) return name;
  scratch_.assign(at.prefix).append(name);
  return scratch_;
}

double Reader::number(Words& words, Instance& at, std::string_view what) {
  const std::string_view word = words.next();
  if (word.empty() || word == "=") words.fail(word, std::string(what) + " is missing" + in_line(words.line()));
  return at.parameters.value(word, words.line());
}

double Reader::require_copies(double m, Place place) {
  if (!(m > 0)) throw DeckError{place, "m must be positive, got " + shown(m)};
  return m;
}

bool Reader::number_follows(const Words& words) {
  const std::string_view next = words.peek();
  double x;
  return literal(next, x) || next.starts_with('{') || next.starts_with('\'');
}

// ---- models -------------------------------------------------------------------------------------------------------------

// The model that a name refers to inside `from`, or null.
const Model* Reader::find_model(std::string_view name, Instance& from, int32_t& number) {
  for (Instance* at = &from; at; at = at->outer) {
    const auto found = at->what->models.find(name);
    if (found == at->what->models.end()) continue;
    const Line* const line = found->second;
    if (const auto plain = plain_models_.find(line); plain != plain_models_.end()) {
      number = plain->second;
    } else if (const auto own = at->models.find(name); own != at->models.end()) {
      number = own->second;
    } else {
      bool is_plain = true;
      number = evaluate_model(*line, *at, is_plain);
      (is_plain ? plain_models_[line] : at->models[name]) = number;
    }
    return &out_.models[number];
  }
  return nullptr;
}

// KEY = VALUE, or KEY VALUE as in SPICE2. A value may be a text about the part, as LTspice writes them: mfg=... type="...". A word
// without a value follows a text, or it is a flag. `is_plain` becomes false if a value depends on parameters.
int32_t Reader::evaluate_model(const Line& line, Instance& at, bool& is_plain) {
  Words words(line);
  words.next();
  const std::string_view name = words.next(), type = words.next();
  if (type.empty()) words.fail(name, ".model needs a name and a type");
  Model m{std::string(name), std::string(type), {}, {}, line.place};
  bool in_text = false;
  for (std::string_view key = words.next(); !key.empty(); key = words.next()) {
    const bool equals = words.take("=");
    if (key == "=") words.fail(key, "a name is needed before '=' in the model " + in_quotes(name));
    if (!equals && !number_follows(words)) {
      if (!in_text) m.texts.emplace_back(std::string(key), "");
      continue;
    }
    double x;
    Words ahead(words);
    const std::string_view value = ahead.next();
    const bool missing = value.empty() || ahead.peek() == "=";           // mfg= type=silicon
    in_text = missing || value.starts_with('"') || !(number_follows(words) || at.parameters.names(value));
    if (!in_text) {
      is_plain &= literal(value, x);
      m.values.emplace_back(std::string(key), number(words, at, key));
    } else {
      m.texts.emplace_back(std::string(key), missing ? "" : std::string(text_value(words)));
    }
  }
  out_.models.push_back(std::move(m));
  return static_cast<int32_t>(out_.models.size()) - 1;
}

// Reads a word, or a text in double quotes.
std::string_view Reader::text_value(Words& words) {
  const std::string_view first = words.next();
  if (!first.starts_with('"') || (first.size() > 1 && first.ends_with('"'))) return first;
  std::string_view last = first;
  while (!last.empty() && (last.data() == first.data() || !last.ends_with('"'))) last = words.next();
  return {first.data(), static_cast<size_t>(last.data() + last.size() - first.data())};
}

// Refuses a parameter that is known but has no number. Texts and flags without effect have one warning for each model.
void Reader::require_numbers(const Model& m, const std::function<bool(std::string_view)>& is_known) {
  std::string passed;
  for (const auto& [key, text] : m.texts) {
    const std::string what = "the parameter " + in_quotes(key) + " of the model " + in_quotes(m.name);
    if (is_known(key) && text.empty()) throw DeckError{m.place, what + " has no value"};
    if (is_known(key)) throw DeckError{m.place, what + " must be a number, got " + in_quotes(text) + ", which is not a parameter either"};
    if (text.empty() && std::find(kFlags.begin(), kFlags.end(), key) == kFlags.end() &&
        std::find(kTexts.begin(), kTexts.end(), key) == kTexts.end())
      throw DeckError{m.place, "the word " + in_quotes(key) + " of the model " + in_quotes(m.name) +
                                   " is unknown, and it has no value: a '=' is needed after the name of a parameter"};
    passed += (passed.empty() ? "" : ", ") + in_quotes(key);
  }
  if (!passed.empty() && told_.insert(m.place.line * int64_t{1 << 20} + m.place.file).second)
    deck_.notes.add(m.place, "texts of the model " + in_quotes(m.name) + " have no effect: " + passed);
}

// ---- subcircuits --------------------------------------------------------------------------------------------------------

// Name, nodes, subcircuit, key = value ...
void Reader::subcircuit(std::string_view name, Words& words, Instance& at, int depth) {
  std::vector<std::string_view> given;
  std::vector<Assignment> values;
  const Line head{split_assignments(words.line(), words.rest(), values), words.line().place};
  Words nodes(head);
  for (std::string_view word = nodes.next(); !word.empty(); word = nodes.next())
    if (word != "params:") given.push_back(word);
  if (given.empty()) words.fail(name, in_quotes(name) + " names no subcircuit");
  const std::string_view kind = given.back();
  given.pop_back();
  Instance& outer = around(kind, words, at);
  const Definition& what = *outer.what->subcircuits.at(kind);
  for (const Instance* p = &at; p; p = p->caller)
    if (p->what == &what) words.fail(kind, "the subcircuit " + in_quotes(kind) + " contains itself");
  if (depth == kDeepestSubcircuit)
    words.fail(kind, "subcircuits are nested more than " + std::to_string(kDeepestSubcircuit) + " deep");
  if (given.size() != what.ports.size())
    words.fail(name, in_quotes(name) + " has " + std::to_string(given.size()) + " nodes, but the subcircuit " + in_quotes(kind) +
                         " has " + std::to_string(what.ports.size()));
  expanded(what.ports.size() + what.defaults.size() + what.locals.size() + what.functions.size(), words.line().place);
  Instance made(&what, &outer, &at);
  made.prefix = at.prefix + std::string(name) + ".";
  for (size_t k = 0; k < given.size(); ++k) {
    const int32_t number = node(given[k], words, at);
    if (!is_ground(what.ports[k])) {
      const auto [port, is_new] = made.ports.try_emplace(what.ports[k], number);
      if (!is_new && port->second != number) port->second = kTwice;
    } else if (number >= 0) {
      deck_.notes.add(words.line().place,
                      "the node '0' or 'gnd' of a .subckt line is ground inside: the node of the X line is ignored");
    }
  }
  parameters(what, values, at, made);
  expand(made, depth + 1);
}

// The innermost instance around `at` in which the subcircuit is defined.
Instance& Reader::around(std::string_view kind, const Words& words, Instance& at) {
  for (Instance* outer = &at; outer; outer = outer->outer)
    if (outer->what->subcircuits.count(kind)) return *outer;
  words.fail(kind, "there is no subcircuit " + in_quotes(kind));
}

// Defines the defaults, the .param lines inside, and the values of the X line, which are evaluated in the scope of the X line. The
// value m= is the number of copies in parallel, unless the subcircuit has a parameter m.
void Reader::parameters(const Definition& what, const std::vector<Assignment>& values, Instance& at, Instance& made) {
  for (const auto* list : {&what.defaults, &what.locals})
    for (const Assignment& a : *list) made.parameters.define(a.name, a.text, *a.line);
  made.copies = at.copies;
  for (const Assignment& a : values) {
    const bool is_known = made.parameters.has(a.name);
    if (!is_known && a.name != "m")
      throw DeckError{a.line->at(a.name), "the subcircuit " + in_quotes(what.name) + " has no parameter " + in_quotes(a.name)};
    const double value = at.parameters.formula(a.text, *a.line);
    if (is_known) {
      made.parameters.define(a.name, value);
    } else {
      made.copies *= require_copies(value, a.line->at(a.name));
    }
  }
}

// ---- after the expansion ------------------------------------------------------------------------------------------------

// The first line is the title in SPICE, but some tools write none. It is read as an element if it has the form of one, shares a
// node with other elements, and has a name of its own.
void Reader::title_as_element(Instance& top) {
  if (deck_.first.empty() || deck_.first[0].text.find_first_of("{'\"=") != std::string_view::npos) return;
  Words words(deck_.first[0]);
  const std::string_view name = words.next(), a = words.next(), b = words.next(), value = words.next();
  double x;
  if (name.empty() || std::string_view("rclvi").find(name[0]) == std::string_view::npos || !literal(value, x)) return;
  if (!words.next().empty() || a == b || (out_.nodes.find(a) < 0 && out_.nodes.find(b) < 0) || out_.elements.find(name) >= 0) return;
  deck_.notes.add({0, 1}, "the first line, a title in SPICE, has the form of an element and is read as one");
  element(deck_.first[0], top, 0);
  deck_.title.clear();
}

void Reader::connect_controls() {
  const auto copies = [&](int32_t id) {
    const auto found = source_copies_.find(id);
    return found == source_copies_.end() ? 1.0 : found->second;
  };
  for (const Pending& p : pending_) {
    const int32_t id = out_.elements.find(p.name);
    if (id < 0 || source_[id] < 0) throw DeckError{p.place, "there is no voltage source " + in_quotes(p.name)};
    Group& g = group(p.letter);
    g.refs[p.k] = source_[id];
    g.values[p.k] *= p.copies / copies(id);      // of copies in parallel, each senses its share of the current
  }
}

// Removes nodes that occur only on X lines and are not connected inside.
void Reader::drop_unused_nodes() {
  std::vector<char> used(static_cast<size_t>(out_.nodes.size()), 0);
  for (const Group& g : out_.groups)
    for (const int32_t n : g.nodes)
      if (n >= 0) used[n] = 1;
  if (std::find(used.begin(), used.end(), 0) == used.end()) return;
  circuit::Names kept;
  std::vector<int32_t> number(used.size(), -1);
  for (int32_t n = 0; n < out_.nodes.size(); ++n)
    if (used[n]) number[n] = kept.add(out_.nodes[n]);
  for (Group& g : out_.groups)
    for (int32_t& n : g.nodes)
      if (n >= 0) n = number[n];
  out_.nodes = std::move(kept);
}

// .ic and .nodeset of a subcircuit, with the names and values of an instance.
void Reader::setting(const Line& line, Instance& at) {
  Words words(line);
  ControlText c{std::string(words.next()), line.place};
  while (!words.peek().empty()) {
    const std::string_view word = words.next(), name = words.next();
    if (word != "v" || name.empty() || !words.take("="))
      words.fail(word, in_quotes(word) + " of " + c.text.substr(0, c.text.find(' ')) + " does not have the form v(node)=value");
    const int32_t n = node(name, words, at);
    c.text += " v(" + (n < 0 ? "0" : std::string(out_.nodes[n])) + ")=" + exact(number(words, at, "the voltage"));
  }
  out_.controls.push_back(std::move(c));
}

void Reader::control(const Control& from, Instance& top) {
  const Line& line = *from.line;
  const std::string_view keyword = Words(line).next();
  if (keyword == ".temp") return;              // see temperatures()
  ControlText c{std::string(keyword), line.place};
  if (keyword.size() < line.text.size() && !is_blank(line.text[keyword.size()])) c.text += ' ';
  for (size_t k = keyword.size(); k < line.text.size();) {
    const char open = line.text[k];
    if (from.is_output || (open != '{' && open != '\'')) {
      c.text += open == '\n' || open == '\r' || open == '\t' ? ' ' : open;
      ++k;
      continue;
    }
    const size_t close = line.text.find(open == '{' ? '}' : '\'', k + 1);
    if (close == std::string_view::npos) throw DeckError{line.at(line.text.substr(k, 1)), unclosed(open)};
    c.text += exact(top.parameters.value(line.text.substr(k, close + 1 - k), line));
    k = close + 1;
  }
  out_.controls.push_back(std::move(c));
}

void read_netlist(const std::string& path, const Load& load, Netlist& out) { Reader(out).read(path, load); }

}  // namespace ms::circuit
