// Options of a context that environment variables name.

#include <fmt/format.h>
#include <penstock/chunk_lengths.h>
#include <penstock/context.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace penstock::inline v0 {
namespace {

/// Empty if the variable is not set, or set to an empty text.
std::string_view value_of(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// \param absent  The value of `to` if the caller gave none.
result<> take_bytes(const char* name, std::uint64_t absent, std::uint64_t& to) {
  const std::string_view value = value_of(name);
  if (to != absent || value.empty()) return {};
  auto bytes = parse_bytes(value);
  if (!bytes.ok()) return error(errc::invalid_argument, fmt::format("{}: {}", name, bytes.error().message()));
  to = *bytes;
  return {};
}

result<> take_count(const char* name, unsigned& to) {
  const std::string_view value = value_of(name);
  if (to != 0 || value.empty()) return {};
  unsigned count = 0;
  const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (failed != std::errc() || end != value.data() + value.size() || count == 0)
    return error(errc::invalid_argument, fmt::format("{} must be a whole number of at least 1, got '{}'", name, value));
  to = count;
  return {};
}

}  // namespace

result<context_options> options_of_environment(context_options given) {
  constexpr std::uint64_t kByDefault = ~std::uint64_t{0};
  PENSTOCK_TRY(take_count("PENSTOCK_THREADS", given.threads));
  PENSTOCK_TRY(take_count("PENSTOCK_IO_CONCURRENCY", given.io_concurrency));
  PENSTOCK_TRY(take_bytes("PENSTOCK_MEMORY_LIMIT", 0, given.memory_limit_bytes));
  PENSTOCK_TRY(take_bytes("PENSTOCK_CHUNK_CACHE", kByDefault, given.chunk_cache_bytes));
  PENSTOCK_TRY(take_bytes("PENSTOCK_OUTPUT_POOL", kByDefault, given.output_pool_bytes));
  PENSTOCK_TRY(take_bytes("PENSTOCK_WRITE_QUEUE", 0, given.write_queue_bytes));
  PENSTOCK_TRY(take_bytes("PENSTOCK_DEVICE_MEMORY_LIMIT", 0, given.device_memory_bytes));
  PENSTOCK_TRY(take_bytes("PENSTOCK_PAGE_LOCKED", 0, given.page_locked_bytes));
  PENSTOCK_TRY(take_bytes("PENSTOCK_DISK_CACHE_LIMIT", 0, given.disk_cache_limit_bytes));
  if (given.disk_cache.empty()) given.disk_cache = value_of("PENSTOCK_DISK_CACHE");
  return given;
}

}  // namespace penstock::inline v0
