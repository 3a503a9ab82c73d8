#pragma once

#include <penstock/store.h>
#include <sys/stat.h>

#include <climits>
#include <cstddef>
#include <string_view>
#include <utility>

namespace penstock::inline v0 {

/// The version of a file: device and inode, size, modification and status-change time in nanoseconds.
///
/// Taken from `stat` of the path, not from `fstat` of an open file, wherever it matters which file a key names now. A
/// descriptor still refers to the old file, unchanged, after a folder above it was replaced.
version version_of(const struct ::stat& status) noexcept;
/// Position of the size, plus 1, and the modification time.
inline constexpr std::size_t kSizeWord = 1, kTimeWord = 2;

/// Waits until the filesystem's clock has passed the file's last change, so that a later change gets another version.
///
/// File times come from a clock that ticks every 1 to 10 ms (Linux before 6.13): two rewrites within a tick may result
/// in the same inode, size and times. Waits for one tick at most, and only for a file that changed in the present one;
/// a later time is another machine's clock, for which it cannot wait.
void wait_until_distinct(const struct ::stat& status) noexcept;
/// Whether `wait_until_distinct` would wait.
bool may_be_indistinct(const struct ::stat& status) noexcept;

/// Sets the time of an open file to now in nanoseconds, finer than the file system's own clock: then no wait for a tick
/// is needed to distinguish it from its predecessor or its successor. False if that is not possible.
bool stamp_file(int file) noexcept;

/// An error of reading or writing, from `doing` and the system's text for `code`.
///
/// Reading: ENOENT and ENOTDIR are `not_found`. Writing: a folder that does not exist is an `io_error`.
error read_failure(int code, std::string_view doing);
error write_failure(int code, std::string_view doing);
/// `not_found` for a folder, which is not an object; `io_error` for pipes, sockets and devices.
error not_a_file(const struct ::stat& status);

/// A path in a fixed array, so that naming a file allocates nothing.
class file_path {
 public:
  /// `root`, a '/', and `key` (which may be empty).
  /// \error io_error  The path is longer than the system accepts.
  result<> assign(std::string_view root, std::string_view key);
  const char* c_str() const noexcept { return text_; }
  std::string_view view() const noexcept { return {text_, size_}; }

 private:
  std::size_t size_ = 0;
  char text_[PATH_MAX];  // NOLINT: not initialised on purpose
};

/// Owns a file descriptor.
class descriptor {
 public:
  descriptor() noexcept = default;
  explicit descriptor(int number) noexcept : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor();
  int get() const noexcept { return number_; }
  /// Releases the number to another owner.
  int release() noexcept { return std::exchange(number_, -1); }
  explicit operator bool() const noexcept { return number_ >= 0; }

 private:
  int number_ = -1;
};

}  // namespace penstock::inline v0
