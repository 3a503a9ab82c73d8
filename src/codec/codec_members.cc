#include "codec/codec_members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

namespace penstock::inline v0 {

result<codec_members> codec_members::of(const codec_config& config, std::initializer_list<std::string_view> known) {
  if (config.configuration.is_null()) return codec_members(config);
  const json::object_t* members = config.configuration.as_object();
  if (members == nullptr) {
    return error{errc::corrupt_data, fmt::format("codec '{}': its configuration should be an object, is {}",
                                                 config.name, config.configuration.kind_name())};
  }
  for (const auto& [name, value] : *members) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return error{errc::unsupported, fmt::format("codec '{}' has no setting '{}'", config.name, name)};
    }
  }
  return codec_members(config);
}

const json* codec_members::find(std::string_view name) const noexcept {
  const json* const member = config_->configuration.find(name);
  return member != nullptr && member->is_null() ? nullptr : member;
}

bool codec_members::numcodecs() const noexcept { return config_->name.rfind("numcodecs.", 0) == 0; }

error codec_members::missing(std::string_view name) const {
  return {errc::corrupt_data, fmt::format("codec '{}' needs the setting '{}'", config_->name, name)};
}

error codec_members::wrong(std::string_view name, std::string_view wanted) const {
  return {errc::corrupt_data,
          fmt::format("codec '{}': '{}' should be {}, is {}", config_->name, name, wanted, find(name)->dump())};
}

result<std::int64_t> codec_members::integer(std::string_view name, std::int64_t least, std::int64_t most,
                                            std::optional<std::int64_t> absent) const {
  const json* member = find(name);
  if (member == nullptr) {
    if (absent) return *absent;
    return missing(name);
  }
  std::int64_t value = 0;
  if (!member->get(value) || value < least || value > most) {
    return wrong(name, fmt::format("an integer from {} to {}", least, most));
  }
  return value;
}

result<bool> codec_members::boolean(std::string_view name, bool absent) const {
  const json* member = find(name);
  if (member == nullptr) return absent;
  if (member->as_bool() == nullptr) return wrong(name, "true or false");
  return *member->as_bool();
}

result<double> codec_members::number(std::string_view name, std::optional<double> absent) const {
  const json* member = find(name);
  if (member == nullptr) {
    if (absent) return *absent;
    return missing(name);
  }
  double value = 0;
  if (!member->get(value)) return wrong(name, "a number");
  return value;
}

result<std::size_t> codec_members::choice(std::string_view name, std::span<const std::string_view> choices,
                                          std::optional<std::size_t> absent) const {
  const json* member = find(name);
  if (member == nullptr) {
    if (absent) return *absent;
    return missing(name);
  }
  if (const std::string* text = member->as_string()) {
    const auto at = std::find(choices.begin(), choices.end(), *text);
    if (at != choices.end()) return static_cast<std::size_t>(at - choices.begin());
  }
  return wrong(name, fmt::format("one of {}", fmt::join(choices, ", ")));
}

result<numpy_type> codec_members::item_type(std::string_view name, const std::optional<numpy_type>& absent) const {
  const json* member = find(name);
  if (member == nullptr) {
    if (absent) return *absent;
    return missing(name);
  }
  const std::string* const text = member->as_string();
  if (text == nullptr || text->empty()) return wrong(name, "an element type such as '<f4'");
  const bool ordered = std::string_view("<>|=").find(text->front()) != std::string_view::npos;
  std::string typestr = ordered ? *text : "=" + *text;
  if (typestr.front() == '=') typestr.front() = std::endian::native == std::endian::big ? '>' : '<';
  result<numpy_type> made = dtype::from_numpy(typestr);
  if (made.ok()) return made;
  if (result<dtype> named = dtype::from_name(*text); named.ok()) {
    return numpy_type{*std::move(named), std::endian::native == std::endian::big};
  }
  return std::move(made).error().note(fmt::format("codec '{}': '{}'", config_->name, name));
}

result<const json::array_t*> codec_members::list(std::string_view name) const {
  const json* member = find(name);
  if (member == nullptr) return missing(name);
  if (member->as_array() == nullptr) return wrong(name, "an array");
  return member->as_array();
}

result<std::vector<codec_config>> codec_members::codecs(std::string_view name) const {
  PENSTOCK_ASSIGN(const json::array_t* const members, list(name));
  std::vector<codec_config> out;
  for (const json& each : *members) {
    const json* const called = each.as_string() != nullptr ? &each : each.find("name");
    if (called == nullptr || called->as_string() == nullptr) return wrong(name, "a list of objects with a 'name'");
    const json* const configuration = each.find("configuration");
    out.push_back({*called->as_string(), configuration != nullptr ? *configuration : json()});
  }
  return out;
}

}  // namespace penstock::inline v0
