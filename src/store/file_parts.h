#pragma once

#include <penstock/store.h>

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::inline v0 {

/// The most bytes of one system call: it transfers less than 2 GiB, whatever is requested.
inline constexpr std::size_t kMaxCallBytes = std::size_t{1} << 30;

/// Fills `room` from `offset` of an open file.
/// \error io_error  Also if the file ends before that.
result<> read_file_at(int file, std::uint64_t offset, std::span<std::byte> room);

/// One `pread` from `offset`, or `read` from the file's position (`offset` null), of at most `kMaxCallBytes`; repeated
/// if a signal interrupts it. If the system cannot write to `room` but this process can (EFAULT: a sandbox that ignores
/// the mappings of a device's driver), the bytes are copied through ordinary memory, 64 KiB at most.
/// \returns The bytes read; 0 at the end of the file; -1: `errno` has the reason.
::ssize_t read_once(int file, std::span<std::byte> room, const std::uint64_t* offset) noexcept;

/// Writes all parts one after the other from `offset` on, many of them with one system call.
result<> write_file_at(int file, std::uint64_t offset, std::span<const part> parts);

/// Reserves space for the first `bytes` of an empty file, whose size stays 0, if the file system supports it. The file
/// system then does not search for space page by page while the bytes are written, which takes most of the time of a
/// large write.
/// \error io_error  There is too little space.
result<> set_room_aside(int file, std::uint64_t bytes);

/// Makes the system begin to write data to the device, without waiting for it.
void start_writing_out(int file) noexcept;

/// As `fsync` or, if only the bytes and the size matter, as `fdatasync`. A file system without these functions (EINVAL,
/// ENOSYS) stores its bytes as safely as it can.
result<> sync_file(int file);
result<> sync_file_bytes(int file);

/// A folder, by the system's numbers.
struct folder_place {
  std::uint64_t device = 0, inode = 0;
  friend bool operator==(const folder_place&, const folder_place&) = default;
};

/// Returns when the names in an open folder are on the storage device, and those in the folders above it, up to the top
/// of its file system. Folders above that cannot be read are skipped: this process did not create them.
/// \param done  Folders that need no sync, nor those above them; the synced ones are added. Null: none.
result<> sync_folder_and_above(int folder, std::vector<folder_place>* done = nullptr);

}  // namespace penstock::inline v0
