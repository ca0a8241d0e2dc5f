// Packed lower storage of the update matrix of a symmetric front: tiles of columns, each without the rows above its diagonal
// block. It takes about half of a square for many rows.
#pragma once
#include <algorithm>
#include <cstdint>

#include "native/threads/parallel.hpp"

namespace ms::fronts {

struct PackedLower {
  static constexpr int64_t tile = 128;         // columns
  int64_t rows;

  int64_t size() const {
    const int64_t whole = first_of(rows), rest = rows - whole;
    return begin(whole) + rest * rest;
  }
  static int64_t first_of(int64_t column) { return column / tile * tile; }
  // Position of the tile with the columns [c, c + width(c)), c a multiple of `tile`; its first row is c.
  int64_t begin(int64_t c) const { return c * rows - tile * (c / tile * (c / tile - 1) / 2) * tile; }
  int64_t ld(int64_t c) const { return rows - c; }
  int64_t width(int64_t c) const { return std::min(tile, rows - c); }

  template <class F>
  void each_tile(int threads, F&& f) const {   // f(c)
    for_range(threads, (rows + tile - 1) / tile, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t t = first; t < last; ++t) f(t * tile);
    });
  }
};

// Storage of update matrices: packed lower triangles for symmetric fronts, full squares for unsymmetric ones.
enum Storage : int64_t { packed_lower = 0, full = -1 };
inline int64_t matrix_scalars(int64_t storage, int64_t rows) { return storage == full ? rows * rows : PackedLower{rows}.size(); }

}  // namespace ms::fronts
