// The extension module meshsolve._core: each package binds its functions, and this file calls the bindings in order.
#include "bind.hpp"

namespace ms {

void bind_native(nb::module_&);
void bind_sparse(nb::module_&);
void bind_mesh(nb::module_&);
void bind_operators(nb::module_&);
void bind_patches(nb::module_&);
void bind_order(nb::module_&);
void bind_symbolic(nb::module_&);
void bind_fronts(nb::module_&);
void bind_trisolve(nb::module_&);
void bind_cholesky(nb::module_&);
void bind_parac(nb::module_&);
void bind_krylov(nb::module_&);
void bind_matching(nb::module_&);
void bind_lu(nb::module_&);
void bind_ldlt(nb::module_&);
void bind_ildl(nb::module_&);
void bind_eigen(nb::module_&);
void bind_circuit(nb::module_&);

}  // namespace ms

NB_MODULE(_core, m) {
  nanobind::set_leak_warnings(false);          // a factor may be alive when Python ends
  m.doc() = "C++ core of meshsolve. Call it through the package, which checks arguments.";
  ms::bind_native(m);
  ms::bind_sparse(m);
  ms::bind_mesh(m);
  ms::bind_operators(m);
  ms::bind_patches(m);
  ms::bind_order(m);
  ms::bind_symbolic(m);
  ms::bind_fronts(m);
  ms::bind_trisolve(m);
  ms::bind_cholesky(m);
  ms::bind_parac(m);
  ms::bind_krylov(m);
  ms::bind_matching(m);
  ms::bind_lu(m);
  ms::bind_ldlt(m);
  ms::bind_ildl(m);
  ms::bind_eigen(m);
  ms::bind_circuit(m);
}
