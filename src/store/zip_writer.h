#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/zip_archive.h"

namespace penstock::inline v0 {

/// A change of an archive, from the first write to the directory that includes it. One thread at a time.
///
/// Holds the archive's lock and its mark; destroyed without `commit`, it leaves the archive in the state of its mark.
class zip_writer {
 public:
  /// Opens the archive for writing, creates it if it does not exist, and restores it if a writer was killed.
  /// \param known  The archive as it is open here, or null; it is reused if it still is the file's.
  /// \error conflict  Another writer has been running for half a minute.
  static result<std::unique_ptr<zip_writer>> begin(const std::string& path, std::shared_ptr<zip_archive> known,
                                                   write_sync sync);
  ~zip_writer();
  zip_writer(const zip_writer&) = delete;
  zip_writer& operator=(const zip_writer&) = delete;

  const std::shared_ptr<zip_archive>& archive() const noexcept { return archive_; }

  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition);
  result<> erase(std::string_view key, const write_condition& condition);
  /// Writes the directory: the archive then has all puts and erases.
  result<> commit();

 private:
  zip_writer(std::string path, write_sync sync)
      : mark_(path), path_(std::move(path)), durable_(sync == write_sync::durable), synced_(sync != write_sync::none) {}
  result<> take_lock();
  result<bool> open_for_writing();
  result<> start();
  result<> check(std::string_view key, const write_condition& condition) const;
  result<> check_guard_of(const write_condition& condition) const;
  std::uint64_t find_place(std::uint64_t bytes);
  result<> sync() const;

  zip_mark mark_;
  std::string path_;
  bool durable_;  // commit returns when the archive is on the storage device
  bool synced_;   // after a power cut the archive is the old one or the new one
  bool locked_ = false, started_ = false;
  std::shared_ptr<zip_archive> archive_;
  std::uint64_t file_end_ = 0;
};

}  // namespace penstock::inline v0
