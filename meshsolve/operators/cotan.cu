// Cotangent Laplacian and lumped mass at moving positions: a thread a face, then a thread an edge, a row, a vertex.
//
// Twin of cotan.cpp. Every sum is gathered by its owner in the order of the faces, without atomics: the same bits in every run, and
// but for fused multiplications those of the CPU. cuda.py has the lists. Side c of face f is 3 f + c and joins corners c and c + 1.
// Source: Pinkall & Polthier 1993, "Computing discrete minimal surfaces and their conjugates", section 2.
#include "device/common.cuh"

namespace ms::operators {

struct Vector {
  double x, y, z;
};

__device__ inline Vector between(const double* x, int a, int b) {
  const double *const p = x + 3ll * a, *const q = x + 3ll * b;
  return {q[0] - p[0], q[1] - p[1], q[2] - p[2]};
}
__device__ inline double dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

}  // namespace ms::operators

using namespace ms;
using namespace ms::operators;

// area (m) of each face, half (3 m): minus half the cotangent opposite each side. Flat faces as in cotan.hpp.
extern "C" __global__ void __launch_bounds__(256)
k_faces(int m, const double* x, const int* faces, double flattest, double* area, double* half) {
  for (long long f = grid_begin(); f < m; f += grid_step()) {
    const int a = faces[3 * f], b = faces[3 * f + 1], c = faces[3 * f + 2];
    const Vector u = between(x, a, b), v = between(x, b, c), w = between(x, c, a);
    const double i = u.y * v.z - u.z * v.y, j = u.z * v.x - u.x * v.z, k = u.x * v.y - u.y * v.x;
    const double twice = sqrt(i * i + j * j + k * k);
    area[f] = 0.5 * twice;
    const double longest = fmax(fmax(dot(u, u), dot(v, v)), dot(w, w));
    const double scale = longest > 0 ? 0.5 / fmax(twice, flattest * longest) : 0.0;
    half[3 * f] = scale * dot(v, w);
    half[3 * f + 1] = scale * dot(w, u);
    half[3 * f + 2] = scale * dot(u, v);
  }
}

// out[k] = alpha * sum of values[item / per] over the items list[ptr[k]] ... list[ptr[k + 1] - 1], in this order.
extern "C" __global__ void __launch_bounds__(256)
k_gather(int count, const int* ptr, const int* list, int per, double alpha, const double* values, double* out) {
  for (long long k = grid_begin(); k < count; k += grid_step()) {
    double sum = 0;
    for (int p = ptr[k]; p < ptr[k + 1]; ++p) sum += alpha * values[list[p] / per];
    out[k] = sum;
  }
}

// The values of the Laplacian on its rows: minus the weight of the edge, -1 on the diagonal, which gets the sum.
extern "C" __global__ void __launch_bounds__(256)
k_rows(int n, const long long* indptr, const int* edge, const double* weight, double* data) {
  for (long long i = grid_begin(); i < n; i += grid_step()) {
    double sum = 0;
    long long diagonal = -1;
    for (long long p = indptr[i]; p < indptr[i + 1]; ++p) {
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

// How many products row i of A A has, and their keys i << 32 | column: A in compressed rows.
extern "C" __global__ void __launch_bounds__(256)
k_reach(int n, const long long* indptr, const int* indices, const long long* start, long long* count, long long* keys) {
  for (long long i = grid_begin(); i < n; i += grid_step()) {
    long long at = keys ? start[i] : 0;
    for (long long p = indptr[i]; p < indptr[i + 1]; ++p) {
      const int k = indices[p];
      if (!keys) {
        at += indptr[k + 1] - indptr[k];
        continue;
      }
      for (long long q = indptr[k]; q < indptr[k + 1]; ++q) keys[at++] = i << 32 | indices[q];
    }
    if (!keys) count[i] = at;
  }
}

// values[e] = sum over k of A(i, k) A(j, k) / mass[k] for the entry keys[e] = i << 32 | j: one walk along both ascending rows, so
// that (i, j) and (j, i) get the same bits.
extern "C" __global__ void __launch_bounds__(256)
k_square(long long count, const long long* keys, const long long* indptr, const int* indices, const double* data, const double* mass,
         double* values) {
  for (long long e = grid_begin(); e < count; e += grid_step()) {
    const long long i = keys[e] >> 32, j = keys[e] & 0xffffffff, end_i = indptr[i + 1], end_j = indptr[j + 1];
    double sum = 0;
    for (long long p = indptr[i], q = indptr[j]; p < end_i && q < end_j;) {
      const int a = indices[p], b = indices[q];
      if (a == b) sum += data[p] * data[q] / mass[a];
      p += a <= b;
      q += b <= a;
    }
    values[e] = sum;
  }
}
