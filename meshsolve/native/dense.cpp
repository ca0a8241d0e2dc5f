// The choice between the compiled instruction sets.
#include <cstdlib>

#include "dense_tables.hpp"

namespace ms {

namespace v2 { extern const DenseTables tables; }
#ifdef __x86_64__
namespace v3 { extern const DenseTables tables; }
namespace v4 { extern const DenseTables tables; }
#endif

namespace {

#ifdef __x86_64__
const DenseTables& best() {
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  int level = v4 ? 2 : v3 ? 1 : 0;
  if (const char* wish = std::getenv("MESHSOLVE_ISA"))
    for (int i = 0; i < level; ++i)
      if (wish[0] == 'v' && std::atoi(wish + 1) == i + 2) level = i;
  const DenseTables* const levels[] = {&v2::tables, &v3::tables, &v4::tables};
  return *levels[level];
}
#else
const DenseTables& best() { return v2::tables; }
#endif

const DenseTables& chosen() {
  static const DenseTables& tables = best();
  return tables;
}

}  // namespace

template <> const Dense<double>& dense<double>() { return chosen().in_double; }
template <> const Dense<float>& dense<float>() { return chosen().in_float; }
template <> const DenseLU<double>& dense_lu<double>() { return chosen().lu_double; }
template <> const DenseLU<float>& dense_lu<float>() { return chosen().lu_float; }
template <> const DenseLU<Complex>& dense_lu<Complex>() { return chosen().lu_complex; }
template <> const DenseLdl<double>& dense_ldl<double>() { return chosen().ldl_double; }
template <> const DenseLdl<float>& dense_ldl<float>() { return chosen().ldl_float; }

}  // namespace ms
