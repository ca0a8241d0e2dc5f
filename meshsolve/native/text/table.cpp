// One pass over the bytes, a line at a time; see table.hpp.
#include "table.hpp"

#include <algorithm>
#include <string>

#include "decimal.hpp"
#include "native/threads/interrupt.hpp"

namespace ms {
namespace {

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

const char* past_blanks(const char* at, const char* end) {
  while (at != end && blank(*at)) ++at;
  return at;
}

// A decimal number; Fortran programs write its exponent with a D.
Decimal read_number(const char* at, const char* end) {
  const Decimal read = read_decimal(at, end);
  if (read.stop == at || read.stop == end || (*read.stop != 'D' && *read.stop != 'd')) return read;
  std::string text(at, std::find_if(read.stop, end, blank));
  text[static_cast<size_t>(read.stop - at)] = 'e';
  const Decimal again = read_decimal(text.data(), text.data() + text.size());
  return {again.value, at + (again.stop - text.data())};
}

// Appends the numbers of one line. False if it has fewer than `width`, more of them without `more`, or other text.
bool read_row(const char* at, const char* end, int width, bool more, std::vector<double>& numbers) {
  for (int k = 0;; ++k) {
    at = past_blanks(at, end);
    if (k >= width && (at == end || *at == '%')) return true;
    if (k >= width && !more) return false;
    if (at != end && *at == '+') ++at;
    const Decimal read = read_number(at, end);
    if (read.stop == at || (read.stop != end && !blank(*read.stop) && *read.stop != '%')) return false;
    if (k < width) numbers.push_back(read.value);
    at = read.stop;
  }
}

}  // namespace

Table read_table(const char* begin, const char* end, int width, int64_t rows, bool more) {
  Table out;
  out.numbers.reserve(static_cast<size_t>(std::min<int64_t>(rows, (end - begin) / (2 * width) + 1) * width));
  int64_t line = 0, found = 0;
  for (const char* at = begin; at != end; ++line) {
    if (line % 65536 == 65535) interrupt::poll();
    const char* const stop = std::find(at, end, '\n');
    const char* const first = past_blanks(at, stop);
    if (first != stop && *first != '%') {
      if (found == rows || !read_row(first, stop, width, more, out.numbers)) {
        out.numbers.resize(static_cast<size_t>(found * width));
        out.bad_line = line;
        return out;
      }
      if (++found % 4096 == 0) interrupt::poll();
    }
    at = stop == end ? end : stop + 1;
  }
  return out;
}

}  // namespace ms
