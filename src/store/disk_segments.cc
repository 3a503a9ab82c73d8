#include "store/disk_segments.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <thread>
#include <unordered_set>
#include <utility>

#include "base/fast_sum.h"
#include "base/system_calls.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kPrefix = "segment-", kRanges = ".ranges", kRecords = ".records";
constexpr const char *kClaims = "claims", *kWriters = "writers";
constexpr std::uint64_t kRangesMagic = 0x31474E524B545350U, kRecordsMagic = 0x314345524B545350U;  // PSTKRNG1, PSTKREC1
constexpr std::uint64_t kSmallest = std::uint64_t{128} << 10, kLargest = std::uint64_t{1} << 30;
/// A byte of records counts as this many bytes of the limit: bounds the number of records, and with them the memory of
/// the processes that read them.
constexpr std::uint64_t kRecordWeight = 64;
constexpr std::uint64_t kMaxText = 1024;
constexpr std::uint64_t kMaxRecord = std::uint64_t{256} << 10;
constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;  // bytes of records that are read at once
constexpr std::uint64_t kRun = 4 * disk_extent::kBlock;   // unit of bytes with a checksum in the cache
constexpr auto kLockPatience = std::chrono::milliseconds(500);
constexpr auto kNoRoomPause = std::chrono::seconds(1);

struct file_head {
  std::uint64_t magic, id, capacity, sum;
};
struct record_head {
  std::uint32_t size, kind;
  std::uint64_t sum;
  std::uint64_t object[2];
  std::int64_t time_ns;
  std::uint64_t version[4];
  std::uint64_t object_size, offset, length, at;
  std::uint32_t text_size, flags;
};
static_assert(sizeof(file_head) == 32 && sizeof(record_head) == 112);
constexpr std::uint32_t kSeenIsLast = 1;

template <class T>
std::span<const std::byte> bytes_of(const T& value) noexcept {
  return {reinterpret_cast<const std::byte*>(&value), sizeof(T)};
}

/// A segment's size for the limit.
std::uint64_t charge_of(std::uint64_t ranges, std::uint64_t records) noexcept {
  return std::max(ranges + records, std::min(records, kLargest) * kRecordWeight);
}

std::uint64_t sum_of(const file_head& head) noexcept {
  return fast_sum(bytes_of(head).first(offsetof(file_head, sum)), head.magic);
}

std::uint64_t blocks_of(std::uint64_t length) noexcept {
  return length / disk_extent::kBlock + (length % disk_extent::kBlock != 0 ? 1 : 0);
}

// The identity of these bytes: bytes at another position, or of another object or version, have other sums.
std::uint64_t seed_of(std::uint64_t segment, const record_head& head) noexcept {
  const std::uint64_t words[] = {segment, head.object[0],  head.object[1],  head.offset,     head.length,
                                 head.at, head.version[0], head.version[1], head.version[2], head.version[3]};
  return fast_sum(std::as_bytes(std::span(words)), segment);
}

bool write_all(int file, std::span<const std::byte> bytes, std::uint64_t at) noexcept {
  while (!bytes.empty()) {
    const ::ssize_t put = ::pwrite(file, bytes.data(), bytes.size(), static_cast<::off_t>(at));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    at += static_cast<std::uint64_t>(put);
  }
  return true;
}

bool read_all(int file, std::span<std::byte> bytes, std::uint64_t at) noexcept {
  while (!bytes.empty()) {
    const ::ssize_t got = ::pread(file, bytes.data(), bytes.size(), static_cast<::off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    at += static_cast<std::uint64_t>(got);
  }
  return true;
}

std::optional<file_head> read_head(int file, std::uint64_t magic) noexcept {
  file_head head{};
  if (!read_all(file, {reinterpret_cast<std::byte*>(&head), sizeof(head)}, 0)) return std::nullopt;
  if (head.magic != magic || head.sum != sum_of(head) || head.capacity > kLargest) return std::nullopt;
  return head;
}

std::string name_of(std::uint64_t id) { return fmt::format("{}{:016x}", kPrefix, id); }

// The name of the segment that a file belongs to, and whether the file holds the segment's ranges. Returns nullopt for
// other files.
std::optional<std::pair<std::string, bool>> segment_in(std::string_view file) {
  for (const std::string_view suffix : {kRanges, kRecords}) {
    if (file.size() != kPrefix.size() + 16 + suffix.size() || !file.starts_with(kPrefix) || !file.ends_with(suffix))
      continue;
    const std::string_view digits = file.substr(kPrefix.size(), 16);
    if (digits.find_first_not_of("0123456789abcdef") == std::string_view::npos)
      return std::pair(std::string(file.substr(0, kPrefix.size() + 16)), suffix == kRanges);
  }
  return std::nullopt;
}

template <class Take>
bool list_folder(int folder, const Take& take) {
  descriptor again(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!again) return false;
  ::DIR* const listing = ::fdopendir(again.get());
  if (listing == nullptr) return false;
  again.release();
  while (const ::dirent* const each = ::readdir(listing)) take(std::string_view(each->d_name));
  ::closedir(listing);
  return true;
}

bool is_own_file(const struct ::stat& status) noexcept {
  return S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

std::int64_t steady_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Reads the records of a file in turn, from `at`. Returns the offset of the first one that is not (yet) complete and
// valid.
template <class Take>
std::uint64_t walk_records(int file, std::uint64_t id, std::uint64_t at, std::uint64_t end, const Take& take) {
  std::vector<std::byte> piece;
  while (at < end) {
    piece.resize(static_cast<std::size_t>(std::min(end - at, kPiece)));
    if (!read_all(file, piece, at)) return at;
    std::size_t used = 0;
    for (;;) {
      const std::span<std::byte> rest = std::span(piece).subspan(used);
      record_head head{};
      if (rest.size() < sizeof(head)) break;
      std::memcpy(&head, rest.data(), sizeof(head));
      if (head.size < sizeof(head) || head.size > kMaxRecord || head.size % 8 != 0) return at;
      if (rest.size() < head.size) break;
      const std::uint64_t sum = std::exchange(head.sum, 0);
      std::memcpy(rest.data(), &head, sizeof(head));
      const std::span<const std::byte> record = rest.first(head.size);
      if (sum != fast_sum(record, id ^ at)) return at;
      if (!take(head, record.subspan(sizeof(head)), at)) return at;
      used += head.size;
      at += head.size;
    }
    if (used == 0) return at;  // truncated, or longer than any record
  }
  return at;
}

std::uint64_t padded(std::uint64_t size) noexcept { return (size + 7) / 8 * 8; }

bool is_sound(const record_head& head) noexcept {
  if (head.text_size > kMaxText || head.kind < 1 || head.kind > 4) return false;
  const std::uint64_t sums = head.kind == 1 ? blocks_of(head.length) : 0;
  if (head.length > kLargest || head.at > kLargest || head.offset > byte_range::kAll - head.length) return false;
  return head.size == sizeof(head) + padded(head.text_size) + sums * 8;
}

}  // namespace

// The segment to which this process appends. It is locked, until the descriptor is closed.
struct disk_segments::writer {
  explicit writer(disk_segments& in) noexcept : of(in) {}
  writer(const writer&) = delete;
  writer& operator=(const writer&) = delete;
  // Before the lock of the segment ends: others may append to it then.
  ~writer() {
    if (segment == nullptr) return;
    const std::lock_guard lock(of.scanning_);
    segment->own_end = records_end;
    segment->skip_own();
  }

  disk_segments& of;
  std::shared_ptr<disk_segment> segment;
  descriptor ranges, records;
  std::uint64_t ranges_end = 0, records_end = 0;
  std::uint64_t records_room = 0;  ///< the end of the records, including those that are being written
};

struct disk_segments::found {
  std::string name;
  bool has_records = false, is_active = false;
  std::uint64_t size = 0, records = 0, charge = 0;
  std::int64_t used_ns = 0;
};

disk_segments::disk_segments(disk_segments_options options)
    : options_(std::move(options)), capacity_(std::clamp(options_.limit_bytes / 64, kSmallest, kLargest)) {}

disk_segments::~disk_segments() = default;

result<std::unique_ptr<disk_segments>> disk_segments::open(disk_segments_options options) {
  if (options.limit_bytes < disk_segments_options::kLeastLimit)
    return error(errc::invalid_argument,
                 fmt::format("the limit of a disk cache must be at least 1 MiB, got {} bytes", options.limit_bytes));
  std::unique_ptr<disk_segments> out(new disk_segments(std::move(options)));
  const std::string& path = out->options_.folder;
  const auto failed = [&](int code) {
    return write_failure(code, "opening the folder").note(fmt::format("the disk cache '{}'", path));
  };
  if (path.empty()) return error(errc::invalid_argument, "the folder of a disk cache needs a name");
  std::error_code code;
  if (const std::filesystem::path above = std::filesystem::path(path).parent_path(); !above.empty())
    std::filesystem::create_directories(above, code);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failed(errno);
  out->folder_ = descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!out->folder_) return failed(errno);
  out->claims_ = out->open_file(kClaims, O_RDWR | O_CREAT);
  out->writers_ = out->open_file(kWriters, O_RDWR | O_CREAT);
  out->is_off_ = !out->claims_ || !out->writers_;  // read-only: the existing content is used
  return out;
}

descriptor disk_segments::open_file(const std::string& name, int flags) const {
  descriptor out(::openat(folder_.get(), name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
  struct ::stat status{};
  if (out && (::fstat(out.get(), &status) != 0 || !is_own_file(status))) return {};
  return out;
}

std::shared_ptr<disk_segment> disk_segments::adopt(const std::string& name) {
  auto out = std::make_shared<disk_segment>();
  out->data = open_file(name + std::string(kRanges), O_RDONLY);
  if (!out->data) return nullptr;
  const auto head = read_head(out->data.get(), kRangesMagic);
  if (!head || name_of(head->id) != name) return nullptr;
  out->name = name;
  out->id = head->id;
  return out;
}

void disk_segments::parse(disk_segment& from, const record_sink& sink) {
  const descriptor records = open_file(from.name + std::string(kRecords), O_RDONLY);
  struct ::stat status{};
  if (!records || ::fstat(records.get(), &status) != 0) return;
  if (from.parsed == 0) {
    const auto head = read_head(records.get(), kRecordsMagic);
    if (!head || head->id != from.id) return;
    from.parsed = sizeof(file_head);
  }
  const std::uint64_t end = std::min({static_cast<std::uint64_t>(status.st_size), kLargest, from.own_from});
  const std::shared_ptr<disk_segment> shared = known_.at(from.name);
  from.parsed = walk_records(records.get(), from.id, from.parsed, end,
                             [&](const record_head& head, std::span<const std::byte> rest, std::uint64_t) {
                               if (!is_sound(head)) return false;
                               disk_record out;
                               out.kind = static_cast<disk_record_kind>(head.kind);
                               out.object = {{head.object[0], head.object[1]}};
                               out.time_ns = head.time_ns;
                               std::copy(std::begin(head.version), std::end(head.version), out.seen.word.begin());
                               out.seen.text.assign(reinterpret_cast<const char*>(rest.data()), head.text_size);
                               out.seen_is_last = (head.flags & kSeenIsLast) != 0;
                               out.object_size = head.object_size;
                               out.extent.where = shared;
                               out.extent.at = head.at;
                               out.extent.offset = head.offset;
                               out.extent.length = head.length;
                               out.extent.seed = seed_of(from.id, head);
                               const std::span<const std::byte> sums =
                                   rest.subspan(static_cast<std::size_t>(padded(head.text_size)));
                               out.extent.sums.resize(sums.size() / 8);
                               if (!sums.empty()) std::memcpy(out.extent.sums.data(), sums.data(), sums.size());
                               sink(std::move(out));
                               return true;
                             });
}

bool disk_segments::scan(const record_sink& sink) {
  const std::lock_guard lock(scanning_);
  std::unordered_set<std::string> there;
  const bool listed = list_folder(folder_.get(), [&](std::string_view file) {
    if (auto name = segment_in(file); name && !name->second) there.insert(std::move(name->first));
  });
  if (!listed) return false;
  bool has_gone = false;
  for (auto each = known_.begin(); each != known_.end();) {
    if (there.contains(each->first)) {
      ++each;
      continue;
    }
    each->second->is_gone = true;
    has_gone = true;
    each = known_.erase(each);
  }
  for (const std::string& name : there) {
    auto at = known_.find(name);
    if (at == known_.end()) {
      std::shared_ptr<disk_segment> made = adopt(name);
      if (made == nullptr) continue;
      at = known_.emplace(name, std::move(made)).first;
    }
    disk_segment& one = *at->second;
    struct ::stat status{};
    const std::string records = name + std::string(kRecords);
    if (::fstatat(folder_.get(), records.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (std::min(size, one.own_from) > one.parsed) parse(one, sink);
    if (one.skip_own() && size > one.parsed) parse(one, sink);
  }
  return has_gone;
}

void disk_segments::touch(disk_segment& what) noexcept {
  const std::int64_t now = steady_ns();
  std::int64_t last = what.touched_ns.load(std::memory_order_relaxed);
  if (last != 0 && now - last < options_.touch_interval.count()) return;
  if (!what.touched_ns.compare_exchange_strong(last, now)) return;
  (void)::futimens(what.data.get(), nullptr);
}

bool disk_segments::read(const disk_extent& from, std::uint64_t begin, std::span<std::byte> to) {
  if (from.where == nullptr || from.where->is_gone.load(std::memory_order_relaxed)) return false;
  if (read_checked(from, begin, to)) {
    touch(*from.where);
    return true;
  }
  struct ::stat status{};
  if (::fstat(from.where->data.get(), &status) == 0 && status.st_nlink == 0) from.where->is_gone = true;
  return false;
}

bool disk_segments::read_checked(const disk_extent& from, std::uint64_t begin, std::span<std::byte> to) {
  if (begin > from.length || to.size() > from.length - begin || from.sums.size() != blocks_of(from.length))
    return false;
  constexpr std::uint64_t kBlock = disk_extent::kBlock;
  const int file = from.where->data.get();
  const auto is_right = [&](std::uint64_t block, std::span<const std::byte> bytes) {
    return fast_sum(bytes, from.seed + block) == from.sums[static_cast<std::size_t>(block)];
  };
  const auto length_of = [&](std::uint64_t block) { return std::min(kBlock, from.length - block * kBlock); };
  std::vector<std::byte> edge;
  while (!to.empty()) {
    const std::uint64_t block = begin / kBlock, inside = begin % kBlock;
    if (inside != 0 || to.size() < length_of(block)) {  // a part of a block: the whole block must be valid
      edge.resize(static_cast<std::size_t>(length_of(block)));
      if (!read_all(file, edge, from.at + block * kBlock) || !is_right(block, edge)) return false;
      const std::size_t some = std::min(to.size(), edge.size() - static_cast<std::size_t>(inside));
      std::memcpy(to.data(), edge.data() + inside, some);
      begin += some;
      to = to.subspan(some);
      continue;
    }
    std::uint64_t run = 0;
    for (std::uint64_t next = block; run < kRun && run < to.size(); ++next) {
      if (to.size() - run < length_of(next)) break;
      run += length_of(next);
    }
    const std::span<std::byte> stretch = to.first(static_cast<std::size_t>(run));
    if (!read_all(file, stretch, from.at + begin)) return false;
    for (std::uint64_t done = 0; done < run; done += kBlock) {
      const auto bytes =
          stretch.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(std::min(kBlock, run - done)));
      if (!is_right(block + done / kBlock, bytes)) return false;
    }
    begin += run;
    to = to.subspan(static_cast<std::size_t>(run));
  }
  return true;
}

std::vector<disk_segments::found> disk_segments::list_segments() {
  std::unordered_map<std::string, found> all;
  list_folder(folder_.get(), [&](std::string_view file) {
    const auto name = segment_in(file);
    struct ::stat status{};
    if (!name || ::fstatat(folder_.get(), std::string(file).c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (!is_own_file(status)) return;
    found& one = all[name->first];
    one.size += static_cast<std::uint64_t>(status.st_size);
    const ::timespec& used = modified_at(status);
    one.used_ns = std::max(one.used_ns, std::int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec);
    if (!name->second) one.has_records = true;
    if (!name->second) one.records = static_cast<std::uint64_t>(status.st_size);
  });
  std::vector<found> out;
  for (auto& [name, one] : all) {
    one.name = name;
    const descriptor ranges = open_file(name + std::string(kRanges), O_RDONLY);
    const auto head = ranges ? read_head(ranges.get(), kRangesMagic) : std::nullopt;
    if (!head || name_of(head->id) != name) continue;  // not a file of the cache, whatever its name is
    one.is_active = ::flock(ranges.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    one.charge = charge_of(one.size - one.records, one.records);
    if (one.is_active) one.charge = std::max(one.charge, head->capacity);
    out.push_back(std::move(one));
  }
  std::sort(out.begin(), out.end(), [](const found& a, const found& b) { return a.used_ns < b.used_ns; });
  return out;
}

std::uint64_t disk_segments::size_bytes() {
  std::uint64_t out = 0;
  for (const found& each : list_segments()) out += each.size;
  return out;
}

bool disk_segments::remove(const found& which) {
  const descriptor ranges = open_file(which.name + std::string(kRanges), O_RDWR);
  // Another process may have begun to append to it since it was listed.
  if (!ranges || ::flock(ranges.get(), LOCK_EX | LOCK_NB) != 0) return false;
  (void)::unlinkat(folder_.get(), (which.name + std::string(kRecords)).c_str(), 0);
  if (::unlinkat(folder_.get(), (which.name + std::string(kRanges)).c_str(), 0) != 0) return false;
  // Other processes may have it open: truncating it frees the space now, and their reads end early.
  (void)!::ftruncate(ranges.get(), 0);
  return true;
}

// Removes the least recently used segments until one more has room.
bool disk_segments::make_room(std::vector<found>& all) {
  std::uint64_t total = 0;
  for (const found& each : all) total += each.charge;
  for (found& each : all) {
    if (total <= options_.limit_bytes && options_.limit_bytes - total >= capacity_) return true;
    if (each.is_active || !remove(each)) continue;
    total -= each.charge;
    each.charge = byte_range::kAll;  // cannot be taken over
  }
  return total <= options_.limit_bytes && options_.limit_bytes - total >= capacity_;
}

std::unique_ptr<disk_segments::writer> disk_segments::try_old_writer(const found& each) {
  if (!each.has_records || each.is_active || each.charge > capacity_ / 2) return nullptr;
  auto out = std::make_unique<writer>(*this);
  out->ranges = open_file(each.name + std::string(kRanges), O_RDWR);
  out->records = open_file(each.name + std::string(kRecords), O_RDWR);
  if (!out->ranges || !out->records || ::flock(out->ranges.get(), LOCK_EX | LOCK_NB) != 0) return nullptr;
  const auto head = read_head(out->ranges.get(), kRangesMagic);
  const auto twin = read_head(out->records.get(), kRecordsMagic);
  struct ::stat ranges{}, records{};
  if (!head || !twin || head->id != twin->id || head->capacity != capacity_ || name_of(head->id) != each.name ||
      ::fstat(out->ranges.get(), &ranges) != 0 || ::fstat(out->records.get(), &records) != 0)
    return nullptr;
  // Its last writer may have ended within a record. Its ranges do not change: other processes read them.
  const auto end = static_cast<std::uint64_t>(records.st_size);
  out->records_end =
      walk_records(out->records.get(), head->id, sizeof(file_head), end,
                   [](const record_head& one, std::span<const std::byte>, std::uint64_t) { return is_sound(one); });
  out->ranges_end = static_cast<std::uint64_t>(ranges.st_size);
  if (out->records_end != end && ::ftruncate(out->records.get(), static_cast<::off_t>(out->records_end)) != 0)
    return nullptr;
  out->records_room = out->records_end;
  const std::lock_guard lock(scanning_);
  auto at = known_.find(each.name);
  if (at == known_.end()) {
    std::shared_ptr<disk_segment> made = adopt(each.name);
    if (made == nullptr) return nullptr;
    at = known_.emplace(each.name, std::move(made)).first;
  }
  if (at->second->own_from != disk_segment::kNone) return nullptr;  // own records that `scan` has not reached
  out->segment = at->second;
  out->segment->own_from = out->records_end;
  return out;
}

std::unique_ptr<disk_segments::writer> disk_segments::new_writer() {
  std::random_device random;
  file_head head{kRangesMagic, (std::uint64_t{random()} << 32) | random(), capacity_, 0};
  head.sum = sum_of(head);
  const std::string name = name_of(head.id);
  auto out = std::make_unique<writer>(*this);
  out->ranges = open_file(name + std::string(kRanges), O_RDWR | O_CREAT | O_EXCL);
  if (!out->ranges || ::flock(out->ranges.get(), LOCK_EX | LOCK_NB) != 0 ||
      !write_all(out->ranges.get(), bytes_of(head), 0))
    return nullptr;
  out->records = open_file(name + std::string(kRecords), O_RDWR | O_CREAT | O_EXCL);
  head.magic = kRecordsMagic;
  head.sum = sum_of(head);
  if (!out->records || !write_all(out->records.get(), bytes_of(head), 0)) return nullptr;
  out->ranges_end = out->records_end = out->records_room = sizeof(file_head);
  const std::lock_guard lock(scanning_);
  out->segment = adopt(name);
  if (out->segment == nullptr) return nullptr;
  out->segment->own_from = out->segment->parsed = sizeof(file_head);
  known_.insert_or_assign(name, out->segment);
  return out;
}

// Called with `writing_` held.
bool disk_segments::open_writer() {
  writer_.reset();  // allows the removal of its segment
  const auto begin = std::chrono::steady_clock::now();
  if (begin < no_room_until_) return false;
  while (::flock(writers_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;  // no locks here: checksums detect conflicts of two writers
    if (std::chrono::steady_clock::now() - begin > kLockPatience) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::vector<found> all = list_segments();
  std::unique_ptr<writer> made;
  if (!make_room(all)) {
    no_room_until_ = std::chrono::steady_clock::now() + kNoRoomPause;
  } else {
    for (auto each = all.rbegin(); each != all.rend() && made == nullptr; ++each) made = try_old_writer(*each);
    if (made == nullptr) made = new_writer();
    if (made == nullptr) is_off_ = true;
  }
  (void)::flock(writers_.get(), LOCK_UN);
  writer_ = std::move(made);
  return writer_ != nullptr;
}

bool disk_segments::append(disk_record& record, std::span<const std::byte> bytes) {
  const std::size_t text = record.seen.text.size();
  if (is_off_.load(std::memory_order_relaxed) || text > kMaxText || bytes.size() > longest()) return false;
  record_head head{};
  const std::uint64_t blocks = blocks_of(bytes.size());
  head.size = static_cast<std::uint32_t>(sizeof(head) + padded(text) + blocks * 8);
  head.kind = static_cast<std::uint32_t>(record.kind);
  head.object[0] = record.object.word[0];
  head.object[1] = record.object.word[1];
  head.time_ns = record.time_ns;
  std::copy(record.seen.word.begin(), record.seen.word.end(), std::begin(head.version));
  head.object_size = record.object_size;
  head.offset = record.extent.offset;
  head.length = bytes.size();
  head.text_size = static_cast<std::uint32_t>(text);
  head.flags = record.seen_is_last ? kSeenIsLast : 0;

  std::shared_ptr<writer> to;
  {
    const std::lock_guard lock(writing_);
    const auto fits = [&](const writer& into) {
      return charge_of(into.ranges_end + bytes.size(), into.records_room + head.size) <= capacity_;
    };
    if ((writer_ == nullptr || !fits(*writer_)) && !open_writer()) return false;
    to = writer_;
    if (!fits(*to)) return false;
    to->records_room += head.size;
    head.at = to->ranges_end;
    to->ranges_end += bytes.size();
  }
  disk_extent& extent = record.extent;
  extent.where = to->segment;
  extent.at = head.at;
  extent.length = head.length;
  extent.seed = seed_of(to->segment->id, head);
  extent.sums.clear();
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const auto block = bytes.subspan(static_cast<std::size_t>(i * disk_extent::kBlock));
    extent.sums.push_back(
        fast_sum(block.first(static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), disk_extent::kBlock))),
                 extent.seed + i));
  }
  std::vector<std::byte> out(std::max<std::size_t>(head.size, sizeof(head)));
  if (text != 0) std::memcpy(out.data() + sizeof(head), record.seen.text.data(), text);
  if (blocks != 0) std::memcpy(out.data() + sizeof(head) + padded(text), extent.sums.data(), blocks * 8);
  if (!write_all(to->ranges.get(), bytes, head.at)) {
    is_off_ = true;
    return false;
  }
  const std::lock_guard lock(writing_);
  if (is_off_) return false;
  std::memcpy(out.data(), &head, sizeof(head));
  head.sum = fast_sum(out, to->segment->id ^ to->records_end);
  std::memcpy(out.data(), &head, sizeof(head));
  if (!write_all(to->records.get(), out, to->records_end)) {
    is_off_ = true;
    return false;
  }
  to->records_end += out.size();
  return true;
}

namespace {

bool lock_byte(int file, std::uint64_t what, short how) noexcept {
#ifdef F_OFD_SETLK
  struct ::flock lock{};
  lock.l_type = how;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<::off_t>(what >> 2);
  lock.l_len = 1;
  // Without locks, each process uses its own files.
  return ::fcntl(file, F_OFD_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES);
#else
  (void)file, (void)what, (void)how;
  return true;
#endif
}

}  // namespace

bool disk_segments::try_claim(std::uint64_t what) noexcept { return lock_byte(claims_.get(), what, F_WRLCK); }
void disk_segments::release(std::uint64_t what) noexcept { lock_byte(claims_.get(), what, F_UNLCK); }

}  // namespace penstock::inline v0
