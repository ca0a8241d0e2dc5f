// The choice between the compiled instruction sets.
#include "dense.hpp"

#include "dense_ldl.hpp"
#include "dense_lu.hpp"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <cstdlib>

namespace ms {

namespace v2 {
extern const Dense<double> dense_double;
extern const Dense<float> dense_float;
extern const DenseLU<double> lu_double;
extern const DenseLU<float> lu_float;
extern const DenseLU<Complex> lu_complex;
extern const DenseLdl<double> ldl_double;
extern const DenseLdl<float> ldl_float;
}
#ifdef __x86_64__
namespace v3 {
extern const Dense<double> dense_double;
extern const Dense<float> dense_float;
extern const DenseLU<double> lu_double;
extern const DenseLU<float> lu_float;
extern const DenseLU<Complex> lu_complex;
extern const DenseLdl<double> ldl_double;
extern const DenseLdl<float> ldl_float;
}
namespace v4 {
extern const Dense<double> dense_double;
extern const Dense<float> dense_float;
extern const DenseLU<double> lu_double;
extern const DenseLU<float> lu_float;
extern const DenseLU<Complex> lu_complex;
extern const DenseLdl<double> ldl_double;
extern const DenseLdl<float> ldl_float;
}
#endif

namespace {

#ifdef __x86_64__
// What the processor has and the system saves: 0 for x86-64-v2, 1 for v3, 2 for v4. By CPUID itself, because
// __builtin_cpu_supports needs a run-time library that clang-cl does not link. Source: Intel SDM, volume 1, sections 14.3, 15.2.
int machine_level() {
  constexpr unsigned fma = 1u << 12, osxsave = 1u << 27;                                           // leaf 1, ecx
  constexpr unsigned avx2 = 1u << 5, bmi2 = 1u << 8;                                               // leaf 7, ebx:
  constexpr unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;                //   f, dq, cd, bw, vl
  constexpr unsigned ymm = 0x6, zmm = 0xe6;                                                        // registers in XCR0
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (fma | osxsave)) != (fma | osxsave)) return 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  unsigned saved, high;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  if ((saved & ymm) != ymm || (b & (avx2 | bmi2)) != (avx2 | bmi2)) return 0;
  return (saved & zmm) == zmm && (b & avx512) == avx512 ? 2 : 1;
}
#endif

int best_level() {
#ifdef __x86_64__
  int level = machine_level();
  if (const char* wish = std::getenv("MESHSOLVE_ISA"))
    for (int i = 0; i < level; ++i)
      if (wish[0] == 'v' && std::atoi(wish + 1) == i + 2) level = i;
  return level;
#else
  return 0;
#endif
}

int level() {
  static const int chosen = best_level();
  return chosen;
}

}  // namespace

#ifdef __x86_64__
template <> const Dense<double>& dense<double>() {
  static const Dense<double>* const tables[] = {&v2::dense_double, &v3::dense_double, &v4::dense_double};
  return *tables[level()];
}
template <> const Dense<float>& dense<float>() {
  static const Dense<float>* const tables[] = {&v2::dense_float, &v3::dense_float, &v4::dense_float};
  return *tables[level()];
}
template <> const DenseLU<double>& dense_lu<double>() {
  static const DenseLU<double>* const tables[] = {&v2::lu_double, &v3::lu_double, &v4::lu_double};
  return *tables[level()];
}
template <> const DenseLU<float>& dense_lu<float>() {
  static const DenseLU<float>* const tables[] = {&v2::lu_float, &v3::lu_float, &v4::lu_float};
  return *tables[level()];
}
template <> const DenseLU<Complex>& dense_lu<Complex>() {
  static const DenseLU<Complex>* const tables[] = {&v2::lu_complex, &v3::lu_complex, &v4::lu_complex};
  return *tables[level()];
}
template <> const DenseLdl<double>& dense_ldl<double>() {
  static const DenseLdl<double>* const tables[] = {&v2::ldl_double, &v3::ldl_double, &v4::ldl_double};
  return *tables[level()];
}
template <> const DenseLdl<float>& dense_ldl<float>() {
  static const DenseLdl<float>* const tables[] = {&v2::ldl_float, &v3::ldl_float, &v4::ldl_float};
  return *tables[level()];
}
#else
template <> const Dense<double>& dense<double>() { return v2::dense_double; }
template <> const Dense<float>& dense<float>() { return v2::dense_float; }
template <> const DenseLU<double>& dense_lu<double>() { return v2::lu_double; }
template <> const DenseLU<float>& dense_lu<float>() { return v2::lu_float; }
template <> const DenseLU<Complex>& dense_lu<Complex>() { return v2::lu_complex; }
template <> const DenseLdl<double>& dense_ldl<double>() { return v2::ldl_double; }
template <> const DenseLdl<float>& dense_ldl<float>() { return v2::ldl_float; }
#endif

}  // namespace ms
