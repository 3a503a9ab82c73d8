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

/// present: at this range. absent: never written, so the fill value. unknown: a whole object, which storage may have.
enum class presence : std::uint8_t { present, absent, unknown };

/// Where one cell's bytes are.
struct chunk_extent {
  presence state = presence::unknown;
  std::uint16_t chain = 0;  ///< which of the layout's chains decodes it
  object_id object = 0;
  byte_range range;
};

/// Names an index block: the object that it describes and a node within it (0: the object's own index).
struct index_key {
  object_id object = 0;
  std::uint64_t node = 0;
  friend bool operator==(const index_key&, const index_key&) = default;
};

/// Bytes that `locate` needs before it can go on.
struct index_request {
  index_key key;
  byte_range range;
  std::uint64_t max_bytes = 0;  ///< the block cannot be longer; what storage says beyond that is corrupt

  /// Of an object's own index, where the layout knows them: how many of the array's cells the object has, and how long
  /// it can be with its index where nothing that was replaced is left behind in it. 0: not known.
  std::uint64_t object_cells = 0, max_object_bytes = 0;
};

/// A parsed, immutable piece of index.
class PENSTOCK_API index_block {
 public:
  virtual ~index_block() = default;
  virtual std::uint64_t memory_bytes() const noexcept = 0;
};
using index_ptr = std::shared_ptr<const index_block>;

/// What is known of one index: its block, or that its object is absent (`block` null).
struct index_entry {
  index_ptr block;
  version seen;
  bool cached = false;  ///< from an earlier read: what rests on it must still be checked against the object's version
};

/// Indexes read so far. A view: the engine owns what stands behind it.
class PENSTOCK_API index_lookup {
 public:
  virtual ~index_lookup() = default;
  /// Null where the index is not known yet.
  virtual const index_entry* find(const index_key& key) const = 0;
};

/// What becomes of one cell of an object that is written: its new encoded bytes, or none.
struct new_cell {
  cell_id cell = 0;
  part bytes;           ///< never empty, unless `absent`
  bool absent = false;  ///< the object is to have no such cell: it reads as the fill value
};

/// An object put together, as parts in their order. Used again, it keeps its memory.
struct assembled_object {
  std::vector<part> parts;                   ///< of the old object, of the new cells, and of `made`
  std::uint64_t bytes = 0;                   ///< of all parts
  std::vector<std::vector<std::byte>> made;  ///< what belongs to neither: indexes and checksums
  std::size_t made_count = 0;                ///< how many of `made` are in use

  bool empty() const noexcept { return parts.empty(); }  ///< no cell is left: the object is to be erased
  void clear() noexcept {
    parts.clear();
    bytes = 0;
    made_count = 0;
  }
  /// `size` bytes that live as long as this, used again after `clear`.
  std::span<std::byte> make_room(std::size_t size) {
    if (made_count == made.size()) made.emplace_back();
    std::vector<std::byte>& room = made[made_count++];
    room.resize(size);
    return room;
  }
};

/// Puts storage objects together from encoded cells. Immutable, pure, thread-safe; performs no I/O.
class PENSTOCK_API object_assembler {
 public:
  virtual ~object_assembler() = default;

  /// Replaces, adds and removes cells of `object`; every other cell keeps its encoded bytes.
  ///
  /// \param old    All bytes of the object as it is, or null where it is absent. Neighbouring cells that are kept
  /// become
  ///               one part; bytes that no index names are left behind.
  /// \param cells  Of this object, each once.
  /// \error corrupt_data  The old object contradicts itself.
  virtual result<> assemble(object_id object, const part* old, std::span<const new_cell> cells,
                            assembled_object& out) const = 0;
};

/// A format adapter: says where each cell's bytes are. Immutable, pure, thread-safe; performs no I/O. Owned by shared
/// pointers: an error that comes late names its cell.
class PENSTOCK_API chunk_layout : public std::enable_shared_from_this<chunk_layout> {
 public:
  virtual ~chunk_layout() = default;

  /// The smallest units that decode on their own.
  virtual const chunk_grid& grid() const = 0;
  /// The storage objects (shards, files); equal to grid() where each cell is its own object.
  virtual const chunk_grid& write_grid() const = 0;
  virtual std::span<const codec_chain> chains() const = 0;

  /// The same array and objects in smaller cells, for elements that lie far apart; null: there are none. Owned by this.
  virtual const chunk_layout* finer() const { return nullptr; }

  /// Finds each cell. Where an index is missing, appends a request for it (once for each index) and sets nothing of
  /// that cell's extent but, where the request says `object_cells`, its object; the caller reads, parses and asks
  /// again, at most as often as the index is deep.
  /// \error corrupt_data  A known index contradicts itself.
  virtual result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                          std::vector<index_request>& missing) const = 0;

  /// Turns index bytes into a block.
  /// \param object_size  Of the whole object, or kAll; extents that leave it are corrupt.
  virtual result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                                  std::uint64_t object_size) const = 0;

  /// Storage key of an object, relative to the array, written over `out`.
  virtual void key(object_id object, std::string& out) const = 0;

  /// `c/0/3 chunk (1, 2)`: a cell for error messages and plans.
  virtual std::string describe(cell_id cell) const = 0;

  /// The version that an object had when this layout learned of it, where it rests on that and on no index. A read of
  /// another version, or of an object that is gone, then is a `conflict` that names the key. Unknown: no such promise.
  virtual version expected(object_id) const { return {}; }

  /// How objects are written; null where the format is only read.
  virtual const object_assembler* assembler() const { return nullptr; }
};

}  // namespace penstock::inline v0
