// At most three passes: first with each row on new lines, then, if rows share lines or span them, with rows of exact width.
#include "off.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace ms::mesh {
namespace {

enum class RowEnd { exact, lines };
constexpr double kBrightest = 2;        // bound of fractions of a color, which are 1 or rounded; larger ones are integers to 255
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class OffReader {
 public:
  OffReader(std::string_view text, RowEnd rows) : words_(text, true), rows_(rows) {}

  void read(PolygonFile& out) {
    header();
    vertices_ = count();
    faces_ = count();
    edges();
    body_ = words_;
    const size_t reserved = static_cast<size_t>(std::min(vertices_, int64_t{1} << 20));
    out.vertices.reserve(3 * reserved);
    for (; done_ < vertices_; ++done_) vertex(out);
    for (; done_ < vertices_ + faces_; ++done_) face(out);
    scale_colors(out);
    if (texture_) out.uv_corners = out.corners;
    if (words_.at_end()) return;
    const std::string_view word = words_.next();
    if (rows_ == RowEnd::exact) throw BadLine{words_.line(), "more rows"};
    out.line = words_.line();
    out.warning = "the file continues with " + quoted(word) + " after the " + std::to_string(faces_) +
                  " faces that its header announces; the rest was ignored";
  }

  bool ignored() const { return ignored_; }        // whether a row had more words than it needs

  // True if most rows have a line of their own, so that a row with too few numbers must not continue in the next one.
  bool is_row_per_line() const {
    int64_t rows = 0, alone = 0;
    for (Words words = body_; rows < vertices_ + faces_ && !words.at_end(); ++rows) {
      const std::string_view first = words.next();
      int64_t numbers = 1, corners = 0;
      for (; !words.at_end_of_line(); ++numbers) words.next();
      const auto [stop, error] = std::from_chars(first.data(), first.data() + first.size(), corners);
      const bool face = error == std::errc() && stop == first.data() + first.size() && corners > 0 && numbers > corners;
      alone += rows < vertices_ ? numbers == 3 + extra() : face;
    }
    return rows == vertices_ + faces_ && 3 * alone >= 2 * rows;
  }

 private:
  Words words_;
  Words body_{{}, true};              // at the first vertex
  const RowEnd rows_;
  bool normals_ = false, colors_ = false, texture_ = false;          // what follows the position of a vertex, in this order
  bool ignored_ = false;
  std::vector<double> rest_;          // numbers after the position of a vertex
  std::vector<double> alphas_;        // of vertices with four numbers of a color
  int64_t vertices_ = 0, faces_ = 0;  // numbers in the header
  int64_t done_ = 0;                  // rows read

  [[noreturn]] void fail(std::string what) const { throw BadLine{words_.line(), std::move(what)}; }

  int extra() const { return 3 * normals_ + 4 * colors_ + 2 * texture_; }        // in rows of exact width

  // [ST] [C] [N] OFF with the prefixes in any order. The word is optional, and the first count may follow it without a blank.
  void header() {
    words_.at_end();
    Words ahead = words_;
    const std::string_view word = ahead.next();
    if (!word.empty() && (word[0] >= '0' && word[0] <= '9') && word.find("OFF") == std::string_view::npos) return;
    size_t at = 0;
    bool other = false;
    for (;;) {
      const std::string_view rest = word.substr(at);
      if (rest.starts_with("OFF") || rest.starts_with("off")) break;
      if (rest.starts_with("ST")) texture_ = true, at += 2;
      else if (rest.starts_with("C")) colors_ = true, ++at;
      else if (rest.starts_with("N")) normals_ = true, ++at;
      else if (rest.starts_with("4") || rest.starts_with("n")) other = true, ++at;
      else fail("an OFF file must begin with OFF, got " + quoted(word));
    }
    words_.take(at + 3);
    const std::string_view name = word.substr(0, at + 3);
    if (other) fail(std::string(name) + " is not supported: use text OFF with three coordinates per vertex");
    ahead = words_;
    if (const std::string_view next = ahead.next(); next == "BINARY" || next == "binary")
      fail(std::string(name) + " BINARY is not supported: use text OFF with three coordinates per vertex");
  }

  int64_t whole(std::string_view word) const {
    int64_t k = 0;
    const char* const from = word.data() + (word.starts_with('+') ? 1 : 0);
    const auto [stop, error] = std::from_chars(from, word.data() + word.size(), k);
    if (error != std::errc() || stop != word.data() + word.size()) fail(quoted(word) + " is not an integer");
    return k;
  }

  std::string_view word() {
    const std::string_view next = words_.next();
    if (next.empty())
      fail("the header announces " + std::to_string(vertices_) + " vertices and " + std::to_string(faces_) + " faces, but " +
           std::to_string(std::min(done_, vertices_)) + " and " + std::to_string(std::max<int64_t>(done_ - vertices_, 0)) +
           " could be read: the file may be truncated");
    return next;
  }

  int64_t count() {
    const std::string_view next = words_.next();
    if (next.empty()) fail("the file ends before the numbers of vertices and faces");
    const int64_t k = whole(next);
    if (k < 0 || k > std::numeric_limits<int32_t>::max())
      fail("the number of vertices or faces must be from 0 to 2147483647, got " + quoted(next));
    return k;
  }

  // Skips the number of edges: a third number on the line of the counts, alone on the next line, or missing.
  void edges() {
    if (!words_.at_end_of_line()) {
      word();
      if (rows_ == RowEnd::lines) words_.skip_line();
      return;
    }
    Words ahead = words_;
    ahead.next();
    if (ahead.at_end_of_line()) words_ = ahead;
  }

  void vertex(PolygonFile& out) {
    const int64_t line = begin_row();
    for (int k = 0; k < 3; ++k) {
      const std::string_view x = word();
      out.vertices.push_back(coordinate(x, words_.line()));
    }
    end_row(line, extra());
    if (colors_ || texture_) attributes(out);
  }

  // Colors have three or four numbers. Missing numbers are NaN.
  void attributes(PolygonFile& out) {
    const size_t before = normals_ ? 3 : 0, after = texture_ ? 2 : 0, given = rest_.size();
    const size_t width = given < before + after ? 0 : given - before - after;
    const bool painted = width == 3 || width == 4, fits = painted || width == 0;
    for (size_t k = 0; texture_ && k < 2; ++k) out.uvs.push_back(fits && given >= 2 ? rest_[given - 2 + k] : kNone);
    for (size_t k = 0; colors_ && k < 3; ++k) out.colors.push_back(painted ? rest_[before + k] : kNone);
    if (colors_ && width == 4) alphas_.push_back(rest_[before + 3]);
  }

  // Colors from 0 to 255 become fractions. Alpha is left out.
  void scale_colors(PolygonFile& out) {
    const bool bytes = std::any_of(out.colors.begin(), out.colors.end(), [](double c) { return c > kBrightest; });
    for (double& c : out.colors) c = bytes ? c / 255 : c;
    if (!std::any_of(alphas_.begin(), alphas_.end(), [&](double a) { return a < (bytes ? 255 : 1); })) return;
    out.line = 1;
    out.warning = "the alpha of the colors was left out";
  }

  void face(PolygonFile& out) {
    const int64_t line = begin_row(), corners = whole(word());
    if (corners < 0) fail("the number of corners must be at least 0, got " + std::to_string(corners));
    const size_t before = out.corners.size();
    for (int64_t k = 0; k < corners; ++k) {
      const int64_t v = whole(word());
      if (v < 0 || v >= vertices_) fail("vertex index " + std::to_string(v) + " is outside 0.." + std::to_string(vertices_ - 1));
      out.corners.push_back(static_cast<int32_t>(v));
    }
    end_row(line, 0);
    if (corners >= 3) {
      out.counts.push_back(static_cast<int32_t>(corners));
    } else {
      out.corners.resize(before);
      ++out.small_faces;
    }
  }

  static double number(std::string_view word) {
    const char* const from = word.data() + (word.starts_with('+') ? 1 : 0);
    const auto [x, stop] = read_decimal(from, word.data() + word.size());
    return stop == word.data() + word.size() ? x : kNone;
  }

  int64_t begin_row() { return words_.at_end(), words_.line(); }

  // A row that spans several lines must end at the end of a line, otherwise it has read numbers of the next row.
  void end_row(int64_t begin, int extra) {
    rest_.clear();
    if (rows_ == RowEnd::exact) {
      for (int k = 0; k < extra; ++k) rest_.push_back(number(word()));
      return;
    }
    if (words_.line() != begin && !words_.at_end_of_line())
      throw BadLine{begin, "the row that begins on this line has too few numbers, or the next row has too many"};
    while (extra && !words_.at_end_of_line()) rest_.push_back(number(words_.next()));
    ignored_ = ignored_ || !words_.at_end_of_line();
    words_.skip_line();
  }
};

}  // namespace

PolygonFile read_off(std::string_view text) {
  PolygonFile out;
  OffReader lines(text, RowEnd::lines);
  try {
    lines.read(out);
    if (!lines.ignored()) return out;
  } catch (BadLine& bad) {
    out.line = bad.line;
    out.error = std::move(bad.what);
    if (lines.is_row_per_line()) return out;
  }
  try {                               // without a word too many or too few these are the rows

    PolygonFile exact;
    OffReader(text, RowEnd::exact).read(exact);
    return exact;
  } catch (const BadLine&) {
    return out;
  }
}

}  // namespace ms::mesh
