// Loops over rows, or over the nodes of a forest, in which threads process some ranges and the caller what is between them.
#pragma once
#include <vector>

#include "native/threads/parallel.hpp"
#include "symbolic.hpp"

namespace ms::symbolic {

constexpr int64_t kRows = 1 << 13;              // rows or columns of one piece of work

// Calls f(s) for all parts, several for each thread.
template <class F>
void for_each_part(int threads, const std::vector<Span>& parts, F&& f) {
  const int64_t count = static_cast<int64_t>(parts.size());
  for_range(threads, count, count / 256, [&](int64_t b, int64_t e, int) {
    for (int64_t s = b; s < e; ++s) f(s);
  });
}

// Calls f(begin, end) for the parts, independent ascending ranges of [0, n), then for the gaps between them in ascending order.
template <class F>
void for_parts(int threads, int32_t n, const std::vector<Span>& parts, F&& f) {
  for_each_part(threads, parts, [&](int64_t s) { f(parts[s].begin, parts[s].end); });
  int32_t done = 0;
  for (const Span& part : parts) {
    f(done, part.begin);
    done = part.end;
  }
  f(done, n);
}

// A forest, parent[k] > k or -1, with parts: ascending ranges such that the parent of a node is in its range or in no range. Then
// threads visit the nodes whose parents are in their range, and the caller the others.
class Forest {
 public:
  Forest(const std::vector<int32_t>& parent, const std::vector<Span>& parts, int threads)
      : parent_(parent), parts_(parts), threads_(threads), tops_(parts.size()) {
    for_each_part(threads, parts, [&](int64_t s) {
      for (int32_t k = parts[s].begin; k < parts[s].end; ++k)
        if (is_top(k, s)) tops_[s].push_back(k);
    });
  }

  // Calls f(k) after all children of k; it may change what belongs to k and to its parent.
  template <class F>
  void children_first(F&& f) const {
    for_each_part(threads_, parts_, [&](int64_t s) {
      for (int32_t k = parts_[s].begin; k < parts_[s].end; ++k)
        if (!is_top(k, s)) f(k);
    });
    int32_t done = 0;
    for (size_t s = 0; s < parts_.size(); ++s) {
      for (int32_t k = done; k < parts_[s].begin; ++k) f(k);
      for (const int32_t k : tops_[s]) f(k);
      done = parts_[s].end;
    }
    for (int32_t k = done; k < count(); ++k) f(k);
  }

  // Calls f(k) after its parent and after its later siblings; it may change what belongs to k and to its parent.
  template <class F>
  void parents_first(F&& f) const {
    int32_t done = count();
    for (size_t s = parts_.size(); s-- > 0;) {
      for (int32_t k = done; k-- > parts_[s].end;) f(k);
      for (size_t t = tops_[s].size(); t-- > 0;) f(tops_[s][t]);
      done = parts_[s].begin;
    }
    for (int32_t k = done; k-- > 0;) f(k);
    for_each_part(threads_, parts_, [&](int64_t s) {
      for (int32_t k = parts_[s].end; k-- > parts_[s].begin;)
        if (!is_top(k, s)) f(k);
    });
  }

 private:
  int32_t count() const { return static_cast<int32_t>(parent_.size()); }
  bool is_top(int32_t k, int64_t s) const { return parent_[k] < 0 || parent_[k] >= parts_[s].end; }

  const std::vector<int32_t>& parent_;
  const std::vector<Span>& parts_;
  const int threads_;
  std::vector<std::vector<int32_t>> tops_;      // of each part, ascending: nodes whose parents are in no part
};

}  // namespace ms::symbolic
