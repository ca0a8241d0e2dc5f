// Lines of numbers in a text, every line with as many.
#pragma once
#include <cstdint>
#include <vector>

namespace ms {

struct Table {
  std::vector<double> numbers;            // by rows
  int64_t bad_line = -1;                  // first line, from 0, that is no row or one too many; its row is rows()
};

// Rows of `width` numbers each, `rows` at most; empty lines and what follows a % are passed over, and with `more` further numbers
// on a line as well. O(bytes).
Table read_table(const char* begin, const char* end, int width, int64_t rows, bool more);

}  // namespace ms
