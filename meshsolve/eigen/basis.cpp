#include "basis.hpp"

#include <algorithm>
#include <vector>

#include "native/dense/tall.hpp"
#include "native/threads/parallel.hpp"

namespace ms::eigen {
namespace {

constexpr int64_t width = tall_width, square = width * width;
constexpr int64_t rows_per_range = 1024;            // of W or Z: 64 KiB, which stay in the second cache while the blocks pass
constexpr int64_t rows_rotated = 128;               // of all blocks of a basis, which must stay there together

}  // namespace

void project(int64_t n, const double* Q, int64_t first, int64_t last, const double* W, double* H, int threads) {
  const auto& kernels = tall_kernels();
  const int64_t ranges = (n + rows_per_range - 1) / rows_per_range, values = (last - first) * square;
  std::vector<double> sums(ranges * values);
  for_range(threads, ranges, 1, [&](int64_t from, int64_t to, int) {
    for (int64_t r = from; r < to; ++r) {
      const int64_t row = r * rows_per_range, rows = std::min(rows_per_range, n - row);
      for (int64_t b = first; b < last; ++b)
        kernels.project(rows, Q + (b * n + row) * width, W + row * width, sums.data() + r * values + (b - first) * square);
    }
  });
  std::fill_n(H, values, 0.0);
  for (int64_t r = 0; r < ranges; ++r)
    for (int64_t i = 0; i < values; ++i) H[i] += sums[r * values + i];
}

void subtract(int64_t n, const double* Q, int64_t first, int64_t last, const double* H, double* Z, int threads) {
  const auto& kernels = tall_kernels();
  std::vector<double> negative((last - first) * square);
  std::transform(H, H + negative.size(), negative.begin(), [](double h) { return -h; });
  for_range(threads, (n + rows_per_range - 1) / rows_per_range, 1, [&](int64_t from, int64_t to, int) {
    for (int64_t row = from * rows_per_range; row < std::min(n, to * rows_per_range); row += rows_per_range)
      for (int64_t b = first; b < last; ++b)
        kernels.add(std::min(rows_per_range, n - row), Q + (b * n + row) * width, negative.data() + (b - first) * square, Z + row * width);
  });
}

void rotate(int64_t n, double* Q, int64_t from, int64_t to, const double* Y, int threads) {
  const auto& kernels = tall_kernels();
  std::vector<double> squares(from * to * square);                     // 8 x 8 blocks of Y, those of one block of the result together
  for (int64_t i = 0; i < from * width; ++i)
    for (int64_t j = 0; j < to * width; ++j)
      squares[(j / width * from + i / width) * square + i % width * width + j % width] = Y[i * to * width + j];
  for_range(threads, (n + rows_rotated - 1) / rows_rotated, 1, [&](int64_t begin, int64_t end, int) {
    std::vector<double> rotated(to * rows_rotated * width);
    for (int64_t row = begin * rows_rotated; row < std::min(n, end * rows_rotated); row += rows_rotated) {
      const int64_t rows = std::min(rows_rotated, n - row);
      std::fill(rotated.begin(), rotated.end(), 0.0);
      for (int64_t c = 0; c < to; ++c)
        for (int64_t b = 0; b < from; ++b)
          kernels.add(rows, Q + (b * n + row) * width, squares.data() + (c * from + b) * square, rotated.data() + c * rows_rotated * width);
      for (int64_t c = 0; c < to; ++c)
        std::copy_n(rotated.data() + c * rows_rotated * width, rows * width, Q + (c * n + row) * width);
    }
  });
}

}  // namespace ms::eigen
