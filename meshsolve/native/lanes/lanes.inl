// The kernels of lanes.hpp. Loops over lanes have a constant length and no branches, so that compilers vectorize them. No inline
// function of a std header, see dense.inl.

namespace ms::ISA {
namespace {

// ---- fluxes of unit gradients --------------------------------------------------------------------------------------------

constexpr double least_divisor = 1e-300;   // 0 / 0 becomes 0

// The power of two that takes a positive number to [1, 2); finite for 0 and for the largest ones.
inline __attribute__((always_inline)) double scale_to_one(double x) {
  constexpr long long exponent = 0x7ffLL << 52, one = 0x7feLL << 52, smallest = 1LL << 52;
  const long long bits = one - (__builtin_bit_cast(long long, x) & exponent);
  return __builtin_bit_cast(double, bits < smallest ? smallest : bits);
}

template <int K>
inline __attribute__((always_inline)) void fluxes(const double* flat, const double* u0, const double* u1, const double* u2,
                                                  double* second, double* third) {
  const double base = flat[0], along = flat[1], height = flat[2];
  for (int c = 0; c < K; ++c) {
    const double d1 = u1[c] - u0[c], d2 = u2[c] - u0[c];
    double x = d1 * height, y = d2 * base - d1 * along;              // the gradient except for its length
    const double ax = __builtin_fabs(x), ay = __builtin_fabs(y), scale = scale_to_one(ax < ay ? ay : ax);
    x *= scale;                                                      // far away heat is tiny: its squares underflow
    y *= scale;
    const double length = __builtin_sqrt(x * x + y * y), inverse = -1 / (length < least_divisor ? least_divisor : length);
    x *= inverse;
    y *= inverse;
    second[c] = x * height - y * along;
    third[c] = y * base;
  }
}

template <int K, bool all>
inline __attribute__((always_inline)) void add_flux(const int* corner, const double* flat, Int k, const double* u, double* b,
                                                    int begin, int end) {
  double second[K], third[K];
  const auto row = [&](int c) { return static_cast<Int>(corner[c]) * k; };
  const auto is_own = [&](int c) { return all || (corner[c] >= begin && corner[c] < end); };
  fluxes<K>(flat, u + row(0), u + row(1), u + row(2), second, third);
  if (is_own(1))
    for (int c = 0; c < K; ++c) b[row(1) + c] += second[c];
  if (is_own(2))
    for (int c = 0; c < K; ++c) b[row(2) + c] += third[c];
  if (is_own(0))
    for (int c = 0; c < K; ++c) b[row(0) + c] -= second[c] + third[c];
}

template <bool all>
void add_fluxes_of(Int m, const int* corner, const double* flat, Int k, const double* u, double* b, int begin, int end) {
  for (Int t = 0; t < m; ++t, corner += 3, flat += 3) {
    const auto is_own = [&](int c) { return corner[c] >= begin && corner[c] < end; };
    if (!all && !(is_own(0) | is_own(1) | is_own(2))) continue;
    Int c = 0;
    for (; c + 8 <= k; c += 8) add_flux<8, all>(corner, flat, k, u + c, b + c, begin, end);
    if (c + 4 <= k) add_flux<4, all>(corner, flat, k, u + c, b + c, begin, end), c += 4;
    for (; c < k; ++c) add_flux<1, all>(corner, flat, k, u + c, b + c, begin, end);
  }
}

void add_fluxes(Int m, const int* corner, const double* flat, Int k, const double* u, double* b, int begin, int end) {
  if (end < 0)
    add_fluxes_of<true>(m, corner, flat, k, u, b, begin, end);
  else
    add_fluxes_of<false>(m, corner, flat, k, u, b, begin, end);
}

// ---- rotations of vertices -----------------------------------------------------------------------------------------------

typedef double Four __attribute__((vector_size(32), aligned(8), may_alias));

void moments(const Rings& rings, const double* a, const double* x, Int begin, Int end, double* S, double* stretch) {
  double sums[kLanes][12];
  for (Int lane = 0; lane < kLanes; ++lane) {
    Four sum[3] = {};
    double squares = 0;
    if (const Int v = begin + lane; v < end) {
      const double own[3] = {x[3 * v], x[3 * v + 1], x[3 * v + 2]};
      for (int64_t p = rings.ptr[v]; p < rings.ptr[v + 1]; ++p) {
        const double* const y = x + 3 * static_cast<Int>(rings.other[p]);
        const Four weights = *reinterpret_cast<const Four*>(a + 4 * p);
        const double d[3] = {y[0] - own[0], y[1] - own[1], y[2] - own[2]};
        for (int j = 0; j < 3; ++j) sum[j] += weights * d[j];
        squares += weights[3] * (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
      }
    }
    for (int j = 0; j < 3; ++j) *reinterpret_cast<Four*>(sums[lane] + 4 * j) = sum[j];
    stretch[lane] = 0.5 * squares;
  }
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j)
      for (Int lane = 0; lane < kLanes; ++lane) S[kLanes * (3 * i + j) + lane] = sums[lane][4 * j + i];
}

constexpr int newton_steps = 12;           // 2 or 3 are usual from the rotation of the last iteration
constexpr double unique = 1e-10;           // smallest curvature of tr(R S), relative to |S|, of a unique maximum
constexpr double turned = 1e-8;            // squared angle of the last step; Newton's method is cubic here: an error of 1e-12 is left

// One step of all lanes; state[lane] is 1 while the lane goes on, 0 if it is done, -1 if it failed. Returns the number that go
// on.
inline int newton_step(const double* __restrict S, const double* __restrict least, double* __restrict q,
                       double* __restrict state) {
  double going = 0;
  for (int l = 0; l < kLanes; ++l) {
    const double w = q[l], x = q[kLanes + l], y = q[2 * kLanes + l], z = q[3 * kLanes + l];
    const double R[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
                         2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                         2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
    double M[9];
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j)
        M[3 * i + j] = R[3 * i] * S[j * kLanes + l] + R[3 * i + 1] * S[(3 + j) * kLanes + l] +
                       R[3 * i + 2] * S[(6 + j) * kLanes + l];
    const double a = M[4] + M[8], b = M[0] + M[8], c = M[0] + M[4];
    const double d = -0.5 * (M[1] + M[3]), e = -0.5 * (M[2] + M[6]), f = -0.5 * (M[5] + M[7]);
    const double g0 = M[5] - M[7], g1 = M[6] - M[2], g2 = M[1] - M[3];
    const double ab = a * b - d * d, de = d * e - a * f, df = d * f - b * e;
    const double determinant = c * ab + f * de + e * df;
    const bool definite = (a > least[l]) & (ab > least[l] * a) & (determinant > least[l] * ab);      // leading minors
    const double dc = e * f - d * c, scaled = 0.5 / determinant;     // half of [a d e; d b f; e f c]^-1 by cofactors
    const double h0 = scaled * ((b * c - f * f) * g0 + dc * g1 + df * g2);
    const double h1 = scaled * (dc * g0 + (a * c - e * e) * g1 + de * g2);
    const double h2 = scaled * (df * g0 + de * g1 + ab * g2);
    const double p0 = w - h0 * x - h1 * y - h2 * z, p1 = x + h0 * w + h1 * z - h2 * y;               // (1, h) q
    const double p2 = y + h1 * w + h2 * x - h0 * z, p3 = z + h2 * w + h0 * y - h1 * x;
    const double norm = 1 / __builtin_sqrt(p0 * p0 + p1 * p1 + p2 * p2 + p3 * p3);
    const bool moves = (state[l] > 0) & definite;
    q[l] = moves ? p0 * norm : w;
    q[kLanes + l] = moves ? p1 * norm : x;
    q[2 * kLanes + l] = moves ? p2 * norm : y;
    q[3 * kLanes + l] = moves ? p3 * norm : z;
    const double after = 4 * (h0 * h0 + h1 * h1 + h2 * h2) <= turned ? 0.0 : 1.0;
    const double next = state[l] > 0 ? (definite ? after : -1.0) : state[l];
    state[l] = next;
    going += next > 0 ? 1.0 : 0.0;
  }
  return static_cast<int>(going);
}

unsigned rotations(const double* S, double* q) {
  double least[kLanes] = {}, state[kLanes];
  for (int k = 0; k < 9; ++k)
    for (int l = 0; l < kLanes; ++l) {
      const double size = __builtin_fabs(S[kLanes * k + l]);
      least[l] = least[l] < size ? size : least[l];
    }
  for (int l = 0; l < kLanes; ++l) {
    least[l] *= unique;
    state[l] = least[l] > 0 ? 1.0 : -1.0;
  }
  for (int step = 0; step < newton_steps && newton_step(S, least, q, state) > 0; ++step) {}
  unsigned done = 0;
  for (int l = 0; l < kLanes; ++l) done |= state[l] == 0 ? 1u << l : 0u;
  return done;
}

void matrices(const double* __restrict q, const double* __restrict S, Int count, double* __restrict matrix,
              double* __restrict trace) {
  double R[9][kLanes], sums[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    const double w = q[l], x = q[kLanes + l], y = q[2 * kLanes + l], z = q[3 * kLanes + l];
    R[0][l] = 1 - 2 * (y * y + z * z), R[1][l] = 2 * (x * y - w * z), R[2][l] = 2 * (x * z + w * y);
    R[3][l] = 2 * (x * y + w * z), R[4][l] = 1 - 2 * (x * x + z * z), R[5][l] = 2 * (y * z - w * x);
    R[6][l] = 2 * (x * z - w * y), R[7][l] = 2 * (y * z + w * x), R[8][l] = 1 - 2 * (x * x + y * y);
    double sum = 0;
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) sum += R[3 * i + j][l] * S[kLanes * (3 * j + i) + l];
    sums[l] = sum;
  }
  for (int l = 0; l < kLanes; ++l) trace[l] = sums[l];
  for (Int l = 0; l < count; ++l)
    for (int j = 0; j < 3; ++j) *reinterpret_cast<Four*>(matrix + 12 * l + 4 * j) = Four{R[j][l], R[3 + j][l], R[6 + j][l], 0};
}

inline __attribute__((always_inline)) void add_column_sums(const double* columns, const double* weights, Four& sum) {
  for (int j = 0; j < 3; ++j) sum += *reinterpret_cast<const Four*>(columns + 4 * j) * weights[j];
}

void rotated_sums(const Rings& rings, const double* c, const double* own, const double* R, Int begin, Int end, double* b) {
  for (Int v = begin; v < end; ++v) {
    Four sum = {};
    int64_t p = rings.ptr[v];
    const int64_t last = rings.ptr[v + 1];
    for (; p < last && rings.other[p] < v; ++p) add_column_sums(R + 12 * static_cast<Int>(rings.other[p]), c + 4 * p, sum);
    add_column_sums(R + 12 * v, own + 3 * v, sum);
    for (; p < last; ++p) add_column_sums(R + 12 * static_cast<Int>(rings.other[p]), c + 4 * p, sum);
    *reinterpret_cast<Four*>(b + 4 * v) = sum;
  }
}

void add_rotated(const Rings& rings, const double* c, const double* own, const double* R, Int begin, Int end, double* b) {
  for (Int v = begin; v < end; ++v, R += 12) {
    const auto add = [&](Int u, const double* weights) {
      Four sum = *reinterpret_cast<const Four*>(b + 4 * u);
      add_column_sums(R, weights, sum);
      *reinterpret_cast<Four*>(b + 4 * u) = sum;
    };
    add(v, own + 3 * v);
    for (int64_t p = rings.ptr[v]; p < rings.ptr[v + 1]; ++p) add(rings.other[p], c + 4 * p);
  }
}

}  // namespace

extern const LaneKernels lane_table;
const LaneKernels lane_table{add_fluxes, moments, rotations, matrices, rotated_sums, add_rotated};

}  // namespace ms::ISA
