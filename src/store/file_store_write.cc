// Changes of files: put, erase and the listing of their remains.

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <penstock/extend/store.h>
#include "store/file_parts.h"
#include "store/file_store.h"
#include "store/names_sink.h"
#include "store/stray_files.h"

namespace penstock::inline v0 {
namespace {

/// Files of at least this size get their space at once. One more system call is negligible then, and 70 % of the time
/// of writing 77 MB to ext4 was spent on finding space page by page.
constexpr std::uint64_t kSetAsideFrom = std::uint64_t{1} << 20;
/// Files of a store that wait to be published, each with two descriptors.
constexpr unsigned kMostStaged = 128;

std::string_view name_of(std::string_view path) noexcept { return path.substr(path.rfind('/') + 1); }

result<descriptor> open_folder(const char* path) {
  descriptor folder(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return write_failure(errno, "opening the folder");
  return folder;
}

/// A lock of a folder, released explicitly: a child forked while it is held has the same open folder, and would keep
/// it.
class folder_lock {
 public:
  folder_lock() noexcept = default;
  folder_lock(folder_lock&& other) noexcept : folder_(std::exchange(other.folder_, -1)) {}
  folder_lock& operator=(folder_lock&&) = delete;
  ~folder_lock() {
    if (folder_ >= 0) ::flock(folder_, LOCK_UN);
  }

  /// Exclusive if `condition` compares versions, else shared with other writers.
  static result<folder_lock> take(int folder, const write_condition& condition) {
    const bool alone = condition.what == write_condition::kind::must_match;
    folder_lock lock;
    while (::flock(folder, alone ? LOCK_EX : LOCK_SH) != 0) {
      if (errno == EINTR) continue;
      if (alone) return error(errc::unsupported, "this filesystem has no locks, which a write with a version needs");
      return lock;  // without locks, no comparison is disturbed
    }
    lock.folder_ = folder;
    return lock;
  }

 private:
  int folder_ = -1;
};

// Whether an object of that name exists, and its version. It may be erased after this returned, and replaced by a file
// with any times if `distinct`: its successor's version will differ.
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

/// Held from the check of a write's condition until the write: the locks of the object's folder and of the guard's. The
/// guard's folder is locked first, and once if it is also the object's folder: two locks of one folder would wait for
/// each other.
class write_locks {
 public:
  /// \error conflict  The guard does not hold.
  static result<write_locks> take(const std::string& root, int folder, const write_condition& condition) {
    write_locks out;
    if (condition.guard == nullptr) {
      PENSTOCK_TRY(out.lock(out.object_, folder, condition));
      return out;
    }
    const std::string name(name_of(condition.guard->key));
    file_path path;
    PENSTOCK_TRY(path.assign(root, condition.guard->key));
    const std::string above(path.view().substr(0, path.view().size() - name.size()));
    out.guard_folder_ = descriptor(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!out.guard_folder_) {
      if (errno == ENOENT || errno == ENOTDIR) return guard_is_gone(*condition.guard);
      return write_failure(errno, "opening the folder");
    }
    struct ::stat here{}, there{};
    if (::fstat(folder, &here) != 0 || ::fstat(out.guard_folder_.get(), &there) != 0)
      return write_failure(errno, "looking up the folder");
    const bool same = here.st_dev == there.st_dev && here.st_ino == there.st_ino;
    if (!same) PENSTOCK_TRY(out.lock(out.guard_, out.guard_folder_.get(), {}));
    PENSTOCK_TRY(out.lock(out.object_, folder, condition));
    PENSTOCK_TRY(check(out.guard_folder_.get(), name, *condition.guard));
    return out;
  }

 private:
  static result<> lock(std::optional<folder_lock>& held, int folder, const write_condition& condition) {
    PENSTOCK_ASSIGN(folder_lock taken, folder_lock::take(folder, condition));
    held.emplace(std::move(taken));
    return {};
  }
  static result<> check(int folder, const std::string& name, const write_guard& guard) {
    const descriptor file(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file) {
      if (errno == ENOENT) return guard_is_gone(guard);
      return write_failure(errno, "opening the guard of a write");
    }
    std::vector<std::byte> begin(guard.prefix.size());
    std::size_t got = 0;
    while (got < begin.size()) {
      const ::ssize_t more = ::read(file.get(), begin.data() + got, begin.size() - got);
      if (more < 0 && errno == EINTR) continue;
      if (more < 0) return write_failure(errno, "reading the guard of a write");
      if (more == 0) break;
      got += static_cast<std::size_t>(more);
    }
    begin.resize(got);
    return check_guard(guard, begin);
  }

  descriptor guard_folder_;  // outlives its lock
  std::optional<folder_lock> guard_, object_;
};

}  // namespace

/// A new file in the object's folder, removed unless it is renamed.
class file_store::temporary_file {
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
    // O_EXCL guarantees that the name was free; process, thread and time only make that likely.
    auto salt = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
                reinterpret_cast<std::uintptr_t>(&out);
    for (int attempt = 0; attempt < 100; ++attempt, salt = salt * 6364136223846793005U + 1442695040888963407U) {
      std::string name = temporary_name(salt);
      out.file_ = descriptor(::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (out.file_) {
        out.name_ = std::move(name);
        // Marks the writer as alive for searches for abandoned files. Ends with the descriptor.
        (void)::flock(out.file_.get(), LOCK_EX | LOCK_NB);
        return out;
      }
      if (errno != EEXIST && errno != EINTR) break;
    }
    return write_failure(errno, "creating a file");
  }

  result<> write(std::span<const part> parts, std::uint64_t bytes) {
    if (bytes >= kSetAsideFrom) PENSTOCK_TRY(set_room_aside(file_.get(), bytes));
    return write_file_at(file_.get(), 0, parts);
  }

  /// File servers report failed writes when a descriptor is closed; this one is still needed, so a copy is.
  result<> close_copy() const {
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
    // The older way to the same result; the temporary name is removed with this object.
    if (::linkat(folder_, name_.c_str(), folder_, name.c_str(), 0) != 0)
      return errno == EEXIST ? taken() : write_failure(errno, "renaming");
    if (::unlinkat(folder_, name_.c_str(), 0) == 0) name_.clear();
    return {};
  }

  bool stamp() const noexcept { return stamp_file(file_.get()); }
  int number() const noexcept { return file_.get(); }

  result<version> seen() const {
    struct ::stat status{};
    if (::fstat(file_.get(), &status) != 0) return write_failure(errno, "looking up the object");
    return version_of(status);
  }

 private:
  static error taken() { return {errc::version_changed, "the object exists, although it must be absent"}; }

  int folder_ = -1;
  std::string name_;
  descriptor file_;
};

/// A file next to the one that it replaces, and the remaining steps.
class file_store::staged_file final : public staged_object {
 public:
  staged_file(std::atomic<unsigned>& count, descriptor in, temporary_file made)
      : folder(std::move(in)), file(std::move(made)), count_(count) {
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  staged_file(const staged_file&) = delete;
  staged_file& operator=(const staged_file&) = delete;
  ~staged_file() override { count_.fetch_sub(1, std::memory_order_relaxed); }

  descriptor folder;  // before the file, which is removed from it
  temporary_file file;
  std::string name, above;
  write_condition condition;
  bool synced = false;                        // the bytes must be on the device before the file gets its name
  std::shared_ptr<write_out::ticket> on_way;  // the bytes are already being written

 private:
  std::atomic<unsigned>& count_;
};

// Creates `path` and the folders above it.
result<> file_store::make_folders(const std::string& path) {
  std::vector<std::size_t> missing{path.size()};
  unsigned turns = 0;
  while (!missing.empty()) {
    const std::string now = path.substr(0, missing.back());
    const bool made = ::mkdir(now.c_str(), 0777) == 0;
    if (made || errno == EEXIST) {
      missing.pop_back();
      if (!made) continue;
      const std::size_t slash = now.find_last_of('/');
      note_change(slash == std::string::npos ? "." : slash == 0 ? "/" : now.substr(0, slash));
      continue;
    }
    const std::size_t slash = now.find_last_not_of('/', now.rfind('/'));
    // In some file systems (/proc), ENOENT also means that an existing folder cannot contain another one.
    if (errno != ENOENT || slash == std::string::npos || ++turns > PATH_MAX)
      return write_failure(errno, "creating the folder");
    missing.push_back(slash + 1);
  }
  return {};
}

void file_store::note_change(const std::string& folder) {
  if (options_.sync == write_sync::objects) changed_.get().add(folder);
}

// Returns when every name that was changed here is on the storage device.
result<> file_store::sync_changes() {
  changed_folders& changed = changed_.get();
  const std::lock_guard turn(changed.syncing());
  bool too_many = false;
  const std::unordered_set<std::string> paths = changed.take(too_many);
  const bool were_too_many = too_many;
  for (const std::string& path : paths) {
    const descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
      continue;  // its names were removed with it
    result<> done = folder ? sync_file(folder.get()) : result<>(write_failure(errno, "opening the folder"));
#ifdef __linux__
    if (done.ok() && too_many && ::syncfs(folder.get()) != 0) done = write_failure(errno, "syncing the file system");
#endif
    if (!done.ok()) {
      changed.put_back(paths, were_too_many);
      return done;
    }
    too_many = false;
  }
#ifdef __linux__
  if (too_many) {  // none of them exists any longer, but others may
    const descriptor root(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root || ::syncfs(root.get()) != 0) {
      const int code = errno;
      changed.put_back(paths, were_too_many);
      return write_failure(code, "syncing the file system");
    }
  }
#endif
  return {};
}

// Returns when the names in open folders, and the folders themselves, are on the storage device.
result<> file_store::sync_folders(const std::vector<int>& folders) {
  std::vector<folder_place> done;
  for (const int folder : folders) PENSTOCK_TRY(sync_folder_and_above(folder, &done));
  return {};
}

// Writes a file next to the object. `alone`: it is published at once, by itself.
result<std::unique_ptr<file_store::staged_file>> file_store::write_beside(std::string_view key,
                                                                          std::span<const part> parts,
                                                                          const write_condition& condition,
                                                                          bool alone) {
  PENSTOCK_TRY(check_key(key));
  if (condition.what == write_condition::kind::must_match && !condition.expected.known())
    return error(errc::invalid_argument, "a condition has no version to match");
  std::string name(name_of(key));
  if (std::string_view(name).substr(0, kTemporaryPrefix.size()) == kTemporaryPrefix) {
    return error(errc::invalid_argument,
                 fmt::format("names that begin with '{}' are reserved for the store", kTemporaryPrefix));
  }
  file_path path;
  PENSTOCK_TRY(path.assign(root_, key));
  const std::string above(path.view().substr(0, path.view().size() - name.size()));

  const bool first_time = swept_.get().first_time(above);
  descriptor folder(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    if (errno != ENOENT) return write_failure(errno, "opening the folder");
    PENSTOCK_TRY(make_folders(above.substr(0, above.find_last_not_of('/') + 1)));
    PENSTOCK_ASSIGN(folder, open_folder(above.c_str()));
  } else if (first_time) {
    remove_stray_files(folder.get());
  }
  PENSTOCK_ASSIGN(temporary_file file, temporary_file::make(folder.get()));
  std::uint64_t bytes = 0;
  for (const part& each : parts) bytes += each.size();
  PENSTOCK_TRY(file.write(parts, bytes));
  auto out = std::make_unique<staged_file>(staged_, std::move(folder), std::move(file));
  out->name = std::move(name);
  out->above = above;
  out->condition = condition;
  out->synced = syncs(condition);
  if (!out->synced) {
    PENSTOCK_TRY(out->file.close_copy());
  } else if (!alone) {
    if (bytes >= kSetAsideFrom) out->on_way = write_out_.get().start(out->file.number());
    // The device writes it while the next object is encoded, and the file system writes its log once for many.
    if (!out->on_way) start_writing_out(out->file.number());
  }
  return out;
}

// Renames a file whose bytes are in their final state.
result<version> file_store::give_name(staged_file& file) {
  const write_condition& condition = file.condition;
  const bool stamped = file.file.stamp();
  PENSTOCK_ASSIGN(const write_locks locks, write_locks::take(root_, file.folder.get(), condition));
  if (condition.what != write_condition::kind::none || !stamped) {
    version present;
    PENSTOCK_ASSIGN(const bool exists, find_version(file.folder.get(), file.name, !stamped, present));
    PENSTOCK_TRY(check_condition(condition, exists ? &present : nullptr));
  }
  PENSTOCK_TRY(file.file.rename_to(file.name, condition.what != write_condition::kind::must_be_absent));
  root_was_there_.store(true, std::memory_order_relaxed);
  return file.file.seen();
}

result<version> file_store::put(std::string_view key, std::span<const part> parts, const write_condition& condition) {
  PENSTOCK_ASSIGN(std::unique_ptr<staged_object> file, write_beside(key, parts, condition, true));
  return std::move(publish({&file, 1}).front());
}

result<std::unique_ptr<staged_object>> file_store::stage(std::string_view key, std::span<const part> parts,
                                                         const write_condition& condition) {
  if (!syncs(condition) || staged_.load(std::memory_order_relaxed) >= open_file_limit(kMostStaged))
    return std::unique_ptr<staged_object>();
  PENSTOCK_ASSIGN(std::unique_ptr<staged_object> out, write_beside(key, parts, condition, false));
  return out;
}

std::vector<result<version>> file_store::publish(std::span<const std::unique_ptr<staged_object>> staged) {
  const auto file_at = [&](std::size_t i) -> staged_file& { return static_cast<staged_file&>(*staged[i]); };
  std::vector<result<version>> out;
  out.reserve(staged.size());
  std::vector<int> durable;
  for (std::size_t i = 0; i < staged.size(); ++i) {
    staged_file& file = file_at(i);
    result<> there;
    if (file.synced) there = file.on_way ? file.on_way->wait() : sync_file_bytes(file.file.number());
    if (there.ok() && file.condition.ordered && options_.sync == write_sync::objects) there = sync_changes();
    if (!there.ok()) {
      out.emplace_back(std::move(there).error());
      continue;
    }
    out.push_back(give_name(file));
    if (!out.back().ok()) continue;
    if (is_durable(file.condition)) {
      durable.push_back(file.folder.get());
    } else if (!file.condition.passing) {
      note_change(file.above);
    }
  }
  if (durable.empty()) return out;
  if (const auto synced = sync_folders(durable); !synced.ok()) {
    for (std::size_t i = 0; i < staged.size(); ++i)
      if (out[i].ok() && is_durable(file_at(i).condition)) out[i] = synced.error().clone();
  }
  return out;
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
    PENSTOCK_ASSIGN(const write_locks locks, write_locks::take(root_, folder.get(), condition));
    version present;
    PENSTOCK_ASSIGN(const bool exists, find_version(folder.get(), name, true, present));
    if (!exists) return {};
    PENSTOCK_TRY(check_condition(condition, &present));
    if (::unlinkat(folder.get(), name.c_str(), 0) != 0 && errno != ENOENT) return write_failure(errno, "erasing");
  }
  if (is_durable(condition)) return sync_file(folder.get());
  note_change(above);
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
      // Nothing exists below a folder that does not exist (any longer).
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
      const ::dirent* const entry = ::readdir(folder.get());  // NOLINT(concurrency-mt-unsafe): the stream is not shared
      if (entry == nullptr) {
        if (errno != 0) return read_failure(errno, "reading the folder");
        break;
      }
      const std::string_view name(entry->d_name);
      if (name == "." || name == ".." || name.substr(0, kTemporaryPrefix.size()) == kTemporaryPrefix) continue;
      struct ::stat status{};
      if (!sizes && (entry->d_type == DT_REG || entry->d_type == DT_DIR)) {  // if the file system reports it
        status.st_mode = entry->d_type == DT_REG ? S_IFREG : S_IFDIR;
      } else if (::fstatat(number, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        continue;  // it was erased in the meantime
      }
      // Links to folders may form cycles, and two of them in one folder an infinite tree.
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
