// Blocks of points are processed by any thread and joined in order: bits do not depend on the number of threads.
#include "stars.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "native/threads/parallel.hpp"

namespace ms::mesh {
namespace {

constexpr int64_t kPoints = 1 << 9;       // per task
constexpr int kPlaneSweeps = 10;          // of Jacobi's method for 3 x 3; 4 or 5 are usual
constexpr double kOnLine = 1e-12;         // middle eigenvalue of a covariance, relative to the largest, of points on a line
constexpr double kTie = 1e-9;             // largest weight of a point, relative to the squared distance to its nearest neighbor
constexpr double kFlatAngle = 1e-8;       // sine of the angle of a triangle at the center of its star that is 0 or 180 degrees

using Step = std::array<double, 3>;

Step between(const double* x, int64_t from, int64_t to) {
  return {x[3 * to] - x[3 * from], x[3 * to + 1] - x[3 * from + 1], x[3 * to + 2] - x[3 * from + 2]};
}

double dot(const double* a, const double* b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

// The eigenvector of the smallest eigenvalue of a symmetric positive semidefinite matrix, by cyclic Jacobi. False if two are 0.
bool least_eigenvector(double A[3][3], double* out) {
  double V[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  const double scale = A[0][0] + A[1][1] + A[2][2];
  for (int sweep = 0; sweep < kPlaneSweeps; ++sweep) {
    bool rotated = false;
    for (int i = 0; i < 2; ++i)
      for (int j = i + 1; j < 3; ++j) {
        if (!(std::abs(A[i][j]) > 1e-17 * scale)) continue;
        rotated = true;
        const double theta = 0.5 * (A[j][j] - A[i][i]) / A[i][j];
        const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::hypot(theta, 1.0));
        const double c = 1 / std::hypot(t, 1.0), s = t * c;
        for (int k = 0; k < 3; ++k) {
          const double a = A[k][i], b = A[k][j];
          A[k][i] = c * a - s * b, A[k][j] = s * a + c * b;
        }
        for (int k = 0; k < 3; ++k) {
          const double a = A[i][k], b = A[j][k], u = V[k][i], v = V[k][j];
          A[i][k] = c * a - s * b, A[j][k] = s * a + c * b;
          V[k][i] = c * u - s * v, V[k][j] = s * u + c * v;
        }
      }
    if (!rotated) break;
  }
  int order[3] = {0, 1, 2};
  std::sort(order, order + 3, [&](int a, int b) { return A[a][a] < A[b][b]; });
  for (int k = 0; k < 3; ++k) out[k] = V[k][order[0]];
  return A[order[1]][order[1]] > kOnLine * A[order[2]][order[2]];
}

// Two orthonormal tangents of a unit normal.
void tangents_of(const double* normal, double* right, double* up) {
  int axis = 0;
  for (int k = 1; k < 3; ++k) axis = std::abs(normal[k]) < std::abs(normal[axis]) ? k : axis;
  for (int k = 0; k < 3; ++k) right[k] = (k == axis) - normal[axis] * normal[k];
  const double length = std::sqrt(dot(right, right));
  for (int k = 0; k < 3; ++k) right[k] /= length;
  for (int k = 0; k < 3; ++k) up[k] = normal[(k + 1) % 3] * right[(k + 2) % 3] - normal[(k + 2) % 3] * right[(k + 1) % 3];
}

// A number in [0, 1) for point i (splitmix64).
double fraction_of(int64_t i) {
  uint64_t z = static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

struct Dual {
  double x, y;
  int32_t point;                          // -1 for the center
};

double turn_of(const Dual& a, const Dual& b, const Dual& c) { return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x); }

// The convex hull, counterclockwise, by Andrew's monotone chain. Sorts `dual`.
void convex_hull(std::vector<Dual>& dual, std::vector<Dual>& hull) {
  std::sort(dual.begin(), dual.end(), [](const Dual& a, const Dual& b) { return a.x < b.x || (a.x == b.x && a.y < b.y); });
  hull.clear();
  const int64_t count = static_cast<int64_t>(dual.size());
  for (int side = 0; side < 2; ++side) {
    const size_t floor = hull.size() + 1;
    for (int64_t k = 0; k < count; ++k) {
      const Dual& next = dual[side ? count - 1 - k : k];
      while (hull.size() > floor && !(turn_of(hull[hull.size() - 2], hull.back(), next) > 0)) hull.pop_back();
      hull.push_back(next);
    }
    hull.pop_back();                      // the first point of the other side
  }
}

class StarBuilder {
 public:
  StarBuilder(const double* x, int64_t n, const int32_t* neighbors, int64_t k, const double* normals, int threads)
      : x_(x), neighbors_(neighbors), normals_(normals), k_(k), weight_(n) {
    for_range(threads, n, kPoints, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) weight_[i] = kTie * fraction_of(i) * nearest_square(i);
    });
  }

  // Appends the star of point i, corners in ascending order.
  void append_star(int64_t i, std::vector<Dual>& dual, std::vector<Dual>& hull, std::vector<int32_t>& triangles) const {
    const double* normal = normals_ + 3 * i;
    if (!(dot(normal, normal) > 0.5)) return;
    double right[3], up[3];
    tangents_of(normal, right, up);
    dual.assign(1, {0, 0, -1});
    const double unit = std::sqrt(nearest_square(i));             // keeps products of the dual points in range
    for (int64_t c = 0; c < k_; ++c) {
      const int32_t a = neighbors_[i * k_ + c];
      const Step d = between(x_, i, a);
      const double s = dot(d.data(), d.data()) + weight_[i] - weight_[a];
      if (s > 0) dual.push_back({unit * (dot(d.data(), right) / s), unit * (dot(d.data(), up) / s), a});
    }
    convex_hull(dual, hull);
    for (size_t k = 0; k < hull.size(); ++k) {
      const Dual &a = hull[k], &b = hull[k + 1 < hull.size() ? k + 1 : 0];
      if (a.point < 0 || b.point < 0) continue;
      if (!(a.x * b.y - a.y * b.x > kFlatAngle * std::hypot(a.x, a.y) * std::hypot(b.x, b.y))) continue;
      std::array<int32_t, 3> corners{static_cast<int32_t>(i), a.point, b.point};
      std::sort(corners.begin(), corners.end());
      triangles.insert(triangles.end(), corners.begin(), corners.end());
    }
  }

 private:
  const double* x_;
  const int32_t* neighbors_;
  const double* normals_;
  int64_t k_;
  std::vector<double> weight_;            // (n)

  double nearest_square(int64_t i) const {
    double least = 0;
    for (int64_t c = 0; c < k_; ++c) {
      const Step d = between(x_, i, neighbors_[i * k_ + c]);
      const double square = dot(d.data(), d.data());
      least = c == 0 ? square : std::min(least, square);
    }
    return least;
  }
};

// True if triangles [begin, end) contain the triangle t.
bool contains(const int32_t* triangles, int64_t begin, int64_t end, const int32_t* t) {
  for (int64_t s = begin; s < end; ++s)
    if (std::equal(t, t + 3, triangles + 3 * s)) return true;
  return false;
}

}  // namespace

void plane_normals(const double* x, int64_t n, const int32_t* neighbors, int64_t k, double* normals, int threads) {
  for_range(threads, n, kPoints, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      Step mean{};
      for (int64_t c = 0; c < k; ++c) {
        const Step d = between(x, i, neighbors[i * k + c]);
        for (int r = 0; r < 3; ++r) mean[r] += d[r] / static_cast<double>(k + 1);
      }
      double A[3][3];
      for (int r = 0; r < 3; ++r)
        for (int s = 0; s < 3; ++s) A[r][s] = mean[r] * mean[s];  // of the point itself, at 0
      for (int64_t c = 0; c < k; ++c) {
        const Step d = between(x, i, neighbors[i * k + c]);
        for (int r = 0; r < 3; ++r)
          for (int s = 0; s < 3; ++s) A[r][s] += (d[r] - mean[r]) * (d[s] - mean[s]);
      }
      if (!least_eigenvector(A, normals + 3 * i)) std::fill(normals + 3 * i, normals + 3 * i + 3, 0.0);
    }
  });
}

Stars delaunay_stars(const double* x, int64_t n, const int32_t* neighbors, int64_t k, const double* normals, int threads) {
  const StarBuilder builder(x, n, neighbors, k, normals, threads);
  const int64_t blocks = (n + kPoints - 1) / kPoints;
  std::vector<std::vector<int32_t>> parts(blocks);
  std::vector<int64_t> ptr(n + 1, 0);                             // triangles of each star
  for_range(threads, blocks, 1, [&](int64_t first, int64_t last, int) {
    std::vector<Dual> dual, hull;
    for (int64_t b = first; b < last; ++b)
      for (int64_t i = b * kPoints; i < std::min(n, (b + 1) * kPoints); ++i) {
        const size_t before = parts[b].size();
        builder.append_star(i, dual, hull, parts[b]);
        ptr[i + 1] = static_cast<int64_t>(parts[b].size() - before) / 3;
      }
  });
  for (int64_t i = 0; i < n; ++i) ptr[i + 1] += ptr[i];
  Stars out;
  out.triangles.reserve(3 * ptr[n]);
  for (const auto& part : parts) out.triangles.insert(out.triangles.end(), part.begin(), part.end());
  out.round.resize(ptr[n]);
  for_range(threads, n, kPoints, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t t = ptr[i]; t < ptr[i + 1]; ++t) {
        const int32_t* corner = out.triangles.data() + 3 * t;
        int32_t& round = out.round[t] = 0;
        for (int c = 0; corner[c] < i; ++c) round += contains(out.triangles.data(), ptr[corner[c]], ptr[corner[c] + 1], corner);
      }
  });
  return out;
}

}  // namespace ms::mesh
