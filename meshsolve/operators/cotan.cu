// Cotangent Laplacian and lumped mass for changing positions: one thread block per patch, intermediate results in shared memory.
//
// CPU counterpart: cotan.cpp. A thread block loads the positions of its patch's vertices (owned and ribbon) and computes the
// weights of its local faces. One thread sums each owned row in the order of the faces, without atomics. The bits are the same
// in every run; they differ from the CPU's only by fused multiply-adds. The ribbon has all faces at an owned vertex, so thread
// blocks are independent.
// `k_lay_out` computes once to which entry of a row each face adds (from the queries VV and VF). A heavy vertex has no ribbon:
// its row is copied from the complete rows of its neighbors.
// Memory traffic per step, bytes: 28 per local vertex, 6 per local face, 4 per local edge, 80 per owned vertex, 8 per entry
// written. On scans in patches of 512 faces the ribbons add 45 % to the vertices and 25 % to the faces: 215 bytes per vertex in
// one launch. Weights in global memory, gathered by edges, rows and vertices, took 480 bytes in five launches.
// Source: Pinkall & Polthier 1993, "Computing discrete minimal surfaces and their conjugates", section 2; RXMesh (Mahmoud,
// Porumbescu, Owens 2021), section 5.
#include "patches/patches.cuh"

namespace ms::operators {

using patches::Kind;
using patches::u16;

constexpr double kSmall = 1e-120, kEnlarge = 0x1p300, kHalfOfEquilateral = 0.28867513459481288;          // as in cotan.hpp
constexpr int kSteps = 4;
constexpr int kRowLanes = 8;                                // threads that write one row; most vertices have six neighbors

struct Vector {
  double x, y, z;
};

__device__ inline Vector at(const double* x, long long v) { return {x[3 * v], x[3 * v + 1], x[3 * v + 2]}; }
__device__ inline Vector between(Vector p, Vector q) { return {q.x - p.x, q.y - p.y, q.z - p.z}; }
__device__ inline double dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

__device__ inline Vector enlarged(Vector p) { return {p.x * kEnlarge, p.y * kEnlarge, p.z * kEnlarge}; }
__device__ inline double longest_of(Vector u, Vector v, Vector w) { return fmax(fmax(dot(u, u), dot(v, v)), dot(w, w)); }

// half[c] = minus half the cotangent opposite each side; returns a third of the area. Degenerate faces as in cotan.hpp.
__device__ __forceinline__ double measure(Vector u, Vector v, Vector w, double longest, double flattest, double* half) {
  const double i = u.y * v.z - u.z * v.y, j = u.z * v.x - u.x * v.z, k = u.x * v.y - u.y * v.x;
  const double twice = sqrt(i * i + j * j + k * k);
  const double doubled = fmax(twice, flattest * longest);
  const double scale = doubled > 0 ? 0.5 / doubled : 0.0;
  half[0] = scale * dot(v, w);
  half[1] = scale * dot(w, u);
  half[2] = scale * dot(u, v);
  return 0.5 * twice / 3;
}

// The same for a small face, in a larger unit. It is not inlined, because its registers would spill.
__device__ __noinline__ double measure_small(const double* x, const int* corner, double flattest, double* half) {
  double longest = 0, shrinkage = 1;
  Vector u = between(at(x, corner[0]), at(x, corner[1])), v = between(at(x, corner[1]), at(x, corner[2]));
  Vector w = between(at(x, corner[2]), at(x, corner[0]));
  for (int step = 0; !(longest > kSmall) && step < kSteps; ++step) {
    u = enlarged(u), v = enlarged(v), w = enlarged(w);
    longest = longest_of(u, v, w);
    shrinkage *= 1 / kEnlarge;
  }
  if (longest > 0) return measure(u, v, w, longest, flattest, half) * shrinkage * shrinkage;
  half[0] = half[1] = half[2] = -kHalfOfEquilateral;
  return 0;
}

__device__ __forceinline__ double measure(const double* x, const int* corner, double flattest, double* half) {
  const Vector a = at(x, corner[0]), b = at(x, corner[1]), c = at(x, corner[2]);
  const Vector u = between(a, b), v = between(b, c), w = between(c, a);
  const double longest = longest_of(u, v, w);
  return longest > kSmall ? measure(u, v, w, longest, flattest, half) : measure_small(x, corner, flattest, half);
}

// Contribution of a face to the row of one of its corners. It has the side that begins at the corner (3 face + corner), and the
// entries of the row for the next and the previous corner. The previous side ends at the corner.
struct Incident {
  int side, next, previous;
  __device__ static unsigned long long packed(int side, int next, int previous) {
    return static_cast<unsigned long long>(side) << 32 | static_cast<unsigned>(previous) << 16 | static_cast<unsigned>(next);
  }
  __device__ explicit Incident(unsigned long long word)
      : side(static_cast<int>(word >> 32)), next(word & 0xffff), previous((word >> 16) & 0xffff) {}
  __device__ int side_before() const { return side % 3 == 0 ? side + 2 : side - 1; }
};

// Row data of k_lay_out. `start` (row entries) and `incident_ptr` (faces) are pointers over the owned vertices patch by patch;
// heavy vertices have empty ranges.
struct Rows {
  const long long *start, *incident_ptr;
  const unsigned long long* incident;
  const long long *indptr, *diagonal;                       // pattern of the matrix, positions of the diagonal entries
};

// Computes the row of owned vertex number k into `row` and returns its mass.
__device__ __forceinline__ double sum_row(const Rows& R, long long k, int vertex, const double* half, const double* third,
                                          double* row) {
  const int count = static_cast<int>(R.start[k + 1] - R.start[k]);
  for (int e = 0; e < count; ++e) row[e] = 0;
  double mass = 0, sum = 0;
  for (long long q = R.incident_ptr[k]; q < R.incident_ptr[k + 1]; ++q) {
    const Incident face(R.incident[q]);
    row[face.next] += half[face.side];
    row[face.previous] += half[face.side_before()];
    mass += third[face.side / 3];
  }
  for (int e = 0; e < count; ++e) sum += row[e];
  row[R.diagonal[vertex] - R.indptr[vertex]] = 0 - sum;
  return mass;
}

// One patch. `work` has the positions, later overwritten by the rows; then 3 half cotangents and 1 third of the area per local
// face.
__device__ __forceinline__ void assemble(int p, const Kind& vertices, int faces, const u16* ev, const u16* fe, const Rows& R,
                                         const double* x, double flattest, double* work, double* data, double* mass) {
  const int locals = vertices.size(p), owned = vertices.owned(p);
  const int* const global = vertices.global(p);
  const long long first = vertices.owned_ptr[p], base = R.start[first];
  double* const half = work + max(3ll * locals, R.start[first + owned] - base);
  double* const third = half + 3 * faces;
  for (int i = threadIdx.x; i < 3 * locals; i += blockDim.x) work[i] = x[3ll * global[i / 3] + i % 3];
  __syncthreads();
  for (int f = threadIdx.x; f < faces; f += blockDim.x) {
    int corner[3];
    patches::corners(ev, fe + 3 * f, corner);
    third[f] = measure(work, corner, flattest, half + 3 * f);
  }
  __syncthreads();
  for (int r = threadIdx.x; r < owned; r += blockDim.x)
    if (R.start[first + r] < R.start[first + r + 1])
      mass[global[r]] = sum_row(R, first + r, global[r], half, third, work + (R.start[first + r] - base));
  __syncthreads();
  for (int r = threadIdx.x / kRowLanes; r < owned; r += blockDim.x / kRowLanes) {
    const double* const row = work + (R.start[first + r] - base);
    const int entries = static_cast<int>(R.start[first + r + 1] - R.start[first + r]);
    for (int e = threadIdx.x % kRowLanes; e < entries; e += kRowLanes) data[R.indptr[global[r]] + e] = row[e];
  }
}

}  // namespace ms::operators

using namespace ms;
using namespace ms::operators;

// Pattern of the Laplacian: the rows `ptr`, `idx` of the query VV with diagonal entries inserted; their positions go to `diagonal`.
extern "C" __global__ void __launch_bounds__(256)
k_insert_diagonal(int n, const long long* ptr, const int* idx, const long long* indptr, int* indices, long long* diagonal) {
  for (long long i = grid_begin(); i < n; i += grid_step()) {
    const int count = static_cast<int>(ptr[i + 1] - ptr[i]);
    const int *const row = idx + ptr[i], before = lower_bound(row, count, static_cast<int>(i));
    int* const out = indices + indptr[i];
    for (int k = 0; k < before; ++k) out[k] = row[k];
    out[before] = static_cast<int>(i);
    for (int k = before; k < count; ++k) out[k + 1] = row[k];
    diagonal[i] = indptr[i] + before;
  }
}

// The faces at each owned vertex, ascending (rows face_ptr, faces of the query VF), as words of Incident. One thread block per
// patch.
extern "C" __global__ void __launch_bounds__(256)
k_lay_out(const long long* vertex_ptr, const long long* vertex_owned, const int* vertex_ltog, const long long* edge_ptr,
          const long long* patch_face_ptr, const long long* face_owned, const int* face_ltog, const unsigned short* ev,
          const unsigned short* fe, const long long* face_ptr, const int* faces, const long long* indptr, const int* indices,
          const long long* incident_ptr, unsigned long long* incident) {
  const int p = blockIdx.x;
  const Kind vertex{vertex_ptr, vertex_owned, vertex_ltog}, face{patch_face_ptr, face_owned, face_ltog};
  const int* const global = vertex.global(p);
  for (int r = threadIdx.x; r < vertex.owned(p); r += blockDim.x) {
    const int v = global[r], length = static_cast<int>(indptr[v + 1] - indptr[v]);
    const long long begin = incident_ptr[vertex_owned[p] + r], end = incident_ptr[vertex_owned[p] + r + 1];
    for (long long q = begin; q < end; ++q) {
      const int f = face.local(p, faces[face_ptr[v] + (q - begin)]);
      int corner[3];
      patches::corners(ev + 2 * edge_ptr[p], fe + 3 * (patch_face_ptr[p] + f), corner);
      const int c = corner[0] == r ? 0 : corner[1] == r ? 1 : 2;
      const auto entry = [&](int k) { return lower_bound(indices + indptr[v], length, global[corner[k]]); };
      incident[q] = Incident::packed(3 * f + c, entry((c + 1) % 3), entry((c + 2) % 3));
    }
  }
}

// Values and masses of all vertices that are not heavy. A patch that does not fit into shared memory uses its part of `scratch`.
extern "C" __global__ void __launch_bounds__(256, 4)
k_laplacian(const long long* vertex_ptr, const long long* vertex_owned, const int* vertex_ltog, const long long* edge_ptr,
           const long long* face_ptr, const unsigned short* ev, const unsigned short* fe, const long long* start,
           const long long* incident_ptr, const unsigned long long* incident, const long long* indptr, const long long* diagonal,
           const double* x, double flattest, const long long* scratch_ptr, double* scratch, double* data, double* mass) {
  extern __shared__ double shared[];
  const int p = blockIdx.x;
  const Kind vertices{vertex_ptr, vertex_owned, vertex_ltog};
  const int faces = static_cast<int>(face_ptr[p + 1] - face_ptr[p]);
  const Rows R{start, incident_ptr, incident, indptr, diagonal};
  const u16 *const sides = fe + 3 * face_ptr[p], *const ends = ev + 2 * edge_ptr[p];
  if (scratch_ptr[p] == scratch_ptr[p + 1]) assemble(p, vertices, faces, ends, sides, R, x, flattest, shared, data, mass);
  else assemble(p, vertices, faces, ends, sides, R, x, flattest, scratch + scratch_ptr[p], data, mass);
}

// Rows of heavy vertices, one warp each, after k_laplacian. The weight of an edge to a vertex that is not heavy is copied from that
// vertex's row. Between two heavy vertices it is summed over the faces (rows face_ptr, faces of the query VF, corners of FV).
extern "C" __global__ void __launch_bounds__(256)
k_heavy(int count, const int* heavy, const long long* face_ptr, const int* faces, const int* corners, const long long* indptr,
        const int* indices, const long long* diagonal, const double* x, double flattest, double* data, double* mass) {
  for (long long h = grid_begin() / 32; h < count; h += grid_step() / 32) {
    const int v = heavy[h], lane = threadIdx.x & 31;
    double sum = 0, area = 0, half[3];
    for (long long e = indptr[v] + lane; e < indptr[v + 1]; e += 32) {
      const int w = indices[e], at_heavy = lower_bound(heavy, count, w);
      if (w == v) continue;
      double value = 0;
      if (at_heavy == count || heavy[at_heavy] != w) {
        value = data[indptr[w] + lower_bound(indices + indptr[w], static_cast<int>(indptr[w + 1] - indptr[w]), v)];
      } else {
        for (long long q = face_ptr[v]; q < face_ptr[v + 1]; ++q) {
          const int* const corner = corners + 3ll * faces[q];
          for (int c = 0; c < 3; ++c) {
            const int a = corner[c], b = corner[(c + 1) % 3];
            if (!(a == v && b == w) && !(a == w && b == v)) continue;
            measure(x, corner, flattest, half);
            value += half[c];
          }
        }
      }
      data[e] = value;
      sum += value;
    }
    for (long long q = face_ptr[v] + lane; q < face_ptr[v + 1]; q += 32) {
      const int* const corner = corners + 3ll * faces[q];
      area += measure(x, corner, flattest, half);
    }
    sum = warp_inclusive_sum(sum);
    area = warp_inclusive_sum(area);
    if (lane == 31) {
      data[diagonal[v]] = 0 - sum;
      mass[v] = area;
    }
  }
}

// Number of products in row i of A A, or their keys i << 32 | column if `keys` is given. A is in compressed rows.
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

// values[e] = sum over k of A(i, k) A(j, k) / mass[k] for the entry keys[e] = i << 32 | j. Both ascending rows are merged, so
// that (i, j) and (j, i) have the same bits.
extern "C" __global__ void __launch_bounds__(256)
k_square(long long count, const long long* keys, const long long* indptr, const int* indices, const double* data,
         const double* mass, double* values) {
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
