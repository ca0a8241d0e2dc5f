// Bindings of the multifrontal engine: the assembly tree as an opaque object, shared by factorizations.
#include <nanobind/stl/string.h>

#include <nanobind/stl/shared_ptr.h>

#include "fronts.hpp"
#include "native/bind.hpp"
#include "subtrees.hpp"
#include "values.hpp"

namespace ms {
namespace {

using fronts::AssemblyTree;

template <auto member> auto of_tree(nb::handle_t<AssemblyTree> self) {
  return view(nb::cast<AssemblyTree&>(self).*member, self);
}

template <class T, Buffer<T> AssemblyTree::*member> auto of_entries(nb::handle_t<AssemblyTree> self) {
  const AssemblyTree& tree = nb::cast<AssemblyTree&>(self);
  return view((tree.*member).data(), static_cast<size_t>(tree.entries()), self);
}

void translate_lost(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (const fronts::FactorLost& e) {
    nb::object error = nb::module_::import_("meshsolve.errors").attr("OutOfMemoryError");
    PyErr_SetString(error.ptr(), e.what());
  } catch (const fronts::FactorLostOnDisk& e) {
    nb::object error = nb::module_::import_("meshsolve.errors").attr("OutOfMemoryError");
    PyErr_SetString(error.ptr(), e.what());
  } catch (const fronts::FactorLostInRounding& e) {
    nb::object error = nb::module_::import_("meshsolve.errors").attr("NotPositiveDefiniteError");
    PyErr_SetString(error.ptr(), e.what());
  }
}

}  // namespace

void bind_fronts(nb::module_& m) {
  using namespace nb::literals;
  nb::register_exception_translator(translate_lost);
  m.attr("lost_in_rounding") = fronts::FactorLostInRounding().what();
  m.def("leading_dimension", &fronts::leading_dimension, "height"_a, "Leading dimension of a panel of so many rows.");
  m.def("leaf_subtrees", [](In<int32_t> parent, In<int64_t> panel, In<int64_t> update, int64_t of_warp, int64_t of_block) {
    const size_t count = parent.shape(0);
    fronts::LeafSubtrees t = released([&] {
      return fronts::leaf_subtrees({parent.data(), count}, {panel.data(), count}, {update.data(), count}, of_warp, of_block);
    });
    return nb::make_tuple(to_numpy(std::move(t.owner)), to_numpy(std::move(t.is_root)), to_numpy(std::move(t.panel_at)),
                          to_numpy(std::move(t.update_at)), to_numpy(std::move(t.begin)), to_numpy(std::move(t.depth)));
  }, "parent"_a, "panel"_a, "update"_a, "of_warp"_a, "of_block"_a, "As LeafSubtrees in subtrees.hpp, a tuple of its arrays.");
  nb::class_<AssemblyTree>(m, "AssemblyTree")
      .def("__init__", [](AssemblyTree* self, std::shared_ptr<symbolic::Symbolic> symbolic, In<int64_t> indptr, In<int32_t> indices,
                          int threads) {
        Released free;
        new (self) AssemblyTree(fronts::assembly_tree(std::move(symbolic), pattern(indptr, indices), threads));
      }, "symbolic"_a, "indptr"_a, "indices"_a, "threads"_a)
      .def_prop_ro("count", &AssemblyTree::count)
      .def_prop_ro("nbytes", &AssemblyTree::nbytes)
      .def_prop_ro("child_ptr", &of_tree<&AssemblyTree::child_ptr>)
      .def_prop_ro("child", &of_tree<&AssemblyTree::child>)
      .def_prop_ro("relative", &of_tree<&AssemblyTree::relative>)
      .def_prop_ro("entry_ptr", &of_tree<&AssemblyTree::entry_ptr>)
      .def_prop_ro("entry_source", &of_entries<uint32_t, &AssemblyTree::entry_source>)
      .def_prop_ro("entry_row", &of_entries<int32_t, &AssemblyTree::entry_row>)
      .def("indices", [](const AssemblyTree& t, In<int64_t> indptr) {
        return to_numpy(released([&] { return fronts::analyzed_indices(t, indptr.data()); }));
      }, "indptr"_a, "Column indices of the analyzed pattern with these row pointers.")
      .def("tasks", [](const AssemblyTree& t, int threads, const std::string& use) {
        const auto plan = fronts::schedule(t, threads, use == "factor"  ? fronts::Use::factor
                                                       : use == "solve" ? fronts::Use::solve
                                                                        : fronts::Use::solve_small_subtrees);
        nb::list ranges;
        for (const auto& task : plan.tasks) ranges.append(nb::make_tuple(task.begin, task.end));
        return nb::make_tuple(ranges, copied(plan.top), copied(plan.last));
      }, "threads"_a, "use"_a = "factor", "Ranges of fronts as (begin, end), fronts in no subtree, and those that all threads share.")
      .def("work_scalars", [](const AssemblyTree& t, int threads) { return fronts::work_scalars(t, threads, fronts::packed_lower); }, "threads"_a,
           "Scalars of a numeric phase in addition to the panels: update matrices and the entries of A.");
}

}  // namespace ms
