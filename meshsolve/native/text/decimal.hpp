// Decimal numbers in text, independent of the locale of the process.
#pragma once
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

namespace ms {

struct Decimal {
  double value = 0;                     // correctly rounded; out of range: infinite, or the nearest double
  const char* stop = nullptr;           // end of the number; begin of the text if it has no number
};

namespace detail {

inline const char* after_digits(const char* at, const char* end) {
  while (at != end && *at >= '0' && *at <= '9') ++at;
  return at;
}

// End of the longest decimal number at `at`: [-] digits [. digits] [e [+-] digits].
inline const char* after_decimal(const char* at, const char* end) {
  const char* const begin = at;
  if (at != end && *at == '-') ++at;
  const char* const digits = at;
  at = after_digits(at, end);
  int64_t count = at - digits;
  if (at != end && *at == '.') {
    const char* const after = after_digits(at + 1, end);
    count += after - at - 1;
    if (count) at = after;
  }
  if (count == 0) return begin;
  if (at != end && (*at == 'e' || *at == 'E')) {
    const char* exponent = at + 1;
    if (exponent != end && (*exponent == '+' || *exponent == '-')) ++exponent;
    if (const char* const after = after_digits(exponent, end); after != exponent) at = after;
  }
  return at;
}

// strtod expects the decimal point of the locale; if that is not '.', it replaces the point in a copy of the text.
inline double with_strtod(std::string digits) {
  char* stop = nullptr;
  const double value = std::strtod(digits.c_str(), &stop);
  const size_t read = static_cast<size_t>(stop - digits.c_str());
  if (read == digits.size() || digits[read] != '.') return value;
  char half[8];
  std::snprintf(half, sizeof half, "%.1f", 0.5);
  digits[read] = half[1];
  return std::strtod(digits.c_str(), nullptr);
}

}  // namespace detail

// Reads the decimal number at the beginning of [begin, end), without leading white space or plus sign.
inline Decimal read_decimal(const char* begin, const char* end) {
#ifdef __cpp_lib_to_chars
  double value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error == std::errc()) return {value, stop};
  if (error != std::errc::result_out_of_range) return {0, begin};
#else                                     // libc++ before 20 reads no floating point
  const char* const stop = detail::after_decimal(begin, end);
  if (stop == begin) return {0, begin};
#endif
  return {detail::with_strtod(std::string(begin, stop)), stop};
}

// True if the word is a number that is not finite, as C and Windows programs print it: nan, -nan(ind), inf, infinity, 1.#QNAN.
// `value` is then this number.
inline bool names_not_finite(const char* begin, const char* end, double* value = nullptr) {
  const bool minus = begin != end && *begin == '-';
  if (begin != end && (*begin == '-' || *begin == '+')) ++begin;
  std::string word(begin, end);
  for (char& c : word)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  const std::string after = word.substr(word.find('#') + 1);
  const bool infinite = word == "inf" || word == "infinity" || (word.starts_with("1.#") && after.starts_with("inf"));
  const double size = infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (value) *value = minus && infinite ? -size : size;
  if (infinite || word == "nan") return true;
  return (word.starts_with("nan(") && word.ends_with(')')) ||
         (word.starts_with("1.#") && (after.starts_with("in") || after.starts_with("qnan") || after.starts_with("snan")));
}

}  // namespace ms
