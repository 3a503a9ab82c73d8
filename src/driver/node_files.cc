#include "driver/node_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "driver/append_claim_key.h"
#include "driver/zarr_nodes.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

constexpr std::array<std::string_view, 5> kDocuments = {kZarrKey, kZarrayKey, kZgroupKey, kZattrsKey, kZmetadataKey};

error wrong(std::string message) { return {errc::invalid_argument, std::move(message)}; }

class all_keys final : public key_sink {
 public:
  bool key(std::string_view key, std::uint64_t) override {
    keys.emplace_back(key);
    return true;
  }
  std::vector<std::string> keys;
};

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// Whether `text` is numbers between '.' and '/'.
bool is_numbers(std::string_view text) noexcept {
  if (text.empty() || !is_digit(text.front()) || !is_digit(text.back())) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_digit(text[i])) continue;
    if ((text[i] != '.' && text[i] != '/') || !is_digit(text[i + 1])) return false;
  }
  return true;
}

/// Whether a key of an array is that of a chunk, in any of the encodings: `c/0/1`, `c.0.1`, `0/1`, `0.1`, with a
/// suffix.
bool is_chunk_key(std::string_view key, std::string_view suffix, bool any_suffix) noexcept {
  if (key == "c" || key.starts_with("c/")) return true;
  if (any_suffix) return !key.empty() && (is_digit(key.front()) || key.starts_with("c."));
  if (!suffix.empty() && key.ends_with(suffix)) key.remove_suffix(suffix.size());
  if (key == "c") return true;
  if (key.starts_with("c.")) key.remove_prefix(2);
  return is_numbers(key);
}

}  // namespace

bool is_zarr_document(std::string_view name) noexcept {
  return std::find(kDocuments.begin(), kDocuments.end(), name) != kDocuments.end();
}

result<version> put_document(store& in, const std::string& prefix, const zarr_document& document,
                             const write_condition& condition) {
  const std::string text = document_text(document.content);
  const part bytes = std::as_bytes(std::span(text.data(), text.size()));
  const std::string key = prefix + document.key;
  auto put = in.put(key, {&bytes, 1}, condition);
  if (!put.ok()) return std::move(put).error().note(fmt::format("writing '{}'", key));
  return put;
}

result<> make_parents(store& in, const std::string& prefix, int zarr_format, bool durable) {
  PENSTOCK_TRY(in.check_writable(prefix));  // before a parent is written
  zarr_metadata parent;
  parent.zarr_format = zarr_format;
  PENSTOCK_ASSIGN(const std::vector<zarr_document> documents, write_zarr_documents(parent));
  for (std::size_t end = 0; end < prefix.size(); end = prefix.find('/', end) + 1) {
    const std::string at = prefix.substr(0, end);
    const auto has = [&](std::string_view name) { return read_document(in, at + std::string(name)); };
    if (zarr_format == 3) {
      PENSTOCK_ASSIGN(const std::optional<stored_document> found, has(kZarrKey));
      if (found) {
        const json* kind = found->content->find("node_type");
        if (kind != nullptr && kind->as_string() != nullptr && *kind->as_string() == "array") {
          return wrong(fmt::format("'{}' is an array, it holds no nodes", child_uri(in.uri(), at)));
        }
        continue;
      }
    } else {
      PENSTOCK_ASSIGN(const std::optional<stored_document> zarray, has(kZarrayKey));
      if (zarray) return wrong(fmt::format("'{}' is an array, it holds no nodes", child_uri(in.uri(), at)));
      PENSTOCK_ASSIGN(const std::optional<stored_document> zgroup, has(kZgroupKey));
      if (zgroup) continue;
    }
    for (const zarr_document& document : documents) {
      auto put = put_document(in, at, document, {write_condition::kind::must_be_absent, {}, durable});
      // Another writer may create the same parent at the same time.
      if (!put.ok() && put.error().code() != errc::version_changed) return std::move(put).error();
    }
  }
  return {};
}

result<std::vector<std::string_view>> documents_at(const store& in, const std::string& prefix) {
  std::vector<std::string_view> out;
  for (const std::string_view name : {kZarrKey, kZarrayKey, kZgroupKey}) {
    PENSTOCK_ASSIGN(const std::optional<stored_document> found, read_document(in, prefix + std::string(name)));
    if (found) out.push_back(name);
  }
  return out;
}

result<node_objects> node_objects::find(const store& in, const std::string& prefix) {
  all_keys listed;
  PENSTOCK_TRY(in.list(prefix, listing::objects, listed));
  node_objects out;
  std::vector<std::string> rest;
  for (std::string& full : listed.keys) {
    std::string key = full.substr(prefix.size());
    const std::size_t slash = key.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : key.substr(0, slash + 1);
    const std::string_view name = std::string_view(key).substr(folder.size());
    if (!is_zarr_document(name)) {
      rest.push_back(std::move(key));
      continue;
    }
    if (name == kZarrayKey) out.owners_[folder].is_array = true;
    if (name == kZgroupKey) out.owners_[folder];
    if (name == kZarrKey) {
      owner& made = out.owners_[folder];
      const auto document = read_document(in, full);
      const json* const content = document.ok() && *document ? (*document)->content.get() : nullptr;
      const json* const kind = content != nullptr ? content->find("node_type") : nullptr;
      const std::string* const text = kind != nullptr ? kind->as_string() : nullptr;
      if (text == nullptr) made.is_array = made.any_suffix = true;
      if (text != nullptr && *text == "array") made.is_array = true;
      if (content != nullptr) {
        const json* at = content->find("chunk_key_encoding");
        for (const char* const member : {"configuration", "suffix"})
          if (at != nullptr) at = at->find(member);
        if (at != nullptr && at->as_string() != nullptr) made.suffix = *at->as_string();
      }
    }
    out.keys_.push_back(std::move(key));
  }
  for (std::string& key : rest) (out.belongs(key) ? out.keys_ : out.others_).push_back(std::move(key));
  return out;
}

const node_objects::owner* node_objects::owner_of(std::string_view key, std::string_view& rest) const {
  std::string folder(key);
  for (;;) {
    const std::size_t slash = folder.empty() ? std::string::npos : folder.rfind('/', folder.size() - 1);
    folder.resize(slash == std::string::npos ? 0 : slash + 1);
    if (const auto found = owners_.find(folder); found != owners_.end()) {
      rest = key.substr(folder.size());
      return &found->second;
    }
    if (folder.empty()) return nullptr;
    folder.pop_back();
  }
}

bool node_objects::belongs(std::string_view key) const {
  const std::string_view name = key.substr(key.rfind('/') + 1);
  if (is_zarr_document(name) || name == kClaimKey || name == kCopyMark) return true;
  std::string_view rest;
  const owner* const of = owner_of(key, rest);
  return of != nullptr && of->is_array && is_chunk_key(rest, of->suffix, of->any_suffix);
}

error stands_in_the_way(std::string_view key) {
  return wrong(fmt::format("'{}' is not part of the overwritten node, and the new node needs its name: move it", key));
}

result<> erase_node(store& in, const std::string& prefix, bool for_array) {
  PENSTOCK_ASSIGN(const node_objects objects, node_objects::find(in, prefix));
  return erase_node(in, prefix, objects, for_array);
}

result<> erase_node(store& in, const std::string& prefix, const node_objects& objects, bool for_array) {
  for (const std::string& key : objects.others())
    if (for_array && is_chunk_key(key, "", false)) return stands_in_the_way(key);
  const auto erase = [&](const std::string& key) -> result<> {
    auto erased = in.erase(key, {});
    if (!erased.ok()) return std::move(erased).error().note(fmt::format("erasing '{}'", key));
    return {};
  };
  for (const std::string_view name : kDocuments) PENSTOCK_TRY(erase(prefix + std::string(name)));
  for (const std::string& key : objects.keys()) PENSTOCK_TRY(erase(prefix + key));
  return {};
}

}  // namespace penstock::inline v0
