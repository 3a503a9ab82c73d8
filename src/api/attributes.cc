// Changes of existing metadata: attributes, and their copies in consolidated metadata.

#include <penstock/create.h>
#include <penstock/open.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/json_numbers.h"
#include "driver/node_mode.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "format/zarr/zarr_v2.h"
#include "format/zarr/zarr_writer.h"

namespace penstock::inline v0 {
namespace {

json without_member(const json& document, std::string_view name) {
  json::object_t out;
  for (const auto& [each, value] : *document.as_object()) {
    if (each != name) out.emplace_back(each, value);
  }
  return out;
}

/// Another writer may write the same document at the same time.
constexpr int kMaxDocumentTries = 64;

result<> put_text(store& in, const std::string& key, const std::string& text, const version& replaces, bool exists) {
  const part bytes = std::as_bytes(std::span(text.data(), text.size()));
  write_condition condition;
  if (!exists) condition.what = write_condition::kind::must_be_absent;
  if (exists && replaces.known()) condition = {write_condition::kind::must_match, replaces};
  condition.ordered = true;  // consolidated metadata describes what was written before
  auto put = in.put(key, {&bytes, 1}, condition);
  if (!put.ok()) return std::move(put).error().note(fmt::format("writing '{}'", key));
  return {};
}

/// Reads a document, changes it and writes it back; repeats this if another writer changed it in between. A document
/// that must not be absent is an object of JSON.
template <class Change>
result<> change_document(store& in, const std::string& key, bool may_be_absent, Change change) {
  for (int i = 0; i < kMaxDocumentTries; ++i) {
    std::optional<stored_document> found;
    if (may_be_absent) {
      PENSTOCK_ASSIGN(found, read_document(in, key));
    } else {
      PENSTOCK_ASSIGN(found, required_object(in, key));
    }
    PENSTOCK_ASSIGN(const json content, change(found ? *found->content : json(json::object_t{})));
    const std::string text = found ? dump_like(content, found->text(), 2) : document_text(content);
    result<> put = put_text(in, key, text, found ? found->seen : version(), found.has_value());
    if (put.ok()) return in.flush();
    if (put.error().code() == errc::version_changed) continue;
    static_cast<void>(in.flush());  // a zip archive is locked until then
    return put;
  }
  static_cast<void>(in.flush());
  return error(errc::conflict, fmt::format("'{}' kept changing while it was written", key));
}

/// A change of stored attributes: all are replaced, or some are set and some removed.
struct edit {
  json set;
  std::span<const std::string> removed;
  bool all = false;

  json applied(const json& stored) const {
    if (all) return set;
    json out = stored.as_object() != nullptr ? stored : json(json::object_t{});
    for (const auto& [name, value] : *set.as_object()) out = with_member(out, name, value);
    for (const std::string& name : removed) out = without_member(out, name);
    return out;
  }
};

result<std::string> edit_attributes(const std::shared_ptr<const store>& from, const std::string& prefix,
                                    const std::string& format, const std::string& uri, std::string_view text,
                                    std::span<const std::string> removed, bool all) {
  const auto note = [&](error why) { return std::move(why).note(fmt::format("writing the attributes of '{}'", uri)); };
  auto parsed = json::parse(text);
  if (!parsed.ok()) return note(error(errc::invalid_argument, "attributes are not JSON: " + parsed.error().message()));
  if (parsed->as_object() == nullptr) {
    return note(
        error(errc::invalid_argument, fmt::format("attributes are a JSON {}, need an object", parsed->kind_name())));
  }
  const edit change{std::move(*parsed), removed, all};
  // An open node keeps its store for reading; the caller has checked that it can be written to.
  const auto in = std::const_pointer_cast<store>(from);
  const bool v2 = format == "zarr2";
  const std::string key = prefix + std::string(v2 ? kZattrsKey : kZarrKey);
  json now;
  result<> done = change_document(*in, key, v2, [&](const json& document) -> result<json> {
    const json* stored = v2 ? &document : document.find("attributes");
    now = change.applied(stored != nullptr ? *stored : json());
    return v2 ? now : with_member(document, "attributes", now);
  });
  if (!done.ok()) return note(std::move(done).error());
  return now.dump();
}

template <class State>
result<std::string> edit_attributes(const State& state, std::string_view text, std::span<const std::string> removed,
                                    bool all) {
  if (auto checked = check_editable(state); !checked.ok())
    return std::move(checked).error().note(fmt::format("writing the attributes of '{}'", state.uri));
  return edit_attributes(state.store, state.prefix, state.format, state.uri, text, removed, all);
}

result<group> with_attributes(const group_state& state, std::string text) {
  if (state.consolidated != nullptr) state.consolidated->mark_stale();
  return group(state.with_attributes(std::move(text)));
}

// --- consolidation ---

class children_of final : public key_sink {
 public:
  explicit children_of(std::size_t prefix_length) noexcept : prefix_length_(prefix_length) {}
  bool key(std::string_view key, std::uint64_t) override {
    if (key.size() <= prefix_length_) return true;
    const std::string_view name = key.substr(prefix_length_);
    if (name.back() == '/') {
      folders.emplace_back(name.substr(0, name.size() - 1));
    } else {
      documents.emplace_back(name);
    }
    return true;
  }
  bool has(std::string_view name) const {
    return std::find(documents.begin(), documents.end(), name) != documents.end();
  }
  std::vector<std::string> folders, documents;

 private:
  std::size_t prefix_length_;
};

/// Collects the documents of the nodes below `prefix`; `path` is its location relative to the root.
result<> collect(const store& from, const std::string& prefix, const std::string& path, int zarr_format, int depth,
                 json::object_t& out) {
  if (depth > 128) return error(errc::unsupported, fmt::format("groups nested deeper than 128: '{}'", prefix));
  children_of here(prefix.size());
  PENSTOCK_TRY(from.list(prefix, listing::children, here));
  bool group = path.empty();
  if (zarr_format == 3 && !path.empty() && here.has(kZarrKey)) {
    PENSTOCK_ASSIGN(const stored_document document, required_object(from, prefix + std::string(kZarrKey)));
    const json* kind = document.content->find("node_type");
    group = kind != nullptr && kind->as_string() != nullptr && *kind->as_string() == "group";
    out.emplace_back(path, without_member(*document.content, "consolidated_metadata"));
  }
  if (zarr_format == 2) {
    group = here.has(kZgroupKey) && !here.has(kZarrayKey);
    const std::string within = path.empty() ? std::string() : path + "/";
    for (const std::string_view name : {kZgroupKey, kZarrayKey, kZattrsKey}) {
      if (!here.has(name)) continue;
      PENSTOCK_ASSIGN(const stored_document document, required_document(from, prefix + std::string(name)));
      out.emplace_back(within + std::string(name), *document.content);
    }
  }
  if (!group) return {};
  std::sort(here.folders.begin(), here.folders.end());
  for (const std::string& name : here.folders) {
    PENSTOCK_TRY(
        collect(from, prefix + name + "/", path.empty() ? name : path + "/" + name, zarr_format, depth + 1, out));
  }
  return {};
}

}  // namespace

result<array> array::set_attributes(std::string_view attributes_json) const {
  PENSTOCK_ASSIGN(std::string text, edit_attributes(*state_, attributes_json, {}, true));
  return array(state_->with_attributes(std::move(text)));
}

result<array> array::update_attributes(std::string_view set_json, std::span<const std::string> removed) const {
  PENSTOCK_ASSIGN(std::string text, edit_attributes(*state_, set_json, removed, false));
  return array(state_->with_attributes(std::move(text)));
}

result<group> group::set_attributes(std::string_view attributes_json) const {
  PENSTOCK_ASSIGN(std::string text, edit_attributes(*state_, attributes_json, {}, true));
  return with_attributes(*state_, std::move(text));
}

result<group> group::update_attributes(std::string_view set_json, std::span<const std::string> removed) const {
  PENSTOCK_ASSIGN(std::string text, edit_attributes(*state_, set_json, removed, false));
  return with_attributes(*state_, std::move(text));
}

result<group> consolidate_metadata(std::shared_ptr<store> in, const open_options& options) {
  if (options.mode == open_mode::read)
    return error(errc::read_only, "consolidating metadata writes: mode must not be \"r\"");
  open_options plain = options;
  plain.use_consolidated = consolidation::never;
  PENSTOCK_ASSIGN(node found, open(in, plain));
  if (std::holds_alternative<array>(found)) {
    return error(errc::invalid_argument,
                 fmt::format("'{}' is an array; groups have consolidated metadata", std::get<array>(found).uri()));
  }
  const group root = std::move(std::get<group>(found));
  const auto note = [&](error why) { return std::move(why).note(fmt::format("consolidating '{}'", root.uri())); };
  const std::string& prefix = root.state().prefix;
  const int zarr_format = root.format() == "zarr2" ? 2 : 3;
  json::object_t nodes;
  if (result<> all = collect(*in, prefix, "", zarr_format, 0, nodes); !all.ok()) return note(std::move(all).error());
  result<> done;
  if (zarr_format == 2) {
    const json content =
        json::object_t{{"metadata", json(std::move(nodes))}, {"zarr_consolidated_format", std::int64_t{1}}};
    done = change_document(*in, prefix + std::string(kZmetadataKey), true,
                           [&](const json&) -> result<json> { return content; });
  } else {
    const json content =
        json::object_t{{"kind", "inline"}, {"must_understand", false}, {"metadata", json(std::move(nodes))}};
    done = change_document(*in, prefix + std::string(kZarrKey), false, [&](const json& document) -> result<json> {
      return with_member(document, "consolidated_metadata", content);
    });
  }
  if (!done.ok()) return note(std::move(done).error());
  open_options again = options;
  again.context = root.state().context;
  again.use_consolidated = consolidation::required;
  PENSTOCK_ASSIGN(node opened, open(in, again));
  return std::move(std::get<group>(opened));
}

}  // namespace penstock::inline v0
