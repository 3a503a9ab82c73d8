#include <penstock/array_writer.h>
#include <penstock/save.h>
#include <penstock/shard_writer.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/copy/blocks.h"
#include "bind.h"
#include "bind_create.h"
#include "bind_read.h"

namespace penstock::inline v0::python {
namespace {

// File names are bytes: they need not be UTF-8.
nb::bytes name_of(const std::string& path) { return nb::bytes(path.data(), path.size()); }

nb::list names_of(std::span<const std::string> paths) {
  nb::list out;
  for (const std::string& each : paths) out.append(name_of(each));
  return out;
}

/// The items of an ndarray with any dtype that a buffer can describe: only `descr` has the dtype.
class exported_values {
 public:
  explicit exported_values(nb::handle values) {
    if (PyObject_GetBuffer(values.ptr(), &view_, PyBUF_STRIDES) != 0) throw_python_error();
    if (view_.ndim > static_cast<int>(kMaxRank)) {
      const int rank = view_.ndim;
      PyBuffer_Release(&view_);
      check_rank(static_cast<std::size_t>(rank));
    }
  }
  ~exported_values() { PyBuffer_Release(&view_); }
  exported_values(const exported_values&) = delete;
  exported_values& operator=(const exported_values&) = delete;

  tensor_view view() const {
    tensor_view out;
    out.data = static_cast<std::byte*>(view_.buf);
    out.type = unwrap(dtype::from_name("r" + std::to_string(8 * view_.itemsize)));
    for (int d = 0; d < view_.ndim; ++d) {
      out.extents.push_back(static_cast<std::uint64_t>(view_.shape[d]));
      out.strides.push_back(view_.strides[d]);
    }
    return out;
  }

 private:
  Py_buffer view_{};
};

shard_values values_of(const exported_values& items, const nb::bytes& descr) { return {items.view(), text_of(descr)}; }

}  // namespace

void bind_shard_writer(nb::module_& m) {
  locked_class<shard_writer>(m, "_ShardWriter", "Files of one pattern, one after the other: see penstock.ShardWriter.")
      .def_static(
          "make",
          [](const context_handle& with, const nb::bytes& pattern, const std::optional<nb::bytes>& manifest,
             bool own_format, const std::string& name) {
            shard_writer_options options;
            options.context = with.context;
            options.manifest = manifest ? std::optional(text_of(*manifest)) : std::nullopt;
            options.own_format = own_format;
            options.name = name;
            return unwrap(shard_writer::make(text_of(pattern), std::move(options)));
          },
          nb::arg("context"), nb::arg("pattern"), nb::arg("manifest").none(), nb::arg("own_format"), nb::arg("name"))
      .def(
          "write",
          [](shard_writer& self, nb::handle values, const nb::bytes& descr) {
            const exported_values items(values);
            return name_of(call_engine([&] { return self.write(values_of(items, descr)); }));
          },
          nb::arg("values"), nb::arg("descr"), "Writes the next file; returns its path.")
      .def(
          "write_array",
          [](shard_writer& self, const context_handle& with, nb::handle values, const nb::bytes& descr,
             const nb::dict& options, nb::handle mask) {
            const create_options how = create_options_of(with, nb::bytes(""), options);
            const exported_values items(values);
            std::optional<exported_values> valid;
            shard_values given = values_of(items, descr);
            if (!mask.is_none()) {
              valid.emplace(mask);
              given.mask = valid->view();
              given.mask->type = dtype(dtype_kind::unsigned_integer, 8);
            }
            return name_of(call_engine([&] { return self.write(given, how); }));
          },
          nb::arg("context"), nb::arg("values"), nb::arg("descr"), nb::arg("options"), nb::arg("mask").none(),
          "Writes the next Zarr array or TIFF with options of `create_array`; returns its path.")
      .def(
          "next",
          [](shard_writer& self, nb::handle values, const nb::bytes& descr) {
            const exported_values items(values);
            return name_of(call_engine([&] { return self.next(values_of(items, descr)); }));
          },
          nb::arg("values"), nb::arg("descr"), "The path of the next file, which the caller writes.")
      .def("add", &shard_writer::add, nb::arg("crc32c"), "The file that next named is written.")
      .def("close", [](shard_writer& self) { call_engine([&] { return self.close(); }); })
      .def("sync", [](const shard_writer& self) { call_engine([&] { return self.sync(); }); })
      .def("remove_left_over", [](const shard_writer& self) { call_engine([&] { return self.remove_left_over(); }); })
      .def(
          "left_over",
          [](const shard_writer& self, std::uint64_t count) {
            return names_of(call_engine([&] { return self.pattern().left_over(count); }));
          },
          nb::arg("count"), "What exists under the names of the numbers from count on.")
      .def(
          "path", [](const shard_writer& self, std::uint64_t number) { return name_of(self.pattern().path(number)); },
          nb::arg("number"))
      .def_prop_ro("pattern", [](const shard_writer& self) { return name_of(self.pattern().text()); })
      .def_prop_ro("folder", [](const shard_writer& self) { return name_of(self.pattern().folder()); })
      .def_prop_ro("suffix", [](const shard_writer& self) { return name_of(self.pattern().suffix()); })
      .def_prop_ro("checksums", [](const shard_writer& self) {
        return std::vector<std::uint32_t>(self.checksums().begin(), self.checksums().end());
      });
  m.def(
      "write_array",
      [](const store_handle& to, const context_handle& with, const nb::bytes& path, const nb::dict& options,
         nb::handle values, nb::handle progress) {
        const create_options how = create_options_of(with, path, options);
        const std::shared_ptr<store> where = to.store;
        const auto write = [&](const auto& from, save_options as, std::uint64_t bytes) {
          const auto work = [&](const progress_fn& now, std::chrono::nanoseconds) -> result<> {
            const interruptible_waits asks(may_go_on);
            as.progress = now;
            PENSTOCK_ASSIGN(const std::unique_ptr<array_writer> writer, begin_array(where, how));
            PENSTOCK_TRY(write_all(from, *writer, as));
            return writer->close();
          };
          if (!watch_without_gil(progress, bytes, work)) throw_python_error();
        };
        save_options as;
        if (options.contains("memory") && !options["memory"].is_none())
          as.memory_bytes = nb::cast<std::uint64_t>(options["memory"]);
        if (nb::isinstance<array_handle>(values)) {
          const array from = nb::cast<const array_handle&>(values).array();
          as.type = how.type;
          return write(from, as, bytes_of(from.shape(), as.type->item_bytes()));
        }
        const exported_values items(values);
        const tensor_view view = items.view();
        write(view, as, bytes_of(view.extents, view.type.item_bytes()));
      },
      nb::arg("store"), nb::arg("context"), nb::arg("path"), nb::arg("options"), nb::arg("values"),
      nb::arg("progress").none() = nb::none(),
      "Writes a new array of a format of one file, of items as stored: `type` is that of raw bytes. `values` is an "
      "ndarray, or an open array, which is read in blocks.");
  m.def(
      "save_shards",
      [](nb::handle values, const context_handle& with, const nb::bytes& pattern, const nb::dict& given,
         nb::handle progress) {
        save_shards_options how;
        how.context = with.context;
        const auto text = [&](const char* name) { return text_of(nb::cast<nb::bytes>(given[name])); };
        const auto number = [&](const char* name) { return nb::cast<std::optional<std::uint64_t>>(given[name]); };
        how.manifest = nb::object(given["manifest"]).is_none() ? std::nullopt : std::optional(text("manifest"));
        how.name = nb::cast<std::string>(given["name"]);
        how.rows = number("rows");
        how.shards = number("shards");
        how.descr = text("descr");
        for (const auto& [rows, options] : nb::cast<nb::dict>(given["arrays_of_rows"]))
          how.arrays_of_rows.emplace(nb::cast<std::uint64_t>(rows),
                                     create_options_of(with, nb::bytes(""), nb::cast<nb::dict>(options)));
        std::optional<exported_values> valid, items;
        if (const nb::object mask = given["mask"]; !mask.is_none()) {
          valid.emplace(mask);
          how.mask = valid->view();
          how.mask->type = dtype(dtype_kind::unsigned_integer, 8);
        }
        std::optional<array> from;
        if (nb::isinstance<array_handle>(values)) {
          from = nb::cast<const array_handle&>(values).array();
        } else {
          items.emplace(values);
        }
        const auto bytes = nb::cast<std::uint64_t>(given["bytes"]);
        const std::string names = text_of(pattern);
        std::vector<std::string> paths;
        const auto work = [&](const progress_fn& now, std::chrono::nanoseconds) -> result<> {
          const interruptible_waits asks(may_go_on);
          how.progress = now;
          if (from) {
            PENSTOCK_ASSIGN(paths, save_shards(*from, names, how));
          } else {
            PENSTOCK_ASSIGN(paths, save_shards(shard_values{items->view(), how.descr, how.mask}, names, how));
          }
          return {};
        };
        if (!watch_without_gil(progress, bytes, work)) throw_python_error();
        return names_of(paths);
      },
      nb::arg("values"), nb::arg("context"), nb::arg("pattern"), nb::arg("options"), nb::arg("progress").none(),
      "Writes an open array, or an ndarray, as many files; returns their paths.");
  m.def(
      "shard_edges",
      [](std::uint64_t length, std::optional<std::uint64_t> rows, std::optional<std::uint64_t> shards) {
        return unwrap(shard_edges(length, rows, shards));
      },
      nb::arg("length"), nb::arg("rows").none(), nb::arg("shards").none(), "Where shards of an array are cut.");
}

}  // namespace penstock::inline v0::python
