// How large a patch may become: what 16-bit local numbers hold. Shared by the C++ core and the CUDA kernels.
#pragma once

namespace ms::patches {

constexpr long long local_limit = 65535;                // elements of one kind in a patch: what 16 bits can number
// Faces at a vertex or at an edge up to which the patch holds them all. A patch of one face then always fits: 3 vertices
// and 3 edges bring at most 6 x star_limit faces with 3 edges each.
constexpr long long star_limit = local_limit / 18;
constexpr long long face_limit = local_limit / 3;       // owned faces: each has at most three edges and vertices of its own

}  // namespace ms::patches
