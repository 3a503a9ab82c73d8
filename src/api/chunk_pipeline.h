#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/array.h>
#include <penstock/context.h>
#include <penstock/extend/layout.h>
#include <penstock/plan.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

/// One chunk of a batch: where its object is, the selected part of the chunk, and its address in the caller's memory.
struct chunk_item {
  std::string_view key;       ///< of the chunk's object in the store, whole
  strided_box part;           ///< elements of the chunk
  std::byte* at;              ///< address of element (0, 0, ...) of `part`; writes only read from it
  penstock::strides strides;  ///< bytes, one for each dimension of the chunk
  bool replaces = false;      ///< a write does not need the object's present content
};

/// The result for one written chunk.
struct chunk_written {
  bool erased = false;            ///< every element is the fill value: the object must not exist
  std::vector<std::byte> object;  ///< the encoded chunk, if no store received it
};

/// Codecs, an element type and a chunk's shape, compiled once, for arrays of another library, which has its own grid
/// and keys.
///
/// A batch is any number of chunks of that shape. Immutable and shareable between threads; mutable state belongs to the
/// context.
class chunk_pipeline {
 public:
  /// \param document  Metadata of an array that is one chunk: its shape, its codecs, its fill value.
  /// \error As opening the array.
  static result<std::shared_ptr<const chunk_pipeline>> compile(std::string_view document);

  dtype type() const noexcept { return type_; }
  const extents& chunk() const noexcept { return chunk_; }
  std::span<const std::byte> fill_value() const noexcept { return fill_value_; }
  std::uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }
  /// Whether a chunk contains smaller chunks; reads then fetch only those that they need.
  bool sharded() const noexcept { return sharded_; }
  /// The codecs as text.
  const std::string& codecs_text() const noexcept { return codecs_text_; }

  /// Decoded bytes of all inner chunks that `wanted` touches; saturating.
  std::uint64_t touched_bytes(const strided_box& wanted) const noexcept;

  /// Reads the parts of all items, which must not overlap in the caller's memory. A missing chunk is the fill value.
  ///
  /// \param missing  Empty, or a byte for each item: set to 1 if the store does not have the object.
  /// \error As array::read.
  result<> read(penstock::context& with, const store& from, std::span<const chunk_item> items,
                std::span<std::uint8_t> missing, const read_options& options) const;

  /// Reads all items into memory of a device, to which `item.at` points. Encoded bytes are copied and decoded there, as
  /// far as the device has decoders.
  ///
  /// \param stream  A driver stream of the caller, not 0: nothing is written before its present work is done, and later
  ///              work on it sees the chunks. The call returns when all is queued on the device; a later failure there
  ///              is an error of the next read. Empty: the caller's stream is not known. The call then waits for all
  ///              work of the device before it begins, and for the chunks before it returns.
  /// \error unsupported  No CUDA driver, or items of variable length. Otherwise as `read`.
  result<> read_to_device(const std::shared_ptr<penstock::context>& with, const store& from,
                          std::span<const chunk_item> items, std::span<std::uint8_t> missing, int device,
                          std::optional<std::uintptr_t> stream, const read_options& options) const;
  /// The codecs that a device decodes, as text.
  std::string device_path() const;

  /// Starts to read one item on the context's threads. Its memory is borrowed until the ticket is done.
  /// \error resource_exhausted  The system has no thread for the read.
  result<ticket> start(const std::shared_ptr<penstock::context>& with, const store& from, const chunk_item& item,
                       std::span<std::uint8_t> missing) const;

  /// Items in memory of a device.
  struct device_place {
    int device = 0;
    /// A driver stream of the caller, not 0, on which the values are ordered. Empty: it is not known, and the write
    /// waits for all work of the device.
    std::optional<std::uintptr_t> stream;
  };
  struct write_options {
    unsigned threads = 0;                   ///< workers; 0: the context's
    bool write_empty_chunks = false;        ///< store chunks that equal the fill value
    std::optional<device_place> values_on;  ///< `item.at` points to device memory, which is transferred chunk by chunk
    progress_fn progress;                   ///< as in reads
    std::chrono::nanoseconds poll_interval{20'000'000};
  };

  /// Changes the parts of all items: an object that is not replaced is read, decoded, changed and encoded.
  ///
  /// \param from  Has the present objects. \param to    Receives the new ones; null: they are returned in `out`.
  /// \param out   One for each item.
  /// \error As array::write, and as array::read for chunks that are changed in part.
  result<> write(penstock::context& with, const store& from, store* to, std::span<const chunk_item> items,
                 const write_options& options, std::vector<chunk_written>& out) const;

 private:
  chunk_pipeline() = default;
  source source_of(const store& from, const chunk_item& item) const noexcept;

  std::shared_ptr<const chunk_layout> layout_;
  dtype type_;
  extents chunk_;
  std::vector<std::byte> fill_value_;
  std::shared_ptr<const std::string> fill_text_;  // if it contains variable_items, the memory that they point into
  std::uint64_t chunk_bytes_ = 0;
  bool sharded_ = false;
  std::string codecs_text_;
};

}  // namespace penstock::inline v0
