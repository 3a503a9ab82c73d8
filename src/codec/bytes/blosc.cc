#include <blosc.h>
#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <limits>

#include "codec/byte_codecs.h"
#include "codec/codec_members.h"
#include "codec/device_form.h"
#include "codec/library_contexts.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kCompressors[] = {BLOSC_BLOSCLZ_COMPNAME, BLOSC_LZ4_COMPNAME,  BLOSC_LZ4HC_COMPNAME,
                                             BLOSC_SNAPPY_COMPNAME,  BLOSC_ZLIB_COMPNAME, BLOSC_ZSTD_COMPNAME};
constexpr std::string_view kShuffles[] = {"noshuffle", "shuffle", "bitshuffle"};
static_assert(BLOSC_NOSHUFFLE == 0 && BLOSC_SHUFFLE == 1 && BLOSC_BITSHUFFLE == 2);

constexpr int kNoDecoder = -5;  // of blosc_decompress_ctx

std::uint32_t little_endian_32(const std::byte* at) noexcept {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<std::uint32_t>(at[i]);
  return value;
}

// A Blosc 1 frame: 16 bytes of header, then one offset for each block, then the blocks' splits, each with its length.
// Source: c-blosc README_CHUNK_FORMAT.rst.
struct frame_header {
  std::uint32_t version, flags, item_bytes, decoded_bytes, block_bytes, encoded_bytes;

  explicit frame_header(const std::byte* at) noexcept
      : version(static_cast<std::uint32_t>(at[0])),
        flags(static_cast<std::uint32_t>(at[2])),
        item_bytes(static_cast<std::uint32_t>(at[3])),
        decoded_bytes(little_endian_32(at + 4)),
        block_bytes(little_endian_32(at + 8)),
        encoded_bytes(little_endian_32(at + 12)) {}

  std::uint32_t compressor_format() const noexcept { return flags >> 5; }
  bool is_copy() const noexcept { return (flags & BLOSC_MEMCPYED) != 0; }
  // Runs that are compressed one after the other in a block: one for each byte of an item, if that is worthwhile.
  std::uint64_t splits(std::uint64_t bytes) const noexcept {
    const bool can_split = (flags & 0x10) == 0 && item_bytes <= 16 && bytes / item_bytes >= 128 && bytes == block_bytes;
    return can_split ? item_bytes : 1;
  }
  std::uint64_t blocks() const noexcept {
    return block_bytes == 0 ? 0 : (std::uint64_t{decoded_bytes} + block_bytes - 1) / block_bytes;
  }
};

template <class... Values>
error corrupt(fmt::format_string<Values...> text, Values&&... values) {
  return {errc::corrupt_data, fmt::format(text, std::forward<Values>(values)...)};
}

// Everything that c-blosc 1.21.3 does not check, or reports with a bare -1, is checked here. c-blosc fills a block only
// as far as whole splits reach. The sum that it returns then reveals lengths that do not divide.
result<> check(const frame_header& header, std::span<const std::byte> encoded, std::uint64_t room) {
  if (header.version != BLOSC_VERSION_FORMAT) {
    return corrupt("blosc frame has format version {}, only {} can be read", header.version, BLOSC_VERSION_FORMAT);
  }
  if (header.encoded_bytes != encoded.size()) {
    return corrupt("blosc frame declares {} bytes, it has {}", header.encoded_bytes, encoded.size());
  }
  if (header.decoded_bytes > room || header.decoded_bytes > BLOSC_MAX_BUFFERSIZE) {
    return corrupt("blosc frame declares {} decoded bytes, the output has room for {}", header.decoded_bytes, room);
  }
  std::size_t decoded = 0;
  if (blosc_cbuffer_validate(encoded.data(), encoded.size(), &decoded) != 0 || decoded != header.decoded_bytes) {
    return corrupt("blosc frame has a header that c-blosc refuses");
  }
  if (header.decoded_bytes == 0) return {};
  if (header.compressor_format() > BLOSC_ZSTD_FORMAT) {
    return corrupt("blosc frame has compressor format {}, the last known is {}", header.compressor_format(),
                   BLOSC_ZSTD_FORMAT);
  }
  if (header.item_bytes == 0) return corrupt("blosc frame has items of 0 bytes");
  if (header.block_bytes == 0 || header.block_bytes > header.decoded_bytes ||
      header.block_bytes > static_cast<std::uint32_t>(BLOSC_MAX_BLOCKSIZE)) {
    return corrupt("blosc frame has blocks of {} bytes, it decodes to {}", header.block_bytes, header.decoded_bytes);
  }
  if (header.is_copy()) {
    if (header.encoded_bytes != header.decoded_bytes + BLOSC_MAX_OVERHEAD) {
      return corrupt("blosc frame of {} bytes declares a plain copy of {}", header.encoded_bytes, header.decoded_bytes);
    }
    return {};
  }
  const std::uint64_t first = BLOSC_MIN_HEADER_LENGTH + 4 * header.blocks();
  if (first > header.encoded_bytes) {
    return corrupt("blosc frame of {} bytes has no room for the offsets of {} blocks", header.encoded_bytes,
                   header.blocks());
  }
  for (std::uint64_t block = 0; block < header.blocks(); ++block) {
    const std::uint32_t offset = little_endian_32(encoded.data() + BLOSC_MIN_HEADER_LENGTH + 4 * block);
    if (offset < first || std::uint64_t{offset} + 4 > header.encoded_bytes) {
      return corrupt("blosc frame of {} bytes has block {} at byte {}", header.encoded_bytes, block, offset);
    }
  }
  return {};
}

// c-blosc passes a split to ZSTD_decompress unchecked, and a libzstd may have been built with its decoders from before
// 1.0. No encoder of Blosc frames ever used those: each split is one frame of the current format.
result<> check_zstd_splits(const frame_header& header, std::span<const std::byte> encoded) {
  for (std::uint64_t block = 0; block < header.blocks(); ++block) {
    const std::uint64_t bytes =
        std::min<std::uint64_t>(header.block_bytes, header.decoded_bytes - block * header.block_bytes);
    const std::uint64_t splits = header.splits(bytes);
    std::uint64_t at = little_endian_32(encoded.data() + BLOSC_MIN_HEADER_LENGTH + 4 * block);
    for (std::uint64_t split = 0; split < splits; ++split) {
      if (at + 4 > encoded.size()) return corrupt("blosc frame is damaged (a split begins at byte {})", at);
      const std::uint64_t length = little_endian_32(encoded.data() + at);
      at += 4;
      if (length > encoded.size() - at) return corrupt("blosc frame is damaged (a split has {} bytes)", length);
      const std::byte* const frame = encoded.data() + at;
      const bool stored = length == bytes / splits;
      if (!stored && (length < 4 || little_endian_32(frame) != ZSTD_MAGICNUMBER ||
                      ZSTD_findFrameCompressedSize(frame, length) != length)) {
        return corrupt("blosc frame is damaged (no zstd frame of {} bytes at byte {})", length, at);
      }
      at += length;
    }
  }
  return {};
}

class blosc_codec final : public byte_codec {
 public:
  blosc_codec(std::string_view compressor, int level, int shuffle, std::size_t item_bytes, std::size_t block_bytes)
      : compressor_(compressor), level_(level), shuffle_(shuffle), item_bytes_(item_bytes), block_bytes_(block_bytes) {}

  std::string_view name() const override { return "blosc"; }
  std::string describe() const override {
    return fmt::format("blosc(cname={}, clevel={}, shuffle={})", compressor_, level_, kShuffles[shuffle_]);
  }
  std::optional<device_form> form_on_device() const override { return device_form::of(device_form::kind::blosc); }

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return saturating_add(decoded_bytes, BLOSC_MAX_OVERHEAD);
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (encoded.size() < BLOSC_MIN_HEADER_LENGTH) {
      return corrupt("blosc frame has {} bytes, its header alone has {}", encoded.size(), BLOSC_MIN_HEADER_LENGTH);
    }
    const frame_header header(encoded.data());
    scratch.out_of_room = header.decoded_bytes > out.size();
    PENSTOCK_TRY(check(header, encoded, out.size()));
    if (header.decoded_bytes == 0) return std::span<const std::byte>(out.data(), 0);
    if (header.compressor_format() == BLOSC_ZSTD_FORMAT && !header.is_copy()) {
      PENSTOCK_TRY(check_zstd_splits(header, encoded));
    }
    // c-blosc allocates two blocks of memory for the call, of a size in the file (and at most the chunk's size).
    const temporary_memory taken(scratch.libraries().accounts(), 2 * std::uint64_t{header.block_bytes});
    if (!taken.ok()) {
      return error{errc::resource_exhausted,
                   fmt::format("no memory for two blosc blocks of {} bytes", header.block_bytes)};
    }
    const int made = blosc_decompress_ctx(encoded.data(), out.data(), header.decoded_bytes, 1);
    if (made == kNoDecoder) {
      return error{errc::unsupported, fmt::format("this c-blosc was built without the decoder of compressor format {}",
                                                  header.compressor_format())};
    }
    if (made < 0 || static_cast<std::uint32_t>(made) != header.decoded_bytes) {
      return corrupt("blosc frame is damaged (c-blosc returned {}, expected {} bytes)", made, header.decoded_bytes);
    }
    return std::span<const std::byte>(out.data(), header.decoded_bytes);
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    if (decoded.size() > BLOSC_MAX_BUFFERSIZE) {
      return error{errc::unsupported,
                   fmt::format("blosc encodes {} bytes at most, not {}", BLOSC_MAX_BUFFERSIZE, decoded.size())};
    }
    // c-blosc 1.21.3 stores the size of the output in an int.
    const std::size_t room = std::min<std::size_t>(out.size(), decoded.size() + BLOSC_MAX_OVERHEAD);
    const int made = blosc_compress_ctx(level_, shuffle_, item_bytes_, decoded.size(), decoded.data(), out.data(), room,
                                        compressor_.c_str(), block_bytes_, 1);
    if (made <= 0) {
      return error{errc::internal, fmt::format("blosc cannot encode {} bytes into {} (c-blosc returned {})",
                                               decoded.size(), room, made)};
    }
    return static_cast<std::uint64_t>(made);
  }

 private:
  class temporary_memory {
   public:
    temporary_memory(ledger* accounts, std::uint64_t bytes)
        : accounts_(accounts),
          bytes_(bytes),
          ok_(accounts == nullptr || accounts->take(memory_use::scratch, bytes).ok()) {}
    temporary_memory(const temporary_memory&) = delete;
    temporary_memory& operator=(const temporary_memory&) = delete;
    ~temporary_memory() {
      if (ok_ && accounts_ != nullptr) accounts_->give(memory_use::scratch, bytes_);
    }
    bool ok() const noexcept { return ok_; }

   private:
    ledger* accounts_;
    std::uint64_t bytes_;
    bool ok_;
  };

  std::string compressor_;
  int level_, shuffle_;
  std::size_t item_bytes_, block_bytes_;
};

// In numcodecs, shuffles are numbers: -1 shuffles the bits of single bytes, and the bytes of longer items. Names are
// zarr-python's.
result<std::size_t> numcodecs_shuffle(const codec_members& members, std::int64_t item_bytes) {
  const json* const written = members.find("shuffle");
  if (written != nullptr && written->as_string() != nullptr) return members.choice("shuffle", kShuffles);
  PENSTOCK_ASSIGN(const std::int64_t number, members.integer("shuffle", -1, 2, BLOSC_SHUFFLE));
  if (number >= 0) return static_cast<std::size_t>(number);
  return item_bytes == 1 ? BLOSC_BITSHUFFLE : BLOSC_SHUFFLE;
}

}  // namespace

result<compiled_codec> make_blosc_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members,
                  codec_members::of(config, {"cname", "clevel", "shuffle", "typesize", "blocksize"}));
  const bool defaults = members.numcodecs();
  const auto absent = [defaults](std::size_t value) { return defaults ? std::optional(value) : std::nullopt; };
  PENSTOCK_ASSIGN(const std::size_t compressor, members.choice("cname", kCompressors, absent(1)));
  PENSTOCK_ASSIGN(const std::int64_t level,
                  members.integer("clevel", 0, 9, defaults ? std::optional<std::int64_t>(5) : std::nullopt));
  const std::int64_t item_of_array = std::max<std::int64_t>(1, input.type.item_bytes());
  std::size_t shuffle = BLOSC_NOSHUFFLE;
  if (defaults) {
    PENSTOCK_ASSIGN(shuffle, numcodecs_shuffle(members, item_of_array));
  } else {
    PENSTOCK_ASSIGN(shuffle, members.choice("shuffle", kShuffles));
  }
  // Without shuffling the item size is ignored, whatever it is. c-blosc treats items beyond 255 bytes as single bytes.
  std::int64_t item_bytes = 1;
  if (shuffle != BLOSC_NOSHUFFLE) {
    PENSTOCK_ASSIGN(item_bytes, members.integer("typesize", 1, std::numeric_limits<std::int32_t>::max(),
                                                defaults ? std::optional(item_of_array) : std::nullopt));
  }
  PENSTOCK_ASSIGN(const std::int64_t block_bytes, members.integer("blocksize", 0, BLOSC_MAX_BUFFERSIZE, 0));
  auto made =
      std::make_shared<blosc_codec>(kCompressors[compressor], static_cast<int>(level), static_cast<int>(shuffle),
                                    static_cast<std::size_t>(item_bytes), static_cast<std::size_t>(block_bytes));
  return compressed_stage(std::move(made), input);
}

}  // namespace penstock::inline v0
