#include "store/file_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <penstock/extend/store.h>
#include "store/file_parts.h"
#include "store/file_status.h"

namespace penstock::inline v0 {
namespace {

// Fills `room` from the file's current position (`offset` null) or from `*offset`.
result<> read_fully(int file, std::span<std::byte> room, const std::uint64_t* offset, const byte_read& wanted) {
  std::size_t done = 0;
  while (done < room.size()) {
    const std::uint64_t at = offset == nullptr ? 0 : *offset + done;
    const ::ssize_t got = read_once(file, room.subspan(done), offset == nullptr ? nullptr : &at);
    if (got < 0) return read_failure(errno, "reading");
    if (got == 0) {
      // Another process truncated the file after its size was read. A reader that expects a version can begin again
      // with the new one.
      if (wanted.expected != nullptr && wanted.expected->known()) return version_has_changed();
      return error(errc::io_error,
                   fmt::format("the object ended early while it was read: {} bytes of {}", done, room.size()));
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace

file_store::file_store(std::string root, file_store_options options)
    : root_(std::move(root)),
      options_(options),
      files_([most = open_file_limit(options.max_open_files)] { return std::make_unique<open_file_cache>(most); }),
      swept_([] { return std::make_unique<swept_folders>(); }),
      write_out_([] { return std::make_unique<write_out>(); }),
      changed_([] { return std::make_unique<changed_folders>(); }) {
  if (root_.empty()) root_.push_back('.');
  while (root_.size() > 1 && root_.back() == '/') root_.pop_back();
}

result<> file_store::check_writable(std::string_view prefix) const {
  std::string folder = root_.empty() ? "." : root_;
  if (!prefix.empty()) folder.append(1, '/').append(prefix);
  for (;;) {
    while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
    struct ::stat status{};
    if (::stat(folder.c_str(), &status) == 0) {
      if (S_ISREG(status.st_mode)) return error(errc::io_error, fmt::format("'{}' is a file, not a folder", folder));
      if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
      break;
    }
    if (errno != ENOENT && errno != ENOTDIR) break;
    const std::size_t slash = folder.rfind('/');
    if (folder.size() == 1 || slash == std::string::npos) return {};  // created by the first put
    folder.resize(std::max<std::size_t>(slash, 1));
  }
  return write_failure(errno, fmt::format("writing in '{}'", folder));
}

store_traits file_store::traits() const {
  store_traits traits;
  traits.max_gap_bytes = std::uint64_t{4} << 10;
  // The bytes of a read stay in the second-level cache until they are decoded: on 2 cores 256 KiB reads at the
  // decompressor's own speed, 1 MiB at 0.96 of it.
  traits.max_length_bytes = std::uint64_t{256} << 10;
  traits.versions = true;
  traits.sizes = true;
  traits.lasting_versions = true;  // device, inode, length, times
  traits.blocking = true;
  traits.inline_completion = true;
  traits.lends_bytes = false;
  traits.writable = true;
  traits.guards = true;
  return traits;
}

void file_store::read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const {
  open_file_ref
      last;  // of the preceding request, with a copy of the key: a request's own key is freed with its completion
  for (const byte_read& one : reads) {
    if (stop.stop_requested()) {
      sink.complete(one.tag, error(errc::cancelled, "the read was stopped"));
    } else if (one.range.whole()) {
      sink.complete(one.tag, read_whole(one));
    } else if (one.range.length == 0) {
      sink.complete(one.tag, check_version(one, last));
    } else {
      sink.complete(one.tag, read_range(one, last));
    }
  }
}

result<read_done> file_store::read_whole(const byte_read& wanted) const {
  PENSTOCK_TRY(check_key(wanted.key));
  file_path path;
  PENSTOCK_TRY(path.assign(root_, wanted.key));
  struct ::stat status{};
  PENSTOCK_ASSIGN(const descriptor file, open_for_read(path, status));
  read_done done;
  done.seen = version_of(status);
  done.seen_is_last = !may_be_indistinct(status);
  done.object_size = static_cast<std::uint64_t>(status.st_size);
  if (!is_expected(wanted, done.seen)) return version_has_changed();
  PENSTOCK_ASSIGN(const byte_extent extent, find_extent(wanted, done.object_size));
  PENSTOCK_ASSIGN(const std::span<std::byte> room, find_room(wanted, extent.length));
  PENSTOCK_TRY(read_fully(file.get(), room, nullptr, wanted));
  done.bytes = room;
  return done;
}

result<read_done> file_store::read_range(const byte_read& wanted, open_file_ref& last) const {
  if (!last || last->key() != wanted.key) {
    last = {};
    if (wanted.same_handle) last = find_unchanged(wanted.key);
    if (!last) {
      PENSTOCK_ASSIGN(last, find_current(wanted.key));
    }
  }
  read_done done;
  done.seen = last->seen();
  done.object_size = last->size_bytes();
  if (!is_expected(wanted, done.seen)) return version_has_changed();
  PENSTOCK_ASSIGN(const byte_extent extent, find_extent(wanted, done.object_size));
  PENSTOCK_ASSIGN(const std::span<std::byte> room, find_room(wanted, extent.length));
  if (auto filled = read_fully(last->number(), room, &extent.offset, wanted); !filled.ok()) {
    files_.get().drop(last);  // a stale handle of a file server remains stale: the next read opens the file again
    last = {};
    return std::move(filled).error();
  }
  done.bytes = room;
  return done;
}

result<read_done> file_store::check_version(const byte_read& wanted, const open_file_ref& last) const {
  read_done done;
  const open_file_ref known = last && last->key() == wanted.key ? last
                              : wanted.same_handle              ? find_unchanged(wanted.key)
                                                                : open_file_ref();
  if (known) {
    done.seen = known->seen();
    done.object_size = known->size_bytes();
  } else {
    PENSTOCK_TRY(check_key(wanted.key));
    file_path path;
    PENSTOCK_TRY(path.assign(root_, wanted.key));
    struct ::stat status{};
    if (::stat(path.c_str(), &status) != 0) return absence(errno, "looking up the object");
    if (!S_ISREG(status.st_mode)) return not_a_file(status);
    // Layered file systems may report different numbers for a path and its open file; versions of reads are from the
    // latter.
    if (!is_expected(wanted, version_of(status))) {
      PENSTOCK_ASSIGN(const descriptor file, open_for_read(path, status));
    }
    done.seen = version_of(status);
    done.object_size = static_cast<std::uint64_t>(status.st_size);
  }
  if (!is_expected(wanted, done.seen)) return version_has_changed();
  return done;
}

// A file that was open under this key and is unchanged: neither written to nor unlinked, which its status-change time
// would show. Null: the path must be looked up, which costs twice as much.
open_file_ref file_store::find_unchanged(std::string_view key) const noexcept {
  open_file_ref known = files_.get().find(key);
  if (!known) return {};
  struct ::stat status{};
  const bool same =
      ::fstat(known->number(), &status) == 0 && status.st_nlink != 0 && version_of(status) == known->seen();
  return same ? known : open_file_ref();
}

// The open file that `key` names now.
result<open_file_ref> file_store::find_current(std::string_view key) const {
  PENSTOCK_TRY(check_key(key));
  file_path path;
  PENSTOCK_TRY(path.assign(root_, key));
  open_file_cache& files = files_.get();
  struct ::stat status{};
  if (open_file_ref known = files.find(key)) {
    if (::stat(path.c_str(), &status) != 0) {
      const int code = errno;
      files.drop(known);
      return absence(code, "looking up the object");
    }
    if (version_of(status) == known->seen()) return known;
  }
  // The version is that of the file just opened, so the two belong together whatever happens to the path.
  PENSTOCK_ASSIGN(descriptor file, open_for_read(path, status));
  // Later reads will expect this version, so it must not also be that of another rewrite.
  constexpr int kMostWaits = 3;
  for (int i = 0; i < kMostWaits && may_be_indistinct(status); ++i) {
    wait_until_distinct(status);
    if (::fstat(file.get(), &status) != 0) return read_failure(errno, "looking up the object");
  }
  open_file_ref opened(
      new open_file(key, std::move(file), version_of(status), static_cast<std::uint64_t>(status.st_size)));
  files.insert(opened);
  return opened;
}

result<descriptor> file_store::open_for_read(const file_path& path, struct ::stat& status) const {
  // O_NONBLOCK: opening a pipe without a writer would wait for ever. It has no effect on files.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  int number = ::open(path.c_str(), kFlags);
  if (number < 0 && errno == EINTR) number = ::open(path.c_str(), kFlags);
  if (number < 0 && (errno == EMFILE || errno == ENFILE)) {
    open_file_cache::clear_all();
    number = ::open(path.c_str(), kFlags);
  }
  if (number < 0) {
    const int code = errno;
    if (code == ENXIO) return error(errc::io_error, "the object is a pipe, a socket or a device, not a file");
    return absence(code, "opening");
  }
  descriptor file(number);
  if (::fstat(number, &status) != 0) return read_failure(errno, "looking up the object");
  if (!S_ISREG(status.st_mode)) return not_a_file(status);
  root_was_there_.store(true, std::memory_order_relaxed);
  return file;
}

// The error for a path that could not be looked up. An absent object differs from a dataset that no longer exists.
error file_store::absence(int code, std::string_view doing) const {
  if ((code == ENOENT || code == ENOTDIR) && root_was_there_.load(std::memory_order_relaxed)) {
    struct ::stat status{};
    if (::stat(root_.c_str(), &status) != 0)
      return {errc::io_error, fmt::format("the folder of the store was removed: '{}'", root_)};
  }
  return read_failure(code, doing);
}

}  // namespace penstock::inline v0
