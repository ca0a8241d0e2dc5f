// Dense kernels for x86-64-v4 (AVX-512).
#include "tables.hpp"
#define ISA v4
#define ISA_NAME "v4"
#define VECTOR_BYTES 64
namespace ms::v4 { namespace { constexpr int tile_vectors = 3, tile_columns = 8; constexpr Int packed_rows = 1400; } }
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
