// The factor of A + C C^T or A - C C^T from the factor of A, for C with few columns, on the GPU.
//
// CUDA counterpart of update.cpp, which has the sources. One thread block goes up the elimination tree. It takes the smallest front that
// a column of C has reached, rotates the columns at that front into it, and passes them to the parent. V has the columns of C, in the new
// numbering and in full length. The rotations of 32 pivots are computed together, by one warp on the diagonal block. Then each thread
// applies them to its rows below. A number is changed by the rotations in the order of update.cpp. Only columns that meet at a front
// are taken in another order, that of C. Cost: O(entries of L in these columns) for each column of C.
#include "factor/fronts/fronts.cuh"
#include "factor/fronts/supernodes.cuh"

namespace ms::cholesky {

using fronts::Front;

constexpr int step = 32;                // pivots whose rotations are computed together
constexpr int most_columns = 16;        // of C in one launch
constexpr int at_once = 8;              // entries of L that a thread loads before it rotates them
constexpr int together = 4;             // columns of C that a thread rotates an entry of L with
constexpr int nowhere = 0x7fffffff;     // front of a column that has passed a root

// Words of the result, as in update_cuda.py: `outside` is set by products.cu. Then one word for each front, 1 if it has changed.
enum Words { outside, failed, changed };

// Smallest part of a determinant that a downdate may leave.
template <class T> constexpr double smallest_left = 64 * (sizeof(T) == 8 ? 0x1p-52 : 0x1p-23);

template <class T> struct Update {
  const Front* fronts;
  const int *parent, *rows;
  int count;                            // fronts
  long long n;
  T *panels, *V;                        // V: (columns of C, n)
  // Points to row i of a front in the first column of V.
  __device__ T* row(const Front& f, int i) const { return V + (i < f.pivots ? f.first + i : rows[f.rows + i - f.pivots]); }
};

template <class T> struct Shared {      // memory of the thread block
  T* D;                                 // diagonal block, step x (step + 1)
  T* v;                                 // its rows of the columns of C, most_columns x step
  T* numbers;                           // four for each rotation: step x most_columns
  int* at;                              // front of each column of C
  int* here;                            // columns of C at the current front
};

// The front of column j.
template <class T> __device__ __forceinline__ int front_of(const Update<T>& t, int j) {
  return fronts::first_not(t.count - 1, [&](int s) { return t.fronts[s + 1].first <= j; });
}

// The rotation that makes v zero, and the new pivot; r as in rotate.inl. Avoids squares that could underflow or overflow although the
// result does not. Returns false if there is no pivot.
template <class T> __device__ __forceinline__ bool rotation_up(T& pivot, T v, T* r) {
  const T root = hypot(pivot, v), square = root * root;
  if (!(square - square == T(0))) return false;             // the matrix would overflow
  r[0] = r[2] = pivot / root;
  r[1] = v / root;
  r[3] = -r[1];
  pivot = root;
  return true;
}

// As above. `left`: remaining part of the determinant after a downdate by this column.
template <class T> __device__ __forceinline__ bool rotation_down(T& pivot, T v, T* r, double& left) {
  const T t = v / pivot, square = (T(1) - t) * (T(1) + t);
  left *= static_cast<double>(square);
  if (!(square > T(0) && left > smallest_left<T>)) return false;
  const T c = sqrt(square);
  pivot *= c;
  r[0] = T(1) / c;
  r[1] = -t / c;
  r[2] = c;
  r[3] = -t;
  return true;
}

// x := r[0] x + r[1] v, and v := r[2] v + r[3] x with the new x after a downdate, else with the old one.
template <bool is_down, class T> __device__ __forceinline__ void rotate(const T* r, T& x, T& v) {
  const T before = x;
  x = r[0] * before + r[1] * v;
  v = r[2] * v + r[3] * (is_down ? x : before);
}

template <class T> __device__ __forceinline__ void store(const T* r, T* numbers) {
#pragma unroll
  for (int d = 0; d < 4; ++d) numbers[d] = r[d];
}

// Rotations of `width` pivots with `count` columns, by one warp: a lane has a row of the diagonal block, and the determinant of a column
// of C. Returns the first row without a pivot, or `width`.
template <bool is_down, class T>
__device__ __forceinline__ int rotate_block(int width, int count, const Shared<T>& m, double& left) {
  const int lane = threadIdx.x & 31;
  for (int j = 0; j < width; ++j) {
    T x = m.D[lane + j * (step + 1)], pivot = __shfl_sync(full_warp, x, j);
    for (int k = 0; k < count; ++k) {
      T& v = m.v[lane + k * step];
      const T first = __shfl_sync(full_warp, v, j);         // the same in all lanes, and so are the rotation and the result
      double part = __shfl_sync(full_warp, left, m.here[k]);
      T r[4];
      if (!(is_down ? rotation_down(pivot, first, r, part) : rotation_up(pivot, first, r))) return j;
      if (lane == m.here[k]) left = part;
      if (lane > j) rotate<is_down>(r, x, v);
      if (lane == 0) store(r, m.numbers + 4 * (j * most_columns + k));
    }
    m.D[lane + j * (step + 1)] = lane == j ? pivot : x;
  }
  return width;
}

// Applies the rotations to a row below the diagonal block, with K columns from the first-th on. The row begins at x
// in the first pivot, and at y in the first column of V.
template <bool is_down, int K, class T>
__device__ __forceinline__ void rotate_row(long long leading, long long n, int width, int first, T* x, T* y, const Shared<T>& m) {
  T v[K];
#pragma unroll
  for (int k = 0; k < K; ++k) v[k] = y[m.here[first + k] * n];
  for (int from = 0; from < width; from += at_once) {
    T entry[at_once];
#pragma unroll
    for (int p = 0; p < at_once; ++p) entry[p] = from + p < width ? x[(from + p) * leading] : T(0);
#pragma unroll
    for (int p = 0; p < at_once; ++p) {
      if (from + p >= width) continue;
      const T* const r = m.numbers + 4 * ((from + p) * most_columns + first);
#pragma unroll
      for (int k = 0; k < K; ++k) rotate<is_down>(r + 4 * k, entry[p], v[k]);
      x[(from + p) * leading] = entry[p];
    }
  }
#pragma unroll
  for (int k = 0; k < K; ++k) y[m.here[first + k] * n] = v[k];
}

// Rotates `count` columns into `width` pivots of a front from pivot `from` on. Returns the first of them without a pivot, or `width`.
template <bool is_down, class T>
__device__ __forceinline__ int rotate_pivots(const Update<T>& t, const Front& f, int from, int count, const Shared<T>& m, double& left) {
  __shared__ int found;
  const int height = static_cast<int>(f.height), width = min(step, static_cast<int>(f.pivots) - from);
  T *const L = t.panels + f.panel + from * f.leading, *const pivots = t.row(f, from);
  for (int p = threadIdx.x; p < step * step; p += blockDim.x) {
    const int i = p % step, j = p / step;
    m.D[i + j * (step + 1)] = j <= i && i < width ? L[from + i + j * f.leading] : T(0);
  }
  for (int p = threadIdx.x; p < step * count; p += blockDim.x) {
    const int i = p % step, k = p / step;
    m.v[p] = i < width ? pivots[i + m.here[k] * t.n] : T(0);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    const int rotated = rotate_block<is_down>(width, count, m, left);
    if (threadIdx.x == 0) found = rotated;
  }
  __syncthreads();
  const int rotated = found;
  if (rotated < width) return rotated;
  for (int p = threadIdx.x; p < width * step; p += blockDim.x) {
    const int i = p % step, j = p / step;
    if (j <= i && i < width) L[from + i + j * f.leading] = m.D[i + j * (step + 1)];
  }
  for (int p = threadIdx.x; p < step * count; p += blockDim.x) {
    const int i = p % step, k = p / step;
    if (i < width) pivots[i + m.here[k] * t.n] = T(0);      // V is zero in the end, for the next columns of C
  }
  for (int row = from + width + threadIdx.x; row < height; row += blockDim.x) {
    T *const x = L + row, *const y = t.row(f, row);
    int first = 0;
    for (; first + together <= count; first += together) rotate_row<is_down, together>(f.leading, t.n, width, first, x, y, m);
    for (; first < count; ++first) rotate_row<is_down, 1>(f.leading, t.n, width, first, x, y, m);
  }
  __syncthreads();
  return width;
}

// Rotates the columns of C into the fronts on their paths to the roots.
template <bool is_down, class T>
__device__ __forceinline__ void go_up(const Update<T>& t, int columns, const Shared<T>& m, int* words) {
  double left = 1;
  for (;;) {
    int s = nowhere;
    for (int q = 0; q < columns; ++q) s = min(s, m.at[q]);
    if (s == nowhere) return;
    int count = 0;
    for (int q = 0; q < columns; ++q)
      if (m.at[q] == s) {
        if (threadIdx.x == 0) m.here[count] = q;
        ++count;
      }
    __syncthreads();                                        // `at` has been read, `here` is complete
    const Front f = t.fronts[s];
    const int above = t.parent[s];
    if (threadIdx.x == 0) words[changed + s] = 1;
    if (threadIdx.x < columns && m.at[threadIdx.x] == s) m.at[threadIdx.x] = above < 0 ? nowhere : above;
    for (int from = 0; from < f.pivots; from += step) {
      const int width = min(step, static_cast<int>(f.pivots) - from), rotated = rotate_pivots<is_down>(t, f, from, count, m, left);
      if (rotated == width) continue;
      if (threadIdx.x == 0) words[failed] = 1;
      return;
    }
  }
}

// V := the columns of C, which is zero before, and `at` := the fronts where their paths begin.
template <class T>
__device__ __forceinline__ void begin(const Update<T>& t, int columns, const int* ptr, const int* row, const double* value, const int* iperm,
                                      int* at) {
  if (threadIdx.x < columns) at[threadIdx.x] = nowhere;
  __syncthreads();
  for (int p = ptr[0] + threadIdx.x; p < ptr[columns]; p += blockDim.x) {
    int q = 0;
    while (p >= ptr[q + 1]) ++q;
    const int i = iperm[row[p]];
    t.V[q * t.n + i] = static_cast<T>(value[p]);
    atomicMin(at + q, i);
  }
  __syncthreads();
  if (threadIdx.x < columns && at[threadIdx.x] != nowhere) at[threadIdx.x] = front_of(t, at[threadIdx.x]);
  __syncthreads();
}

}  // namespace ms::cholesky

using namespace ms;
using namespace ms::cholesky;

// One thread block. Does nothing if C C^T is not in the pattern, or earlier columns of C have failed.
extern "C" __global__ void __launch_bounds__(256, 1)
k_rotate(int is_down, int columns, const int* ptr, const int* row, const double* value, const int* iperm, const long long* table,
         const int* parent, const int* rows, int count, long long n, SCALAR* panels, SCALAR* V, int* words) {
  __shared__ SCALAR D[step * (step + 1)];
  __shared__ SCALAR v[most_columns * step];
  __shared__ SCALAR numbers[4 * step * most_columns];
  __shared__ int at[most_columns];
  __shared__ int here[most_columns];
  if (words[outside] || words[failed]) return;
  const Update<SCALAR> t{reinterpret_cast<const Front*>(table), parent, rows, count, n, panels, V};
  begin(t, columns, ptr, row, value, iperm, at);
  const Shared<SCALAR> m{D, v, numbers, at, here};
  if (is_down) go_up<true>(t, columns, m, words);
  else go_up<false>(t, columns, m, words);
}
