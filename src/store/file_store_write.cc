// What changes files: put, erase and the listing of what they left.

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/byte_extent.h"
#include "store/file_parts.h"
#include "store/file_store.h"
#include "store/names_sink.h"
#include "store/path_key.h"
#include "store/stray_files.h"

namespace penstock::inline v0 {
namespace {

/// Files from this size on get their room at once. One more system call is noise then, and seven parts in ten of the
/// time of writing 77 MB to ext4 were its finding room page by page.
constexpr std::uint64_t kSetAsideFrom = std::uint64_t{1} << 20;

std::string_view name_of(std::string_view path) noexcept { return path.substr(path.rfind('/') + 1); }

result<descriptor> open_folder(const char* path) {
  descriptor folder(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return write_failure(errno, "opening the folder");
  return folder;
}

// Makes `path` and the folders above it.
result<> make_folders(const std::string& path, bool durable) {
  std::vector<std::size_t> missing{path.size()};
  unsigned turns = 0;
  while (!missing.empty()) {
    // There are file systems (/proc) where no folder can be made in one that is there.
    if (++turns > PATH_MAX) return error(errc::io_error, "making the folder failed: it goes away again");
    const std::string now = path.substr(0, missing.back());
    if (::mkdir(now.c_str(), 0777) == 0 || errno == EEXIST) {
      missing.pop_back();
      if (!durable) continue;
      const std::size_t slash = now.rfind('/');
      PENSTOCK_ASSIGN(const descriptor above, open_folder(slash == std::string::npos ? "."
                                                          : slash == 0               ? "/"
                                                                                     : now.substr(0, slash).c_str()));
      PENSTOCK_TRY(sync_file(above.get()));
      continue;
    }
    const std::size_t slash = now.find_last_not_of('/', now.rfind('/'));
    if (errno != ENOENT || slash == std::string::npos) return write_failure(errno, "making the folder");
    missing.push_back(slash + 1);
  }
  return {};
}

/// A lock of a folder, given back explicitly: a child forked meanwhile holds the same open folder, and would keep it.
class folder_lock {
 public:
  folder_lock() noexcept = default;
  folder_lock(folder_lock&& other) noexcept : folder_(std::exchange(other.folder_, -1)) {}
  folder_lock& operator=(folder_lock&&) = delete;
  ~folder_lock() {
    if (folder_ >= 0) ::flock(folder_, LOCK_UN);
  }

  /// Alone where `condition` compares versions, else beside other writers.
  static result<folder_lock> take(int folder, const write_condition& condition) {
    const bool alone = condition.what == write_condition::kind::must_match;
    folder_lock lock;
    while (::flock(folder, alone ? LOCK_EX : LOCK_SH) != 0) {
      if (errno == EINTR) continue;
      if (alone) return error(errc::unsupported, "this filesystem has no locks, which a write with a version needs");
      return lock;  // where nobody can lock, nobody's comparison is disturbed
    }
    lock.folder_ = folder;
    return lock;
  }

 private:
  int folder_ = -1;
};

/// A new file in the object's folder, removed again unless it is renamed.
class temporary_file {
 public:
  temporary_file() noexcept = default;
  temporary_file(temporary_file&& other) noexcept
      : folder_(other.folder_), name_(std::exchange(other.name_, {})), file_(std::move(other.file_)) {}
  temporary_file& operator=(temporary_file&&) = delete;
  ~temporary_file() {
    if (!name_.empty()) ::unlinkat(folder_, name_.c_str(), 0);
  }

  static result<temporary_file> make(int folder) {
    temporary_file out;
    out.folder_ = folder;
    // O_EXCL makes the name ours; process, thread and time only make the first one likely to be free.
    auto salt = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
                reinterpret_cast<std::uintptr_t>(&out);
    for (int attempt = 0; attempt < 100; ++attempt, salt = salt * 6364136223846793005U + 1442695040888963407U) {
      std::string name = temporary_name(salt);
      out.file_ = descriptor(::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (out.file_) {
        out.name_ = std::move(name);
        // Says that its writer lives, to whoever looks for files left behind. Goes with the descriptor.
        (void)::flock(out.file_.get(), LOCK_EX | LOCK_NB);
        return out;
      }
      if (errno != EEXIST && errno != EINTR) break;
    }
    return write_failure(errno, "creating a file");
  }

  /// \param late  Writes out what is to replace a file `name`.
  result<> write(const std::string& name, std::span<const part> parts, bool durable, write_out& late) {
    std::uint64_t bytes = 0;
    for (const part& each : parts) bytes += each.size();
    if (bytes < kSetAsideFrom) {
      PENSTOCK_TRY(write_file_at(file_.get(), 0, parts));
    } else {
      PENSTOCK_TRY(set_room_aside(file_.get(), bytes));
      PENSTOCK_TRY(write_file_at(file_.get(), 0, parts));
      // Where a file has to find its room later, ext4 writes it out before it takes another's name. This one has its
      // room: it is written out all the same, lest a power failure within seconds cost the old bytes and the new.
      if (!durable && ::faccessat(folder_, name.c_str(), F_OK, 0) == 0) late.start(file_.get());
    }
    if (durable) return sync_file(file_.get());
    // File servers report failed writes when a descriptor is closed; this one is still needed, so a copy is.
    const int copy = ::dup(file_.get());
    if (copy < 0 || (::close(copy) != 0 && errno != EINTR)) return write_failure(errno, "writing");
    return {};
  }

  /// Gives the file its name. \error version_changed  `may_replace` is false and the name is taken.
  result<> rename_to(const std::string& name, bool may_replace) {
    if (may_replace) {
      if (::renameat(folder_, name_.c_str(), folder_, name.c_str()) != 0) return write_failure(errno, "renaming");
      name_.clear();
      return {};
    }
#ifdef RENAME_NOREPLACE
    if (::renameat2(folder_, name_.c_str(), folder_, name.c_str(), RENAME_NOREPLACE) == 0) {
      name_.clear();
      return {};
    }
    if (errno == EEXIST) return taken();
    if (errno != EINVAL && errno != ENOSYS) return write_failure(errno, "renaming");
#endif
    // The older way to the same end; the temporary name goes with this object.
    if (::linkat(folder_, name_.c_str(), folder_, name.c_str(), 0) != 0)
      return errno == EEXIST ? taken() : write_failure(errno, "renaming");
    if (::unlinkat(folder_, name_.c_str(), 0) == 0) name_.clear();
    return {};
  }

  bool stamp() const noexcept { return stamp_file(file_.get()); }

  result<version> seen() const {
    struct ::stat status{};
    if (::fstat(file_.get(), &status) != 0) return write_failure(errno, "looking up the object");
    return version_of(status);
  }

 private:
  static error taken() { return {errc::version_changed, "the object exists, it was to be created"}; }

  int folder_ = -1;
  std::string name_;
  descriptor file_;
};

// Whether there is an object of that name, and its version. It may be erased once this returned, and replaced by a file
// with any stamp if `distinct`: its successor's version will be another one.
result<bool> find_version(int folder, const std::string& name, bool distinct, version& out) {
  struct ::stat status{};
  if (::fstatat(folder, name.c_str(), &status, 0) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return write_failure(errno, "looking up the object");
  }
  if (!S_ISREG(status.st_mode)) return false;
  if (distinct) wait_until_distinct(status);
  out = version_of(status);
  return true;
}

}  // namespace

result<version> file_store::put(std::string_view key, std::span<const part> parts, const write_condition& condition) {
  PENSTOCK_TRY(check_key(key));
  if (condition.what == write_condition::kind::must_match && !condition.expected.known())
    return error(errc::invalid_argument, "a condition names no version to match");
  const std::string name(name_of(key));
  if (std::string_view(name).substr(0, kTemporaryPrefix.size()) == kTemporaryPrefix) {
    return error(errc::invalid_argument,
                 fmt::format("names that begin with '{}' are the store's own", kTemporaryPrefix));
  }
  file_path path;
  PENSTOCK_TRY(path.assign(root_, key));
  const std::string above(path.view().substr(0, path.view().size() - name.size()));

  const bool durable = options_.durable || condition.durable;
  const bool first_time = swept_.get().first_time(above);
  descriptor folder(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    if (errno != ENOENT) return write_failure(errno, "opening the folder");
    PENSTOCK_TRY(make_folders(above.substr(0, above.find_last_not_of('/') + 1), durable));
    PENSTOCK_ASSIGN(folder, open_folder(above.c_str()));
  } else if (first_time) {
    remove_stray_files(folder.get());
  }
  PENSTOCK_ASSIGN(temporary_file file, temporary_file::make(folder.get()));
  PENSTOCK_TRY(file.write(name, parts, durable, write_out_.get()));
  const bool stamped = file.stamp();

  version seen;
  {
    PENSTOCK_ASSIGN(const folder_lock lock, folder_lock::take(folder.get(), condition));
    if (condition.what != write_condition::kind::none || !stamped) {
      version present;
      PENSTOCK_ASSIGN(const bool exists, find_version(folder.get(), name, !stamped, present));
      PENSTOCK_TRY(check_condition(condition, exists ? &present : nullptr));
    }
    PENSTOCK_TRY(file.rename_to(name, condition.what != write_condition::kind::must_be_absent));
    PENSTOCK_ASSIGN(seen, file.seen());
  }
  if (durable) PENSTOCK_TRY(sync_file(folder.get()));
  root_was_there_.store(true, std::memory_order_relaxed);
  return seen;
}

result<> file_store::erase(std::string_view key, const write_condition& condition) {
  PENSTOCK_TRY(check_key(key));
  const std::string name(name_of(key));
  file_path path;
  PENSTOCK_TRY(path.assign(root_, key));
  const std::string above(path.view().substr(0, path.view().size() - name.size()));
  const descriptor folder(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    if (errno == ENOENT || errno == ENOTDIR) return {};
    return write_failure(errno, "opening the folder");
  }
  {
    PENSTOCK_ASSIGN(const folder_lock lock, folder_lock::take(folder.get(), condition));
    version present;
    PENSTOCK_ASSIGN(const bool exists, find_version(folder.get(), name, true, present));
    if (!exists) return {};
    PENSTOCK_TRY(check_condition(condition, &present));
    if (::unlinkat(folder.get(), name.c_str(), 0) != 0 && errno != ENOENT) return write_failure(errno, "erasing");
  }
  if (options_.durable || condition.durable) return sync_file(folder.get());
  return {};
}

result<> file_store::list(std::string_view prefix, listing what, key_sink& sink) const {
  PENSTOCK_TRY(check_prefix(prefix));
  std::vector<std::string> folders{std::string(prefix)};  // prefixes that are still to be read
  const bool sizes = dynamic_cast<const names_sink*>(&sink) == nullptr;
  while (!folders.empty()) {
    std::string key = std::move(folders.back());
    folders.pop_back();
    const std::size_t stem = key.size();
    file_path path;
    PENSTOCK_TRY(path.assign(root_, key));
    descriptor opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened) {
      // Nothing stands below a folder that is not there, or no longer.
      error why = absence(errno, "opening the folder");
      if (why.code() == errc::not_found) continue;
      return std::move(why).note(fmt::format("listing '{}'", path.view()));
    }
    struct close_folder {
      void operator()(::DIR* folder) const noexcept { ::closedir(folder); }
    };
    const std::unique_ptr<::DIR, close_folder> folder(::fdopendir(opened.get()));
    if (!folder) return read_failure(errno, "reading the folder");
    const int number = opened.release();  // closed with `folder`
    for (;;) {
      errno = 0;
      const ::dirent* const entry = ::readdir(folder.get());  // NOLINT(concurrency-mt-unsafe): the stream is ours alone
      if (entry == nullptr) {
        if (errno != 0) return read_failure(errno, "reading the folder");
        break;
      }
      const std::string_view name(entry->d_name);
      if (name == "." || name == ".." || name.substr(0, kTemporaryPrefix.size()) == kTemporaryPrefix) continue;
      struct ::stat status{};
      if (!sizes && (entry->d_type == DT_REG || entry->d_type == DT_DIR)) {  // where the file system says so
        status.st_mode = entry->d_type == DT_REG ? S_IFREG : S_IFDIR;
      } else if (::fstatat(number, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        continue;  // gone meanwhile
      }
      // Links to folders may form circles, and two of them in one folder a tree without end.
      const bool link = S_ISLNK(status.st_mode);
      if (link && ::fstatat(number, entry->d_name, &status, 0) != 0) continue;
      key.resize(stem);
      key.append(name);
      if (S_ISDIR(status.st_mode)) {
        key.push_back('/');
        if (what == listing::children) {
          if (!sink.key(key, 0)) return {};
        } else if (!link) {
          folders.push_back(key);
        }
      } else if (S_ISREG(status.st_mode)) {
        if (!sink.key(key, static_cast<std::uint64_t>(status.st_size))) return {};
      }
    }
  }
  return {};
}

}  // namespace penstock::inline v0
