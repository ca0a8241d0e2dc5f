// Numeric phase of the incomplete factorization. A block row gathers the contributions of the rows above it, in ascending order,
// into a dense marker of its columns. Its diagonal tile is factored with pivoting. Then U = D^-1 L^-1 P A, and small entries are
// dropped. The pivot order P of a tile is applied when its own row is finished. The columns of tiles above are not permuted
// again. Block rows of one depth are independent and run in parallel. Source: Thuerck et al. 2018, algorithm 1; in its formula
// U_ij = (P U_ij) U_ii^-1 D_ii^-1 the factors are transposed.
#include "incomplete.hpp"

#include <algorithm>
#include <cmath>

#include "native/memory/buffer.hpp"
#include "factor/ildl/levels.hpp"
#include "native/threads/parallel.hpp"
#include "sparse/rearrange.hpp"

namespace ms::ildl {
namespace {

constexpr int32_t look = 64;              // tiles between two polls for Ctrl-C

struct Tile {                             // one finished block row
  int32_t count = 0;                      // columns beyond the tile
  int32_t* column = nullptr;              // (count) ascending
  double* value = nullptr;                // (rows x count) U = L^T by columns, rows in the order of elimination
};

struct alignas(cache_line) Worker {
  std::vector<int32_t> position;          // (n) position of a column in `columns`, or -1
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

// One factorization. Its memory becomes that of the factor only at the end, so an error leaves an earlier factor unchanged.
class Incomplete::Numeric {
 public:
  Numeric(const Incomplete& plan, const Pattern& A, const double* values, const Rule& rule, int threads)
      : tile_begin_(plan.tile_begin_), tile_of_(plan.tile_of_), pattern_(plan.pattern_), square_(plan.square_),
        A_(A), values_(values), rule_(rule), workers_(threads), tile_(plan.tiles()), own_(square_.back()) {
    out_.order.resize(A.n);
    out_.d.resize(A.n);
    out_.e.resize(A.n);
  }
  IncompleteFactor run();

 private:
  int32_t n() const { return A_.n; }
  int32_t tiles() const { return static_cast<int32_t>(tile_.size()); }
  int threads() const { return static_cast<int>(workers_.size()); }
  void row(int32_t i, Worker& worker);
  void finish(int32_t i, Worker& worker);
  void share(int32_t from, int32_t to, int64_t& spare);
  void truncate(int32_t i, int64_t keep);
  void collect();
  void count();

  const std::vector<int32_t>&tile_begin_, &tile_of_;
  const LevelPattern& pattern_;
  const std::vector<int64_t>& square_;
  const Pattern& A_;
  const double* const values_;
  const Rule& rule_;
  std::vector<Worker> workers_;
  std::vector<Tile> tile_;                // their arrays are in the memory of the workers
  std::vector<double> own_;               // unit lower triangles of the diagonal tiles, by columns
  IncompleteFactor out_;
};

Incomplete::Incomplete(std::vector<int32_t> tile_begin, const Pattern& A, int64_t level)
    : tile_begin_(std::move(tile_begin)), tile_of_(A.n), square_(tiles() + 1, 0) {
  for (int32_t i = 0; i < tiles(); ++i) {
    const int64_t rows = tile_begin_[i + 1] - tile_begin_[i];
    std::fill(tile_of_.begin() + tile_begin_[i], tile_of_.begin() + tile_begin_[i + 1], i);
    square_[i + 1] = square_[i] + rows * rows;
  }
  pattern_ = level_pattern(A, tile_begin_, tile_of_, level);
}

IncompleteFactor Incomplete::factor(const Pattern& A, const double* values, const Rule& rule, int threads) const {
  return Numeric(*this, A, values, rule, threads).run();
}

IncompleteFactor Incomplete::Numeric::run() {
  int64_t spare = 0;
  interrupt::begin(tiles());
  const std::vector<int32_t>& depth = pattern_.depth_ptr;
  const auto rows = [&](int32_t from, int32_t to, int id) {
    Worker& worker = workers_[id];
    worker.position.resize(n(), -1);
    worker.allowed.resize(tiles(), -1);
    for (int32_t t = from; t < to; ++t) {
      if ((t - from) % look == 0) interrupt::poll();
      row(pattern_.order[t], worker);
    }
  };
  for_levels(threads(), depth, rows, [&](int32_t l) {
    share(depth[l], depth[l + 1], spare);
    interrupt::advance(depth[l + 1] - depth[l]);
  });
  collect();
  count();
  return std::move(out_);
}

// One block row: gathers entries of A, subtracts the updates of rows above, chooses pivots, drops small entries.
void Incomplete::Numeric::row(int32_t i, Worker& worker) {
  const int32_t begin = tile_begin_[i], end = tile_begin_[i + 1], m = end - begin;
  for (int64_t p = pattern_.ptr[i]; p < pattern_.ptr[i + 1]; ++p) worker.allowed[pattern_.column[p]] = i;
  worker.columns.clear();
  worker.panel.clear();
  std::fill(worker.tile, worker.tile + m * m, 0.0);
  const auto column_at = [&](int32_t c) -> double* {
    int32_t& at = worker.position[c];
    if (at < 0) {
      at = static_cast<int32_t>(worker.columns.size());
      worker.columns.push_back(c);
      worker.panel.resize(worker.panel.size() + m, 0.0);
    }
    return worker.panel.data() + static_cast<int64_t>(at) * m;
  };
  for (int32_t r = begin; r < end; ++r)
    for (int64_t p = A_.ptr[r]; p < A_.ptr[r + 1]; ++p) {
      const int32_t c = A_.idx[p];
      if (c >= end)
        column_at(c)[r - begin] += values_[p];
      else if (c >= begin)
        worker.tile[r - begin + (c - begin) * m] += values_[p];
    }
  double w[largest_tile];
  for (int64_t q = pattern_.above_ptr[i]; q < pattern_.above_ptr[i + 1]; ++q) {
    const int32_t k = pattern_.above[q];
    const Tile& above = tile_[k];
    const int32_t* const stop = above.column + above.count;
    const int32_t* const from = std::lower_bound<const int32_t*>(above.column, stop, begin);
    const int rows = tile_begin_[k + 1] - tile_begin_[k];
    for (const int32_t* c = from; c < stop && *c < end; ++c) {
      const int32_t r = *c - begin;
      multiply(rows, out_.d.data() + tile_begin_[k], out_.e.data() + tile_begin_[k], above.value + (c - above.column) * rows, w);
      for (const int32_t* t = from; t < stop; ++t) {
        if (*t >= end && worker.allowed[tile_of_[*t]] != i) continue;
        const double* const x = above.value + (t - above.column) * rows;
        double sum = 0;
        for (int l = 0; l < rows; ++l) sum += w[l] * x[l];
        (*t < end ? worker.tile[r + (*t - begin) * m] : column_at(*t)[r]) -= sum;
      }
    }
  }
  finish(i, worker);
}

// Chooses the pivots of the tile, computes U of the row and its norms, and stores the entries that are kept.
void Incomplete::Numeric::finish(int32_t i, Worker& worker) {
  const int32_t begin = tile_begin_[i], m = tile_begin_[i + 1] - begin;
  double *const L = own_.data() + square_[i], *const d = out_.d.data() + begin, *const e = out_.e.data() + begin;
  double* const norm = worker.norm;
  worker.statistics.perturbed += factor_tile(m, worker.tile, L, d, e, worker.order, rule_.pivoting);
  for (int32_t k = 0; k < m; ++k) out_.order[begin + k] = begin + worker.order[k];
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
    norm[r] = rule_.droptol * std::sqrt(norm[r]);
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

// Memory budgets, in the order of the tiles: a row above its budget uses the unused budgets of earlier rows, and loses
// its smallest columns beyond that.
void Incomplete::Numeric::share(int32_t from, int32_t to, int64_t& spare) {
  if (!std::isfinite(rule_.max_fill)) return;
  for (int32_t t = from; t < to; ++t) {
    const int32_t i = pattern_.order[t], begin = tile_begin_[i], end = tile_begin_[i + 1];
    const int64_t budget = budget_of(rule_.max_fill, A_.ptr[end] - A_.ptr[begin]), over = tile_[i].count - budget;
    if (over > spare) truncate(i, budget + spare);
    spare = std::max<int64_t>(0, spare - over);
  }
}

// Keeps the columns with the largest entries; of columns with equal entries the first ones.
void Incomplete::Numeric::truncate(int32_t i, int64_t keep) {
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
  int32_t* const names = tile.column;
  int32_t count = 0;
  for (int32_t q = 0; q < tile.count; ++q) {
    if (!stays[q]) continue;
    names[count] = names[q];
    std::copy_n(tile.value + static_cast<int64_t>(q) * m, m, tile.value + static_cast<int64_t>(count) * m);
    ++count;
  }
  tile.count = count;
}

// L by columns in the order of elimination.
void Incomplete::Numeric::collect() {
  std::vector<int32_t> position(n());
  for (int32_t k = 0; k < n(); ++k) position[out_.order[k]] = k;
  OwnedPattern& L = out_.columns;
  std::vector<double>& minus = out_.minus_values;
  L.ptr.assign(n() + 1, 0);
  const auto visit = [&](int32_t i, auto&& emit) {
    const int32_t begin = tile_begin_[i], m = tile_begin_[i + 1] - begin;
    const double* const own = own_.data() + square_[i];
    for (int32_t k = 0; k < m; ++k) {
      for (int32_t r = k + 1; r < m; ++r)
        if (own[r + k * m] != 0) emit(begin + k, begin + r, own[r + k * m]);
      for (int32_t q = 0; q < tile_[i].count; ++q)
        if (const double u = tile_[i].value[static_cast<int64_t>(q) * m + k]; u != 0) emit(begin + k, position[tile_[i].column[q]], u);
    }
  };
  const auto over_tiles = [&](auto&& emit) {
    for_range(threads(), tiles(), 4096, [&](int64_t b, int64_t e, int) {
      for (int64_t i = b; i < e; ++i) visit(static_cast<int32_t>(i), emit);
    });
  };
  over_tiles([&](int32_t column, int32_t, double) { ++L.ptr[column + 1]; });
  std::vector<int64_t> next = cumsum_with_cursors(L.ptr);
  L.idx.resize(L.ptr.back());
  minus.resize(L.ptr.back());
  over_tiles([&](int32_t column, int32_t row, double value) {
    L.idx[next[column]] = row;
    minus[next[column]++] = -value;
  });
}

void Incomplete::Numeric::count() {
  Statistics& sum = out_.statistics;
  for (const Worker& worker : workers_) {
    sum.perturbed += worker.statistics.perturbed;
    sum.dropped += worker.statistics.dropped;
  }
  const std::vector<double>&d = out_.d, &e = out_.e;
  for (int32_t i = 0; i < tiles(); ++i) sum.stored += int64_t{tile_begin_[i + 1] - tile_begin_[i]} * tile_[i].count;
  for (int32_t k = 0; k < n(); ++k) {
    if (e[k] == 0) {
      ++(d[k] > 0 ? sum.positive : sum.negative);
      continue;
    }
    const bool definite = d[k] / e[k] * (d[k + 1] / e[k]) > 1;
    sum.positive += definite ? 2 * (d[k] > 0) : 1;
    sum.negative += definite ? 2 * (d[k] < 0) : 1;
    ++sum.pairs;
    ++k;
  }
}

}  // namespace ms::ildl
