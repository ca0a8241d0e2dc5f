// The logical lines of a deck, and the words of a line. One sweep over the bytes converts a deck in place: letters become lower
// case, comments blank, and continuation lines are joined. Line ends inside a logical line stay, so that the line number of every
// word can be computed. Included files, or sections of them (.lib), replace the line that names them. Source: Quarles, Newton,
// Pederson, Sangiovanni-Vincentelli, "SPICE3 Version 3f3 User's Manual" (1993), chapter 2; comments after ';', '$' and '//' as in
// ngspice. Cost: O(bytes).
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ms::circuit {

struct Place {
  int32_t file = 0;             // number of the file in the order of reading
  int32_t line = 0;             // from 1
};

struct DeckError {              // thrown: an error in a deck with its location
  Place place;
  std::string what;
};

struct Note {                   // one warning for all lines of a kind
  Place place;                  // of the first line
  std::string what;
  int64_t count = 1;
};

class Notes {
 public:
  void add(Place place, const std::string& what) {
    const auto [at, is_new] = index_.try_emplace(what, all_.size());
    if (is_new) all_.push_back({place, what});
    else ++all_[at->second].count;
  }
  const std::vector<Note>& all() const { return all_; }

 private:
  std::vector<Note> all_;
  std::unordered_map<std::string, size_t> index_;
};

struct Line {
  std::string_view text;
  Place place;                  // of its first character
  Place at(std::string_view word) const;                 // of a word inside `text`
};

struct Text {                   // the bytes of a file, which are changed in place, in memory of the caller
  std::span<char> bytes;
  std::shared_ptr<void> owner;
};

struct Loaded {                 // a file, or a message
  Text text;
  std::string error;
};

using Load = std::function<Loaded(const std::string& path)>;

struct Deck {
  std::deque<std::pair<std::string, Text>> files;            // path, text; the lines point into the texts
  std::string title;
  std::vector<Line> first;      // the title with its continuation lines, in case it is an element
  std::vector<Line> lines;
  Notes notes;
};

void read_lines(const std::string& path, const Load& load, Deck& out);

std::string in_quotes(std::string_view word);                // for messages: at most 40 printable characters
std::string in_line(const Line& line);                       // for messages: " in the line '...'"
std::string shown(double x);                                 // for messages: six digits
std::string unclosed(char open);                             // message for an expression without its closing brace or quote

// Words of a line, separated by blanks, commas and parentheses. '=' is a word. {expression} and 'expression' are single words;
// braces may be nested.
class Words {
 public:
  explicit Words(const Line& line) : line_(&line), at_(line.text.data()), end_(line.text.data() + line.text.size()) {}
  std::string_view next();                                // empty at the end
  std::string_view peek() const { return Words(*this).next(); }
  bool take(std::string_view word);                       // skips `word` if it is the next one
  const Line& line() const { return *line_; }
  std::string_view rest() const { return {at_, static_cast<size_t>(end_ - at_)}; }
  [[noreturn]] void fail(std::string_view word, std::string what) const { throw DeckError{line_->at(word), std::move(what)}; }

 private:
  const Line* line_;
  const char* at_;
  const char* end_;
};

}  // namespace ms::circuit
