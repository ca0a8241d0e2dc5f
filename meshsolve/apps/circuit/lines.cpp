// One sweep over the bytes of each file; see lines.hpp.
#include "lines.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "native/threads/interrupt.hpp"

namespace ms::circuit {
namespace {

constexpr size_t kDeepestInclude = 50;         // most nested includes
constexpr ptrdiff_t kLongestTitle = 4096;      // bytes of the title that are kept
constexpr char kEndOfText = '\x1a';            // Ctrl-Z, the end of a text file of DOS

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool separates_words(char c) { return blank(c) || c == '\n' || c == ',' || c == '(' || c == ')'; }

char lower(char c) {
  static const std::array<char, 256> table = [] {
    std::array<char, 256> t;
    for (int k = 0; k < 256; ++k) t[k] = static_cast<char>(k >= 'A' && k <= 'Z' ? k + 32 : k);
    return t;
  }();
  return table[static_cast<unsigned char>(c)];
}

// True if the first word of the line is `word`, in any case.
bool begins(const char* from, const char* to, std::string_view word) {
  if (static_cast<size_t>(to - from) < word.size()) return false;
  for (size_t k = 0; k < word.size(); ++k)
    if (lower(from[k]) != word[k]) return false;
  return from + word.size() == to || separates_words(from[word.size()]) || from[word.size()] == '"' || from[word.size()] == '\'';
}

class Sweep {
 public:
  Sweep(const Load& load, Deck& out) : load_(load), out_(out) {}

  // Reads a file, or one section of it. The name of the section is in lower case.
  void file(const std::string& path, Place from, const std::string& section = {}) {
    const std::string plain = std::filesystem::path(path).lexically_normal().string() + '\n' + section;
    const std::string what = section.empty() ? path : "section " + in_quotes(section) + " of " + path;
    if (std::find(open_.begin(), open_.end(), plain) != open_.end()) throw DeckError{from, what + " includes itself"};
    if (open_.size() == kDeepestInclude)
      throw DeckError{from, "includes are nested more than " + std::to_string(kDeepestInclude) + " deep"};
    interrupt::poll();
    auto [text, error] = load_(path);
    if (!error.empty()) throw DeckError{from, std::move(error)};
    open_.push_back(plain);
    out_.files.emplace_back(path, std::move(text));
    if (!sweep(static_cast<int32_t>(out_.files.size()) - 1, section))
      throw DeckError{from, path + " has no section " + in_quotes(section) + ": .lib " + section + " begins one, .endl ends it"};
    open_.pop_back();
  }

 private:
  const Load& load_;
  Deck& out_;
  std::vector<std::string> open_;             // files and sections being read; each is included by the one before
  Line* last_ = nullptr;                      // the line that '+' continues

  // False if the section is not in the file.
  bool sweep(int32_t number, const std::string& section) {
    std::span<char>& text = out_.files[number].second.bytes;
    end_text(text, number);
    end_lines(text);
    blank_spaces(text);
    if (std::memchr(text.data(), 0, text.size())) throw DeckError{{number, 1}, "this is not a text file: it has a zero byte"};
    char* at = text.data();
    char* const end = at + text.size();
    bool control = false, skipped = !section.empty();           // inside a .control block; in a section that is not read
    Place begin{number, 1};                                     // of the .control block or the section
    last_ = nullptr;
    for (int32_t line = 1; at < end; ++line) {
      if (line % 65536 == 0) interrupt::poll();
      const Place place{number, line};
      char* to = std::find(at, end, '\n');
      char* from = at;
      at = to == end ? end : to + 1;
      if (line == 1 && number == 0) {
        title(from, to);
        continue;
      }
      while (from < to && blank(*from)) ++from;
      if (skipped) {
        const bool wanted = !section.empty() && begins(from, to, ".lib") && section_begins(from, to, section);
        skipped = !(wanted || (section.empty() && begins(from, to, ".endl")));
        if (wanted) begin = place;
        std::fill(from, to, ' ');
      } else if (control) {
        control = !begins(from, to, ".endc");
        std::fill(from, to, ' ');
      } else if (from == to || *from == '*' || comment(from, from, to)) {
        std::fill(from, to, ' ');
      } else if (*from == '+') {
        continuation(from, to, place);
      } else if (begins(from, to, ".end")) {
        return true;
      } else if (begins(from, to, ".control")) {
        control = true;
        begin = place;
        out_.notes.add(place, "the block from .control to .endc is ignored");
        last_ = nullptr;
      } else if (begins(from, to, ".include") || begins(from, to, ".incl") || begins(from, to, ".inc")) {
        include(from, to, place);
      } else if (begins(from, to, ".endl")) {
        if (section.empty()) throw DeckError{place, ".endl without .lib"};
        last_ = nullptr;
        return true;
      } else if (begins(from, to, ".lib")) {
        skipped = library(from, to, at, end, place);
      } else {
        strip(from, to);
        out_.lines.push_back({{from, static_cast<size_t>(to - from)}, place});
        last_ = &out_.lines.back();
      }
    }
    if (control) throw DeckError{begin, ".control without .endc: was the file cut?"};
    if (skipped) return false;
    if (!section.empty()) throw DeckError{begin, ".lib " + section + " has no .endl: was the file cut?"};
    if (number == 0) without_end(text);
    return true;
  }

  // Removes the end of a text file of DOS and what follows it.
  void end_text(std::span<char>& text, int32_t number) {
    const std::string_view all(text.data(), text.size());
    const size_t stop = all.find(kEndOfText);
    if (stop == std::string_view::npos) return;
    if (all.find_first_not_of(std::string_view(" \t\r\n\0\x1a", 6), stop) != std::string_view::npos)
      out_.notes.add({number, static_cast<int32_t>(std::count(all.begin(), all.begin() + static_cast<long>(stop), '\n')) + 1},
                     "the text after a Ctrl-Z (byte 1A), the end of a file of DOS, is not read");
    text = text.first(stop);
  }

  // Replaces the carriage returns by ends of lines if the text has no others, as in files of old Macintosh computers.
  static void end_lines(std::span<char> text) {
    if (std::find(text.begin(), text.end(), '\n') == text.end()) std::replace(text.begin(), text.end(), '\r', '\n');
  }

  // Replaces spaces of Unicode, such as the no-break space of web pages and word processors, by blanks of the same
  // length, and form feeds and vertical tabs too.
  static void blank_spaces(std::span<char> text) {
    static constexpr std::array<std::string_view, 5> spaces = {
        "\xc2\xa0", "\xe2\x80\xaf", "\xe2\x81\xa0", "\xe3\x80\x80", "\xef\xbb\xbf"};      // the last is the byte order mark
    const auto is_page = [](char c) { return c == '\f' || c == '\v'; };
    const auto is_lead = [&](char c) { return is_page(c) || c == '\xa0' || c == '\xc2' || c == '\xe2' || c == '\xe3' || c == '\xef'; };
    for (auto at = std::find_if(text.begin(), text.end(), is_lead); at != text.end(); at = std::find_if(at + 1, text.end(), is_lead)) {
      const std::string_view rest(text.data() + (at - text.begin()), static_cast<size_t>(text.end() - at));
      const bool general = rest.size() > 2 && rest.starts_with("\xe2\x80") && static_cast<unsigned char>(rest[2]) <= 0x8b;      // en space, ...
      const bool latin = *at == '\xa0' && (at == text.begin() || static_cast<unsigned char>(at[-1]) < 0x80);       // not a part of a character in UTF-8
      size_t length = general ? 3 : latin || is_page(*at) ? 1 : 0;
      for (const std::string_view space : spaces)
        if (rest.starts_with(space)) length = space.size();
      std::fill(at, at + static_cast<long>(length), ' ');
    }
  }

  void continuation(char* from, char* to, Place place) {
    if (!last_) throw DeckError{place, "a continuation line (+) must follow another line"};
    if (!out_.first.empty() && last_ == &out_.first.back())
      out_.notes.add(place, "a line that begins with '+' after the title belongs to the title");
    *from = ' ';
    strip(from, to);
    last_->text = {last_->text.data(), static_cast<size_t>(to - last_->text.data())};
  }

  void title(char* from, char* to) {
    const Place place{0, 1};
    while (from < to && blank(*from)) ++from;
    out_.title.assign(from, std::min(to, from + kLongestTitle));
    while (!out_.title.empty() && blank(out_.title.back())) out_.title.pop_back();
    if (from < to && *from == '.')
      out_.notes.add(place, "the first line of a deck is its title: " + in_quotes(out_.title) + " has no effect");
    strip(from, to);
    out_.first.push_back({{from, static_cast<size_t>(to - from)}, place});
    last_ = &out_.first.back();
  }

  // A complete deck closes with .end. Without it the file may be truncated.
  void without_end(std::span<const char> text) {
    if (text.empty()) throw DeckError{{0, 1}, "the file is empty"};
    const Place place{0, static_cast<int32_t>(std::count(text.begin(), text.end(), '\n')) + (text.back() != '\n')};
    out_.notes.add(place, std::string("the file ends ") + (text.back() != '\n' ? "within a line and " : "") + "without .end: was it cut?");
  }

  // True if a comment begins at p: with ';', '//', or a '$' at the begin of a word.
  static bool comment(const char* p, const char* from, const char* to) {
    if (*p == '$') return p == from || blank(p[-1]) || p[-1] == ',';
    return *p == ';' || (*p == '/' && p + 1 < to && p[1] == '/');
  }

  // Converts to lower case and blanks the comment.
  static void strip(char* from, char* to) {
    for (char* p = from; p < to; ++p) {
      if (comment(p, from, to)) {
        std::fill(p, to, ' ');
        return;
      }
      *p = lower(*p);
    }
  }

  // Reads the next word of a line, which may be quoted. Its case is kept.
  static std::string quoted_word(char*& from, char* to) {
    while (from < to && blank(*from)) ++from;
    if (from == to || comment(from, from, to)) return {};
    const bool quoted = *from == '"' || *from == '\'';
    char* const word = from + quoted;
    char* stop = quoted ? std::find(word, to, *from) : word;
    while (!quoted && stop < to && !blank(*stop)) ++stop;
    from = stop + (quoted && stop < to);
    return std::string(word, stop);
  }

  static void past_keyword(char*& from, char* to) {
    while (from < to && !blank(*from) && *from != '"' && *from != '\'') ++from;
  }

  // True if this .lib line begins the section.
  static bool section_begins(char* from, char* to, const std::string& section) {
    past_keyword(from, to);
    std::string first = quoted_word(from, to);
    std::transform(first.begin(), first.end(), first.begin(), lower);
    return first == section && quoted_word(from, to).empty();
  }

  std::string relative_path(const std::string& name, Place place) const {      // relative to the file that has the name
    return (std::filesystem::path(out_.files[place.file].first).parent_path() / name).string();
  }

  // .lib FILE SECTION, .lib FILE, or .lib SECTION with its .endl in the lines from `at` on. True if the following lines are
  // skipped.
  bool library(char* from, char* to, char* at, char* end, Place place) {
    past_keyword(from, to);
    const std::string name = quoted_word(from, to);
    std::string section = quoted_word(from, to);
    if (name.empty()) throw DeckError{place, ".lib needs the name of a file"};
    if (section.empty() && section_ends(at, end)) {
      out_.notes.add(place, "a section of a library is ignored: .lib FILE SECTION reads it");
      last_ = nullptr;
      return true;
    }
    std::transform(section.begin(), section.end(), section.begin(), lower);
    file(relative_path(name, place), place, section);
    last_ = nullptr;
    return false;
  }

  // True if .endl comes before the begin of another section.
  static bool section_ends(char* at, char* end) {
    while (at < end) {
      char* to = std::find(at, end, '\n');
      char* from = at;
      at = to == end ? end : to + 1;
      while (from < to && blank(*from)) ++from;
      if (begins(from, to, ".endl")) return true;
      if (!begins(from, to, ".lib")) continue;
      past_keyword(from, to);
      if (quoted_word(from, to).empty() || quoted_word(from, to).empty()) return false;
    }
    return false;
  }

  void include(char* from, char* to, Place place) {       // the file name keeps its case and may contain blanks
    past_keyword(from, to);
    while (from < to && blank(*from)) ++from;
    while (to > from && blank(to[-1])) --to;
    if (to - from >= 2 && (*from == '"' || *from == '\'')) {
      char* close = std::find(from + 1, to, *from);
      ++from;
      to = close;
    } else {
      for (char* p = from + 1; p < to; ++p)                // a comment begins after a blank: a//b is a name
        if (blank(p[-1]) && comment(p, from, to)) to = p;
      while (to > from && blank(to[-1])) --to;
    }
    if (from == to) throw DeckError{place, ".include needs the name of a file"};
    file(relative_path(std::string(from, to), place), place);
    last_ = nullptr;
  }
};

}  // namespace

Place Line::at(std::string_view word) const {
  const char* from = text.data();
  const bool inside = word.data() >= from && word.data() <= from + text.size();
  return {place.file, place.line + (inside ? static_cast<int32_t>(std::count(from, word.data(), '\n')) : 0)};
}

std::string in_quotes(std::string_view word) {
  std::string out(1, '\'');
  for (const char c : word.substr(0, 40)) out += c >= ' ' && c <= '~' ? c : '?';
  return out += word.size() > 40 ? "...'" : "'";
}

std::string in_line(const Line& line) {
  const size_t last = line.text.find_last_not_of(" \t\r\n");
  return " in the line " + in_quotes(line.text.substr(0, last + 1));
}

std::string shown(double x) {
  std::array<char, 32> digits;
  return {digits.data(), static_cast<size_t>(std::snprintf(digits.data(), digits.size(), "%g", x))};
}

std::string unclosed(char open) { return std::string("an expression has no closing ") + (open == '{' ? "'}'" : "quote"); }

std::string_view Words::next() {
  while (at_ < end_ && separates_words(*at_)) ++at_;
  const char* from = at_;
  if (at_ == end_) return {from, 0};
  if (*at_ == '=') return {from, static_cast<size_t>(++at_ - from)};
  if (*at_ == '{' || *at_ == '\'') {
    if (*at_ == '{') {
      int depth = 0;
      for (; at_ < end_ && (depth += (*at_ == '{') - (*at_ == '}')) > 0; ++at_) {}
    } else {
      at_ = std::find(at_ + 1, end_, '\'');
    }
    if (at_ == end_) fail({from, 1}, unclosed(*from));
    return {from, static_cast<size_t>(++at_ - from)};
  }
  while (at_ < end_ && !separates_words(*at_) && *at_ != '=' && *at_ != '{' && *at_ != '\'') ++at_;
  return {from, static_cast<size_t>(at_ - from)};
}

bool Words::take(std::string_view word) {
  Words ahead(*this);
  if (ahead.next() != word) return false;
  *this = ahead;
  return true;
}

void read_lines(const std::string& path, const Load& load, Deck& out) { Sweep(load, out).file(path, {0, 0}); }

}  // namespace ms::circuit
