#include "store/zip_directory.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include <penstock/extend/store.h>
#include "base/checked.h"
#include "store/zip_records.h"

namespace penstock::inline v0 {
namespace {

using namespace zip;

/// The longest directory: it is read into memory as a whole.
constexpr std::uint64_t kMaxDirectoryBytes = std::uint64_t{1} << 30;

error corrupt(std::string message) { return {errc::corrupt_data, std::move(message)}; }

std::string shown(std::string_view name) {
  std::string out(name.substr(0, 200));
  for (char& each : out)
    if (static_cast<unsigned char>(each) < 0x20 || each == '\x7f') each = '?';
  return out;
}

error no_end_record() {
  return corrupt("this is not a zip archive, or its end is missing: there is no end-of-central-directory record");
}

// The last bytes of the file, and within them the end record whose comment fills the rest.
struct tail {
  std::vector<std::byte> bytes;
  std::size_t record = 0;
  std::uint64_t record_offset = 0;  // in the file
};

result<tail> find_end_record(const zip_reader& file, std::uint64_t size_bytes) {
  constexpr std::uint64_t kMaxComment = 0xffff;
  if (size_bytes < kZipEndBytes) return no_end_record();
  tail out;
  // Almost no archive has a comment: check 22 bytes first.
  for (const std::uint64_t wanted : {std::uint64_t{kZipEndBytes}, std::uint64_t{kZipEndBytes} + kMaxComment}) {
    const std::uint64_t length = std::min(size_bytes, wanted);
    out.bytes.resize(static_cast<std::size_t>(length));
    PENSTOCK_TRY(file(size_bytes - length, out.bytes));
    for (std::size_t at = out.bytes.size() - kZipEndBytes + 1; at-- > 0;) {
      const auto record = std::span<const std::byte>(out.bytes).subspan(at);
      if (u32(record, 0) != kEndSignature || u16(record, 20) != record.size() - kZipEndBytes) continue;
      out.record = at;
      out.record_offset = size_bytes - length + at;
      return out;
    }
    if (length == size_bytes) break;
  }
  return no_end_record();
}

// Replaces values that the 32-bit record could not hold by those of the 64-bit one. `out.end` is not changed; returns
// the offset of the records.
result<std::uint64_t> read_zip64_end(const zip_reader& file, std::uint64_t record_offset, zip_end& out) {
  std::byte locator[kLocatorBytes];
  if (record_offset < kLocatorBytes) return record_offset;
  PENSTOCK_TRY(file(record_offset - kLocatorBytes, locator));
  if (u32(locator, 0) != kLocatorSignature) return record_offset;  // the 32-bit values are the real ones
  if (u32(locator, 4) != 0 || u32(locator, 16) > 1)
    return error(errc::unsupported, "zip archives of several volumes are not supported");
  const std::uint64_t locator_offset = record_offset - kLocatorBytes;
  std::byte record[kZip64EndBytes];
  // With a prefix the offset is too small, and the record is directly before the locator.
  for (const std::uint64_t at : {u64(locator, 8), locator_offset - std::min<std::uint64_t>(locator_offset, 56)}) {
    if (locator_offset < kZip64EndBytes || at > locator_offset - kZip64EndBytes) continue;
    PENSTOCK_TRY(file(at, record));
    if (u32(record, 0) != kZip64EndSignature) continue;
    if (u32(record, 16) != 0 || u32(record, 20) != 0 || u64(record, 24) != u64(record, 32))
      return error(errc::unsupported, "zip archives of several volumes are not supported");
    out.entries = u64(record, 32);
    out.directory_bytes = u64(record, 40);
    out.directory_offset = u64(record, 48);
    return at;
  }
  return corrupt("the zip64 end-of-central-directory record is not at the position in its locator");
}

// One record of the central directory, with views of its variable parts.
struct central_record {
  std::string_view name;
  std::span<const std::byte> extra;
  zip_entry entry;
};

// Iterates over the extra fields; `visit(id, content)` may fail.
template <class Visit>
result<> walk_extra(std::span<const std::byte> extra, std::string_view name, Visit&& visit) {
  while (extra.size() >= 4) {
    const std::size_t size = u16(extra, 2);
    if (size > extra.size() - 4) {
      return corrupt(fmt::format("an extra field of the zip entry '{}' has {} bytes, only {} exist", shown(name), size,
                                 extra.size() - 4));
    }
    PENSTOCK_TRY(visit(u16(extra, 0), extra.subspan(4, size)));
    extra = extra.subspan(4 + size);
  }
  return {};
}

result<> read_zip64_extra(central_record& record) {
  zip_entry& entry = record.entry;
  struct wide {
    std::uint64_t* value;
    const char* what;
  };
  const wide members[] = {{&entry.decoded_bytes, "uncompressed size"},
                          {&entry.encoded_bytes, "compressed size"},
                          {&entry.header_offset, "relative header offset"}};
  if (std::none_of(std::begin(members), std::end(members), [](const wide& m) { return *m.value == kSaturated32; }))
    return {};
  bool found = false;
  PENSTOCK_TRY(walk_extra(record.extra, record.name, [&](unsigned id, std::span<const std::byte> content) -> result<> {
    if (id != kZip64Extra || found) return {};
    found = true;
    for (const wide& member : members) {
      if (*member.value != kSaturated32) continue;
      if (content.size() < 8) {
        return corrupt(fmt::format("the zip64 extended information of the entry '{}' lacks its {}", shown(record.name),
                                   member.what));
      }
      *member.value = u64(content, 0);
      content = content.subspan(8);
    }
    return {};
  }));
  // Without the field the sizes are literal, also for an entry of 4 GiB.
  return {};
}

// The key for the name. `decoded` is set if its bytes differ from the name's.
result<std::string> key_of(const central_record& record, bool& decoded) {
  const bool ascii =
      std::all_of(record.name.begin(), record.name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  std::string key(record.name);
  bool from_field = false;
  PENSTOCK_TRY(walk_extra(record.extra, record.name, [&](unsigned id, std::span<const std::byte> content) -> result<> {
    if (id != kUnicodePathExtra || content.size() < 6 || from_field || u8(content, 0) != 1) return {};
    if (u32(content, 1) != (record.name.empty() ? 0 : libdeflate_crc32(0, record.name.data(), record.name.size())))
      return {};
    key.assign(reinterpret_cast<const char*>(content.data()) + 5, content.size() - 5);
    from_field = true;
    return {};
  }));
  if (!from_field && !ascii && (record.entry.flags & kUtf8Flag) == 0) key = from_code_page_437(record.name);
  decoded = key != record.name;
  return key;
}

result<central_record> read_record(std::span<const std::byte> bytes, std::size_t& at) {
  const std::span<const std::byte> rest = bytes.subspan(at);
  if (rest.size() < kCentralBytes || u32(rest, 0) != kCentralSignature)
    return corrupt(fmt::format("there is no entry at byte {} of the zip archive's directory", at));
  central_record out;
  zip_entry& entry = out.entry;
  entry.made_by = u16(rest, 4);
  entry.flags = u16(rest, 8);
  entry.method = static_cast<zip_method>(u16(rest, 10));
  entry.dos_time = u32(rest, 12);
  entry.crc = u32(rest, 16);
  entry.encoded_bytes = u32(rest, 20);
  entry.decoded_bytes = u32(rest, 24);
  const std::size_t name_bytes = u16(rest, 28), extra_bytes = u16(rest, 30), comment_bytes = u16(rest, 32);
  const std::size_t volume = u16(rest, 34);
  entry.attributes = u32(rest, 38);
  entry.header_offset = u32(rest, 42);
  if (name_bytes + extra_bytes + comment_bytes > rest.size() - kCentralBytes)
    return corrupt(fmt::format("the entry at byte {} exceeds the zip archive's directory", at));
  out.name = {reinterpret_cast<const char*>(rest.data()) + kCentralBytes, name_bytes};
  out.extra = rest.subspan(kCentralBytes + name_bytes, extra_bytes);
  if (volume != 0 && volume != 0xffff)
    return error(errc::unsupported, "zip archives of several volumes are not supported");
  PENSTOCK_TRY(read_zip64_extra(out));
  at += kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  return out;
}

// The ranges of all entries: none leaves the part before the directory, and no two overlap.
struct extent {
  std::uint64_t begin, end;
};

result<std::uint64_t> check_places(std::vector<extent>& places) {
  std::sort(places.begin(), places.end(), [](const extent& a, const extent& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (places[i].begin < places[i - 1].end) {
      return corrupt(fmt::format("entries of the zip archive overlap: one begins at byte {}, another ends at {}",
                                 places[i].begin, places[i - 1].end));
    }
  }
  return places.empty() ? 0 : places.back().end;
}

}  // namespace

result<zip_end> find_zip_end(const zip_reader& file, std::uint64_t size_bytes) {
  PENSTOCK_ASSIGN(const tail found, find_end_record(file, size_bytes));
  const auto record = std::span<const std::byte>(found.bytes).subspan(found.record);
  zip_end out;
  out.end = size_bytes;
  out.entries = u16(record, 10);
  out.directory_bytes = u32(record, 12);
  out.directory_offset = u32(record, 16);
  const auto comment = record.subspan(kZipEndBytes);
  out.comment.assign(reinterpret_cast<const char*>(comment.data()), comment.size());
  const bool saturated = u16(record, 8) == 0xffff || out.entries == 0xffff || out.directory_bytes == kSaturated32 ||
                         out.directory_offset == kSaturated32 || u16(record, 4) == 0xffff;
  std::uint64_t records_begin = found.record_offset;
  if (saturated) {
    PENSTOCK_ASSIGN(records_begin, read_zip64_end(file, found.record_offset, out));
  }
  if (records_begin == found.record_offset &&
      (u16(record, 4) != 0 || u16(record, 6) != 0 || u16(record, 8) != u16(record, 10)))
    return error(errc::unsupported, "zip archives of several volumes are not supported");

  std::uint64_t directory_end = 0;
  if (!checked_add(out.directory_offset, out.directory_bytes, directory_end) || directory_end > records_begin) {
    return corrupt(fmt::format("the zip archive's directory would be {} bytes at {}, it must end before byte {}",
                               out.directory_bytes, out.directory_offset, records_begin));
  }
  if (out.entries > out.directory_bytes / kCentralBytes) {
    return corrupt(fmt::format("the zip archive cannot have {} entries in a directory of {} bytes", out.entries,
                               out.directory_bytes));
  }
  if (out.directory_bytes > kMaxDirectoryBytes)
    return error(errc::resource_exhausted,
                 fmt::format("the zip archive's directory has {} bytes", out.directory_bytes));
  if (out.entries == 0) return out;
  // Offsets count from the archive's beginning, which differs from the file's if other data precedes it; the directory
  // ends at the beginning of the end records, unless other data is between them.
  const std::uint64_t prefix = records_begin - directory_end;
  std::byte signature[4];
  PENSTOCK_TRY(file(out.directory_offset + prefix, signature));
  if (prefix != 0 && u32(signature, 0) != kCentralSignature) return out;
  out.prefix_bytes = prefix;
  out.directory_offset += prefix;
  return out;
}

result<zip_directory> parse_zip_directory(std::span<const std::byte> bytes, const zip_end& end) {
  zip_directory out;
  std::vector<extent> places;
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < end.entries; ++i) {
    PENSTOCK_ASSIGN(central_record record, read_record(bytes, at));
    zip_entry& entry = record.entry;
    bool decoded = false;
    PENSTOCK_ASSIGN(std::string key, key_of(record, decoded));
    out.names_are_their_bytes = out.names_are_their_bytes && !decoded;
    std::uint64_t place_end = 0;
    if (!checked_add(entry.header_offset, end.prefix_bytes, entry.header_offset) ||
        !checked_add(entry.header_offset, kZipLocalBytes + record.name.size(), place_end) ||
        !checked_add(place_end, entry.encoded_bytes, place_end) || place_end > end.directory_offset) {
      return corrupt(fmt::format("the zip entry '{}' exceeds the file: {} bytes at {}, the directory begins at {}",
                                 shown(key), entry.encoded_bytes, entry.header_offset, end.directory_offset));
    }
    if (entry.method == zip_method::stored && !entry.encrypted() && entry.encoded_bytes != entry.decoded_bytes) {
      return corrupt(fmt::format("the zip entry '{}' is stored as {} bytes and has {}", shown(key), entry.encoded_bytes,
                                 entry.decoded_bytes));
    }
    places.push_back({entry.header_offset, place_end});
    const bool folder = !key.empty() && key.back() == '/';
    if (auto good = check_key(folder ? std::string_view(key).substr(0, key.size() - 1) : key); !good.ok())
      return corrupt(good.error().message()).note("reading a zip archive's directory");
    if (!folder) out.entries.insert_or_assign(std::move(key), entry);
  }
  if (at != bytes.size() && (bytes.size() - at < 4 || u32(bytes, at) != kSignatureSignature))
    return corrupt(
        fmt::format("the zip archive's directory has {} bytes after its {} entries", bytes.size() - at, end.entries));
  PENSTOCK_ASSIGN(out.data_end, check_places(places));
  for (auto& [key, entry] : out.entries) {
    const auto next = std::upper_bound(places.begin(), places.end(), entry.header_offset,
                                       [](std::uint64_t offset, const extent& e) { return offset < e.begin; });
    entry.limit = next == places.end() ? end.directory_offset : next->begin;
  }
  return out;
}

result<std::uint64_t> find_zip_data(std::span<const std::byte> local_header, const zip_entry& entry) {
  if (local_header.size() < kZipLocalBytes || u32(local_header, 0) != kLocalSignature)
    return corrupt(fmt::format("there is no local header of a zip entry at byte {}", entry.header_offset));
  const std::uint64_t data = entry.header_offset + kZipLocalBytes + u16(local_header, 26) + u16(local_header, 28);
  if (data > entry.limit || entry.encoded_bytes > entry.limit - data) {
    return corrupt(fmt::format("the zip entry at byte {} overlaps the following data: {} bytes at {}, at most to {}",
                               entry.header_offset, entry.encoded_bytes, data, entry.limit));
  }
  return data;
}

std::vector<std::byte> make_zip_local_header(std::string_view name, const zip_entry& entry) {
  const bool wide = entry.decoded_bytes >= kSaturated32 || entry.encoded_bytes >= kSaturated32;
  record_writer out;
  out.u32(kLocalSignature).u16(wide ? 45 : 20).u16(entry.flags).u16(static_cast<unsigned>(entry.method));
  out.u32(entry.dos_time).u32(entry.crc);
  out.u32(wide ? kSaturated32 : entry.encoded_bytes).u32(wide ? kSaturated32 : entry.decoded_bytes);
  out.u16(name.size()).u16(wide ? 20 : 0).text(name);
  if (wide) out.u16(kZip64Extra).u16(16).u64(entry.decoded_bytes).u64(entry.encoded_bytes);
  return std::move(out).bytes();
}

std::vector<std::byte> make_zip_directory(const zip_directory& directory, std::uint64_t offset,
                                          std::string_view comment) {
  // In the order of the file: the same content gives the same bytes, and a reader of everything reads forward.
  std::vector<std::pair<std::string_view, const zip_entry*>> sorted;
  sorted.reserve(directory.entries.size());
  for (const auto& [key, entry] : directory.entries) sorted.emplace_back(key, &entry);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second->header_offset < b.second->header_offset; });
  record_writer out;
  for (const auto& [name, entry] : sorted) {
    const bool wide_decoded = entry->decoded_bytes >= kSaturated32, wide_encoded = entry->encoded_bytes >= kSaturated32;
    const bool wide_offset = entry->header_offset >= kSaturated32;
    const unsigned wide = (wide_decoded ? 8U : 0U) + (wide_encoded ? 8U : 0U) + (wide_offset ? 8U : 0U);
    out.u32(kCentralSignature).u16(entry->made_by).u16(wide != 0 ? 45 : 20).u16(entry->flags);
    out.u16(static_cast<unsigned>(entry->method)).u32(entry->dos_time).u32(entry->crc);
    out.u32(wide_encoded ? kSaturated32 : entry->encoded_bytes).u32(wide_decoded ? kSaturated32 : entry->decoded_bytes);
    out.u16(name.size()).u16(wide != 0 ? wide + 4 : 0).u16(0).u16(0).u16(0).u32(entry->attributes);
    out.u32(wide_offset ? kSaturated32 : entry->header_offset).text(name);
    if (wide != 0) out.u16(kZip64Extra).u16(wide);
    if (wide_decoded) out.u64(entry->decoded_bytes);
    if (wide_encoded) out.u64(entry->encoded_bytes);
    if (wide_offset) out.u64(entry->header_offset);
  }
  const std::uint64_t size = out.size(), count = sorted.size();
  const bool wide = count >= 0xffff || size >= kSaturated32 || offset >= kSaturated32;
  if (wide) {
    out.u32(kZip64EndSignature).u64(44).u16(45).u16(45).u32(0).u32(0).u64(count).u64(count).u64(size).u64(offset);
    out.u32(kLocatorSignature).u32(0).u64(offset + size).u32(1);
  }
  out.u32(kEndSignature).u16(0).u16(0).u16(wide ? 0xffff : count).u16(wide ? 0xffff : count);
  out.u32(wide ? kSaturated32 : size).u32(wide ? kSaturated32 : offset).u16(comment.size()).text(comment);
  return std::move(out).bytes();
}

}  // namespace penstock::inline v0
