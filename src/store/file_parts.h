#pragma once

#include <penstock/store.h>

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::inline v0 {

/// Asked of one system call at most: it moves less than 2 GiB whatever it is asked for.
inline constexpr std::size_t kMaxCallBytes = std::size_t{1} << 30;

/// Fills `room` from `offset` of an open file.
/// \error io_error  Also where the file ends before.
result<> read_file_at(int file, std::uint64_t offset, std::span<std::byte> room);

/// One `pread` from `offset`, or `read` from the file's position (`offset` null), of at most `kMaxCallBytes`; repeated
/// where a signal interrupts it. Where the system does not write to `room` and this process can (EFAULT: a sandbox that
/// does not know what a device's driver has mapped), the bytes pass through ordinary memory, 64 KiB at most.
/// \returns The bytes read; 0 at the end of the file; -1: `errno` is the reason.
::ssize_t read_once(int file, std::span<std::byte> room, const std::uint64_t* offset) noexcept;

/// Writes all parts one after the other from `offset` on, many of them with one system call.
result<> write_file_at(int file, std::uint64_t offset, std::span<const part> parts);

/// Sets room aside for the first `bytes` of an empty file, whose size stays 0, where the filesystem can: it then need
/// not find room page by page while the bytes arrive, which is most of the time of a large write.
/// \error io_error  There is not so much room.
result<> set_room_aside(int file, std::uint64_t bytes);

/// Has the system begin to write out what was written, without waiting for it.
void start_writing_out(int file) noexcept;

/// As `fsync`, or, where only the bytes and the size matter, as `fdatasync`. A file system that has no such thing
/// (EINVAL, ENOSYS) holds its bytes as safely as it can.
result<> sync_file(int file);
result<> sync_file_bytes(int file);

/// A folder, as the system numbers it.
struct folder_place {
  std::uint64_t device = 0, inode = 0;
  friend bool operator==(const folder_place&, const folder_place&) = default;
};

/// Returns when the device has the names in an open folder, and those in the folders above it, up to the top of its
/// file system. Folders above that may not be read are left out: this process has not made them.
/// \param done  Folders that need no sync, nor those above them; the ones that were synced are added. Null: none.
result<> sync_folder_and_above(int folder, std::vector<folder_place>* done = nullptr);

}  // namespace penstock::inline v0
