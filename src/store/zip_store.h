#pragma once

#include <penstock/store.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/fork_local.h"
#include "base/ledger.h"

namespace penstock::inline v0 {

class zip_archive;
class zip_writer;

struct zip_store_options {
  /// After a power cut the archive is the one before a flush or the one after it; `durable`: `flush` returns when the
  /// archive is on the storage device; `none`: neither.
  write_sync sync = write_sync::objects;
  /// Returns this process's ledger, which counts the decoded bytes of compressed entries; empty: none.
  std::function<ledger&()> accounts;
};

/// The entries of a zip archive: key `a/b` is the entry of that name. Thread-safe.
///
/// **Reads**: stored entries are read in place, at any range. Compressed ones (deflate, bzip2, lzma, zstd, xz) are
/// decoded as a whole, once for any number of threads. The last one is cached until it has been read completely. Reads
/// of the header (4 KiB) of a deflated one decode only that. Checksums are verified whenever a whole entry was read or
/// decoded. Other methods and encrypted entries are `unsupported` when they are read. The path is checked with every
/// call: a replaced or rewritten archive is opened again. A file that does not exist, or is empty, is an archive
/// without entries.
///
/// **Versions** are the file's at its opening, and the entry's offset, size and checksum: writes of this store do not
/// change the versions of other entries.
///
/// **Writes**: `put` appends a stored entry after the archive's present directory, `flush` a directory after that; new
/// entries are visible to this store at once and to others after the flush. Until the new directory is complete, the
/// old one is not changed, and a small file next to the archive has its end. If the writer is killed, Penstock reads
/// the old state, and the next writer restores it; until then, other programs find no directory. Replaced and erased
/// entries keep their space in the file (a copy omits them).
///
/// From its first put to the flush a writer holds an exclusive `flock` of the archive: another one waits for some time,
/// then fails with `conflict`.
class zip_store final : public store {
 public:
  explicit zip_store(std::string path, zip_store_options options = {});
  /// Flushes; a failure cannot be reported.
  ~zip_store() override;
  zip_store(const zip_store&) = delete;
  zip_store& operator=(const zip_store&) = delete;

  store_traits traits() const override;
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override;
  /// \error unsupported  The archive has names in another encoding, which a new directory would change.
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override;
  result<> erase(std::string_view key, const write_condition& condition) override;
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override;
  result<> flush() override;
  /// Queries the system about the archive.
  result<> check_writable(std::string_view prefix) const override;
  std::string uri() const override { return "zip://" + path_; }

 private:
  struct decoded_entry;
  struct opened;

  result<std::shared_ptr<zip_archive>> current() const;
  bool still(const zip_archive& archive) const;
  result<read_done> read_one(zip_archive& from, const byte_read& wanted) const;
  result<std::shared_ptr<decoded_entry>> decode_kept(zip_archive& from, const byte_read& wanted,
                                                     const version& seen) const;
  result<> decode_all(zip_archive& from, const byte_read& wanted, decoded_entry& into) const;
  void let_go(const decoded_entry& entry) const;
  ledger* accounts() const { return options_.accounts ? &options_.accounts() : nullptr; }
  result<zip_writer*> begin_writing();

  std::string path_;
  zip_store_options options_;
  mutable fork_local<opened> opened_;  // a child opens the file itself, and does not have its parent's puts
};

}  // namespace penstock::inline v0
