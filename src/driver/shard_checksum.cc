#include "driver/shard_checksum.h"

#include <fcntl.h>
#include <penstock/shards.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "store/file_status.h"

namespace penstock::inline v0 {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

}  // namespace

result<std::uint32_t> checksum_of_file(const std::string& path, std::uint32_t so_far, bool sync) {
  const descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return read_failure(errno, "reading '" + path + "'");
  std::vector<std::byte> piece(kPieceBytes);
  for (;;) {
    const ::ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return read_failure(errno, "reading '" + path + "'");
    if (count == 0) break;
    so_far = file_crc32c({piece.data(), static_cast<std::size_t>(count)}, so_far);
  }
  if (sync && ::fsync(file.get()) != 0 && errno != EINVAL && errno != ENOSYS)
    return write_failure(errno, "syncing '" + path + "'");
  return so_far;
}

result<std::uint32_t> checksum_of_folder(const std::string& path) {
  std::vector<fs::path> files;
  std::error_code failed;
  fs::recursive_directory_iterator entries(path, failed);
  for (; !failed && entries != fs::recursive_directory_iterator(); entries.increment(failed))
    if (entries->is_regular_file(failed)) files.push_back(entries->path());
  if (failed) return read_failure(failed.value(), "listing the folder '" + path + "'");
  // Sorted by the components of the names: 'c/0' is before 'c-0'.
  std::sort(files.begin(), files.end());
  std::uint32_t out = 0;
  for (const fs::path& each : files) {
    std::string name = each.lexically_relative(path).string();
    name += '\0';
    out = file_crc32c(std::as_bytes(std::span(name)), out);
    PENSTOCK_ASSIGN(out, checksum_of_file(each.string(), out, false));
  }
  return out;
}

result<std::uint32_t> checksum_of_shard(const std::string& path) {
  std::error_code none;
  return fs::is_directory(path, none) ? checksum_of_folder(path) : checksum_of_file(path, 0, false);
}

}  // namespace penstock::inline v0
