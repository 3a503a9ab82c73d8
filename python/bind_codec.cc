#include "bind_codec.h"

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "base/counted.h"
#include "base/nearest_word.h"
#include "bind_items.h"
#include "codec/byte_codecs.h"
#include "codec/codec_chain.h"

namespace penstock::inline v0::python {
namespace {

error refused_at_exit() { return {errc::cancelled, "the interpreter is ending"}; }

// A reference that may be dropped on any thread.
std::shared_ptr<PyObject> shared(nb::object object) {
  return {object.release().ptr(), [](PyObject* one) { drop_reference(one); }};
}

// An object's memory, exported for as long as this lives.
class exported_bytes {
 public:
  explicit exported_bytes(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) < 0) throw_python_error();
  }
  ~exported_bytes() { PyBuffer_Release(&view_); }
  exported_bytes(const exported_bytes&) = delete;
  std::span<const std::byte> get() const noexcept {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

/// A codec of a chain that is implemented by an adapter of penstock/core/codecs.py.
/// Bytes are copied in both directions: Python code may keep its arguments.
class python_codec final : public byte_codec {
 public:
  python_codec(std::string name, std::string description, std::shared_ptr<PyObject> adapter, const stage_type& input,
               std::uint64_t encoded_bytes)
      : name_(std::move(name)),
        description_(std::move(description)),
        adapter_(std::move(adapter)),
        input_(input),
        items_(input.is_array && input.type.variable_length()),
        encoded_bytes_(encoded_bytes) {}

  std::string_view name() const override { return name_; }
  std::string describe() const override { return description_; }
  bool via_python() const noexcept override { return true; }
  std::uint64_t max_encoded_bytes(std::uint64_t) const override { return encoded_bytes_; }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    return decode_with(encoded, scratch, [&](std::uint64_t bytes) -> result<std::span<std::byte>> {
      if (bytes <= out.size()) return out.first(static_cast<std::size_t>(bytes));
      scratch.out_of_room = true;
      return error{errc::corrupt_data, "codec '" + name_ + "' decodes to " + std::to_string(bytes) +
                                           " bytes, the output has room for " + std::to_string(out.size())};
    });
  }

  result<std::span<const std::byte>> decode_growing(std::span<const std::byte> encoded, buffer& room,
                                                    worker_scratch& scratch) const override {
    return decode_with(encoded, scratch, [&](std::uint64_t bytes) { return room.reserve(bytes); });
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    PENSTOCK_ASSIGN(const auto made, encode_with(decoded, [&](std::uint64_t bytes) -> result<std::span<std::byte>> {
                      if (bytes <= out.size()) return out.first(static_cast<std::size_t>(bytes));
                      return error{errc::invalid_argument, "codec '" + name_ + "' encodes to " + std::to_string(bytes) +
                                                               " bytes, the output has room for " +
                                                               std::to_string(out.size())};
                    }));
    return made.size();
  }

  result<std::span<const std::byte>> encode_growing(std::span<const std::byte> decoded, buffer& room,
                                                    worker_scratch&) const override {
    return encode_with(decoded, [&](std::uint64_t bytes) { return room.reserve(bytes); });
  }

 private:
  // Python's message if a chunk cannot be decoded; a Ctrl-C is passed on unchanged.
  error decode_failure() const {
    const error raised = take_python_error();
    if (raised.code() == errc::cancelled) return raised.clone();
    return {errc::corrupt_data, "codec '" + name_ + "' cannot decode this: " + raised.message()};
  }
  error encode_failure() const {
    const error raised = take_python_error();
    return {raised.code(), "codec '" + name_ + "' cannot encode this: " + raised.message()};
  }

  template <class Reserve>
  result<std::span<const std::byte>> decode_with(std::span<const std::byte> encoded, worker_scratch& scratch,
                                                 Reserve reserve) const {
    if (!may_enter_python()) return refused_at_exit();
    const with_gil gil;
    try {
      const nb::bytes given(encoded.data(), encoded.size());
      const nb::object made = nb::handle(adapter_.get()).attr("decode")(given);
      if (items_) return take_items(made, scratch.items(), reserve);
      return copy_bytes(made, reserve);
    } catch (nb::python_error& failed) {
      failed.restore();
      return decode_failure();
    } catch (const std::exception& failed) {
      return error{errc::corrupt_data, "codec '" + name_ + "' cannot decode this: " + failed.what()};
    }
  }

  template <class Reserve>
  result<std::span<const std::byte>> encode_with(std::span<const std::byte> decoded, Reserve reserve) const {
    if (!may_enter_python()) return refused_at_exit();
    const with_gil gil;
    try {
      nb::object given;
      if (items_) {
        std::vector<variable_item> items(decoded.size() / sizeof(variable_item));
        if (!items.empty()) std::memcpy(items.data(), decoded.data(), items.size() * sizeof(variable_item));
        given = nb::steal(objects_of(items, input_.type, input_.shape));
        if (!given.is_valid()) throw_python_error();
      } else {
        given = nb::bytes(decoded.data(), decoded.size());
      }
      return copy_bytes(nb::handle(adapter_.get()).attr("encode")(given), reserve);
    } catch (nb::python_error& failed) {
      failed.restore();
      return encode_failure();
    } catch (const std::exception& failed) {
      return error{errc::invalid_argument, "codec '" + name_ + "' cannot encode this: " + failed.what()};
    }
  }

  template <class Reserve>
  static result<std::span<const std::byte>> copy_bytes(const nb::object& made, Reserve reserve) {
    const exported_bytes bytes(made);
    PENSTOCK_ASSIGN(const std::span<std::byte> room, reserve(bytes.get().size()));
    if (!room.empty()) std::memcpy(room.data(), bytes.get().data(), room.size());
    return std::span<const std::byte>(room);
  }

  template <class Reserve>
  result<std::span<const std::byte>> take_items(const nb::object& made, item_arena& arena, Reserve reserve) const {
    item_block block(input_.type, made);
    const tensor_view view = block.view();
    PENSTOCK_ASSIGN(const std::uint64_t count, element_count(view.extents));
    PENSTOCK_ASSIGN(const std::uint64_t wanted, element_count(input_.shape));
    if (count != wanted) {
      return error{errc::corrupt_data, "codec '" + name_ + "' decodes to " + counted(count, "item") +
                                           ", the chunk's shape needs " + std::to_string(wanted)};
    }
    PENSTOCK_ASSIGN(const std::span<std::byte> room, reserve(count * sizeof(variable_item)));
    if (!room.empty()) std::memcpy(room.data(), view.data, room.size());
    arena.keep(block.arena());
    return std::span<const std::byte>(room);
  }

  std::string name_, description_;
  std::shared_ptr<PyObject> adapter_;
  stage_type input_;
  bool items_;
  std::uint64_t encoded_bytes_;
};

class factory_codecs final : public codec_provider {
 public:
  explicit factory_codecs(nb::object factory) : factory_(shared(std::move(factory))) {}

  result<compiled_codec> make(const codec_config& config, const stage_type& input) const override {
    if (!may_enter_python()) return refused_at_exit();
    const with_gil gil;
    try {
      nb::object type = nb::none(), shape = nb::none();
      if (input.is_array) {
        type = numpy_dtype(input.type);
        if (input.type.variable_length()) type = nb::module_::import_("numpy").attr("dtype")("O");
        if (input.big_endian) type = type.attr("newbyteorder")(">");
        shape = to_tuple(input.shape);
      }
      const std::string configuration = config.configuration.is_null() ? "{}" : config.configuration.dump();
      const nb::object adapter = nb::handle(factory_.get())(to_str(config.name), to_str(configuration), type, shape);
      if (adapter.is_none()) {
        error failure(errc::unsupported,
                      "no codec '" + config.name + "', neither here nor in numcodecs or zarr-python");
        const std::string_view prefix = "numcodecs.";
        const std::string_view typed = config.name;
        return with_suggestion(std::move(failure), typed.starts_with(prefix) ? typed.substr(prefix.size()) : typed,
                               codec_names());
      }
      stage_type output = stage_type::bytes_of(input.type, kUnbounded, false);
      std::uint64_t bytes = kUnbounded;
      const nb::object made_type = adapter.attr("output_dtype");
      if (!made_type.is_none()) {
        output.type = dtype_of(made_type);
        output.shape.clear();
        for (const nb::handle size : nb::object(adapter.attr("output_shape")))
          output.shape.push_back(nb::cast<std::uint64_t>(size));
        output.is_array = true;
        output.exact = true;
        output.big_endian = has_swapped_bytes(made_type) != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
        bytes = output.bytes();
        if (output.type.variable_length()) {
          return error{errc::unsupported, "codec '" + config.name + "' encodes to Python objects"};
        }
      }
      auto codec = std::make_shared<python_codec>(config.name, utf8_of(nb::object(adapter.attr("description"))),
                                                  shared(adapter), input, bytes);
      return compiled_codec{std::move(codec), output};
    } catch (nb::python_error& failed) {
      failed.restore();
      return take_python_error().note("making codec '" + config.name + "'");
    } catch (const std::exception& failed) {
      return error{errc::unsupported, "codec '" + config.name + "': " + failed.what()};
    }
  }

 private:
  std::shared_ptr<PyObject> factory_;
};

}  // namespace

std::shared_ptr<const codec_provider> python_codecs(nb::object factory) {
  return std::make_shared<factory_codecs>(std::move(factory));
}

}  // namespace penstock::inline v0::python
