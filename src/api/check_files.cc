#include "api/check_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codec/bytes/crc32c.h"
#include "driver/for_each_file.h"
#include "driver/saved_arrays.h"
#include "driver/shard_checksum.h"
#include "driver/shard_table.h"
#include "engine/blocking_read.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kCheckedBytes = std::uint64_t{4} << 20;

void add_failure(error why, std::string_view what, const array_state& of, array::check_report& report,
                 std::size_t max_failures) {
  ++report.failed;
  if (report.failures.size() < max_failures)
    report.failures.push_back({std::string(what), std::move(why).note("array '" + of.uri + "'")});
}

result<> check_sum(std::string_view what, std::uint32_t sum, std::uint32_t wanted) {
  if (sum == wanted) return {};
  return error(errc::corrupt_data,
               fmt::format("the {}'s CRC-32C is {:08x}, its manifest has {:08x}", what, sum, wanted));
}

result<> check_shard(const saved_array& shard, context& with) {
  PENSTOCK_ASSIGN(const auto now, query_files({shard.metadata}, with));
  if (!now[0] || now[0]->stamp != shard.stamp)
    return error(errc::conflict, fmt::format("'{}' {} since the manifest was saved: save it again", shard.path,
                                             now[0] ? "changed" : "was removed"));
  if (!shard.crc32c) return {};
  PENSTOCK_ASSIGN(const std::uint32_t sum, checksum_of_shard(shard.path));
  return check_sum("shard", sum, *shard.crc32c);
}

void check_shards(const array_state& of, array::check_report& report, std::size_t max_failures) {
  const std::vector<saved_array>& shards = of.joined_of->shards;
  std::vector<result<>> found(shards.size());
  side_by_side(shards.size(), *of.context, [&](std::size_t i) { found[i] = check_shard(shards[i], *of.context); });
  for (std::size_t i = 0; i < shards.size(); ++i)
    if (!found[i].ok())
      add_failure(std::move(found[i]).error(), fmt::format("shard '{}'", shards[i].path), of, report, max_failures);
}

}  // namespace

void check_files(const array_state& of, array::check_report& report, std::size_t max_failures) {
  if (of.joined_of) check_shards(of, report, max_failures);
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
        outcome = error(errc::unsupported, "the store does not report the file's size");
        break;
      }
      sum = crc32c(piece->bytes, sum);
      at += ask;
      size = piece->object_size;
    }
    if (outcome.ok()) outcome = check_sum("file", sum, *wanted);
    if (!outcome.ok())
      add_failure(std::move(outcome).error(), fmt::format("file '{}'", file.key), of, report, max_failures);
  }
}

}  // namespace penstock::inline v0
