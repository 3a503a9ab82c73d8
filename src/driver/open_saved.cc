#include "driver/open_saved.h"

#include <fmt/format.h>
#include <penstock/open.h>
#include <penstock/place.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/extend/json.h>
#include "base/base64.h"
#include "base/checked.h"
#include "codec/codec_chain.h"
#include "codec/worker_scratch.h"
#include "driver/open_reference.h"
#include "driver/reference_tree.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "store/file_status.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kBegin = R"({"penstock_manifest")";
constexpr std::uint64_t kManifestVersion = 1;
constexpr std::uint64_t kMaxTableBytes = std::uint64_t{1} << 31;
/// DEFLATE makes at most 1032 bytes of one.
constexpr std::uint64_t kMostOfOne = 1032;
constexpr std::size_t kMaxVariants = 60000;
/// Cells along the joined axis where the table lists fewer: a few bytes may say that there are any number of them.
constexpr std::uint64_t kMaxUnlistedEdges = std::uint64_t{1} << 20;

error damaged_manifest(std::string_view what) {
  return {errc::corrupt_data, fmt::format("the manifest is damaged: {}", what)};
}

result<std::uint64_t> number_of(const json& from, std::string_view name) {
  const json* const member = from.find(name);
  std::uint64_t out = 0;
  if (member == nullptr || !member->get(out)) return damaged_manifest(fmt::format("'{}' is no number", name));
  return out;
}

result<std::string> text_of(const json& from, std::string_view name) {
  const json* const member = from.find(name);
  if (member == nullptr || member->as_string() == nullptr)
    return damaged_manifest(fmt::format("'{}' is no text", name));
  return *member->as_string();
}

result<const json::array_t*> list_of(const json& from, std::string_view name) {
  const json* const member = from.find(name);
  if (member == nullptr || member->as_array() == nullptr) return damaged_manifest(fmt::format("'{}' is no list", name));
  return member->as_array();
}

result<std::vector<std::byte>> unpack_table(const json& facts, std::span<const std::byte> packed) {
  PENSTOCK_ASSIGN(const std::uint64_t bytes, number_of(facts, "bytes"));
  if (bytes != packed.size()) {
    return damaged_manifest(fmt::format("its table has {} bytes, the document says {}", packed.size(), bytes));
  }
  if (facts.find("plain_bytes") == nullptr) {
    return error(errc::unsupported, "the manifest is an older release's: open it with Python, or save it again");
  }
  PENSTOCK_ASSIGN(const std::uint64_t plain, number_of(facts, "plain_bytes"));
  if (plain == 0 || plain > kMaxTableBytes || plain / kMostOfOne > packed.size()) {
    return damaged_manifest(fmt::format("a table of {} bytes, {} of them stored", plain, packed.size()));
  }
  const std::vector<codec_config> codecs = {{"bytes", {}}, {"zlib", {}}};
  PENSTOCK_ASSIGN(const codec_chain chain,
                  codec_chain::compile(codecs, dtype(dtype_kind::unsigned_integer, 8), {plain}));
  std::vector<std::byte> out(static_cast<std::size_t>(plain));
  strided_box all(1);
  all[0] = {0, 1, plain};
  decode_target target;
  target.data = out.data();
  target.strides = {1};
  target.in_cell = &all;
  target.covers_cell = true;
  worker_scratch scratch;
  PENSTOCK_TRY(chain.decode(packed, target, scratch));
  return out;
}

result<std::vector<chain_variant>> variants_of(const json& document) {
  PENSTOCK_ASSIGN(const json::array_t* const list, list_of(document, "variants"));
  if (list->size() > kMaxVariants) return damaged_manifest(fmt::format("{} chains of codecs", list->size()));
  std::vector<chain_variant> out;
  for (const json& each : *list) {
    const json::array_t* const pair = each.as_array();
    if (pair == nullptr || pair->size() != 2 || (*pair)[0].as_array() == nullptr)
      return damaged_manifest("a chain of codecs");
    chain_variant made;
    for (const json& skipped : *(*pair)[0].as_array()) {
      std::uint64_t which = 0;
      if (!skipped.get(which) || which > ~std::uint32_t{0}) return damaged_manifest("a filter's number");
      made.skipped.push_back(static_cast<std::uint32_t>(which));
    }
    if (!(*pair)[1].is_null()) {
      extents shape;
      if ((*pair)[1].as_array() == nullptr) return damaged_manifest("a chunk's shape");
      for (const json& length : *(*pair)[1].as_array()) {
        std::uint64_t value = 0;
        if (!length.get(value)) return damaged_manifest("a chunk's shape");
        shape.push_back(value);
      }
      made.shape = std::move(shape);
    }
    out.push_back(std::move(made));
  }
  return out;
}

/// Stores by folder, and the memory that inlined bytes go to.
struct places {
  const manifest_place& at;
  reference_stores stores;
  std::shared_ptr<store> inlined = make_memory_store();
};

result<> check_stamp(const referenced_object& file, const json& stamp) {
  if (stamp.is_null()) return {};
  std::uint64_t size = 0, time = 0;
  const json::array_t* const pair = stamp.as_array();
  if (pair == nullptr || pair->size() != 2 || !(*pair)[0].get(size) || !(*pair)[1].get(time)) {
    return damaged_manifest("a file's size and time of change");
  }
  auto seen = read_and_wait(*file.from, file.key, {0, 0, false}, byte_range::kAll - 1);
  if (!seen.ok()) {
    if (seen.error().code() == errc::not_found) return {};  // said when it is read
    return std::move(seen).error();
  }
  if (seen->seen.word[kSizeWord] == size + 1 && seen->seen.word[kTimeWord] == time) return {};
  return error(errc::conflict, fmt::format("'{}' changed since the manifest was saved: save it again", file.name));
}

result<referenced_object> object_of(const json& from, places& where) {
  referenced_object out;
  PENSTOCK_ASSIGN(out.name, text_of(from, "name"));
  if (from.find("data") != nullptr) {
    PENSTOCK_ASSIGN(const std::string text, text_of(from, "data"));
    const auto bytes = base64_decode(text);
    if (!bytes) return damaged_manifest("inlined bytes");
    const part whole(*bytes);
    auto put = where.inlined->put(out.name, {&whole, 1}, {});
    if (!put.ok()) return std::move(put).error();
    out.from = where.inlined;
    out.key = out.name;
    return out;
  }
  if (from.find("path") == nullptr) {
    PENSTOCK_TRY(where.at.rule.check(out.name, out.name));
    if (from.find("remote_stamp") != nullptr) {
      return error(errc::unsupported, fmt::format("'{}' is pinned to a version as Python's stores know it: open the "
                                                  "manifest with Python",
                                                  out.name));
    }
    return where.stores.object(out.name);
  }
  PENSTOCK_ASSIGN(const std::string relative, text_of(from, "path"));
  const std::filesystem::path path = (std::filesystem::path(where.at.folder) / relative).lexically_normal();
  const std::string name = out.name;
  const bool is_remote = where.at.folder.find("://") != std::string::npos;
  PENSTOCK_TRY(where.at.rule.check(is_remote ? resolved_location(where.at.folder, relative) : path.string(), relative));
  PENSTOCK_ASSIGN(out, where.stores.object(is_remote ? resolved_location(where.at.folder, relative) : path.string()));
  out.name = name;
  if (const json* const stamp = from.find("stamp")) PENSTOCK_TRY(check_stamp(out, *stamp));
  std::error_code failed;
  out.pinned = !is_remote && std::filesystem::exists(path, failed);
  if (const json* const sum = from.find("crc32c")) {
    std::uint64_t value = 0;
    if (!sum->get(value) || value > ~std::uint32_t{0}) return damaged_manifest("a checksum");
    out.crc32c = static_cast<std::uint32_t>(value);
  }
  return out;
}

// [number, how often] one after the other, for no more than `most` numbers.
result<std::vector<std::uint64_t>> spread(const json::array_t& runs, std::uint64_t most) {
  std::vector<std::uint64_t> out;
  for (const json& each : runs) {
    std::uint64_t value = 0, count = 0;
    const json::array_t* const pair = each.as_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].get(value) || !(*pair)[1].get(count) ||
        count > most - out.size()) {
      return damaged_manifest("the lengths of its chunks");
    }
    out.insert(out.end(), static_cast<std::size_t>(count), value);
  }
  return out;
}

result<std::optional<joined_axis>> joined_of(const json& document, std::uint64_t cells) {
  const json* const from = document.find("joined");
  if (from == nullptr) return std::optional<joined_axis>();
  joined_axis out;
  PENSTOCK_ASSIGN(const std::uint64_t axis, number_of(*from, "axis"));
  out.axis = static_cast<std::size_t>(axis);
  PENSTOCK_ASSIGN(const json::array_t* const lengths, list_of(*from, "cells"));
  PENSTOCK_ASSIGN(const json::array_t* const decoded, list_of(*from, "decoded"));
  PENSTOCK_ASSIGN(out.edges, spread(*lengths, cells));
  PENSTOCK_ASSIGN(out.decoded, spread(*decoded, cells));
  if (out.edges.empty()) return std::optional<joined_axis>();
  std::uint64_t end = 0;
  for (std::uint64_t& each : out.edges) {
    if (!checked_add(end, each, end)) return damaged_manifest("the lengths of its chunks");
    each = end;
  }
  out.edges.insert(out.edges.begin(), 0);
  return std::optional(std::move(out));
}

result<array> open_document(const json& document, std::span<const std::byte> packed, const manifest_place& at,
                            const std::shared_ptr<context>& with) {
  PENSTOCK_ASSIGN(const std::uint64_t version, number_of(document, "penstock_manifest"));
  if (version != kManifestVersion) {
    return error(errc::unsupported, fmt::format("a manifest of version {} is not readable", version));
  }
  PENSTOCK_ASSIGN(const std::string kind, text_of(document, "kind"));
  if (kind != "references") {
    return error(errc::unsupported, fmt::format("a manifest of {} is opened by Python, which decodes them", kind));
  }
  referenced_array what;
  const json* const documents = document.find("documents");
  if (documents == nullptr || documents->as_object() == nullptr) return damaged_manifest("it has no metadata");
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, text] : *documents->as_object()) texts.emplace_back(name, text.dump());
  PENSTOCK_ASSIGN(what.metadata, parse_array_documents(texts));
  const json* const facts = document.find("table");
  if (facts == nullptr) return damaged_manifest("it has no table");
  PENSTOCK_ASSIGN(const std::vector<std::byte> table, unpack_table(*facts, packed));
  PENSTOCK_ASSIGN(what.table, reference_table::parse(table));
  PENSTOCK_ASSIGN(what.variants, variants_of(document));
  PENSTOCK_ASSIGN(what.format, text_of(document, "format"));
  PENSTOCK_ASSIGN(what.uri, text_of(document, "uri"));
  if (const json* const names = document.find("dimension_names"); names != nullptr && names->as_array() != nullptr) {
    for (const json& each : *names->as_array()) {
      what.dimension_names.push_back(each.as_string() != nullptr ? std::optional(*each.as_string()) : std::nullopt);
    }
  }
  std::uint64_t cells = 0;
  for (std::size_t i = 24; i-- > 16 && table.size() >= 24;) cells = cells << 8 | static_cast<std::uint64_t>(table[i]);
  std::uint64_t entries = 0;
  for (std::size_t i = 16; i-- > 8 && table.size() >= 24;)
    entries = entries << 8 | static_cast<std::uint64_t>(table[i]);
  entries = std::min<std::uint64_t>(entries, table.size());  // each takes a byte at least
  PENSTOCK_ASSIGN(what.joined, joined_of(document, std::min(cells, std::max(entries, kMaxUnlistedEdges))));
  places where{at, reference_stores(with)};
  PENSTOCK_ASSIGN(const json::array_t* const objects, list_of(document, "objects"));
  for (const json& each : *objects) {
    PENSTOCK_ASSIGN(referenced_object made, object_of(each, where));
    what.objects.push_back(std::move(made));
  }
  return open_reference(with, what);
}

}  // namespace

bool is_saved_references(std::span<const std::byte> begin) noexcept {
  return std::string_view(reinterpret_cast<const char*>(begin.data()), begin.size()).starts_with(kBegin);
}

result<array> open_saved_references(std::span<const std::byte> manifest, const manifest_place& at,
                                    std::shared_ptr<context> with) {
  if (!with) {
    PENSTOCK_ASSIGN(with, context::make());
  }
  const std::string_view text(reinterpret_cast<const char*>(manifest.data()), manifest.size());
  const std::size_t line = std::min(text.find('\n'), text.size());
  PENSTOCK_ASSIGN(const json document, json::parse(text.substr(0, line)));
  PENSTOCK_ASSIGN(const array opened,
                  open_document(document, manifest.subspan(std::min(line + 1, text.size())), at, with));
  return array(opened.state().with_saved(std::make_shared<const saved_references>(
      saved_references{std::vector<std::byte>(manifest.begin(), manifest.end()), at.folder})));
}

}  // namespace penstock::inline v0
