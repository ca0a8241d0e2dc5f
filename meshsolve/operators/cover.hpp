// The tufted cover of a triangle mesh: a front and a back for each face, with exactly two of them at each edge of the cover.
// The faces around an edge of the mesh are ordered. The front of each face is joined to the back of the next one.
// Source: Sharp & Crane 2020, "A Laplacian for nonmanifold triangle meshes", section 3.2. O(m), and a sort of the faces at each edge.
#pragma once
#include <cstdint>

#include "native/memory/raw_vector.hpp"

namespace ms::operators {

struct Cover {
  RawVector<int32_t> edge;            // (3 m) mesh edge of each cover edge
  RawVector<int32_t> of_side;         // (6 m) cover edge of each side, of the fronts, then of the backs
};
// faces (3 m) and of_side (3 m) as in mesh/edges.hpp. The sides at an edge are ordered by `round` (m) of their faces, then by `key`
// (3 m), then by number. A null `round` is 0 for all faces.
Cover tufted_cover(const int32_t* faces, int64_t m, const int32_t* of_side, int64_t edges, const double* key, const int32_t* round,
                   int threads);

}  // namespace ms::operators
