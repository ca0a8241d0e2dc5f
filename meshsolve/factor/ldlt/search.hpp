// The order in which the columns of a front are tried as pivots, on the CPU and in CUDA. Blocks are tried from the left. Columns
// that fail move to the end and are tried again while others are still eliminated.
#pragma once

namespace ms::ldlt {

constexpr int block_columns = 32;
constexpr int small_rest = 256;              // most columns without a pivot that are tried as one block before they are delayed

template <class Index>
struct Search {
  Index k = 0;                               // pivots so far; the columns [k, end) have not failed in this round
  Index before = 0, end, block = block_columns;

  Index width() const { return block < end - k ? block : end - k; }

  // Continues after `found` pivots among the next width() columns; the others moved to the end. False if no column is left to
  // try.
  bool advance(Index found, Index p, bool root) {
    end -= width() - found;
    k += found;
    if (k < end || k == p) return k < end;
    if (k == before) {                       // a whole round without a pivot: try partners outside the block
      if (block >= p - k || (!root && p - k > small_rest)) return false;
      block = p - k;
    }
    before = k;
    end = p;
    return true;
  }
};

}  // namespace ms::ldlt
