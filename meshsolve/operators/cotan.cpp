// Sums over faces are computed by the thread that owns the target, in the order of the faces. The bits do not depend on the
// number of threads.
#include "cotan.hpp"

#include <algorithm>
#include <cmath>

#include "native/threads/parallel.hpp"
#include "native/memory/raw_vector.hpp"

namespace ms::operators {
namespace {

constexpr int64_t kGrain = 1 << 12;               // faces, edges or rows per task

// sum[i] = sum of value(t, c) over all corners or sides c of faces t with target[3 t + c] = i. Each thread scans all targets and
// adds to its own range of i.
template <class Value>
void sum_of_faces(const int32_t* target, int64_t m, int64_t count, double* sum, int threads, Value&& value) {
  for_parts_of_all(threads, count, m, [&](int64_t begin, int64_t end, int64_t) {
    std::fill(sum + begin, sum + end, 0.0);
    for (int64_t t = 0; t < m; ++t)
      for (int c = 0; c < 3; ++c)
        if (const int64_t i = target[3 * t + c]; i >= begin && i < end) sum[i] += value(t, c);
  });
}

// half[c] = half the cotangent opposite side c, which begins at corner c. Returns the area.
double half_cotangents(const double* x, const int32_t* face, double flattest, double* half) {
  double side[3][3], square[3], longest = 0;      // vector and squared length of side c
  double shrinkage = 1;                           // area of the face relative to that of the scaled sides
  for (int c = 0; c < 3; ++c) {
    const double* a = x + 3 * int64_t{face[c]};
    const double* b = x + 3 * int64_t{face[c == 2 ? 0 : c + 1]};
    for (int k = 0; k < 3; ++k) side[c][k] = b[k] - a[k];
    square[c] = side[c][0] * side[c][0] + side[c][1] * side[c][1] + side[c][2] * side[c][2];
    longest = std::max(longest, square[c]);
  }
  for (int step = 0; !(longest > kSmall) && step < kSteps; ++step) {       // a power of two: bits are those in a larger unit
    longest = 0;
    for (int c = 0; c < 3; ++c) {
      for (double& component : side[c]) component *= kEnlarge;
      square[c] = side[c][0] * side[c][0] + side[c][1] * side[c][1] + side[c][2] * side[c][2];
      longest = std::max(longest, square[c]);
    }
    shrinkage *= 1 / kEnlarge;
  }
  if (longest == 0) {
    half[0] = half[1] = half[2] = kHalfOfEquilateral;
    return 0;
  }
  double normal = 0;                              // squared length of the cross product of two sides
  for (int k = 0; k < 3; ++k) {
    const int i = (k + 1) % 3, j = (k + 2) % 3;
    const double cross = side[0][i] * side[1][j] - side[0][j] * side[1][i];
    normal += cross * cross;
  }
  const double twice = std::sqrt(normal), doubled = std::max(twice, flattest * longest);
  const double scale = doubled > 0 ? 0.5 / doubled : 0;
  for (int c = 0; c < 3; ++c) {                   // angle opposite side c, between the two other sides
    const double* p = side[(c + 1) % 3];
    const double* q = side[(c + 2) % 3];
    half[c] = -scale * (p[0] * q[0] + p[1] * q[1] + p[2] * q[2]);
  }
  return 0.5 * twice * shrinkage * shrinkage;
}

}  // namespace

void cotan_weights(const double* x, const int32_t* faces, int64_t m, const int32_t* of_side, int64_t edges, double flattest,
                   double* weight, double* area, int threads) {
  if (threads == 1 && edges > 0) {                // one thread adds them as it computes them
    double half[3];
    return sum_of_faces(of_side, m, edges, weight, 1, [&](int64_t t, int c) {
      if (c == 0) area[t] = half_cotangents(x, faces + 3 * t, flattest, half);
      return half[c];
    });
  }
  RawVector<double> half(edges > 0 ? 3 * m : 0);
  for_range(threads, m, kGrain, [&](int64_t begin, int64_t end, int) {
    double unused[3];
    for (int64_t t = begin; t < end; ++t) area[t] = half_cotangents(x, faces + 3 * t, flattest, edges > 0 ? half.data() + 3 * t : unused);
  });
  sum_of_faces(of_side, m, edges, weight, threads, [&](int64_t t, int c) { return half[3 * t + c]; });
}

void vertex_areas(const int32_t* faces, int64_t m, const double* area, int64_t n, double* mass, int threads) {
  sum_of_faces(faces, m, n, mass, threads, [&](int64_t t, int) { return area[t] / 3; });
}

void edge_lengths(const double* x, const int32_t* ends, int64_t count, double* length, int threads) {
  for_range(threads, count, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t e = begin; e < end; ++e) {
      const double* a = x + 3 * int64_t{ends[2 * e]};
      const double* b = x + 3 * int64_t{ends[2 * e + 1]};
      const double d[3] = {b[0] - a[0], b[1] - a[1], b[2] - a[2]};
      const double square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
      length[e] = square > kSmall * kSmall ? std::sqrt(square) : std::hypot(d[0], d[1], d[2]);
    }
  });
}

FlatImage flipped_faces(const double* uv, const int32_t* faces, int64_t m) {
  FlatImage out;
  for (int64_t t = 0; t < m; ++t) {
    const double *a = uv + 2 * int64_t{faces[3 * t]}, *b = uv + 2 * int64_t{faces[3 * t + 1]}, *c = uv + 2 * int64_t{faces[3 * t + 2]};
    const double area = 0.5 * ((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]));
    if (!(area > 0)) out.faces.push_back(t);               // NaN too
    out.area += area;
  }
  return out;
}

void laplacian_values(const Pattern& rows, const int32_t* edge, const double* weight, double* data, int threads) {
  for_range(threads, rows.n, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
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
  });
}

}  // namespace ms::operators
