// Any bytes as a manifest of arrays that are shards: refused, or one that is equal after it was written and read again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "driver/saved_arrays.h"

using namespace penstock;

extern "C" int run_saved_arrays(const std::uint8_t* data, std::size_t size) {
  manifest_place at;
  at.folder = "/run";
  at.rule.document = "/run/m";
  const auto parsed = parse_saved_arrays(std::as_bytes(std::span(data, size)), at);
  if (!parsed.ok()) {
    if (parsed.error().code() == errc::internal) std::abort();
    return 0;
  }
  const std::string text = write_saved_arrays(*parsed, at.folder);
  const auto again = parse_saved_arrays(std::as_bytes(std::span(text)), at);
  if (!again.ok() || again->axis != parsed->axis || again->shards.size() != parsed->shards.size()) std::abort();
  for (std::size_t i = 0; i < again->shards.size(); ++i) {
    const saved_array &one = again->shards[i], &other = parsed->shards[i];
    if (one.path != other.path || !(one.stamp == other.stamp) || one.crc32c != other.crc32c ||
        one.format != other.format || !(one.shape == other.shape) || !(one.chunks == other.chunks) ||
        !(one.type == other.type))
      std::abort();
  }
  return 0;
}
