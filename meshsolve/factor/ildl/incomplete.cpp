// Numeric phase of the incomplete factorization. A block row pulls what the rows above it contribute, in ascending order, into
// a dense marker of its columns; its diagonal tile is factored with pivoting; then U = D^-1 L^-1 P A and small entries are
// dropped. The pivot order P of a tile is applied when its own row is finished; tiles above keep their columns as they were, so
// that nothing is permuted twice. Block rows of one depth run in parallel and do not need each other.
// Source: Thuerck et al. 2018, algorithm 1; its U_ij = (P U_ij) U_ii^-1 D_ii^-1 is meant transposed.
#include "incomplete.hpp"

#include <algorithm>
#include <cmath>

#include "native/buffer.hpp"
#include "native/parallel.hpp"

namespace ms::ildl {

struct alignas(cache_line) Incomplete::Worker {
  std::vector<int32_t> position;          // (n) of a column in `columns`, -1
  std::vector<int32_t> allowed;           // (tiles) the block row that may fill the tile
  std::vector<int32_t> columns, kept;
  std::vector<double> panel;              // rows x columns
  std::vector<std::unique_ptr<double[]>> values;      // memory of finished rows, in chunks
  std::vector<std::unique_ptr<int32_t[]>> names;
  size_t values_left = 0, names_left = 0;
  double *next_value = nullptr, tile[largest_tile * largest_tile], norm[largest_tile];
  int32_t* next_name = nullptr;
  int order[largest_tile];
  Statistics statistics;

  double* of(int32_t column, int rows) { return panel.data() + static_cast<int64_t>(position[column]) * rows; }
  double* take_values(size_t count) { return take(count, values, values_left, next_value); }
  int32_t* take_names(size_t count) { return take(count, names, names_left, next_name); }

 private:
  template <class T>
  static T* take(size_t count, std::vector<std::unique_ptr<T[]>>& chunks, size_t& left, T*& next) {
    constexpr size_t chunk = 1 << 16;
    if (left < count) {
      left = std::max(chunk, count);
      chunks.emplace_back(new T[left]);
      next = chunks.back().get();
    }
    T* const taken = next;
    next += count;
    left -= count;
    return taken;
  }
};

namespace {

constexpr int64_t few_tiles = 64;         // of one depth: not worth waking a thread

// y := D x for the pivots of a tile.
void multiply(int m, const double* d, const double* e, const double* x, double* y) {
  for (int k = 0; k < m; ++k) {
    if (e[k] == 0) {
      y[k] = d[k] * x[k];
      continue;
    }
    y[k] = d[k] * x[k] + e[k] * x[k + 1];
    y[k + 1] = e[k] * x[k] + d[k + 1] * x[k + 1];
    ++k;
  }
}

void divide(int m, const double* d, const double* e, double* x) {
  for (int k = 0; k < m; ++k) {
    if (e[k] == 0) {
      x[k] /= d[k];
      continue;
    }
    const double scaled = scaled_determinant(d[k], e[k], d[k + 1]), u = x[k], v = x[k + 1];
    x[k] = (d[k + 1] / e[k] * u - v) / scaled;
    x[k + 1] = (d[k] / e[k] * v - u) / scaled;
    ++k;
  }
}

}  // namespace

Incomplete::Incomplete(std::vector<int32_t> tile_begin, const Pattern& A, int64_t level)
    : tile_begin_(std::move(tile_begin)), tile_of_(A.n), tile_(tiles()), square_(tiles() + 1, 0), d_(A.n), e_(A.n), order_(A.n) {
  for (int32_t i = 0; i < tiles(); ++i) {
    const int64_t rows = tile_begin_[i + 1] - tile_begin_[i];
    std::fill(tile_of_.begin() + tile_begin_[i], tile_of_.begin() + tile_begin_[i + 1], i);
    square_[i + 1] = square_[i] + rows * rows;
  }
  own_.resize(square_.back());
  pattern_ = level_pattern(A, tile_begin_, tile_of_, level);
}

void Incomplete::factor(const Pattern& A, const double* values, const Rule& rule, int threads) {
  std::vector<Worker> workers(threads);
  int64_t spare = 0;
  interrupt::begin(tiles());
  const int32_t depths = static_cast<int32_t>(pattern_.depth_ptr.size()) - 1;
  for (int32_t l = 0; l < depths; ++l) {
    const int32_t from = pattern_.depth_ptr[l], to = pattern_.depth_ptr[l + 1];
    interrupt::poll();
    for_range(threads, to - from, std::max<int64_t>(few_tiles, (to - from) / (8 * threads)), [&](int64_t b, int64_t e, int id) {
      Worker& worker = workers[id];
      worker.position.resize(n(), -1);
      worker.allowed.resize(tiles(), -1);
      for (int64_t t = b; t < e; ++t) row(pattern_.order[from + t], A, values, rule, worker);
    });
    share(from, to, A, rule, spare);
    interrupt::advance(to - from);
  }
  statistics_ = {};
  for (const Worker& worker : workers) {
    statistics_.perturbed += worker.statistics.perturbed;
    statistics_.dropped += worker.statistics.dropped;
  }
  collect(threads);
}

// One block row: entries of A, updates from above, pivots, drop.
void Incomplete::row(int32_t i, const Pattern& A, const double* values, const Rule& rule, Worker& worker) {
  const int32_t begin = tile_begin_[i], end = tile_begin_[i + 1], m = end - begin;
  for (int64_t p = pattern_.ptr[i]; p < pattern_.ptr[i + 1]; ++p) worker.allowed[pattern_.column[p]] = i;
  worker.columns.clear();
  worker.panel.clear();
  std::fill(worker.tile, worker.tile + m * m, 0.0);
  const auto place = [&](int32_t c) -> double* {
    int32_t& at = worker.position[c];
    if (at < 0) {
      at = static_cast<int32_t>(worker.columns.size());
      worker.columns.push_back(c);
      worker.panel.resize(worker.panel.size() + m, 0.0);
    }
    return worker.panel.data() + static_cast<int64_t>(at) * m;
  };
  for (int32_t r = begin; r < end; ++r)
    for (int64_t p = A.ptr[r]; p < A.ptr[r + 1]; ++p) {
      const int32_t c = A.idx[p];
      if (c >= end)
        place(c)[r - begin] += values[p];
      else if (c >= begin)
        worker.tile[r - begin + (c - begin) * m] += values[p];
    }
  double w[largest_tile];
  for (int64_t q = pattern_.above_ptr[i]; q < pattern_.above_ptr[i + 1]; ++q) {
    const int32_t k = pattern_.above[q];
    const Tile& above = tile_[k];
    const int32_t* const stop = above.column + above.count;
    const int32_t* const from = std::lower_bound(above.column, stop, begin);
    const int rows = tile_begin_[k + 1] - tile_begin_[k];
    for (const int32_t* c = from; c < stop && *c < end; ++c) {
      const int32_t r = *c - begin;
      multiply(rows, d_.data() + tile_begin_[k], e_.data() + tile_begin_[k], above.value + (c - above.column) * rows, w);
      for (const int32_t* t = from; t < stop; ++t) {
        if (*t >= end && worker.allowed[tile_of_[*t]] != i) continue;
        const double* const x = above.value + (t - above.column) * rows;
        double sum = 0;
        for (int l = 0; l < rows; ++l) sum += w[l] * x[l];
        (*t < end ? worker.tile[r + (*t - begin) * m] : place(*t)[r]) -= sum;
      }
    }
  }
  finish(i, rule, worker);
}

// Pivots of the tile, U of the row, its norms, and what is kept of it.
void Incomplete::finish(int32_t i, const Rule& rule, Worker& worker) {
  const int32_t begin = tile_begin_[i], m = tile_begin_[i + 1] - begin;
  double *const L = own_.data() + square_[i], *const d = d_.data() + begin, *const e = e_.data() + begin, *const norm = worker.norm;
  worker.statistics.perturbed += factor_tile(m, worker.tile, L, d, e, worker.order, rule.pivoting);
  for (int32_t k = 0; k < m; ++k) order_[begin + k] = begin + worker.order[k];
  std::sort(worker.columns.begin(), worker.columns.end());
  double x[largest_tile], squares[norm_parts * largest_tile];
  std::fill_n(squares, norm_parts * m, 0.0);
  for (size_t q = 0; q < worker.columns.size(); ++q) {
    double *const u = worker.of(worker.columns[q], m), *const sum = squares + q % norm_parts * m;
    for (int32_t r = 0; r < m; ++r) x[r] = u[worker.order[r]];
    for (int32_t k = 0; k < m; ++k)
      for (int32_t r = k + 1; r < m; ++r) x[r] -= L[r + k * m] * x[k];
    divide(m, d, e, x);
    for (int32_t r = 0; r < m; ++r) {
      u[r] = x[r];
      sum[r] += x[r] * x[r];
    }
  }
  for (int32_t r = 0; r < m; ++r) {
    norm[r] = 1;
    for (int s = 0; s < norm_parts; ++s) norm[r] += squares[r + s * m];
    norm[r] = rule.droptol * std::sqrt(norm[r]);
  }
  for (int32_t r = 0; r + 1 < m; ++r)
    if (e[r] != 0) norm[r] = norm[r + 1] = std::max(norm[r], norm[r + 1]);
  worker.kept.clear();
  for (const int32_t c : worker.columns) {
    double* const u = worker.of(c, m);
    bool any = false;
    for (int32_t r = 0; r < m; ++r) {
      const bool keep = u[r] != 0 && !(std::abs(u[r]) <= norm[r]);
      worker.statistics.dropped += u[r] != 0 && !keep;
      if (!keep) u[r] = 0;
      any = any || keep;
    }
    if (any)
      worker.kept.push_back(c);
    else
      worker.position[c] = -1;
  }
  Tile& out = tile_[i];
  out.count = static_cast<int32_t>(worker.kept.size());
  int32_t* const names = worker.take_names(worker.kept.size());
  out.column = names;
  out.value = worker.take_values(worker.kept.size() * m);
  for (int32_t q = 0; q < out.count; ++q) {
    const int32_t c = names[q] = worker.kept[q];
    std::copy_n(worker.of(c, m), m, out.value + static_cast<int64_t>(q) * m);
    worker.position[c] = -1;
  }
}

// The leftover memory protocol, in the order of the tiles: a row above its budget takes what earlier rows left over, and loses
// its smallest columns beyond that.
void Incomplete::share(int32_t from, int32_t to, const Pattern& A, const Rule& rule, int64_t& spare) {
  if (!std::isfinite(rule.max_fill)) return;
  for (int32_t t = from; t < to; ++t) {
    const int32_t i = pattern_.order[t], begin = tile_begin_[i], end = tile_begin_[i + 1];
    const double entries = static_cast<double>(A.ptr[end] - A.ptr[begin]);
    const int64_t budget = static_cast<int64_t>(std::ceil(rule.max_fill * entries)), over = tile_[i].count - budget;
    if (over > spare) truncate(i, budget + spare);
    spare = std::max<int64_t>(0, spare - over);
  }
}

// Keeps the columns with the largest entries; of equal ones the first.
void Incomplete::truncate(int32_t i, int64_t keep) {
  Tile& tile = tile_[i];
  const int32_t m = tile_begin_[i + 1] - tile_begin_[i];
  std::vector<std::pair<double, int32_t>> size(tile.count);
  for (int32_t q = 0; q < tile.count; ++q) {
    double most = 0;
    for (int32_t r = 0; r < m; ++r) most = std::max(most, std::abs(tile.value[static_cast<int64_t>(q) * m + r]));
    size[q] = {-most, q};
  }
  std::nth_element(size.begin(), size.begin() + keep, size.end());
  std::vector<uint8_t> stays(tile.count, 0);
  for (int64_t q = 0; q < keep; ++q) stays[size[q].second] = 1;
  int32_t* const names = const_cast<int32_t*>(tile.column);
  int32_t count = 0;
  for (int32_t q = 0; q < tile.count; ++q) {
    if (!stays[q]) continue;
    names[count] = names[q];
    std::copy_n(tile.value + static_cast<int64_t>(q) * m, m, tile.value + static_cast<int64_t>(count) * m);
    ++count;
  }
  tile.count = count;
}

// L by columns in the order of elimination, and the counts. The rows in the workers' memory are not needed any more.
void Incomplete::collect(int threads) {
  std::vector<int32_t> place(n());
  for (int32_t k = 0; k < n(); ++k) place[order_[k]] = k;
  L_.ptr.assign(n() + 1, 0);
  const auto visit = [&](int32_t i, auto&& emit) {
    const int32_t begin = tile_begin_[i], m = tile_begin_[i + 1] - begin;
    const double* const L = own_.data() + square_[i];
    for (int32_t k = 0; k < m; ++k) {
      for (int32_t r = k + 1; r < m; ++r)
        if (L[r + k * m] != 0) emit(begin + k, begin + r, L[r + k * m]);
      for (int32_t q = 0; q < tile_[i].count; ++q)
        if (const double u = tile_[i].value[static_cast<int64_t>(q) * m + k]; u != 0) emit(begin + k, place[tile_[i].column[q]], u);
    }
  };
  const auto over_tiles = [&](auto&& emit) {
    for_range(threads, tiles(), 4096, [&](int64_t b, int64_t e, int) {
      for (int64_t i = b; i < e; ++i) visit(static_cast<int32_t>(i), emit);
    });
  };
  over_tiles([&](int32_t column, int32_t, double) { ++L_.ptr[column + 1]; });
  for (int32_t k = 0; k < n(); ++k) L_.ptr[k + 1] += L_.ptr[k];
  L_.idx.resize(L_.ptr.back());
  minus_.resize(L_.ptr.back());
  std::vector<int64_t> next(L_.ptr.begin(), L_.ptr.end() - 1);
  over_tiles([&](int32_t column, int32_t row, double value) {
    L_.idx[next[column]] = row;
    minus_[next[column]++] = -value;
  });
  for (int32_t i = 0; i < tiles(); ++i) statistics_.stored += int64_t{tile_begin_[i + 1] - tile_begin_[i]} * tile_[i].count;
  for (int32_t k = 0; k < n(); ++k) {
    if (e_[k] == 0) {
      ++(d_[k] > 0 ? statistics_.positive : statistics_.negative);
      continue;
    }
    const bool definite = d_[k] / e_[k] * (d_[k + 1] / e_[k]) > 1;
    statistics_.positive += definite ? 2 * (d_[k] > 0) : 1;
    statistics_.negative += definite ? 2 * (d_[k] < 0) : 1;
    ++statistics_.pairs;
    ++k;
  }
}

}  // namespace ms::ildl
