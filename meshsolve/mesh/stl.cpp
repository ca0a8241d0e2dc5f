// One pass over the words. Case and the blanks inside "end solid" or "facet normal" are ignored.
#include "stl.hpp"

namespace ms::mesh {
namespace {

class StlReader {
 public:
  explicit StlReader(std::string_view text) : words_(text, false) {}

  void read(PolygonFile& out) {
    while (!words_.at_end()) statement(out);
    if (facet_) throw BadLine{facet_, "the file ends inside the facet that begins on this line"};
    if (!unknown_.empty() && std::string_view("endsolid").starts_with(unknown_))
      throw BadLine{words_.line(), "the file ends inside the word " + quoted(unknown_)};
    if (solid_) {
      out.line = solid_;
      out.warning = "the solid that begins on this line has no 'endsolid'";
    }
  }

 private:
  Words words_;
  int64_t solid_ = 0, facet_ = 0;           // first lines of the current solid and facet, or 0
  int32_t loop_ = 0;                        // number of corners in the current loop
  std::string unknown_;                     // last word, if it is not a keyword of the format

  std::string keyword() {
    std::string word(words_.next());
    for (char& c : word)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    return word;
  }

  void statement(PolygonFile& out) {
    std::string word = keyword();
    if (word == "end" && !words_.at_end_of_line()) word += keyword();
    unknown_.clear();
    if (word == "vertex") vertex(out);
    else if (word == "facet" || word == "facetnormal") begin_facet();
    else if (word == "endloop") end_loop(out);
    else if (word == "endfacet") end_facet(out);
    else if (word == "solid") begin_solid();
    else if (word == "endsolid" || word == "end") end_solid();
    else if (word != "outer" && word != "loop" && word != "outerloop" && word != "normal") other(std::move(word));
  }

  void begin_solid() {
    if (facet_) throw BadLine{facet_, "the facet that begins on this line does not end before the next solid"};
    solid_ = words_.line();
    while (!words_.at_end_of_line()) {      // skips the name; a facet may begin on the same line
      const Words before = words_;
      if (keyword() != "facet" || words_.at_end_of_line() || keyword() != "normal") continue;
      words_ = before;
      return;
    }
  }

  void end_solid() {
    if (facet_) throw BadLine{facet_, "the facet that begins on this line does not end before its solid"};
    solid_ = 0;
    words_.skip_line();
  }

  void begin_facet() {
    if (facet_) throw BadLine{facet_, "the facet that begins on this line does not end before the next facet"};
    facet_ = words_.line();
    loop_ = 0;
  }

  void vertex(PolygonFile& out) {
    if (!facet_) throw BadLine{words_.line(), "the vertex is outside a facet"};
    for (int k = 0; k < 3; ++k) {
      if (words_.at_end_of_line()) few_coordinates(k);
      const std::string_view x = words_.next();
      out.vertices.push_back(coordinate(x, words_.line()));
    }
    out.corners.push_back(static_cast<int32_t>(out.corners.size()));
    ++loop_;
  }

  [[noreturn]] void few_coordinates(int k) {
    const int64_t line = words_.line();
    throw BadLine{line, "a vertex needs three coordinates, got " + std::to_string(k) +
                            (words_.at_end() ? ": the file may be truncated" : "")};
  }

  void end_loop(PolygonFile& out) {
    if (loop_ >= 3) {
      out.counts.push_back(loop_);
    } else {
      out.small_faces += 1;
      out.corners.resize(out.corners.size() - static_cast<size_t>(loop_));
      out.vertices.resize(3 * out.corners.size());
    }
    loop_ = 0;
  }

  void end_facet(PolygonFile& out) {
    if (loop_) end_loop(out);               // 'endloop' is missing
    facet_ = 0;
  }

  // Other words: numbers of a normal inside a facet, an exporter's own line outside.
  void other(std::string word) {
    if (facet_) return;
    words_.skip_line();
    unknown_ = std::move(word);
  }
};

}  // namespace

PolygonFile read_stl_text(std::string_view text) {
  PolygonFile out;
  try {
    StlReader(text).read(out);
  } catch (BadLine& bad) {
    out.line = bad.line;
    out.error = std::move(bad.what);
  }
  return out;
}

}  // namespace ms::mesh
