// Products with tall blocks, see tall.hpp: one row of 8 values is held in registers. Included after rows.inl, under the same rules.

namespace ms::ISA {
namespace {

constexpr int width = static_cast<int>(tall_width);

void project_tall(Int n, const double* Q, const double* W, double* H) {
  Row<width, double> sums[width] = {};
  for (Int i = 0; i < n; ++i) {
    Row<width, double> w;
    w.read(W + i * width);
#pragma GCC unroll 8
    for (int c = 0; c < width; ++c) sums[c].add(Q[i * width + c], w);
  }
#pragma GCC unroll 8
  for (int c = 0; c < width; ++c) sums[c].write(H + c * width);
}

void add_tall(Int n, const double* Q, const double* H, double* Z) {
  Row<width, double> h[width];
#pragma GCC unroll 8
  for (int c = 0; c < width; ++c) h[c].read(H + c * width);
  for (Int i = 0; i < n; ++i) {
    Row<width, double> z;
    z.read(Z + i * width);
#pragma GCC unroll 8
    for (int c = 0; c < width; ++c) z.add(Q[i * width + c], h[c]);
    z.write(Z + i * width);
  }
}

constexpr TallKernels tall{project_tall, add_tall};

}  // namespace
}  // namespace ms::ISA
