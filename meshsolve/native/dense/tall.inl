// Products with tall blocks, see tall.hpp: one row of 8 values is held in registers. Included after rows.inl, under the same rules.

namespace ms::ISA {
namespace {

constexpr int width = static_cast<int>(tall_width);
constexpr int tall_rows = lanes<double> < width ? lanes<double> : width;     // rows of 8 sums that fit into the registers with operands

// H (tall_rows x 8) += Q^T W for the first tall_rows columns of Q.
template <bool fetches>
inline __attribute__((always_inline)) void project_tile(Int n, const double* Q, const double* W, double* H, const double* ahead) {
  Row<width, double> sums[tall_rows];
#pragma GCC unroll 8
  for (int c = 0; c < tall_rows; ++c) sums[c].read(H + c * width);
  for (Int i = 0; i < n; ++i) {
    Row<width, double> w;
    w.read(W + i * width);
    if (fetches) __builtin_prefetch(ahead + i * width);
#pragma GCC unroll 8
    for (int c = 0; c < tall_rows; ++c) sums[c].add(Q[i * width + c], w);
  }
#pragma GCC unroll 8
  for (int c = 0; c < tall_rows; ++c) sums[c].write(H + c * width);
}

void project_tall(Int n, const double* Q, const double* W, double* H, const double* ahead) {
  project_tile<true>(n, Q, W, H, ahead);
  for (int c = tall_rows; c < width; c += tall_rows) project_tile<false>(n, Q + c, W, H + c * width, ahead);
}

template <int R>
inline __attribute__((always_inline)) void add_rows_of_tile(const double* Q, const double* H, double* Z, const double* ahead) {
  Row<width, double> z[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    z[r].read(Z + r * width);
    __builtin_prefetch(ahead + r * width);
  }
#pragma GCC unroll 8
  for (int c = 0; c < width; ++c) {
    Row<width, double> h;
    h.read(H + c * width);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) z[r].add(Q[r * width + c], h);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) z[r].write(Z + r * width);
}

void add_tall(Int n, const double* Q, const double* H, double* Z, const double* ahead) {
  Int i = 0;
  for (; i + tall_rows <= n; i += tall_rows) add_rows_of_tile<tall_rows>(Q + i * width, H, Z + i * width, ahead + i * width);
  for (; i < n; ++i) add_rows_of_tile<1>(Q + i * width, H, Z + i * width, ahead + i * width);
}

constexpr TallKernels tall{project_tall, add_tall};

}  // namespace
}  // namespace ms::ISA
