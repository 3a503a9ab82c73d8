#pragma once

#include <penstock/store.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fork_local.h"
#include "store/changed_folders.h"
#include "store/open_file_cache.h"
#include "store/stray_files.h"
#include "store/write_out.h"

namespace penstock::inline v0 {

struct file_store_options {
  /// `durable`: `put` and `erase` return when the file, its name, and the folders above it are on the storage device.
  write_sync sync = write_sync::objects;
  unsigned max_open_files = 256;  ///< kept open between ranged reads; never more than a quarter of the process's limit
};

/// The files below a folder: key `a/b` is the file `<root>/a/b`. Thread-safe; between processes too.
///
/// **Versions** are device, inode, size, mtime and ctime of the path at the time of the read: they detect a replaced
/// file, one rewritten in place, and a folder swapped above it. `put` stamps files to the nanosecond. If the file
/// system's clock is coarse, a file that another process changed within its present tick is opened for ranged reads and
/// erased only in the next one, because two of its versions could be equal. No version detects a rewrite in place
/// during the read itself: a writer should replace files (rename), as this store does.
///
/// **Ranged reads** keep files open; a warm one is one `stat` and one `pread` and allocates nothing. Adjacent requests
/// of one call for the same key share the `stat`, and so the version. **Whole objects** (chunk files) are opened,
/// `fstat`ed, read and closed.
///
/// Symbolic links below the root are followed by reads; a link to a folder is not entered by a recursive listing. A
/// folder is not an object: reading one is `not_found`. After an object was found, a missing root is an `io_error` (an
/// unmounted disk, a deleted dataset), so that it does not read as an array of fill values.
///
/// A forked child opens files of its own.
class file_store final : public store {
 public:
  /// \param root  Need not exist before the first put; empty: the current folder.
  explicit file_store(std::string root, file_store_options options = {});

  store_traits traits() const override;
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override;

  /// Writes a new file next to the object and renames it: readers see the old bytes or the new ones. Creates folders.
  /// The first put into a folder removes files of killed writers there.
  ///
  /// `must_be_absent` holds against every writer (the rename refuses to replace). `must_match` holds against writers
  /// that use Penstock, in any process: it compares and renames under an exclusive `flock` of the object's folder,
  /// which every other put and erase takes shared.
  /// \error version_changed  The condition does not hold; nothing was written.
  /// \error unsupported  `must_match` on a filesystem without `flock`.
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override;
  /// \par Power cuts (docs/design/0019-power-cuts.md) The bytes are on the storage device before the file gets its
  /// name, so a key names an old object, a new one, or, if it is new, nothing. `durable`: so are the name, the created
  /// folders, and those above them.
  result<std::unique_ptr<staged_object>> stage(std::string_view key, std::span<const part> parts,
                                               const write_condition& condition) override;
  /// Waits once for the storage device, which receives the bytes of all objects together.
  std::vector<result<version>> publish(std::span<const std::unique_ptr<staged_object>> staged) override;
  /// Removes the file; folders are kept.
  result<> erase(std::string_view key, const write_condition& condition) override;
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override;
  /// Queries the system about the folder `prefix`, or about the first folder above it that exists.
  result<> check_writable(std::string_view prefix) const override;
  std::string uri() const override { return "file://" + root_; }
  /// The folder.
  const std::string& root() const noexcept { return root_; }

 private:
  result<read_done> read_whole(const byte_read& wanted) const;
  result<read_done> read_range(const byte_read& wanted, open_file_ref& last) const;
  result<read_done> check_version(const byte_read& wanted, const open_file_ref& last) const;
  open_file_ref find_unchanged(std::string_view key) const noexcept;
  result<open_file_ref> find_current(std::string_view key) const;
  result<descriptor> open_for_read(const file_path& path, struct ::stat& status) const;
  error absence(int code, std::string_view doing) const;
  class temporary_file;
  class staged_file;
  result<std::unique_ptr<staged_file>> write_beside(std::string_view key, std::span<const part> parts,
                                                    const write_condition& condition, bool alone);
  result<version> give_name(staged_file& file);
  result<> make_folders(const std::string& path);
  void note_change(const std::string& folder);
  result<> sync_changes();
  static result<> sync_folders(const std::vector<int>& folders);
  bool is_durable(const write_condition& condition) const noexcept {
    return condition.durable || (options_.sync == write_sync::durable && !condition.passing);
  }
  bool syncs(const write_condition& condition) const noexcept {
    return condition.durable || (options_.sync != write_sync::none && !condition.passing);
  }

  std::string root_;
  file_store_options options_;
  mutable fork_local<open_file_cache> files_;
  fork_local<swept_folders> swept_;
  fork_local<write_out> write_out_;
  fork_local<changed_folders> changed_;
  std::atomic<unsigned> staged_{0};  // files that wait to be published
  mutable std::atomic<bool> root_was_there_{false};
};

}  // namespace penstock::inline v0
