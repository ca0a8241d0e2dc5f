// Dense kernels for x86-64-v2 (SSE4.2), and for every other processor with 16-byte vectors.
#include "tables.hpp"
#pragma GCC diagnostic ignored "-Wpsabi"       // pairs of complex numbers are wider than a register; all that take them are inlined
#define ISA v2
#define ISA_NAME "v2"
#define VECTOR_BYTES 16
namespace ms::v2 { namespace { constexpr int tile_vectors = 3, tile_columns = 4; constexpr Int packed_rows = 256; } }
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
