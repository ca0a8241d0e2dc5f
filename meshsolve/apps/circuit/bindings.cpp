// Bindings of the netlist reader and of the matrix positions. Names are returned as one text, one per line. Python opens the
// files.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>

#include "native/bind.hpp"
#include "netlist.hpp"
#include "pattern.hpp"
#include "values.hpp"

namespace ms {
namespace {

// Bytes that are not UTF-8 are replaced, as in all names.
nb::str str(const std::string& text) {
  return nb::steal<nb::str>(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::bytes bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

// `load(path)` returns (content of a file, "") or (None, message in bytes). The content is a writable array of bytes that nothing else uses.
circuit::Load loader(const nb::object& load) {
  using Bytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  return [&load](const std::string& path) -> circuit::Loaded {
    return with_gil([&]() -> circuit::Loaded {
      const auto length = static_cast<Py_ssize_t>(path.size());
      const nb::object answer = load(nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), length)));
      const auto [content, error] = nb::cast<std::pair<nb::object, nb::bytes>>(answer);
      if (content.is_none()) return {{}, std::string(error.c_str(), error.size())};
      const std::shared_ptr<Bytes> owner(new Bytes(nb::cast<Bytes>(content)), [](Bytes* held) { with_gil([&] { delete held; }); });
      return {{{reinterpret_cast<char*>(owner->data()), owner->size()}, owner}, {}};
    });
  };
}

nb::tuple place(const circuit::Netlist& net, const circuit::Place& at) {
  const bool known = at.file < static_cast<int32_t>(net.files.size());
  return nb::make_tuple(bytes(known ? net.files[at.file] : ""), at.line);
}

nb::dict group(circuit::Group&& g) {
  nb::dict out;
  out["arity"] = g.arity;
  out["width"] = g.width;
  out["nodes"] = to_numpy(std::move(g.nodes));
  out["values"] = to_numpy(std::move(g.values));
  out["refs"] = to_numpy(std::move(g.refs));
  out["names"] = to_numpy(std::move(g.names));
  out["files"] = to_numpy(std::move(g.files));
  out["lines"] = to_numpy(std::move(g.lines));
  return out;
}

nb::dict contents(circuit::Netlist&& net) {
  nb::dict out, groups;
  for (size_t k = 0; k < circuit::letters().size(); ++k)
    groups[nb::str(&circuit::letters()[k], 1)] = group(std::move(net.groups[k]));
  nb::list waveforms, models, controls, files;
  for (auto& w : net.waveforms) waveforms.append(nb::make_tuple(nb::str(&w.kind, 1), to_numpy(std::move(w.values))));
  for (const auto& m : net.models) {
    nb::dict values;
    for (const auto& [key, value] : m.values) values[str(key)] = value;
    models.append(nb::make_tuple(str(m.name), str(m.type), values, place(net, m.place)));
  }
  for (const auto& c : net.controls) controls.append(nb::make_tuple(bytes(c.text), place(net, c.place)));
  for (const auto& f : net.files) files.append(bytes(f));
  out["groups"] = groups;
  out["waveforms"] = waveforms;
  out["models"] = models;
  out["controls"] = controls;
  out["files"] = files;
  out["nodes"] = bytes(std::move(net.nodes).joined());
  out["elements"] = bytes(std::move(net.elements).joined());
  out["title"] = bytes(net.title);
  out["temperature"] = net.temperatures.ambient;
  out["nominal_temperature"] = net.temperatures.nominal;
  return out;
}

// (contents, notes, None) or (None, notes, error). A note is (message, (file, line), count), an error (message, (file, line)).
nb::tuple read_netlist(nb::bytes path, nb::object load) {
  circuit::Netlist net;
  const std::string name(path.c_str(), path.size());
  const circuit::Load loads = loader(load);
  nb::object error = nb::none();
  try {
    Released free;
    circuit::read_netlist(name, loads, net);
  } catch (const circuit::DeckError& bad) {
    error = nb::make_tuple(bytes(bad.what), place(net, bad.place));
  }
  nb::list notes;
  for (const auto& n : net.notes.all()) notes.append(nb::make_tuple(bytes(n.what), place(net, n.place), n.count));
  if (!error.is_none()) return nb::make_tuple(nb::none(), notes, error);
  return nb::make_tuple(contents(std::move(net)), notes, error);
}

// The value of a number with an engineering suffix, or None for other words.
nb::object spice_number(std::string_view word) {
  double value = 0;
  return circuit::literal(word, value) ? nb::cast(value) : nb::none();
}

auto circuit_pattern(int32_t n, In<int32_t> rows, In<int32_t> columns) {
  auto p = released([&] { return circuit::positions(n, rows.data(), columns.data(), extent(rows)); });
  return nb::make_tuple(to_numpy(std::move(p.pattern.ptr)), to_numpy(std::move(p.pattern.idx)), to_numpy(std::move(p.slot)));
}

}  // namespace

void bind_circuit_analysis(nb::module_& m);      // analysis_bindings.cpp

void bind_circuit(nb::module_& m) {
  using namespace nb::literals;
  bind_circuit_analysis(m);
  m.def("read_netlist", read_netlist, "path"_a, "load"_a);
  m.def("spice_number", spice_number, "word"_a);
  m.def("circuit_pattern", circuit_pattern, "n"_a, "rows"_a, "columns"_a);
}

}  // namespace ms
