// The table of the kernels of one instruction set. Included last by each v*.cpp.
namespace ms::ISA {
extern const LaneKernels lane_table;
extern const DenseTables tables;
const DenseTables tables{dense_double, dense_float, rows_double, rows_float, rows_complex, lu_double, lu_float, lu_complex,
                         ldl_double, ldl_float, tall, group_table, lane_table};
}
