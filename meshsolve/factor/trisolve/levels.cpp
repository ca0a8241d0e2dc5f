// In what order the rows of a triangular solve stand, and how they are shared out: sets of independent rows, or independent
// components of the lower part and a top.
// All in O(nnz), but for the union-find of cut_bins (O(nnz alpha(n))).
#include <algorithm>
#include <numeric>

#include "trisolve.hpp"

namespace ms::trisolve {
namespace {

constexpr int32_t narrow = 512;          // rows: levels below that are not worth a barrier
constexpr int64_t chunk_work = 8192;     // entries
constexpr int32_t bins = 32;

class Components {                       // union-find with the weight of each component
 public:
  explicit Components(int32_t n) : parent_(n), weight_(n, 0) { std::iota(parent_.begin(), parent_.end(), 0); }
  int32_t find(int32_t x) {
    for (; parent_[x] != x; x = parent_[x]) parent_[x] = parent_[parent_[x]];
    return x;
  }
  int64_t& weight(int32_t root) { return weight_[root]; }
  void join(int32_t root, int32_t to) {
    parent_[root] = to;
    weight_[to] += weight_[root];
  }

 private:
  std::vector<int32_t> parent_;
  std::vector<int64_t> weight_;
};

}  // namespace

std::vector<int32_t> level_sets(int32_t n, const int64_t* ptr, const int32_t* rows) {
  std::vector<int32_t> level(n, 0);
  for (int32_t k = 0; k < n; ++k)
    for (int64_t p = ptr[k]; p < ptr[k + 1]; ++p) level[rows[p]] = std::max(level[rows[p]], level[k] + 1);
  return level;
}

std::vector<int32_t> order_by_level(const std::vector<int32_t>& level, const int32_t* key) {
  const int32_t n = static_cast<int32_t>(level.size());
  std::vector<int32_t> by_key(n), next(n ? *std::max_element(level.begin(), level.end()) + 2 : 1, 0), order(n);
  if (key)
    for (int32_t k = 0; k < n; ++k) by_key[key[k]] = k;
  else
    std::iota(by_key.begin(), by_key.end(), 0);
  for (const int32_t l : level) ++next[l + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (const int32_t k : by_key) order[next[level[k]]++] = k;
  return order;
}

void order_piece(int32_t from, int32_t to, const int64_t* ptr, const int32_t* rows, std::vector<int32_t>& scratch,
                 int32_t* order) {
  const int32_t count = to - from;
  scratch.assign(count, 0);
  int32_t* const level = scratch.data();
  int32_t levels = 1;
  for (int32_t k = 0; k < count; ++k) {
    const int32_t mine = level[k];
    levels = std::max(levels, mine + 1);
    for (int64_t p = ptr[from + k]; p < ptr[from + k + 1]; ++p) {
      int32_t& other = level[rows[p] < to ? rows[p] - from : k];
      other = std::max(other, rows[p] < to ? mine + 1 : mine);
    }
  }
  if (8 * levels > count) {
    std::iota(order + from, order + to, from);
    return;
  }
  constexpr int32_t lengths = long_column + 1;
  const auto key = [&](int32_t k) {
    return level[k] * lengths + static_cast<int32_t>(std::min<int64_t>(ptr[from + k + 1] - ptr[from + k], long_column));
  };
  std::vector<int32_t> next(static_cast<size_t>(levels) * lengths + 1, 0);
  for (int32_t k = 0; k < count; ++k) ++next[key(k) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (int32_t k = 0; k < count; ++k) order[from + next[key(k)]++] = from + k;
}

Segments cut_sets(int32_t n, const int64_t* row_ptr, const int32_t* columns) {
  Segments s;
  s.begin.push_back(0);
  const auto close = [&](int32_t end) {                 // the rows since the last chunk
    if (end > s.begin.back()) s.begin.push_back(end);
  };
  const auto segment = [&] {
    if (s.first.empty() || s.first.back() < s.chunks()) s.first.push_back(s.chunks());
  };
  segment();
  for (int32_t a = 0; a < n;) {
    int32_t b = a + 1;
    while (b < n && (row_ptr[b] == row_ptr[b + 1] || columns[row_ptr[b + 1] - 1] < a)) ++b;
    if (b - a >= narrow) {
      close(a);                                         // the run of narrow sets before this one
      segment();
      int64_t work = 0;
      for (int32_t k = a; k < b; ++k)
        if ((work += row_ptr[k + 1] - row_ptr[k] + 1) >= chunk_work) {
          close(k + 1);
          work = 0;
        }
      close(b);
      segment();
    }
    a = b;
  }
  close(n);
  segment();
  return s;
}

Segments cut_bins(int32_t n, const int64_t* ptr, const int32_t* rows, const int64_t* row_ptr, const int32_t* columns) {
  const int64_t most = (ptr[n] + n) / (2 * bins) + 1;
  Components parts(n);
  std::vector<char> top(n, 0);
  std::vector<int32_t> roots;
  for (int32_t k = 0; k < n; ++k) {
    int64_t weight = ptr[k + 1] - ptr[k] + 1;
    roots.clear();
    for (int64_t p = row_ptr[k]; p < row_ptr[k + 1] && !top[k]; ++p) {
      const int32_t root = parts.find(columns[p]);
      if (std::find(roots.begin(), roots.end(), root) != roots.end()) continue;
      roots.push_back(root);
      weight += parts.weight(root);
      top[k] = weight > most;                           // and so is everything that follows it
    }
    if (top[k]) {
      for (int64_t p = ptr[k]; p < ptr[k + 1]; ++p) top[rows[p]] = 1;
      continue;
    }
    parts.weight(k) = ptr[k + 1] - ptr[k] + 1;
    for (const int32_t root : roots) parts.join(root, k);
  }
  std::vector<int32_t> heads, bin(n, bins), count(bins + 2, 0);
  for (int32_t k = 0; k < n; ++k)
    if (!top[k] && parts.find(k) == k) heads.push_back(k);
  std::stable_sort(heads.begin(), heads.end(), [&](int32_t a, int32_t b) { return parts.weight(a) > parts.weight(b); });
  std::vector<int64_t> load(bins, 0);
  for (const int32_t head : heads) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += parts.weight(head);
    bin[head] = static_cast<int32_t>(least - load.begin());
  }
  for (int32_t k = 0; k < n; ++k) {
    if (!top[k]) bin[k] = bin[parts.find(k)];
    ++count[bin[k] + 1];
  }
  Segments s;
  s.rows.resize(n);
  std::partial_sum(count.begin(), count.end(), count.begin());
  s.begin.assign(count.begin(), count.end());
  for (int32_t k = 0; k < n; ++k) s.rows[count[bin[k]]++] = k;
  s.first = {0, bins, bins + 1};
  return s;
}

}  // namespace ms::trisolve
