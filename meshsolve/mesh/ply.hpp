// Stanford PLY: the numbers of a text body, and the rows of an element of a binary body. Lists have variable length, so rows are
// read one after the other. A parsed text body is treated as a binary body of doubles.
// Source: Turk 1994, "The PLY polygon file format". O(bytes).
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace ms::mesh {

struct Numbers {
  std::vector<double> values;
  int64_t bad = -1;                 // offset of the first word that is no number, or -1
  int64_t end = 0;                  // offset after the last number
};

// The numbers at the beginning of a text, at most `most` of them; -1: all.
Numbers read_numbers(std::string_view text, int64_t most);

// Properties of an element, one type letter of Python's struct module per property.
struct Layout {
  std::string_view counts;          // type of a list's length, ' ' for a single number
  std::string_view items;           // type of the numbers
  std::string_view wanted;          // 'y' if the numbers are kept
  bool swap = false;                // byte order differs from the machine's
};

struct Rows {
  std::vector<double> values;       // kept numbers, row after row
  std::vector<int32_t> counts;      // (rows) kept numbers per row
  int64_t end = 0;                  // offset after the last row
  int64_t bad_row = -1;             // first row that exceeds the bytes or has an invalid list length, or -1
  bool cut_off = false;             // bad_row exceeds the bytes
};

// Reads `rows` rows from byte `at` on. A layout has at least one property.
Rows read_rows(const uint8_t* bytes, int64_t size, int64_t at, int64_t rows, const Layout& layout);

}  // namespace ms::mesh
