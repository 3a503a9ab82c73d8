#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/result.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

class chunk_grid;
class codec_chain;

/// Identifies a storage object (a chunk file, a shard, a TIFF) within a layout.
using object_id = std::uint64_t;
using cell_id = std::uint64_t;

/// present: at this range. absent: never written, so the fill value. unknown: a whole object, which may exist in
/// storage.
enum class presence : std::uint8_t { present, absent, unknown };

/// Where one cell's bytes are.
struct chunk_extent {
  presence state = presence::unknown;
  std::uint16_t chain = 0;  ///< the chain of the layout that decodes it
  object_id object = 0;
  byte_range range;
};

/// Identifies an index block: the object that it describes and a node in it (0: the object's own index).
struct index_key {
  object_id object = 0;
  std::uint64_t node = 0;
  friend bool operator==(const index_key&, const index_key&) = default;
};

/// Bytes that `locate` needs before it can continue.
struct index_request {
  index_key key;
  byte_range range;
  std::uint64_t max_bytes = 0;  ///< the block is never longer; a longer length in storage is corrupt

  /// For an object's own index: how many of the array's cells the object has, and the maximum length of the object with
  /// its index if it contains no replaced data. 0: not known.
  std::uint64_t object_cells = 0, max_object_bytes = 0;
};

/// A parsed, immutable block of an index.
class PENSTOCK_API index_block {
 public:
  virtual ~index_block() = default;
  virtual std::uint64_t memory_bytes() const noexcept = 0;
};
using index_ptr = std::shared_ptr<const index_block>;

/// The state of one index: its block, or the fact that its object is absent (`block` null).
struct index_entry {
  index_ptr block;
  version seen;
  bool cached = false;  ///< from an earlier read: results must still be checked against the object's version
  bool failed = false;  ///< it could not be read, and the error was reported (`block` null): its cells count as absent
};

/// Indexes read so far. A view: the engine owns the data.
class PENSTOCK_API index_lookup {
 public:
  virtual ~index_lookup() = default;
  /// Null if the index is not known yet.
  virtual const index_entry* find(const index_key& key) const = 0;
};

/// The new state of one cell of an object that is written: its new encoded bytes, or none.
struct new_cell {
  cell_id cell = 0;
  part bytes;           ///< never empty, unless `absent`
  bool absent = false;  ///< the object will not have this cell: it reads as the fill value
};

/// An object assembled from parts in their order. Reused, it keeps its memory.
struct assembled_object {
  std::vector<part> parts;                   ///< of the old object, of the new cells, and of `made`
  std::uint64_t bytes = 0;                   ///< size of all parts
  std::vector<std::vector<std::byte>> made;  ///< parts that belong to neither: indexes and checksums
  std::size_t made_count = 0;                ///< how many of `made` are in use

  bool empty() const noexcept { return parts.empty(); }  ///< no cell remains: the object is erased
  void clear() noexcept {
    parts.clear();
    bytes = 0;
    made_count = 0;
  }
  /// `size` bytes that live as long as this object, reused after `clear`.
  std::span<std::byte> make_room(std::size_t size) {
    if (made_count == made.size()) made.emplace_back();
    std::vector<std::byte>& room = made[made_count++];
    room.resize(size);
    return room;
  }
};

/// Assembles storage objects from encoded cells. Immutable, pure, thread-safe; performs no I/O.
class PENSTOCK_API object_assembler {
 public:
  virtual ~object_assembler() = default;

  /// Replaces, adds and removes cells of `object`; every other cell keeps its encoded bytes.
  ///
  /// \param old    All bytes of the existing object, or null if it is absent. Adjacent cells that are kept become one
  ///              part; bytes that no index refers to are dropped.
  /// \param cells  Of this object, each once.
  /// \error corrupt_data  The old object contradicts itself.
  virtual result<> assemble(object_id object, const part* old, std::span<const new_cell> cells,
                            assembled_object& out) const = 0;
};

/// A format adapter: finds the bytes of each cell. Immutable, pure, thread-safe; performs no I/O. Owned by shared
/// pointers, because late errors name their cell.
class PENSTOCK_API chunk_layout : public std::enable_shared_from_this<chunk_layout> {
 public:
  virtual ~chunk_layout() = default;

  /// The smallest units that decode on their own.
  virtual const chunk_grid& grid() const = 0;
  /// The storage objects (shards, files); equal to grid() if each cell is an object of its own.
  virtual const chunk_grid& write_grid() const = 0;
  virtual std::span<const codec_chain> chains() const = 0;

  /// The same array and objects in smaller cells, for elements that are far apart; null if none exists. Owned by this
  /// object.
  virtual const chunk_layout* finer() const { return nullptr; }

  /// Finds each cell. If an index is missing, appends a request for it (once for each index) and sets nothing of that
  /// cell's extent except, if the request has `object_cells`, its object. The caller then reads, parses and calls
  /// again, at most once for each level of the index.
  /// \error corrupt_data  A known index contradicts itself.
  virtual result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                          std::vector<index_request>& missing) const = 0;

  /// Turns index bytes into a block.
  /// \param object_size  The size of the whole object, or kAll; extents beyond it are corrupt.
  virtual result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                                  std::uint64_t object_size) const = 0;

  /// The storage key of an object, relative to the array; replaces the content of `out`.
  virtual void key(object_id object, std::string& out) const = 0;

  /// `c/0/3 chunk (1, 2)`: a cell for error messages and plans.
  virtual std::string describe(cell_id cell) const = 0;

  /// The version of an object from which this layout was made, if the layout depends on it without an index. A read of
  /// another version, or of an object that no longer exists, is a `conflict` that names the key. Unknown: no such
  /// condition.
  virtual version expected(object_id) const { return {}; }

  /// How objects are written; null if the format is only read.
  virtual const object_assembler* assembler() const { return nullptr; }
};

}  // namespace penstock::inline v0
