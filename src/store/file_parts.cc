#include "store/file_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "store/file_status.h"

namespace penstock::inline v0 {
namespace {

// Iterates over parts in batches for one call.
class part_cursor {
 public:
  explicit part_cursor(std::span<const part> parts) : parts_(parts) { skip_empty(); }
  bool done() const noexcept { return at_ == parts_.size(); }

  /// The next parts, at most as many as one call accepts.
  std::span<const ::iovec> next() noexcept {
    std::size_t count = 0, bytes = 0;
    for (std::size_t i = at_; i < parts_.size() && count < kMost && bytes < kMaxCallBytes; ++i) {
      const part rest = i == at_ ? parts_[i].subspan(used_) : parts_[i];
      if (rest.empty()) continue;
      const std::size_t length = std::min(rest.size(), kMaxCallBytes - bytes);
      batch_[count++] = {const_cast<std::byte*>(rest.data()), length};
      bytes += length;
    }
    return {batch_, count};
  }
  void advance(std::size_t bytes) noexcept {
    while (bytes > 0) {
      const std::size_t step = std::min(bytes, parts_[at_].size() - used_);
      used_ += step;
      bytes -= step;
      skip_empty();
    }
  }

 private:
  static constexpr std::size_t kMost = 256;  // beyond this number a call's own cost is negligible; the limit is 1024
  void skip_empty() noexcept {
    while (at_ < parts_.size() && used_ == parts_[at_].size()) {
      ++at_;
      used_ = 0;
    }
  }

  std::span<const part> parts_;
  std::size_t at_ = 0, used_ = 0;
  ::iovec batch_[kMost];
};

}  // namespace

namespace {

::ssize_t read_into(int file, std::byte* to, std::size_t bytes, const std::uint64_t* offset) noexcept {
  ::ssize_t got = 0;
  do {
    got = offset == nullptr ? ::read(file, to, bytes) : ::pread(file, to, bytes, static_cast<::off_t>(*offset));
  } while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace

::ssize_t read_once(int file, std::span<std::byte> room, const std::uint64_t* offset) noexcept {
  const ::ssize_t got = read_into(file, room.data(), std::min(room.size(), kMaxCallBytes), offset);
  if (got >= 0 || errno != EFAULT) [[likely]]
    return got;
  std::byte ordinary[std::size_t{64} << 10];
  const ::ssize_t again = read_into(file, ordinary, std::min(room.size(), sizeof(ordinary)), offset);
  if (again > 0) std::memcpy(room.data(), ordinary, static_cast<std::size_t>(again));
  return again;
}

result<> read_file_at(int file, std::uint64_t offset, std::span<std::byte> room) {
  std::size_t done = 0;
  while (done < room.size()) {
    const std::uint64_t at = offset + done;
    const ::ssize_t got = read_once(file, room.subspan(done), &at);
    if (got < 0) return read_failure(errno, "reading");
    if (got == 0)
      return error(errc::io_error, fmt::format("the file ends at byte {}, {} were to be read at {}", offset + done,
                                               room.size(), offset));
    done += static_cast<std::size_t>(got);
  }
  return {};
}

result<> write_file_at(int file, std::uint64_t offset, std::span<const part> parts) {
  for (part_cursor left(parts); !left.done();) {
    const auto batch = left.next();
    const ::ssize_t wrote = ::pwritev(file, batch.data(), static_cast<int>(batch.size()), static_cast<::off_t>(offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return write_failure(errno, "writing");
    offset += static_cast<std::uint64_t>(wrote);
    left.advance(static_cast<std::size_t>(wrote));
  }
  return {};
}

result<> set_room_aside(int file, std::uint64_t bytes) {
#ifdef FALLOC_FL_KEEP_SIZE
  // The size grows with the bytes: after a power failure the file is too short, instead of containing zeros that look
  // like data.
  while (::fallocate(file, FALLOC_FL_KEEP_SIZE, 0, static_cast<::off_t>(bytes)) != 0) {
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) return write_failure(errno, "reserving space");
    if (errno != EINTR) break;
  }
#else
  (void)file, (void)bytes;
#endif
  return {};
}

void start_writing_out(int file) noexcept {
#ifdef SYNC_FILE_RANGE_WRITE
  (void)::sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
#else
  (void)file;
#endif
}

result<> sync_file(int file) {
  while (::fsync(file) != 0) {
    if (errno == EINVAL || errno == ENOSYS) break;
    if (errno != EINTR) return write_failure(errno, "syncing the file");
  }
  return {};
}

result<> sync_file_bytes(int file) {
#ifdef __APPLE__
  return sync_file(file);
#else
  while (::fdatasync(file) != 0) {
    if (errno == EINVAL || errno == ENOSYS) break;
    if (errno != EINTR) return write_failure(errno, "syncing the file");
  }
  return {};
#endif
}

result<> sync_folder_and_above(int folder, std::vector<folder_place>* done) {
  descriptor above;
  for (int at = folder;;) {
    struct ::stat status{};
    if (::fstat(at, &status) != 0) return write_failure(errno, "looking up the folder");
    const folder_place here{status.st_dev, status.st_ino};
    if (done != nullptr && std::find(done->begin(), done->end(), here) != done->end()) return {};
    PENSTOCK_TRY(sync_file(at));
    if (done != nullptr) done->push_back(here);
    descriptor next(::openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!next || ::fstat(next.get(), &status) != 0) {
      if (errno == EACCES || errno == ENOENT) return {};
      return write_failure(errno, "opening the folder");
    }
    if (status.st_dev != here.device || status.st_ino == here.inode) return {};
    above = std::move(next);
    at = above.get();
  }
}

}  // namespace penstock::inline v0
