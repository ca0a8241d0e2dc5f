// A cursor over the bytes; each property of an element has functions that load its numbers.
#include "ply.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "native/text/decimal.hpp"
#include "native/threads/interrupt.hpp"

namespace ms::mesh {
namespace {

struct Type {
  int64_t size;
  double (*load)(const uint8_t* at, bool swap);
};

template <class T>
double load(const uint8_t* at, bool swap) {
  uint8_t bytes[sizeof(T)];
  std::memcpy(bytes, at, sizeof(T));
  if (swap) std::reverse(bytes, bytes + sizeof(T));
  T x;
  std::memcpy(&x, bytes, sizeof(T));
  return static_cast<double>(x);
}

template <class T>
Type typed() {
  return {sizeof(T), load<T>};
}

Type type_of(char letter) {
  switch (letter) {
    case 'b': return typed<int8_t>();
    case 'B': return typed<uint8_t>();
    case 'h': return typed<int16_t>();
    case 'H': return typed<uint16_t>();
    case 'i': return typed<int32_t>();
    case 'I': return typed<uint32_t>();
    case 'q': return typed<int64_t>();
    case 'Q': return typed<uint64_t>();
    case 'f': return typed<float>();
    default: return typed<double>();
  }
}

struct Property {
  bool list, wanted;
  Type count, item;
};

std::vector<Property> properties_of(const Layout& layout) {
  std::vector<Property> out;
  for (size_t k = 0; k < layout.items.size(); ++k)
    out.push_back({layout.counts[k] != ' ', layout.wanted[k] == 'y', type_of(layout.counts[k]), type_of(layout.items[k])});
  return out;
}

class RowReader {
 public:
  RowReader(const uint8_t* bytes, int64_t size, int64_t at, bool swap) : bytes_(bytes), size_(size), at_(at), swap_(swap) {}

  int64_t at() const { return at_; }
  bool at_end() const { return at_end_; }

  bool read(const Property& p, std::vector<double>& out) {
    int64_t count = 1;
    if (p.list && !length(p.count, count)) return false;
    if (count > (size_ - at_) / p.item.size) return cut_off();
    if (p.wanted)
      for (int64_t k = 0; k < count; ++k) out.push_back(p.item.load(bytes_ + at_ + k * p.item.size, swap_));
    at_ += count * p.item.size;
    return true;
  }

 private:
  const uint8_t* bytes_;
  int64_t size_, at_;
  bool swap_;
  bool at_end_ = false;

  bool cut_off() { return at_end_ = true, false; }

  bool length(const Type& type, int64_t& count) {
    if (size_ - at_ < type.size) return cut_off();
    const double given = type.load(bytes_ + at_, swap_);
    if (!(given >= 0 && given <= 1e9 && given == std::floor(given))) return false;
    at_ += type.size;
    count = static_cast<int64_t>(given);
    return true;
  }
};

}  // namespace

Numbers read_numbers(std::string_view text, int64_t most) {
  Numbers out;
  const char* const end = text.data() + text.size();
  const auto space = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  for (const char* at = text.data();;) {
    out.end = at - text.data();
    if (static_cast<int64_t>(out.values.size()) == most) return out;
    while (at < end && space(*at)) ++at;
    if (at == end) return out;
    const char* const from = *at == '+' ? at + 1 : at;
    auto [x, stop] = read_decimal(from, end);
    if (stop == from || (stop < end && !space(*stop))) {
      stop = std::find_if(from, end, space);
      if (!names_not_finite(*at == '-' ? at : from, stop, &x)) {
        out.bad = at - text.data();
        return out;
      }
    }
    out.values.push_back(x);
    if (out.values.size() % 65536 == 0) interrupt::poll();
    at = stop;
  }
}

Rows read_rows(const uint8_t* bytes, int64_t size, int64_t at, int64_t rows, const Layout& layout) {
  Rows out;
  const std::vector<Property> properties = properties_of(layout);
  RowReader reader(bytes, size, at, layout.swap);
  for (int64_t row = 0; row < rows; ++row) {
    if (row % 16384 == 16383) interrupt::poll();
    const size_t before = out.values.size();
    for (const Property& p : properties)
      if (!reader.read(p, out.values)) {
        out.bad_row = row;
        out.cut_off = reader.at_end();
        return out;
      }
    out.counts.push_back(static_cast<int32_t>(out.values.size() - before));
  }
  out.end = reader.at();
  return out;
}

}  // namespace ms::mesh
