// Serial: the sums per edge are then in the order of the faces on every machine.
#include "cotan.hpp"

#include <algorithm>
#include <cmath>

namespace ms::operators {

void cotan_weights(const double* x, const int32_t* faces, int64_t m, const int32_t* of_side, double flattest,
                   double* weight, double* area) {
  for (int64_t t = 0; t < m; ++t) {
    double side[3][3], square[3];                 // side c as a vector, its squared length
    for (int c = 0; c < 3; ++c) {
      const double* a = x + 3 * int64_t{faces[3 * t + c]};
      const double* b = x + 3 * int64_t{faces[3 * t + (c == 2 ? 0 : c + 1)]};
      for (int k = 0; k < 3; ++k) side[c][k] = b[k] - a[k];
      square[c] = side[c][0] * side[c][0] + side[c][1] * side[c][1] + side[c][2] * side[c][2];
    }
    double normal = 0;                            // squared length of the cross product of two sides
    for (int k = 0; k < 3; ++k) {
      const int i = (k + 1) % 3, j = (k + 2) % 3;
      const double cross = side[0][i] * side[1][j] - side[0][j] * side[1][i];
      normal += cross * cross;
    }
    const double twice = std::sqrt(normal);
    area[t] = 0.5 * twice;
    const double doubled = std::max(twice, flattest * std::max({square[0], square[1], square[2]}));
    if (!(doubled > no_extent)) continue;
    const double scale = 0.5 / doubled;
    for (int c = 0; c < 3; ++c) {                 // the angle opposite side c lies between the two others, head to tail
      const double* p = side[(c + 1) % 3];
      const double* q = side[(c + 2) % 3];
      weight[of_side[3 * t + c]] -= scale * (p[0] * q[0] + p[1] * q[1] + p[2] * q[2]);
    }
  }
}

void vertex_areas(const int32_t* faces, int64_t m, const double* area, double* mass) {
  for (int64_t t = 0; t < m; ++t) {
    const double third = area[t] / 3;
    for (int c = 0; c < 3; ++c) mass[faces[3 * t + c]] += third;
  }
}

void edge_lengths(const double* x, const int32_t* ends, int64_t count, double* length) {
  for (int64_t e = 0; e < count; ++e) {
    const double* a = x + 3 * int64_t{ends[2 * e]};
    const double* b = x + 3 * int64_t{ends[2 * e + 1]};
    const double d[3] = {b[0] - a[0], b[1] - a[1], b[2] - a[2]};
    length[e] = std::sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
  }
}

void laplacian_values(const Pattern& rows, const int32_t* edge, const double* weight, double* data) {
  for (int32_t i = 0; i < rows.n; ++i) {
    double sum = 0;
    int64_t diagonal = -1;
    for (int64_t p = rows.ptr[i]; p < rows.ptr[i + 1]; ++p) {
      if (edge[p] < 0) {
        diagonal = p;
        continue;
      }
      const double w = weight[edge[p]];
      data[p] = -w;
      sum += w;
    }
    data[diagonal] = sum;
  }
}

}  // namespace ms::operators
