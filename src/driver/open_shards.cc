#include <fmt/format.h>
#include <penstock/shards.h>

#include <algorithm>

#include "array/utf8.h"
#include "base/counted.h"
#include "codec/bytes/crc32c.h"
#include "driver/shard_table.h"
#include "engine/array_state.h"
#include "format/raw/raw_layout.h"
#include "format/zarr/zarr_data_type.h"

namespace penstock::inline v0 {
namespace {

result<std::shared_ptr<context>> context_of(const std::shared_ptr<context>& given) {
  if (given) return given;
  return penstock::context::make();
}

std::string uri_below(const std::string& root, const std::string& key) {
  return root.ends_with('/') ? root + key : root + "/" + key;
}

// `file:///run/shard_0.npy ... shard_9.npy`
std::string uri_of(const store& from, const std::vector<std::string>& keys) {
  std::string out = uri_below(from.uri(), keys.front());
  if (keys.size() > 1) out += " ... " + keys.back().substr(keys.back().rfind('/') + 1);
  return out;
}

// The part of a version that is valid for other processes and machines. Files: the size and the time of change, because
// each machine numbers devices and inodes itself. HTTP: all of it, the hash of the entity tag. Members of a zip
// archive: offset, size and checksum. Versions of other stores name objects of this process.
version lasting(const version& seen, std::string_view place) {
  constexpr std::string_view kServed[] = {"http", "https", "s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss"};
  const std::string_view scheme = place.substr(0, place.find(':'));
  version out = seen;
  out.pin.reset();
  if (std::find(std::begin(kServed), std::end(kServed), scheme) != std::end(kServed)) return out;
  out.word[0] = 0;
  if (scheme == "file") out.word[3] = 0;
  if (scheme == "file" || scheme == "zip") return out;
  return {};
}

// The chain of raw_layout, as metadata list codecs.
json codecs_of(const shard_table& table, const json& endian) {
  json::array_t out;
  if (table.order == storage_order::fortran && table.shape.size() > 1) {
    json::array_t axes;
    for (std::size_t d = table.shape.size(); d-- > 0;) axes.emplace_back(static_cast<std::uint64_t>(d));
    out.push_back(json::object_t{{"name", json("transpose")},
                                 {"configuration", json::object_t{{"order", json(std::move(axes))}}}});
  }
  json::object_t bytes{{"name", json("bytes")}};
  if (!endian.is_null()) bytes.emplace_back("configuration", json::object_t{{"endian", endian}});
  out.emplace_back(std::move(bytes));
  return json(std::move(out));
}

}  // namespace

result<array> open_table(std::shared_ptr<const store> from, std::shared_ptr<const shard_table> table,
                         std::shared_ptr<context> with, std::string uri) {
  auto parsed = parse_v2_dtype(table->descr, "descr");
  if (!parsed.ok()) return std::move(parsed).error().note(fmt::format("opening '{}'", uri));
  const raw_shape what{parsed->type, parsed->endian, table->order, table->shape, table->axis};
  auto layout = raw_layout::make(what, table->parts);
  if (!layout.ok()) return std::move(layout).error().note(fmt::format("opening '{}'", uri));

  array_site where;
  where.context = std::move(with);
  where.store = std::move(from);
  where.uri = std::move(uri);
  array_facts facts;
  facts.shape = table->shape;
  facts.chunks = (*layout)->block();
  const auto parts = (*layout)->parts();
  const bool equal = std::all_of(parts.begin(), parts.end(),
                                 [&](const raw_part& each) { return each.length == parts.front().length; });
  if (parts.size() > 1 && equal) {
    facts.shards = table->shape;
    (*facts.shards)[table->axis] = parts.front().length;
  }
  facts.type = parsed->type;
  facts.fill_value.assign(parsed->type.item_bytes(), std::byte{0});
  facts.codecs_json = codecs_of(*table, parsed->endian).dump();
  facts.codecs_text = (*layout)->chains()[0].describe();
  facts.format = table->format;
  facts.files = std::move(table);
  return array(std::make_shared<const array_state>(std::move(where), std::move(*layout), std::move(facts)));
}

result<array> open_shards(std::shared_ptr<const store> from, std::vector<std::string> keys,
                          const shard_options& options) {
  PENSTOCK_ASSIGN(std::shared_ptr<context> with, context_of(options.context));
  if (keys.empty()) return error(errc::invalid_argument, "the list of files is empty");
  std::string uri = uri_of(*from, keys);
  auto table = scan_shards(*from, std::move(keys), options, *with);
  if (!table.ok()) return std::move(table).error().note(fmt::format("opening '{}'", uri));
  if (table->shape.empty())
    return error(errc::invalid_argument, fmt::format("'{}' is a scalar: it has no axis to join along", uri));
  return open_table(std::move(from), std::make_shared<const shard_table>(std::move(*table)), std::move(with),
                    std::move(uri));
}

result<array> open_contiguous(std::shared_ptr<const store> from, std::string key, const shard_options& options) {
  PENSTOCK_ASSIGN(std::shared_ptr<context> with, context_of(options.context));
  std::string uri = uri_below(from->uri(), key);
  shard_options alone = options;
  alone.axis = 0;
  std::vector<std::string> keys;
  keys.push_back(std::move(key));
  auto table = scan_shards(*from, std::move(keys), alone, *with);
  if (!table.ok()) return std::move(table).error().note(fmt::format("opening '{}'", uri));
  return open_table(std::move(from), std::make_shared<const shard_table>(std::move(*table)), std::move(with),
                    std::move(uri));
}

void move_below(std::string_view folder, shard_table& table) {
  if (folder.empty()) return;
  for (raw_part& each : table.parts) each.key = uri_below(std::string(folder), each.key);
}

std::vector<shard_file> shard_files(const array& of) {
  std::vector<shard_file> out;
  const auto& table = of.state().files;
  if (!table || table->format.empty()) return out;
  for (std::size_t i = 0; i < table->parts.size(); ++i) {
    const raw_part& each = table->parts[i];
    out.push_back({each.key, each.length, each.offset,
                   i < table->checksums.size() ? table->checksums[i] : std::optional<std::uint32_t>()});
  }
  return out;
}

std::uint32_t file_crc32c(std::span<const std::byte> bytes, std::uint32_t so_far) noexcept {
  return crc32c(bytes, so_far);
}

std::size_t shard_axis(const array& of) { return of.state().files ? of.state().files->axis : 0; }

raw_options shard_items(const array& of) {
  raw_options out;
  const auto& table = of.state().files;
  if (!table || table->format.empty()) return out;
  const std::string* name = table->descr.as_string();
  out.dtype = name != nullptr ? *name : table->descr.dump();
  out.fortran_order = table->order == storage_order::fortran;
  return out;
}

result<std::vector<std::byte>> save_manifest(const array& of, std::string_view root, manifest_form form,
                                             std::span<const std::uint32_t> checksums) {
  if (!of.state().files || of.state().files->format.empty())
    return error(errc::invalid_argument,
                 fmt::format("'{}' is not an array of .npy or raw files: it has no manifest", of.state().uri));
  shard_table table = *of.state().files;
  if (!checksums.empty()) {
    if (checksums.size() != table.parts.size())
      return error(errc::invalid_argument, fmt::format("{} for {}", counted(checksums.size(), "checksum"),
                                                       counted(table.parts.size(), "file")));
    table.checksums.assign(checksums.begin(), checksums.end());
  }
  const std::string place = of.state().store->uri();
  for (raw_part& each : table.parts) each.expected = lasting(each.expected, place);
  if (form == manifest_form::json) {
    for (const raw_part& each : table.parts) {
      if (!is_utf8(std::as_bytes(std::span(each.key))))
        return error(errc::unsupported, "a JSON manifest names files in UTF-8 only: save the binary form");
    }
  }
  return write_manifest(table, root, form);
}

result<std::string> manifest_root(std::span<const std::byte> manifest) {
  std::string root;
  PENSTOCK_TRY(parse_manifest(manifest, root));
  return root;
}

result<array> open_manifest(std::shared_ptr<const store> from, std::span<const std::byte> manifest,
                            std::shared_ptr<context> with, missing_shards missing, std::string_view below) {
  PENSTOCK_ASSIGN(with, context_of(with));
  std::string root;
  PENSTOCK_ASSIGN(shard_table table, parse_manifest(manifest, root));
  move_below(below, table);
  if (missing == missing_shards::fill) PENSTOCK_TRY(mark_missing(*from, table, *with));
  std::string uri = uri_below(from->uri(), table.parts.front().key);
  if (table.parts.size() > 1) uri += " ... " + table.parts.back().key.substr(table.parts.back().key.rfind('/') + 1);
  return open_table(std::move(from), std::make_shared<const shard_table>(std::move(table)), std::move(with),
                    std::move(uri));
}

}  // namespace penstock::inline v0
