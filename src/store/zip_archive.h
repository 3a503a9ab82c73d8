#pragma once

#include <penstock/store.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "store/file_status.h"
#include "store/zip_directory.h"

namespace penstock::inline v0 {

/// An open archive file and its directory.
///
/// Readers take `mutex` shared to read the directory, `zip_writer` exclusively to change it. The bytes of an entry
/// never change while the archive is open, so they are read without a lock.
class zip_archive {
 public:
  /// Opens the archive and reads its directory. Null if the file does not exist; one without bytes has no entries.
  ///
  /// While a writer is running, or after it was killed, its mark has the end of the archive.
  /// \error io_error  The file kept changing.
  static result<std::shared_ptr<zip_archive>> open(const std::string& path);

  int file() const noexcept { return file_.get(); }
  /// The file's version when its directory was last read or written.
  version seen() const;
  /// Whether the file has no bytes; an archive without entries has some.
  bool is_nothing() const;
  /// A copy of the entry with that key, and its version. False: it does not exist.
  bool find(std::string_view key, zip_entry& out, version& seen) const;
  /// The offset of the entry's bytes; reads its local header if it was not read before.
  result<std::uint64_t> find_data(std::string_view key, const zip_entry& entry);

  struct extent {
    std::uint64_t begin = 0, end = 0;
  };

 private:
  friend class zip_writer;
  friend class zip_store;

  /// Reads the directory, after the file has been opened.
  result<> load(const std::string& path);
  result<> load_until(std::uint64_t end);
  version version_of_entry(const zip_entry& entry) const noexcept;

  descriptor file_;
  mutable std::shared_mutex mutex_;
  zip_directory directory_;
  std::string comment_;
  version seen_;
  std::uint64_t generation_ = 0;       // generation of the file's content when it was opened
  std::uint64_t directory_begin_ = 0;  // begin of the directory on disk
  std::uint64_t end_ = 0;              // end of the archive on disk; 0: it has no bytes
  std::vector<extent> holes_;          // space of older directories: free for new entries
};

/// The file next to an archive that has the end of the previous archive, from a writer's first put to its flush.
class zip_mark {
 public:
  explicit zip_mark(const std::string& archive_path);
  /// The mark's `end` of the archive with that inode. Returns false if no such mark exists. (It also has the device's
  /// number, which is not compared: it may change when the machine restarts after a power cut.)
  bool read(const struct ::stat& archive, std::uint64_t& end) const;
  /// Replaces the mark.
  /// \param synced  Return when it is on the storage device.
  result<> write(const struct ::stat& archive, std::uint64_t end, bool synced) const;
  /// Returns when the names in the archive's folder, and the folders above it, are on the storage device.
  result<> sync_folder(bool and_above) const;
  void remove() const noexcept;

 private:
  std::string path_;
};

}  // namespace penstock::inline v0
