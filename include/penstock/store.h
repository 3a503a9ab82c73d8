#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// `length` bytes from `offset`; or the last `length` bytes (`from_end`); or all of the object (`length == kAll`).
struct byte_range {
  static constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t offset = 0;
  std::uint64_t length = kAll;
  bool from_end = false;

  bool whole() const noexcept { return length == kAll; }
  friend bool operator==(const byte_range&, const byte_range&) = default;
};

/// `[1024, 5120)`, `last 68 bytes`, `all`.
PENSTOCK_API std::string to_string(const byte_range& range);

/// Identifies the object that a key named when it was read. Two reads with equal versions saw the same bytes.
///
/// A default version means "not known". `pin` keeps the object alive that the identity depends on (a Python object, for
/// example), so that its address is not reused while a version refers to it.
struct version {
  std::uint64_t word[4] = {0, 0, 0, 0};
  std::shared_ptr<const void> pin;

  bool known() const noexcept { return (word[0] | word[1] | word[2] | word[3]) != 0; }
  friend bool operator==(const version& a, const version& b) noexcept {
    return a.word[0] == b.word[0] && a.word[1] == b.word[1] && a.word[2] == b.word[2] && a.word[3] == b.word[3];
  }
};

/// Keeps bytes alive that a store owns; releases them when destroyed. Move-only, one call, no allocation.
class lease {
 public:
  using release_fn = void (*)(void*) noexcept;
  lease() noexcept = default;
  lease(void* owner, release_fn release) noexcept : owner_(owner), release_(release) {}
  lease(lease&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), release_(std::exchange(other.release_, nullptr)) {}
  lease& operator=(lease&& other) noexcept {
    if (this != &other) {
      reset();
      owner_ = std::exchange(other.owner_, nullptr);
      release_ = std::exchange(other.release_, nullptr);
    }
    return *this;
  }
  ~lease() { reset(); }
  void reset() noexcept {
    if (release_ != nullptr) std::exchange(release_, nullptr)(owner_);
  }

 private:
  void* owner_ = nullptr;
  release_fn release_ = nullptr;
};

/// Memory that a read can grow to the size of the data. The engine owns it, counts it and reuses it.
class PENSTOCK_API read_buffer {
 public:
  virtual ~read_buffer() = default;
  /// At least `bytes` bytes; contents are lost. Fails if a limit of the context would be exceeded.
  virtual result<std::span<std::byte>> reserve(std::uint64_t bytes) = 0;
};

/// One request. Everything it points to is borrowed until its completion.
struct byte_read {
  std::string_view key;
  byte_range range;
  const version* expected = nullptr;  ///< null or unknown: any version will do
  /// The bytes must be of `expected`, also if its key names another object now: an open handle of that version,
  /// unchanged, serves as well as a new lookup of the key.
  bool same_handle = false;
  /// An object that ends within the range returns the part that it has, without an error. Not with a `destination`, and
  /// not for ranges from the end. A store that cannot do so ignores it.
  bool may_end_early = false;
  std::span<std::byte> destination;  ///< when not empty: exactly `range.length` bytes, to be filled in place
  read_buffer* buffer = nullptr;     ///< memory for the bytes otherwise, unless the store lends its own
  std::uint64_t max_bytes =
      byte_range::kAll;   ///< a longer object is `corrupt_data`: sizes in storage must not cause large allocations
  std::uint64_t tag = 0;  ///< returned with the completion
};

struct read_done {
  std::span<const std::byte> bytes;              ///< in `destination`, in `buffer`, or lent by the store
  lease keep_alive;                              ///< owner of the lent bytes
  version seen;                                  ///< default if the store has no versions
  bool seen_is_last = true;                      ///< whether a later change of the object gives it another version
  std::uint64_t object_size = byte_range::kAll;  ///< kAll: not known
  bool sent_all = false;                         ///< a range was requested, and the server sent the whole object
};

/// Receives completions. May be called from any thread, also inside `store::read`; it only enqueues.
class PENSTOCK_API completion_sink {
 public:
  virtual ~completion_sink() = default;
  virtual void complete(std::uint64_t tag, result<read_done> done) = 0;
};

/// The facts about a store that the planner and the engine need.
struct store_traits {
  std::uint64_t max_gap_bytes = 0;  ///< read through gaps up to this length instead of making two requests
  std::uint64_t request_bytes = 0;  ///< bytes readable in the time of one request: shorter gaps are always read through
  std::uint64_t max_length_bytes = std::uint64_t{1} << 20;  ///< split longer coalesced reads at cell boundaries
  bool versions = false;                                    ///< `read_done::seen` is set and `expected` is checked
  /// Equal versions name the same bytes in all stores of this kind: caches of a closed array may serve another one of
  /// the same storage.
  bool lasting_versions = false;
  bool blocking = true;           ///< may wait for a device or a network: never called with a lock such as the GIL held
  bool inline_completion = true;  ///< `read` completes every request before it returns
  bool inline_writes = true;      ///< `write` completes every request before it returns
  bool lends_bytes = false;       ///< returns its own memory under a lease
  bool writable = false;          ///< `put` and `erase` are supported
  bool sizes = false;             ///< `read_done::object_size` is set, also by reads of length 0
  bool guards = false;            ///< `put` and `erase` check `write_condition::guard`
  /// `byte_read::destination` may be memory of a CUDA device, which the store fills by itself (cuFile), without a copy
  /// through the host, and complete for every stream when the read completes. It is only used for requests whose bytes
  /// the host does not need: of cells without a codec whose headers it would scan. No store sets it yet, and no engine
  /// uses it.
  bool device_reads = false;
};

/// How a power cut may affect files that this process writes (docs/design/0019-power-cuts.md).
enum class write_sync : std::uint8_t {
  none,     ///< no write waits for the device: objects of the last half minute may be damaged, also replaced ones
  objects,  ///< an object is the old one or the new one; a new one may be missing
  durable,  ///< in addition, a write returns only when all of it is on the storage device
};

/// One part of an object to be written, in order.
using part = std::span<const std::byte>;
/// Another object that must exist at the moment of a write: `key` exists and its bytes begin with `prefix`.
///
/// A lock that several writers take in turn is such an object. A writer that was stopped, and whose lock another writer
/// took over, changes nothing when it continues.
struct write_guard {
  std::string key;
  std::string prefix;
};

/// Write only if the object still has version `expected` (`must_match`), or only if it is absent (`must_be_absent`).
struct write_condition {
  enum class kind : std::uint8_t { none, must_match, must_be_absent } what = kind::none;
  version expected;
  bool durable = false;  ///< return only when it is on the storage device, if the store can report that
  /// After a power cut the object has this value only if everything that this store wrote before exists too. For
  /// documents that refer to other objects: a shape after an append, a manifest.
  bool ordered = false;
  /// The object is not needed after a power cut (a claim, a lock), so the store need not wait for the device.
  bool passing = false;
  /// Null: none. Borrowed. Stores with `store_traits::guards` check it together with the write, atomically; others
  /// ignore it. If it does not hold, the write is a `conflict` and changes nothing.
  const write_guard* guard = nullptr;
};

/// One put or erase. Everything it points to is borrowed until its completion.
struct byte_write {
  std::string_view key;
  std::span<const part> parts;  ///< parts of the object, in order; empty if it `erases`
  bool erases = false;
  write_condition condition;
  std::uint64_t tag = 0;  ///< returned with the completion
};

/// Receives completions of writes. May be called from any thread, also inside `store::write`; it must not wait.
class PENSTOCK_API write_sink {
 public:
  virtual ~write_sink() = default;
  /// \param done  The result of `put`; for an erase, a default version or the error of `erase`.
  virtual void complete(std::uint64_t tag, result<version> done) = 0;
};

/// An object whose bytes are in the store, while its key still names the old object. Destroying it without
/// `store::publish` removes the bytes.
class PENSTOCK_API staged_object {
 public:
  virtual ~staged_object() = default;
};

enum class listing : std::uint8_t {
  objects,   ///< every object below the prefix
  children,  ///< objects directly below it, and folders as names that end with '/' (size 0)
};

class PENSTOCK_API key_sink {
 public:
  virtual ~key_sink() = default;
  /// Receives one name. Returns false to stop the listing.
  virtual bool key(std::string_view key, std::uint64_t size_bytes) = 0;
};

/// Byte ranges of named objects. Keys use '/' and never begin with it.
///
/// Implementations may be called from many threads at once. Errors: `not_found` only if the object is absent;
/// `corrupt_data` if a range exceeds the object; `version_changed` if `expected` no longer holds; all others are
/// `io_error`, `permission_denied`, `cancelled` or `deadline_exceeded`. A store adds no note: the engine names key,
/// range and array.
///
/// Functions return errors. If one throws a `std::exception` nevertheless, it is the `io_error` of the read or write,
/// and requests that were not complete by then must not complete later.
class PENSTOCK_API store {
 public:
  virtual ~store() = default;

  virtual store_traits traits() const = 0;

  /// Starts `reads`; each completes exactly once through `sink`, perhaps before this returns.
  /// A read of length 0 with an expected version only checks that version.
  virtual void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const = 0;

  /// Replaces or creates an object, atomically; returns its new version.
  virtual result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition);
  /// Starts `writes`; each completes exactly once through `sink`, perhaps before this returns, in any order.
  ///
  /// Each is a `put` or an `erase`, but the call does not wait if `store_traits::inline_writes` is false. The default
  /// runs them one after the other. A cancelled write completes with `cancelled`; its object is the old one or the new
  /// one.
  virtual void write(std::span<const byte_write> writes, write_sink& sink, std::stop_token stop);
  /// Begins a `put`: writes the bytes, and leaves the key unchanged until `publish`. For stores that complete many puts
  /// together at less cost than one by one: files, whose bytes must be on the device before they replace others.
  /// Returns null, without writing, if `put` serves as well. The default does so.
  virtual result<std::unique_ptr<staged_object>> stage(std::string_view key, std::span<const part> parts,
                                                       const write_condition& condition);
  /// Completes what `stage` of the same store began: each object is replaced atomically, in any order.
  /// \returns For each object the result of `put`.
  virtual std::vector<result<version>> publish(std::span<const std::unique_ptr<staged_object>> staged);
  /// Removes an object. An absent object is not an error.
  virtual result<> erase(std::string_view key, const write_condition& condition);
  /// Lists the names below `prefix` (empty, or a folder's name with its final '/'), in no particular order.
  virtual result<> list(std::string_view prefix, listing what, key_sink& sink) const;
  /// Makes puts and erases visible to all other readers of this storage. Most stores do so with each put; a store that
  /// is a single file (zip) writes its directory here. Writers call it once after a series of writes; a store that is
  /// destroyed flushes what it can.
  virtual result<> flush();
  /// Whether objects below `prefix` (as in `list`) can be written, as far as that can be determined without a write.
  ///
  /// The default returns `traits().writable`. Success does not guarantee that a write succeeds.
  /// \error read_only, permission_denied  They cannot be written.
  virtual result<> check_writable(std::string_view prefix) const;

  /// A name that users recognise: `file:///data/x.zarr`, `memory:`.
  virtual std::string uri() const = 0;
};

}  // namespace penstock::inline v0
