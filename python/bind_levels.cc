#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>

#include <penstock/levels.h>

#include "bind_read.h"
#include "bind_value.h"

namespace penstock::inline v0::python {
namespace {

level_rule rule_of(const std::string& name) {
  if (name == "mean") return level_rule::mean;
  if (name == "nearest") return level_rule::nearest;
  if (name == "mode") return level_rule::mode;
  raise(error(errc::invalid_argument, "resampling must be 'mean', 'nearest' or 'mode', got '" + name + "'"));
}

level_convention convention_of(const std::string& name) {
  if (name == "ome") return level_convention::ome;
  if (name == "geozarr") return level_convention::geozarr;
  raise(error(errc::invalid_argument, "convention must be 'ome' or 'geozarr', got '" + name + "'"));
}

class level_appender_handle {
 public:
  level_appender_handle(const group_handle& in, const nb::list& paths, const nb::list& arrays, const std::string& rule,
                        const std::string& convention, const std::string& name, std::uint64_t queue_bytes,
                        unsigned threads) {
    std::vector<std::pair<std::string, array>> levels;
    for (std::size_t i = 0; i < nb::len(paths); ++i)
      levels.emplace_back(nb::cast<std::string>(paths[i]), nb::cast<const array_handle&>(arrays[i]).array());
    level_options options;
    options.rule = rule_of(rule);
    options.convention = convention_of(convention);
    options.name = name;
    options.appends.queue_bytes = queue_bytes;
    options.appends.threads = threads;
    made_.emplace(call_engine([&, g = in.group()] { return level_appender::make(g, std::move(levels), options); }));
  }
  level_appender_handle(const level_appender_handle&) = delete;
  level_appender_handle& operator=(const level_appender_handle&) = delete;
  ~level_appender_handle() { destroy_without_gil(made_); }

  /// `value` is an ndarray whose items have the dtype `dtype`, which may be one that is converted to the array's.
  void append(nb::handle value, nb::handle dtype, nb::handle progress) {
    exported_value rows;
    if (!rows.open(value.ptr(), dtype_of(dtype)))
      raise(error(errc::invalid_argument, "rows should be an ndarray of this dtype"));
    const auto turn = lock_without_gil(turns_);
    const auto work = [&](const progress_fn& now, std::chrono::nanoseconds) {
      const interruptible_waits asks(may_go_on);
      return made_->append(rows.view(), now);
    };
    if (!watch_without_gil(progress, 0, work)) throw_python_error();
  }
  void flush() {
    const auto turn = lock_without_gil(turns_);
    call_engine([&] { return made_->flush(); });
  }
  void close(group_handle& in) {
    const auto turn = lock_without_gil(turns_);
    const auto lock = in.group.lock_changes();
    group after = call_engine([&] { return made_->close(); });
    in.group = std::move(after);
  }

 private:
  std::recursive_timed_mutex turns_;  // threads take turns: a level_appender is not thread-safe
  std::optional<level_appender> made_;
};

nb::list levels_of_group(const group_handle& of) {
  nb::list out;
  for (const group_level& each : unwrap(levels_of(of.group()))) {
    nb::list scale, translation;
    for (const double value : each.scale) scale.append(value);
    for (const double value : each.translation) translation.append(value);
    out.append(nb::make_tuple(each.path, nb::tuple(scale), nb::tuple(translation)));
  }
  return out;
}

}  // namespace

void bind_levels(nb::module_& m) {
  locked_class<level_appender_handle>(m, "_LevelAppender",
                                      "Rows of an image and its levels: see penstock.create_levels.")
      .def(nb::init<const group_handle&, const nb::list&, const nb::list&, const std::string&, const std::string&,
                    const std::string&, std::uint64_t, unsigned>(),
           nb::arg("group"), nb::arg("paths"), nb::arg("arrays"), nb::arg("rule"), nb::arg("convention"),
           nb::arg("name"), nb::arg("queue_bytes"), nb::arg("threads"))
      .def("append", &level_appender_handle::append, nb::arg("rows"), nb::arg("dtype"),
           nb::arg("progress").none() = nb::none())
      .def("flush", &level_appender_handle::flush)
      .def("close", &level_appender_handle::close, nb::arg("group"));
  m.def("_levels_of", levels_of_group, nb::arg("group"), "(path, scale, translation) of each level, the finest first.");
  m.def(
      "_level_shape",
      [](const nb::tuple& image, unsigned number) {
        extents shape;
        check_rank(image.size());
        for (const nb::handle each : image) shape.push_back(nb::cast<std::uint64_t>(each));
        return to_tuple(level_shape(shape, number));
      },
      nb::arg("image"), nb::arg("number"));
}

}  // namespace penstock::inline v0::python
