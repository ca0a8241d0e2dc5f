// Writes out the elements of the deck and, at each X line, those of a subcircuit: an instance is a definition with its nodes and
// parameters filled in. One function for each kind of element takes the words of its line.
#include "netlist.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <unordered_map>
#include <utility>

#include "definitions.hpp"
#include "native/interrupt.hpp"
#include "values.hpp"

namespace ms::circuit {
namespace {

constexpr double missing = std::numeric_limits<double>::quiet_NaN();

struct Instance {                              // a definition with its nodes and parameters filled in
  const Definition* what;
  Instance* outer;                             // of the definition around `what`; null for the deck
  const Instance* caller;                      // its parameters are seen as well, as in ngspice
  std::string prefix;                          // "x1.x2."
  std::unordered_map<std::string_view, int32_t> ports;
  std::unordered_map<std::string_view, int32_t> models;
  Parameters parameters;
  Instance(const Definition* what_, Instance* outer_, Instance* caller_)
      : what(what_), outer(outer_), caller(caller_), parameters(caller_ ? &caller_->parameters : nullptr) {}
};

class Reader {
 public:
  explicit Reader(Netlist& out) : out_(out) {
    out_.groups.resize(letters.size());
    for (const char c : {'e', 'g'}) group(c).arity = 4;
    for (const char c : {'c', 'l', 'd'}) group(c).width = 2;
    for (const char c : {'v', 'i'}) group(c).width = 3;
  }

  void read(const std::string& path, const Load& load) {
    struct Names {                             // files are named in messages, also when reading fails
      Deck& deck;
      Netlist& out;
      ~Names() {
        for (const auto& file : deck.files) out.files.push_back(file.first);
        out.title = deck.title;
        out.notes.insert(out.notes.begin(), deck.notes.begin(), deck.notes.end());
      }
    } names{deck_, out_};
    read_lines(path, load, deck_);
    collect(deck_.lines, definitions_);
    Instance top(&definitions_.deck, nullptr, nullptr);
    for (const Assignment& a : definitions_.deck.locals) top.parameters.define(a.name, a.text, *a.line);
    expand(top, 0);
    title_as_element(top);
    connect_controls();
    for (const Line* line : definitions_.controls) control(*line, top);
  }

 private:
  Netlist& out_;
  Deck deck_;
  Definitions definitions_;
  std::unordered_map<const Line*, int32_t> plain_models_;     // without expressions: one for all instances
  std::vector<Place> element_place_;                          // (elements)
  std::vector<int32_t> source_;                               // (elements) number among the voltage sources, or -1
  struct Pending { char letter; size_t k; std::string name; Place place; };
  std::vector<Pending> pending_;                              // f and h elements whose controlling source is to be found
  std::string scratch_;
  int64_t polled_ = 0;

  Group& group(char letter) { return out_.groups[letters.find(letter)]; }

  // ---- expand -----------------------------------------------------------------------------------------------------------

  void expand(Instance& at, int depth) {
    for (const Line* line : at.what->elements) {
      if ((++polled_ & 4095) == 0) interrupt::poll();
      try {
        element(*line, at, depth);
      } catch (Bad& bad) {
        if (!at.prefix.empty() && bad.what.find(" (in ") == std::string::npos)
          bad.what += " (in " + at.prefix.substr(0, at.prefix.size() - 1) + ")";
        throw;
      }
    }
  }

  void element(const Line& line, Instance& at, int depth) {
    Words words(line);
    const std::string_view name = words.next();
    const char letter = name.empty() ? ' ' : name[0];
    switch (letter) {
      case 'r': case 'c': case 'l': return passive(letter, name, words, at);
      case 'v': case 'i': return source(letter, name, words, at);
      case 'e': case 'g': case 'f': case 'h': return controlled(letter, name, words, at);
      case 'd': return diode(name, words, at);
      case 'x': return subcircuit(name, words, at, depth);
      default:
        words.fail(name, in_quotes(name) + ": there are no elements " + in_quotes(name.substr(0, 1)) +
                             " here, only R C L V I D E F G H X");
    }
  }

  // Takes the name and the nodes of an element; its values and its reference follow.
  Group& begin(char letter, std::string_view name, Words& words, Instance& at) {
    const std::string_view whole = full(name, at);
    const int32_t id = out_.elements.add(whole);
    if (id < static_cast<int32_t>(element_place_.size())) {
      const Place& first = element_place_[id];
      words.fail(name, "there is already an element " + in_quotes(whole) + ", in " + deck_.files[first.file].first + ":" +
                           std::to_string(first.line));
    }
    element_place_.push_back(words.line().place);
    Group& g = group(letter);
    source_.push_back(letter == 'v' ? static_cast<int32_t>(g.names.size()) : -1);
    for (int k = 0; k < g.arity; ++k) g.nodes.push_back(node(words.next(), words, at));
    g.names.push_back(id);
    g.files.push_back(words.line().place.file);
    g.lines.push_back(words.line().place.line);
    g.refs.push_back(-1);
    return g;
  }

  int32_t node(std::string_view name, const Words& words, Instance& at) {
    if (name.empty() || name == "=") words.fail(name, "the line ends before its last node");
    if (name == "0" || name == "gnd") return -1;
    if (at.prefix.empty()) return out_.nodes.add(name);
    const auto port = at.ports.find(name);
    if (port != at.ports.end()) return port->second;
    return out_.nodes.add(definitions_.globals.count(name) ? name : full(name, at));
  }

  std::string_view full(std::string_view name, const Instance& at) {
    if (at.prefix.empty()) return name;
    scratch_.assign(at.prefix).append(name);
    return scratch_;
  }

  static double number(Words& words, Instance& at, std::string_view what) {
    const std::string_view word = words.next();
    if (word.empty() || word == "=") words.fail(word, std::string(what) + " is missing");
    return at.parameters.value(word, words.line());
  }

  static bool number_follows(const Words& words) {
    const std::string_view next = words.peek();
    double x;
    return literal(next, x) || next.starts_with('{') || next.starts_with('\'');
  }

  // key = value pairs at the end of a line.
  template <class F> static void options(Words& words, Instance& at, F&& take) {
    for (std::string_view key = words.next(); !key.empty(); key = words.next()) {
      if (!words.take("=")) words.fail(key, in_quotes(key) + " is not expected here");
      if (key == "tc" || key == "tc1" || key == "tc2") {       // of no effect at the nominal temperature
        do number(words, at, key);
        while (number_follows(words));
        continue;
      }
      const double value = number(words, at, key);
      if (!take(key, value)) words.fail(key, "the parameter " + in_quotes(key) + " is not known here");
    }
  }

  void passive(char letter, std::string_view name, Words& words, Instance& at) {
    Group& g = begin(letter, name, words, at);
    double value = missing, initial = missing, times = 1;
    Words ahead(words);
    ahead.next();
    if (ahead.peek() != "=" && !words.peek().empty()) value = number(words, at, "the value");
    options(words, at, [&](std::string_view key, double x) {
      if (key.size() == 1 && key[0] == letter) value = x;
      else if (key == "ic" && letter != 'r') initial = x;
      else if (key == "m") times = x;
      else return false;
      return true;
    });
    if (std::isnan(value)) words.fail(name, in_quotes(name) + " has no value");
    if (!(times > 0)) words.fail(name, "m has to be positive");
    value = letter == 'c' ? value * times : value / times;
    if (letter == 'r' && value == 0) return short_circuit(g);
    if (!std::isfinite(letter == 'r' ? 1 / value : value)) words.fail(name, in_quotes(name) + " has a value out of range");
    g.values.push_back(value);
    if (letter != 'r') g.values.push_back(initial);
  }

  // A resistor of 0 ohm becomes a voltage source of 0 V: the same equations, and its current is known.
  void short_circuit(Group& r) {
    Group& v = group('v');
    v.nodes.insert(v.nodes.end(), r.nodes.end() - 2, r.nodes.end());
    r.nodes.resize(r.nodes.size() - 2);
    source_.back() = static_cast<int32_t>(v.names.size());
    for (auto member : {&Group::refs, &Group::names, &Group::files, &Group::lines}) {
      (v.*member).push_back((r.*member).back());
      (r.*member).pop_back();
    }
    v.values.insert(v.values.end(), {0.0, 0.0, 0.0});
  }

  void source(char letter, std::string_view name, Words& words, Instance& at) {
    Group& g = begin(letter, name, words, at);
    double dc = missing, ac = 0, phase = 0;
    int32_t wave = -1;
    bool first = true, small_signal = false;
    for (std::string_view word = words.next(); !word.empty(); word = words.next(), first = false) {
      if ((word == "dc" && !std::isnan(dc)) || (word == "ac" && std::exchange(small_signal, true))) {
        words.fail(word, "a second " + std::string(word) + " value");
      } else if (word == "dc") {
        words.take("=");
        dc = number(words, at, "the dc value");
      } else if (word == "ac") {
        words.take("=");
        ac = number_follows(words) ? number(words, at, "the ac magnitude") : 1.0;
        phase = number_follows(words) ? number(words, at, "the ac phase") : 0.0;
      } else if (is_shape(word)) {
        if (wave >= 0) words.fail(word, "a second waveform");
        wave = waveform(word, words, at);
      } else if (first) {
        dc = at.parameters.value(word, words.line());
      } else {
        words.fail(word, in_quotes(word) + " is not expected here: DC, AC, PULSE, SIN, EXP or PWL is");
      }
    }
    if (std::isnan(dc) && wave < 0) dc = 0;
    g.values.insert(g.values.end(), {dc, ac, phase});
    g.refs.back() = wave;
  }

  static bool is_shape(std::string_view word) { return word == "pulse" || word == "sin" || word == "exp" || word == "pwl"; }

  int32_t waveform(std::string_view word, Words& words, Instance& at) {
    Waveform w{word == "pwl" ? 'w' : word[0], {}};
    const auto ends = [](std::string_view next) { return next.empty() || next == "ac" || next == "dc" || is_shape(next); };
    while (!ends(words.peek())) w.values.push_back(number(words, at, "a value"));
    const bool pairs = w.kind == 'w';
    const size_t n = w.values.size(), most = w.kind == 'p' ? 8 : 6;
    if (n < 2 || (pairs ? n % 2 : n > most)) {
      const std::string needed = pairs ? "pairs of a time and a value" : "2 to " + std::to_string(most);
      words.fail(word, in_quotes(word) + " has " + std::to_string(n) + " values; " + needed + " are needed");
    }
    for (size_t k = 2; pairs && k < n; k += 2)
      if (w.values[k] < w.values[k - 2]) words.fail(word, "the times of pwl have to ascend");
    if (w.kind == 'p' && n == 8 && !(w.values[7] >= 0 && w.values[7] == std::floor(w.values[7])))
      words.fail(word, "the number of pulses has to be an integer of at least 0");
    for (size_t k = 3; k < std::min<size_t>(n, 7); ++k)          // rise, fall, width, period; tau1, tau2
      if (w.values[k] < 0 && (w.kind == 'p' || (w.kind == 'e' && k % 2)))
        words.fail(word, "the times of " + in_quotes(word) + " after the delay have to be at least 0");
    if (w.kind == 'e' && n > 4 && w.values[4] < w.values[2]) words.fail(word, "the second delay of 'exp' is before the first one");
    out_.waveforms.push_back(std::move(w));
    return static_cast<int32_t>(out_.waveforms.size()) - 1;
  }

  // Refuses the sources that other simulators write in the place of the controlling nodes: poly(2) ..., value={...}, table {...}.
  static void require_linear(char letter, std::string_view name, Words ahead) {
    ahead.next(), ahead.next();
    const std::string_view kind = ahead.next(), next = ahead.next();
    const bool formula = next == "=" || (!next.empty() && (next[0] == '{' || next[0] == '\''));
    const bool named = kind == "value" || kind == "vol" || kind == "cur" || kind == "table" || kind == "laplace" || kind == "freq";
    if (kind != "poly" && kind != "pwl" && !(named && formula)) return;
    const bool by_nodes = letter == 'e' || letter == 'g';
    ahead.fail(kind, in_quotes(name) + ": " + in_quotes(kind) + " is not supported; controlled sources are linear here: " +
                         std::string(name) + (by_nodes ? " n+ n- nc+ nc- gain" : " n+ n- vsource gain"));
  }

  void controlled(char letter, std::string_view name, Words& words, Instance& at) {
    require_linear(letter, name, words);
    Group& g = begin(letter, name, words, at);
    if (g.arity == 2) {
      const std::string_view source = words.next();
      if (source.empty()) words.fail(name, in_quotes(name) + " has no controlling voltage source");
      pending_.push_back({letter, g.names.size() - 1, std::string(full(source, at)), words.line().at(source)});
    }
    double gain = number(words, at, "the gain");
    options(words, at, [&](std::string_view key, double x) {
      if (key != "m" || (letter != 'g' && letter != 'f')) return false;
      gain *= x;
      return true;
    });
    g.values.push_back(gain);
  }

  void diode(std::string_view name, Words& words, Instance& at) {
    Group& g = begin('d', name, words, at);
    const std::string_view model_name = words.next();
    if (model_name.empty()) words.fail(name, in_quotes(name) + " has no model");
    g.refs.back() = model(model_name, words, at);
    double area = 1, times = 1, initial = missing;
    words.take("off");
    if (number_follows(words)) area = number(words, at, "the area");
    words.take("off");
    options(words, at, [&](std::string_view key, double value) {
      if (key == "area") area = value;
      else if (key == "m") times = value;
      else if (key == "ic") initial = value;
      else return false;
      return true;
    });
    if (!(area * times > 0)) words.fail(name, "the area of a diode has to be positive");
    g.values.insert(g.values.end(), {area * times, initial});
  }

  int32_t model(std::string_view name, Words& words, Instance& from) {
    for (Instance* at = &from; at; at = at->outer) {
      const auto found = at->what->models.find(name);
      if (found == at->what->models.end()) continue;
      const Line& line = *found->second;
      const bool plain = line.text.find_first_of("{'") == std::string_view::npos;
      int32_t& known = (plain ? plain_models_.try_emplace(&line, -1).first->second
                              : at->models.try_emplace(name, -1).first->second);
      if (known < 0) known = evaluate_model(line, *at);
      const std::string& type = out_.models[known].type;
      if (type != "d") words.fail(name, "the model " + in_quotes(name) + " is of type " + in_quotes(type) + ", not D");
      return known;
    }
    words.fail(name, "there is no model " + in_quotes(name));
  }

  int32_t evaluate_model(const Line& line, Instance& at) {
    Words words(line);
    words.next();
    const std::string_view name = words.next(), type = words.next();
    if (type.empty()) words.fail(name, ".model needs a name and a type");
    Model m{std::string(type), {}, line.place};
    for (std::string_view key = words.next(); !key.empty(); key = words.next()) {
      if (!words.take("=")) words.fail(key, "a '=' is needed after " + in_quotes(key));
      m.values.emplace_back(std::string(key), number(words, at, key));
    }
    out_.models.push_back(std::move(m));
    return static_cast<int32_t>(out_.models.size()) - 1;
  }

  // Name, nodes, subcircuit, key = value ...
  void subcircuit(std::string_view name, Words& words, Instance& at, int depth) {
    std::vector<std::string_view> given;
    std::vector<Assignment> values;
    for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
      if (word == "params:") continue;
      if (words.take("=")) values.push_back({word, value_word(words, word), &words.line()});
      else given.push_back(word);
    }
    if (given.empty()) words.fail(name, in_quotes(name) + " names no subcircuit");
    const std::string_view kind = given.back();
    given.pop_back();
    Instance& outer = around(kind, words, at);
    const Definition& what = *outer.what->subcircuits.at(kind);
    for (const Instance* p = &at; p; p = p->caller)
      if (p->what == &what) words.fail(kind, "the subcircuit " + in_quotes(kind) + " contains itself");
    if (depth == deepest) words.fail(kind, "subcircuits are nested more than " + std::to_string(deepest) + " deep");
    if (given.size() != what.ports.size())
      words.fail(name, in_quotes(name) + " has " + std::to_string(given.size()) + " nodes, the subcircuit " + in_quotes(kind) +
                           " " + std::to_string(what.ports.size()));
    Instance made(&what, &outer, &at);
    made.prefix = at.prefix + std::string(name) + ".";
    for (size_t k = 0; k < given.size(); ++k) made.ports[what.ports[k]] = node(given[k], words, at);
    parameters(what, values, words, at, made);
    expand(made, depth + 1);
  }

  // The innermost instance around `at` in which the subcircuit is defined.
  static Instance& around(std::string_view kind, const Words& words, Instance& at) {
    for (Instance* outer = &at; outer; outer = outer->outer)
      if (outer->what->subcircuits.count(kind)) return *outer;
    words.fail(kind, "there is no subcircuit " + in_quotes(kind));
  }

  // Defaults, .param lines inside, and the caller's values, which are evaluated where the caller stands.
  static void parameters(const Definition& what, const std::vector<Assignment>& values, const Words& words, Instance& at,
                         Instance& made) {
    std::vector<std::string_view> known;
    for (const auto* list : {&what.defaults, &what.locals})
      for (const Assignment& a : *list) {
        made.parameters.define(a.name, a.text, *a.line);
        known.push_back(a.name);
      }
    for (const Assignment& a : values) {
      if (std::find(known.begin(), known.end(), a.name) == known.end())
        words.fail(a.name, "the subcircuit " + in_quotes(what.name) + " has no parameter " + in_quotes(a.name));
      made.parameters.define(a.name, at.parameters.value(a.text, words.line()));
    }
  }

  // ---- afterwards -------------------------------------------------------------------------------------------------------

  // SPICE takes the first line as the title; some tools write their netlists without one. It counts as an element where it
  // reads as one and has a node that other elements use.
  void title_as_element(Instance& top) {
    if (deck_.first.empty() || deck_.first[0].text.empty()) return;
    Words words(deck_.first[0]);
    const std::string_view name = words.next(), a = words.next(), b = words.next(), value = words.next();
    double x;
    if (name.empty() || std::string_view("rclvi").find(name[0]) == std::string_view::npos || !literal(value, x)) return;
    if (!words.next().empty() || a == b || (out_.nodes.find(a) < 0 && out_.nodes.find(b) < 0)) return;
    out_.notes.push_back({{0, 1}, "the first line, a title in SPICE, is taken as the element that it reads as"});
    element(deck_.first[0], top, 0);
    deck_.title.clear();
  }

  void connect_controls() {
    for (const Pending& p : pending_) {
      const int32_t id = out_.elements.find(p.name);
      if (id < 0 || source_[id] < 0) throw Bad{p.place, "there is no voltage source " + in_quotes(p.name)};
      group(p.letter).refs[p.k] = source_[id];
    }
  }

  void control(const Line& line, Instance& top) {
    Control c{{}, line.place};
    for (size_t k = 0; k < line.text.size();) {
      const char open = line.text[k];
      if (open != '{' && open != '\'') {
        c.text += open == '\n' || open == '\r' || open == '\t' ? ' ' : open;
        ++k;
        continue;
      }
      const size_t close = line.text.find(open == '{' ? '}' : '\'', k + 1);
      if (close == std::string_view::npos) throw Bad{line.at(line.text.substr(k, 1)), "an expression begins and does not end"};
      std::array<char, 32> digits;
      const double value = top.parameters.value(line.text.substr(k, close + 1 - k), line);
      const int length = std::snprintf(digits.data(), digits.size(), "%.17g", value);
      c.text.append(digits.data(), static_cast<size_t>(length));
      k = close + 1;
    }
    out_.controls.push_back(std::move(c));
  }
};

}  // namespace

void read_netlist(const std::string& path, const Load& load, Netlist& out) { Reader(out).read(path, load); }

}  // namespace ms::circuit
