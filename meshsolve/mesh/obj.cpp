// One pass with a cursor over the bytes. Errors are thrown as BadLine with their line number.
#include "obj.hpp"

#include <charconv>
#include <limits>

namespace ms::mesh {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  void read(PolygonFile& out) {
    for (; at_ < end_; next_line()) {
      const std::string_view keyword = token();
      if (keyword == "v") vertex(out);
      else if (keyword == "f") face(out);
      else if (!keyword.empty() && out.vertices.empty() && !plausible(keyword)) fail(quoted(keyword) + " is not an OBJ statement");
    }
    check_indices(out);
  }

 private:
  const char* at_;
  const char* end_;
  int64_t line_ = 1;
  std::vector<int64_t> face_line_;     // (m) line of each polygon, for check_indices()

  [[noreturn]] void fail(std::string what) const { throw BadLine{line_, std::move(what)}; }

  static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  // Exporters add their own statements, so any word is accepted. Other bytes mean that the file is not an OBJ.
  static bool plausible(std::string_view word) {
    for (const char c : word)
      if (!letter(c) && !(c >= '0' && c <= '9') && c != '_' && c != '-' && c != '.') return false;
    return letter(word[0]);
  }

  void next_line() {
    while (at_ < end_ && *at_ != '\n') {
      if (*at_ == '#') comment();
      else if (!continuation()) ++at_;
    }
    if (at_ < end_) ++at_, ++line_;
  }

  void comment() {                        // a backslash at its end does not continue the line
    while (at_ < end_ && *at_ != '\n') ++at_;
  }

  // A backslash before the end of the line joins the next line to this one.
  bool continuation() {
    if (*at_ != '\\') return false;
    const char* p = at_ + 1;
    if (p < end_ && *p == '\r') ++p;
    if (p >= end_ || *p != '\n') return false;
    at_ = p + 1;
    ++line_;
    return true;
  }

  static bool ends_word(char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\\' || c == '#'; }

  // The next word of this line, empty at its end or at a comment.
  std::string_view token() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r' || *at_ == '\\'))
      if (!continuation() && *at_++ == '\\') fail("a backslash must be at the end of a line");
    const char* from = at_;
    while (at_ < end_ && !ends_word(*at_)) ++at_;
    if (at_ == from && at_ < end_ && *at_ != '\n' && *at_ != '#') fail("the line has a control character: this is not a text file");
    return {from, static_cast<size_t>(at_ - from)};
  }

  void vertex(PolygonFile& out) {                 // v x y z [w | r g b]: only the position is parsed
    for (int k = 0; k < 3; ++k) {
      const std::string_view word = token();
      if (word.empty()) fail("a vertex needs three coordinates, got " + std::to_string(k));
      out.vertices.push_back(coordinate(word, line_));
    }
  }

  void face(PolygonFile& out) {                   // f v | v/vt | v//vn | v/vt/vn, three or more corners
    const size_t before = out.corners.size();
    const int64_t seen = static_cast<int64_t>(out.vertices.size() / 3);
    for (std::string_view word = token(); !word.empty(); word = token()) out.corners.push_back(corner(word, seen));
    const int32_t count = static_cast<int32_t>(out.corners.size() - before);
    if (count >= 3) {
      out.counts.push_back(count);
      face_line_.push_back(line_);
      return;
    }
    const bool has_line_end = at_ < end_;        // otherwise the file may be truncated
    if (!has_line_end) fail("a face needs three corners, got " + std::to_string(count) + ": the file may be truncated");
    out.corners.resize(before);
    ++out.small_faces;
  }

  int32_t corner(std::string_view word, int64_t seen) const {
    int64_t v = 0;
    const char* from = word.data() + (word.starts_with('+') ? 1 : 0);
    const char* to = word.data() + word.size();
    const auto [stop, error] = std::from_chars(from, to, v);
    bool good = error == std::errc() && (stop == to || *stop == '/');
    for (const char* p = stop; good && p < to; ++p) good = *p == '/' || *p == '-' || *p == '+' || (*p >= '0' && *p <= '9');
    if (!good) fail(quoted(word) + " is not a corner of a face: use v, v/vt, v//vn or v/vt/vn");
    if (v == 0 || v < -seen || v > std::numeric_limits<int32_t>::max()) fail(outside(v, seen));
    return static_cast<int32_t>(v > 0 ? v - 1 : seen + v);      // a negative index counts back from the last vertex so far
  }

  static std::string outside(int64_t v, int64_t n) {
    return "vertex index " + std::to_string(v) + " is outside 1.." + std::to_string(n);
  }

  // A face may precede its vertices, so the upper bound is checked at the end.
  void check_indices(const PolygonFile& out) {
    const int64_t n = static_cast<int64_t>(out.vertices.size() / 3);
    size_t end = 0;
    for (size_t k = 0, at = 0; k < out.counts.size(); ++k)
      for (end += static_cast<size_t>(out.counts[k]); at < end; ++at)
        if (out.corners[at] >= n) throw BadLine{face_line_[k], outside(int64_t{out.corners[at]} + 1, n)};
  }
};

}  // namespace

PolygonFile read_obj(std::string_view text) {
  PolygonFile out;
  try {
    Reader(text).read(out);
  } catch (BadLine& bad) {
    out.line = bad.line;
    out.error = std::move(bad.what);
  }
  return out;
}

std::string write_obj(const double* vertices, int64_t n, const int32_t* faces, int64_t m) {
  std::string out;
  out.reserve(60 * n + 24 * m);
  char digits[32];
  const auto put = [&](char key, auto value) {
    out += key;
    out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  };
  for (int64_t v = 0; v < n; ++v) {
    out += 'v';
    for (int k = 0; k < 3; ++k) put(' ', vertices[3 * v + k]);
    out += '\n';
  }
  for (int64_t t = 0; t < m; ++t) {
    out += 'f';
    for (int k = 0; k < 3; ++k) put(' ', int64_t{faces[3 * t + k]} + 1);
    out += '\n';
  }
  return out;
}

}  // namespace ms::mesh
