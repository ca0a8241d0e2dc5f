// A loop over level sets in one call of the thread pool. Members of a level depend only on members of earlier levels.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "native/threads/parallel.hpp"

namespace ms {

struct LevelPiece {
  int32_t level, after;       // whole: all levels [level, after), each with one member
  int32_t from, to;           // else members [from, to) of one level
  bool whole;
};

// ptr: (levels + 1) first members. Consecutive levels of one member become one piece, since only one thread can work on them.
inline std::vector<LevelPiece> cut_levels(const std::vector<int32_t>& ptr, int threads) {
  std::vector<LevelPiece> pieces;
  for (int32_t l = 0; l + 1 < static_cast<int32_t>(ptr.size()); ++l) {
    const int32_t from = ptr[l], to = ptr[l + 1];
    if (to - from > 1) {
      const int32_t grain = std::max(1, (to - from) / (8 * threads));
      for (int32_t at = from; at < to; at += grain) pieces.push_back({l, l + 1, at, std::min(to, at + grain), false});
    } else if (!pieces.empty() && pieces.back().whole) {
      pieces.back().after = l + 1;
    } else {
      pieces.push_back({l, l + 1, from, to, true});
    }
  }
  return pieces;
}

// Calls f(from, to, worker) for ranges of members, each after all members of earlier levels, and between(level) between a level
// and the next. Pieces are claimed in order. A worker waits only for pieces that already run, so there is no deadlock.
template <class F, class Between>
void for_levels(int threads, const std::vector<int32_t>& ptr, F&& f, Between&& between) {
  const auto one_by_one = [&](int32_t level, int32_t after, int worker) {
    for (; level < after; ++level) {
      interrupt::poll();
      f(ptr[level], ptr[level + 1], worker);
      between(level);
    }
  };
  const int32_t levels = static_cast<int32_t>(ptr.size()) - 1;
  const std::vector<LevelPiece> pieces = threads > 1 ? cut_levels(ptr, threads) : std::vector<LevelPiece>();
  if (pieces.size() < 2) return one_by_one(0, levels, 0);
  std::unique_ptr<std::atomic<int32_t>[]> left(new std::atomic<int32_t>[levels]);       // pieces of a wide level
  for (int32_t l = 0; l < levels; ++l) left[l].store(0, std::memory_order_relaxed);
  for (const LevelPiece& piece : pieces) left[piece.level].fetch_add(1, std::memory_order_relaxed);
  std::atomic<size_t> next{0};
  std::atomic<int32_t> open{0};                                 // the level whose members may be computed
  std::atomic<bool> stop{false};
  const auto is_open = [&](int32_t level) { return open.load(std::memory_order_acquire) == level; };
  Pool::run(threads, [&](int worker) {
    try {
      for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces.size();) {
        const LevelPiece& piece = pieces[i];
        spin_until([&] { return is_open(piece.level) || stop.load(std::memory_order_relaxed); });
        if (stop.load(std::memory_order_relaxed)) return;
        if (piece.whole) {
          one_by_one(piece.level, piece.after, worker);
        } else {
          interrupt::poll();
          f(piece.from, piece.to, worker);
          if (left[piece.level].fetch_sub(1, std::memory_order_acq_rel) > 1) continue;
          between(piece.level);
        }
        open.store(piece.after, std::memory_order_release);
      }
    } catch (...) {
      stop.store(true);
      throw;
    }
  });
}

}  // namespace ms
