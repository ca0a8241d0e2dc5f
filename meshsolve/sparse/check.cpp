// Row checks, symmetry test and symmetrization in O(nnz), each in one or two sweeps over the rows.
#include "check.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>

#include "native/threads/atomic.hpp"
#include "native/threads/parallel.hpp"
#include "native/threads/systems.hpp"
#include "rearrange.hpp"
#include "native/rng.hpp"

namespace ms {

namespace {

constexpr int64_t piece = 1 << 17;                      // entries or row pointers per task
constexpr int64_t some_rows = 1 << 14;                  // rows per task

// A sweep without branches for the usual case: all indices are in range, and adjacent indices descend only at the starts of rows.
bool all_rows_ascend(const Pattern& A, int64_t stored, int threads) {
  std::atomic<bool> falls{false};
  for_range(threads, A.n, piece, [&](int64_t begin, int64_t end, int) {
    bool found = false;
    for (int64_t i = begin; i < end; ++i) found |= A.ptr[i + 1] < A.ptr[i];
    if (found) falls = true;
  });
  if (falls) return false;
  constexpr int64_t block = 4096;                       // counted in 32 bits, as wide as the indices
  std::atomic<bool> in_range{true};
  std::atomic<int64_t> descents{0};
  for_range(threads, stored, piece, [&](int64_t begin, int64_t last, int) {
    int32_t least = A.idx[begin], most = least;
    int64_t found = begin > 0 && A.idx[begin] <= A.idx[begin - 1];
    for (int64_t b = begin + 1; b < last; b += block) {
      const int64_t end = std::min(b + block, last);
      int32_t here = 0;
      for (int64_t p = b; p < end; ++p) {
        least = std::min(least, A.idx[p]);
        most = std::max(most, A.idx[p]);
        here += A.idx[p] <= A.idx[p - 1];
      }
      found += here;
    }
    if (least < 0 || most >= A.n) in_range = false;
    descents += found;
  });
  if (!in_range) return false;
  for_range(threads, A.n, piece, [&](int64_t begin, int64_t end, int) {
    int64_t starts = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t p = A.ptr[i];
      starts += p > 0 && A.ptr[i + 1] > p && A.idx[p] <= A.idx[p - 1];
    }
    descents -= starts;
  });
  return descents == 0;
}

}  // namespace

RowCheck check_rows(const Pattern& A, int64_t stored, int threads) {
  if (A.ptr[0] != 0 || A.ptr[A.n] != stored) return {RowState::invalid, 0};
  if (all_rows_ascend(A, stored, threads)) return {RowState::valid, -1};
  RowCheck found{RowState::valid, -1};
  for (int32_t i = 0; i < A.n; ++i) {
    if (A.ptr[i + 1] < A.ptr[i] || A.ptr[i + 1] > stored) return {RowState::invalid, i};
    int32_t last = -1;
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
      const int32_t j = A.idx[p];
      if (j < 0 || j >= A.n) return {RowState::invalid, i};
      if (j <= last && found.state == RowState::valid) found = {RowState::unsorted, i};
      last = j;
    }
  }
  return found;
}

namespace {

std::vector<double> largest_of_rows(const Pattern& A, const double* x) {
  std::vector<double> most(A.n, 0.0);
  for (int32_t i = 0; i < A.n; ++i)
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) most[i] = std::max(most[i], std::abs(x[p]));
  return most;
}

// 128 bits of two numbers: their product, or two hashes without a 128-bit type.
inline std::array<uint64_t, 2> product(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
  __extension__ typedef unsigned __int128 Wide;
  const Wide whole = static_cast<Wide>(a) * b;
  return {static_cast<uint64_t>(whole), static_cast<uint64_t>(whole >> 64)};
#else
  return {hash_key(0, a, b), hash_key(1, a, b)};
#endif
}

// A hash of two numbers by one multiplication, folded.
inline uint64_t fold(uint64_t a, uint64_t b) {
  const auto [low, high] = product(a, b);
  return low ^ high;
}

// Random keys, drawn once per process, so that no matrix can be constructed whose halves differ and whose hashes agree.
struct Secret {
  uint64_t position, value;
  static const Secret& drawn() {
    static const Secret secret = [] {
      std::random_device device;
      const auto odd = [&] { return mix64(uint64_t{device()} << 32 | device()) | 1; };
      return Secret{odd(), odd()};
    }();
    return secret;
  }
};

// Exclusive or of the hashes of ({row, column}, value) of the off-diagonal entries of rows [begin, end), or without values (x is null)
// of ({row, column}). An entry and its mirror entry cancel.
uint64_t unmatched(const Pattern& A, const double* x, int64_t begin, int64_t end) {
  const auto [position, what] = Secret::drawn();
  uint64_t alone = 0;
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t row = static_cast<uint64_t>(i), own = row * position + 1;
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
      const uint64_t j = static_cast<uint32_t>(A.idx[p]);
      const uint64_t hash = fold(own * (j * position + 1) ^ position, (x ? std::bit_cast<uint64_t>(x[p]) : 0) ^ what);
      alone ^= j == row ? 0 : hash;
    }
  }
  return alone;
}

// True if the entries below and above the diagonal have the same 64-bit hashes. One sweep, without a search for mirror entries, which
// may lie anywhere in memory. Halves that differ pass with a probability of about 2^-64.
bool same_halves(const Pattern& A, const double* x, int threads) {
  std::atomic<uint64_t> alone{0};
  for_range(threads, A.n, some_rows, [&](int64_t b, int64_t e, int) { alone ^= unmatched(A, x, b, e); });
  return alone == 0;
}

}  // namespace

// Rows are visited in ascending order. So the mirror entries (j, i), i > j, of a row j are needed in the order of row j, and one
// moving position per row finds them all.
Symmetry symmetry(const Pattern& A, const double* x, int threads) {
  Symmetry s;
  if (same_halves(A, x, threads)) return s;
  if (!x) {
    s.pattern = false;
    return s;
  }
  const std::vector<double> most = largest_of_rows(A, x);
  std::vector<int64_t> next(A.n);
  double worst = 0;
  const auto note = [&](int32_t i, int32_t j, double a, double b) {
    if (a == b) return;
    constexpr double least = std::numeric_limits<double>::denorm_min();
    const double gap = std::abs(a - b), size = std::max(std::abs(a), std::abs(b)), of_rows = std::min(most[i], most[j]);
    const double allowed = kOfEntries * size + kOfRows * of_rows + least;
    const double roundings = gap / (kRounding * (size + of_rows) + least);
    s.doubt = std::max<int32_t>(s.doubt, roundings > kManyRoundings ? skew : roundings > 1 ? rounding : none);
    if (gap > worst * allowed) s.row = i, s.column = j, s.gap = gap, s.allowed = allowed, worst = gap / allowed;
  };
  const auto alone = [&](int32_t i, int32_t j, double value) {
    s.pattern = false;
    note(i, j, value, 0);
  };
  for (int32_t i = 0; i < A.n; ++i) {
    const int64_t end = A.ptr[i + 1];
    int64_t p = A.ptr[i];
    for (; p < end && A.idx[p] < i; ++p) {
      const int32_t j = A.idx[p];
      int64_t& q = next[j];
      for (; q < A.ptr[j + 1] && A.idx[q] < i; ++q) alone(j, A.idx[q], x[q]);
      if (q < A.ptr[j + 1] && A.idx[q] == i)
        note(i, j, x[p], x[q++]);
      else
        alone(i, j, x[p]);
    }
    next[i] = p < end && A.idx[p] == i ? p + 1 : p;
  }
  for (int32_t j = 0; j < A.n; ++j)
    for (int64_t q = next[j]; q < A.ptr[j + 1]; ++q) alone(j, A.idx[q], x[q]);
  return s;
}

Asymmetry first_asymmetry(const Pattern& A, const double* values, int64_t count, int threads) {
  const int64_t nnz = A.ptr[A.n];
  struct Pair { uint32_t below, above; };               // an entry below the diagonal and its mirror entry
  std::vector<Pair> pairs;                              // small, so that the cache has room for the values of a system
  const bool are_few = nnz <= std::numeric_limits<uint32_t>::max();
  std::vector<int64_t> next(A.ptr, A.ptr + A.n);
  for (int32_t i = 0; are_few && i < A.n; ++i)          // rows ascend, so row j meets its mirror entries in order
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
      const int64_t q = next[A.idx[p]]++;
      if (A.idx[p] >= i) continue;
      pairs.push_back({static_cast<uint32_t>(p), static_cast<uint32_t>(q)});
    }
  std::atomic<int64_t> first{count};
  std::vector<uint8_t> doubt(count);
  each_system(threads, count, 1, [&](int64_t i, int) {
    if (i > first) return;
    const double* const x = values + i * nnz;
    bool same = are_few, comparable = !are_few;
    for (const Pair& p : pairs) same &= x[p.below] == x[p.above];
    if (same) return;
    for (const Pair& p : pairs)
      comparable = comparable || (x[p.below] != x[p.above] && std::isfinite(x[p.below]) && std::isfinite(x[p.above]));
    if (!comparable) return;
    const Symmetry found = symmetry(A, x, 1);
    doubt[i] = found.doubt == skew;
    if (!(found.gap > found.allowed)) return;
    for (int64_t seen = first; i < seen && !first.compare_exchange_weak(seen, i);) {
    }
  });
  if (first < count) return {first, symmetry(A, values + first * nnz, 1), {}};
  Asymmetry none;
  for (int64_t i = 0; i < count; ++i)
    if (doubt[i]) none.doubtful.push_back(i);
  return none;
}

void diagonal(const Pattern& A, const double* x, double* d, int threads) {
  for_range(threads, A.n, some_rows, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t *const last = A.idx + A.ptr[i + 1], *const found = std::lower_bound(A.idx + A.ptr[i], last, static_cast<int32_t>(i));
      d[i] = found < last && *found == i ? x[found - A.idx] : 0.0;
    }
  });
}

void row_sums(const int64_t* ptr, const int32_t* rows, int64_t count, const double* x, double* sums, double* magnitudes, int threads) {
  for_range_backwards(threads, count, some_rows, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t i = rows ? rows[k] : k;
      double sum = 0, magnitude = 0;
      for (int64_t p = ptr[i]; p < ptr[i + 1]; ++p) {
        sum += x[p];
        magnitude += std::abs(x[p]);
      }
      sums[k] = sum;
      magnitudes[k] = magnitude;
    }
  });
}

OwnedPattern mirror_lower(const Pattern& A, std::vector<int64_t>& source) {
  OwnedPattern B;
  B.ptr.assign(A.n + 1, 0);
  for (int32_t i = 0; i < A.n; ++i)
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1] && A.idx[p] <= i; ++p) {
      ++B.ptr[i + 1];
      if (A.idx[p] < i) ++B.ptr[A.idx[p] + 1];
    }
  std::vector<int64_t> next = cumsum_with_cursors(B.ptr);
  B.idx.resize(B.ptr[A.n]);
  source.resize(B.ptr[A.n]);
  const auto put = [&](int32_t i, int32_t j, int64_t p) {
    B.idx[next[i]] = j;
    source[next[i]++] = p;
  };
  for (int32_t i = 0; i < A.n; ++i)       // row i receives its own entries (j <= i) before those of the rows below it
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1] && A.idx[p] <= i; ++p) put(i, A.idx[p], p);
  for (int32_t i = 0; i < A.n; ++i)
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1] && A.idx[p] < i; ++p) put(A.idx[p], i, p);
  return B;
}

int64_t first_not_finite(const double* x, int64_t size, int threads) {
  constexpr uint64_t exponent = 0x7FF0'0000'0000'0000;       // all ones: NaN or infinity
  constexpr int64_t block = 1024;
  std::atomic<int64_t> first{size};
  for_range(threads, size, piece, [&](int64_t begin, int64_t last, int) {
    for (int64_t b = begin; b < last; b += block) {
      const int64_t end = std::min(last, b + block);
      uint64_t found = 0;
      for (int64_t i = b; i < end; ++i) found |= (std::bit_cast<uint64_t>(x[i]) & exponent) == exponent;
      if (!found) continue;
      const int64_t at = std::find_if_not(x + b, x + end, [](double a) { return std::isfinite(a); }) - x;
      for (int64_t before = first; at < before && !first.compare_exchange_weak(before, at);) {}
      return;
    }
  });
  return first < size ? first.load() : -1;
}

bool is_permutation(const int32_t* perm, int32_t n, int threads) {
  std::vector<uint8_t> seen(n);
  std::atomic<bool> found{true};
  for_range(threads, n, some_rows, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k)
      if (perm[k] < 0 || perm[k] >= n || AtomicRef(seen[perm[k]]).exchange(1, std::memory_order_relaxed)) {
        found = false;
        return;
      }
  });
  return found;
}

OwnedPattern drop_diagonal(const Pattern& A, int threads) {
  OwnedPattern B;
  B.ptr.assign(A.n + int64_t{1}, 0);
  const auto is_kept = [&](int64_t i, int64_t p) { return A.idx[p] != i; };
  for_range(threads, A.n, some_rows, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) B.ptr[i + 1] += is_kept(i, p);
  });
  cumsum(B.ptr);
  B.idx.resize(B.ptr[A.n]);
  for_range(threads, A.n, some_rows, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t q = B.ptr[i];
      for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p)
        if (is_kept(i, p)) B.idx[q++] = A.idx[p];
    }
  });
  return B;
}

OwnedPattern symmetrize(const Pattern& A, int threads) {
  if (same_halves(A, nullptr, threads)) return drop_diagonal(A, threads);
  const OwnedPattern T = transpose(A, 0, [](int64_t, int64_t) {});
  const OwnedPattern both = unite(A, T.view());
  return drop_diagonal(both.view(), threads);
}

OwnedPattern unite(const Pattern& A, const Pattern& B) {
  OwnedPattern U;
  U.ptr.assign(A.n + 1, 0);
  U.idx.reserve(std::max(A.nnz(), B.nnz()));
  for (int32_t i = 0; i < A.n; ++i) {
    std::set_union(A.idx + A.ptr[i], A.idx + A.ptr[i + 1], B.idx + B.ptr[i], B.idx + B.ptr[i + 1], std::back_inserter(U.idx));
    U.ptr[i + 1] = static_cast<int64_t>(U.idx.size());
  }
  return U;
}

bool same_pattern(const Pattern& A, const Pattern& B) {
  return A.n == B.n && std::equal(A.ptr, A.ptr + A.n + 1, B.ptr) && std::equal(A.idx, A.idx + A.nnz(), B.idx);
}

// Exclusive or of one product per four indices; the last ones are padded with zeros. A factor is two indices, mixed with a key of their
// position.
std::array<uint64_t, 2> fingerprint(const int32_t* idx, int64_t size, int threads) {
  constexpr uint64_t step[2] = {0x9E3779B97F4A7C15u, 0xD1B54A32D192ED03u};
  const uint64_t key[2] = {mix64(static_cast<uint64_t>(size)), mix64(~static_cast<uint64_t>(size))};
  std::atomic<uint64_t> all[2] = {0, 0};
  const auto product_of = [&](const int32_t* four, int64_t position) {
    uint64_t pair[2];
    std::memcpy(pair, four, sizeof pair);
    return product(pair[0] ^ (key[0] + position * step[0]), pair[1] ^ (key[1] + position * step[1]));
  };
  for_range(threads, size / 4, some_rows, [&](int64_t begin, int64_t end, int) {
    uint64_t part[2] = {0, 0};
    for (int64_t k = begin; k < end; ++k) {
      const auto [low, high] = product_of(idx + 4 * k, k);
      part[0] ^= low, part[1] ^= high;
    }
    all[0] ^= part[0], all[1] ^= part[1];
  });
  int32_t rest[4] = {0, 0, 0, 0};
  std::copy(idx + size / 4 * 4, idx + size, rest);
  const auto [low, high] = product_of(rest, size / 4);
  return {all[0] ^ low, all[1] ^ high};
}

int64_t embed(const Pattern& A, const Pattern& B, const double* from, double* to) {
  for (int32_t i = 0; i < A.n; ++i) {
    int64_t p = A.ptr[i];
    const int64_t end = A.ptr[i + 1];
    for (int64_t q = B.ptr[i]; q < B.ptr[i + 1]; ++q) {
      while (p < end && A.idx[p] < B.idx[q]) to[p++] = 0;
      if (p == end || A.idx[p] != B.idx[q]) return q;
      to[p++] = from[q];
    }
    while (p < end) to[p++] = 0;
  }
  return -1;
}

}  // namespace ms
