// Dense kernels for x86-64-v3 (AVX2).
#include "dense_tables.hpp"
#define ISA v3
#define ISA_NAME "v3"
#define VECTOR_BYTES 32
namespace ms::v3 { namespace { constexpr int tile_vectors = 3, tile_columns = 4; constexpr Int packed_rows = 240; } }
#include "dense.inl"
#include "dense_column.inl"
#include "dense_rotate.inl"
#include "dense_rows.inl"
#include "dense_complex.inl"
#include "dense_lu.inl"
#include "dense_ldl.inl"
#include "dense_tables.inl"
