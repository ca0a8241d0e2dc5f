// One pass with a cursor over the bytes. Errors are thrown as BadLine with their line number.
#include "obj.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "native/threads/interrupt.hpp"

namespace ms::mesh {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr int32_t kMissingIndex = -1, kBadIndex = -2;       // texture indices of a corner

class ObjReader {
 public:
  explicit ObjReader(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  void read(PolygonFile& out) {
    for (int64_t lines = 0; at_ < end_; next_line()) {
      if (++lines % 16384 == 0) interrupt::poll();
      const std::string_view keyword = token();
      if (keyword == "v") vertex(out);
      else if (keyword == "f") face(out);
      else if (keyword == "vt") texture(out);
      else if (!keyword.empty() && out.vertices.empty() && !plausible(keyword)) fail(quoted(keyword) + " is not an OBJ statement");
    }
    check_indices(out);
    if (out.uvs.empty()) out.uv_corners.clear();        // the indices refer to nothing
    check_textures(out);
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

  bool at_end_of_row() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
    return at_ == end_ || *at_ == '\n' || *at_ == '#';
  }

  void vertex(PolygonFile& out) {                 // v x y z [w | r g b]
    for (int k = 0; k < 3; ++k) {
      const std::string_view word = token();
      if (word.empty()) fail("a vertex needs three coordinates, got " + std::to_string(k));
      out.vertices.push_back(coordinate(word, line_));
    }
    if (!at_end_of_row()) color(out);
    else if (!out.colors.empty()) out.colors.insert(out.colors.end(), 3, kMissing);
  }

  // Three numbers after a position are a color. Anything else is ignored, and the color is then missing.
  void color(PolygonFile& out) {
    double rgb[3] = {kMissing, kMissing, kMissing};
    for (int k = 0; k < 3 && !at_end_of_row(); ++k)
      if (const std::string_view word = token(); !word.empty()) rgb[k] = finite_or_missing(word);
    const bool good = std::isfinite(rgb[0]) && std::isfinite(rgb[1]) && std::isfinite(rgb[2]);
    if (good && out.colors.empty()) out.colors.assign(out.vertices.size() - 3, kMissing);      // the vertices before
    if (!good && out.colors.empty()) return;
    for (const double c : rgb) out.colors.push_back(good ? c : kMissing);
  }

  static double finite_or_missing(std::string_view word) {
    try {
      return coordinate(word, 0);
    } catch (const BadLine&) {
      return kMissing;
    }
  }

  void texture(PolygonFile& out) {                // vt u [v [w]]
    for (int k = 0; k < 2; ++k) {
      const std::string_view word = token();
      if (k == 0 && word.empty()) fail("a texture vertex needs one or two coordinates, got 0");
      const bool not_a_number = at_ < end_ && *at_ == '#' && word.ends_with("1.");       // 1.#IND
      out.uvs.push_back(word.empty() ? 0 : not_a_number ? kMissing : texture_coordinate(word));
    }
  }

  double texture_coordinate(std::string_view word) const {
    if (names_not_finite(word.data(), word.data() + word.size())) return kMissing;
    const double x = finite_or_missing(word);
    if (std::isnan(x)) fail(quoted(word) + " is not a number");
    return x;
  }

  void face(PolygonFile& out) {                   // f v | v/vt | v//vn | v/vt/vn, three or more corners
    const size_t before = out.corners.size();
    const int64_t seen = static_cast<int64_t>(out.vertices.size() / 3);
    for (std::string_view word = token(); !word.empty(); word = token()) {
      out.corners.push_back(corner(word, seen));
      texture_index(word, out);
    }
    const int32_t count = static_cast<int32_t>(out.corners.size() - before);
    if (count >= 3) {
      out.counts.push_back(count);
      face_line_.push_back(line_);
      return;
    }
    const bool has_line_end = at_ < end_;        // otherwise the file may be truncated
    if (!has_line_end) fail("a face needs three corners, got " + std::to_string(count) + ": the file may be truncated");
    out.corners.resize(before);
    if (!out.uv_corners.empty()) out.uv_corners.resize(before);
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

  // Appends the texture index of a corner whose characters are checked. kBadIndex is an index that no file can have. The list
  // begins with the first corner that has a texture index.
  static void texture_index(std::string_view word, PolygonFile& out) {
    const size_t slash = word.find('/');
    const bool has_index = slash != word.npos && slash + 1 < word.size() && word[slash + 1] != '/';
    if (!has_index && out.uv_corners.empty()) return;
    if (out.uv_corners.empty()) out.uv_corners.assign(out.corners.size() - 1, kMissingIndex);
    if (!has_index) return out.uv_corners.push_back(kMissingIndex);
    int64_t k = 0;
    const char* const to = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data() + slash + 1 + (word[slash + 1] == '+' ? 1 : 0), to, k);
    const int64_t seen = static_cast<int64_t>(out.uvs.size() / 2);
    if (k < 0) k = seen + k + 1;                  // a negative index counts back from the last texture vertex so far
    const bool good = error == std::errc() && (stop == to || *stop == '/') && k > 0 && k <= std::numeric_limits<int32_t>::max();
    out.uv_corners.push_back(good ? static_cast<int32_t>(k - 1) : kBadIndex);
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

  void check_textures(const PolygonFile& out) {
    const int64_t n = static_cast<int64_t>(out.uvs.size() / 2);
    for (size_t at = 0; at < out.uv_corners.size(); ++at) {
      const int32_t index = out.uv_corners[at];
      if (index < n && index != kBadIndex) continue;
      size_t face = 0;
      for (size_t end = static_cast<size_t>(out.counts[0]); end <= at; end += static_cast<size_t>(out.counts[++face])) {}
      const std::string what = index == kBadIndex ? "a texture index" : "texture index " + std::to_string(int64_t{index} + 1);
      throw BadLine{face_line_[face], what + " is outside 1.." + std::to_string(n)};
    }
  }
};

}  // namespace

PolygonFile read_obj(std::string_view text) {
  PolygonFile out;
  try {
    ObjReader(text).read(out);
  } catch (BadLine& bad) {
    out.line = bad.line;
    out.error = std::move(bad.what);
  }
  return out;
}

std::string write_obj(std::span<const double> vertices, std::span<const int32_t> faces, std::span<const double> colors,
                      std::span<const double> uvs, std::span<const int32_t> uv_corners) {
  std::string out;
  out.reserve(20 * (vertices.size() + colors.size() + uvs.size()) + 8 * (faces.size() + uv_corners.size()));
  char digits[32];
  const auto put = [&](char key, auto value) {
    out += key;
    out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  };
  const auto finite = [](std::span<const double> row) {
    return std::all_of(row.begin(), row.end(), [](double x) { return std::isfinite(x); });
  };
  for (size_t v = 0; v < vertices.size(); v += 3) {
    out += 'v';
    for (const double x : vertices.subspan(v, 3)) put(' ', x);
    if (!colors.empty() && finite(colors.subspan(v, 3)))
      for (const double c : colors.subspan(v, 3)) put(' ', c);
    out += '\n';
  }
  std::vector<int64_t> number;                    // number of each pair in the file, from 1; 0 if it is left out
  for (size_t k = 0, written = 0; k < uvs.size(); k += 2) {
    const bool good = finite(uvs.subspan(k, 2));
    number.push_back(good ? static_cast<int64_t>(++written) : 0);
    if (!good) continue;
    out += "vt";
    for (const double x : uvs.subspan(k, 2)) put(' ', x);
    out += '\n';
  }
  for (size_t t = 0; t < faces.size(); ++t) {
    if (t % 3 == 0) out += 'f';
    put(' ', int64_t{faces[t]} + 1);
    if (!uv_corners.empty() && number[static_cast<size_t>(uv_corners[t])]) put('/', number[static_cast<size_t>(uv_corners[t])]);
    if (t % 3 == 2) out += '\n';
  }
  return out;
}

}  // namespace ms::mesh
