// Bindings of the multifrontal engine: the assembly tree as an opaque object that factorizations share.
#include <nanobind/stl/shared_ptr.h>

#include <stdexcept>

#include "fronts.hpp"
#include "native/bind.hpp"

namespace ms {

void bind_fronts(nb::module_& m) {
  using namespace nb::literals;
  using fronts::AssemblyTree;
  nb::class_<AssemblyTree>(m, "AssemblyTree")
      .def("__init__", [](AssemblyTree* self, std::shared_ptr<symbolic::Bound> symbolic, In<int64_t> indptr, In<int32_t> indices, int threads) {
        Released free;
        new (self) AssemblyTree(fronts::assembly_tree(std::move(symbolic), pattern(indptr, indices), threads));
      }, "symbolic"_a, "indptr"_a.noconvert(), "indices"_a.noconvert(), "threads"_a)
      .def_prop_ro("count", &AssemblyTree::count)
      .def_prop_ro("panel_scalars", [](const AssemblyTree& t) { return t.panel_ptr.back(); })
      .def("stack_scalars", [](const AssemblyTree& t, int threads) {
        const fronts::Schedule plan = fronts::schedule(t, threads);
        return threads * (plan.square[0] + plan.square[1]);
      }, "threads"_a);
}

}  // namespace ms
