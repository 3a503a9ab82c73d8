#include "driver/open_files.h"

#include <fmt/format.h>
#include <penstock/open.h>
#include <penstock/place.h>
#include <penstock/shards.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "codec/crc32c.h"
#include "driver/open_saved.h"
#include "driver/shard_table.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/npy/npy_header.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kPatternCharacters = "*?[";
constexpr std::size_t kSniffedBytes = 64;
/// Manifests of 100,000 files have some 10 MB.
constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 32;
constexpr std::uint64_t kCheckedBytes = std::uint64_t{4} << 20;

std::vector<std::byte> read_file(const std::string& path, std::uint64_t most) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> out;
  std::vector<char> piece(std::size_t{1} << 16);
  while (file && out.size() < most) {
    file.read(piece.data(), static_cast<std::streamsize>(std::min<std::uint64_t>(piece.size(), most - out.size())));
    const auto bytes = std::as_bytes(std::span(piece)).first(static_cast<std::size_t>(file.gcount()));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

result<array> open_saved(const std::string& path, const open_options& options) {
  const std::vector<std::byte> manifest = read_file(path, kMaxManifestBytes);
  PENSTOCK_ASSIGN(const std::string root, manifest_root(manifest));
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path() / root;
  return open_manifest(open_file_store(folder.lexically_normal().string()), manifest, options.context);
}

}  // namespace

result<std::optional<array>> open_files(std::string_view uri, const open_options& options) {
  std::string path(uri);
  if (path.starts_with("file://")) path = path.substr(7);
  if (!options.path.empty() || path.find("://") != std::string::npos) return std::optional<array>();
  shard_options how;
  how.context = options.context;
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  std::error_code failed;
  if (std::filesystem::is_regular_file(whole, failed)) {
    const std::vector<std::byte> begin = read_file(whole.string(), kSniffedBytes);
    if (is_manifest(begin)) {
      PENSTOCK_ASSIGN(array out, open_saved(whole.string(), options));
      return std::optional<array>(std::move(out));
    }
    if (is_saved_references(begin)) {
      auto out = open_saved_references(read_file(whole.string(), kMaxManifestBytes), whole.parent_path().string(),
                                       options.context);
      if (!out.ok()) return std::move(out).error().note(fmt::format("opening the manifest '{}'", whole.string()));
      return std::optional<array>(std::move(*out));
    }
    if (!is_npy(begin)) return std::optional<array>();
    PENSTOCK_ASSIGN(array out,
                    open_contiguous(open_file_store(whole.parent_path().string()), whole.filename().string(), how));
    return std::optional<array>(std::move(out));
  }
  const std::size_t wild = path.find_first_of(kPatternCharacters);
  if (wild == std::string::npos || !path.ends_with(".npy") || std::filesystem::exists(whole, failed))
    return std::optional<array>();
  const std::string text = whole.string();
  const std::size_t slash = text.rfind('/', text.find_first_of(kPatternCharacters));
  std::shared_ptr<store> folder = open_file_store(slash == 0 ? "/" : text.substr(0, slash));
  PENSTOCK_ASSIGN(std::vector<std::string> keys, find_shards(*folder, text.substr(slash + 1)));
  PENSTOCK_ASSIGN(array out, open_shards(std::move(folder), std::move(keys), how));
  return std::optional<array>(std::move(out));
}

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
