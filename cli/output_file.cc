#include "output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/system_calls.h"
#include "interrupt.h"

namespace penstock::inline v0::cli {
namespace {

error failed(const std::string& path, int number) {
  errc code = errc::io_error;
  if (number == EACCES || number == EPERM || number == EROFS) code = errc::permission_denied;
  if (number == ENOSPC || number == EDQUOT || number == EFBIG || number == ENOMEM) code = errc::resource_exhausted;
  return error(code, fmt::format("cannot write '{}': {}", path, std::strerror(number)));
}

error taken(const std::string& path) {
  return error(errc::conflict, fmt::format("'{}' exists; --force replaces it", path));
}

}  // namespace

result<output_file> output_file::create(const std::string& path, std::uint64_t bytes, bool overwrite) {
  struct stat there;
  if (stat(path.c_str(), &there) == 0) {
    if (S_ISDIR(there.st_mode)) return failed(path, EISDIR);
    if (!overwrite) return taken(path);
  }
  output_file file;
  // A link stays a link: its target is replaced.
  file.path_ = path;
  if (char* real = realpath(path.c_str(), nullptr); real != nullptr) {
    file.path_ = real;
    free(real);
  }
  file.overwrite_ = overwrite;
  file.size_ = bytes;
  const auto slash = file.path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : file.path_.substr(0, slash + 1);
  // The target's own name may have the maximum length, so it is not part of this one.
  for (unsigned attempt = 0; file.descriptor_ < 0; ++attempt) {
    const std::string name = fmt::format("{}.penstock-{}-{}.partial", folder, getpid(), attempt);
    file.descriptor_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.descriptor_ >= 0) {
      file.temporary_ = name;
      remove_on_exit(name);
    } else if (errno != EEXIST || attempt == 1000) {
      return failed(path, errno);
    }
  }
  if (bytes == 0) return file;
  if (const int number = allocate_file(file.descriptor_, bytes); number != 0) return failed(path, number);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor_, 0);
  if (data == MAP_FAILED) return failed(path, errno);
  file.data_ = static_cast<std::byte*>(data);
  return file;
}

output_file::output_file(output_file&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      overwrite_(other.overwrite_) {}

output_file::~output_file() {
  if (data_ != nullptr) munmap(data_, size_);
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) {
    unlink(temporary_.c_str());
    remove_on_exit("");
  }
}

result<> output_file::commit() {
  if (data_ != nullptr) munmap(std::exchange(data_, nullptr), size_);
  if (close(std::exchange(descriptor_, -1)) != 0) return failed(path_, errno);
  int number = 0;
  if (!overwrite_) {
    number = rename_to_new(temporary_.c_str(), path_.c_str());
  } else if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    number = errno;
  }
  if (number == EEXIST) return taken(path_);
  if (number != 0) return failed(path_, number);
  temporary_.clear();
  remove_on_exit("");
  return {};
}

bool is_stream(const std::string& path) {
  struct stat there;
  return stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
}

result<> write_to_stream(const std::string& path, const std::function<result<>(int)>& write) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return error(errc::io_error, fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  auto done = write(descriptor);
  if (close(descriptor) != 0 && done.ok())
    return error(errc::io_error, fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
  return done;
}

}  // namespace penstock::inline v0::cli
