// The choice between the compiled instruction sets.
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tables.hpp"

namespace ms {

#ifndef __x86_64__
#define MESHSOLVE_ONE_ISA v2
#endif
#ifdef MESHSOLVE_ONE_ISA                  // of a developer's build, see CMakeLists.txt, or of another processor
namespace MESHSOLVE_ONE_ISA { extern const DenseTables tables; }
#else
namespace v2 { extern const DenseTables tables; }
namespace v3 { extern const DenseTables tables; }
namespace v4 { extern const DenseTables tables; }
#endif

namespace {

#ifdef __x86_64__
// Instruction set that the processor has and the system saves: 0 for x86-64-v2, 1 for v3, 2 for v4. Uses CPUID, because
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

#ifdef MESHSOLVE_ONE_ISA
const DenseTables& best() {
#ifdef __x86_64__
  if (const std::string isa = MESHSOLVE_ONE_ISA::tables.in_double.isa; machine_level() < std::atoi(isa.c_str() + 1) - 2)
    throw std::runtime_error("meshsolve was built for x86-64-" + isa + " (MESHSOLVE_ISA), which this processor does not have; build it again");
#endif
  return MESHSOLVE_ONE_ISA::tables;
}
#else
const DenseTables& best() {
  int level = machine_level();
  if (const char* wish = std::getenv("MESHSOLVE_ISA"))
    for (int i = 0; i < level; ++i)
      if (wish[0] == 'v' && std::atoi(wish + 1) == i + 2) level = i;
  const DenseTables* const levels[] = {&v2::tables, &v3::tables, &v4::tables};
  return *levels[level];
}
#endif

const DenseTables& chosen() {
  static const DenseTables& tables = best();
  return tables;
}

}  // namespace

template <> const Dense<double>& dense<double>() { return chosen().in_double; }
template <> const Dense<float>& dense<float>() { return chosen().in_float; }
template <> const RowKernels<double>& row_kernels<double>() { return chosen().rows_double; }
template <> const RowKernels<float>& row_kernels<float>() { return chosen().rows_float; }
template <> const RowKernels<Complex>& row_kernels<Complex>() { return chosen().rows_complex; }
template <> const DenseLU<double>& dense_lu<double>() { return chosen().lu_double; }
template <> const DenseLU<float>& dense_lu<float>() { return chosen().lu_float; }
template <> const DenseLU<Complex>& dense_lu<Complex>() { return chosen().lu_complex; }
template <> const DenseLdl<double>& dense_ldl<double>() { return chosen().ldl_double; }
template <> const DenseLdl<float>& dense_ldl<float>() { return chosen().ldl_float; }
const GroupKernels& group_kernels() { return chosen().group; }
const TallKernels& tall_kernels() { return chosen().tall; }
const LaneKernels& lane_kernels() { return chosen().lanes; }

}  // namespace ms
