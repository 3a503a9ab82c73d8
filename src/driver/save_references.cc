// Writes manifests of references, which open_saved.cc reads.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include <penstock/extend/json.h>
#include "base/base64.h"
#include "base/json_bytes.h"
#include "codec/codec_chain.h"
#include "codec/worker_scratch.h"
#include "driver/open_hdf5.h"
#include "driver/open_reference.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/reference/location_rule.h"
#include "store/http_message.h"
#include "store/validated_store.h"

namespace penstock::inline v0 {
namespace {

/// The limits of readers for a compressed table: this many bytes, or this many for each stored one.
constexpr std::uint64_t kSmallTableBytes = std::uint64_t{1} << 26, kMostExpansion = 64;

json number(std::uint64_t value) { return {value}; }

json numbers(const std::vector<std::uint64_t>& values) {
  json::array_t out;
  out.reserve(values.size());
  for (const std::uint64_t each : values) out.push_back(number(each));
  return {std::move(out)};
}

/// [number, repetitions] for each run of equal numbers.
json runs_of(const std::vector<std::uint64_t>& values) {
  json::array_t out;
  for (std::size_t begin = 0; begin < values.size();) {
    std::size_t end = begin + 1;
    while (end < values.size() && values[end] == values[begin]) ++end;
    out.emplace_back(json::array_t{number(values[begin]), number(end - begin)});
    begin = end;
  }
  return {std::move(out)};
}

json variants_of(const std::vector<chain_variant>& variants) {
  json::array_t out;
  for (const chain_variant& each : variants) {
    json::array_t skipped;
    for (const std::uint32_t filter : each.skipped) skipped.push_back(number(filter));
    json shape;
    if (each.shape) shape = numbers({each.shape->begin(), each.shape->end()});
    json::array_t made{std::move(skipped), std::move(shape)};
    if (!each.own.is_null()) made.push_back(each.own);
    out.emplace_back(std::move(made));
  }
  return {std::move(out)};
}

/// Lengths, from edges, which are their running sums.
std::vector<std::uint64_t> lengths_of(const std::vector<std::uint64_t>& edges) {
  std::vector<std::uint64_t> out;
  for (std::size_t i = 1; i < edges.size(); ++i) out.push_back(edges[i] - edges[i - 1]);
  return out;
}

json axis_of(const joined_axis& joined) {
  return json(json::object_t{{"axis", number(joined.axis)},
                             {"cells", runs_of(lengths_of(joined.edges))},
                             {"decoded", runs_of(joined.decoded)}});
}

/// The first joined dimension, which is the only one of most joined arrays; further ones are in `more`.
json joined_of(const std::vector<joined_axis>& axes) {
  json first = axis_of(axes.empty() ? joined_axis() : axes.front());
  if (axes.size() < 2) return first;
  json::array_t more;
  for (std::size_t i = 1; i < axes.size(); ++i) more.push_back(axis_of(axes[i]));
  json::object_t out = *first.as_object();
  out.emplace_back("more", std::move(more));
  return json(std::move(out));
}

json names_of(const std::vector<std::optional<std::string>>& names) {
  if (names.empty()) return {};
  json::array_t out;
  for (const auto& each : names) out.push_back(each ? json(*each) : json());
  return {std::move(out)};
}

/// A path as a manifest in `folder` names it: relative if the file is below the folder.
std::string name_in(const std::string& folder, const std::string& path) {
  if (folder.empty()) return std::filesystem::absolute(path).lexically_normal().string();
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  const std::filesystem::path below = whole.lexically_relative(folder);
  return below.empty() || *below.begin() == ".." ? whole.string() : below.string();
}

json stamp_json(const std::optional<file_stamp>& stamp) {
  if (!stamp) return {};
  return {json::array_t{number(stamp->size_bytes), json(stamp->changed_ns)}};
}

/// Whether an object is in this process's memory alone, so that a manifest holds its bytes.
bool is_in_memory(const referenced_object& of) {
  return of.inlined || (of.path.empty() && of.name.find("://") == std::string::npos && is_local_location(of.name));
}

bool is_remote(const referenced_object& of) { return of.path.empty() && !is_in_memory(of); }

/// The version of an object, which is looked up while the references are saved.
struct saved_version {
  std::optional<file_stamp> file;  ///< of a local file
  std::string stamp;               ///< of a remote object, in fsspec's form
  std::string validator;           ///< the same in HTTP's form
};

/// Versions of remote objects that members of a group share, by name and the version that was seen.
using known_versions = std::map<std::pair<std::string, std::string>, saved_version>;

result<json> saved(const referenced_object& each, const std::string& folder, const saved_version& now) {
  json::object_t out = {{"name", each.name}};
  if (is_in_memory(each)) {
    PENSTOCK_TRY(check_gathered(each));
    auto read = read_and_wait(*each.from, each.key, {}, byte_range::kAll - 1);
    if (!read.ok()) return std::move(read).error().note(read_note(each.key, {}));
    out.emplace_back("data", base64_encode(read->bytes));
  } else if (!each.path.empty()) {
    out.emplace_back("path", name_in(folder, each.path));
    out.emplace_back("stamp", stamp_json(each.stamp ? each.stamp : now.file));
    if (each.crc32c) out.emplace_back("crc32c", number(*each.crc32c));
  } else {
    const std::string& stamp = each.remote_stamp.empty() ? now.stamp : each.remote_stamp;
    if (!stamp.empty()) out.emplace_back("remote_stamp", stamp);
    if (!now.validator.empty()) out.emplace_back("version", now.validator);
  }
  return json(std::move(out));
}

/// Reads the beginning of an object to verify that it still has the version that the table describes.
result<blocking_read> read_version(const referenced_object& of) {
  const std::uint64_t bytes = is_remote(of) ? 1 : 0;  // for a server, a request of a few bytes checks the version
  auto read = read_and_wait(*of.from, of.key, {0, bytes, false}, bytes, of.seen.known() ? &of.seen : nullptr);
  if (read.ok()) return read;
  if (read.error().code() == errc::version_changed)
    return error(errc::conflict, fmt::format("'{}' changed after it was opened", of.name));
  return std::move(read).error().note(read_note(of.name, {}));
}

/// The current stamp must be that of the bytes that the table describes.
result<> check_version(const referenced_object& of) {
  if (!of.seen.known()) return {};
  PENSTOCK_TRY(read_version(of));
  return {};
}

bool has_validators(const referenced_object& of) {
  return dynamic_cast<const validated_store*>(of.from.get()) != nullptr;
}

/// Returns the version of an object of a store over HTTP. Other stores compare the stamp, which has the form of
/// fsspec's information about such objects.
result<saved_version> validator_now(const referenced_object& of) {
  PENSTOCK_ASSIGN(const blocking_read read, read_version(of));
  saved_version out;
  out.validator = text_of(read.seen);
  if (read.object_size == byte_range::kAll) return out;
  out.stamp = fmt::format("size={}", read.object_size);
  if (const std::string_view tag = entity_tag_of(read.seen); !tag.empty()) out.stamp += fmt::format(" ETag={}", tag);
  return out;
}

struct packed_table {
  std::vector<std::byte> bytes;
  std::uint32_t crc32 = 0;
};

result<packed_table> pack(const std::vector<std::byte>& table, std::int64_t level) {
  constexpr std::size_t kChecksumBytes = 4;
  const std::vector<codec_config> codecs = {
      {"bytes", {}}, {"zlib", json::object_t{{"level", json(level)}}}, {"crc32", json::object_t{{"location", "end"}}}};
  const extents shape = {table.size()};
  const dtype type(dtype_kind::unsigned_integer, 8);
  PENSTOCK_ASSIGN(const codec_chain chain, codec_chain::compile(codecs, type, shape));
  std::vector<std::byte> copied = table;
  worker_scratch scratch;
  buffer room;
  PENSTOCK_ASSIGN(const std::span<const std::byte> made,
                  chain.encode(tensor_view::contiguous(copied.data(), type, shape), room, scratch));
  const auto checksum = made.last(kChecksumBytes);
  packed_table out;
  out.bytes.assign(made.begin(), made.end() - kChecksumBytes);
  for (std::size_t i = kChecksumBytes; i-- > 0;) out.crc32 = out.crc32 << 8 | static_cast<std::uint32_t>(checksum[i]);
  return out;
}

result<packed_table> pack(const std::vector<std::byte>& table) {
  PENSTOCK_ASSIGN(packed_table out, pack(table, 1));
  if (table.size() > std::max(kSmallTableBytes, kMostExpansion * out.bytes.size())) return pack(table, 0);
  return out;
}

/// A JSON document without line ends, which occur only between its tokens.
std::string on_one_line(std::string_view text) {
  std::string out(text);
  std::replace_if(out.begin(), out.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return out;
}

/// Queries objects of stores over HTTP, all in parallel; each once for all arrays of a group.
result<> find_validators(const referenced_array& what, const std::vector<std::size_t>& which, known_versions& known,
                         context& with, std::vector<saved_version>& out) {
  const auto key_of = [&](std::size_t i) {
    return std::pair(what.objects[i].name, std::string(text_of(what.objects[i].seen)));
  };
  std::vector<std::size_t> fresh;
  for (const std::size_t i : which)
    if (known.try_emplace(key_of(i)).second) fresh.push_back(i);
  std::vector<std::optional<result<saved_version>>> found(fresh.size());
  if (!fresh.empty())
    for_each_file(fresh.size(), *what.objects[fresh[0]].from, with,
                  [&](std::size_t k) { found[k] = validator_now(what.objects[fresh[k]]); });
  for (std::size_t k = 0; k < fresh.size(); ++k) {
    PENSTOCK_ASSIGN(known[key_of(fresh[k])], std::move(*found[k]));
  }
  for (const std::size_t i : which) out[i] = known[key_of(i)];
  return {};
}

/// Facts about objects whose version is not known, queried in parallel. The bytes that the table describes have this
/// version.
result<std::vector<saved_version>> versions_of(const referenced_array& what, const manifest_options& how,
                                               known_versions& known, context& with) {
  std::vector<saved_version> out(what.objects.size());
  std::vector<std::size_t> files, remote, validated;  // numbers of objects
  std::vector<std::string> paths, urls;
  for (std::size_t i = 0; i < what.objects.size(); ++i) {
    const referenced_object& each = what.objects[i];
    if (!each.path.empty() && !each.stamp) {
      files.push_back(i);
      paths.push_back(each.path);
    } else if (is_remote(each) && has_validators(each)) {
      validated.push_back(i);
    } else if (is_remote(each) && each.remote_stamp.empty() && how.find_versions) {
      remote.push_back(i);
      urls.push_back(each.name);
    }
  }
  PENSTOCK_ASSIGN(const auto now, query_files(paths, with));
  for (std::size_t k = 0; k < files.size(); ++k) {
    if (now[k]) out[files[k]].file = now[k]->stamp;
    PENSTOCK_TRY(check_version(what.objects[files[k]]));
  }
  PENSTOCK_TRY(find_validators(what, validated, known, with, out));
  if (remote.empty()) return out;
  PENSTOCK_ASSIGN(std::vector<std::string> found, how.find_versions(urls));
  if (found.size() != remote.size()) return error(errc::internal, "versions of other objects were found");
  std::vector<result<>> checked(remote.size());
  for_each_file(remote.size(), *what.objects[remote[0]].from, with,
                [&](std::size_t k) { checked[k] = check_version(what.objects[remote[k]]); });
  for (std::size_t k = 0; k < remote.size(); ++k) {
    PENSTOCK_TRY(std::move(checked[k]));
    out[remote[k]].stamp = std::move(found[k]);
  }
  return out;
}

result<std::vector<std::byte>> save_array(const array& from, const manifest_options& how, const std::string& shards,
                                          known_versions& known) {
  PENSTOCK_ASSIGN(const std::shared_ptr<const referenced_array> what, references_of(from));
  if (what == nullptr) {
    const bool is_joined = from.format() == "virtual" || from.format() == "joined";
    return error(errc::invalid_argument,
                 fmt::format("'{}' is not an array of references: {}", from.state().uri,
                             is_joined ? "HDF5 and NetCDF files, and references, are one table if their chunks outside "
                                         "the joined dimension and their fill values are the same"
                                       : "it has no table to save"));
  }
  const std::vector<std::byte> plain = what->table->save();
  PENSTOCK_ASSIGN(const packed_table table, pack(plain));
  PENSTOCK_ASSIGN(const std::vector<saved_version> versions, versions_of(*what, how, known, *from.state().context));
  json::array_t objects;
  objects.reserve(what->objects.size());
  for (std::size_t i = 0; i < what->objects.size(); ++i) {
    PENSTOCK_ASSIGN(json made, saved(what->objects[i], how.folder, versions[i]));
    objects.push_back(std::move(made));
  }
  json::object_t out = {{"penstock_manifest", number(1)},
                        {"kind", "references"},
                        {"format", what->format},
                        {"uri", what->uri},
                        {"variants", variants_of(what->variants)},
                        {"dimension_names", names_of(what->dimension_names)},
                        {"objects", std::move(objects)},
                        {"table", json::object_t{{"bytes", number(table.bytes.size())},
                                                 {"plain_bytes", number(plain.size())},
                                                 {"crc32", number(table.crc32)},
                                                 {"codec", "zlib"}}}};
  if (!what->joined.empty() || !shards.empty()) out.emplace_back("joined", joined_of(what->joined));
  std::string line = dump_json_with_bytes(json(std::move(out)));
  // Stored unchanged: a parsed number may have fewer digits.
  line.back() = ',';
  line += R"("documents":{)";
  for (const auto& [name, text] : what->documents) {
    if (!line.ends_with('{')) line += ',';
    line += json(name).dump() + ":" + on_one_line(text);
  }
  line += "}";
  if (!shards.empty()) line += R"(,"shards":)" + on_one_line(shards);
  line += "}\n";
  std::vector<std::byte> made(line.size() + table.bytes.size());
  std::copy_n(reinterpret_cast<const std::byte*>(line.data()), line.size(), made.begin());
  std::copy(table.bytes.begin(), table.bytes.end(), made.begin() + static_cast<std::ptrdiff_t>(line.size()));
  return made;
}

constexpr std::size_t kMaxLevels = 32;

struct saved_member {
  std::string name;
  std::vector<std::byte> bytes;
};

/// \error unsupported  Each member of a manifest would hold the bytes of a file in memory.
result<> check_can_be_found(const array& of, const std::string& path) {
  const referenced_array* const what = of.state().references.get();
  if (what == nullptr) return {};
  for (const referenced_object& each : what->objects)
    if (!each.inlined && is_in_memory(each))
      return error(errc::unsupported,
                   fmt::format("'{}' is in '{}', which has no location that a manifest can name: write the file to a "
                               "path first, or save the manifest of each array",
                               path, each.name));
  return {};
}

result<> save_members(const group& from, const std::string& path, const manifest_options& how, std::size_t level,
                      std::vector<saved_member>& out, json::array_t& groups, known_versions& known) {
  const group_state& state = from.state();
  if (!state.members)
    return error(errc::invalid_argument,
                 fmt::format("'{}' is {}: a manifest is one of references", state.uri, state.format));
  if (level == kMaxLevels) return error(errc::unsupported, "a manifest of more than 32 levels of groups");
  PENSTOCK_ASSIGN(const auto names, state.members->keys(state.prefix));
  if (!names) return error(errc::unsupported, fmt::format("the members of '{}' are not listed", state.uri));
  if (level != 0) {
    PENSTOCK_ASSIGN(json attributes, json::parse(state.attributes_json));
    groups.emplace_back(json::object_t{{"name", path}, {"attributes", std::move(attributes)}});
  }
  for (const std::string& name : *names) {
    const std::string inner = path.empty() ? name : path + "/" + name;
    auto opened = state.members->open(state.prefix + name);
    if (!opened.ok() && how.omitted != nullptr && state.format == kHdf5Format &&
        opened.error().code() == errc::unsupported) {
      how.omitted->emplace_back(inner, opened.error().message());
      continue;
    }
    PENSTOCK_ASSIGN(const node member, std::move(opened));
    if (const auto* const below = std::get_if<group>(&member)) {
      PENSTOCK_TRY(save_members(*below, inner, how, level + 1, out, groups, known));
      continue;
    }
    const array& one = std::get<array>(member);
    PENSTOCK_TRY(check_can_be_found(one, inner));
    auto saved = save_array(one, how, "", known);
    if (!saved.ok()) return std::move(saved).error().note(fmt::format("member '{}' of '{}'", inner, state.uri));
    out.push_back({inner, std::move(*saved)});
  }
  return {};
}

}  // namespace

result<std::vector<std::byte>> save_references(const array& from, const manifest_options& how) {
  return save_references_of_shards(from, how, "");
}

result<std::vector<std::byte>> save_references_of_shards(const array& from, const manifest_options& how,
                                                         const std::string& shards) {
  known_versions known;
  return save_array(from, how, shards, known);
}

result<std::vector<std::byte>> save_references(const group& from, const manifest_options& how) {
  std::vector<saved_member> members;
  json::array_t groups;
  known_versions known;
  PENSTOCK_TRY(save_members(from, "", how, 0, members, groups, known));
  PENSTOCK_ASSIGN(json attributes, json::parse(from.state().attributes_json));
  json::array_t list;
  std::size_t bytes = 0;
  for (const saved_member& each : members) {
    list.emplace_back(json::object_t{{"name", each.name}, {"bytes", number(each.bytes.size())}});
    bytes += each.bytes.size();
  }
  const std::string line = dump_json_with_bytes(json(json::object_t{{"penstock_manifest", number(1)},
                                                                    {"kind", "group"},
                                                                    {"uri", from.state().uri},
                                                                    {"attributes", std::move(attributes)},
                                                                    {"groups", std::move(groups)},
                                                                    {"members", std::move(list)}})) +
                           "\n";
  std::vector<std::byte> out;
  out.reserve(line.size() + bytes);
  const auto text = std::as_bytes(std::span(line));
  out.insert(out.end(), text.begin(), text.end());
  for (const saved_member& each : members) out.insert(out.end(), each.bytes.begin(), each.bytes.end());
  return out;
}

std::vector<std::string> referenced_files(const array& from) {
  std::vector<std::string> out;
  if (const referenced_array* const what = from.state().references.get())
    for (const referenced_object& each : what->objects)
      if (!each.path.empty()) out.push_back(each.path);
  return out;
}

}  // namespace penstock::inline v0
