// Result of the readers of text files, and a tokenizer with line numbers.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "native/text/decimal.hpp"
#include "native/threads/interrupt.hpp"

namespace ms::mesh {

struct PolygonFile {
  std::vector<double> vertices;     // (3 n)
  std::vector<int32_t> corners;     // vertex indices polygon after polygon, 0-based
  std::vector<int32_t> counts;      // (m) number of corners of each polygon, at least 3
  std::vector<double> colors;       // (3 n) colors of vertices, NaN for a vertex without; empty if no vertex has one
  std::vector<double> uvs;          // (2 k) texture coordinates
  std::vector<int32_t> uv_corners;  // index into uvs for each entry of corners, -1 for none; empty if no corner has one
  int64_t small_faces = 0;          // number of faces left out because they have fewer than three corners
  int64_t line = 0;                 // 1-based line of the error or warning, 0 without either
  std::string error;                // message of the first error; the arrays are then incomplete
  std::string warning;
};

struct BadLine {                    // exception within the readers
  int64_t line;
  std::string what;
};

// A word in quotes for messages, at most 20 characters.
inline std::string quoted(std::string_view word) {
  std::string out(1, '\'');
  for (const char c : word.substr(0, 20)) out += c >= ' ' && c <= '~' ? c : '?';
  return out += '\'';
}

// Parses a word as a finite number.
inline double coordinate(std::string_view word, int64_t line) {
  const char* const from = word.data() + (word.starts_with('+') ? 1 : 0);
  const char* const to = word.data() + word.size();
  const auto [x, stop] = read_decimal(from, to);
  if (std::isfinite(x) && stop == to && from != to) return x;
  if (names_not_finite(from, to) || stop == to) throw BadLine{line, "a vertex coordinate is " + quoted(word)};
  throw BadLine{line, quoted(word) + " is not a number"};
}

// Words separated by white space; with `comments`, '#' begins a comment.
class Words {
 public:
  Words(std::string_view text, bool comments) : at_(text.data()), end_(text.data() + text.size()), comments_(comments) {}

  int64_t line() const { return line_; }         // line of the last word
  bool at_end() { return skip(true), at_ == end_; }
  bool at_end_of_line() { return skip(false), at_ == end_ || *at_ == '\n'; }

  std::string_view next() {                      // empty at the end of the text
    if (++words_ % 65536 == 0) interrupt::poll();
    skip(true);
    const char* const from = at_;
    while (at_ != end_ && !blank(*at_) && *at_ != '\n' && !(comments_ && *at_ == '#' && !of_number(from))) ++at_;
    return {from, static_cast<size_t>(at_ - from)};
  }

  void take(size_t bytes) { at_ += bytes; }      // skips the first bytes of the next word
  void skip_line() {
    while (at_ != end_ && *at_ != '\n') ++at_;
  }

 private:
  const char* at_;
  const char* end_;
  bool comments_;
  int64_t line_ = 1, words_ = 0;

  // '#' inside 1.#IND (not a number) does not begin a comment.
  bool of_number(const char* from) const { return at_ - from >= 2 && at_[-1] == '.' && at_[-2] == '1'; }
  static bool blank(char c) { return static_cast<unsigned char>(c) <= ' ' && c != '\n'; }

  void skip(bool lines) {
    for (; at_ != end_; ++at_) {
      if (comments_ && *at_ == '#') {
        skip_line();
        if (at_ == end_) return;
      }
      if (*at_ == '\n') {
        if (!lines) return;
        ++line_;
      } else if (!blank(*at_)) {
        return;
      }
    }
  }
};

}  // namespace ms::mesh
