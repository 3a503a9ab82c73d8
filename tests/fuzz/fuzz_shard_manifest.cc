// Any bytes as a manifest of files: refused, or one that is equal after it was written and read again, in both forms.
// The checksum of the binary form is corrected first; otherwise, no input would pass it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "array/utf8.h"
#include "codec/bytes/crc32c.h"
#include "driver/shard_table.h"
#include "fuzz/require.h"

namespace {

using namespace penstock;

bool same(const shard_table& a, const shard_table& b) {
  if (a.parts.size() != b.parts.size() || !(a.shape == b.shape) || !(a.descr == b.descr) || a.axis != b.axis ||
      a.order != b.order || a.format != b.format)
    return false;
  for (std::size_t i = 0; i < a.parts.size(); ++i) {
    if (a.parts[i].key != b.parts[i].key || a.parts[i].length != b.parts[i].length ||
        a.parts[i].offset != b.parts[i].offset || a.checksums[i] != b.checksums[i])
      return false;
    if (a.parts[i].expected.known() && !(a.parts[i].expected == b.parts[i].expected)) return false;
  }
  return true;
}

void read(std::span<const std::byte> bytes) {
  std::string root;
  const auto table = parse_manifest(bytes, root);
  if (!table.ok()) {
    require(table.error().code() == errc::corrupt_data || table.error().code() == errc::unsupported);
    return;
  }
  const bool is_text = std::all_of(table->parts.begin(), table->parts.end(),
                                   [](const raw_part& each) { return is_utf8(std::as_bytes(std::span(each.key))); });
  for (const manifest_form form : {manifest_form::binary, manifest_form::json}) {
    if (form == manifest_form::json && !is_text) continue;  // refused by the function that saves it
    std::string second_root;
    const auto written = write_manifest(*table, root, form);
    const auto second = parse_manifest(written, second_root);
    require(second.ok() && second_root == root && same(*table, *second));
  }
}

}  // namespace

extern "C" int run_shard_manifest(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  read(bytes);
  if (size < 4) return 0;
  std::vector<std::byte> mended(bytes.begin(), bytes.end());
  const std::uint32_t sum = crc32c(std::span(mended).first(size - 4));
  for (std::size_t i = 0; i < 4; ++i) mended[size - 4 + i] = static_cast<std::byte>(sum >> 8 * i & 0xFF);
  read(mended);
  return 0;
}
