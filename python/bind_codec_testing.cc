#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "bind.h"
#include "codec/codec_chain.h"
#include "cuda/decode/host_decode.h"
#include "cuda/decode/step_settings.h"
#include "list_argument.h"

namespace penstock::inline v0::python {
namespace {

// A v3 name, or NumPy's type string.
result<numpy_type> parse_type(const std::string& text) {
  if (!text.empty() && std::string_view("<>|=").find(text.front()) != std::string_view::npos) {
    return dtype::from_numpy(text);
  }
  PENSTOCK_ASSIGN(const dtype type, dtype::from_name(text));
  return numpy_type{type, false};
}

// Codecs of Zarr v3, {"name": ..., "configuration": ...}; or of v2, {"id": ...}, filters and compressor in one list.
result<codec_chain> compile_chain(const std::string& text, const numpy_type& type,
                                  const std::vector<std::uint64_t>& shape) {
  PENSTOCK_ASSIGN(const json list, json::parse(text));
  if (list.as_array() == nullptr) return error{errc::invalid_argument, "codecs should be a list"};
  if (shape.size() > kMaxRank) return error{errc::invalid_argument, "a chunk has 32 dimensions at most"};
  codec_chain_options options;
  std::vector<codec_config> codecs;
  for (const json& each : *list.as_array()) {
    options.stored_order_filters = options.stored_order_filters || each.find("id") != nullptr;
  }
  if (options.stored_order_filters && !type.type.variable_length()) {
    json::object_t order;
    if (type.type.has_byte_order()) order.emplace_back("endian", type.big_endian ? "big" : "little");
    codecs.push_back({"bytes", json(std::move(order))});
  }
  for (const json& each : *list.as_array()) {
    if (each.find("id") != nullptr) {
      PENSTOCK_ASSIGN(codec_config config, codec_of_v2(each));
      codecs.push_back(std::move(config));
      continue;
    }
    const json* const name = each.as_string() != nullptr ? &each : each.find("name");
    if (name == nullptr || name->as_string() == nullptr) {
      return error{errc::invalid_argument, "a codec should have a 'name' or an 'id'"};
    }
    const json* const configuration = each.find("configuration");
    codecs.push_back({*name->as_string(), configuration != nullptr ? *configuration : json()});
  }
  return codec_chain::compile(codecs, type.type, extents(std::span<const std::uint64_t>(shape)), options);
}

std::span<const std::byte> as_span(const nb::bytes& from) noexcept {
  return {reinterpret_cast<const std::byte*>(from.c_str()), from.size()};
}
nb::bytes to_bytes(std::span<const std::byte> from) { return nb::bytes(from.data(), from.size()); }

struct compiled {
  numpy_type type;
  codec_chain chain;

  static result<compiled> of(const std::string& codecs, const std::string& type_text,
                             const std::vector<std::uint64_t>& shape) {
    PENSTOCK_ASSIGN(const numpy_type type, parse_type(type_text));
    PENSTOCK_ASSIGN(codec_chain chain, compile_chain(codecs, type, shape));
    if (type.type.variable_length()) {
      return error{errc::unsupported, "elements of variable length pass through arrays only"};
    }
    return compiled{type, std::move(chain)};
  }
};

nb::tuple decode_chain(const std::string& codecs, const std::string& type, nb::handle shape, const nb::bytes& encoded) {
  const compiled made = unwrap(compiled::of(codecs, type, list_of<std::uint64_t>(shape)));
  buffer room;
  const auto content = call_engine([&]() -> result<std::span<const std::byte>> {
    const codec_chain& chain = made.chain;
    PENSTOCK_ASSIGN(const auto out, room.reserve(chain.decoded_bytes()));
    worker_scratch scratch;
    decode_target target;
    target.data = out.data();
    target.strides = c_order_strides(chain.cell(), made.type.type.item_bytes());
    target.covers_cell = true;
    PENSTOCK_TRY(chain.decode(as_span(encoded), target, scratch));
    return std::span<const std::byte>(out.data(), chain.decoded_bytes());
  });
  return nb::make_tuple(to_bytes(content), numpy_dtype(made.type.type));
}

nb::bytes encode_chain(const std::string& codecs, const std::string& type, nb::handle shape, const nb::bytes& items) {
  const compiled made = unwrap(compiled::of(codecs, type, list_of<std::uint64_t>(shape)));
  if (items.size() != made.chain.decoded_bytes()) {
    raise({errc::invalid_argument, "the chunk has " + std::to_string(items.size()) + " bytes, its shape needs " +
                                       std::to_string(made.chain.decoded_bytes())});
  }
  buffer room;
  worker_scratch scratch;
  const auto encoded = call_engine([&] {
    // Codecs only read it.
    auto* const data = const_cast<std::byte*>(as_span(items).data());
    return made.chain.encode(tensor_view::contiguous(data, made.type.type, made.chain.cell()), room, scratch);
  });
  return to_bytes(encoded);
}

std::string describe_chain(const std::string& codecs, const std::string& type, nb::handle shape) {
  return unwrap(compiled::of(codecs, type, list_of<std::uint64_t>(shape))).chain.describe();
}

nb::bytes decode_on_host(const std::string& codecs, const nb::bytes& encoded, std::uint64_t decoded_bytes) {
  buffer room;
  const auto content = call_engine([&]() -> result<std::span<const std::byte>> {
    PENSTOCK_ASSIGN(const json given, json::parse(codecs));
    PENSTOCK_ASSIGN(const auto steps, device::steps_of_codecs(given, as_span(encoded), decoded_bytes));
    PENSTOCK_ASSIGN(const auto out, room.reserve(decoded_bytes));
    const auto target = out.first(decoded_bytes);
    PENSTOCK_TRY(device::decode_on_host(steps, as_span(encoded), target));
    return std::span<const std::byte>(target);
  });
  return to_bytes(content);
}

}  // namespace

void bind_codec_testing(nb::module_& m) {
  m.def("decode_chain", decode_chain, nb::arg("codecs"), nb::arg("dtype"), nb::arg("shape"), nb::arg("encoded"),
        "Decode a chunk: its items in C order and native byte order, and their numpy.dtype.");
  m.def("encode_chain", encode_chain, nb::arg("codecs"), nb::arg("dtype"), nb::arg("shape"), nb::arg("items"),
        "Encode a chunk's items, which are in C order and native byte order.");
  m.def("describe_chain", describe_chain, nb::arg("codecs"), nb::arg("dtype"), nb::arg("shape"),
        "Codecs and settings as text.");
  m.def("decode_on_host", decode_on_host, nb::arg("codecs"), nb::arg("encoded"), nb::arg("decoded_bytes"),
        "Decode a chunk with the device decoders' code, run on the host; `codecs` is JSON.");
  m.def("codec_names", codec_names, "All codecs that need no Python, sorted.");
  m.def(
      "codec_place",
      [](nb::bytes name) -> nb::object {
        const std::optional<codec_place> found = place_of_codec(text_of(name));
        if (!found) return nb::none();
        return to_str(*found == codec_place::bytes   ? "bytes"
                      : *found == codec_place::array ? "array"
                                                     : "array_to_bytes");
      },
      nb::arg("name"), "\"array\", \"array_to_bytes\" or \"bytes\"; None: the codec is not one of the table.");
}

}  // namespace penstock::inline v0::python
