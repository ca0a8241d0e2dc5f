// Coarse level of fill: which tiles an incomplete factor may fill. Tile (i, j) has level 0 if A has an entry in it, and otherwise
// the smallest level(k, i) + level(k, j) + 1 over k < min(i, j). Tiles above the limit are left out.
// Source: Hysom and Pothen 2001, "A scalable parallel algorithm for incomplete factor preconditioning", on blocks.
#include <algorithm>

#include "incomplete.hpp"
#include "native/threads/interrupt.hpp"
#include "sparse/rearrange.hpp"

namespace ms::ildl {
namespace {

class Levels {
 public:
  Levels(const Pattern& A, const std::vector<int32_t>& tile_begin, const std::vector<int32_t>& tile_of, int64_t limit)
      : A_(A), begin_(tile_begin), of_(tile_of), limit_(limit), count_(static_cast<int32_t>(tile_begin.size()) - 1),
        mark_(count_, unset), head_(count_, -1), next_(count_, -1), at_(count_, 0) {}

  LevelPattern run() {
    LevelPattern out;
    out.ptr.assign(1, 0);
    out.above_ptr.assign(1, 0);
    for (int32_t i = 0; i < count_; ++i) {
      if (i % 64 == 0) interrupt::poll();
      list_.clear();
      original(i, out);
      pull(i, out);
      std::sort(list_.begin(), list_.end());
      for (const int32_t j : list_) {
        out.column.push_back(j);
        level_.push_back(mark_[j]);
        mark_[j] = unset;
      }
      out.ptr.push_back(static_cast<int64_t>(out.column.size()));
      at_[i] = out.ptr[i];
      enlist(i, out);
    }
    sort_by_depth(out);
    return out;
  }

 private:
  static constexpr int32_t unset = INT32_MAX;

  void put(int32_t j, int32_t level) {
    if (mark_[j] == unset) list_.push_back(j);
    mark_[j] = std::min(mark_[j], level);
  }

  void original(int32_t i, LevelPattern& out) {
    for (int32_t r = begin_[i]; r < begin_[i + 1]; ++r)
      for (int64_t p = A_.ptr[r]; p < A_.ptr[r + 1]; ++p)
        if (const int32_t j = of_[A_.idx[p]]; j > i) put(j, 0);
    out.original += static_cast<int64_t>(list_.size());
  }

  // Visits the rows k whose next tile is i, and appends each to the list of its tile after that.
  void pull(int32_t i, LevelPattern& out) {
    const size_t first = out.above.size();
    for (int32_t k = head_[i], later; k >= 0; k = later) {
      later = next_[k];
      out.above.push_back(k);
      const int64_t base = level_[at_[k]] + int64_t{1};
      for (int64_t p = ++at_[k]; p < out.ptr[k + 1]; ++p)
        if (base + level_[p] <= limit_) put(out.column[p], static_cast<int32_t>(base + level_[p]));
      enlist(k, out);
    }
    std::sort(out.above.begin() + static_cast<int64_t>(first), out.above.end());
    out.above_ptr.push_back(static_cast<int64_t>(out.above.size()));
  }

  void enlist(int32_t k, const LevelPattern& out) {
    if (at_[k] == out.ptr[k + 1]) return;
    const int32_t j = out.column[at_[k]];
    next_[k] = head_[j];
    head_[j] = k;
  }

  void sort_by_depth(LevelPattern& out) const {
    std::vector<int32_t> depth(count_, 0);
    int32_t most = 0;
    for (int32_t i = 0; i < count_; ++i) {
      for (int64_t p = out.above_ptr[i]; p < out.above_ptr[i + 1]; ++p) depth[i] = std::max(depth[i], depth[out.above[p]] + 1);
      most = std::max(most, depth[i]);
    }
    out.depth_ptr.assign(most + 2, 0);
    for (const int32_t l : depth) ++out.depth_ptr[l + 1];
    std::vector<int32_t> next = cumsum_with_cursors(out.depth_ptr);
    out.order.resize(count_);
    for (int32_t i = 0; i < count_; ++i) out.order[next[depth[i]]++] = i;
  }

  const Pattern A_;
  const std::vector<int32_t>&begin_, &of_;
  const int64_t limit_;
  const int32_t count_;
  std::vector<int32_t> mark_, list_;               // levels of the current row, and its tiles
  std::vector<int32_t> level_;                     // as LevelPattern::column
  std::vector<int32_t> head_, next_;               // lists of the rows by their next tile
  std::vector<int64_t> at_;                        // the position of that tile in the row
};

}  // namespace

LevelPattern level_pattern(const Pattern& A, const std::vector<int32_t>& tile_begin, const std::vector<int32_t>& tile_of,
                           int64_t level) {
  return Levels(A, tile_begin, tile_of, level).run();
}

}  // namespace ms::ildl
