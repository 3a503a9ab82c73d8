#include "format/reference/kerchunk_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include <penstock/extend/json.h>
#include "base/base64.h"
#include "base/checked.h"
#include "base/json_bytes.h"
#include "format/reference/kerchunk_template.h"

namespace penstock::inline v0 {
namespace {

constexpr std::array<std::string_view, 5> kDocuments = {".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json"};
constexpr std::string_view kBase64 = "base64:";
constexpr std::size_t kMaxDimensions = 64;
constexpr std::uint64_t kMaxNumber = (std::uint64_t{1} << 63) - 1;
constexpr std::size_t kShown = 80;

std::string_view last_part(std::string_view key) noexcept {
  const std::size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? key : key.substr(slash + 1);
}

bool is_document(std::string_view key) noexcept {
  return std::find(kDocuments.begin(), kDocuments.end(), last_part(key)) != kDocuments.end();
}

error bad_references(std::string text) { return {errc::corrupt_data, std::move(text)}; }

/// The bytes of a document's text.
result<std::string> inlined(std::string_view text, std::string_view key) {
  if (!text.starts_with(kBase64)) return std::string(text);
  const auto bytes = base64_decode(text.substr(kBase64.size()));
  if (!bytes) return bad_references(fmt::format("the reference '{}' is not valid base64", key));
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

/// One dimension of a rule that generates keys: numbers from `start` in steps, or listed values.
struct generated_axis {
  std::string name;
  std::int64_t start = 0, step = 1;
  std::uint64_t count = 0;
  std::vector<template_value> values;  // empty: numbers

  template_value at(std::uint64_t i) const {
    if (!values.empty()) return values[static_cast<std::size_t>(i)];
    return template_value(
        static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + static_cast<std::uint64_t>(step) * i));
  }
};

error bad_axis(std::string_view name, std::string_view what) {
  return bad_references(fmt::format("dimension '{}' of 'gen' of references is bad: {}", name.substr(0, kShown), what));
}

result<std::int64_t> bound_of(const json& from, std::string_view member, std::int64_t usual, std::string_view axis) {
  const json* const found = from.find(member);
  std::int64_t out = usual;
  if (found != nullptr && !found->get(out)) return bad_axis(axis, fmt::format("'{}' must be a whole number", member));
  return out;
}

result<generated_axis> axis_of(const std::string& name, const json& values) {
  generated_axis out;
  out.name = name;
  if (values.as_object() != nullptr) {
    if (values.find("stop") == nullptr) return bad_axis(name, "it has no 'stop'");
    PENSTOCK_ASSIGN(out.start, bound_of(values, "start", 0, name));
    PENSTOCK_ASSIGN(out.step, bound_of(values, "step", 1, name));
    PENSTOCK_ASSIGN(const std::int64_t stop, bound_of(values, "stop", 0, name));
    if (out.step == 0) return bad_axis(name, "its step is 0");
    const std::uint64_t begin = static_cast<std::uint64_t>(out.start), end = static_cast<std::uint64_t>(stop);
    if (out.step > 0 && stop > out.start) out.count = ceil_div(end - begin, magnitude(out.step));
    if (out.step < 0 && stop < out.start) out.count = ceil_div(begin - end, magnitude(out.step));
    return out;
  }
  if (values.as_array() == nullptr) return bad_axis(name, "it is neither an object nor a list");
  for (const json& each : *values.as_array()) {
    std::int64_t number = 0;
    if (each.as_string() != nullptr)
      out.values.emplace_back(*each.as_string());
    else if (each.get(number))
      out.values.emplace_back(number);
    else
      return bad_axis(name, "its values are text or whole numbers");
  }
  out.count = out.values.size();
  return out;
}

/// An integer of at most 63 bits, with an optional sign and blanks around it; nothing for other text.
std::optional<std::int64_t> number_of(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  std::uint64_t out = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || !checked_mul(out, 10, out) || !checked_add(out, static_cast<std::uint64_t>(c - '0'), out))
      return std::nullopt;
  }
  if (text.empty() || out > kMaxNumber) return std::nullopt;
  return negative ? -static_cast<std::int64_t>(out) : static_cast<std::int64_t>(out);
}

}  // namespace

/// Fills a kerchunk_json from a parsed document.
class kerchunk_json::builder {
 public:
  result<kerchunk_json> build(const json& document) {
    if (document.as_object() == nullptr) return bad_references("the references are not a JSON object");
    if (document.find("version") == nullptr && document.find("refs") == nullptr) {
      PENSTOCK_TRY(version_0(*document.as_object()));
    } else {
      PENSTOCK_TRY(version_1(document));
    }
    auto& all = out_.references_;
    // The last entry of a key counts: generated keys replace literal ones.
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i + 1 < all.size() && all[i + 1].first == all[i].first) continue;
      if (kept != i) all[kept] = std::move(all[i]);
      ++kept;
    }
    all.resize(kept);
    return std::move(out_);
  }

 private:
  result<> version_0(const json::object_t& refs) {
    const auto is_node = [](const auto& each) {
      const std::string_view name = last_part(each.first);
      return name == ".zgroup" || name == ".zarray" || name == "zarr.json";
    };
    if (std::none_of(refs.begin(), refs.end(), is_node))
      return bad_references("the JSON document holds no references: neither 'refs' nor Zarr metadata");
    for (const auto& [key, value] : refs) PENSTOCK_TRY(add(key, value, nullptr));
    return {};
  }

  result<> version_1(const json& document) {
    const json* const version = document.find("version");
    std::int64_t number = 0;
    if (version != nullptr && (!version->get(number) || number != 1))
      return error(errc::unsupported,
                   fmt::format("references of version {} are not readable", version->dump().substr(0, kShown)));
    static const json kNone = json::object_t{};
    const auto member = [&](std::string_view name) {
      const json* const found = document.find(name);
      return found == nullptr || (name == "templates" && found->is_null()) ? &kNone : found;
    };
    const json::object_t* const refs = member("refs")->as_object();
    const json::object_t* const given = member("templates")->as_object();
    if (refs == nullptr || given == nullptr)
      return bad_references("members 'refs' and 'templates' of references are objects");
    kerchunk_expander::templates templates;
    for (const auto& [name, text] : *given) {
      if (text.as_string() == nullptr) return bad_references("templates of references are text");
      templates.emplace(name, *text.as_string());
    }
    kerchunk_expander expander(std::move(templates), refs->size());
    for (const auto& [key, value] : *refs) PENSTOCK_TRY(add(key, value, &expander));
    const json* const rules = document.find("gen");
    if (rules == nullptr || rules->is_null()) return {};
    if (rules->as_array() == nullptr) return bad_references("member 'gen' of references is a list");
    for (const json& rule : *rules->as_array()) PENSTOCK_TRY(generate(rule, expander));
    return {};
  }

  /// A literal reference or document. `expander` null: templates are plain text.
  result<> add(const std::string& key, const json& value, kerchunk_expander* expander) {
    if (is_document(key)) return add_document(key, value, expander);
    if (const std::string* const text = value.as_string()) {
      PENSTOCK_ASSIGN(const std::string filled, filled_data(*text, expander));
      return put(key, filled, {0, reference_kind::data, 0, 0});
    }
    if (value.as_object() != nullptr) return put(key, value.dump(), {0, reference_kind::data, 0, 0});
    const json::array_t* const list = value.as_array();
    const bool sized = list != nullptr && (list->size() == 1 || list->size() == 3) && (*list)[0].as_string() != nullptr;
    std::int64_t offset = 0, length = 0;
    if (!sized || (list->size() == 3 && (!(*list)[1].get(offset) || !(*list)[2].get(length)))) return bad(key, value);
    if (offset < 0 || length < 0) return bad(key, value);
    const std::string* const url = (*list)[0].as_string();
    if (expander != nullptr) {
      PENSTOCK_ASSIGN(const std::string filled, expander->text(*url));
      return put(key, filled, located(list->size() == 3, offset, length));
    }
    return put(key, *url, located(list->size() == 3, offset, length));
  }

  static reference located(bool has_range, std::int64_t offset, std::int64_t length) {
    reference out;
    out.offset = static_cast<std::uint64_t>(offset);
    out.length = static_cast<std::uint64_t>(length);
    // Zero bytes of an object are an error when the array is opened; the mark is an impossible length.
    if (has_range && length == 0) out.length = byte_range::kAll;
    return out;
  }

  result<> bad(const std::string& key, const json& value) {
    return put(key, value.dump().substr(0, kShown), {0, reference_kind::damaged, 0, 0});
  }

  static result<std::string> filled_data(const std::string& text, kerchunk_expander* expander) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    const bool is_json = begin != std::string::npos && text[begin] == '{';
    if (expander == nullptr || is_json || text.find("{{") == std::string::npos) return text;
    return expander->text(text, {}, true);
  }

  result<> add_document(const std::string& key, const json& value, kerchunk_expander* expander) {
    if (value.as_object() != nullptr) {
      out_.documents_[key] = value.dump();
      return {};
    }
    if (value.as_string() == nullptr) {
      return error(errc::unsupported,
                   fmt::format("the reference '{}' is not text: metadata in other files is not readable", key));
    }
    PENSTOCK_ASSIGN(const std::string filled, filled_data(*value.as_string(), expander));
    PENSTOCK_ASSIGN(out_.documents_[key], inlined(filled, key));
    return {};
  }

  result<> put(std::string key, const std::string& text, reference what) {
    const auto [found, is_new] = known_.try_emplace(text, static_cast<std::uint32_t>(out_.texts_.size()));
    if (is_new) {
      if (out_.texts_.size() == std::numeric_limits<std::uint32_t>::max())
        return error(errc::unsupported, "references to more than 2^32 objects");
      out_.texts_.push_back(text);
    }
    what.text = found->second;
    out_.references_.emplace_back(std::move(key), what);
    return {};
  }

  result<> generate(const json& rule, kerchunk_expander& expander) {
    const json* const dimensions = rule.find("dimensions");
    if (dimensions == nullptr || dimensions->as_object() == nullptr)
      return bad_references("an item of 'gen' of references has no 'dimensions'");
    const json* const key = rule.find("key");
    const json* const url = rule.find("url");
    if (key == nullptr || key->as_string() == nullptr || url == nullptr || url->as_string() == nullptr)
      return bad_references("'key' and 'url' of an item of 'gen' of references are text");
    if (dimensions->as_object()->size() > kMaxDimensions) {
      return error(errc::unsupported,
                   fmt::format("references that are generated along {} dimensions", dimensions->as_object()->size()));
    }
    std::vector<generated_axis> axes;
    std::uint64_t count = 1;
    for (const auto& [name, values] : *dimensions->as_object()) {
      PENSTOCK_ASSIGN(generated_axis axis, axis_of(name, values));
      count = saturating_mul(count, axis.count);
      axes.push_back(std::move(axis));
    }
    PENSTOCK_TRY(expander.generate(count));
    std::vector<std::uint64_t> at(axes.size());
    template_names names;
    for (const generated_axis& axis : axes) names.emplace_back(axis.name, std::int64_t{0});
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t left = i;
      for (std::size_t d = axes.size(); d-- > 0; left /= axes[d].count)
        names[d].second = axes[d].at(left % axes[d].count);
      PENSTOCK_TRY(generate_one(rule, *key->as_string(), *url->as_string(), names, expander));
    }
    return {};
  }

  result<> generate_one(const json& rule, const std::string& key, const std::string& url, const template_names& names,
                        kerchunk_expander& expander) {
    PENSTOCK_ASSIGN(const std::string location, expander.text(url, names));
    PENSTOCK_ASSIGN(std::string name, expander.text(key, names));
    const json* const ends[2] = {rule.find("offset"), rule.find("length")};
    std::int64_t numbers[2] = {0, 0};
    const bool has_range = ends[0] != nullptr && ends[1] != nullptr;
    for (std::size_t i = 0; i < 2 && has_range; ++i) {
      PENSTOCK_ASSIGN(const std::string text,
                      expander.text(ends[i]->as_string() != nullptr ? *ends[i]->as_string() : ends[i]->dump(), names));
      const auto number = number_of(text);
      if (!number) {
        return bad_references(
            fmt::format("'offset' or 'length' of 'gen' is not a number: '{}'", text.substr(0, kShown)));
      }
      numbers[i] = *number;
    }
    if (is_document(name)) {
      return error(errc::unsupported,
                   fmt::format("the reference '{}' is not text: metadata in other files is not readable", name));
    }
    if (numbers[0] < 0 || numbers[1] < 0) {
      return put(std::move(name), fmt::format("{} bytes at {}", numbers[1], numbers[0]),
                 {0, reference_kind::damaged, 0, 0});
    }
    return put(std::move(name), location, located(has_range, numbers[0], numbers[1]));
  }

  kerchunk_json out_;
  std::unordered_map<std::string, std::uint32_t> known_;
};

result<kerchunk_json> kerchunk_json::parse(std::string_view text) {
  PENSTOCK_ASSIGN(const json document, parse_json_with_bytes(text));
  return builder().build(document);
}

result<reference_rows> kerchunk_json::rows(std::string_view path, const reference_keys& keys) const {
  PENSTOCK_TRY(keys.cells());
  const std::string start = path.empty() ? std::string() : std::string(path) + "/";
  auto at = std::lower_bound(references_.begin(), references_.end(), start,
                             [](const auto& each, const std::string& key) { return each.first < key; });
  reference_rows out;
  for (; at != references_.end() && at->first.starts_with(start); ++at) {
    const auto cell = keys.cell(std::string_view(at->first).substr(start.size()));
    if (!cell) continue;
    const reference& what = at->second;
    const std::string& source = texts_[what.text];
    switch (what.kind) {
      case reference_kind::damaged:
        return bad_references(
            fmt::format("the reference '{}' is {}, needs text, [url] or [url, offset, length]", at->first, source));
      case reference_kind::data: {
        PENSTOCK_ASSIGN(const std::string bytes, inlined(source, at->first));
        PENSTOCK_TRY(out.add(*cell, bytes, true, 0, bytes.size()));
        break;
      }
      case reference_kind::location:
        if (what.length == byte_range::kAll)
          return bad_references(fmt::format("the reference '{}' names no bytes", at->first));
        PENSTOCK_TRY(out.add(*cell, source, false, what.offset, what.length));
    }
  }
  return out;
}

}  // namespace penstock::inline v0
