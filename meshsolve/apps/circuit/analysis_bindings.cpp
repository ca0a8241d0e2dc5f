// Bindings of the devices, the waveforms and the time steps. Arguments are checked in Python.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "native/bind.hpp"
#include "stepper.hpp"
#include "sweeps.hpp"

namespace ms {
namespace {

using circuit::DeviceSet, circuit::Ends, circuit::Waveform;

// The rows of a table as structures of its numbers.
template <class Row, class T> std::vector<Row> rows(const In<T>& table) {
  static_assert(sizeof(Row) % sizeof(T) == 0);
  std::vector<Row> out(static_cast<size_t>(extent(table)) * sizeof(T) / sizeof(Row));
  if (!out.empty()) std::memcpy(out.data(), table.data(), out.size() * sizeof(Row));
  return out;
}

// An array inside another Python object, converted if necessary.
template <class T> using Item = typename In<T>::Array;
template <class T> std::vector<T> vector_of(nb::handle from) {
  const Item<T> a = nb::cast<Item<T>>(from);
  return {a.data(), a.data() + a.size()};
}

template <class Fill> auto filled(size_t count, Fill&& fill) {
  std::vector<double> out(count);
  fill(out.data());
  return to_numpy(std::move(out));
}

// ---- devices ----------------------------------------------------------------------------------------------------------------

template <class List, class Item> nb::list listed(const List& all, Item&& item) {
  nb::list out;
  for (const auto& each : all) out.append(item(each));
  return out;
}

// The declarations of the table, one dict each.
nb::list device_table() {
  return listed(circuit::device_table(), [](const circuit::Kind& kind) {
    const circuit::Declaration& d = kind.what;
    const auto same = [](const char* name) { return nb::str(name); };
    nb::dict out, aliases;
    for (const auto& [other, name] : d.aliases) aliases[other] = name;
    out["letter"] = nb::str(&d.letter, 1), out["level"] = d.level, out["name"] = d.name;
    out["types"] = listed(d.types, same), out["terminals"] = listed(d.terminals, same);
    out["ignored"] = listed(d.ignored, same), out["unsupported"] = listed(d.unsupported, same);
    out["branches"] = listed(d.branches, [](const circuit::Branch& b) { return nb::make_tuple(b.a, b.b, b.conducts); });
    out["series"] = listed(d.series, [](const circuit::Series& s) { return nb::make_tuple(s.parameter, s.terminal); });
    out["parameters"] = listed(d.parameters, [](const circuit::ModelParameter& p) {
      return nb::make_tuple(p.name, p.unit, p.otherwise, static_cast<int>(p.range));
    });
    out["line"] = listed(d.line, [](const circuit::LineParameter& p) {
      return nb::make_tuple(p.name, p.unit, p.otherwise, static_cast<int>(p.range), p.initial);
    });
    out["aliases"] = aliases;
    return out;
  });
}

// The devices of a circuit. `kinds` has a tuple of arrays for each kind of the table: parameters of its models (models x
// parameters); model, type of the model, and line values of each device. Returns the devices, their series resistances by kind,
// and the first parameter out of range at its temperature, (kind, device, parameter, value) or None.
nb::tuple make_devices(const nb::list& kinds, double nominal, double gmin) {
  std::vector<std::shared_ptr<const circuit::Devices>> made;
  nb::list resistances;
  nb::object wrong = nb::none();
  for (size_t row = 0; row < kinds.size(); ++row) {
    const circuit::Kind& kind = circuit::device_table()[row];
    const auto [models, which, types, lines] = nb::cast<std::tuple<Item<double>, Item<int32_t>, Item<int32_t>, Item<double>>>(kinds[row]);
    const size_t count = which.shape(0), wide = kind.what.line.size() + 2, series = kind.what.series.size();
    std::vector<circuit::Given> given;
    for (size_t k = 0; k < count; ++k) {
      const double* line = lines.data() + k * wide;
      const double* model = models.data() + static_cast<size_t>(which(k)) * kind.what.parameters.size();
      given.push_back({model, line, types(k), line[wide - 2], nominal, line[wide - 1], gmin});
    }
    std::vector<double> ohm(count * series);
    circuit::OutOfRange bad;
    made.push_back(kind.make(given, ohm.data(), series, bad));
    resistances.append(to_numpy(std::move(ohm)));
    if (bad.parameter && wrong.is_none()) wrong = nb::make_tuple(row, bad.device, bad.parameter, bad.value);
  }
  return nb::make_tuple(std::make_shared<DeviceSet>(std::move(made)), resistances, wrong);
}

auto device_laws(const DeviceSet& all, In<double> v) {
  circuit::Laws out = all.empty();
  all.evaluate(v.data(), out);
  return nb::make_tuple(to_numpy(std::move(out.current)), to_numpy(std::move(out.conductance)), to_numpy(std::move(out.charge)),
                         to_numpy(std::move(out.capacitance)));
}

// Voltages of the next linearization, and true if they differ from v.
auto device_limits(const DeviceSet& all, In<double> v, In<double> before) {
  std::vector<double> out(all.branches);
  const bool changed = all.limit(v.data(), before.data(), out.data());
  return std::make_pair(to_numpy(std::move(out)), changed);
}

auto device_tolerances(const DeviceSet& all, In<double> v, double reltol, double vntol) {
  return filled(all.branches, [&](double* out) { all.tolerances(v.data(), reltol, vntol, out); });
}

auto device_start(const DeviceSet& all) {
  return filled(all.branches, [&](double* out) { all.start(out); });
}

// ---- waveforms: a table has one row for each source or shape ----------------------------------------------------------------

std::shared_ptr<Waveform> pulses(In<double> low, In<double> high, In<int64_t> shape, In<double> shapes, double late) {
  return std::make_shared<circuit::Pulses>(to_vector(low), to_vector(high), to_vector(shape), rows<circuit::PulseShape>(shapes),
                                           late);
}

std::shared_ptr<Waveform> sines(In<double> table, double steps_a_period, double faded) {
  return std::make_shared<circuit::Sines>(rows<circuit::Sine>(table), steps_a_period, faded);
}

std::shared_ptr<Waveform> exponentials(In<double> table) {
  return std::make_shared<circuit::Exponentials>(rows<circuit::Exponential>(table));
}

std::shared_ptr<Waveform> lines(In<int64_t> first, In<double> time, In<double> value, double late) {
  return std::make_shared<circuit::Lines>(to_vector(first), to_vector(time), to_vector(value), late);
}

template <class Source> auto values_at(const Source& all, double t) {
  return filled(static_cast<size_t>(all.size()), [&](double* out) { all.at(t, out); });
}

circuit::Sources sources(In<double> dc, const nb::list& parts) {
  std::vector<circuit::Sources::Part> all;
  for (const nb::handle part : parts) {
    const auto [which, wave] = nb::cast<std::pair<nb::object, std::shared_ptr<Waveform>>>(part);
    all.emplace_back(vector_of<int64_t>(which), wave);
  }
  return {to_vector(dc), std::move(all)};
}

// ---- time steps -------------------------------------------------------------------------------------------------------------

// Calls solve(a, s, x, guess, past) in Python, which returns (x, currents, charges), or None without convergence. Without devices
// it returns (x, None, None).
class PythonEquations : public circuit::Equations {
 public:
  explicit PythonEquations(nb::object solve) : solve_(std::move(solve)) {}

  bool solve(const circuit::Request& r, circuit::Solution& out) override {
    return with_gil([&] {
      const nb::object guess = r.guess ? nb::cast(copied(*r.guess)) : nb::none();
      const nb::object past = r.past ? nb::cast(copied(std::vector<double>(r.past, r.past + device_branches))) : nb::none();
      const nb::object answer = solve_(r.a, copied(*r.s), copied(*r.x), guess, past);
      if (answer.is_none()) return false;
      read(answer[0], out.x), read(answer[1], out.current), read(answer[2], out.charge);
      return true;
    });
  }

  size_t device_branches = 0;

 private:
  static void read(nb::handle from, std::vector<double>& to) {
    if (!from.is_none()) to = vector_of<double>(from);
  }

  nb::object solve_;
};

template <class T> T item(const nb::dict& from, const char* name) { return nb::cast<T>(from[name]); }
template <class T> std::vector<T> array(const nb::dict& from, const char* name) { return vector_of<T>(from[name]); }
std::vector<Ends> pairs(const nb::dict& from, const char* name) { return rows<Ends>(In<int32_t>(item<Item<int32_t>>(from, name))); }

circuit::Tolerances tolerances(const nb::dict& d) {
  return {item<double>(d, "reltol"), item<double>(d, "vntol"),  item<double>(d, "abstol"),
          item<double>(d, "chgtol"), item<double>(d, "trtol"), item<int32_t>(d, "newton_steps")};
}

circuit::Branches branches(const nb::dict& d) {
  return {item<int32_t>(d, "n"), pairs(d, "capacitors"), pairs(d, "current_sources"), array<int32_t>(d, "inductors"),
          array<int32_t>(d, "voltage_sources"), array<double>(d, "storage"), pairs(d, "device_ends"),
          item<std::shared_ptr<DeviceSet>>(d, "devices")};
}

circuit::Schedule schedule(const nb::dict& d) {
  return {item<double>(d, "unit"), item<double>(d, "longest"), item<double>(d, "same"), array<double>(d, "targets"),
          item<double>(d, "first_kept"), item<double>(d, "spacing"), item<bool>(d, "only_targets"), item<bool>(d, "trapezoidal"),
          item<bool>(d, "fixed"), item<int32_t>(d, "first_level"), item<int32_t>(d, "coarsest"), item<int32_t>(d, "smallest"),
          item<int32_t>(d, "jump")};
}

circuit::SmallSystem small_system(const nb::dict& d, int32_t n, std::shared_ptr<const DeviceSet> devices, std::vector<Ends> ends) {
  return {n, array<int32_t>(d, "indptr"), array<int32_t>(d, "indices"), array<double>(d, "fixed"),
          array<double>(d, "moving"), std::move(devices), std::move(ends), array<int64_t>(d, "slots"), array<int64_t>(d, "which"),
          array<double>(d, "sign"), array<double>(d, "floor"), item<double>(d, "share")};
}

class March {                     // a stepper with its equations
 public:
  March(const nb::dict& circuit_part, const circuit::Sources& volts, const circuit::Sources& amperes, const nb::dict& options,
        const nb::dict& times, In<int64_t> keep, In<double> x, In<double> y, nb::object small, nb::object solve, double most)
      : python_(std::move(solve)) {
    const circuit::Tolerances tolerance = tolerances(options);
    circuit::Branches parts = branches(circuit_part);
    python_.device_branches = parts.device_ends.size();
    if (!small.is_none())
      small_ = std::make_unique<circuit::SmallEquations>(
          small_system(nb::cast<nb::dict>(small), parts.n, parts.devices, parts.device_ends), tolerance, python_);
    auto start = std::make_shared<circuit::State>();
    start->x = to_vector(x), start->y = to_vector(y);
    start->slope.assign(start->y.size(), 0.0);
    circuit::Equations& equations = small_ ? static_cast<circuit::Equations&>(*small_) : python_;
    stepper_ = std::make_unique<circuit::Stepper>(std::move(parts), volts, amperes, equations, tolerance, schedule(times),
                                                  to_vector(keep), std::move(start), most);
  }

  int march(int64_t attempts) {
    return released([&] { return static_cast<int>(stepper_->march(attempts)); });
  }
  auto take() { return std::make_pair(to_numpy(stepper_->take_times()), to_numpy(stepper_->take_rows())); }
  auto failure() const {
    return std::make_tuple(stepper_->failed_at(), stepper_->failed_length(), stepper_->failed_by_newton(), !small_ || small_->was_singular());
  }
  auto grown() const {
    const auto& [unknown, size, since] = stepper_->growth();
    return std::make_tuple(unknown, size, since, stepper_->time());
  }
  auto counts() const {
    const circuit::Effort effort = small_ ? small_->effort() : circuit::Effort{};
    return std::make_tuple(stepper_->taken(), stepper_->rejected(), effort.newton_steps, effort.factorizations);
  }

 private:
  PythonEquations python_;
  std::unique_ptr<circuit::SmallEquations> small_;
  std::unique_ptr<circuit::Stepper> stepper_;
};

// ---- sweeps -----------------------------------------------------------------------------------------------------------------

// (points, keep) values in `out`, real and imaginary parts; returns the points that are not solved.
auto sweep_frequencies(const nb::dict& small, In<double> g, In<double> c, In<double> s, In<int64_t> keep, In<double> omega,
                       InOut<double> out, int threads) {
  const circuit::SmallSignals system{static_cast<int32_t>(extent(s) / 2), array<int32_t>(small, "indptr"), array<int32_t>(small, "indices"),
                                     to_vector(g), to_vector(c), rows<circuit::Complex>(s), to_vector(keep)};
  return to_numpy(released([&] {
    return circuit::sweep_frequencies(system, omega.data(), extent(omega), reinterpret_cast<circuit::Complex*>(out.data()), threads);
  }));
}

// Calls solve(s, x) in Python, which returns the operating point near x or raises an error.
class RestInPython : public circuit::Equations {
 public:
  explicit RestInPython(nb::object solve) : solve_(std::move(solve)) {}
  bool solve(const circuit::Request& r, circuit::Solution& out) override {
    with_gil([&] { out.x = vector_of<double>(solve_(copied(*r.s), copied(*r.x))); });
    return true;
  }

 private:
  nb::object solve_;
};

// (points, keep) values in `out`; returns numbers of Newton steps and of factorizations, and the largest current of a device.
auto sweep_source(const nb::dict& small, std::shared_ptr<DeviceSet> devices, In<int32_t> ends, const nb::dict& options, In<double> fixed,
                  const std::vector<std::pair<int32_t, double>>& moving, In<double> x, In<double> values, In<int64_t> keep,
                  InOut<double> out, nb::object solve) {
  RestInPython at_rest(std::move(solve));
  const auto n = static_cast<int32_t>(extent(fixed));
  circuit::SmallEquations equations(small_system(small, n, std::move(devices), rows<Ends>(ends)), tolerances(options), at_rest);
  const circuit::SourceSweep sweep{to_vector(fixed), moving, to_vector(keep)};
  std::vector<double> start = to_vector(x);
  const double largest = released(
      [&] { return circuit::sweep_source(sweep, equations, at_rest, std::move(start), values.data(), extent(values), out.data()); });
  return std::make_tuple(equations.effort().newton_steps, equations.effort().factorizations, largest);
}

}  // namespace

void bind_circuit_analysis(nb::module_& m) {
  using namespace nb::literals;
  m.def("device_table", device_table);
  m.def("make_devices", make_devices, "kinds"_a, "nominal"_a, "gmin"_a);
  nb::class_<DeviceSet>(m, "DeviceSet")
      .def_ro("branches", &DeviceSet::branches)
      .def_ro("stores", &DeviceSet::stores)
      .def("pattern", [](const DeviceSet& all) { return std::make_pair(copied(all.row), copied(all.column)); })
      .def("laws", device_laws, "v"_a)
      .def("limits", device_limits, "v"_a, "before"_a)
      .def("tolerances", device_tolerances, "v"_a, "reltol"_a, "vntol"_a)
      .def("start", device_start);
  nb::class_<Waveform>(m, "Waveform")
      .def("at", values_at<Waveform>, "t"_a)
      .def("next_corner", &Waveform::next_corner, "t"_a)
      .def("longest_step", &Waveform::longest_step, "t"_a);
  m.def("pulses", pulses, "low"_a, "high"_a, "shape"_a, "shapes"_a, "late"_a);
  m.def("sines", sines, "table"_a, "steps_a_period"_a, "faded"_a);
  m.def("exponentials", exponentials, "table"_a);
  m.def("lines", lines, "first"_a, "time"_a, "value"_a, "late"_a);
  nb::class_<circuit::Sources>(m, "Sources")
      .def("at", values_at<circuit::Sources>, "t"_a)
      .def("next_corner", &circuit::Sources::next_corner, "t"_a)
      .def("longest_step", &circuit::Sources::longest_step, "t"_a);
  m.def("sources", sources, "dc"_a, "parts"_a);
  m.def("sweep_frequencies", sweep_frequencies, "small"_a, "g"_a, "c"_a, "s"_a, "keep"_a, "omega"_a, "out"_a, "threads"_a);
  m.def("sweep_source", sweep_source, "small"_a, "devices"_a, "ends"_a, "tolerances"_a, "fixed"_a, "moving"_a, "x"_a, "values"_a, "keep"_a,
        "out"_a, "solve"_a);
  nb::class_<March>(m, "March")
      .def(nb::init<const nb::dict&, const circuit::Sources&, const circuit::Sources&, const nb::dict&, const nb::dict&,
                    In<int64_t>, In<double>, In<double>, nb::object, nb::object, double>(),
           "branches"_a, "volts"_a, "amperes"_a, "tolerances"_a, "schedule"_a, "keep"_a,
           "x"_a, "y"_a, "small"_a.none(), "solve"_a, "most"_a)
      .def("march", &March::march, "attempts"_a)
      .def("take", &March::take)
      .def("failure", &March::failure)
      .def("grown", &March::grown)
      .def("counts", &March::counts);
}

}  // namespace ms
