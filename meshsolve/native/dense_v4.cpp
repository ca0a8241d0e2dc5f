// Dense kernels for x86-64-v4 (AVX-512).
#include "dense_tables.hpp"
#define ISA v4
#define ISA_NAME "v4"
#define VECTOR_BYTES 64
namespace ms::v4 { namespace { constexpr int tile_vectors = 3, tile_columns = 8; constexpr Int packed_rows = 1400; } }
#include "dense.inl"
#include "dense_column.inl"
#include "dense_rotate.inl"
#include "dense_rows.inl"
#include "dense_complex.inl"
#include "dense_lu.inl"
#include "dense_ldl.inl"
#include "dense_tables.inl"
