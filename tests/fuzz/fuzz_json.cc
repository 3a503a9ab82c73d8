// Parses bytes as JSON. Accepted documents are equal after they are written and read again, also in their pretty form.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <penstock/extend/json.h>

#include "fuzz/require.h"

using namespace penstock;  // NOLINT

namespace {

bool holds_nan(const json& value) {
  double number = 0;
  if (value.get(number)) return std::isnan(number);
  if (const auto* const items = value.as_array()) {
    for (const json& each : *items) {
      if (holds_nan(each)) return true;
    }
  }
  if (const auto* const members = value.as_object()) {
    for (const auto& each : *members) {
      if (holds_nan(each.second)) return true;
    }
  }
  return false;
}

}  // namespace

extern "C" int run_json(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = json::parse(text);
  if (!parsed.ok()) {
    require(parsed.error().code() == errc::corrupt_data && !parsed.error().message().empty());
    return 0;
  }
  const std::string written = parsed.value().dump();
  for (const int indent : {-1, 0, 2}) {
    const auto again = json::parse(parsed.value().dump(indent));
    require(again.ok() && again.value().dump() == written);
    if (!holds_nan(parsed.value())) require(again.value() == parsed.value());
  }
  return 0;
}
