// Clipper keeps a circular list of the remaining corners. Grid finds corners that may lie in an ear. Sweep detects crossing sides.
// The work of a polygon is bounded by kWork for each corner: simple polygons take a part of it, and others become a fan.
#include "ears.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "native/threads/interrupt.hpp"

namespace ms::mesh {
namespace {

constexpr double kRounding = 1e-14;     // bound on the rounding error of turn(), relative to the lengths of its sides
constexpr double kTouching = 1e-6;      // depth, relative to the polygon's size, up to which two sides touch but do not cross
constexpr double kSlack = 1e-9;         // absolute error of the rows and columns in which a triangle is searched
constexpr int64_t kWork = 2048, kFreeWork = 1 << 22;   // positions and rows of cells that are looked at: for each corner, and more
constexpr int kTries = 8;               // sides that occur twice, next to which a point is looked for
constexpr size_t kSmall = 32;           // largest number of corners searched without a grid
constexpr size_t kPairs = 200;          // largest number of corners for which all pairs of sides are compared

bool same(const Point& a, const Point& b) { return a.x == b.x && a.y == b.y; }
double length(const Point& a, const Point& b) { return std::hypot(b.x - a.x, b.y - a.y); }

// Twice the signed area of a triangle, positive for a left turn.
double turn(const Point& a, const Point& b, const Point& c) {
  return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}

// -1 for a right turn, 1 for a left turn, 0 within rounding.
int side(const Point& a, const Point& b, const Point& c) {
  const double t = turn(a, b, c);
  const double error = kRounding * (std::abs(b.x - a.x) + std::abs(b.y - a.y) + std::abs(c.x - a.x) + std::abs(c.y - a.y));
  return t > error ? 1 : t < -error ? -1 : 0;
}

struct Box {
  double x0, y0, x1, y1;
  static Box of(std::initializer_list<Point> points) {
    Box box{1e300, 1e300, -1e300, -1e300};
    for (const Point& p : points) box.add(p);
    return box;
  }
  void add(const Point& p) {
    x0 = std::min(x0, p.x), x1 = std::max(x1, p.x);
    y0 = std::min(y0, p.y), y1 = std::max(y1, p.y);
  }
  bool holds(const Point& p) const { return p.x >= x0 && p.x <= x1 && p.y >= y0 && p.y <= y1; }
  double rounding() const { return kRounding * 2 * (x1 - x0 + y1 - y0); }       // bound for turn() of three points in the box
};

// Positions of corners that may lie in an ear. Corners at one position share a place. The places lie in cells of rows and columns with
// equal numbers of places, so that no cell is crowded.
class Grid {
 public:
  // `chosen`: the corners that are not convex at the beginning.
  Grid(const std::vector<Point>& points, std::vector<int32_t> chosen) : at_(points), place_(points.size(), -1) {
    std::sort(chosen.begin(), chosen.end(), [&](int32_t i, int32_t j) {
      return at_[i].x != at_[j].x ? at_[i].x < at_[j].x : at_[i].y != at_[j].y ? at_[i].y < at_[j].y : i < j;
    });
    for (size_t k = 0; k < chosen.size(); ++k) {
      if (k == 0 || !same(at_[chosen[k]], at_[chosen[k - 1]])) places_.push_back({at_[chosen[k]], 0, 0});
      place_[chosen[k]] = static_cast<int32_t>(places_.size()) - 1;
      ++places_.back().blocking, ++places_.back().left;
    }
    sort_into_cells();
  }

  void mark(int32_t corner, int change) {
    if (place_[corner] >= 0) places_[place_[corner]].blocking += change;
  }

  // The places without corners are dropped when they are more than half.
  void remove(int32_t corner) {
    if (place_[corner] < 0 || --places_[place_[corner]].left > 0) return;
    if (++empty_ > kSmall && 2 * empty_ > members_.size()) sort_into_cells();
  }

  // True if `found` is true for a position in the triangle's box with a blocking corner; positions outside of the triangle may be left out.
  template <class Found>
  bool any(const std::array<Point, 3>& t, const Box& box, int64_t& work, Found&& found) const {
    const auto x0 = cell(columns_, box.x0), x1 = cell(columns_, box.x1), y1 = cell(rows_, box.y1);
    for (auto y = cell(rows_, box.y0); y <= y1; ++y) {              // the cells of a row are contiguous
      ++work;
      size_t from = x0, to = x1;
      if (members_.size() > kSmall) {
        const auto [least, most] = span(t, reach_[y].y0, reach_[y].y1);
        if (least > reach_[y].x1 || most < reach_[y].x0) continue;
        from = std::max(from, cell(columns_, least)), to = std::min(to, cell(columns_, most));
        if (from > to) continue;
      }
      const size_t begin = begin_[y * columns_.size() + from], end = begin_[y * columns_.size() + to + 1];
      for (size_t k = begin; k < end; ++k) {
        const Place& p = places_[members_[k]];
        if (p.blocking > 0 && box.holds(p.at) && found(p.at)) {
          work += static_cast<int64_t>(k - begin);
          return true;
        }
      }
      work += static_cast<int64_t>(end - begin);
    }
    return false;
  }

 private:
  struct Place {
    Point at;
    int32_t blocking, left;             // corners at this position: those that are not convex, and those not clipped yet
  };

  const std::vector<Point>& at_;
  std::vector<int32_t> place_;          // (corners) or -1
  std::vector<Place> places_;
  std::vector<int32_t> members_;        // places with corners, cell by cell
  std::vector<size_t> begin_;           // (cells + 1)
  std::vector<double> rows_, columns_;  // where each row and column begins
  std::vector<Box> reach_;              // (rows) box of the places in each row
  size_t empty_ = 0;                    // members without corners

  static size_t cell(const std::vector<double>& begins, double x) {
    return static_cast<size_t>(std::upper_bound(begins.begin() + 1, begins.end(), x) - begins.begin()) - 1;
  }

  std::vector<double> begins_of(std::vector<double> x, size_t count) const {
    std::vector<double> out = {-1e300};
    std::sort(x.begin(), x.end());
    for (size_t k = 1; k < count; ++k)
      if (const double next = x[k * x.size() / count]; next > out.back()) out.push_back(next);
    return out;
  }

  void sort_into_cells() {
    members_.clear();
    for (size_t k = 0; k < places_.size(); ++k)
      if (places_[k].left > 0) members_.push_back(static_cast<int32_t>(k));
    empty_ = 0;
    const size_t count = members_.size() > kSmall ? static_cast<size_t>(std::sqrt(static_cast<double>(members_.size()))) : 1;
    std::vector<double> x, y;
    if (count > 1)
      for (const int32_t k : members_) x.push_back(places_[k].at.x), y.push_back(places_[k].at.y);
    columns_ = begins_of(std::move(x), count), rows_ = begins_of(std::move(y), count);
    std::vector<std::pair<size_t, int32_t>> in_cell;
    for (const int32_t k : members_) in_cell.emplace_back(cell(rows_, places_[k].at.y) * columns_.size() + cell(columns_, places_[k].at.x), k);
    std::sort(in_cell.begin(), in_cell.end());
    reach_.assign(rows_.size(), {1e300, 1e300, -1e300, -1e300});
    for (const auto& [cell, k] : in_cell) reach_[cell / columns_.size()].add(places_[k].at);
    begin_.assign(rows_.size() * columns_.size() + 1, 0);
    for (size_t k = 0; k < in_cell.size(); ++k) ++begin_[in_cell[k].first + 1], members_[k] = in_cell[k].second;
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  }

  // The range of x of a triangle where y is in a range, both a little wider than they are.
  static std::pair<double, double> span(const std::array<Point, 3>& t, double y0, double y1) {
    double least = 1e300, most = -1e300;
    for (size_t k = 0; k < 3; ++k) {
      Point p = t[k], q = t[(k + 1) % 3];
      if (p.y > q.y) std::swap(p, q);
      if (q.y < y0 - kSlack || p.y > y1 + kSlack) continue;
      const double slope = q.y - p.y > kSlack ? (q.x - p.x) / (q.y - p.y) : 0;
      for (const double y : {std::clamp(y0, p.y, q.y), std::clamp(y1, p.y, q.y)}) {
        const double x = p.x + slope * (y - p.y);
        least = std::min(least, x), most = std::max(most, x);
      }
      if (slope == 0) least = std::min({least, p.x, q.x}), most = std::max({most, p.x, q.x});
    }
    return {least - kSlack, most + kSlack};
  }
};

enum class Ear { proper, touched, flat };       // no corner in it or on it; no corner in its interior; zero area

class Clipper {
 public:
  explicit Clipper(const std::vector<Point>& polygon)
      : at_(polygon), left_(static_cast<int32_t>(polygon.size())), before_(left_), behind_(left_), convex_(left_, true) {
    for (int32_t k = 0; k < left_; ++k) before_[k] = k - 1, behind_[k] = k + 1;
    before_[0] = left_ - 1, behind_[left_ - 1] = 0;
    for (int32_t k = 0; k < left_; ++k) update(k);
  }

  bool clip(std::vector<int32_t>& triangles) {
    int32_t k = clip_spikes(0, left_, triangles);
    std::vector<int32_t> blocking;
    for (size_t i = 0; i < convex_.size(); ++i)
      if (!convex_[i]) blocking.push_back(static_cast<int32_t>(i));
    Grid grid(at_, std::move(blocking));
    grid_ = &grid;
    const bool twice = goes_around_twice(k);
    while (left_ > 3) {
      const int32_t ear = next_ear(k, grid);
      if (ear < 0) break;
      push(triangles, before_[ear], ear, behind_[ear]);
      remove(ear);
      const int32_t c = before_[clip_spikes(before_[ear], 2, triangles)];
      k = shorter(before_[c], c);                       // alternating sides gives fewer long triangles than one apex
    }
    const bool complete = left_ == 3 && side(at_[before_[k]], at_[k], at_[behind_[k]]) >= 0;
    for (const int32_t apex = k; left_ > 2; --left_) {                // the rest of a self-intersecting polygon becomes a fan
      const int32_t b = behind_[apex], c = behind_[b];
      push(triangles, apex, b, c);
      behind_[apex] = c;
    }
    grid_ = nullptr;
    return complete && !twice;
  }

 private:
  const std::vector<Point>& at_;
  Grid* grid_ = nullptr;
  int32_t left_;                        // number of corners not clipped yet
  std::vector<int32_t> before_, behind_;
  std::vector<char> convex_;            // 1 for a left turn; clipped corners are marked as convex
  int32_t blocking_ = 0;                // number of remaining corners that are not convex
  int64_t tests_ = 0, work_ = 0;

  static void push(std::vector<int32_t>& triangles, int32_t a, int32_t b, int32_t c) { triangles.insert(triangles.end(), {a, b, c}); }
  void update(int32_t k) { mark(k, side(at_[before_[k]], at_[k], at_[behind_[k]]) > 0); }
  void mark(int32_t k, bool convex) {
    const int32_t change = int32_t{!convex} - int32_t{!convex_[k]};
    blocking_ += change;
    if (grid_ && change) grid_->mark(k, change);
    convex_[k] = convex;
  }

  void remove(int32_t k) {
    const int32_t a = before_[k], c = behind_[k];
    behind_[a] = c, before_[c] = a;
    mark(k, true);
    if (grid_) grid_->remove(k);
    update(a), update(c);
    --left_;
  }

  // True if the polygon goes around a point more than once. Such a point lies next to a side that occurs twice in one direction; it is
  // looked for next to a few of them. Sides of spikes occur twice as well.
  bool goes_around_twice(int32_t k) const {
    std::vector<std::array<double, 4>> sides;
    for (int32_t i = 0; i < left_; ++i, k = behind_[k])
      if (!same(at_[k], at_[behind_[k]])) sides.push_back({at_[k].x, at_[k].y, at_[behind_[k]].x, at_[behind_[k]].y});
    std::sort(sides.begin(), sides.end());
    auto twice = std::adjacent_find(sides.begin(), sides.end());
    for (int tries = 0; tries < kTries && twice != sides.end(); ++tries) {
      const auto [x0, y0, x1, y1] = *twice;
      for (const double away : {1e-3, -1e-3, 1e-6, -1e-6})
        if (std::abs(winding(sides, {(x0 + x1) / 2 - away * (y1 - y0), (y0 + y1) / 2 + away * (x1 - x0)})) > 1) return true;
      twice = std::adjacent_find(std::upper_bound(sides.begin(), sides.end(), *twice), sides.end());
    }
    return false;
  }

  // How often the sides go around a point.
  static int64_t winding(const std::vector<std::array<double, 4>>& sides, const Point& p) {
    int64_t out = 0;
    for (const auto& [x0, y0, x1, y1] : sides) {
      const double left = turn({x0, y0}, {x1, y1}, p);
      out += int64_t{y0 <= p.y && y1 > p.y && left > 0} - int64_t{y0 > p.y && y1 <= p.y && left < 0};
    }
    return out;
  }

  // Clips spikes (two sides to a point and straight back) and repeated points, from corner k on until `good` corners in a row are
  // neither. Their triangles have no area, but they invalidate the ear test. Returns the next corner.
  int32_t clip_spikes(int32_t k, int32_t good, std::vector<int32_t>& triangles) {
    for (int32_t passed = 0; left_ > 3 && passed < std::min(good, left_);) {
      const int32_t a = before_[k], c = behind_[k];
      if (!same(at_[a], at_[c]) && !same(at_[k], at_[c])) {
        k = c, ++passed;
        continue;
      }
      push(triangles, a, k, c);
      remove(k);
      k = before_[a];
      passed = std::max(passed - 2, 0);
    }
    return k;
  }

  // The corner whose ear has the shorter new side; convex corners are preferred.
  int32_t shorter(int32_t a, int32_t c) const {
    if (convex_[a] != convex_[c]) return convex_[a] ? a : c;
    return length(at_[before_[a]], at_[behind_[a]]) < length(at_[before_[c]], at_[behind_[c]]) ? a : c;
  }

  // The first ear of the best available kind from corner k on, or -1 without an ear or when the work is spent.
  int32_t next_ear(int32_t k, const Grid& grid) {
    const int64_t most = kFreeWork + kWork * static_cast<int64_t>(at_.size());
    for (const Ear kind : {Ear::proper, Ear::touched, Ear::flat})
      for (int32_t i = 0; i < left_ && work_ < most; ++i, k = behind_[k])
        if (is_ear(k, kind, grid)) return k;
    return -1;
  }

  bool is_ear(int32_t k, Ear kind, const Grid& grid) {
    if (++tests_ % 1024 == 0) interrupt::poll();
    work_ += 8;
    const Point &a = at_[before_[k]], &b = at_[k], &c = at_[behind_[k]];
    if (kind == Ear::flat) return side(a, b, c) == 0;
    if (!convex_[k]) return false;
    if (blocking_ == 0) return true;
    const Box box = Box::of({a, b, c});
    const double outside = kind == Ear::proper ? -box.rounding() : box.rounding();
    return !grid.any({a, b, c}, box, work_, [&](const Point& p) {
      if (same(p, a) || same(p, b) || same(p, c)) return false;
      return turn(a, b, p) >= outside && turn(b, c, p) >= outside && turn(c, a, p) >= outside;
    });
  }
};

// True if the interiors of two sides intersect and each side passes the other by more than kTouching.
bool cross(const Point& a, const Point& b, const Point& c, const Point& d) {
  const double ab = kTouching * length(a, b), cd = kTouching * length(c, d);
  const double to_c = turn(a, b, c), to_d = turn(a, b, d), to_a = turn(c, d, a), to_b = turn(c, d, b);
  return ((to_c > ab && to_d < -ab) || (to_c < -ab && to_d > ab)) && ((to_a > cd && to_b < -cd) || (to_a < -cd && to_b > cd));
}

bool any_pair_crosses(const std::vector<Point>& polygon) {
  const size_t n = polygon.size();
  for (size_t i = 0; i + 2 < n; ++i)
    for (size_t j = i + 2; j < n; ++j)
      if (cross(polygon[i], polygon[i + 1], polygon[j], polygon[(j + 1) % n])) return true;
  return false;
}

// Sweep line with the crossed sides ordered from bottom to top: two crossing sides are neighbors before they cross. Touching
// sides may hide a crossing. O(k log k). Source: Shamos, Hoey 1976, "Geometric intersection problems".
class Sweep {
 public:
  explicit Sweep(const std::vector<Point>& polygon) : at_(polygon), n_(static_cast<int32_t>(polygon.size())) {}

  bool finds_crossing() {
    std::vector<int32_t> corners(n_);       // from left to right
    std::iota(corners.begin(), corners.end(), 0);
    std::sort(corners.begin(), corners.end(), [&](int32_t i, int32_t j) { return before(i, j); });
    std::vector<Sides::iterator> where(n_, sides_.end());
    int64_t steps = 0;
    for (const int32_t k : corners) {
      if (++steps % 1024 == 0) interrupt::poll();
      const int32_t both[2] = {k, (k + n_ - 1) % n_};
      for (const int32_t side : both)
        if (right(side) == k && removal_shows(where[side])) return true;
      for (const int32_t side : both)
        if (left(side) == k && insertion_shows(side, where[side])) return true;
    }
    return false;
  }

 private:
  struct Below {
    const Sweep* sweep;
    bool operator()(int32_t s, int32_t t) const { return sweep->below(s, t); }
  };
  using Sides = std::set<int32_t, Below>;

  const std::vector<Point>& at_;
  int32_t n_;
  Sides sides_{Below{this}};                // sides on the sweep line; side k joins corner k and the next one

  bool before(int32_t i, int32_t j) const {
    return at_[i].x != at_[j].x ? at_[i].x < at_[j].x : at_[i].y != at_[j].y ? at_[i].y < at_[j].y : i < j;
  }
  int32_t next(int32_t side) const { return side + 1 == n_ ? 0 : side + 1; }
  int32_t left(int32_t side) const { return before(side, next(side)) ? side : next(side); }
  int32_t right(int32_t side) const { return before(side, next(side)) ? next(side) : side; }

  // True if side s is below side t at the left end of the later of the two.
  bool below(int32_t s, int32_t t) const {
    if (before(left(t), left(s))) {
      const double rises = above(t, s);
      return rises != 0 ? rises < 0 : s < t;
    }
    const double rises = above(s, t);
    return rises != 0 ? rises > 0 : s < t;
  }

  // Positive if side t, which begins later, is above side s: decided by its left end, or by its right end if the left one is on s.
  double above(int32_t s, int32_t t) const {
    const double begins = turn(at_[left(s)], at_[right(s)], at_[left(t)]);
    return begins != 0 ? begins : turn(at_[left(s)], at_[right(s)], at_[right(t)]);
  }

  bool crossing(int32_t s, int32_t t) const { return cross(at_[s], at_[next(s)], at_[t], at_[next(t)]); }

  bool insertion_shows(int32_t side, Sides::iterator& where) {
    where = sides_.insert(side).first;
    const auto after = std::next(where);
    return (where != sides_.begin() && crossing(*std::prev(where), side)) || (after != sides_.end() && crossing(side, *after));
  }

  bool removal_shows(Sides::iterator where) {
    const auto after = sides_.erase(where);
    return after != sides_.begin() && after != sides_.end() && crossing(*std::prev(after), *after);
  }
};

bool crosses_itself(const std::vector<Point>& polygon) {
  return polygon.size() <= kPairs ? any_pair_crosses(polygon) : Sweep(polygon).finds_crossing();
}

}  // namespace

bool clip_ears(const std::vector<Point>& polygon, std::vector<int32_t>& triangles) {
  const bool complete = Clipper(polygon).clip(triangles);
  return complete && !crosses_itself(polygon);
}

}  // namespace ms::mesh
