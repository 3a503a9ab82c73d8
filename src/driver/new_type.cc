#include "driver/new_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace penstock::inline v0 {

result<zarr_v2_type> type_of_new(const create_options& options) {
  const auto in_native_order = [](dtype type) {
    json endian = type.has_byte_order() ? json("little") : json();
    return zarr_v2_type{std::move(type), std::move(endian)};
  };
  if (options.dtype_json.empty()) return in_native_order(options.type);
  auto parsed = json::parse(options.dtype_json);
  if (!parsed.ok())
    return error(errc::invalid_argument, fmt::format("dtype is not JSON: {}", parsed.error().message()));
  const json& given = *parsed;
  const std::string* text = given.as_string();
  const bool numpy =
      given.as_array() != nullptr ||
      (text != nullptr && !text->empty() && std::string_view("<>|=").find(text->front()) != std::string_view::npos);
  const auto refused = [&](const error& why) {
    return error(why.code() == errc::corrupt_data ? errc::invalid_argument : why.code(),
                 fmt::format("dtype {} cannot be stored: {}", given.dump(), why.message()));
  };
  if (!numpy) {
    result<dtype> type = parse_data_type(given);
    if (!type.ok()) return refused(type.error());
    return in_native_order(std::move(*type));
  }
  result<zarr_v2_type> type = parse_v2_dtype(given);
  if (!type.ok()) return refused(type.error());
  return std::move(*type);
}

result<> refuse_zarr_options(const create_options& how, std::string_view kind, std::span<const other_option> instead) {
  struct option {
    bool given;
    std::string_view name;
  };
  const bool codecs = !how.codecs_json.empty() && how.codecs_json != "auto" && how.codecs_json != "\"auto\"";
  const bool fill = !how.fill_value.empty() || !how.fill_value_json.empty() || how.fill_is_undefined;
  const option all[] = {
      {how.zarr_format != 3, "zarr_format"},
      {how.chunks || !how.chunk_lengths.empty(), "chunks"},
      {how.shards || !how.shard_lengths.empty() || how.auto_shards || how.shard_index_first, "shards"},
      {codecs, "codecs"},
      {fill, "fill_value"},
      {!how.dimension_names.empty(), "dimension_names"},
      {how.order != 'C', "order"},
      {how.v2_keys || !how.key_suffix.empty() || how.separator != 0, "the encoding of keys"},
  };
  for (const option& each : all) {
    if (!each.given) continue;
    const auto own =
        std::find_if(instead.begin(), instead.end(), [&](const other_option& one) { return one.name == each.name; });
    return error(errc::invalid_argument, fmt::format("'{}' is an option of Zarr arrays, not of {}{}", each.name, kind,
                                                     own == instead.end() ? "" : own->instead));
  }
  return {};
}

}  // namespace penstock::inline v0
