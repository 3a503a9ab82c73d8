#include "codec/hdf5/blosc2_chunk.h"

#include <fmt/format.h>
#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/little_endian.h"
#include "codec/filters/bit_planes.h"
#include "codec/filters/shuffle.h"
#include "codec/hdf5/blosclz.h"
#include "codec/library_contexts.h"

namespace penstock::inline v0 {
namespace {

using bytes_in = std::span<const std::byte>;

constexpr std::size_t kHeaderBytes = 32;
constexpr std::uint32_t kFirstVersion = 3, kLastVersion = 6;
constexpr std::uint32_t kMostBytes = std::numeric_limits<std::int32_t>::max();

enum compressor : std::uint8_t { kBlosclz = 0, kLz4 = 1, kZlib = 3, kZstd = 4, kPlugin = 6 };

template <class... Values>
error corrupt(fmt::format_string<Values...> text, Values&&... values) {
  return {errc::corrupt_data, "blosc2 chunk " + fmt::format(text, std::forward<Values>(values)...)};
}
template <class... Values>
error unsupported(fmt::format_string<Values...> text, Values&&... values) {
  return {errc::unsupported, "blosc2 chunk " + fmt::format(text, std::forward<Values>(values)...)};
}

std::uint32_t word(bytes_in from, std::size_t at) noexcept {
  return static_cast<std::uint32_t>(little_endian(from.data() + at, 4));
}

const std::uint8_t* bytes_of(bytes_in from) noexcept { return reinterpret_cast<const std::uint8_t*>(from.data()); }

// Fills `to` with copies of `value`, and with the beginning of one if it does not end with a whole one.
void repeat(bytes_in value, std::span<std::byte> to) noexcept {
  for (std::size_t at = 0; at < to.size(); at += value.size()) {
    std::memcpy(to.data() + at, value.data(), std::min(value.size(), to.size() - at));
  }
}

bool lz4(bytes_in from, std::span<std::byte> to, bytes_in dictionary) noexcept {
  const int made = LZ4_decompress_safe_usingDict(
      reinterpret_cast<const char*>(from.data()), reinterpret_cast<char*>(to.data()), static_cast<int>(from.size()),
      static_cast<int>(to.size()), reinterpret_cast<const char*>(dictionary.data()),
      static_cast<int>(dictionary.size()));
  return made >= 0 && static_cast<std::size_t>(made) == to.size();
}

}  // namespace

result<blosc2_chunk::filter> blosc2_chunk::filter_of(std::uint8_t number) {
  switch (number) {
    case 0:
      return filter::none;
    case 1:
      return filter::bytes;
    case 2:
      return filter::bits;
    case 3:
      return filter::delta;
    case 4:
      return filter::rounded;  // the rounded numbers are stored
    default:
      return unsupported("has filter {}, which belongs to a plugin", number);
  }
}

result<blosc2_chunk> blosc2_chunk::parse(bytes_in from) {
  if (from.size() < kHeaderBytes) {
    return corrupt("has {} bytes, its header alone has {}", from.size(), kHeaderBytes);
  }
  const std::uint8_t* const header = bytes_of(from);
  const std::uint32_t version = header[0], flags = header[2], blosc2_flags = header[31];
  constexpr std::uint32_t kExtended = 0x05;  // byte shuffle and bit shuffle, which exclude each other in Blosc 1
  if (version < kFirstVersion || version > kLastVersion || (flags & kExtended) != kExtended) {
    return corrupt("has format version {} and flags {:#x}, versions {} to {} with the long header are readable",
                   version, flags, kFirstVersion, kLastVersion);
  }
  if (header[30] != 0) return unsupported("has blocks of different lengths");
  if ((blosc2_flags & 0x08) != 0) return corrupt("has no data");
  if ((blosc2_flags & 0x80) != 0) return unsupported("has statistics of an instrumented codec instead of data");

  blosc2_chunk made;
  const std::uint32_t encoded_bytes = word(from, 12);
  made.decoded_bytes_ = word(from, 4);
  made.block_bytes_ = std::min<std::uint64_t>(word(from, 8), made.decoded_bytes_);
  made.item_bytes_ = header[3];
  if (encoded_bytes < kHeaderBytes || encoded_bytes > from.size()) {
    return corrupt("declares {} bytes, there are {}", encoded_bytes, from.size());
  }
  made.encoded_ = from.first(encoded_bytes);
  if (made.decoded_bytes_ > kMostBytes) return corrupt("declares {} decoded bytes", made.decoded_bytes_);
  if (made.item_bytes_ == 0) return corrupt("has items of 0 bytes");

  switch (blosc2_flags >> 4 & 7) {
    case 0:
      break;
    case 1:
    case 4:  // values that were never set: zeros here
      made.content_ = content::zeros;
      return made;
    case 2:
      if (made.item_bytes_ != 4 && made.item_bytes_ != 8) {
        return corrupt("consists of NaN, its items have {} bytes", made.item_bytes_);
      }
      made.content_ = content::nans;
      return made;
    case 3:
      if (encoded_bytes == kHeaderBytes) return corrupt("repeats a value of 0 bytes");
      made.content_ = content::repeated_value;
      return made;
    default:
      return corrupt("has special values of kind {}", blosc2_flags >> 4 & 7);
  }
  if (made.decoded_bytes_ == 0) return made;
  if ((flags & 0x02) != 0) {
    if (encoded_bytes != kHeaderBytes + made.decoded_bytes_) {
      return corrupt("of {} bytes declares a plain copy of {}", encoded_bytes, made.decoded_bytes_);
    }
    made.content_ = content::copy;
    return made;
  }

  made.compressor_ = static_cast<std::uint8_t>(flags >> 5);
  if (made.compressor_ == kPlugin) return unsupported("has codec {}, which belongs to a plugin", header[22]);
  if (made.compressor_ == 2 || made.compressor_ > kZstd) return corrupt("has codec {}", made.compressor_);
  made.splits_ = (flags & 0x10) == 0;
  bool moved = false;
  for (std::size_t i = 0; i < made.filters_.size(); ++i) {
    if (version == kFirstVersion && i == 5) break;  // it had five filters; the byte of the sixth was left as it was
    PENSTOCK_ASSIGN(made.filters_[i], filter_of(header[16 + i]));
    made.filter_settings_[i] = header[24 + i];
    // Differences are taken to elements of the chunk's first block. After another filter, a decoder would use whatever
    // bytes it has there.
    if (made.filters_[i] == filter::delta && moved) return unsupported("takes differences of shuffled bytes");
    moved = moved || (made.filters_[i] != filter::none && made.filters_[i] != filter::rounded);
  }
  if (made.block_bytes_ == 0) return corrupt("has blocks of 0 bytes");
  const std::uint64_t blocks = (made.decoded_bytes_ + made.block_bytes_ - 1) / made.block_bytes_;
  if (kHeaderBytes + 4 * blocks > encoded_bytes) {
    return corrupt("of {} bytes has no room for the offsets of {} blocks", encoded_bytes, blocks);
  }
  if ((blosc2_flags & 0x01) != 0) {  // a dictionary follows the offsets
    const bytes_in rest = made.encoded_.subspan(kHeaderBytes + 4 * static_cast<std::size_t>(blocks));
    if (rest.size() < 4 || word(rest, 0) > rest.size() - 4) return corrupt("has a dictionary that is truncated");
    made.dictionary_ = rest.subspan(4, word(rest, 0));
  }
  return made;
}

result<> blosc2_chunk::decode(std::span<std::byte> out, worker_scratch& scratch) const {
  const bytes_in content_bytes = encoded_.subspan(kHeaderBytes);
  switch (content_) {
    case content::blocks:
      break;
    case content::copy:
      std::memcpy(out.data(), content_bytes.data(), out.size());
      return {};
    case content::zeros:
      std::fill(out.begin(), out.end(), std::byte{0});
      return {};
    case content::nans: {
      constexpr std::uint8_t kNan[] = {0, 0, 0xc0, 0x7f, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f};  // of 4 bytes, of 8
      repeat(std::as_bytes(std::span(kNan).subspan(item_bytes_ == 4 ? 0 : 4, item_bytes_)), out);
      return {};
    }
    case content::repeated_value:  // of any length, also beyond the 255 bytes that the header can hold
      repeat(content_bytes, out);
      return {};
  }
  for (std::uint64_t block = 0; block * block_bytes_ < decoded_bytes_; ++block) {
    PENSTOCK_TRY(decode_block(block, out, scratch));
  }
  return {};
}

result<> blosc2_chunk::decode_block(std::uint64_t block, std::span<std::byte> out, worker_scratch& scratch) const {
  const std::uint64_t first = block * block_bytes_;
  const auto bytes = static_cast<std::size_t>(std::min(block_bytes_, decoded_bytes_ - first));
  const std::span<std::byte> place = out.subspan(static_cast<std::size_t>(first), bytes);
  const std::uint32_t at = word(encoded_, kHeaderBytes + 4 * static_cast<std::size_t>(block));
  if (at < kHeaderBytes || at >= encoded_.size()) {
    return corrupt("of {} bytes has block {} at byte {}", encoded_.size(), block, at);
  }

  // Shuffles move bytes from one buffer to another, and the last one to the block's place.
  const auto shuffles = [](filter each) { return each == filter::bytes || each == filter::bits; };
  auto left = std::count_if(filters_.begin(), filters_.end(), shuffles);
  worker_scratch& buffers = scratch.libraries().nested();
  std::span<std::byte> from = place, to = place;
  if (left > 0) {
    PENSTOCK_ASSIGN(from, buffers.stage(0).reserve(bytes));
    from = from.first(bytes);
  }
  if (left > 1) {
    PENSTOCK_ASSIGN(to, buffers.stage(1).reserve(bytes));
    to = to.first(bytes);
  }
  PENSTOCK_TRY(decode_streams(encoded_.subspan(at), from, splits_ && bytes == block_bytes_, scratch));
  for (std::size_t i = filters_.size(); i-- > 0;) {
    if (shuffles(filters_[i])) {
      if (--left == 0) to = place;
      undo(i, from, to);
      std::swap(from, to);
    } else if (filters_[i] == filter::delta) {
      undo_differences(out, first, bytes);
    }
  }
  return {};
}

// A block is one stream, or as many as an item has bytes.
result<> blosc2_chunk::decode_streams(bytes_in from, std::span<std::byte> to, bool split,
                                      worker_scratch& scratch) const {
  const std::size_t streams = split ? item_bytes_ : 1;
  if (to.size() % streams != 0) return corrupt("has {} streams in a block of {} bytes", streams, to.size());
  const std::size_t bytes = to.size() / streams;
  for (std::size_t i = 0; i < streams; ++i) {
    const std::span<std::byte> out = to.subspan(i * bytes, bytes);
    if (from.size() < 4) return corrupt("ends before a stream");
    const auto says = static_cast<std::int32_t>(word(from, 0));
    from = from.subspan(4);
    if (says <= 0) {  // one value for all bytes: 0, or the negated number
      if (says < 0) {
        if (from.empty() || (from[0] & std::byte{1}) == std::byte{0} || says < -255) {
          return corrupt("has a stream of {} bytes", says);
        }
        from = from.subspan(1);
      }
      std::fill(out.begin(), out.end(), static_cast<std::byte>(-says));
      continue;
    }
    const auto stored = static_cast<std::size_t>(says);
    if (stored > from.size()) return corrupt("has a stream of {} bytes, {} are left", stored, from.size());
    if (stored == bytes) {
      std::memcpy(out.data(), from.data(), bytes);
    } else {
      PENSTOCK_TRY(decompress(from.first(stored), out, scratch));
    }
    from = from.subspan(stored);
  }
  return {};
}

result<> blosc2_chunk::decompress(bytes_in from, std::span<std::byte> to, worker_scratch& scratch) const {
  bool whole = false;
  switch (compressor_) {
    case kBlosclz:
      whole = decompress_blosclz(from, to);
      break;
    case kLz4:
      whole = from.size() <= kMostBytes && lz4(from, to, dictionary_);
      break;
    case kZlib: {
      PENSTOCK_ASSIGN(libdeflate_decompressor* const context, scratch.libraries().gzip_decoder());
      whole = libdeflate_zlib_decompress(context, from.data(), from.size(), to.data(), to.size(), nullptr) ==
              LIBDEFLATE_SUCCESS;
      break;
    }
    default: {
      PENSTOCK_ASSIGN(ZSTD_DCtx* const context, scratch.libraries().zstd_decoder());
      // One frame of the current format: a libzstd may have been built with its decoders from before 1.0.
      whole = from.size() >= 4 && word(from, 0) == ZSTD_MAGICNUMBER &&
              ZSTD_findFrameCompressedSize(from.data(), from.size()) == from.size() &&
              ZSTD_decompress_usingDict(context, to.data(), to.size(), from.data(), from.size(), dictionary_.data(),
                                        dictionary_.size()) == to.size();
    }
  }
  if (!whole) return corrupt("is damaged (a stream of {} bytes does not decode to {})", from.size(), to.size());
  return {};
}

// Bytes that are not a whole item, or a whole group of eight items, follow the others unchanged.
void blosc2_chunk::undo(std::size_t which, bytes_in from, std::span<std::byte> to) const {
  std::size_t whole = 0;
  if (filters_[which] == filter::bytes) {
    const std::size_t item = filter_settings_[which] == 0 ? item_bytes_ : filter_settings_[which];
    if (item > 1) {
      whole = from.size() - from.size() % item;
      unshuffle(from.data(), whole / item, 0, to.first(whole), item);
    }
  } else {
    const std::size_t items = from.size() / item_bytes_, grouped = items - items % kBitGroup;
    whole = grouped * item_bytes_;
    unshuffle_bits(bytes_of(from), reinterpret_cast<std::uint8_t*>(to.data()), grouped, item_bytes_);
  }
  if (whole < from.size()) std::memcpy(to.data() + whole, from.data() + whole, from.size() - whole);
}

// Each element was combined by exclusive or: with the one before it in the chunk's first block, with the element at the
// same place of the first block in the others.
void blosc2_chunk::undo_differences(std::span<std::byte> chunk, std::uint64_t first, std::size_t bytes) const {
  const std::size_t element = item_bytes_ == 2 || item_bytes_ == 4 ? item_bytes_ : item_bytes_ % 8 == 0 ? 8 : 1;
  const std::size_t whole = bytes - bytes % element, begin = static_cast<std::size_t>(first);
  if (begin == 0) {
    for (std::size_t i = element; i < whole; ++i) chunk[i] ^= chunk[i - element];
  } else {
    for (std::size_t i = 0; i < whole; ++i) chunk[begin + i] ^= chunk[i];
  }
}

}  // namespace penstock::inline v0
