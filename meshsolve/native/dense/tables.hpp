// All kernels of one instruction set; each of v2.cpp, v3.cpp, v4.cpp makes its own by tables.inl. Those of native/lanes are compiled
// apart, without contraction.
#pragma once
#include "dense.hpp"
#include "group.hpp"
#include "ldl.hpp"
#include "lu.hpp"
#include "rows.hpp"
#include "tall.hpp"
#include "native/lanes/lanes.hpp"

namespace ms {

struct DenseTables {
  const Dense<double>& in_double;
  const Dense<float>& in_float;
  const RowKernels<double>& rows_double;
  const RowKernels<float>& rows_float;
  const RowKernels<Complex>& rows_complex;
  const DenseLU<double>& lu_double;
  const DenseLU<float>& lu_float;
  const DenseLU<Complex>& lu_complex;
  const DenseLdl<double>& ldl_double;
  const DenseLdl<float>& ldl_float;
  const TallKernels& tall;
  const GroupKernels& group;
  const LaneKernels& lanes;
};

}  // namespace ms
