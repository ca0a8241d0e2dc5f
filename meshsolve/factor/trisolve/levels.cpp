// Order of the rows of a triangular solve, and their partition among threads: sets of independent rows, or ranges of rows and a
// last chunk. All in O(nnz).
#include <algorithm>
#include <numeric>

#include "native/threads/parallel.hpp"
#include "trisolve.hpp"

namespace ms::trisolve {
namespace {

constexpr int32_t narrow = 512;          // rows; smaller levels are not worth a barrier
constexpr int64_t chunk_work = 8192;     // entries
constexpr int32_t most_ranges = 32;
constexpr int32_t least_range = 4096;    // rows; the size of a range is a multiple, so that it consists of complete pieces

}  // namespace

template <class T>
std::vector<int32_t> level_sets(const ColumnStores<T>& L) {
  std::vector<int32_t> level(L.n(), 0);
  for (int32_t k = 0; k < L.n(); ++k) {
    const int32_t* const rows = L.rows(k);
    for (int64_t e = 0; e < L.length(k); ++e) {
      int32_t& reached = level[L.row(rows[e])];
      reached = std::max(reached, level[k] + 1);
    }
  }
  return level;
}

template std::vector<int32_t> level_sets(const ColumnStores<double>&);
template std::vector<int32_t> level_sets(const ColumnStores<float>&);

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

Segments cut_sets(const std::vector<RowSummary>& summary) {
  const int32_t n = static_cast<int32_t>(summary.size());
  Segments s;
  s.begin.push_back(0);
  const auto close = [&](int32_t end) {                 // ends a chunk at row `end`
    if (end > s.begin.back()) s.begin.push_back(end);
  };
  const auto segment = [&] {
    if (s.first.empty() || s.first.back() < s.chunks()) s.first.push_back(s.chunks());
  };
  segment();
  for (int32_t a = 0; a < n;) {
    int32_t b = a + 1;
    while (b < n && summary[b].edge < a) ++b;
    if (b - a >= narrow) {
      close(a);                                         // ends the run of narrow sets
      segment();
      int64_t work = 0;
      for (int32_t k = a; k < b; ++k)
        if ((work += summary[k].count + 1) >= chunk_work) {
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

Segments cut_ranges(const std::vector<RowSummary>& summary, const int64_t* ptr, const int32_t* rows, int threads) {
  const int32_t n = static_cast<int32_t>(summary.size());
  const int32_t size = (n / most_ranges + least_range) / least_range * least_range, ranges = n / size + (n % size > 0);
  std::vector<uint8_t> late(n);
  Segments s;
  s.begin.assign(ranges + 2, 0);
  for_range(threads, ranges, 1, [&](int64_t first, int64_t last, int) {
    for (int32_t r = static_cast<int32_t>(first); r < last; ++r) {
      const int32_t begin = r * size, end = n - begin < size ? n : begin + size;
      for (int32_t i = begin; i < end; ++i) late[i] = summary[i].count > 0 && summary[i].edge < begin;
      for (int32_t k = begin; k < end; ++k) {
        s.begin[r + 1] += !late[k];
        for (int64_t p = ptr[k]; p < ptr[k + 1] && late[k]; ++p)
          if (rows[p] < end) late[rows[p]] = 1;
      }
    }
  });
  std::partial_sum(s.begin.begin(), s.begin.end() - 1, s.begin.begin());
  s.rows.resize(n);
  int32_t on_time = 0, top = s.begin[ranges];
  for (int32_t k = 0; k < n; ++k) s.rows[late[k] ? top++ : on_time++] = k;
  s.begin.back() = n;
  s.first = {0, ranges, ranges + 1};
  return s;
}

double speedup(const Segments& s, const std::vector<RowSummary>& summary, int threads) {
  constexpr double wait = 1000;          // cost of a wait for the other threads, in entries read
  double alone = 0, together = 0;
  for (size_t g = 0; g + 1 < s.first.size(); ++g) {
    double all = 0, most = 0;
    for (int32_t c = s.first[g]; c < s.first[g + 1]; ++c) {
      double work = 0;
      for (int32_t at = s.begin[c]; at < s.begin[c + 1]; ++at) work += summary[s.row(at)].count + 1;
      all += work;
      most = std::max(most, work);
    }
    alone += all;
    together += std::max(all / threads, most) + wait;
  }
  return together > 0 ? alone / together : 0;
}

}  // namespace ms::trisolve
