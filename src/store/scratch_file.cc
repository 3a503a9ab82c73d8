#include "store/scratch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <penstock/store.h>
#include "store/file_parts.h"

namespace penstock::inline v0 {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

bool has_identity(int file, std::uint64_t at, std::string_view identity) {
  struct stat now;
  if (::fstat(file, &now) != 0 || static_cast<std::uint64_t>(now.st_size) != at + identity.size()) return false;
  std::string found(identity.size(), '\0');
  const std::span<std::byte> out(reinterpret_cast<std::byte*>(found.data()), found.size());
  return read_file_at(file, at, out).ok() && found == identity;
}

result<> check_room(const std::string& folder, std::uint64_t bytes) {
  struct statvfs room;
  if (::statvfs(folder.c_str(), &room) != 0) return {};
  const std::uint64_t free = static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize;
  if (free >= bytes) return {};
  return error(errc::resource_exhausted,
               fmt::format("'{}' has {} bytes of free space, the scratch file needs {}", folder, free, bytes));
}

}  // namespace

result<std::unique_ptr<scratch_file>> scratch_file::open(const std::string& folder, std::string_view name,
                                                         std::string_view identity, std::uint64_t bytes,
                                                         std::uint64_t marks, bool goes_on) {
  const std::string path = fmt::format("{}/{}", folder, name);
  const auto failed = [&](const char* what) { return write_failure(errno, fmt::format("{} '{}'", what, path)); };
  descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return failed("creating the scratch file");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    return error(errc::conflict, fmt::format("another process uses the scratch file '{}'", path));
  std::unique_ptr<scratch_file> made(new scratch_file(std::move(file), path, bytes));
  made->marks_.resize(static_cast<std::size_t>(marks));
  if (goes_on && has_identity(made->file_.get(), bytes + marks, identity)) {
    PENSTOCK_TRY(made->read(bytes, made->marks_));
    return made;
  }
  if (auto enough = check_room(folder, bytes); !enough.ok()) {
    made->remove();
    return std::move(enough).error();
  }
  const auto size = static_cast<off_t>(bytes + marks);
  if (::ftruncate(made->file_.get(), 0) != 0 || ::ftruncate(made->file_.get(), size) != 0)
    return failed("reserving space in the scratch file");
  PENSTOCK_TRY(made->write(bytes + marks, bytes_of(identity)));
  return made;
}

result<> scratch_file::check_folder(const std::string& folder, std::uint64_t bytes) {
  struct ::stat status{};
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    return error(errc::invalid_argument, fmt::format("the scratch folder '{}' does not exist", folder));
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return error(errc::invalid_argument, fmt::format("the scratch folder '{}' cannot be written to", folder));
  return check_room(folder, bytes);
}

result<std::unique_ptr<scratch_file>> scratch_file::join(const std::string& folder, std::string_view name,
                                                         std::string_view identity, std::uint64_t bytes,
                                                         std::uint64_t marks) {
  const std::string path = fmt::format("{}/{}", folder, name);
  descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file && errno == ENOENT)
    return error(errc::conflict,
                 fmt::format("the scratch file '{}' does not exist: the copy was not prepared, or not with "
                             "these options",
                             path));
  if (!file) return write_failure(errno, fmt::format("opening the scratch file '{}'", path));
  if (::flock(file.get(), LOCK_SH | LOCK_NB) != 0)
    return error(errc::conflict, fmt::format("another process uses the scratch file '{}' exclusively", path));
  if (!has_identity(file.get(), bytes + marks, identity))
    return error(errc::conflict, fmt::format("the scratch file '{}' belongs to a copy with other options", path));
  std::unique_ptr<scratch_file> made(new scratch_file(std::move(file), path, bytes));
  made->marks_.resize(static_cast<std::size_t>(marks));
  PENSTOCK_TRY(made->read(bytes, made->marks_));
  return made;
}

result<> scratch_file::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  const part all[] = {bytes};
  auto done = write_file_at(file_.get(), offset, all);
  if (!done.ok()) return std::move(done).error().note(fmt::format("writing the scratch file '{}'", path_));
  return {};
}

result<> scratch_file::read(std::uint64_t offset, std::span<std::byte> out) const {
  auto done = read_file_at(file_.get(), offset, out);
  if (!done.ok()) return std::move(done).error().note(fmt::format("reading the scratch file '{}'", path_));
  return {};
}

result<> scratch_file::mark(std::uint64_t step, bool durable) {
  if (durable) {
    auto flushed = sync_file_bytes(file_.get());
    if (!flushed.ok()) return std::move(flushed).error().note(fmt::format("flushing the scratch file '{}'", path_));
  }
  marks_[static_cast<std::size_t>(step)] = std::byte{1};
  const std::byte done{1};
  return write(bytes_ + step, {&done, 1});
}

void scratch_file::discard(std::uint64_t offset, std::uint64_t bytes) noexcept {
#ifdef FALLOC_FL_PUNCH_HOLE
  const auto first = static_cast<off_t>(offset), count = static_cast<off_t>(bytes);
  if (count > 0 && ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first, count) != 0) return;
#endif
}

void scratch_file::remove() noexcept { ::unlink(path_.c_str()); }

}  // namespace penstock::inline v0
