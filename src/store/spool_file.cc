#include "store/spool_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "store/file_parts.h"
#include "store/stray_files.h"

namespace penstock::inline v0 {
namespace {

// Empty: no folder can be written to.
std::string folder_of_file(std::string_view uri) {
  constexpr std::string_view kFile = "file://";
  if (!uri.starts_with(kFile)) return {};
  std::filesystem::path folder = std::filesystem::path(uri.substr(kFile.size())).parent_path();
  std::error_code failed;
  while (!std::filesystem::is_directory(folder, failed) && folder.has_relative_path()) folder = folder.parent_path();
  return ::access(folder.c_str(), W_OK) == 0 ? folder.string() : std::string();
}

}  // namespace

std::string spool_folder(std::string_view uri) {
  if (std::string beside = folder_of_file(uri); !beside.empty()) return beside;
  const char* const named = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  return named != nullptr && *named != 0 ? named : "/tmp";
}

result<std::unique_ptr<spool_file>> spool_file::make(const std::string& folder) {
#ifdef O_TMPFILE
  descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file && errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)
    return write_failure(errno, "creating a temporary file in '" + folder + "'");
#else
  descriptor file;
#endif
  if (!file) {  // for file systems without unnamed files; writers remove files of killed processes
    std::string name = folder + "/" + std::string(kTemporaryPrefix) + fmt::format("{}-XXXXXX", ::getpid());
    file = descriptor(::mkostemp(name.data(), O_CLOEXEC));
    if (!file) return write_failure(errno, "creating a temporary file in '" + folder + "'");
    ::unlink(name.c_str());
  }
  return std::unique_ptr<spool_file>(new spool_file(std::move(file)));
}

result<std::uint64_t> spool_file::append(std::span<const std::byte> bytes) {
  const std::uint64_t at = end_.fetch_add(bytes.size(), std::memory_order_relaxed);
  const part all[] = {bytes};
  auto written = write_file_at(file_.get(), at, all);
  if (!written.ok()) return std::move(written).error().note("writing a temporary file");
  return at;
}

result<> spool_file::read(std::uint64_t offset, std::span<std::byte> out) const {
  auto done = read_file_at(file_.get(), offset, out);
  if (!done.ok()) return std::move(done).error().note("reading a temporary file");
  return {};
}

result<> spool_file::extend(std::uint64_t bytes) {
  if (::ftruncate(file_.get(), static_cast<::off_t>(bytes)) != 0)
    return write_failure(errno, "extending a temporary file");
  end_.store(bytes, std::memory_order_relaxed);
  return {};
}

result<> spool_file::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  const part all[] = {bytes};
  auto written = write_file_at(file_.get(), offset, all);
  if (!written.ok()) return std::move(written).error().note("writing a temporary file");
  return {};
}

result<spool_file::view> spool_file::map() const {
  view out;
  const std::uint64_t bytes = size();
  if (bytes == 0) return out;
  void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file_.get(), 0);
  if (at == MAP_FAILED) return read_failure(errno, "mapping a temporary file");
  ::madvise(at, bytes, MADV_SEQUENTIAL);
  out.bytes_ = {static_cast<const std::byte*>(at), bytes};
  return out;
}

spool_file::view::~view() {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): munmap requires it
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace penstock::inline v0
