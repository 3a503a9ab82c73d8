// HDF5's filter 32026: a contiguous frame of Blosc 2 around the chunks' data. Chunks of several dimensions may be cut
// into blocks (b2nd). Source: c-blosc2 README_CFRAME_FORMAT.rst, README_B2ND_METALAYER.rst.

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "codec/codec_members.h"
#include "codec/decode_only.h"
#include "codec/hdf5/blosc2_chunk.h"
#include "codec/library_contexts.h"

namespace penstock::inline v0 {
namespace {

using bytes_in = std::span<const std::byte>;

constexpr std::size_t kFixedHeader = 0x57;   // before the metalayers
constexpr std::size_t kMostDimensions = 15;  // whose number fits into the type of an array
constexpr std::uint64_t kMostLength = std::uint64_t{1} << 62;

// A frame's numbers are MessagePack's: a byte for the type, then a big-endian number.
std::uint64_t number_at(bytes_in frame, std::size_t at, std::size_t bytes) {
  return load_big(frame.subspan(at, bytes));
}

// Reads MessagePack's objects in order. It fails after its end, and at an object of another type than requested.
class msgpack_reader {
 public:
  explicit msgpack_reader(bytes_in from) noexcept : from_(from) {}

  bool ok() const noexcept { return ok_; }
  std::uint64_t byte() { return take(1); }
  /// The lower four bits of an object with the upper four bits `type`: an array's or a text's size.
  std::size_t small(std::uint64_t type) {
    const std::uint64_t value = byte();
    ok_ = ok_ && (value & 0xf0) == type;
    return static_cast<std::size_t>(value & 0x0f);
  }
  std::uint64_t number(std::uint64_t type, std::size_t bytes) {
    ok_ = ok_ && byte() == type;
    return take(bytes);
  }
  std::string_view text(std::size_t bytes) {
    if (bytes > from_.size()) ok_ = false;
    if (!ok_) return {};
    const std::string_view out(reinterpret_cast<const char*>(from_.data()), bytes);
    from_ = from_.subspan(bytes);
    return out;
  }

 private:
  std::uint64_t take(std::size_t bytes) {
    if (bytes > from_.size()) ok_ = false;
    if (!ok_) return 0;
    const std::uint64_t value = load_big(from_.first(bytes));
    from_ = from_.subspan(bytes);
    return value;
  }

  bytes_in from_;
  bool ok_ = true;
};

// The metalayer "b2nd": an array that is divided into chunks, and those into blocks. Blocks at the upper end of a chunk
// are whole, too; their elements beyond the chunk have no meaning.
struct blocked_shape {
  using lengths = std::array<std::uint64_t, kMostDimensions>;
  std::size_t rank = 0;
  lengths array{}, chunk{}, block{};

  /// Returns nothing if `from` is not a valid layer.
  static std::optional<blocked_shape> parse(bytes_in from) {
    msgpack_reader in(from);
    blocked_shape made;
    const std::size_t members = in.small(0x90);
    in.byte();  // the version
    made.rank = static_cast<std::size_t>(in.byte());
    if (!in.ok() || members < 5 || made.rank > kMostDimensions || made.rank == 0) return std::nullopt;
    struct part {
      lengths& into;
      std::uint64_t type;
      std::size_t bytes;
    };
    for (const part& each : {part{made.array, 0xd3, 8}, part{made.chunk, 0xd2, 4}, part{made.block, 0xd2, 4}}) {
      if (in.small(0x90) != made.rank) return std::nullopt;
      for (std::size_t d = 0; d < made.rank; ++d) each.into[d] = in.number(each.type, each.bytes);
    }
    if (!in.ok()) return std::nullopt;
    for (std::size_t d = 0; d < made.rank; ++d) {
      if (made.block[d] == 0 || made.block[d] > made.chunk[d] || made.array[d] > kMostLength) return std::nullopt;
    }
    return made;
  }

  std::uint64_t chunks(std::size_t d) const noexcept { return (array[d] + chunk[d] - 1) / chunk[d]; }
  std::uint64_t blocks(std::size_t d) const noexcept { return (chunk[d] + block[d] - 1) / block[d]; }

  /// The product of `of(d)` over the dimensions; kUnbounded if it does not fit.
  template <class Of>
  std::uint64_t product(Of of) const noexcept {
    std::uint64_t out = 1;
    for (std::size_t d = 0; d < rank; ++d) out = saturating_mul(out, of(d));
    return out;
  }
};

// Counts through the indices below `ends`, the last the fastest. Returns false after the last one.
template <class Ends>
bool next(blocked_shape::lengths& at, std::size_t rank, Ends ends) noexcept {
  for (std::size_t d = rank; d-- > 0;) {
    if (++at[d] < ends(d)) return true;
    at[d] = 0;
  }
  return false;
}

// Copies a decoded chunk, block by block, to its place in the array.
void place_chunk(const blocked_shape& shape, const blocked_shape::lengths& chunk, bytes_in from,
                 std::span<std::byte> array, std::uint64_t item) {
  const std::size_t rank = shape.rank, last = rank - 1;
  blocked_shape::lengths block{};
  const std::byte* row = from.data();
  do {
    blocked_shape::lengths inside{};  // of a row: its last index stays 0
    do {
      std::uint64_t offset = 0, run = 0;
      bool used = true;
      for (std::size_t d = 0; d < rank; ++d) {
        const std::uint64_t in_chunk = block[d] * shape.block[d] + inside[d];
        const std::uint64_t index = chunk[d] * shape.chunk[d] + in_chunk;
        used = used && in_chunk < shape.chunk[d] && index < shape.array[d];
        offset = offset * shape.array[d] + index;
        if (d == last && used) {
          run = std::min({shape.block[d], shape.chunk[d] - in_chunk, shape.array[d] - index});
        }
      }
      if (used) std::memcpy(array.data() + offset * item, row, static_cast<std::size_t>(run * item));
      row += shape.block[last] * item;
    } while (next(inside, rank, [&](std::size_t d) { return d == last ? 1 : shape.block[d]; }));
  } while (next(block, rank, [&](std::size_t d) { return shape.blocks(d); }));
}

class blosc2_codec final : public decode_only_codec {
 public:
  blosc2_codec() : decode_only_codec("hdf5.blosc2", "hdf5.blosc2") {}

  // Blocks are stored whole: along each dimension a chunk may have nearly twice its elements. A chunk that needs more
  // than this has very many dimensions and few elements.
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return saturating_add(saturating_mul(decoded_bytes, 16), 65536);
  }

  result<bytes_in> decode(bytes_in encoded, std::span<std::byte> out, worker_scratch& scratch) const override {
    PENSTOCK_ASSIGN(const frame from, open(encoded));
    PENSTOCK_ASSIGN(const std::optional<blocked_shape> shape, shape_of(from));
    const std::uint64_t bytes =
        shape ? saturating_mul(shape->product([&](std::size_t d) { return shape->array[d]; }), from.item_bytes)
              : from.decoded_bytes;
    PENSTOCK_ASSIGN(const auto room, take(out, bytes, scratch));
    if (room.empty()) return bytes_in(room);
    if (from.chunk_bytes == 0) return damaged("it has chunks of 0 bytes");
    if (shape) {
      PENSTOCK_TRY(decode_blocked(from, *shape, room, scratch));
      return bytes_in(room);
    }
    const std::uint64_t chunks = (bytes + from.chunk_bytes - 1) / from.chunk_bytes;
    PENSTOCK_ASSIGN(const bytes_in offsets, offsets_of(from, chunks, scratch));
    for (std::uint64_t i = 0; i < chunks; ++i) {
      const std::uint64_t first = i * from.chunk_bytes;
      PENSTOCK_TRY(decode_chunk(from, offsets, i,
                                room.subspan(static_cast<std::size_t>(first),
                                             static_cast<std::size_t>(std::min(from.chunk_bytes, bytes - first))),
                                scratch));
    }
    return bytes_in(room);
  }

 private:
  struct frame {
    bytes_in metalayers, chunks, rest;  // `rest` begins with the chunks' offsets
    std::uint64_t decoded_bytes, chunk_bytes, item_bytes;
  };

  result<frame> open(bytes_in encoded) const {
    if (encoded.size() < kFixedHeader) return damaged(fmt::format("it has {} bytes", encoded.size()));
    constexpr std::array<std::uint8_t, 10> kMagic = {0x9e, 0xa8, 'b', '2', 'f', 'r', 'a', 'm', 'e', 0};
    if (std::memcmp(encoded.data(), kMagic.data(), kMagic.size()) != 0) return damaged("it is not a Blosc 2 frame");
    const std::uint64_t header = number_at(encoded, 0x0b, 4), whole = number_at(encoded, 0x10, 8);
    if (number_at(encoded, 0x1a, 1) != 0) {
      return error{errc::unsupported, "hdf5.blosc2 data: a frame whose chunks are files is not readable"};
    }
    if (whole > encoded.size() || header > whole || header < kFixedHeader) {
      return damaged(
          fmt::format("a frame of {} bytes with a header of {}, there are {}", whole, header, encoded.size()));
    }
    encoded = encoded.first(static_cast<std::size_t>(whole));
    frame made;
    made.decoded_bytes = number_at(encoded, 0x1e, 8);
    const std::uint64_t stored = number_at(encoded, 0x27, 8);
    made.item_bytes = number_at(encoded, 0x30, 4);
    made.chunk_bytes = number_at(encoded, 0x3a, 4);
    if (stored > whole - header)
      return damaged(fmt::format("chunks of {} bytes, there are {}", stored, whole - header));
    if (made.item_bytes == 0) return damaged("items of 0 bytes");
    made.metalayers = encoded.first(static_cast<std::size_t>(header));
    made.chunks = encoded.subspan(static_cast<std::size_t>(header), static_cast<std::size_t>(stored));
    made.rest = encoded.subspan(static_cast<std::size_t>(header + stored));
    return made;
  }

  // The metalayers are an array of three: the size of the index, a map from names to offsets in the header, the values.
  result<std::optional<blocked_shape>> shape_of(const frame& from) const {
    if (from.metalayers.size() == kFixedHeader) return std::optional<blocked_shape>();
    msgpack_reader in(from.metalayers.subspan(kFixedHeader));
    in.small(0x90);
    in.number(0xcd, 2);
    const std::uint64_t count = in.number(0xde, 2);
    for (std::uint64_t i = 0; in.ok() && i < count; ++i) {
      const std::uint64_t length = in.byte();  // a text of up to 31 bytes
      const std::string_view name = in.text(static_cast<std::size_t>(length & 0x1f));
      const std::uint64_t offset = in.number(0xd2, 4);
      if (!in.ok() || name != "b2nd") continue;
      if (offset > from.metalayers.size() || from.metalayers.size() - offset < 5)
        return damaged("a metalayer is truncated");
      const bytes_in value = from.metalayers.subspan(static_cast<std::size_t>(offset));
      const std::uint64_t bytes = number_at(value, 1, 4);  // after the byte of the type
      if (bytes > value.size() - 5) return damaged("a metalayer is truncated");
      const auto shape = blocked_shape::parse(value.subspan(5, static_cast<std::size_t>(bytes)));
      if (!shape) return damaged("its shape is not readable");
      return shape;
    }
    if (!in.ok()) return damaged("its metalayers are not readable");
    return std::optional<blocked_shape>();
  }

  // The offsets of chunks are in a chunk of their own, 64 bits each.
  result<bytes_in> offsets_of(const frame& from, std::uint64_t chunks, worker_scratch& scratch) const {
    PENSTOCK_ASSIGN(const blosc2_chunk index, blosc2_chunk::parse(from.rest));
    if (index.decoded_bytes() != saturating_mul(chunks, 8)) {
      return damaged(fmt::format("an index of {} bytes for {} chunks", index.decoded_bytes(), chunks));
    }
    PENSTOCK_ASSIGN(const auto out, scratch.libraries().nested().stage(2).reserve(index.decoded_bytes()));
    PENSTOCK_TRY(index.decode(out.first(static_cast<std::size_t>(index.decoded_bytes())), scratch));
    return bytes_in(out.data(), static_cast<std::size_t>(index.decoded_bytes()));
  }

  result<> decode_chunk(const frame& from, bytes_in offsets, std::uint64_t which, std::span<std::byte> out,
                        worker_scratch& scratch) const {
    const std::uint64_t at = load_little(offsets.subspan(static_cast<std::size_t>(which) * 8, 8));
    if ((at >> 63) != 0) {  // no chunk, but the kind of the value that all elements have
      const std::uint64_t kind = at >> 56 & 7;
      if (kind != 1 && kind != 4) {
        return error{errc::unsupported,
                     fmt::format("hdf5.blosc2 data: chunk {} is a special value of kind {}", which, kind)};
      }
      std::fill(out.begin(), out.end(), std::byte{0});
      return {};
    }
    if (at >= from.chunks.size()) return damaged(fmt::format("chunk {} is at byte {}", which, at));
    PENSTOCK_ASSIGN(const blosc2_chunk chunk, blosc2_chunk::parse(from.chunks.subspan(static_cast<std::size_t>(at))));
    if (chunk.decoded_bytes() != out.size()) {
      return damaged(
          fmt::format("chunk {} decodes to {} bytes, expected {}", which, chunk.decoded_bytes(), out.size()));
    }
    return chunk.decode(out, scratch);
  }

  result<> decode_blocked(const frame& from, const blocked_shape& shape, std::span<std::byte> out,
                          worker_scratch& scratch) const {
    const std::uint64_t chunks = shape.product([&](std::size_t d) { return shape.chunks(d); });
    const std::uint64_t padded = saturating_mul(
        shape.product([&](std::size_t d) { return saturating_mul(shape.blocks(d), shape.block[d]); }), from.item_bytes);
    if (padded != from.chunk_bytes || saturating_mul(chunks, padded) > max_encoded_bytes(out.size())) {
      return damaged(fmt::format("{} chunks of {} bytes, with blocks of {}, decode to {}", chunks, from.chunk_bytes,
                                 padded, out.size()));
    }
    PENSTOCK_ASSIGN(const bytes_in offsets, offsets_of(from, chunks, scratch));
    PENSTOCK_ASSIGN(auto blocks, scratch.libraries().nested().stage(3).reserve(padded));
    blocks = blocks.first(static_cast<std::size_t>(padded));
    blocked_shape::lengths at{};
    std::uint64_t which = 0;
    do {
      PENSTOCK_TRY(decode_chunk(from, offsets, which++, blocks, scratch));
      place_chunk(shape, at, blocks, out, from.item_bytes);
    } while (next(at, shape.rank, [&](std::size_t d) { return shape.chunks(d); }));
    return {};
  }
};

}  // namespace

result<compiled_codec> make_hdf5_blosc2_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_TRY(codec_members::of(config, {}));
  return compressed_stage(std::make_shared<blosc2_codec>(), input);
}

}  // namespace penstock::inline v0
