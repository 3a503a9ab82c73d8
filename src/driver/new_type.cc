#include "driver/new_type.h"

#include <fmt/format.h>

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

}  // namespace penstock::inline v0
