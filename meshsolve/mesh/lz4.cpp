#include "lz4.hpp"

#include <algorithm>

namespace ms::mesh {
namespace {

constexpr size_t kShortest = 4;         // shortest copy, in bytes
constexpr size_t kReserved = 1 << 20;   // bytes reserved before any is read

// A length of 15 continues in the next bytes, up to the first that is not 255. False at the end of the block.
bool extend(std::string_view block, size_t& at, size_t& length) {
  if (length < 15) return true;
  for (; at < block.size(); ++at) {
    const auto more = static_cast<uint8_t>(block[at]);
    length += more;
    if (more != 255) return ++at, true;
  }
  return false;
}

}  // namespace

std::vector<uint8_t> unpack_lz4(std::string_view block, int64_t size) {
  std::vector<uint8_t> out;
  const auto most = static_cast<size_t>(std::max<int64_t>(size, 0));
  out.reserve(std::min(most, kReserved));
  for (size_t at = 0; at < block.size();) {
    const auto token = static_cast<uint8_t>(block[at++]);
    size_t literals = token >> 4, copied = token & 15;
    if (!extend(block, at, literals) || literals > block.size() - at || literals > most - out.size()) break;
    out.insert(out.end(), block.begin() + static_cast<int64_t>(at), block.begin() + static_cast<int64_t>(at + literals));
    at += literals;
    if (block.size() - at < 2) break;                       // the last sequence has no copy
    const size_t back = static_cast<uint8_t>(block[at]) + size_t{256} * static_cast<uint8_t>(block[at + 1]);
    at += 2;
    if (!extend(block, at, copied)) break;
    copied += kShortest;
    if (back == 0 || back > out.size() || copied > most - out.size()) break;
    for (size_t k = 0; k < copied; ++k) out.push_back(out[out.size() - back]);        // the copy may overlap itself
  }
  return out;
}

}  // namespace ms::mesh
