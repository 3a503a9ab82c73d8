#include "driver/open_saved.h"

#include <fmt/format.h>
#include <penstock/open.h>
#include <penstock/place.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/extend/json.h>
#include "base/base64.h"
#include "base/checked.h"
#include "base/json_bytes.h"
#include "codec/codec_chain.h"
#include "codec/worker_scratch.h"
#include "driver/for_each_file.h"
#include "driver/open_reference.h"
#include "driver/open_saved_arrays.h"
#include "driver/reference_tree.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "store/http_message.h"
#include "store/validated_store.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kBegin = R"({"penstock_manifest")";
constexpr std::uint64_t kManifestVersion = 1;
constexpr std::uint64_t kMaxTableBytes = std::uint64_t{1} << 31;
/// A table may have this many bytes, or this many for each stored byte, whichever is more. Written tables have fewer.
constexpr std::uint64_t kSmallTableBytes = std::uint64_t{1} << 26, kMostExpansion = 64;
/// As many variants of codecs as an HDF5 dataset may have; joined files may have as many different lengths.
constexpr std::size_t kMaxVariants = 1000, kMaxJoinedVariants = 60000;
/// The most cells along the joined axis if the table lists fewer: a few bytes of a document may claim any number.
constexpr std::uint64_t kMaxUnlistedEdges = std::uint64_t{1} << 22;

error damaged_manifest(std::string_view what) {
  return {errc::corrupt_data, fmt::format("the manifest is damaged: {}", what)};
}

result<std::uint64_t> number_of(const json& from, std::string_view name) {
  const json* const member = from.find(name);
  std::uint64_t out = 0;
  if (member == nullptr || !member->get(out)) return damaged_manifest(fmt::format("'{}' is not a number", name));
  return out;
}

result<std::string> text_of(const json& from, std::string_view name) {
  const json* const member = from.find(name);
  if (member == nullptr || member->as_string() == nullptr)
    return damaged_manifest(fmt::format("'{}' is not text", name));
  return *member->as_string();
}

result<const json::array_t*> list_of(const json& from, std::string_view name) {
  const json* const member = from.find(name);
  if (member == nullptr || member->as_array() == nullptr)
    return damaged_manifest(fmt::format("'{}' is not a list", name));
  return member->as_array();
}

result<std::vector<std::byte>> unpack_table(const json& facts, std::span<const std::byte> packed) {
  PENSTOCK_ASSIGN(const std::uint64_t bytes, number_of(facts, "bytes"));
  if (bytes != packed.size()) {
    return damaged_manifest(fmt::format("its table has {} bytes, expected {}", packed.size(), bytes));
  }
  PENSTOCK_ASSIGN(const std::uint64_t plain, number_of(facts, "plain_bytes"));
  PENSTOCK_ASSIGN(const std::uint64_t checksum, number_of(facts, "crc32"));
  const std::uint64_t most = std::min(std::max(kSmallTableBytes, kMostExpansion * packed.size()), kMaxTableBytes);
  if (plain > most) {
    return error(errc::unsupported, fmt::format("a table of {} bytes, {} of them stored: at most {} are readable",
                                                plain, packed.size(), most));
  }
  if (plain == 0) return damaged_manifest("its table is empty");
  std::vector<std::byte> with_checksum(packed.begin(), packed.end());
  for (unsigned shift = 0; shift < 32; shift += 8) with_checksum.push_back(static_cast<std::byte>(checksum >> shift));
  const std::vector<codec_config> codecs = {
      {"bytes", {}}, {"zlib", {}}, {"crc32", json::object_t{{"location", "end"}}}};
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
  auto decoded = chain.decode(with_checksum, target, scratch);
  if (!decoded.ok()) return damaged_manifest(fmt::format("its table: {}", decoded.error().message()));
  return out;
}

result<std::vector<chain_variant>> variants_of(const json& document) {
  PENSTOCK_ASSIGN(const json::array_t* const list, list_of(document, "variants"));
  if (list->size() > (document.find("joined") != nullptr ? kMaxJoinedVariants : kMaxVariants))
    return damaged_manifest(fmt::format("{} chains of codecs", list->size()));
  std::vector<chain_variant> out;
  for (const json& each : *list) {
    const json::array_t* const pair = each.as_array();
    if (pair == nullptr || pair->size() < 2 || pair->size() > 3 || (*pair)[0].as_array() == nullptr)
      return damaged_manifest("a chain of codecs");
    chain_variant made;
    for (const json& skipped : *(*pair)[0].as_array()) {
      std::uint64_t which = 0;
      if (!skipped.get(which) || which > ~std::uint32_t{0}) return damaged_manifest("a filter's number");
      made.skipped.push_back(static_cast<std::uint32_t>(which));
    }
    if (!(*pair)[1].is_null()) {
      extents shape;
      if ((*pair)[1].as_array() == nullptr || (*pair)[1].as_array()->size() > kMaxRank)
        return damaged_manifest("a chunk's shape");
      for (const json& length : *(*pair)[1].as_array()) {
        std::uint64_t value = 0;
        if (!length.get(value)) return damaged_manifest("a chunk's shape");
        shape.push_back(value);
      }
      made.shape = std::move(shape);
    }
    if (pair->size() == 3) made.own = (*pair)[2];
    out.push_back(std::move(made));
  }
  return out;
}

/// The objects of a manifest, created together: files and remote objects are queried in parallel.
class objects_of_manifest {
 public:
  objects_of_manifest(const manifest_place& at, context& with, std::shared_ptr<context> of)
      : at_(at), with_(with), stores_(std::move(of)) {}

  result<std::vector<referenced_object>> make(const json::array_t& list) {
    out_.resize(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) PENSTOCK_TRY(read(list[i], i));
    PENSTOCK_TRY(find_files());
    PENSTOCK_TRY(find_remote());
    return std::move(out_);
  }

 private:
  result<> read(const json& from, std::size_t i) {
    referenced_object& out = out_[i];
    PENSTOCK_ASSIGN(out.name, text_of(from, "name"));
    if (from.find("data") != nullptr) return read_inlined(from, out);
    if (from.find("path") != nullptr) return read_path(from, i);
    PENSTOCK_TRY(at_.rule.check(out.name, out.name));
    PENSTOCK_TRY(at_.rule.check(out.name.substr(0, out.name.rfind('/')), out.name));
    if (is_local_location(out.name)) return damaged_manifest(fmt::format("the file '{}' has no 'path'", out.name));
    if (from.find("remote_stamp") != nullptr) {
      PENSTOCK_ASSIGN(out.remote_stamp, text_of(from, "remote_stamp"));
    }
    std::string version;
    if (from.find("version") != nullptr) {
      PENSTOCK_ASSIGN(version, text_of(from, "version"));
    }
    remote_.push_back(i);
    versions_.push_back(std::move(version));
    return {};
  }

  result<> read_inlined(const json& from, referenced_object& out) const {
    PENSTOCK_ASSIGN(const std::string text, text_of(from, "data"));
    const auto bytes = base64_decode(text);
    if (!bytes) return damaged_manifest("inlined bytes");
    const part whole(*bytes);
    auto put = inlined_->put(out.name, {&whole, 1}, {});
    if (!put.ok()) return std::move(put).error();
    out.from = inlined_;
    out.key = out.name;
    out.inlined = true;
    return {};
  }

  result<> read_path(const json& from, std::size_t i) {
    PENSTOCK_ASSIGN(const std::string relative, text_of(from, "path"));
    const std::string location = resolved_location(at_.folder, relative);
    PENSTOCK_TRY(at_.rule.check(location, relative));
    PENSTOCK_ASSIGN(referenced_object found, stores_.object(location));
    if (!found.path.empty()) found.name = std::move(out_[i].name);  // otherwise it is found by its URL
    if (const json* const stamp = from.find("stamp"); stamp != nullptr && !stamp->is_null()) {
      std::uint64_t size = 0;
      std::int64_t time = 0;
      const json::array_t* const pair = stamp->as_array();
      if (pair == nullptr || pair->size() != 2 || !(*pair)[0].get(size) || !(*pair)[1].get(time))
        return damaged_manifest("a file's size and time of change");
      found.stamp = file_stamp{size, time};
    }
    if (const json* const sum = from.find("crc32c")) {
      std::uint64_t value = 0;
      if (!sum->get(value) || value > ~std::uint32_t{0}) return damaged_manifest("a checksum");
      found.crc32c = static_cast<std::uint32_t>(value);
    }
    if (!found.path.empty()) files_.push_back(i);
    out_[i] = std::move(found);
    return {};
  }

  result<> find_files() {
    std::vector<std::string> paths;
    paths.reserve(files_.size());
    for (const std::size_t i : files_) paths.push_back(out_[i].path);
    PENSTOCK_ASSIGN(const auto now, query_files(paths, with_));
    for (std::size_t k = 0; k < files_.size(); ++k) {
      referenced_object& file = out_[files_[k]];
      if (!now[k]) continue;  // one that no longer exists is an error when it is read
      file.seen = now[k]->seen;
      if (file.stamp && !(now[k]->stamp == *file.stamp)) {
        return error(errc::conflict,
                     fmt::format("'{}' changed since the manifest was saved: save it again", file.path));
      }
    }
    return {};
  }

  result<> find_remote() {
    std::vector<std::optional<place>> found(remote_.size());
    if (at_.find_objects && !remote_.empty()) {
      std::vector<remote_object> wanted;
      wanted.reserve(remote_.size());
      for (std::size_t k = 0; k < remote_.size(); ++k) {
        const referenced_object& each = out_[remote_[k]];
        wanted.push_back({each.name, each.remote_stamp, !versions_[k].empty() || size_in(each.remote_stamp)});
      }
      PENSTOCK_ASSIGN(found, at_.find_objects(wanted));
      if (found.size() != remote_.size()) return error(errc::internal, "the found objects differ from the named ones");
    }
    for (std::size_t k = 0; k < remote_.size(); ++k) {
      referenced_object& out = out_[remote_[k]];
      if (found[k]) {
        out.from = std::move(found[k]->store);
        out.key = std::move(found[k]->path);
      } else if (out.remote_stamp.empty() || !versions_[k].empty() || size_in(out.remote_stamp)) {
        const std::string stamp = std::move(out.remote_stamp);
        PENSTOCK_ASSIGN(out, stores_.object(out.name));
        out.remote_stamp = stamp;
      } else {
        return error(errc::unsupported, fmt::format("'{}' is pinned to a version of another store: open the "
                                                    "manifest in Python",
                                                    out.name));
      }
      if (dynamic_cast<const validated_store*>(out.from.get()) == nullptr) continue;
      if (!versions_[k].empty()) {
        out.seen = version_of_text(std::move(versions_[k]));
      } else if (const auto size = size_in(out.remote_stamp)) {
        PENSTOCK_TRY(check_size(out, *size));
      }
      out.remote_stamp.clear();
    }
    return {};
  }

  /// The size, if a stamp has nothing else.
  static std::optional<std::uint64_t> size_in(std::string_view stamp) {
    constexpr std::string_view kSize = "size=";
    return stamp.starts_with(kSize) ? parse_number(stamp.substr(kSize.size())) : std::nullopt;
  }

  result<> check_size(const referenced_object& of, std::uint64_t size) const {
    const auto read = read_and_wait(*of.from, of.key, {0, 1, false}, 1);
    if (!read.ok() && read.error().code() == errc::not_found && at_.missing_is_fill) return {};
    if (!read.ok()) return read.error().clone().note(read_note(of.name, {}));
    if (read->object_size == size) return {};
    return error(errc::conflict, fmt::format("'{}' changed since the manifest was saved: save it again", of.name));
  }

  const manifest_place& at_;
  context& with_;
  reference_stores stores_;
  std::shared_ptr<store> inlined_ = make_memory_store();
  std::vector<referenced_object> out_;
  std::vector<std::size_t> files_, remote_;  // numbers of objects
  std::vector<std::string> versions_;        // versions of the remote objects, as HTTP names them; empty: not known
};

// Expands pairs [number, repetitions] to the numbers themselves, at most `most` numbers.
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

result<joined_axis> axis_of(const json& from, std::uint64_t cells) {
  joined_axis out;
  PENSTOCK_ASSIGN(const std::uint64_t axis, number_of(from, "axis"));
  out.axis = static_cast<std::size_t>(axis);
  PENSTOCK_ASSIGN(const json::array_t* const lengths, list_of(from, "cells"));
  PENSTOCK_ASSIGN(const json::array_t* const decoded, list_of(from, "decoded"));
  PENSTOCK_ASSIGN(out.edges, spread(*lengths, cells));
  PENSTOCK_ASSIGN(out.decoded, spread(*decoded, cells));
  if (out.edges.empty()) return out;
  std::uint64_t end = 0;
  for (std::uint64_t& each : out.edges) {
    if (!checked_add(end, each, end)) return damaged_manifest("the lengths of its chunks");
    each = end;
  }
  out.edges.insert(out.edges.begin(), 0);
  return out;
}

// The first dimension; the others are in `more`.
result<std::vector<joined_axis>> joined_of(const json& document, std::uint64_t cells) {
  std::vector<joined_axis> out;
  const json* const from = document.find("joined");
  if (from == nullptr) return out;
  PENSTOCK_ASSIGN(joined_axis first, axis_of(*from, cells));
  out.push_back(std::move(first));
  const json* const more = from->find("more");
  if (more == nullptr) return out;
  if (more->as_array() == nullptr || more->as_array()->size() >= kMaxRank)
    return damaged_manifest("the dimensions of its chunks");
  for (const json& each : *more->as_array()) {
    PENSTOCK_ASSIGN(joined_axis made, axis_of(each, cells));
    out.push_back(std::move(made));
  }
  return out;
}

result<array> open_document(const json& document, std::span<const std::byte> packed, const manifest_place& at,
                            const std::shared_ptr<context>& with) {
  PENSTOCK_ASSIGN(const std::uint64_t version, number_of(document, "penstock_manifest"));
  if (version != kManifestVersion) {
    return error(errc::unsupported, fmt::format("a manifest of version {} is not readable", version));
  }
  PENSTOCK_ASSIGN(const std::string kind, text_of(document, "kind"));
  if (kind == "arrays") return open_saved_arrays(document, at, with);
  if (kind != "references") {
    return error(errc::unsupported,
                 fmt::format("a manifest of '{}' is opened by the Python package only: pyarrow reads its files", kind));
  }
  referenced_array what;
  const json* const documents = document.find("documents");
  if (documents == nullptr || documents->as_object() == nullptr) return damaged_manifest("it has no metadata");
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, text] : *documents->as_object()) texts.emplace_back(name, text.dump());
  PENSTOCK_ASSIGN(what.metadata, parse_array_documents(texts));
  what.documents = std::move(texts);
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
  entries = std::min<std::uint64_t>(entries, table.size());  // each takes at least a byte
  PENSTOCK_ASSIGN(what.joined, joined_of(document, std::min(cells, std::max(entries, kMaxUnlistedEdges))));
  PENSTOCK_ASSIGN(const json::array_t* const objects, list_of(document, "objects"));
  PENSTOCK_ASSIGN(what.objects, objects_of_manifest(at, *with, with).make(*objects));
  what.missing_is_fill = at.missing_is_fill;
  return open_reference(with, std::move(what));
}

/// Whether a name is that of a member, at any level that save_references writes: names with '/' between them.
bool is_member_path(std::string_view name) {
  constexpr std::ptrdiff_t kMaxLevels = 32;
  return !name.empty() && name.front() != '/' && name.back() != '/' && name.find("//") == std::string_view::npos &&
         std::count(name.begin(), name.end(), '/') < kMaxLevels;
}

/// The arrays of a manifest of a group, opened at first use.
class saved_members final : public member_source, public std::enable_shared_from_this<saved_members> {
 public:
  static result<std::shared_ptr<const saved_members>> make(std::vector<std::byte> manifest, const json& document,
                                                           std::size_t begin, manifest_place at,
                                                           std::shared_ptr<context> with) {
    auto out = std::make_shared<saved_members>();
    PENSTOCK_ASSIGN(out->uri_, text_of(document, "uri"));
    PENSTOCK_TRY(out->add_group("", document));
    PENSTOCK_ASSIGN(const json::array_t* const members, list_of(document, "members"));
    for (const json& each : *members) {
      PENSTOCK_ASSIGN(const std::string name, text_of(each, "name"));
      PENSTOCK_ASSIGN(const std::uint64_t bytes, number_of(each, "bytes"));
      if (bytes > manifest.size() - begin) return damaged_manifest(fmt::format("the member '{}' is truncated", name));
      if (!is_member_path(name) || !out->members_.try_emplace(name, begin, static_cast<std::size_t>(bytes)).second)
        return damaged_manifest(fmt::format("the member '{}'", name));
      begin += static_cast<std::size_t>(bytes);
    }
    if (begin != manifest.size()) return damaged_manifest("bytes after its members");
    if (document.find("groups") != nullptr) {
      PENSTOCK_ASSIGN(const json::array_t* const groups, list_of(document, "groups"));
      for (const json& each : *groups) {
        PENSTOCK_ASSIGN(const std::string name, text_of(each, "name"));
        if (!is_member_path(name)) return damaged_manifest(fmt::format("the group '{}'", name));
        PENSTOCK_TRY(out->add_group(name, each));
      }
    }
    PENSTOCK_TRY(out->check_parents());
    out->manifest_ = std::move(manifest);
    out->at_ = std::move(at);
    out->context_ = std::move(with);
    return std::shared_ptr<const saved_members>(std::move(out));
  }

  result<node> open(std::string_view path) const override {
    const std::string prefix = prefix_of(path);
    const std::string name = prefix.substr(0, prefix.size() - (prefix.empty() ? 0 : 1));
    const auto found = members_.find(name);
    if (found != members_.end()) {
      const auto bytes = std::span(manifest_).subspan(found->second.first, found->second.second);
      auto made = open_saved_references(bytes, at_, context_);
      if (!made.ok()) return std::move(made).error().note(fmt::format("member '{}' of a manifest", name));
      return node(std::move(*made));
    }
    const auto attributes = groups_.find(name);
    if (attributes == groups_.end() && !has_below(members_, prefix) && !has_below(groups_, prefix))
      return error(errc::not_found, fmt::format("the manifest has no '{}'", name));
    auto state = std::make_shared<group_state>();
    state->context = context_;
    state->store = make_read_only(make_memory_store());
    state->prefix = prefix;
    state->opened_for_reading = true;
    state->attributes_json = attributes != groups_.end() ? attributes->second : "{}";
    state->format = "virtual";
    state->uri = uri_;
    state->use_consolidated = consolidation::never;
    state->members = shared_from_this();
    return node(group(std::move(state)));
  }

  result<std::optional<std::vector<std::string>>> keys(std::string_view path) const override {
    const std::string prefix = prefix_of(path);
    std::set<std::string> found;  // 'a-b' is between 'a' and 'a/b'
    add_names(members_, prefix, found);
    add_names(groups_, prefix, found);
    return std::optional(std::vector<std::string>(found.begin(), found.end()));
  }

 private:
  template <class Value>
  using by_path = std::map<std::string, Value, std::less<>>;

  template <class Value>
  static bool has_below(const by_path<Value>& of, const std::string& prefix) {
    const auto below = of.lower_bound(prefix);
    return below != of.end() && below->first.starts_with(prefix);
  }

  template <class Value>
  static void add_names(const by_path<Value>& of, const std::string& prefix, std::set<std::string>& out) {
    for (auto each = of.lower_bound(prefix); each != of.end() && each->first.starts_with(prefix); ++each) {
      const std::string_view name = std::string_view(each->first).substr(prefix.size());
      if (!name.empty()) out.emplace(name.substr(0, name.find('/')));
    }
  }

  result<> add_group(const std::string& path, const json& from) {
    const json* const attributes = from.find("attributes");
    if (attributes == nullptr || attributes->as_object() == nullptr)
      return damaged_manifest(fmt::format("the group '{}' has no attributes", path));
    if (!groups_.try_emplace(path, attributes->dump()).second)
      return damaged_manifest(fmt::format("the group '{}' occurs twice", path));
    return {};
  }

  // An array has no members.
  result<> check_parents() const {
    const auto check = [&](const std::string& path, bool is_group) -> result<> {
      for (std::size_t end = is_group ? path.size() : path.rfind('/'); end != std::string::npos && end != 0;
           end = path.rfind('/', end - 1)) {
        if (members_.contains(std::string_view(path).substr(0, end)))
          return damaged_manifest(fmt::format("'{}' is an array and a group", path.substr(0, end)));
      }
      return {};
    };
    for (const auto& each : members_) PENSTOCK_TRY(check(each.first, false));
    for (const auto& each : groups_) PENSTOCK_TRY(check(each.first, true));
    return {};
  }

  std::vector<std::byte> manifest_;
  manifest_place at_;
  std::shared_ptr<context> context_;
  std::string uri_;
  by_path<std::pair<std::size_t, std::size_t>> members_;  // begin and length
  by_path<std::string> groups_;                           // attributes as JSON
};

}  // namespace

result<node> open_saved_node(std::vector<std::byte> manifest, manifest_place at, std::shared_ptr<context> with) {
  if (!with) {
    PENSTOCK_ASSIGN(with, context::make());
  }
  const std::string_view text(reinterpret_cast<const char*>(manifest.data()), manifest.size());
  const std::size_t line = std::min(text.find('\n'), text.size());
  PENSTOCK_ASSIGN(const json document, parse_json_with_bytes(text.substr(0, line)));
  const json* const kind = document.find("kind");
  if (kind == nullptr || kind->as_string() == nullptr || *kind->as_string() != "group") {
    PENSTOCK_ASSIGN(array made, open_saved_references(manifest, at, std::move(with)));
    return node(std::move(made));
  }
  PENSTOCK_ASSIGN(const std::uint64_t version, number_of(document, "penstock_manifest"));
  if (version != kManifestVersion)
    return error(errc::unsupported, fmt::format("a manifest of version {} is not readable", version));
  const std::size_t begin = std::min(line + 1, manifest.size());
  PENSTOCK_ASSIGN(const auto members,
                  saved_members::make(std::move(manifest), document, begin, std::move(at), std::move(with)));
  return members->open("");
}

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
  PENSTOCK_ASSIGN(const json document, parse_json_with_bytes(text.substr(0, line)));
  PENSTOCK_ASSIGN(const array opened,
                  open_document(document, manifest.subspan(std::min(line + 1, text.size())), at, with));
  if (opened.format() == "joined") return opened;  // a join is not an array of references
  return array(opened.state().with_saved(std::make_shared<const saved_references>(
      saved_references{std::vector<std::byte>(manifest.begin(), manifest.end()), at.folder})));
}

}  // namespace penstock::inline v0
