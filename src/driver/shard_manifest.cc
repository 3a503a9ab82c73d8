// The manifest of a set of files. Binary: a magic number, a JSON document with their common facts, a record for each
// file, and the CRC-32C of all of it. As JSON: the same, with the records in the document.

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "codec/bytes/crc32c.h"
#include "driver/shard_table.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kShardsMagic = "\x93PSHARDS";
constexpr std::uint64_t kShardsVersion = 1;
constexpr std::size_t kRecordBytes = 3 * 4 + 6 * 8;  // without the key
constexpr std::string_view kJsonMember = "penstock_shards";
constexpr std::uint32_t kHasChecksum = 1;

class manifest_writer {
 public:
  explicit manifest_writer(std::vector<std::byte>& out) : out_(out) {}
  void text(std::string_view value) {
    const auto bytes = std::as_bytes(std::span(value));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  template <class Number>
  void number(Number value) {
    for (std::size_t i = 0; i < sizeof value; ++i) out_.push_back(static_cast<std::byte>(value >> 8 * i & 0xFF));
  }

 private:
  std::vector<std::byte>& out_;
};

class reader {
 public:
  explicit reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::size_t left() const noexcept { return bytes_.size(); }
  // Returns an empty text if fewer bytes are left.
  std::string_view text(std::uint64_t size) {
    if (size > bytes_.size()) {
      failed_ = true;
      return {};
    }
    const std::string_view out(reinterpret_cast<const char*>(bytes_.data()), static_cast<std::size_t>(size));
    bytes_ = bytes_.subspan(static_cast<std::size_t>(size));
    return out;
  }
  template <class Number>
  Number number() {
    const std::string_view raw = text(sizeof(Number));
    Number out = 0;
    for (std::size_t i = 0; i < raw.size(); ++i)
      out = static_cast<Number>(out | static_cast<Number>(static_cast<unsigned char>(raw[i])) << 8 * i);
    return out;
  }
  bool failed() const noexcept { return failed_; }

 private:
  std::span<const std::byte> bytes_;
  bool failed_ = false;
};

error bad_manifest(std::string_view what) {
  return {errc::corrupt_data, fmt::format("the manifest of files is bad: {}", what)};
}

json::object_t common_members(const shard_table& table, std::string_view root) {
  json::array_t shape;
  for (const std::uint64_t length : table.shape) shape.emplace_back(length);
  return {{std::string(kJsonMember), json(kShardsVersion)},
          {"root", json(std::string(root))},
          {"format", json(table.format)},
          {"descr", table.descr},
          {"fortran_order", json(table.order == storage_order::fortran)},
          {"shape", json(std::move(shape))},
          {"axis", json(static_cast<std::uint64_t>(table.axis))}};
}

result<> read_common(const json& from, shard_table& out, std::string& root) {
  std::uint64_t number = 0;
  const json* version = from.find(kJsonMember);
  if (version == nullptr || !version->get(number)) return bad_manifest("it has no version");
  if (number != kShardsVersion)
    return error(errc::unsupported, fmt::format("manifests of files of version {} are not readable", number));
  const json *place = from.find("root"), *format = from.find("format"), *descr = from.find("descr"),
             *order = from.find("fortran_order"), *shape = from.find("shape"), *axis = from.find("axis");
  if (place == nullptr || place->as_string() == nullptr) return bad_manifest("its root is not text");
  if (format == nullptr || format->as_string() == nullptr ||
      (*format->as_string() != "npy" && *format->as_string() != "raw"))
    return bad_manifest("its format is neither npy nor raw");
  if (descr == nullptr || order == nullptr || order->as_bool() == nullptr)
    return bad_manifest("descr or fortran_order is missing");
  if (shape == nullptr || shape->as_array() == nullptr || shape->as_array()->size() > kMaxRank)
    return bad_manifest("its shape is not a list of at most 32 lengths");
  for (const json& each : *shape->as_array()) {
    if (!each.get(number)) return bad_manifest("its shape has an item that is not a length");
    out.shape.push_back(number);
  }
  if (axis == nullptr || !axis->get(number) || number >= std::max<std::size_t>(out.shape.size(), 1))
    return bad_manifest("its axis is invalid");
  out.axis = static_cast<std::size_t>(number);
  out.format = *format->as_string();
  out.descr = *descr;
  out.order = *order->as_bool() ? storage_order::fortran : storage_order::c;
  root = *place->as_string();
  return {};
}

result<> read_record(const json& from, shard_table& out) {
  raw_part each;
  const json *key = from.find("key"), *length = from.find("length"), *offset = from.find("offset"),
             *seen = from.find("version"), *sum = from.find("crc32c");
  if (key == nullptr || key->as_string() == nullptr || length == nullptr || !length->get(each.length) ||
      offset == nullptr || !offset->get(each.offset))
    return bad_manifest("a file without key, length or offset");
  each.key = *key->as_string();
  if (seen != nullptr) {
    if (seen->as_array() == nullptr || seen->as_array()->size() != 4)
      return bad_manifest("a version is not a list of 4 numbers");
    for (std::size_t i = 0; i < 4; ++i)
      if (!(*seen->as_array())[i].get(each.expected.word[i]))
        return bad_manifest("a version is not a list of 4 numbers");
  }
  std::optional<std::uint32_t> checksum;
  if (sum != nullptr) {
    std::uint64_t value = 0;
    if (!sum->get(value) || value > std::numeric_limits<std::uint32_t>::max())
      return bad_manifest("a crc32c is invalid");
    checksum = static_cast<std::uint32_t>(value);
  }
  out.parts.push_back(std::move(each));
  out.checksums.push_back(checksum);
  return {};
}

result<> check(shard_table& table) {
  if (table.parts.empty()) return bad_manifest("it names no file");
  if (table.shape.empty()) {
    if (table.parts.size() != 1 || table.parts[0].length != 1) return bad_manifest("a scalar is in one file");
    return {};
  }
  const std::uint64_t said = table.shape[table.axis];
  PENSTOCK_TRY(add_lengths(table));
  if (table.shape[table.axis] != said) return bad_manifest("the lengths of its files do not add up to its shape");
  return {};
}

result<shard_table> parse_json(std::string_view text, std::string& root) {
  PENSTOCK_ASSIGN(const json document, json::parse(text));
  shard_table out;
  PENSTOCK_TRY(read_common(document, out, root));
  const json* shards = document.find("shards");
  if (shards == nullptr || shards->as_array() == nullptr) return bad_manifest("it has no list of shards");
  for (const json& each : *shards->as_array()) PENSTOCK_TRY(read_record(each, out));
  PENSTOCK_TRY(check(out));
  return out;
}

result<shard_table> parse_binary(std::span<const std::byte> bytes, std::string& root) {
  if (bytes.size() < kShardsMagic.size() + 4 + 8 + 4) return bad_manifest("it is truncated");
  reader tail(bytes.last(4));
  if (crc32c(bytes.first(bytes.size() - 4)) != tail.number<std::uint32_t>())
    return bad_manifest("its checksum is wrong");
  reader in(bytes.subspan(kShardsMagic.size(), bytes.size() - kShardsMagic.size() - 4));
  const std::string_view header = in.text(in.number<std::uint32_t>());
  if (in.failed()) return bad_manifest("it is truncated");
  PENSTOCK_ASSIGN(const json document, json::parse(header));
  shard_table out;
  PENSTOCK_TRY(read_common(document, out, root));
  const auto count = in.number<std::uint64_t>();
  if (in.failed() || count > in.left() / kRecordBytes) return bad_manifest("it is truncated");
  out.parts.reserve(static_cast<std::size_t>(count));
  out.checksums.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) {
    raw_part each;
    const auto key_bytes = in.number<std::uint32_t>();
    const auto checksum = in.number<std::uint32_t>();
    const auto flags = in.number<std::uint32_t>();
    each.length = in.number<std::uint64_t>();
    each.offset = in.number<std::uint64_t>();
    for (std::uint64_t& word : each.expected.word) word = in.number<std::uint64_t>();
    each.key = in.text(key_bytes);
    if (in.failed()) return bad_manifest("it is truncated");
    out.parts.push_back(std::move(each));
    out.checksums.push_back((flags & kHasChecksum) != 0 ? std::optional(checksum) : std::nullopt);
  }
  if (in.left() != 0) return bad_manifest("bytes follow the last file");
  PENSTOCK_TRY(check(out));
  return out;
}

}  // namespace

bool is_manifest(std::span<const std::byte> begin) noexcept {
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  if (text.starts_with(kShardsMagic)) return true;
  return text.starts_with('{') && text.substr(0, 64).find(kJsonMember) != std::string_view::npos;
}

result<shard_table> parse_manifest(std::span<const std::byte> bytes, std::string& root) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with(kShardsMagic)) return parse_binary(bytes, root);
  return parse_json(text, root);
}

std::vector<std::byte> write_manifest(const shard_table& table, std::string_view root, manifest_form form) {
  std::vector<std::byte> out;
  manifest_writer to(out);
  json::object_t common = common_members(table, root);
  const auto checksum_of = [&](std::size_t i) {
    return i < table.checksums.size() ? table.checksums[i] : std::optional<std::uint32_t>();
  };
  if (form == manifest_form::json) {
    json::array_t shards;
    for (std::size_t i = 0; i < table.parts.size(); ++i) {
      const raw_part& each = table.parts[i];
      json::object_t record{{"key", json(each.key)}, {"length", json(each.length)}, {"offset", json(each.offset)}};
      if (each.expected.known()) {
        json::array_t words;
        for (const std::uint64_t word : each.expected.word) words.emplace_back(word);
        record.emplace_back("version", json(std::move(words)));
      }
      if (checksum_of(i)) record.emplace_back("crc32c", json(std::uint64_t{*checksum_of(i)}));
      shards.emplace_back(std::move(record));
    }
    common.emplace_back("shards", json(std::move(shards)));
    to.text(json(std::move(common)).dump(1) + "\n");
    return out;
  }
  to.text(kShardsMagic);
  const std::string header = json(std::move(common)).dump();
  to.number(static_cast<std::uint32_t>(header.size()));
  to.text(header);
  to.number(std::uint64_t{table.parts.size()});
  for (std::size_t i = 0; i < table.parts.size(); ++i) {
    const raw_part& each = table.parts[i];
    to.number(static_cast<std::uint32_t>(each.key.size()));
    to.number(checksum_of(i).value_or(0));
    to.number(checksum_of(i) ? kHasChecksum : std::uint32_t{0});
    to.number(each.length);
    to.number(each.offset);
    for (const std::uint64_t word : each.expected.word) to.number(word);
    to.text(each.key);
  }
  to.number(crc32c(out));
  return out;
}

}  // namespace penstock::inline v0
