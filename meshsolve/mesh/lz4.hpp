// One block of LZ4, as VTK's XML files hold them: literals and copies of earlier bytes.
// Source: Collet 2011, "LZ4 Block Format Description". O(size).
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace ms::mesh {

// The `size` bytes that were packed; fewer if the block is damaged or has another size.
std::vector<uint8_t> unpack_lz4(std::string_view block, int64_t size);

}  // namespace ms::mesh
