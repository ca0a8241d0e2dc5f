// Triangulates by a fan if the fan lies inside the polygon, else by ear clipping of the polygon projected to its plane.
#include "polygons.hpp"

#include <algorithm>
#include <cmath>

#include "ears.hpp"
#include "native/threads/interrupt.hpp"

namespace ms::mesh {
namespace {

constexpr double kFlat = 1e-12;         // smallest accepted area of a triangle of a fan, relative to the polygon
constexpr double kCanceled = 1e-6;     // smallest usable Newell normal, relative to the sum of the triangle areas

struct Vector {
  double x, y, z;
};

Vector operator-(const Vector& a, const Vector& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
Vector operator+(const Vector& a, const Vector& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
Vector operator*(const Vector& a, double s) { return {a.x * s, a.y * s, a.z * s}; }
Vector cross(const Vector& a, const Vector& b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
double dot(const Vector& a, const Vector& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
double extent(const Vector& a) { return std::abs(a.x) + std::abs(a.y) + std::abs(a.z); }

class Polygon {
 public:
  Polygon(const double* vertices, const int32_t* corners, int32_t k) : vertices_(vertices), corners_(corners), k_(k) {}

  // True if the triangles around corner 0 have the orientation of the polygon and span less than half a turn.
  bool is_fan() const {
    if (k_ == 4) return is_fan_of_two();
    const Vector normal = newell();
    const double enough = kFlat * dot(normal, normal);
    const Vector first = from_first(1);
    Vector before = first;
    for (int32_t i = 2; i < k_; ++i) {
      const Vector d = from_first(i);
      if (!(dot(cross(before, d), normal) > enough && dot(cross(first, d), normal) > enough)) return false;
      before = d;
    }
    return true;
  }

  // The corners projected to the plane of the polygon, counterclockwise, within a square of side 1. Empty if the corners are
  // collinear or not finite.
  std::vector<Point> flattened() const {
    double size = 0;
    for (int32_t i = 1; i < k_; ++i) {
      const double far = extent(from_first(i));
      if (!std::isfinite(far)) return {};
      size = std::max(size, far);
    }
    const double scale = 1 / (4 * size);
    if (!std::isfinite(scale)) return {};
    Vector normal = direction(scale);
    const double norm = std::sqrt(dot(normal, normal));
    if (!(norm > 0)) return {};
    normal = normal * (1 / norm);
    const Vector axis = std::abs(normal.x) < 0.6 ? Vector{1, 0, 0} : Vector{0, 1, 0};
    Vector u = cross(axis, normal);
    u = u * (1 / std::sqrt(dot(u, u)));
    const Vector v = cross(normal, u);
    std::vector<Point> out;
    for (int32_t i = 0; i < k_; ++i) {
      const Vector d = from_first(i) * scale;
      out.push_back({dot(d, u), dot(d, v)});
    }
    return out;
  }

 private:
  // is_fan() for a quadrilateral, with each cross product computed once.
  bool is_fan_of_two() const {
    const Vector a = from_first(1), b = from_first(2), c = from_first(3);
    const Vector ab = cross(a, b), bc = cross(b, c), normal = ab + bc;
    const double enough = kFlat * dot(normal, normal);
    return dot(ab, normal) > enough && dot(bc, normal) > enough && dot(cross(a, c), normal) > enough;
  }

  const double* vertices_;
  const int32_t* corners_;
  int32_t k_;

  Vector corner(int32_t i) const {
    const double* const p = vertices_ + 3 * int64_t{corners_[i]};
    return {p[0], p[1], p[2]};
  }
  Vector from_first(int32_t i) const { return corner(i) - corner(0); }

  // Twice the area vector of the polygon: the sum over the triangles around corner 0.
  Vector newell() const {
    Vector sum{0, 0, 0}, before = from_first(1);
    for (int32_t i = 2; i < k_; ++i) {
      const Vector d = from_first(i);
      sum = sum + cross(before, d);
      before = d;
    }
    return sum;
  }

  // A normal of the scaled polygon: Newell's, or the normal of the largest triangle around corner 0 if opposite areas cancel.
  Vector direction(double scale) const {
    Vector sum{0, 0, 0}, most{0, 0, 0};
    double total = 0;
    for (int32_t i = 2; i < k_; ++i) {
      const Vector area = cross(from_first(i - 1) * scale, from_first(i) * scale);
      sum = sum + area;
      total += std::sqrt(dot(area, area));
      if (dot(area, area) > dot(most, most)) most = area;
    }
    return std::sqrt(dot(sum, sum)) > kCanceled * total ? sum : most;
  }
};

int32_t* put_fan(const int32_t* corners, int32_t k, int32_t* to) {
  for (int32_t i = 2; i < k; ++i) *to++ = corners[0], *to++ = corners[i - 1], *to++ = corners[i];
  return to;
}

}  // namespace

Triangles triangulate(const double* vertices, const int32_t* corners, const int32_t* counts, int64_t polygons) {
  Triangles out;
  int64_t total = 0;
  for (int64_t i = 0; i < polygons; ++i) total += counts[i] - 2;
  out.faces.resize(static_cast<size_t>(3 * total));
  int32_t* to = out.faces.data();
  std::vector<int32_t> ears;
  for (int64_t i = 0; i < polygons; corners += counts[i++]) {
    if (i % 4096 == 0) interrupt::poll();
    const Polygon polygon(vertices, corners, counts[i]);
    const bool fan = counts[i] == 3 || polygon.is_fan();
    const std::vector<Point> flat = fan ? std::vector<Point>() : polygon.flattened();
    if (flat.empty()) {                       // a fan, or collinear corners
      to = put_fan(corners, counts[i], to);
      continue;
    }
    ears.clear();
    if (!clip_ears(flat, ears)) ++out.crossing;
    for (const int32_t k : ears) *to++ = corners[k];
  }
  return out;
}

}  // namespace ms::mesh
