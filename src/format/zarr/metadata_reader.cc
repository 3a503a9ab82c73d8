#include "format/zarr/metadata_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace penstock::inline v0 {
namespace {

/// The path of a member, for messages: `codecs[0].name`, or `shape` at the top.
std::string joined(std::string_view parent, std::string_view name) {
  return parent.empty() ? std::string(name) : fmt::format("{}.{}", parent, name);
}

std::string_view article(std::string_view kind) {
  if (kind == "null") return "";
  return std::string_view("aeiou").find(kind.front()) != std::string_view::npos ? "an " : "a ";
}

}  // namespace

error wrong_member(const json& value, std::string_view path, std::string_view needs) {
  const std::string_view kind = value.kind_name();
  return {errc::corrupt_data,
          fmt::format("zarr.json: member '{}' is {}{}, needs {}", path, article(kind), kind, needs)};
}

std::string brief(const json& value) {
  constexpr std::size_t kMost = 60;
  std::string text = value.dump();
  if (text.size() <= kMost) return text;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not within a UTF-8 character
  text.resize(end);
  return text + "...";
}

result<const json*> required_member(const json& object, std::string_view parent, std::string_view name) {
  const json* found = object.find(name);
  if (found == nullptr) {
    return error(errc::corrupt_data, fmt::format("zarr.json: member '{}' is missing", joined(parent, name)));
  }
  return found;
}

result<extents> read_extents(const json& value, std::string_view path, std::uint64_t least) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const json::array_t* list = value.as_array();
  if (list == nullptr) return wrong_member(value, path, "a list of integers");
  if (list->size() > kMaxRank) {
    return error(errc::unsupported, fmt::format("zarr.json: member '{}' has {} dimensions, at most {} are supported",
                                                path, list->size(), kMaxRank));
  }
  extents out;
  for (std::size_t d = 0; d < list->size(); ++d) {
    const json& item = (*list)[d];
    if (!item.is_number()) return wrong_member(item, fmt::format("{}[{}]", path, d), "an integer");
    std::uint64_t number = 0;
    if (!item.get(number) || number < least || number > kMost) {
      return error(errc::corrupt_data, fmt::format("zarr.json: member '{}[{}]' is {}, needs an integer from {} to {}",
                                                   path, d, brief(item), least, kMost));
    }
    out.push_back(number);
  }
  return out;
}

result<codec_config> read_named(const json& value, std::string_view path) {
  codec_config out;
  if (const std::string* name = value.as_string()) {
    out.name = *name;
    return out;
  }
  const json::object_t* members = value.as_object();
  if (members == nullptr) return wrong_member(value, path, "a name or an object with a name");
  PENSTOCK_TRY(only_members(value, path, {"name", "configuration", "must_understand"}));
  PENSTOCK_ASSIGN(const json* name, required_member(value, path, "name"));
  if (name->as_string() == nullptr) return wrong_member(*name, joined(path, "name"), "a string");
  out.name = *name->as_string();
  if (const json* configuration = value.find("configuration")) {
    if (configuration->as_object() == nullptr) {
      return wrong_member(*configuration, joined(path, "configuration"), "an object");
    }
    out.configuration = *configuration;
  }
  if (const json* must = value.find("must_understand"); must != nullptr && must->as_bool() == nullptr) {
    return wrong_member(*must, joined(path, "must_understand"), "true or false");
  }
  return out;
}

result<> only_members(const json& configuration, std::string_view path, std::initializer_list<std::string_view> known) {
  const json::object_t* members = configuration.as_object();
  if (members == nullptr) return {};
  for (const auto& [name, value] : *members) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return error(errc::unsupported, fmt::format("zarr.json: member '{:.80}' is not known", joined(path, name)));
    }
  }
  return {};
}

error of_document(error from, std::string_view document) {
  constexpr std::string_view kUsual = "zarr.json:";
  const std::string_view message = from.message();
  if (message.substr(0, kUsual.size()) != kUsual) return from;
  error out(from.code(), fmt::format("{}:{}", document, message.substr(kUsual.size())));
  for (const std::string& note : from.notes()) out.note(note);
  return out;
}

}  // namespace penstock::inline v0
