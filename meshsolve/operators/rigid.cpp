// A thread writes its own faces or vertices, and a vertex adds its corners in ascending order: bits do not depend on the threads.
#include "rigid.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "native/memory/raw_vector.hpp"
#include "native/threads/parallel.hpp"

namespace ms::operators {
namespace {

constexpr int64_t kGrain = 1 << 10;               // faces or vertices per task
constexpr int kNewtonSteps = 12;                  // 2 or 3 are usual from the rotation of the last iteration
constexpr int kSweeps = 12;                       // of Jacobi's method; 4 or 5 are usual
constexpr double kUnique = 1e-10;                 // smallest curvature of tr(R S), relative to |S|, of a unique maximum
constexpr double kTurned = 1e-12;                 // squared angle of the last Newton step; an error of 1e-12 is left

void difference(const Strided<const double>& x, int64_t i, int64_t j, double* d) {
  for (int k = 0; k < 3; ++k) d[k] = x.at(i, k) - x.at(j, k);
}

void rotation_of(const double* q, double* R) {
  const double w = q[0], x = q[1], y = q[2], z = q[3];
  R[0] = 1 - 2 * (y * y + z * z), R[1] = 2 * (x * y - w * z), R[2] = 2 * (x * z + w * y);
  R[3] = 2 * (x * y + w * z), R[4] = 1 - 2 * (x * x + z * z), R[5] = 2 * (y * z - w * x);
  R[6] = 2 * (x * z - w * y), R[7] = 2 * (y * z + w * x), R[8] = 1 - 2 * (x * x + y * y);
}

double largest(const double* S, int count) {
  double most = 0;
  for (int k = 0; k < count; ++k) most = std::max(most, std::abs(S[k]));
  return most;
}

// Newton's method for the maximum of tr(R S) from q, M = R S. The step w solves (tr(M) I - sym(M)) w = g, the skew part of M. True
// if the last matrix was positive definite and the last step negligible; false leaves q undefined.
bool newton(const double* S, double scale, double* q) {
  const double least = kUnique * scale;
  double R[9], M[9];
  for (int step = 0; step < kNewtonSteps; ++step) {
    rotation_of(q, R);
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) M[3 * i + j] = R[3 * i] * S[j] + R[3 * i + 1] * S[3 + j] + R[3 * i + 2] * S[6 + j];
    const double a = M[4] + M[8], b = M[0] + M[8], c = M[0] + M[4];
    const double d = -0.5 * (M[1] + M[3]), e = -0.5 * (M[2] + M[6]), f = -0.5 * (M[5] + M[7]);
    const double g0 = M[5] - M[7], g1 = M[6] - M[2], g2 = M[1] - M[3];
    const double ab = a * b - d * d, de = d * e - a * f, df = d * f - b * e;      // leading minors positive: positive definite
    const double determinant = c * ab + f * de + e * df;
    if (!(a > least && ab > least * a && determinant > least * ab)) return false;
    const double dc = e * f - d * c, scaled = 1 / determinant;         // [a d e; d b f; e f c]^-1 by cofactors
    const double w0 = scaled * ((b * c - f * f) * g0 + dc * g1 + df * g2);
    const double w1 = scaled * (dc * g0 + (a * c - e * e) * g1 + de * g2);
    const double w2 = scaled * (df * g0 + de * g1 + ab * g2);
    const double x = 0.5 * w0, y = 0.5 * w1, z = 0.5 * w2, s = q[0], u = q[1], v = q[2], t = q[3];
    const double p[4] = {s - x * u - y * v - z * t, u + x * s + y * t - z * v,     // (1, w / 2) q
                         v + y * s + z * u - x * t, t + z * s + x * v - y * u};
    const double norm = 1 / std::sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + p[3] * p[3]);
    for (int k = 0; k < 4; ++k) q[k] = p[k] * norm;
    if (w0 * w0 + w1 * w1 + w2 * w2 <= kTurned) return true;
  }
  return false;
}

// The eigenvector of the largest eigenvalue of Horn's matrix, by cyclic Jacobi. q stays where that eigenvalue is not simple.
void jacobi(const double* S, double scale, double* q) {
  double N[4][4] = {{S[0] + S[4] + S[8], S[5] - S[7], S[6] - S[2], S[1] - S[3]},
                    {S[5] - S[7], S[0] - S[4] - S[8], S[1] + S[3], S[6] + S[2]},
                    {S[6] - S[2], S[1] + S[3], S[4] - S[0] - S[8], S[5] + S[7]},
                    {S[1] - S[3], S[6] + S[2], S[5] + S[7], S[8] - S[0] - S[4]}};
  double V[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool rotated = false;
    for (int i = 0; i < 3; ++i)
      for (int j = i + 1; j < 4; ++j) {
        if (!(std::abs(N[i][j]) > 1e-17 * scale)) continue;
        rotated = true;
        const double theta = 0.5 * (N[j][j] - N[i][i]) / N[i][j];
        const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::hypot(theta, 1.0));
        const double c = 1 / std::hypot(t, 1.0), s = t * c;
        for (int k = 0; k < 4; ++k) {
          const double a = N[k][i], b = N[k][j];
          N[k][i] = c * a - s * b, N[k][j] = s * a + c * b;
        }
        for (int k = 0; k < 4; ++k) {
          const double a = N[i][k], b = N[j][k], u = V[k][i], v = V[k][j];
          N[i][k] = c * a - s * b, N[j][k] = s * a + c * b;
          V[k][i] = c * u - s * v, V[k][j] = s * u + c * v;
        }
      }
    if (!rotated) break;
  }
  int best = 0;
  for (int k = 1; k < 4; ++k) best = N[k][k] > N[best][best] ? k : best;
  for (int k = 0; k < 4; ++k)
    if (k != best && !(N[best][best] - N[k][k] > 2 * kUnique * scale)) return;
  for (int k = 0; k < 4; ++k) q[k] = V[k][best];
}

// The rotation that maximizes tr(R S), S row-major, from the last one.
void best_rotation(const double* S, double* q) {
  const double scale = largest(S, 9);
  if (!(scale > 0)) return;
  double found[4];
  std::copy(q, q + 4, found);
  if (newton(S, scale, found))
    std::copy(found, found + 4, q);
  else
    jacobi(S, scale, q);
}

// Calls f(v) for all vertices, on several threads.
template <class F>
void for_vertices(const RestShape& shape, int threads, F&& f) {
  for_range(threads, shape.n, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t v = begin; v < end; ++v) f(v);
  });
}

template <class F>
void for_faces(const RestShape& shape, int threads, F&& f) {
  for_range(threads, shape.m, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) f(t);
  });
}

// b[k n + v] = sum of at[D corner + k] over the corners of v.
template <int D>
void add_corners(const RestShape& shape, const double* at, double* b, int threads) {
  for_vertices(shape, threads, [&](int64_t v) {
    double sum[D] = {};
    for (int64_t p = shape.ptr[v]; p < shape.ptr[v + 1]; ++p)
      for (int k = 0; k < D; ++k) sum[k] += at[D * int64_t{shape.corner[p]} + k];
    for (int k = 0; k < D; ++k) b[k * shape.n + v] = sum[k];
  });
}

// Side c of a face in space: sides 0 and 1 are stored, side 2 is minus their sum.
void side_of(const double* stored, int c, double* out) {
  for (int k = 0; k < 3; ++k) out[k] = c < 2 ? stored[3 * c + k] : -(stored[k] + stored[3 + k]);
}

// S -= w p q^T for the side opposite to a corner.
void subtract_rim(const RestShape& shape, int32_t corner, const double* rest, const double* now, double* S) {
  const int64_t t = corner / 3;
  const int c = (corner % 3 + 1) % 3;
  double p[3], q[3];
  side_of(rest + 6 * t, c, p);
  side_of(now + 6 * t, c, q);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) S[3 * i + j] -= shape.weight[3 * t + c] * p[i] * q[j];
}

// Sides 0, 1 and 2 of a face at rest, turned by the mean rotation of its corners.
void turn_by_face(const double* turns, const int32_t* face, const double* p, double* side) {
  double R[9] = {};
  for (int c = 0; c < 3; ++c)
    for (int k = 0; k < 9; ++k) R[k] += turns[9 * int64_t{face[c]} + k] * (1.0 / 3);
  for (int i = 0; i < 3; ++i) {
    side[i] = R[3 * i] * p[0] + R[3 * i + 1] * p[1] + R[3 * i + 2] * p[2];
    side[3 + i] = R[3 * i] * p[3] + R[3 * i + 1] * p[4] + R[3 * i + 2] * p[5];
    side[6 + i] = -(side[i] + side[3 + i]);
  }
}

// The same, each side turned by the mean rotation of its ends.
void turn_by_ends(const double* turns, const int32_t* face, const double* p, double* side) {
  for (int c = 0; c < 3; ++c) {
    const double *from = turns + 9 * int64_t{face[c]}, *to = turns + 9 * int64_t{face[(c + 1) % 3]};
    double rest[3];
    side_of(p, c, rest);
    for (int i = 0; i < 3; ++i) {
      side[3 * c + i] = 0;
      for (int k = 0; k < 3; ++k) side[3 * c + i] += 0.5 * (from[3 * i + k] + to[3 * i + k]) * rest[k];
    }
  }
}

// The three sides of a face in the plane.
void flat_sides(const double* flat, double p[3][2]) {
  p[0][0] = flat[0], p[0][1] = 0;
  p[1][0] = flat[1] - flat[0], p[1][1] = flat[2];
  p[2][0] = -flat[1], p[2][1] = -flat[2];
}

}  // namespace

void fit_vertices(const RestShape& shape, const double* rest, Strided<const double> x, double* quaternion, double* energy,
                  int threads) {
  RawVector<double> now(6 * shape.m), S(9 * shape.m);       // of each face: sides 0 and 1, and S
  for_faces(shape, threads, [&](int64_t t) {
    const int32_t* face = shape.faces + 3 * t;
    const double *p = rest + 6 * t, *w = shape.weight + 3 * t;
    double* q = now.data() + 6 * t;
    difference(x, face[1], face[0], q);
    difference(x, face[2], face[1], q + 3);
    for (int i = 0; i < 3; ++i) {                 // side 2 is minus the sum of the others
      const double both = w[2] * (p[i] + p[3 + i]), first = w[0] * p[i] + both, second = w[1] * p[3 + i] + both;
      for (int j = 0; j < 3; ++j) S[9 * t + 3 * i + j] = first * q[j] + second * q[3 + j];
    }
  });
  for_vertices(shape, threads, [&](int64_t v) {
    double sum[9] = {}, R[9], total = 0;
    for (int64_t at = shape.ptr[v]; at < shape.ptr[v + 1]; ++at)
      for (int k = 0; k < 9; ++k) sum[k] += S[9 * int64_t{shape.corner[at] / 3} + k];
    if (!shape.rims)
      for (int64_t at = shape.ptr[v]; at < shape.ptr[v + 1]; ++at) subtract_rim(shape, shape.corner[at], rest, now.data(), sum);
    best_rotation(sum, quaternion + 4 * v);
    rotation_of(quaternion + 4 * v, R);
    for (int64_t at = shape.ptr[v]; at < shape.ptr[v + 1]; ++at) {
      const int64_t t = shape.corner[at] / 3;
      const double *p = rest + 6 * t, *q = now.data() + 6 * t, *w = shape.weight + 3 * t;
      double squares[3] = {};                     // of q_c - R p_c
      for (int i = 0; i < 3; ++i) {
        const double first = q[i] - (R[3 * i] * p[0] + R[3 * i + 1] * p[1] + R[3 * i + 2] * p[2]);
        const double second = q[3 + i] - (R[3 * i] * p[3] + R[3 * i + 1] * p[4] + R[3 * i + 2] * p[5]);
        squares[0] += first * first;
        squares[1] += second * second;
        squares[2] += (first + second) * (first + second);
      }
      if (!shape.rims) squares[(shape.corner[at] % 3 + 1) % 3] = 0;
      total += w[0] * squares[0] + w[1] * squares[1] + w[2] * squares[2];
    }
    energy[v] = total / (shape.rims ? 3 : 2);
  });
}

void pull_vertices(const RestShape& shape, const double* rest, const double* quaternion, double* b, int threads) {
  RawVector<double> turns(9 * shape.n);           // matrices of the rotations
  RawVector<double> at(9 * shape.m);              // of each corner: w_c R p_c of the side that ends, minus the side that begins
  for_vertices(shape, threads, [&](int64_t v) { rotation_of(quaternion + 4 * v, turns.data() + 9 * v); });
  for_faces(shape, threads, [&](int64_t t) {
    const int32_t* face = shape.faces + 3 * t;
    const double *p = rest + 6 * t, *w = shape.weight + 3 * t;
    double side[9];                               // of the face now
    shape.rims ? turn_by_face(turns.data(), face, p, side) : turn_by_ends(turns.data(), face, p, side);
    double* out = at.data() + 9 * t;
    for (int i = 0; i < 3; ++i) {
      const double first = side[i], second = side[3 + i], third = w[2] * side[6 + i];
      out[i] = third - w[0] * first;
      out[3 + i] = w[0] * first - w[1] * second;
      out[6 + i] = w[1] * second - third;
    }
  });
  add_corners<3>(shape, at.data(), b, threads);
}

void fit_faces(const RestShape& shape, const double* flat, Strided<const double> uv, double* turn, double* energy, int threads) {
  for_faces(shape, threads, [&](int64_t t) {
    const int32_t* face = shape.faces + 3 * t;
    double p[3][2], q[3][2], dot = 0, cross = 0, total = 0;
    flat_sides(flat + 3 * t, p);
    for (int c = 0; c < 3; ++c) {
      const int32_t from = face[c], to = face[c == 2 ? 0 : c + 1];
      const double w = shape.weight[3 * t + c];
      for (int k = 0; k < 2; ++k) q[c][k] = uv.at(to, k) - uv.at(from, k);
      dot += w * (p[c][0] * q[c][0] + p[c][1] * q[c][1]);
      cross += w * (p[c][0] * q[c][1] - p[c][1] * q[c][0]);
    }
    const double length = std::hypot(dot, cross);
    if (length > 0) turn[2 * t] = dot / length, turn[2 * t + 1] = cross / length;
    const double cosine = turn[2 * t], sine = turn[2 * t + 1];
    for (int c = 0; c < 3; ++c) {
      const double u = q[c][0] - (cosine * p[c][0] - sine * p[c][1]), v = q[c][1] - (sine * p[c][0] + cosine * p[c][1]);
      total += shape.weight[3 * t + c] * (u * u + v * v);
    }
    energy[t] = total;
  });
}

void pull_faces(const RestShape& shape, const double* flat, const double* turn, double* b, int threads) {
  RawVector<double> at(6 * shape.m);              // as in pull_vertices
  for_faces(shape, threads, [&](int64_t t) {
    double p[3][2];
    flat_sides(flat + 3 * t, p);
    const double cosine = turn[2 * t], sine = turn[2 * t + 1];
    double* out = at.data() + 6 * t;
    std::fill(out, out + 6, 0.0);
    for (int c = 0; c < 3; ++c) {
      const int next = c == 2 ? 0 : c + 1;
      const double w = shape.weight[3 * t + c];
      const double part[2] = {w * (cosine * p[c][0] - sine * p[c][1]), w * (sine * p[c][0] + cosine * p[c][1])};
      for (int k = 0; k < 2; ++k) {
        out[2 * next + k] += part[k];
        out[2 * c + k] -= part[k];
      }
    }
  });
  add_corners<2>(shape, at.data(), b, threads);
}

}  // namespace ms::operators
