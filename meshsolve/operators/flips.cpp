// Side c of triangle t has number 3 t + c. A flip moves sides between two triangles and keeps all edge numbers.
// Edges are processed in a queue, not on a stack: if rounding makes a few edges flip endlessly, all others are still processed.
#include "flips.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "native/threads/interrupt.hpp"

namespace ms::operators {
namespace {

constexpr double kTolerance = 1e-12;      // rounding error of a sum of cotangents, relative to 1 and their absolute values

class Triangulation {
 public:
  Triangulation(const int32_t* faces, const int32_t* of_side, int64_t m, std::vector<double> length, std::vector<double> angle,
                double flattest)
      : corner_(faces, faces + 3 * m), edge_(of_side, of_side + 3 * m), length_(std::move(length)), angle_(std::move(angle)),
        sides_(2 * length_.size(), -1), alike_(length_.size(), 0), flattest_(flattest) {
    for (int32_t side = 0; side < 3 * m; ++side) {
      int32_t* pair = sides_.data() + 2 * int64_t{edge_[side]};
      pair[pair[0] >= 0] = side;
      if (pair[1] >= 0) alike_[edge_[side]] = corner_[pair[0]] == corner_[pair[1]];
    }
  }

  int32_t edges() const { return static_cast<int32_t>(length_.size()); }

  // Flips an interior edge that is not Delaunay if the flip improves it. Then `around` has the four edges around it.
  bool improve(int32_t e, int32_t around[4]) {
    const int32_t s = sides_[2 * int64_t{e}], r = sides_[2 * int64_t{e} + 1];
    if (r < 0 || s / 3 == r / 3) return false;               // boundary, or twice the same triangle (isosceles, so Delaunay)
    const double p = cotangent(s), q = cotangent(r);
    if (!(p + q < -kTolerance * (1 + std::abs(p) + std::abs(q)))) return false;
    if (alike_[e]) reverse(r / 3);
    return flip(e, p + q, around);
  }

  double cotangent(int32_t side) const {
    return cotangent(length_[edge_[side]], length_[edge_[next(side)]], length_[edge_[last(side)]]);
  }

  double length(int32_t side) const { return length_[edge_[side]]; }

  void move_to(Flipped& out) {
    out.corners = std::move(corner_);
    out.edge = std::move(edge_);
    out.angle = std::move(angle_);
  }

 private:
  std::vector<int32_t> corner_;       // (3 m) first vertex of each side
  std::vector<int32_t> edge_;         // (3 m) edge of each side
  std::vector<double> length_;        // (edges) edge lengths
  std::vector<double> angle_;         // (3 m) direction of each side at its first corner, or empty
  std::vector<int32_t> sides_;        // (2 edges) sides of each edge; the second one of a boundary edge is -1
  std::vector<uint8_t> alike_;        // (edges) 1 if its two sides have the same direction: opposite orientations
  double flattest_;

  static int32_t next(int32_t side) { return side % 3 == 2 ? side - 2 : side + 1; }
  static int32_t last(int32_t side) { return side % 3 == 0 ? side + 2 : side - 1; }

  // Twice the area of a triangle by Kahan's formula.
  static double doubled_area(double a, double b, double c) {
    if (a > b) std::swap(a, b);
    if (b > c) std::swap(b, c);
    if (a > b) std::swap(a, b);
    const double product = (c + (b + a)) * (a - (c - b)) * (a + (c - b)) * (c + (b - a));
    return 0.5 * std::sqrt(std::max(product, 0.0));
  }

  // Cotangent of the angle opposite the first length.
  double cotangent(double a, double b, double c) const {
    if (b < c) std::swap(b, c);
    const double longest = std::max(a, b), area = std::max(doubled_area(a, b, c), flattest_ * longest * longest);
    return area > 0 ? ((b - a) * (b + a) + c * c) / (2 * area) : 0;
  }

  // Angle opposite the first length.
  static double angle(double a, double b, double c) {
    return std::atan2(2 * doubled_area(a, b, c), (b - a) * (b + a) + c * c);
  }

  void put(int32_t side, int32_t corner, int32_t edge, int32_t from) {
    corner_[side] = corner;
    edge_[side] = edge;
    int32_t* pair = sides_.data() + 2 * int64_t{edge};
    pair[pair[0] != from] = side;
  }

  // Reverses the orientation of triangle t.
  void reverse(int32_t t) {
    const int32_t s = 3 * t, e[3] = {edge_[s], edge_[s + 1], edge_[s + 2]};
    for (const int32_t edge : e) alike_[edge] ^= 1;
    std::swap(corner_[s + 1], corner_[s + 2]);
    put(s, corner_[s], e[2], s + 2);
    put(s + 2, corner_[s + 2], e[0], s);
  }

  // Length of the other diagonal of the two triangles at e, laid out with e on the x axis and one triangle on either side.
  static double diagonal(double e, double b, double c, double g, double h) {
    const double along = ((c - b) * (c + b) - (g - h) * (g + h)) / (2 * e);
    const double across = (doubled_area(e, b, c) + doubled_area(e, g, h)) / e;
    const double longest = std::min(b + h, c + g), shortest = std::max(std::abs(b - h), std::abs(c - g));
    return std::max(std::min(std::hypot(along, across), longest), shortest);       // keeps both triangle inequalities
  }

  bool flip(int32_t e, double before, int32_t around[4]) {
    const int32_t s0 = sides_[2 * int64_t{e}], s1 = next(s0), s2 = last(s0);       // a to b, b to c, c to a
    const int32_t r0 = sides_[2 * int64_t{e} + 1], r1 = next(r0), r2 = last(r0);   // b to a, a to d, d to b
    const int32_t bc = edge_[s1], ca = edge_[s2], ad = edge_[r1], db = edge_[r2];
    const double cd = diagonal(length_[e], length_[bc], length_[ca], length_[ad], length_[db]);
    if (!(cd > 0 && std::isfinite(cd))) return false;
    const double after = cotangent(cd, length_[db], length_[bc]) + cotangent(cd, length_[ca], length_[ad]);
    if (!(after > before)) return false;                     // otherwise rounding could flip an edge back and forth
    length_[e] = cd;
    if (!angle_.empty()) {
      const double at_c = angle_[s2] + angle(length_[ad], length_[ca], cd);
      const double at_d = angle_[r2] + angle(length_[bc], length_[db], cd);
      const double b_to_c = angle_[s1], c_to_a = angle_[s2], a_to_d = angle_[r1], d_to_b = angle_[r2];
      angle_[s0] = at_c, angle_[s1] = d_to_b, angle_[s2] = b_to_c;
      angle_[r0] = at_d, angle_[r1] = c_to_a, angle_[r2] = a_to_d;
    }
    const int32_t a = corner_[s0], b = corner_[r0], c = corner_[s2], d = corner_[r2];
    put(s0, c, e, s0);
    put(r0, d, e, r0);
    put(s1, d, db, r2);
    put(s2, b, bc, s1);
    put(r1, c, ca, s2);
    put(r2, a, ad, r1);
    around[0] = bc, around[1] = ca, around[2] = ad, around[3] = db;
    return true;
  }
};

// Circular queue in which each edge occurs at most once; initially all edges in order.
class Queue {
 public:
  explicit Queue(int32_t edges) : ring_(edges), waiting_(edges, 1), size_(edges) {
    for (int32_t e = 0; e < edges; ++e) ring_[e] = e;
  }
  bool empty() const { return size_ == 0; }
  void push(int32_t e) {
    if (waiting_[e]) return;
    waiting_[e] = 1;
    const size_t at = head_ + size_++;
    ring_[at < ring_.size() ? at : at - ring_.size()] = e;
  }
  int32_t pop() {
    const int32_t e = ring_[head_];
    if (++head_ == ring_.size()) head_ = 0;
    --size_;
    waiting_[e] = 0;
    return e;
  }

 private:
  std::vector<int32_t> ring_;         // (edges)
  std::vector<uint8_t> waiting_;      // (edges)
  size_t head_ = 0, size_;
};

}  // namespace

Flipped intrinsic_delaunay(const int32_t* faces, const int32_t* of_side, int64_t m, std::vector<double> length,
                           std::vector<double> angle, double flattest, int64_t limit) {
  Triangulation triangles(faces, of_side, m, std::move(length), std::move(angle), flattest);
  Queue queue(triangles.edges());
  Flipped out;
  int32_t around[4];
  for (int64_t step = 0; !queue.empty() && out.flips < limit; ++step) {
    if (step % 1024 == 0) interrupt::poll();
    if (!triangles.improve(queue.pop(), around)) continue;
    ++out.flips;
    for (const int32_t e : around) queue.push(e);
  }
  out.finished = queue.empty();
  out.weight.resize(3 * m);
  out.length.resize(3 * m);
  for (int32_t side = 0; side < 3 * m; ++side) {
    out.weight[side] = 0.5 * triangles.cotangent(side);
    out.length[side] = triangles.length(side);
  }
  triangles.move_to(out);
  return out;
}

}  // namespace ms::operators
