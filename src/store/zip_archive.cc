#include "store/zip_archive.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "store/file_parts.h"
#include "store/stray_files.h"

namespace penstock::inline v0 {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::uint64_t mix(std::uint64_t x) noexcept {  // splitmix64
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

std::uint64_t hash_of(const version& seen) noexcept {
  std::uint64_t out = 0;
  for (const std::uint64_t each : seen.word) out = mix(out ^ each);
  return out;
}

}  // namespace

result<std::shared_ptr<zip_archive>> zip_archive::open(const std::string& path) {
  auto out = std::make_shared<zip_archive>();
  out->file_ = descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!out->file_) {
    if (errno == ENOENT || errno == ENOTDIR) return std::shared_ptr<zip_archive>();
    return read_failure(errno, "opening the archive");
  }
  PENSTOCK_TRY(out->load(path));
  return out;
}

result<> zip_archive::load(const std::string& path) {
  constexpr int kMostTimes = 8;
  const zip_mark mark(path);
  for (int i = 0; i < kMostTimes; ++i) {
    struct ::stat before{}, after{};
    if (::fstat(file_.get(), &before) != 0) return read_failure(errno, "looking up the archive");
    if (!S_ISREG(before.st_mode)) return not_a_file(before);
    if (may_be_indistinct(before)) {  // another version of this tick would look the same
      wait_until_distinct(before);
      if (::fstat(file_.get(), &before) != 0) return read_failure(errno, "looking up the archive");
    }
    const auto size = static_cast<std::uint64_t>(before.st_size);
    std::uint64_t marked = 0, marked_after = 0;
    const bool has_mark = mark.read(before, marked) && marked <= size;
    result<> loaded = load_until(has_mark ? marked : size);
    bool by_mark = has_mark;
    if (has_mark && !loaded.ok()) {  // the mark of a writer that was killed after it had finished
      loaded = load_until(size);
      by_mark = false;
    }
    if (::fstat(file_.get(), &after) != 0) return read_failure(errno, "looking up the archive");
    // The bytes before a mark do not change while the mark exists.
    const bool same = version_of(after) == version_of(before) ||
                      (by_mark && mark.read(after, marked_after) && marked_after == marked);
    if (!same) continue;
    seen_ = version_of(before);
    generation_ = hash_of(seen_);
    return loaded;
  }
  return error(errc::io_error, "the zip archive kept changing while its directory was read");
}

result<> zip_archive::load_until(std::uint64_t end) {
  directory_ = {};
  comment_.clear();
  directory_begin_ = end_ = 0;
  if (end == 0) return {};
  const zip_reader reader = [this](std::uint64_t offset, std::span<std::byte> room) {
    return read_file_at(file_.get(), offset, room);
  };
  PENSTOCK_ASSIGN(zip_end found, find_zip_end(reader, end));
  std::vector<std::byte> bytes(static_cast<std::size_t>(found.directory_bytes));
  PENSTOCK_TRY(reader(found.directory_offset, bytes));
  PENSTOCK_ASSIGN(directory_, parse_zip_directory(bytes, found));
  comment_ = std::move(found.comment);
  directory_begin_ = found.directory_offset;
  end_ = end;
  return {};
}

version zip_archive::seen() const {
  const std::shared_lock lock(mutex_);
  return seen_;
}

bool zip_archive::is_nothing() const {
  const std::shared_lock lock(mutex_);
  return end_ == 0;
}

version zip_archive::version_of_entry(const zip_entry& entry) const noexcept {
  version out;
  out.word[0] = generation_;
  out.word[1] = entry.header_offset + 1;  // never 0: this version is known
  out.word[2] = entry.encoded_bytes ^ mix(entry.decoded_bytes);
  out.word[3] = static_cast<std::uint64_t>(entry.crc) << 32 | entry.dos_time;
  return out;
}

bool zip_archive::find(std::string_view key, zip_entry& out, version& seen) const {
  const std::shared_lock lock(mutex_);
  const auto at = directory_.entries.find(key);
  if (at == directory_.entries.end()) return false;
  out = at->second;
  seen = version_of_entry(out);
  return true;
}

result<std::uint64_t> zip_archive::find_data(std::string_view key, const zip_entry& entry) {
  if (entry.data_offset != 0) return entry.data_offset;
  std::byte header[kZipLocalBytes];
  PENSTOCK_TRY(read_file_at(file_.get(), entry.header_offset, header));
  PENSTOCK_ASSIGN(const std::uint64_t data, find_zip_data(header, entry));
  const std::unique_lock lock(mutex_);
  const auto at = directory_.entries.find(key);
  if (at != directory_.entries.end() && at->second.header_offset == entry.header_offset) at->second.data_offset = data;
  return data;
}

zip_mark::zip_mark(const std::string& archive_path)
    : path_(fmt::format("{}/{}zip-{}", folder_of(archive_path), kTemporaryPrefix,
                        std::string_view(archive_path).substr(archive_path.rfind('/') + 1))) {}

bool zip_mark::read(const struct ::stat& archive, std::uint64_t& end) const {
  const descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return false;
  char text[128];
  const ::ssize_t got = ::pread(file.get(), text, sizeof(text), 0);
  if (got <= 0 || text[got - 1] != '\n') return false;
  std::uint64_t numbers[3] = {};
  const char* at = text;
  for (std::uint64_t& number : numbers) {
    const auto [next, failed] = std::from_chars(at, text + got, number);
    if (failed != std::errc() || next == text + got) return false;
    at = next + 1;
  }
  if (numbers[1] != static_cast<std::uint64_t>(archive.st_ino)) return false;
  end = numbers[2];
  return true;
}

result<> zip_mark::write(const struct ::stat& archive, std::uint64_t end, bool synced) const {
  // A different name, so that the rename replaces an existing mark atomically.
  const std::string beside = path_ + ".new";
  const auto make = [&]() -> result<> {
    const descriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file) return write_failure(errno, "creating a file next to the archive");
    const std::string text = fmt::format("{} {} {}\n", archive.st_dev, archive.st_ino, end);
    const part whole = std::as_bytes(std::span(text));
    PENSTOCK_TRY(write_file_at(file.get(), 0, {&whole, 1}));
    if (synced) PENSTOCK_TRY(sync_file_bytes(file.get()));
    if (::rename(beside.c_str(), path_.c_str()) != 0)
      return write_failure(errno, "renaming a file next to the archive");
    return {};
  };
  if (auto made = make(); !made.ok()) {
    ::unlink(beside.c_str());
    return made;
  }
  return synced ? sync_folder(false) : result<>();
}

result<> zip_mark::sync_folder(bool and_above) const {
  const std::string path = folder_of(path_);
  const descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return write_failure(errno, "opening the folder");
  return and_above ? sync_folder_and_above(folder.get()) : sync_file(folder.get());
}

void zip_mark::remove() const noexcept { ::unlink(path_.c_str()); }

}  // namespace penstock::inline v0
