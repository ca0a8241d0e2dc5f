// Bindings of the multifrontal engine: the assembly tree as an opaque object that factorizations share.
#include <nanobind/stl/shared_ptr.h>

#include "fronts.hpp"
#include "native/bind.hpp"

namespace ms {

void bind_fronts(nb::module_& m) {
  using namespace nb::literals;
  using fronts::AssemblyTree;
  nb::class_<AssemblyTree>(m, "AssemblyTree")
      .def("__init__", [](AssemblyTree* self, std::shared_ptr<symbolic::Symbolic> symbolic, In<int64_t> indptr, In<int32_t> indices,
                          int threads) {
        Released free;
        new (self) AssemblyTree(fronts::assembly_tree(std::move(symbolic), pattern(indptr, indices), threads));
      }, "symbolic"_a, "indptr"_a.noconvert(), "indices"_a.noconvert(), "threads"_a)
      .def_prop_ro("count", &AssemblyTree::count)
      .def_prop_ro("panel_scalars", [](const AssemblyTree& t) { return t.panel_ptr.back(); })
      .def("work_scalars", [](const AssemblyTree& t, int threads) {
        return fronts::work_scalars(t, fronts::schedule(t, threads), threads);
      }, "threads"_a, "What a numeric phase needs beside the panels: update matrices and the entries of A.");
}

}  // namespace ms
