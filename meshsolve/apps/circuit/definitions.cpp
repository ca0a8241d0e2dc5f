// One pass over the logical lines. The `outer` pointers of the open .subckt lines are their stack.
#include "definitions.hpp"

#include <algorithm>
#include <array>

#include "netlist.hpp"

namespace ms::circuit {
namespace {

// Control lines that controls.py parses.
constexpr std::array<std::string_view, 12> kControls = {
    ".op", ".dc", ".ac", ".tran", ".ic", ".nodeset", ".temp", ".options", ".option", ".optio", ".opti", ".opt"};
// Requests for output, and analyses that change no value of the others: parsed or ignored in controls.py.
constexpr std::array<std::string_view, 35> kRequests = {
    ".print", ".plot", ".probe", ".save", ".four", ".meas", ".measure", ".width", ".title", ".backanno", ".graph", ".tf", ".sens",
    ".noise", ".pz", ".disto", ".step", ".fft", ".fourier", ".net", ".lin", ".hb", ".wave", ".mc", ".wcase", ".stim", ".sampling",
    ".result", ".preprocess", ".sp", ".pss", ".export", ".doc", ".alias", ".sweep"};

template <size_t n>
bool among(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool ends_name(char c) { return is_blank(c) || c == ',' || c == '(' || c == ')' || c == '{' || c == '}' || c == '\'' || c == '"'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (is_blank(text.front()) || text.front() == ',')) text.remove_prefix(1);
  while (!text.empty() && (is_blank(text.back()) || text.back() == ',')) text.remove_suffix(1);
  if (text.ends_with("params:")) return trimmed(text.substr(0, text.size() - 7));
  return text;
}

// Positions of the '=' outside of parentheses, braces and quotes, without comparisons.
std::vector<size_t> equal_signs(std::string_view text) {
  std::vector<size_t> out;
  int depth = 0;
  char quote = 0;
  for (size_t k = 0; k < text.size(); ++k) {
    const char c = text[k];
    if (quote) quote = c == quote ? '\0' : quote;
    else if (c == '\'' || c == '"') quote = c;
    else if (c == '(' || c == '{') ++depth;
    else if (c == ')' || c == '}') --depth;
    else if (c == '=' && text.substr(k + 1).starts_with('=')) ++k;
    else if (c == '=' && depth <= 0 && (k == 0 || std::string_view("<>!").find(text[k - 1]) == std::string_view::npos)) out.push_back(k);
  }
  return out;
}

// Begin of the name before the '=' at `equal`. The name may have (arguments).
size_t name_begin(std::string_view text, size_t equal) {
  size_t k = equal;
  while (k > 0 && is_blank(text[k - 1])) --k;
  if (k > 0 && text[k - 1] == ')') {
    const size_t open = text.rfind('(', k - 1);
    if (open == std::string_view::npos) return k;
    for (k = open; k > 0 && is_blank(text[k - 1]);) --k;
  }
  while (k > 0 && !ends_name(text[k - 1]) && text[k - 1] != '=' && !text.substr(0, k).ends_with("params:")) --k;
  return k;
}

void ports_of(Definition& made, std::string_view head, Place place) {
  Line line{head, place};
  Words words(line);
  words.next(), words.next();                  // .subckt, its name
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word != "params:") made.ports.push_back(word);
  }
}

Definition* open(Definition& outer, Words& words, Definitions& all, Notes& notes) {
  auto made = std::make_unique<Definition>();
  made->outer = &outer;
  made->line = &words.line();
  made->depth = outer.depth + 1;
  const std::string_view name = made->name = words.next();
  if (name.empty()) words.fail(name, ".subckt needs a name");
  if (made->depth > kDeepestSubcircuit)
    words.fail(name, "definitions of subcircuits are nested more than " + std::to_string(kDeepestSubcircuit) + " deep");
  const std::string_view head = split_assignments(words.line(), words.line().text, made->defaults);
  for (Assignment& a : made->defaults) {       // r=1 b: nodes do not follow values
    const size_t blank = a.text.find_first_of(" \t\r\n");
    double x;
    if (blank == std::string_view::npos || !literal(a.text.substr(0, blank), x)) continue;
    const std::string_view after = trimmed(a.text.substr(blank));
    if (!after.empty() && is_in_name(after[0]))
      words.fail(after, "the node " + in_quotes(after) + " must come before the parameters");
  }
  ports_of(*made, head, words.line().place);
  if (outer.subcircuits.count(name)) {
    notes.add(words.line().place, "a subcircuit is defined a second time: the first definition counts");
    return all.ignored.emplace_back(std::move(made)).get();
  }
  return (outer.subcircuits[name] = std::move(made)).get();
}

Definition* close(const Definition& here, Words& words, std::string_view keyword, Notes& notes) {
  if (!here.outer) words.fail(keyword, ".ends without .subckt");
  const std::string_view name = words.next();
  for (const Definition* around = here.outer; around->outer; around = around->outer)
    if (!name.empty() && name != here.name && name == around->name)
      words.fail(name, ".ends " + std::string(name) + " comes before the .ends of .subckt " + std::string(here.name));
  if (!name.empty() && name != here.name)
    notes.add(words.line().place, "the name after .ends differs from that of its .subckt and is ignored");
  return here.outer;
}

// Parses f(x,y): the name and arguments of a function.
std::string_view signature(std::string_view text, const Words& words, Function& f) {
  const size_t open = text.find('('), shut = text.find(')');
  const std::string_view name = trimmed(text.substr(0, open));
  if (open == std::string_view::npos || shut == std::string_view::npos || shut < open || name.empty() || !is_letter(name[0]))
    words.fail(text, "a function must have the form name(arguments) {expression}");
  for (std::string_view left = text.substr(open + 1, shut - open - 1); !trimmed(left).empty();) {
    const size_t comma = left.find(',');
    f.arguments.push_back(trimmed(left.substr(0, comma)));
    left = comma == std::string_view::npos ? std::string_view{} : left.substr(comma + 1);
  }
  return name;
}

void function(Definition& here, std::string_view head, std::string_view body, const Words& words) {
  Function f;
  const std::string_view name = signature(head, words, f);
  body = trimmed(body);
  if (body.starts_with('=')) body = trimmed(body.substr(1));
  if (body.empty()) words.fail(head, "the function " + in_quotes(name) + " has no expression");
  if (body.size() >= 2 && body[0] == '\'' && body.back() == '\'') body = body.substr(1, body.size() - 2);
  f.body = body;
  f.line = &words.line();
  here.functions.emplace_back(name, std::move(f));
}

// .step param NAME list V1 V2 ... or START STOP INCREMENT, with oct, dec or lin: a parameter without a .param line has the first value.
void step(Definition& here, Words& words) {
  for (const std::string_view spacing : {"oct", "dec", "lin"}) words.take(spacing);
  if (!words.take("param")) return;
  const std::string_view name = words.next();
  for (const std::string_view spacing : {"list", "oct", "dec", "lin"}) words.take(spacing);
  const std::string_view first = words.next();
  if (!name.empty() && !first.empty() && is_letter(name[0])) here.stepped.push_back({name, first, &words.line()});
}

// .param lines: values, and functions where arguments follow the name.
void assignments(Words& words, Definition& here) {
  std::vector<Assignment> found;
  const std::string_view head = trimmed(split_assignments(words.line(), words.rest(), found));
  if (!head.empty()) words.fail(head, "a '=' is needed after " + in_quotes(head.substr(0, head.find_first_of(" \t\r\n"))));
  for (const Assignment& a : found) {
    if (a.name.find('(') != std::string_view::npos) {
      function(here, a.name, a.text, words);
      continue;
    }
    if (a.name[0] >= '0' && a.name[0] <= '9')
      words.fail(a.name, "the name of a parameter must not begin with a digit, got " + in_quotes(a.name));
    here.locals.push_back(a);
  }
}

void model(Definition& here, Words& words, std::string_view keyword, Notes& notes) {
  const std::string_view name = words.next();
  if (name.empty()) words.fail(keyword, ".model needs a name and a type");
  if (!here.models.emplace(name, &words.line()).second)
    notes.add(words.line().place, "a model is defined a second time: the first definition counts");
}

const char* meaning(char letter) {
  switch (letter) {
    case 'q': return " (bipolar transistors)";
    case 'm': return " (MOSFETs)";
    case 'j': return " (JFETs)";
    case 'z': return " (MESFETs)";
    case 's': case 'w': return " (switches)";
    case 'k': return " (coupled inductors)";
    case 't': case 'o': case 'p': case 'u': return " (transmission lines)";
    default: return "";
  }
}

// Finds unsupported elements. Visits each subcircuit that is used once.
class Survey {
 public:
  explicit Survey(Unsupported& out) : out_(out) {}

  void look(const Definition& here) {
    std::vector<const Definition*> open = {&here};
    while (!open.empty()) {
      const Definition& d = *open.back();
      open.pop_back();
      if (!seen_.insert(&d).second) continue;
      for (const Line* line : d.elements) {
        const char letter = line->text[0];
        if (letter == 'x') {
          if (const Definition* used = kind(*line, d)) open.push_back(used);
        } else if (letter != 'b' && letters().find(letter) == std::string::npos) {
          const char upper = static_cast<char>(is_letter(letter) ? letter - 32 : letter);
          out_.add(std::string(1, upper) + " elements" + meaning(letter), line->text.substr(0, line->text.find_first_of(" \t\r\n")), line->place);
        }
      }
    }
  }

 private:
  Unsupported& out_;
  std::unordered_set<const Definition*> seen_;

  static const Definition* kind(const Line& line, const Definition& here) {
    std::vector<Assignment> values;
    const Line head{split_assignments(line, line.text, values), line.place};
    Words words(head);
    std::string_view last;
    for (std::string_view word = words.next(); !word.empty(); word = words.next())
      if (word != "params:") last = word;
    return subcircuit_of(here, last);
  }
};

}  // namespace

bool is_ground(std::string_view node) { return node == "0" || node == "gnd"; }

void Unsupported::add(const std::string& kind, std::string_view first, Place place) {
  const auto [at, is_new] = index_.try_emplace(kind, kinds_.size());
  if (is_new) kinds_.push_back({kind, in_quotes(first), place, 0});
  ++kinds_[at->second].count;
}

DeckError Unsupported::error(const std::vector<std::string>& files) const {
  std::string what = "the deck has unsupported elements or lines: ";
  for (const Kind& k : kinds_) {
    if (&k != &kinds_[0]) what += "; ";
    what += k.what + ": " + std::to_string(k.count) + ", the first is " + k.first + " in " + files[k.place.file] + ":" +
            std::to_string(k.place.line);
  }
  what += ". Supported are the elements R C L V I";
  for (const char letter : letters().substr(letters().find('h') + 1)) what += {' ', static_cast<char>(letter - 32)};
  what += ", linear E F G H B, and X; .op .dc .ac .tran .print .ic .nodeset .temp .options "
          ".include .lib .subckt .ends .param .func .model .global .end";
  return DeckError{kinds_[0].place, what};
}

const Definition* subcircuit_of(const Definition& here, std::string_view name) {
  for (const Definition* at = &here; at; at = at->outer)
    if (const auto found = at->subcircuits.find(name); found != at->subcircuits.end()) return found->second.get();
  return nullptr;
}

std::string_view split_assignments(const Line& line, std::string_view text, std::vector<Assignment>& out) {
  const std::vector<size_t> equal = equal_signs(text);
  std::vector<size_t> begin;
  for (const size_t e : equal) begin.push_back(name_begin(text, e));
  for (size_t k = 0; k < equal.size(); ++k) {
    const std::string_view name = trimmed(text.substr(begin[k], equal[k] - begin[k]));
    const size_t stop = k + 1 < equal.size() ? std::max(begin[k + 1], equal[k] + 1) : text.size();
    const std::string_view value = trimmed(text.substr(equal[k] + 1, stop - equal[k] - 1));
    if (name.empty()) throw DeckError{line.at(text.substr(equal[k], 1)), "a name is needed before '='"};
    if (value.empty()) throw DeckError{line.at(name), in_quotes(name) + " has no value"};
    out.push_back({name, value, &line});
  }
  return equal.empty() ? text : text.substr(0, begin[0]);
}

void collect(const std::vector<Line>& lines, Definitions& out, Notes& notes) {
  Definition* here = &out.deck;
  for (const Line& line : lines) {
    if (line.text[0] != '.') {
      here->elements.push_back(&line);
      continue;
    }
    Words words(line);
    const std::string_view keyword = words.next();
    if (keyword == ".subckt") here = open(*here, words, out, notes);
    else if (keyword == ".ends") here = close(*here, words, keyword, notes);
    else if (keyword == ".param" || keyword == ".params") assignments(words, *here);
    else if (keyword == ".func") {
      const std::string_view rest = words.rest();
      const size_t shut = std::min(rest.find(')'), rest.size() - 1);
      function(*here, rest.substr(0, shut + 1), rest.substr(std::min(shut + 1, rest.size())), words);
    } else if (keyword == ".model") model(*here, words, keyword, notes);
    else if (keyword == ".global") for (std::string_view w = words.next(); !w.empty(); w = words.next()) out.globals.insert(w);
    else if (among(kRequests, keyword)) {
      if (keyword == ".step" && here == &out.deck) step(*here, words);
      out.controls.push_back({&line, true});
    }
    else if (!among(kControls, keyword)) out.unsupported.add(std::string(keyword) + " lines", keyword, line.place);
    else if (here != &out.deck && (keyword == ".ic" || keyword == ".nodeset")) here->settings.push_back(&line);
    else if (here != &out.deck) words.fail(keyword, in_quotes(keyword) + " must not be inside a subcircuit");
    else out.controls.push_back({&line, false});
  }
  if (here != &out.deck)
    throw DeckError{here->line->place, ".subckt " + std::string(here->name) + " has no .ends: was the file cut?"};
  Survey(out.unsupported).look(out.deck);
}

}  // namespace ms::circuit
