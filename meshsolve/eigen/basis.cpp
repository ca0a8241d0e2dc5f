#include "basis.hpp"

#include <algorithm>
#include <vector>

#include "native/dense/tall.hpp"
#include "native/threads/parallel.hpp"

namespace ms::eigen {
namespace {

constexpr int64_t width = tall_width, square = width * width;
constexpr int64_t rows_per_range = 1024;            // of W, whose products are one summand
constexpr int64_t rows_at_once = 64;                // of all blocks of W or Z: they stay in the first cache while those of Q pass
constexpr int64_t rows_rotated = 128;               // of all blocks of a basis, which stay in the second cache

// Calls visit(rows, block, rows of the block, rows to prefetch) for rows begin <= row < end of the blocks first <= b < last.
template <class Visit>
void each_chunk(int64_t n, const double* Q, int64_t first, int64_t last, int64_t begin, int64_t end, Visit visit) {
  for (int64_t row = begin; row < end; row += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, end - row);
    for (int64_t b = first; b < last; ++b) {
      const double* const chunk = Q + (b * n + row) * width;
      const bool has_next = row + 2 * rows_at_once <= end;
      visit(row, rows, b - first, chunk, b + 1 < last ? chunk + n * width : has_next ? Q + (first * n + row + rows) * width : chunk);
    }
  }
}

// The 8 x 8 blocks of Y (8 from x k, by rows), those of one block of the result together; zero behind column k.
std::vector<double> squares_of(const double* Y, int64_t from, int64_t k) {
  std::vector<double> squares(from * ((k + width - 1) / width) * square);
  for (int64_t i = 0; i < from * width; ++i)
    for (int64_t j = 0; j < k; ++j)
      squares[(j / width * from + i / width) * square + i % width * width + j % width] = Y[i * k + j];
  return squares;
}

// Calls store(first row, rows, block, (rows x 8) values) for all blocks of [Q_0 .. Q_from-1] Y, where Y has k columns.
template <class Store>
void each_product(int64_t n, const double* Q, int64_t from, const double* Y, int64_t k, int threads, Store store) {
  const auto& kernels = tall_kernels();
  const int64_t to = (k + width - 1) / width;
  const std::vector<double> squares = squares_of(Y, from, k);
  for_range(threads, (n + rows_rotated - 1) / rows_rotated, 1, [&](int64_t begin, int64_t end, int) {
    std::vector<double> products(to * rows_rotated * width);
    for (int64_t row = begin * rows_rotated; row < std::min(n, end * rows_rotated); row += rows_rotated) {
      const int64_t rows = std::min(rows_rotated, n - row);
      std::fill(products.begin(), products.end(), 0.0);
      for (int64_t c = 0; c < to; ++c)
        for (int64_t b = 0; b < from; ++b) {
          const double* const chunk = Q + (b * n + row) * width;
          kernels.add(rows, chunk, squares.data() + (c * from + b) * square, products.data() + c * rows_rotated * width,
                      b + 1 < from ? chunk + n * width : chunk);
        }
      for (int64_t c = 0; c < to; ++c) store(row, rows, c, products.data() + c * rows_rotated * width);
    }
  });
}

}  // namespace

void project(int64_t n, const double* Q, int64_t first, int64_t last, const double* W, int64_t count, double* H, int threads) {
  const auto& kernels = tall_kernels();
  const int64_t ranges = (n + rows_per_range - 1) / rows_per_range, blocks = last - first, values = count * blocks * square;
  std::vector<double> sums(ranges * values);
  for_range(threads, ranges, 1, [&](int64_t from, int64_t to, int) {
    for (int64_t r = from; r < to; ++r) {
      double* const sum = sums.data() + r * values;
      each_chunk(n, Q, first, last, r * rows_per_range, std::min(n, (r + 1) * rows_per_range),
                 [&](int64_t row, int64_t rows, int64_t b, const double* chunk, const double* ahead) {
                   for (int64_t c = 0; c < count; ++c)
                     kernels.project(rows, chunk, W + (c * n + row) * width, sum + (c * blocks + b) * square, c == 0 ? ahead : chunk);
                 });
    }
  });
  std::fill_n(H, values, 0.0);
  for (int64_t r = 0; r < ranges; ++r)
    for (int64_t i = 0; i < values; ++i) H[i] += sums[r * values + i];
}

void subtract(int64_t n, const double* Q, int64_t first, int64_t last, const double* H, int64_t count, double* Z, int threads) {
  const auto& kernels = tall_kernels();
  const int64_t blocks = last - first;
  std::vector<double> negative(count * blocks * square);
  std::transform(H, H + negative.size(), negative.begin(), [](double h) { return -h; });
  for_range(threads, (n + rows_at_once - 1) / rows_at_once, 16, [&](int64_t from, int64_t to, int) {
    each_chunk(n, Q, first, last, from * rows_at_once, std::min(n, to * rows_at_once),
               [&](int64_t row, int64_t rows, int64_t b, const double* chunk, const double* ahead) {
                 for (int64_t c = 0; c < count; ++c)
                   kernels.add(rows, chunk, negative.data() + (c * blocks + b) * square, Z + (c * n + row) * width, c == 0 ? ahead : chunk);
               });
  });
}

void rotate(int64_t n, double* Q, int64_t from, int64_t to, const double* Y, int threads) {
  each_product(n, Q, from, Y, to * width, threads, [&](int64_t row, int64_t rows, int64_t c, const double* product) {
    std::copy_n(product, rows * width, Q + (c * n + row) * width);
  });
}

void combine(int64_t n, const double* Q, int64_t from, const double* Y, int64_t k, const double* scale, double* X, int threads) {
  each_product(n, Q, from, Y, k, threads, [&](int64_t row, int64_t rows, int64_t c, const double* product) {
    const auto store = [&](auto columns) {
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) X[(row + i) * k + c * width + j] = scale[row + i] * product[i * width + j];
    };
    if (k - c * width >= width)
      store(std::integral_constant<int64_t, width>());
    else
      store(k - c * width);
  });
}

}  // namespace ms::eigen
