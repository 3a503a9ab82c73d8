#include "store/zip_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <libdeflate.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <thread>
#include <utility>

#include <penstock/extend/store.h>
#include "base/checked.h"
#include "store/file_parts.h"
#include "store/zip_records.h"

namespace penstock::inline v0 {
namespace {

constexpr unsigned kMadeByUnix = 3 << 8 | 45;
constexpr std::uint32_t kOrdinaryFile = 0100644U << 16;

std::uint32_t dos_time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (::gmtime_r(&now, &parts) == nullptr || parts.tm_year < 80) return 1U << 21 | 1U << 16;
  const auto date = static_cast<std::uint32_t>((parts.tm_year - 80) << 9 | (parts.tm_mon + 1) << 5 | parts.tm_mday);
  const auto time = static_cast<std::uint32_t>(parts.tm_hour << 11 | parts.tm_min << 5 | parts.tm_sec / 2);
  return date << 16 | time;
}

}  // namespace

result<std::unique_ptr<zip_writer>> zip_writer::begin(const std::string& path, std::shared_ptr<zip_archive> known,
                                                      write_sync sync) {
  std::unique_ptr<zip_writer> out(new zip_writer(path, sync));
  // The file may be replaced by another one between its opening and its lock.
  constexpr int kMostTimes = 100;
  for (int i = 0; i < kMostTimes; ++i) {
    out->archive_ = std::move(known);
    known = nullptr;
    const bool fresh = out->archive_ == nullptr;
    if (fresh) {
      out->archive_ = std::make_shared<zip_archive>();
      int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
      out->archive_->file_ = descriptor(::open(path.c_str(), flags, 0666));
      if (!out->archive_->file_) return write_failure(errno, "opening the archive");
    } else if ((::fcntl(out->archive_->file(), F_GETFL) & O_ACCMODE) != O_RDWR) {
      continue;
    }
    PENSTOCK_TRY(out->take_lock());
    struct ::stat named{}, held{};
    if (::fstat(out->archive_->file(), &held) != 0) return write_failure(errno, "looking up the archive");
    const bool there = ::stat(path.c_str(), &named) == 0;
    const bool same = there && named.st_dev == held.st_dev && named.st_ino == held.st_ino;
    if (same && fresh) {
      PENSTOCK_TRY(out->archive_->load(path));
    }
    if (same && (fresh || out->archive_->seen() == version_of(held))) {
      PENSTOCK_TRY(out->start());
      return out;
    }
    ::flock(out->archive_->file(), LOCK_UN);
    out->locked_ = false;
  }
  return error(errc::io_error, "the zip archive kept being replaced while it was opened");
}

result<> zip_writer::take_lock() {
  using clock = std::chrono::steady_clock;
  const auto deadline = clock::now() + std::chrono::seconds(30);
  while (::flock(archive_->file(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK)
      return error(errc::unsupported, "this filesystem has no locks, which writing to a zip archive needs");
    if (clock::now() >= deadline) return error(errc::conflict, "another writer uses the zip archive");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  locked_ = true;
  return {};
}

// The lock is held and the directory is the file's.
result<> zip_writer::start() {
  if (!archive_->directory_.names_are_their_bytes) {
    return error(errc::unsupported,
                 "this zip archive has names that are not UTF-8: a new directory would change them; copy it instead");
  }
  struct ::stat status{};
  if (::fstat(archive_->file(), &status) != 0) return write_failure(errno, "looking up the archive");
  file_end_ = static_cast<std::uint64_t>(status.st_size);
  if (file_end_ > archive_->end_) {  // remains of a killed writer
    if (::ftruncate(archive_->file(), static_cast<::off_t>(archive_->end_)) != 0)
      return write_failure(errno, "restoring the archive");
    file_end_ = archive_->end_;
  }
  // The mark is on the storage device before the first byte that it describes.
  started_ = true;
  return mark_.write(status, archive_->end_, synced_);
}

zip_writer::~zip_writer() {
  if (!locked_) return;
  if (started_) {  // given up: the old directory is unchanged
    const bool restored = ::ftruncate(archive_->file(), static_cast<::off_t>(archive_->end_)) == 0;
    if (restored && sync().ok()) mark_.remove();
  }
  ::flock(archive_->file(), LOCK_UN);
}

result<> zip_writer::sync() const { return synced_ ? sync_file_bytes(archive_->file()) : result<>(); }

// The lock of the file is held, and entries' bytes never change: the present state is valid until the next put.
result<> zip_writer::check_guard_of(const write_condition& condition) const {
  if (condition.guard == nullptr) return {};
  const write_guard& guard = *condition.guard;
  zip_entry entry;
  version seen;
  if (!archive_->find(guard.key, entry, seen) || entry.method != zip_method::stored ||
      entry.decoded_bytes < guard.prefix.size())
    return guard_is_gone(guard);
  PENSTOCK_ASSIGN(const std::uint64_t data, archive_->find_data(guard.key, entry));
  std::vector<std::byte> begin(guard.prefix.size());
  PENSTOCK_TRY(read_file_at(archive_->file(), data, begin));
  return check_guard(guard, begin);
}

result<> zip_writer::check(std::string_view key, const write_condition& condition) const {
  PENSTOCK_TRY(check_guard_of(condition));
  zip_entry present;
  version seen;
  const bool exists = archive_->find(key, present, seen);
  return check_condition(condition, exists ? &seen : nullptr);
}

// First into the space of an older directory, else at the end.
std::uint64_t zip_writer::find_place(std::uint64_t bytes) {
  for (zip_archive::extent& hole : archive_->holes_) {
    if (hole.end - hole.begin < bytes) continue;
    return std::exchange(hole.begin, hole.begin + bytes);
  }
  return std::exchange(file_end_, file_end_ + bytes);
}

result<version> zip_writer::put(std::string_view key, std::span<const part> parts, const write_condition& condition) {
  PENSTOCK_TRY(check(key, condition));
  durable_ = durable_ || condition.durable;
  synced_ = synced_ || durable_;
  if (key.size() > 0xffff) return error(errc::invalid_argument, "a zip entry's name has at most 65535 bytes");
  zip_entry entry;
  for (const part& each : parts) {
    if (!checked_add(entry.decoded_bytes, each.size(), entry.decoded_bytes))
      return error(errc::invalid_argument, "the object is too long");
    if (!each.empty()) entry.crc = libdeflate_crc32(entry.crc, each.data(), each.size());
  }
  entry.encoded_bytes = entry.decoded_bytes;
  entry.made_by = kMadeByUnix;
  entry.attributes = kOrdinaryFile;
  entry.dos_time = dos_time_now();
  const bool ascii = std::all_of(key.begin(), key.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  entry.flags = static_cast<std::uint16_t>(ascii ? 0 : zip::kUtf8Flag);
  const std::vector<std::byte> header = make_zip_local_header(key, entry);

  const std::uint64_t end_before = file_end_;
  entry.header_offset = find_place(header.size() + entry.encoded_bytes);
  entry.data_offset = entry.header_offset + header.size();
  entry.limit = entry.data_offset + entry.encoded_bytes;
  const part head(header);
  result<> written = write_file_at(archive_->file(), entry.header_offset, {&head, 1});
  if (written.ok()) written = write_file_at(archive_->file(), entry.data_offset, parts);
  if (!written.ok()) {
    file_end_ = end_before;  // if it was written into a gap, that gap stays unused
    return std::move(written).error();
  }
  const std::unique_lock lock(archive_->mutex_);
  zip_directory& directory = archive_->directory_;
  directory.data_end = std::max(directory.data_end, entry.limit);
  directory.entries.insert_or_assign(std::string(key), entry);
  return archive_->version_of_entry(entry);
}

result<> zip_writer::erase(std::string_view key, const write_condition& condition) {
  PENSTOCK_TRY(check_guard_of(condition));
  zip_entry present;
  version seen;
  if (!archive_->find(key, present, seen)) return {};
  durable_ = durable_ || condition.durable;
  synced_ = synced_ || durable_;
  PENSTOCK_TRY(check_condition(condition, &seen));
  const std::unique_lock lock(archive_->mutex_);
  archive_->directory_.entries.erase(archive_->directory_.entries.find(key));
  return {};
}

result<> zip_writer::commit() {
  zip_archive& to = *archive_;
  std::vector<std::byte> bytes = make_zip_directory(to.directory_, file_end_, to.comment_);
  // A directory must be at the end of its file. If the space between the entries and the present directory can hold the
  // new one, truncating the file after it does that; otherwise it is appended.
  const std::uint64_t gap_begin = to.directory_.data_end;
  bool cuts = to.end_ != 0 && file_end_ == to.end_ && gap_begin + bytes.size() <= to.directory_begin_;
  const std::uint64_t begin = cuts ? gap_begin : file_end_;
  if (cuts) bytes = make_zip_directory(to.directory_, begin, to.comment_);
  const part whole(bytes);
  PENSTOCK_TRY(write_file_at(to.file(), begin, {&whole, 1}));
  // The mark names the old directory until the new one is on the storage device. Truncation makes the mark invalid, so
  // the new directory is on the device before that.
  if (cuts) PENSTOCK_TRY(sync());
  const std::uint64_t end = begin + bytes.size();
  // Also if nothing is to be truncated: a failed put may have left bytes there.
  if (::ftruncate(to.file(), static_cast<::off_t>(end)) != 0) return write_failure(errno, "truncating the archive");
  if (cuts) started_ = false;  // the old directory is gone: after a failure the archive is the new one
  stamp_file(to.file());
  if (auto synced = sync(); !synced.ok()) {
    if (cuts) mark_.remove();
    return synced;
  }
  mark_.remove();
  if (durable_) PENSTOCK_TRY(mark_.sync_folder(true));
  struct ::stat status{};
  if (::fstat(to.file(), &status) != 0) return write_failure(errno, "looking up the archive");
  {
    const std::unique_lock lock(to.mutex_);
    if (cuts) {
      for (zip_archive::extent& hole : to.holes_) hole.end = std::max(hole.begin, std::min(hole.end, begin));
    } else if (to.end_ != 0) {
      to.holes_.push_back({to.directory_begin_, to.end_});
    }
    std::erase_if(to.holes_, [](const zip_archive::extent& hole) { return hole.begin == hole.end; });
    to.directory_begin_ = begin;
    to.end_ = end;
    to.seen_ = version_of(status);
  }
  file_end_ = end;
  started_ = false;
  return {};
}

}  // namespace penstock::inline v0
