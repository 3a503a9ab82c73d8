#include <nanobind/stl/optional.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include <penstock/appender.h>

#include "bind_items.h"
#include "bind_value.h"

namespace penstock::inline v0::python {
namespace {

/// Rows up to this size are copied with the GIL held, because getting the GIL back from another thread takes longer.
constexpr std::uint64_t kMostBytesWithGil = std::uint64_t{64} << 10;

PyObject* rows_of() {
  static PyObject* const function =
      nb::object(nb::module_::import_("penstock.core.appender").attr("rows_of")).release().ptr();
  return function;
}

class appender_handle {
 public:
  appender_handle(const array_handle& to, std::size_t axis, std::uint64_t queue_bytes, unsigned threads, bool durable,
                  bool write_empty_chunks, double publish_interval)
      : to_(to.array()) {
    appender_options options;
    options.queue_bytes = queue_bytes;
    options.threads = threads;
    options.durable = durable;
    options.write_empty_chunks = write_empty_chunks;
    options.publish_interval = std::chrono::milliseconds(static_cast<std::int64_t>(publish_interval * 1000));
    made_.emplace(call_engine([&, a = to.array()] { return appender::make(a, axis, options); }));
  }
  appender_handle(const appender_handle&) = delete;
  appender_handle& operator=(const appender_handle&) = delete;
  ~appender_handle() { destroy_without_gil(made_); }

  void append(nb::handle value) {
    const dtype type = to_.array().type();
    exported_value rows;
    if (!type.variable_length() && is_native(to_, value.ptr()) && rows.open(value.ptr(), type))
      return take(rows.view());
    const nb::object made = nb::steal(PyObject_CallFunctionObjArgs(rows_of(), value.ptr(), to_.dtype.ptr(), nullptr));
    if (!made.is_valid()) throw nb::python_error();
    if (type.variable_length()) {
      item_block items(type, made);
      return take(items.view(), items.arena());
    }
    exported_value converted;
    if (!converted.open(made.ptr(), type))
      raise(error(errc::internal, "converted rows have no memory of the array's dtype"));
    take(converted.view());
  }

  /// Rows in device memory, of the array's dtype. `strides` are in bytes; `keeps` owns the memory. With `stream` they
  /// are copied in its order, and this does not wait for the device.
  void append_device(std::uintptr_t address, const nb::tuple& shape, const nb::tuple& strides,
                     std::optional<std::uintptr_t> stream, nb::object keeps) {
    if (shape.size() > kMaxRank || strides.size() != shape.size())
      raise(error(errc::invalid_argument, "the rows have too many dimensions"));
    tensor_view rows;
    rows.data = reinterpret_cast<std::byte*>(address);
    rows.type = to_.array().type();
    rows.space = memory_space::cuda;
    for (const nb::handle each : shape) rows.extents.push_back(nb::cast<std::uint64_t>(each));
    for (const nb::handle each : strides) rows.strides.push_back(nb::cast<std::int64_t>(each));
    const std::shared_ptr<const void> owner(keeps.release().ptr(), drop_reference);
    call_engine([&] { return made_->append(rows, owner, stream); });
  }

  /// `to` receives the stored shape.
  void flush(array_handle& to) {
    const auto lock = to.array.lock_changes();
    to.array = call_engine([&] { return made_->flush(); });
  }
  void close(array_handle& to) {
    const auto lock = to.array.lock_changes();
    to.array = call_engine([&] { return made_->close(); });
  }
  std::uint64_t rows() const { return made_->rows(); }
  std::uint64_t stored_rows() const { return made_->stored_rows(); }
  std::uint64_t queued_bytes() const { return made_->queued_bytes(); }
  bool closed() const { return made_->closed(); }

 private:
  void take(const tensor_view& rows, const std::shared_ptr<const void>& keeps = nullptr) {
    std::uint64_t bytes = rows.type.item_bytes();
    for (const std::uint64_t each : rows.extents) bytes *= each;
    if (bytes <= kMostBytesWithGil && unwrap(made_->try_append(rows, keeps))) return;
    call_engine([&] { return made_->append(rows, keeps); });
  }

  array_handle to_;
  std::optional<appender> made_;
};

}  // namespace

void bind_appender(nb::module_& m) {
  locked_class<appender_handle>(m, "_Appender", "Rows that are appended in the background: see penstock.Appender.")
      .def(nb::init<const array_handle&, std::size_t, std::uint64_t, unsigned, bool, bool, double>(), nb::arg("array"),
           nb::arg("axis"), nb::arg("queue_bytes"), nb::arg("threads"), nb::arg("durable"),
           nb::arg("write_empty_chunks"), nb::arg("publish_interval"))
      .def("append", &appender_handle::append, nb::arg("rows").none())
      .def("append_device", &appender_handle::append_device, nb::arg("address"), nb::arg("shape"), nb::arg("strides"),
           nb::arg("stream").none(), nb::arg("keeps"))
      .def("flush", &appender_handle::flush, nb::arg("array"))
      .def("close", &appender_handle::close, nb::arg("array"))
      .def_prop_ro("rows", &appender_handle::rows)
      .def_prop_ro("stored_rows", &appender_handle::stored_rows)
      .def_prop_ro("queued_bytes", &appender_handle::queued_bytes)
      .def_prop_ro("closed", &appender_handle::closed);
}

}  // namespace penstock::inline v0::python
