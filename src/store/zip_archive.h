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
/// Readers take `mutex` shared to look at the directory, `zip_writer` exclusively to change it. The bytes of an entry
/// never change while the archive is open, so they are read without a lock.
class zip_archive {
 public:
  /// Opens the archive and reads its directory. Null where there is no file; one without bytes has no entries.
  ///
  /// While a writer is at work, or was killed, its mark says where the archive ends.
  /// \error io_error  The file kept changing.
  static result<std::shared_ptr<zip_archive>> open(const std::string& path);

  int file() const noexcept { return file_.get(); }
  /// The file's version as of the last time that its directory was read or written.
  version seen() const;
  /// A file without bytes; an archive of no entries is something.
  bool is_nothing() const;
  /// A copy of the entry with that key, and its version. False: there is none.
  bool find(std::string_view key, zip_entry& out, version& seen) const;
  /// Where the entry's bytes begin; reads its local header where nobody did before.
  result<std::uint64_t> find_data(std::string_view key, const zip_entry& entry);

  struct extent {
    std::uint64_t begin = 0, end = 0;
  };

 private:
  friend class zip_writer;
  friend class zip_store;

  /// Reads the directory, once the file has been opened.
  result<> load(const std::string& path);
  result<> load_until(std::uint64_t end);
  version version_of_entry(const zip_entry& entry) const noexcept;

  descriptor file_;
  mutable std::shared_mutex mutex_;
  zip_directory directory_;
  std::string comment_;
  version seen_;
  std::uint64_t generation_ = 0;       // of the file's content as it was opened
  std::uint64_t directory_begin_ = 0;  // of the directory on disk
  std::uint64_t end_ = 0;              // of the archive on disk; 0: nothing is there
  std::vector<extent> holes_;          // where older directories stood: free for new entries
};

/// The file beside an archive that says, from a writer's first put to its flush, where the archive before ends.
class zip_mark {
 public:
  explicit zip_mark(const std::string& archive_path);
  /// `end` of the archive in the file with that inode. False: there is no such mark. (The device's number is in it too,
  /// and not compared: it may be another one when the machine starts again after a power cut.)
  bool read(const struct ::stat& archive, std::uint64_t& end) const;
  /// Replaces the mark. \param synced  Return when the device has it.
  result<> write(const struct ::stat& archive, std::uint64_t end, bool synced) const;
  /// Returns when the device has the names in the archive's folder, and the folders above it.
  result<> sync_folder(bool and_above) const;
  void remove() const noexcept;

 private:
  std::string path_;
};

}  // namespace penstock::inline v0
