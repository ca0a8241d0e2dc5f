// Stanford PLY: the numbers of a text body, and the rows of an element of a binary one. A list says its own length, so a row
// is found behind the one before it. A text body, once read, is a binary one in which every number is a double.
// Source: Turk 1994, "The PLY polygon file format". O(bytes).
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace ms::mesh {

struct Numbers {
  std::vector<double> values;
  int64_t bad = -1;                 // where in the text something stands that is neither a number nor NaN, -1 for nowhere
};

Numbers read_numbers(std::string_view text);

// An element: a letter for each property, as Python's struct has them.
struct Layout {
  std::string_view counts;          // type of a list's length, ' ' for a single number
  std::string_view items;           // type of the numbers
  std::string_view wanted;          // 'y' where the numbers are kept
  bool swap = false;                // bytes are in the other order than the machine's
};

struct Rows {
  std::vector<double> values;       // those wanted, row after row
  std::vector<int32_t> counts;      // (rows) how many a row gave
  int64_t end = 0;                  // behind the last row
  int64_t bad_row = -1;             // the first that goes beyond the bytes, or has no length for a list; -1 for none
  bool cut_off = false;             // it goes beyond the bytes
};

// `rows` rows from byte `at` on; a layout has at least one property.
Rows read_rows(const uint8_t* bytes, int64_t size, int64_t at, int64_t rows, const Layout& layout);

}  // namespace ms::mesh
