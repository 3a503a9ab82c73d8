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

/// Which object a key named when it was read. Two reads with equal versions saw the same bytes.
///
/// A default version means "not known". `pin` keeps alive what the identity rests on (a Python object, say), so that
/// an address cannot be used again while a version remembers it.
struct version {
  std::uint64_t word[4] = {0, 0, 0, 0};
  std::shared_ptr<const void> pin;

  bool known() const noexcept { return (word[0] | word[1] | word[2] | word[3]) != 0; }
  friend bool operator==(const version& a, const version& b) noexcept {
    return a.word[0] == b.word[0] && a.word[1] == b.word[1] && a.word[2] == b.word[2] && a.word[3] == b.word[3];
  }
};

/// Keeps bytes that a store owns alive; gives them back when destroyed. Move-only, one call, no allocation.
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

/// Memory that a read may grow to the size of what it finds. The engine owns it, counts it and uses it again.
class PENSTOCK_API read_buffer {
 public:
  virtual ~read_buffer() = default;
  /// At least `bytes` bytes; contents are lost. Fails where a limit of the context would be passed.
  virtual result<std::span<std::byte>> reserve(std::uint64_t bytes) = 0;
};

/// One request. Everything it points to is borrowed until its completion.
struct byte_read {
  std::string_view key;
  byte_range range;
  const version* expected = nullptr;  ///< null or unknown: any version will do
  /// The bytes are wanted of `expected`, whatever its key leads to by now: an open handle of that version that nothing
  /// happened to answers as well as a new look at the key.
  bool same_handle = false;
  /// An object that ends within the range gives what it has of it, which is no error. Not with a `destination`, and not
  /// of ranges from the end. A store that cannot do so answers as it would without.
  bool may_end_early = false;
  std::span<std::byte> destination;  ///< when not empty: exactly `range.length` bytes, to be filled in place
  read_buffer* buffer = nullptr;     ///< where to put the bytes otherwise, unless the store lends its own
  std::uint64_t max_bytes =
      byte_range::kAll;   ///< a longer object is `corrupt_data`: sizes in storage drive no allocation
  std::uint64_t tag = 0;  ///< comes back with the completion
};

struct read_done {
  std::span<const std::byte> bytes;              ///< in `destination`, in `buffer`, or lent by the store
  lease keep_alive;                              ///< of the lent bytes
  version seen;                                  ///< default where the store has no versions
  bool seen_is_last = true;                      ///< a later change of the object gets another version than `seen`
  std::uint64_t object_size = byte_range::kAll;  ///< kAll: not known
};

/// Takes completions. May be called from any thread, also inside `store::read`; it only enqueues.
class PENSTOCK_API completion_sink {
 public:
  virtual ~completion_sink() = default;
  virtual void complete(std::uint64_t tag, result<read_done> done) = 0;
};

/// What the planner and the engine need to know of a store.
struct store_traits {
  std::uint64_t max_gap_bytes = 0;  ///< read through holes up to this long rather than ask twice
  std::uint64_t request_bytes = 0;  ///< what can be read in the time that a request costs: shorter holes always are
  std::uint64_t max_length_bytes = std::uint64_t{1} << 20;  ///< split longer coalesced reads at cell boundaries
  bool versions = false;                                    ///< `read_done::seen` is set and `expected` is checked
  /// Equal versions name the same bytes whatever store of this kind they were read from: what was kept of an array that
  /// is closed may serve another of the same storage.
  bool lasting_versions = false;
  bool blocking = true;           ///< may wait for a device or a network: never called with a lock such as the GIL held
  bool inline_completion = true;  ///< `read` completes every request before it returns
  bool inline_writes = true;      ///< `write` completes every request before it returns
  bool lends_bytes = false;       ///< returns its own memory under a lease
  bool writable = false;          ///< `put` and `erase` do something
  bool sizes = false;             ///< `read_done::object_size` is set, also by reads of no bytes
  bool guards = false;            ///< `put` and `erase` check `write_condition::guard`
  /// `byte_read::destination` may be memory of a CUDA device, which the store fills by itself (cuFile): without a copy
  /// through the host, and complete for every stream when the read completes. Only requests whose bytes the
  /// host does not need are made so: of cells without a codec whose headers would be scanned. No store sets it yet,
  /// and no engine uses it.
  bool device_reads = false;
};

/// What a power cut may do to files that this process writes (docs/design/0019-power-cuts.md).
enum class write_sync : std::uint8_t {
  none,     ///< no write waits for the device: objects of the last half minute may be damaged, replaced ones included
  objects,  ///< an object is the old one or the new one; one that is new may be missing
  durable,  ///< also, a write returns only when the device has everything
};

/// A part of an object to be written, in order.
using part = std::span<const std::byte>;
/// Another object that must hold at the moment of a write: `key` exists and its bytes begin with `prefix`.
///
/// A lock that several writers take in turn is such an object. A writer that was stopped, and whose lock another writer
/// took over meanwhile, then changes nothing when it continues.
struct write_guard {
  std::string key;
  std::string prefix;
};

/// Write only if the object still has version `expected` (`must_match`), or only if it is absent (`must_be_absent`).
struct write_condition {
  enum class kind : std::uint8_t { none, must_match, must_be_absent } what = kind::none;
  version expected;
  bool durable = false;  ///< return only when the device has it, where the store can tell
  /// After a power cut the object has this value only if everything that this store wrote before is there too. For
  /// documents that make other objects count: a shape after an append, a manifest.
  bool ordered = false;
  /// The object means nothing after a power cut (a claim, a lock), so the store need not wait for the device.
  bool passing = false;
  /// Null: none. Borrowed. Checked together with the write, in one step, by stores with `store_traits::guards`; others
  /// ignore it. A guard that does not hold is a `conflict`, and nothing is written.
  const write_guard* guard = nullptr;
};

/// One put or erase. Everything it points to is borrowed until its completion.
struct byte_write {
  std::string_view key;
  std::span<const part> parts;  ///< of the object, in order; empty where it `erases`
  bool erases = false;
  write_condition condition;
  std::uint64_t tag = 0;  ///< comes back with the completion
};

/// Takes completions of writes. May be called from any thread, also inside `store::write`; it must not wait.
class PENSTOCK_API write_sink {
 public:
  virtual ~write_sink() = default;
  /// \param done  What `put` would have returned; of an erase, a default version or what `erase` would have returned.
  virtual void complete(std::uint64_t tag, result<version> done) = 0;
};

/// An object whose bytes a store has and whose key still names what it named before. Destroying it without
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
  /// Returns false to stop the listing.
  virtual bool key(std::string_view key, std::uint64_t size_bytes) = 0;
};

/// Byte ranges of named objects. Keys use '/' and never begin with it.
///
/// Implementations may be called from many threads at once. Errors: `not_found` only where the object is absent;
/// `corrupt_data` where a range leaves the object; `version_changed` where `expected` no longer holds; everything else
/// is `io_error`, `permission_denied`, `cancelled` or `deadline_exceeded`. A store adds no note: the engine names key,
/// range and array.
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
  /// Each is a `put` or an `erase`, but the call does not wait if `store_traits::inline_writes` is false. The
  /// default does them in turn. A write that is stopped completes with `cancelled`; its object is the old one or the
  /// new one.
  virtual void write(std::span<const byte_write> writes, write_sink& sink, std::stop_token stop);
  /// Begins a `put`: writes the bytes, and leaves the key as it is until `publish`. For stores where ending many puts
  /// together costs less than ending each: files, whose bytes must be on the device before they replace others.
  /// Returns null where `put` serves as well; nothing was written then. The default does so.
  virtual result<std::unique_ptr<staged_object>> stage(std::string_view key, std::span<const part> parts,
                                                       const write_condition& condition);
  /// Ends what `stage` of the same store began: each object appears at once and on its own, in any order.
  /// \returns For each object what `put` would have returned.
  virtual std::vector<result<version>> publish(std::span<const std::unique_ptr<staged_object>> staged);
  /// Removes an object; absent objects are no error.
  virtual result<> erase(std::string_view key, const write_condition& condition);
  /// Names what stands below `prefix` (empty, or a folder's name with its final '/'), in no order.
  virtual result<> list(std::string_view prefix, listing what, key_sink& sink) const;
  /// Makes what was put and erased visible to all other readers of this storage. Most stores do so with each put and
  /// have nothing left to do; one that is a single file (zip) writes its directory here. Writers call it once at the
  /// end of a piece of work; a store that is destroyed flushes what it can.
  virtual result<> flush();
  /// Whether objects below `prefix` (as in `list`) can be written, as far as that is known without writing one.
  ///
  /// The default returns what `traits().writable` says. A success does not promise that a write succeeds.
  /// \error read_only, permission_denied  They cannot.
  virtual result<> check_writable(std::string_view prefix) const;

  /// What a user would recognise: `file:///data/x.zarr`, `memory:`.
  virtual std::string uri() const = 0;
};

}  // namespace penstock::inline v0
