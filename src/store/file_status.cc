#include "store/file_status.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>  // NOLINT: the coarse clock is the system's, not C++'s
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/system_calls.h"

namespace penstock::inline v0 {
namespace {

error failure(errc code, int number, std::string_view doing) {
  return {code, fmt::format("{} failed: {}", doing, std::generic_category().message(number))};
}

}  // namespace

version version_of(const struct ::stat& status) noexcept {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const ::timespec &modified = modified_at(status), &changed = changed_at(status);
  version out;
  // Inodes are small numbers and devices smaller ones: an odd factor keeps the pair distinct in one word.
  out.word[0] =
      static_cast<std::uint64_t>(status.st_dev) * 0x9E3779B97F4A7C15U ^ static_cast<std::uint64_t>(status.st_ino);
  out.word[kSizeWord] = static_cast<std::uint64_t>(status.st_size) + 1;  // never 0: this version is known
  out.word[kTimeWord] =
      static_cast<std::uint64_t>(modified.tv_sec) * kSecond + static_cast<std::uint64_t>(modified.tv_nsec);
  out.word[3] = static_cast<std::uint64_t>(changed.tv_sec) * kSecond + static_cast<std::uint64_t>(changed.tv_nsec);
  return out;
}

#ifdef CLOCK_REALTIME_COARSE
namespace {

/// Longer than any tick.
constexpr std::int64_t kMostAhead = 20'000'000;

// Writing sets both times to the same value. If they differ, the modification is from an earlier tick (and the file was
// renamed since) or was set to the nanosecond: the next write results in another one. If they differ more, it was
// restored from another system, and may be again.
bool is_stamped(const struct ::stat& status) noexcept {
  const std::int64_t seconds = status.st_mtim.tv_sec - status.st_ctim.tv_sec;
  if (seconds < -1 || seconds > 1) return false;
  const std::int64_t ahead = seconds * std::int64_t{1'000'000'000} + (status.st_mtim.tv_nsec - status.st_ctim.tv_nsec);
  return ahead != 0 && ahead <= kMostAhead;
}

}  // namespace
#endif

bool stamp_file(int file) noexcept {
  struct ::timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
  return ::clock_gettime(CLOCK_REALTIME, &times[1]) == 0 && ::futimens(file, times) == 0;
}

bool may_be_indistinct(const struct ::stat& status) noexcept {
#ifdef CLOCK_REALTIME_COARSE
  constexpr std::int64_t kLongestTick = 10'000'000;
  struct ::timespec now{};
  if (::clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0) return false;
  if (is_stamped(status)) return false;
  if (status.st_ctim.tv_sec - now.tv_sec > 1 || now.tv_sec - status.st_ctim.tv_sec > 1) return false;
  const std::int64_t ahead =
      (status.st_ctim.tv_sec - now.tv_sec) * std::int64_t{1'000'000'000} + (status.st_ctim.tv_nsec - now.tv_nsec);
  return ahead >= 0 && ahead <= kLongestTick;
#else
  static_cast<void>(status);  // APFS has timestamps in nanoseconds
  return false;
#endif
}

void wait_until_distinct(const struct ::stat& status) noexcept {
  constexpr int kMostWaits = 25;
  for (int i = 0; i < kMostWaits && may_be_indistinct(status); ++i) {
    const struct ::timespec half_a_millisecond{0, 500'000};
    ::nanosleep(&half_a_millisecond, nullptr);
  }
}

error read_failure(int code, std::string_view doing) {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      return {errc::not_found, "no such object"};
    case EACCES:
    case EPERM:
      return failure(errc::permission_denied, code, doing);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return failure(errc::resource_exhausted, code, doing);
    default:
      return failure(errc::io_error, code, doing);
  }
}

error write_failure(int code, std::string_view doing) {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      return failure(errc::io_error, code, doing);
    case EROFS:
      return failure(errc::read_only, code, doing);
    default:
      return read_failure(code, doing);
  }
}

error not_a_file(const struct ::stat& status) {
  if (S_ISDIR(status.st_mode)) return {errc::not_found, "no such object: a folder has its name"};
  return {errc::io_error, "the object is a pipe, a socket or a device, not a file"};
}

result<> file_path::assign(std::string_view root, std::string_view key) {
  const bool slash = root.empty() || root.back() != '/';
  const std::size_t size = root.size() + (slash ? 1 : 0) + key.size();
  if (size >= sizeof(text_)) {
    return error(errc::io_error, fmt::format("the path is too long: {} bytes, at most {}", size, sizeof(text_) - 1));
  }
  char* to = text_;
  if (!root.empty()) std::memcpy(to, root.data(), root.size());
  to += root.size();
  if (slash) *to++ = '/';
  if (!key.empty()) std::memcpy(to, key.data(), key.size());
  to[key.size()] = '\0';
  size_ = size;
  return {};
}

descriptor::~descriptor() {
  if (number_ >= 0) ::close(number_);
}

}  // namespace penstock::inline v0
