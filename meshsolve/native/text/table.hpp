// Tables of numbers in text, the same count in every line.
#pragma once
#include <cstdint>
#include <vector>

namespace ms {

struct Table {
  std::vector<double> numbers;            // by rows
  int64_t bad_line = -1;                  // first line (from 0) that is not a row or is one too many, or -1; it follows rows()
};

// Reads at most `rows` rows of `width` numbers. Skips empty lines, comments after %, and with `more` further numbers of a line.
// O(bytes).
Table read_table(const char* begin, const char* end, int width, int64_t rows, bool more);

}  // namespace ms
