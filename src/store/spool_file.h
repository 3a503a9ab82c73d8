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

/// A file without a name, for bytes that are written now and read back later: it goes with its descriptor, however the
/// process ends. Appends from several threads may run at the same time.
class spool_file {
 public:
  /// \param folder  Whose file system the bytes are on.
  /// \error io_error, permission_denied  There is no such folder, or no file can be made in it.
  static result<std::unique_ptr<spool_file>> make(const std::string& folder);

  std::uint64_t size() const noexcept { return end_.load(std::memory_order_relaxed); }

  /// Writes `bytes` behind all that was appended before; returns where they begin.
  result<std::uint64_t> append(std::span<const std::byte> bytes);
  result<> read(std::uint64_t offset, std::span<std::byte> out) const;

  /// All bytes, as memory that the system reads when it is looked at.
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
  /// No append may run meanwhile. \error resource_exhausted, io_error
  result<view> map() const;

 private:
  explicit spool_file(descriptor file) noexcept : file_(std::move(file)) {}

  descriptor file_;
  std::atomic<std::uint64_t> end_{0};
};

}  // namespace penstock::inline v0
