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

/// A format adapter: says where each cell's bytes are. Immutable, pure, thread-safe; performs no I/O.
class PENSTOCK_API chunk_layout {
 public:
  virtual ~chunk_layout() = default;

  /// The smallest units that decode on their own.
  virtual const chunk_grid& grid() const = 0;
  /// The storage objects (shards, files); equal to grid() where each cell is its own object.
  virtual const chunk_grid& write_grid() const = 0;
  virtual std::span<const codec_chain> chains() const = 0;

  /// Finds each cell. Where an index is missing, appends a request for it (once for each index) and leaves that cell's
  /// extent untouched; the caller reads, parses and asks again, at most as often as the index is deep.
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
};

}  // namespace penstock::inline v0
