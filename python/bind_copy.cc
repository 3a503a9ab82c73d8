#include <penstock/chunk_lengths.h>
#include <penstock/compare.h>
#include <penstock/copy.h>

#include <string>
#include <string_view>
#include <utility>

#include "bind.h"

namespace penstock::inline v0::python {
namespace {

/// Calls the caller's function with progress, on any thread of the copy; signals are handled by the main thread. The
/// first exception is kept for the caller of the copy, who may be another thread.
class watched_copy {
 public:
  explicit watched_copy(nb::object progress) noexcept : progress_(std::move(progress)) {}

  bool go_on(const copy_progress& now) noexcept {
    if (!may_enter_python()) return false;
    const with_gil gil;
    try {
      if (is_main_thread() && PyErr_CheckSignals() != 0) throw_python_error();
      if (progress_.is_none()) return true;
      return !progress_(to_str(now.path), now.done_bytes, now.total_bytes).is(nb::handle(Py_False));
    } catch (const nb::python_error& failed) {
      keep(failed.value());
    } catch (const std::exception& failed) {
      set_error(failed);
      const nb::python_error made;
      keep(made.value());
    }
    return false;
  }

  /// Throws the kept exception. The GIL is held.
  void raise_kept() const {
    if (!raised_.is_valid()) return;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised_.ptr())), raised_.ptr());
    throw_python_error();
  }

 private:
  void keep(nb::handle exception) {
    if (!raised_.is_valid()) raised_ = nb::borrow(exception);
  }

  nb::object progress_, raised_;  // the GIL guards them
};

// From (stage, number, count).
copy_part part_of(const nb::tuple& given) {
  constexpr std::pair<std::string_view, copy_stage> kStages[] = {{"prepare", copy_stage::prepare},
                                                                 {"first", copy_stage::first},
                                                                 {"second", copy_stage::second},
                                                                 {"compare", copy_stage::compare},
                                                                 {"finish", copy_stage::finish}};
  copy_part out;
  const std::string name = utf8_of(given[0]);
  for (const auto& [each, stage] : kStages)
    if (each == name) out.stage = stage;
  out.number = nb::cast<std::uint64_t>(given[1]);
  out.count = nb::cast<std::uint64_t>(given[2]);
  return out;
}

nb::dict copy_node(const node& from, const store_handle& to, const nb::bytes& path, const nb::dict& given) {
  copy_options options;
  const auto find = [&](const char* name) -> nb::object {
    return given.contains(name) ? nb::object(given[name]) : nb::none();
  };
  const auto flag = [&](const char* name) { return !find(name).is_none() && nb::cast<bool>(find(name)); };
  const auto rule = [&](const char* name) -> std::optional<chunk_lengths> {
    const nb::object text = find(name);
    if (text.is_none()) return std::nullopt;
    return call_engine([&] { return chunk_lengths::parse(utf8_of(text), name); });
  };
  options.chunk_rule = rule("chunks");
  options.shard_rule = rule("shards");
  if (const nb::object codecs = find("codecs"); !codecs.is_none()) options.codecs_json = utf8_of(codecs);
  if (const nb::object format = find("zarr_format"); !format.is_none()) options.zarr_format = nb::cast<int>(format);
  if (const nb::object threads = find("threads"); !threads.is_none()) options.threads = nb::cast<unsigned>(threads);
  options.auto_shards = flag("auto_shards");
  options.no_shards = flag("no_shards");
  options.overwrite = flag("overwrite");
  options.resume = flag("resume");
  options.durable = flag("durable");
  options.check_only = flag("check_only");
  options.decode_once = flag("decode_once");
  options.verify = flag("verify");
  if (const nb::object memory = find("memory"); !memory.is_none())
    options.memory_bytes = nb::cast<std::uint64_t>(memory);
  if (const nb::object scratch = find("scratch"); !scratch.is_none()) {
    const auto folder = nb::cast<nb::bytes>(scratch);
    options.scratch.assign(folder.c_str(), folder.size());
  }
  if (const nb::object part = find("part"); !part.is_none()) options.part = part_of(tuple_of(part, 3, "a part"));
  watched_copy watch(find("progress"));
  options.progress = [&watch](const copy_progress& now) { return watch.go_on(now); };
  const place target{to.store, std::string(path.c_str(), path.size())};
  copy_report report;
  try {
    report = call_engine([&] { return copy(from, target, options); });
  } catch (const nb::python_error&) {
    watch.raise_kept();
    throw;
  }
  nb::dict out;
  out["groups"] = report.groups;
  out["arrays"] = report.arrays;
  out["objects_copied"] = report.objects_copied;
  out["objects_written"] = report.objects_written;
  out["objects_skipped"] = report.objects_skipped;
  out["bytes"] = report.bytes;
  nb::list steps;
  for (const copy_step& each : report.steps)
    steps.append(
        nb::make_tuple(to_str(each.path), to_str(each.plan), each.passes, each.memory_bytes, each.scratch_bytes));
  out["steps"] = steps;
  return out;
}

}  // namespace

void bind_copy(nb::module_& m) {
  m.def(
      "copy",
      [](const array_handle& from, const store_handle& to, nb::bytes path, nb::dict options) {
        return copy_node(node(from.array()), to, path, options);
      },
      nb::arg("source"), nb::arg("store"), nb::arg("path"), nb::arg("options"), "Copy an array or a group.");
  m.def("copy", [](const group_handle& from, const store_handle& to, nb::bytes path, nb::dict options) {
    return copy_node(node(from.group()), to, path, options);
  });
  m.def(
      "compare",
      [](const array_handle& from, const array_handle& made) {
        const array a = from.array(), b = made.array();
        call_engine([&] { return compare(a, b, [](const read_progress&) { return may_go_on(); }); });
      },
      nb::arg("source"), nb::arg("made"), "Read both arrays in blocks and compare their elements.");
  m.def(
      "parse_bytes",
      [](nb::bytes text) -> nb::object {
        const result<std::uint64_t> bytes = parse_bytes(text_of(text));
        return bytes.ok() ? nb::object(nb::int_(*bytes)) : nb::none();
      },
      nb::arg("text"), "A number of bytes such as `2GiB`; None for other text.");
}

}  // namespace penstock::inline v0::python
