#include "store/zip_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include <penstock/extend/store.h>
#include "base/buffer.h"
#include "store/file_parts.h"
#include "store/file_status.h"
#include "store/inflate_head.h"
#include "store/zip_archive.h"
#include "store/zip_decode.h"
#include "store/zip_writer.h"

namespace penstock::inline v0 {

/// A compressed entry from which ranges were read.
struct zip_store::decoded_entry {
  decoded_entry(const version& of, ledger* accounts) : seen(of), memory(accounts, memory_use::encoded) {}
  const version seen;
  std::mutex decoding;  // for the other members, until it has been decoded
  bool is_decoded = false;
  buffer memory;
  std::span<std::byte> bytes;
  std::atomic<std::uint64_t> served{0};  // bytes of its ranges so far: when they are all, it has been read to the end
};

/// The archive that a process has open.
struct zip_store::opened {
  std::mutex mutex;  // protects the pointers
  std::shared_ptr<zip_archive> archive;
  bool writing = false;
  std::shared_ptr<decoded_entry> kept;

  std::mutex write_mutex;  // held by the writer, and taken first
  std::unique_ptr<zip_writer> writer;
};

namespace {

/// The decoded bytes of an entry whose method has no size bound are kept for its ranges up to this size; no shard is
/// longer in reasonable archives.
constexpr std::uint64_t kMaxKeptBytes = std::uint64_t{1} << 30;
/// A beginning up to this length is a header, for which an entry need not be decoded completely. (Later bytes are
/// decoded, and then checked.)
constexpr std::uint64_t kHeadBytes = std::uint64_t{4} << 10;

// Fills `out` with the entry's first bytes, if that is possible without the others.
result<bool> decode_head(const zip_archive& from, std::uint64_t data, const zip_entry& entry,
                         std::span<std::byte> out) {
  if (entry.method != zip_method::deflated) return false;
  // No reasonable encoder uses twice the space.
  std::vector<std::byte> encoded(
      static_cast<std::size_t>(std::min<std::uint64_t>(entry.encoded_bytes, 2 * out.size() + 4096)));
  PENSTOCK_TRY(read_file_at(from.file(), data, encoded));
  return inflate_head(encoded, out);
}

// Fills `out`, which has the decoded size, from the entry's encoded bytes.
result<> decode(const zip_archive& from, std::uint64_t data, const zip_entry& entry, std::span<std::byte> out,
                ledger* accounts) {
  if (entry.method == zip_method::stored) {
    PENSTOCK_TRY(read_file_at(from.file(), data, out));
    return check_crc(out, entry);
  }
  buffer room(accounts, memory_use::encoded);
  PENSTOCK_ASSIGN(const std::span<std::byte> encoded, room.reserve(entry.encoded_bytes));  // no more than the file has
  PENSTOCK_TRY(read_file_at(from.file(), data, encoded));
  return decode_entry(entry, encoded, out);
}

}  // namespace

zip_store::zip_store(std::string path, zip_store_options options)
    : path_(std::move(path)), options_(std::move(options)), opened_([] { return std::make_unique<opened>(); }) {}

zip_store::~zip_store() { (void)flush(); }

result<> zip_store::check_writable(std::string_view) const {
  // While an archive is written, a small file is next to it.
  const std::size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, std::max<std::size_t>(slash, 1));
  if (::access(path_.c_str(), W_OK) != 0 && errno != ENOENT)
    return write_failure(errno, fmt::format("writing '{}'", path_));
  if (::access(folder.c_str(), W_OK | X_OK) != 0 && errno != ENOENT)
    return write_failure(errno, fmt::format("writing in '{}'", folder));
  return {};
}

store_traits zip_store::traits() const {
  store_traits traits;
  traits.max_gap_bytes = std::uint64_t{4} << 10;
  traits.max_length_bytes = std::uint64_t{256} << 10;
  traits.versions = true;
  traits.sizes = true;
  traits.blocking = true;
  traits.inline_completion = true;
  traits.lends_bytes = false;
  traits.writable = true;
  traits.guards = true;
  return traits;
}

// The archive that the path names now; null if the file does not exist.
result<std::shared_ptr<zip_archive>> zip_store::current() const {
  opened& state = opened_.get();
  std::shared_ptr<zip_archive> known;
  {
    const std::lock_guard lock(state.mutex);
    known = state.archive;
    if (state.writing) return known;  // the file belongs to this process
  }
  struct ::stat status{};
  if (::stat(path_.c_str(), &status) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return read_failure(errno, "looking up the archive");
    if (!known) return known;
    return error(errc::io_error, fmt::format("the archive was removed: '{}'", path_));
  }
  if (known && known->seen() == version_of(status)) return known;
  auto fresh = zip_archive::open(path_);
  const bool nothing = fresh.ok() ? !*fresh || (*fresh)->is_nothing() : fresh.error().code() == errc::not_found;
  if (nothing && known && !known->is_nothing())  // its objects are lost, not absent
    return error(errc::io_error, fmt::format("the archive was removed: '{}'", path_));
  if (!fresh.ok()) return std::move(fresh).error();
  const std::lock_guard lock(state.mutex);
  if (!state.writing) state.archive = *fresh;
  return state.archive;
}

// Whether the path still names the archive as it was opened.
bool zip_store::still(const zip_archive& archive) const {
  opened& state = opened_.get();
  {
    const std::lock_guard lock(state.mutex);
    if (state.writing) return true;
  }
  struct ::stat status{};
  return ::stat(path_.c_str(), &status) == 0 && version_of(status) == archive.seen();
}

void zip_store::read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const {
  auto archive = current();
  for (const byte_read& one : reads) {
    if (stop.stop_requested()) {
      sink.complete(one.tag, error(errc::cancelled, "the read was stopped"));
    } else if (auto good = check_key(one.key); !good.ok()) {
      sink.complete(one.tag, std::move(good).error());
    } else if (!archive.ok()) {
      sink.complete(one.tag, archive.error().clone());
    } else if (*archive == nullptr) {
      sink.complete(one.tag, error(errc::not_found, "no such object: the archive does not exist"));
    } else {
      auto done = read_one(**archive, one);
      if (!done.ok() && done.error().code() == errc::corrupt_data && !still(**archive)) {
        // The file was rewritten in place during the read: the bytes may be of several versions.
        done = version_has_changed();
      }
      sink.complete(one.tag, std::move(done));
    }
  }
}

result<read_done> zip_store::read_one(zip_archive& from, const byte_read& wanted) const {
  zip_entry entry;
  read_done done;
  if (!from.find(wanted.key, entry, done.seen)) return error(errc::not_found, "no such object");
  done.object_size = entry.decoded_bytes;
  if (!is_expected(wanted, done.seen)) return version_has_changed();
  PENSTOCK_TRY(check_method(entry));
  PENSTOCK_ASSIGN(const byte_extent extent, find_extent(wanted, entry.decoded_bytes));
  if (extent.length == 0 && !wanted.range.whole()) return done;
  PENSTOCK_ASSIGN(const std::uint64_t data, from.find_data(wanted.key, entry));
  const bool whole = extent.length == entry.decoded_bytes;
  if (!whole && entry.method != zip_method::stored) {
    PENSTOCK_ASSIGN(const std::span<std::byte> room, find_room(wanted, extent.length));
    done.bytes = room;
    if (extent.offset == 0 && extent.length <= kHeadBytes) {
      PENSTOCK_TRY(check_growth(entry));
      PENSTOCK_ASSIGN(const bool made, decode_head(from, data, entry, room));
      if (made) return done;
    }
    PENSTOCK_ASSIGN(const auto decoded, decode_kept(from, wanted, done.seen));
    std::memcpy(room.data(), decoded->bytes.data() + extent.offset, room.size());
    // An entry that was read completely, except a header, is unlikely to be read again soon.
    const std::uint64_t served = decoded->served.fetch_add(room.size(), std::memory_order_relaxed) + room.size();
    if (served + kHeadBytes >= decoded->bytes.size()) let_go(*decoded);
    return done;
  }
  PENSTOCK_ASSIGN(const std::span<std::byte> room, find_room(wanted, extent.length));
  if (whole) {
    PENSTOCK_TRY(decode(from, data, entry, room, accounts()));
  } else {
    PENSTOCK_TRY(read_file_at(from.file(), data + extent.offset, room));
  }
  done.bytes = room;
  return done;
}

// All bytes of a compressed entry, from the cached one or decoded now.
result<std::shared_ptr<zip_store::decoded_entry>> zip_store::decode_kept(zip_archive& from, const byte_read& wanted,
                                                                         const version& seen) const {
  std::shared_ptr<decoded_entry> mine;
  {
    opened& state = opened_.get();
    const std::lock_guard lock(state.mutex);
    if (!state.kept || !(state.kept->seen == seen)) state.kept = std::make_shared<decoded_entry>(seen, accounts());
    mine = state.kept;
  }
  // Requests for other parts wait for the thread that decodes.
  const std::lock_guard lock(mine->decoding);
  if (mine->is_decoded) return mine;
  if (auto made = decode_all(from, wanted, *mine); !made.ok()) {
    let_go(*mine);
    return std::move(made).error();
  }
  mine->is_decoded = true;
  return mine;
}

result<> zip_store::decode_all(zip_archive& from, const byte_read& wanted, decoded_entry& into) const {
  zip_entry entry;
  version now;
  if (!from.find(wanted.key, entry, now) || !(now == into.seen)) return version_has_changed();
  PENSTOCK_TRY(check_growth(entry));
  const auto as_a_whole = [&] {
    return fmt::format("a part of a compressed zip entry of {} bytes, which is decoded as a whole",
                       entry.decoded_bytes);
  };
  if (entry.method != zip_method::deflated && entry.decoded_bytes > kMaxKeptBytes)
    return error(errc::resource_exhausted, as_a_whole());
  PENSTOCK_ASSIGN(const std::uint64_t data, from.find_data(wanted.key, entry));
  auto room = into.memory.reserve(entry.decoded_bytes);
  if (!room.ok()) return std::move(room).error().note(as_a_whole());
  into.bytes = *room;
  auto decoded = decode(from, data, entry, into.bytes, accounts());
  if (!decoded.ok()) into.memory.free();
  return decoded;
}

// Releases its memory with its last reader.
void zip_store::let_go(const decoded_entry& entry) const {
  opened& state = opened_.get();
  std::shared_ptr<decoded_entry> last;  // freed without the lock
  const std::lock_guard lock(state.mutex);
  if (state.kept.get() == &entry) last = std::exchange(state.kept, nullptr);
}

result<zip_writer*> zip_store::begin_writing() {
  opened& state = opened_.get();
  if (state.writer) return state.writer.get();
  std::shared_ptr<zip_archive> known;
  {
    const std::lock_guard lock(state.mutex);
    known = state.archive;
  }
  PENSTOCK_ASSIGN(state.writer, zip_writer::begin(path_, std::move(known), options_.sync));
  const std::lock_guard lock(state.mutex);
  state.archive = state.writer->archive();
  state.writing = true;
  return state.writer.get();
}

result<version> zip_store::put(std::string_view key, std::span<const part> parts, const write_condition& condition) {
  PENSTOCK_TRY(check_key(key));
  if (condition.what == write_condition::kind::must_match && !condition.expected.known())
    return error(errc::invalid_argument, "a condition has no version to match");
  const std::lock_guard lock(opened_.get().write_mutex);
  PENSTOCK_ASSIGN(zip_writer* const writer, begin_writing());
  return writer->put(key, parts, condition);
}

result<> zip_store::erase(std::string_view key, const write_condition& condition) {
  PENSTOCK_TRY(check_key(key));
  const std::lock_guard lock(opened_.get().write_mutex);
  if (opened_.get().writer == nullptr) {
    PENSTOCK_ASSIGN(const std::shared_ptr<zip_archive> archive, current());
    zip_entry entry;
    version seen;
    if (archive == nullptr || !archive->find(key, entry, seen))
      return {};  // does not create an archive in order to erase from it
  }
  PENSTOCK_ASSIGN(zip_writer* const writer, begin_writing());
  return writer->erase(key, condition);
}

result<> zip_store::flush() {
  opened& state = opened_.get();
  const std::lock_guard writing(state.write_mutex);
  if (!state.writer) return {};
  auto done = state.writer->commit();
  state.writer.reset();  // releases the lock, and restores the file if the directory could not be written
  const std::lock_guard lock(state.mutex);
  state.writing = false;
  if (!done.ok()) state.archive = nullptr;
  return done;
}

result<> zip_store::list(std::string_view prefix, listing what, key_sink& sink) const {
  PENSTOCK_TRY(check_prefix(prefix));
  PENSTOCK_ASSIGN(const std::shared_ptr<zip_archive> archive, current());
  if (!archive) return {};
  key_listing found(prefix, what);
  {
    const std::shared_lock lock(archive->mutex_);
    for (const auto& [key, entry] : archive->directory_.entries) found.add(key, entry.decoded_bytes);
  }
  found.report(sink);
  return {};
}

}  // namespace penstock::inline v0
