// Bindings of the incomplete L D L^T factor.

#include <nanobind/stl/optional.h>

#include "incomplete.hpp"
#include "native/bind.hpp"

namespace ms {
namespace {

template <class T>
void bind_ildl_inverse(nb::module_& m, const char* name) {
  using namespace nb::literals;
  using Inverse = ildl::Inverse<T>;
  nb::class_<Inverse>(m, name)
      .def("__init__", [](Inverse* self, const ildl::IncompleteFactor& factor, In<int32_t> row, In<double> scale, int threads) {
        Released free;
        new (self) Inverse(factor, row.data(), scale.data(), threads);
      }, "factor"_a, "row"_a, "scale"_a, "threads"_a)
      .def("solve", [](const Inverse& f, Block<const double> B, Block<double> X, int threads) {
        Released free;
        f.solve(strided(B), strided(X), extent(B, 1), threads);
      }, "B"_a, "X"_a, "threads"_a)
      .def_prop_ro("nbytes", &Inverse::nbytes);
}

// The coarse pattern alone, for the GPU.
void bind_level_pattern(nb::module_& m) {
  using namespace nb::literals;
  m.def("ildl_level_pattern", [](In<int32_t> tile_begin, In<int64_t> indptr, In<int32_t> indices, int64_t level) {
    const std::vector<int32_t> begin = to_vector(tile_begin);
    std::vector<int32_t> tile_of(begin.back());
    ildl::LevelPattern p;
    {
      Released free;
      for (size_t i = 0; i + 1 < begin.size(); ++i)
        std::fill(tile_of.begin() + begin[i], tile_of.begin() + begin[i + 1], static_cast<int32_t>(i));
      p = ildl::level_pattern(pattern(indptr, indices), begin, tile_of, level);
    }
    return nb::make_tuple(to_numpy(std::move(p.ptr)), to_numpy(std::move(p.column)), to_numpy(std::move(p.above_ptr)),
                           to_numpy(std::move(p.above)), to_numpy(std::move(p.order)), to_numpy(std::move(p.depth_ptr)));
  }, "tile_begin"_a, "indptr"_a, "indices"_a, "level"_a,
     "(ptr, column, above_ptr, above, order, depth_ptr) of LevelPattern");
}

void bind_incomplete(nb::module_& m) {
  using namespace nb::literals;
  using ildl::Incomplete;
  using ildl::IncompleteFactor;
  nb::class_<Incomplete>(m, "IldlIncomplete")
      .def("__init__", [](Incomplete* self, In<int32_t> tile_begin, In<int64_t> indptr, In<int32_t> indices, int64_t level) {
        Released free;
        new (self) Incomplete(to_vector(tile_begin), pattern(indptr, indices), level);
      }, "tile_begin"_a, "indptr"_a, "indices"_a, "level"_a)
      .def("factor", [](const Incomplete& f, In<int64_t> indptr, In<int32_t> indices, In<double> data,
                        const std::string& pivoting, double droptol, double max_fill, int threads) {
        using ildl::Pivoting;
        const Pivoting which = pivoting == "static" ? Pivoting::fixed : pivoting == "rook" ? Pivoting::rook : Pivoting::bunch_kaufman;
        Released free;
        return f.factor(pattern(indptr, indices), data.data(), {which, droptol, max_fill}, threads);
      }, "indptr"_a, "indices"_a, "data"_a, "pivoting"_a, "droptol"_a, "max_fill"_a, "threads"_a)
      .def_prop_ro("facts", [](const Incomplete& f) {
        nb::dict d;
        d["tiles"] = f.tiles();
        d["levels"] = f.pattern().depth_ptr.size() - 1;
        d["blocks"] = f.pattern().column.size() + f.tiles();
        return d;
      });
  nb::class_<IncompleteFactor>(m, "IldlIncompleteFactor")
      .def("extract", [](const IncompleteFactor& f) {
        return nb::make_tuple(copied(f.order), copied(f.columns.ptr), copied(f.columns.idx), copied(f.minus_values), copied(f.d),
                               copied(f.e));
      }, "(order, indptr, rows, minus values, d, e); L without its diagonal, rows unsorted")
      .def("order", [](const IncompleteFactor& f) { return copied(f.order); })
      .def_prop_ro("inertia", [](const IncompleteFactor& f) {
        return std::make_tuple(f.statistics.positive, f.statistics.negative, int64_t{0});
      })
      .def_prop_ro("nonzeros", [](const IncompleteFactor& f) { return f.columns.ptr.back() + f.n(); })
      .def_prop_ro("facts", [](const IncompleteFactor& f) {
        nb::dict d;
        d["stored"] = f.statistics.stored;
        d["pairs"] = f.statistics.pairs;
        d["perturbed"] = f.statistics.perturbed;
        d["dropped"] = f.statistics.dropped;
        return d;
      });
}

}  // namespace

void bind_ildl(nb::module_& m) {
  using namespace nb::literals;
  m.def("cut_tiles", [](In<int32_t> size, int32_t capacity, std::optional<In<int32_t>> parent) {
    const int32_t count = static_cast<int32_t>(size.shape(0));
    return to_numpy(ildl::cut_tiles(size.data(), count, capacity, parent ? parent->data() : nullptr));
  }, "size"_a, "capacity"_a, "parent"_a.none() = nb::none(), "First row of each tile, and the number of rows.");
  m.def("ildl_renumber", [](In<int64_t> indptr, In<int32_t> indices, In<int32_t> rows, int threads) {
    auto r = released([&] { return ildl::renumber(pattern(indptr, indices), rows.data(), threads); });
    return nb::make_tuple(to_numpy(std::move(r.matrix.ptr)), to_numpy(std::move(r.matrix.idx)), to_numpy(std::move(r.source)));
  }, "indptr"_a, "indices"_a, "rows"_a, "threads"_a, "(indptr, indices, source)");
  m.def("similar_vertices", [](In<int64_t> indptr, In<int32_t> indices, In<int32_t> size, int32_t capacity) {
    return to_numpy(released([&] { return ildl::similar_vertices(pattern(indptr, indices), size.data(), capacity); }));
  }, "indptr"_a, "indices"_a, "size"_a, "capacity"_a, "Group of each vertex.");
  bind_level_pattern(m);
  bind_incomplete(m);
  bind_ildl_inverse<double>(m, "IldlInverseDouble");
  bind_ildl_inverse<float>(m, "IldlInverseSingle");
}

}  // namespace ms
