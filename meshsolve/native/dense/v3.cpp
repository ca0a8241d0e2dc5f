// Dense kernels for x86-64-v3 (AVX2).
#include "tables.hpp"
#define ISA v3
#define ISA_NAME "v3"
#define VECTOR_BYTES 32
namespace ms::v3 { namespace { constexpr int tile_vectors = 3, tile_columns = 4; constexpr Int packed_rows = 240; } }
#include "dense.inl"
#include "complex.inl"
#include "column.inl"
#include "rows.inl"
#include "tall.inl"
#include "group.inl"
#include "rotate.inl"
#include "lu.inl"
#include "ldl.inl"
#include "tables.inl"
