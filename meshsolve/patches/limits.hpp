// Size limits of patches, from the range of 16-bit local numbers. Shared by the C++ core and the CUDA kernels.
#pragma once

namespace ms::patches {

constexpr long long local_limit = 65535;                // most elements of one kind in a patch: the range of 16 bits
// Most faces at a vertex or an edge for which the ribbon contains all of them. A patch of one face then always fits: its 3
// vertices and 3 edges have at most 6 * star_limit faces of 3 edges each.
constexpr long long star_limit = local_limit / 18;
constexpr long long face_limit = local_limit / 3;       // most owned faces: each has three edges and three vertices

}  // namespace ms::patches
