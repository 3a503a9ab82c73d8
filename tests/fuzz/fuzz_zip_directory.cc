// Any bytes as a zip archive: refused, or every entry is within the file and does not overlap others.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <penstock/extend/store.h>
#include "fuzz/require.h"
#include "store/zip_directory.h"

namespace {

using namespace penstock;

bool is_refusal(const error& why) {
  return why.code() == errc::corrupt_data || why.code() == errc::unsupported || why.code() == errc::resource_exhausted;
}

}  // namespace

extern "C" int run_zip_directory(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  const zip_reader reader = [&](std::uint64_t offset, std::span<std::byte> room) -> result<> {
    require(offset <= file.size() && room.size() <= file.size() - offset);  // requests only existing bytes
    if (!room.empty()) std::memcpy(room.data(), file.data() + offset, room.size());
    return {};
  };
  const auto end = find_zip_end(reader, size);
  if (!end.ok()) {
    require(is_refusal(end.error()));
    return 0;
  }
  require(end->directory_offset <= size && end->directory_bytes <= size - end->directory_offset);
  const auto bytes = file.subspan(end->directory_offset, end->directory_bytes);
  const auto parsed = parse_zip_directory(bytes, *end);
  if (!parsed.ok()) {
    require(is_refusal(parsed.error()));
    return 0;
  }
  require(parsed->entries.size() <= end->entries && parsed->data_end <= end->directory_offset);
  for (const auto& [key, entry] : parsed->entries) {
    require(check_key(key).ok());
    require(entry.limit <= end->directory_offset && entry.header_offset + kZipLocalBytes <= entry.limit);
    const auto begin = find_zip_data(file.subspan(entry.header_offset, kZipLocalBytes), entry);
    if (begin.ok()) require(*begin + entry.encoded_bytes <= entry.limit);
  }
  // The directory that is written from it is read again as equal.
  if (!parsed->names_are_their_bytes) return 0;
  const auto written = make_zip_directory(*parsed, end->directory_offset, end->comment);
  const zip_reader again = [&](std::uint64_t offset, std::span<std::byte> room) -> result<> {
    for (std::size_t i = 0; i < room.size(); ++i) {
      const std::uint64_t at = offset + i;
      room[i] = at < end->directory_offset ? file[at] : written[at - end->directory_offset];
    }
    return {};
  };
  const auto second = find_zip_end(again, end->directory_offset + written.size());
  require(second.ok() && second->directory_offset == end->directory_offset);
  const auto same = parse_zip_directory(std::span(written).first(second->directory_bytes), *second);
  require(same.ok() && same->entries.size() == parsed->entries.size());
  return 0;
}
