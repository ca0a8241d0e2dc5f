// Tangent directions by one walk around each vertex, then maps over triangles or vertices; see directions.hpp.
#include "directions.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "native/lanes/lanes.hpp"
#include "native/threads/parallel.hpp"

namespace ms::operators {
namespace {

constexpr double kSame = 1e-12;           // difference of two copies of a triangle that is rounding, relative to the longest side
constexpr int64_t kVertices = 1 << 10;    // per task

struct Flat {
  int32_t corner[3];
  double base, along, height;

  int32_t lowest() const { return std::min(corner[0], corner[2]); }
  auto key() const { return std::tie(corner[0], corner[1], corner[2], along); }
  bool agrees(const Flat& other) const {
    const double most = kSame * base;
    return std::equal(corner, corner + 3, other.corner) && std::abs(base - other.base) <= most && std::abs(along - other.along) <= most &&
           std::abs(height - other.height) <= most;
  }
};

// The triangle in its plane, mirrored if that puts the lower end of side 0 first. Area by Kahan's formula, which needs descending
// sides.
Flat flattened(const int32_t* corner, const double* length) {
  Flat t{{corner[0], corner[1], corner[2]}, length[0], 0, 0};
  double b = length[1], c = length[2];
  if (t.corner[0] > t.corner[1]) {
    std::swap(t.corner[0], t.corner[1]);
    std::swap(b, c);
  }
  const double a = t.base, middle = std::max(b, c), least = std::min(b, c), divisor = a > 0 ? a : 1;
  const double product = (a + (middle + least)) * (least - (a - middle)) * (least + (a - middle)) * (a + (middle - least));
  t.along = 0.5 * (a + (c - b) * ((c + b) / divisor));
  t.height = 0.5 * std::sqrt(std::max(product, 0.0)) / divisor;
  return t;
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
  if (corner) {
    out.angle.resize(3 * m);
    out.total.assign(n, 0);
  }
  out.first.assign(n, -1);
  for (int32_t side = 0; side < 3 * m; ++side) {
    int32_t& first = out.first[faces[side]];
    if (first < 0 || (other[side] < 0 && other[first] >= 0)) first = side;
    ++left[faces[side]];
    if (other[side] < 0) out.boundary.push_back(side);
  }
  for (int32_t v = 0; v < n; ++v) {
    int32_t side = out.first[v];
    while (side >= 0) {                                // counterclockwise to the next side that starts at v
      if (corner) {
        out.angle[side] = out.total[v];
        out.total[v] += corner[side];
      }
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

FlatTriangles flat_triangles(int64_t n, const int32_t* corner, const double* length, int64_t m, int copies) {
  std::vector<int64_t> begin(n + 1, 0);
  for (int64_t t = 0; t < m; ++t) ++begin[*std::min_element(corner + 3 * t, corner + 3 * t + 3) + 1];
  for (int64_t v = 0; v < n; ++v) begin[v + 1] += begin[v];
  std::vector<Flat> sorted(m);
  std::vector<int64_t> at(begin.begin(), begin.end() - 1);
  for (int64_t t = 0; t < m; ++t) {
    const Flat flat = flattened(corner + 3 * t, length + 3 * t);
    sorted[at[flat.lowest()]++] = flat;
  }
  FlatTriangles out;
  out.corner.reserve(3 * m);
  out.flat.reserve(3 * m);
  for (int64_t v = 0; v < n; ++v) {
    std::stable_sort(sorted.begin() + begin[v], sorted.begin() + begin[v + 1], [](const Flat& a, const Flat& b) { return a.key() < b.key(); });
    for (int64_t t = begin[v], next; t < begin[v + 1]; t = next) {
      const Flat& flat = sorted[t];
      for (next = t + 1; next < std::min(t + copies, begin[v + 1]) && flat.agrees(sorted[next]);) ++next;
      const double scale = 0.5 * static_cast<double>(next - t) / copies;
      out.corner.insert(out.corner.end(), flat.corner, flat.corner + 3);
      out.flat.insert(out.flat.end(), {scale * flat.base, scale * flat.along, scale * flat.height});
    }
  }
  return out;
}

void divergence_of_directions(const int32_t* corner, const double* flat, int64_t m, int64_t n, const double* u, int64_t k, double* b,
                              int threads) {
  const LaneKernels& kernels = lane_kernels();
  for_parts_of_all(threads, n, m, [&](int64_t begin, int64_t end, int64_t) {
    std::fill(b + begin * k, b + end * k, 0.0);
    const bool all = begin == 0 && end == n;
    kernels.add_fluxes(m, corner, flat, k, u, b, static_cast<int>(begin), all ? -1 : static_cast<int>(end));
  });
}

void shift_distances(const double* x, int64_t n, const int32_t* part, const double* shift, const double* points, int64_t k,
                     const double* phi, double* out, int64_t stride, int threads) {
  for_range(threads, n, kVertices, [&](int64_t begin, int64_t end, int) {
    for (int64_t v = begin; v < end; ++v)
      for (int64_t c = 0; c < k; ++c) {
        const double a = x[3 * v] - points[3 * c], b = x[3 * v + 1] - points[3 * c + 1], z = x[3 * v + 2] - points[3 * c + 2];
        out[v * stride + c] = std::max(phi[v * k + c] - shift[part[v] * k + c], std::sqrt(a * a + b * b + z * z));
      }
  });
}

}  // namespace ms::operators
