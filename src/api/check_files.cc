#include "api/check_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codec/bytes/crc32c.h"
#include "driver/shard_table.h"
#include "engine/blocking_read.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kCheckedBytes = std::uint64_t{4} << 20;

}  // namespace

void check_files(const array_state& of, array::check_report& report, std::size_t max_failures) {
  if (!of.files) return;
  for (std::size_t i = 0; i < of.files->checksums.size(); ++i) {
    const auto& wanted = of.files->checksums[i];
    if (!wanted) continue;
    const raw_part& file = of.files->parts[i];
    std::uint32_t sum = 0;
    result<> outcome;
    for (std::uint64_t at = 0, size = 1; at < size;) {
      const std::uint64_t ask = size == 1 ? 1 : std::min(kCheckedBytes, size - at);
      auto piece = read_and_wait(*of.store, file.key, {at, ask, false}, ask, &file.expected);
      if (!piece.ok()) {
        outcome = std::move(piece).error();
        break;
      }
      if (piece->object_size == byte_range::kAll) {
        outcome = error(errc::unsupported, "the store does not say how long the file is");
        break;
      }
      sum = crc32c(piece->bytes, sum);
      at += ask;
      size = piece->object_size;
    }
    if (outcome.ok() && sum != *wanted)
      outcome = error(errc::corrupt_data,
                      fmt::format("the file's CRC-32C is {:08x}, its manifest says {:08x}", sum, *wanted));
    if (outcome.ok()) continue;
    ++report.failed;
    if (report.failures.size() < max_failures)
      report.failures.push_back(
          {fmt::format("file '{}'", file.key), std::move(outcome).error().note("array '" + of.uri + "'")});
  }
}

}  // namespace penstock::inline v0
