// All kernels of one instruction set; each of dense_v2.cpp, dense_v3.cpp, dense_v4.cpp makes its own by dense_tables.inl.
#pragma once
#include "dense.hpp"
#include "ldl.hpp"
#include "lu.hpp"

namespace ms {

struct DenseTables {
  const Dense<double>& in_double;
  const Dense<float>& in_float;
  const DenseLU<double>& lu_double;
  const DenseLU<float>& lu_float;
  const DenseLU<Complex>& lu_complex;
  const DenseLdl<double>& ldl_double;
  const DenseLdl<float>& ldl_float;
};

}  // namespace ms
