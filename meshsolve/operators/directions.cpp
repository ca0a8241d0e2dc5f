// Tangent directions by one walk around each vertex, then maps over triangles or vertices; see directions.hpp.
#include "directions.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "native/threads/parallel.hpp"
#include "sparse/sweep.hpp"

namespace ms::operators {
namespace {

constexpr double kLeast = 1e-300;         // smallest divisor: 0 / 0 becomes 0
constexpr int64_t kTriangles = 1 << 10;   // triangles or vertices per task

// (x, y) := -(x, y) / |(x, y)| for k vectors.
void normalize(double* __restrict x, double* __restrict y, int64_t k) {
  for (int64_t c = 0; c < k; ++c) {
    const double largest = std::max(std::max(std::abs(x[c]), std::abs(y[c])), kLeast), a = x[c] / largest, b = y[c] / largest;
    const double length = -std::max(std::sqrt(a * a + b * b), kLeast);
    x[c] = a / length;
    y[c] = b / length;
  }
}

int32_t last(int32_t side) { return side % 3 == 0 ? side + 2 : side - 1; }

// The other side of each side, -1 on the boundary. Returns an edge whose sides are not two in opposite directions, or -1.
int32_t pair_sides(const int32_t* faces, int64_t m, const int32_t* of_side, int64_t edges, std::vector<int32_t>& other) {
  std::vector<int32_t> seen(edges, -1);
  other.assign(3 * m, -1);
  for (int32_t side = 0; side < 3 * m; ++side) {
    int32_t& before = seen[of_side[side]];
    if (before == -1) {
      before = side;
      continue;
    }
    if (before == -2 || faces[before] == faces[side]) return of_side[side];
    other[side] = before;
    other[before] = side;
    before = -2;
  }
  return -1;
}

}  // namespace

SideDirections side_directions(int32_t n, const int32_t* faces, int64_t m, const int32_t* of_side, int64_t edges,
                               const double* corner) {
  SideDirections out;
  std::vector<int32_t> other, left(n, 0);              // left: corners at each vertex that no walk has visited
  out.bad_edge = pair_sides(faces, m, of_side, edges, other);
  if (out.bad_edge >= 0) return out;
  out.angle.resize(3 * m);
  out.total.assign(n, 0);
  out.first.assign(n, -1);
  for (int32_t side = 0; side < 3 * m; ++side) {
    int32_t& first = out.first[faces[side]];
    if (first < 0 || (other[side] < 0 && other[first] >= 0)) first = side;
    ++left[faces[side]];
  }
  for (int32_t v = 0; v < n; ++v) {
    int32_t side = out.first[v];
    while (side >= 0) {                                // counterclockwise to the next side that starts at v
      out.angle[side] = out.total[v];
      out.total[v] += corner[side];
      --left[v];
      side = other[last(side)];
      if (side == out.first[v]) break;
    }
    if (left[v] > 0) {
      out.bad_vertex = v;
      return out;
    }
  }
  return out;
}

void unit_gradients(const Pattern& G, const double* values, const double* u, int64_t k, double* out, int threads) {
  for_range(threads, G.n / 2, kTriangles, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      sparse::over_columns(k, [&](auto K, auto stride, int64_t first) {
        for (int64_t row = 2 * i; row < 2 * i + 2; ++row) {
          std::array<double, K> sum{};
          for (int64_t p = G.ptr[row]; p < G.ptr[row + 1]; ++p) {
            const double* const from = u + int64_t{G.idx[p]} * stride + first;
            for (int64_t c = 0; c < K; ++c) sum[c] += values[p] * from[c];
          }
          std::copy(sum.begin(), sum.end(), out + row * stride + first);
        }
      });
      normalize(out + 2 * i * k, out + (2 * i + 1) * k, k);
    }
  });
}

void shift_distances(const double* x, int64_t n, const int32_t* part, const double* shift, const double* points, int64_t k,
                     double* phi, int threads) {
  for_range(threads, n, kTriangles, [&](int64_t begin, int64_t end, int) {
    for (int64_t v = begin; v < end; ++v)
      for (int64_t c = 0; c < k; ++c) {
        const double a = x[3 * v] - points[3 * c], b = x[3 * v + 1] - points[3 * c + 1], z = x[3 * v + 2] - points[3 * c + 2];
        phi[v * k + c] = std::max(phi[v * k + c] - shift[part[v] * k + c], std::sqrt(a * a + b * b + z * z));
      }
  });
}

}  // namespace ms::operators
