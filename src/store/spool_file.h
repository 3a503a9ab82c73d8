#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <penstock/result.h>
#include <penstock/store.h>
#include "store/file_status.h"

namespace penstock::inline v0 {

/// A file without a name, for bytes that are written now and read back later: it is removed with its descriptor,
/// however the process ends. Appends from several threads may run at the same time.
class spool_file {
 public:
  /// \param folder  On the file system for the bytes.
  /// \error io_error, permission_denied  The folder does not exist, or no file can be created in it.
  static result<std::unique_ptr<spool_file>> make(const std::string& folder);

  std::uint64_t size() const noexcept { return end_.load(std::memory_order_relaxed); }

  /// Writes `bytes` after all earlier appends; returns their offset.
  result<std::uint64_t> append(std::span<const std::byte> bytes);
  result<> read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Makes the file `bytes` long, in place of appends: zeros until `write` writes them. Takes no space yet.
  result<> extend(std::uint64_t bytes);
  /// Writes `bytes` at an offset in a file that is long enough.
  result<> write(std::uint64_t offset, std::span<const std::byte> bytes);

  /// All bytes, as mapped memory.
  class view {
   public:
    view() noexcept = default;
    view(view&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    view& operator=(view&&) = delete;
    ~view();
    std::span<const std::byte> bytes() const noexcept { return bytes_; }

   private:
    friend class spool_file;
    std::span<const std::byte> bytes_;
  };
  /// No append may run at the same time.
  /// \error resource_exhausted, io_error
  result<view> map() const;

 private:
  explicit spool_file(descriptor file) noexcept : file_(std::move(file)) {}

  descriptor file_;
  std::atomic<std::uint64_t> end_{0};
};

/// The folder for the bytes of the new object at this URI. For a file it is the file's folder, or its nearest ancestor
/// that exists, because the folder of temporary files may be on a small file system. For other objects, and if that
/// folder is not writable, it is the folder of temporary files: `TMPDIR`.
std::string spool_folder(std::string_view uri);

}  // namespace penstock::inline v0
