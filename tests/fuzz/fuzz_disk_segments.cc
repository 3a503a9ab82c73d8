// Any bytes as the files of a cache segment: accepted ranges have the bytes that their checksums require, and are
// within the files; appending continues after them.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fast_sum.h"
#include "fuzz/require.h"
#include "store/disk_segments.h"

namespace {

using namespace penstock;

struct folder {
  folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "penstock-fuzz-XXXXXX").string();
    require(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

}  // namespace

// Two bytes: how long the ranges file is. Then its bytes, then those of the records file.
extern "C" int run_disk_segments(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > (1 << 16)) return 0;
  static const folder home;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t first = std::min<std::size_t>(size - 2, data[0] + 256U * data[1]);
  // The name has the identifier in the file's head, so that the rest of the file is read.
  std::uint64_t id = 0;
  if (first >= 16) std::memcpy(&id, data + 2 + 8, sizeof(id));
  char name[32];
  std::snprintf(name, sizeof(name), "segment-%016llx", static_cast<unsigned long long>(id));
  const auto file = [&](const char* suffix) { return home.path / (std::string(name) + suffix); };
  // Records whose checksums are corrected here reach the parser.
  std::string ranges(all.substr(2, first)), records(all.substr(2 + first));
  for (std::string* head : {&ranges, &records}) {
    if (head->size() < 32) continue;
    std::uint64_t magic = 0;
    std::memcpy(&magic, head->data(), sizeof(magic));
    const std::uint64_t sum = fast_sum(std::as_bytes(std::span(*head)).first(24), magic);
    std::memcpy(head->data() + 24, &sum, sizeof(sum));
  }
  for (std::size_t at = 32; at + 112 <= records.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, records.data() + at, sizeof(length));
    if (length < 112 || length % 8 != 0 || length > records.size() - at) break;
    std::memset(records.data() + at + 8, 0, 8);
    const std::uint64_t sum = fast_sum(std::as_bytes(std::span(records)).subspan(at, length), id ^ at);
    std::memcpy(records.data() + at + 8, &sum, sizeof(sum));
    at += length;
  }
  std::ofstream(file(".ranges"), std::ios::binary) << ranges;
  std::ofstream(file(".records"), std::ios::binary) << records;

  disk_segments_options how;
  how.folder = home.path.string();
  how.limit_bytes = std::uint64_t{1} << 20;
  auto cache = disk_segments::open(how);
  require(cache.ok());
  std::size_t found = 0;
  (*cache)->scan([&](disk_record&& record) {
    ++found;
    require(record.seen.text.size() <= records.size() && record.extent.sums.size() * 8 <= records.size());
    if (record.extent.length > (1 << 20)) return;
    std::vector<std::byte> room(static_cast<std::size_t>(record.extent.length));
    if ((*cache)->read(record.extent, 0, room) && !room.empty())
      require(record.extent.at + record.extent.length <= ranges.size());
  });
  require(found <= records.size() / 112);
  const std::vector<std::byte> bytes(100, std::byte{7});
  disk_record record;
  record.extent.offset = 5;
  if ((*cache)->append(record, bytes)) {
    std::vector<std::byte> room(100);
    require((*cache)->read(record.extent, 0, room) && room == bytes);
  }
  for (const auto& each : std::filesystem::directory_iterator(home.path)) std::filesystem::remove(each.path());
  return 0;
}
