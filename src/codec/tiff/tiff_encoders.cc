#include "codec/tiff/tiff_encoders.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "array/strided_copy.h"
#include "base/counted.h"
#include "codec/codec_chain.h"
#include "codec/library_contexts.h"
#include "codec/tiff/tiff_differences.h"
#include "codec/tiff/tiff_pictures.h"

namespace penstock::inline v0 {
namespace {

struct level_range {
  int lowest, highest, usual;
};

// nullopt: the compression has no levels.
std::optional<level_range> levels_of(tiff_encoding encoding) noexcept {
  switch (encoding) {
    case tiff_encoding::deflate:
      return level_range{1, 12, 6};
    case tiff_encoding::zstd:
      return level_range{1, 22, 9};
    case tiff_encoding::lzma:
      return level_range{0, 9, 6};
    case tiff_encoding::jpeg:
      return level_range{1, 100, 75};
    default:
      return std::nullopt;
  }
}

// An encoder allocates memory for its whole dictionary, 94 MiB at the usual level, each time it is created: for a
// smaller tile, the dictionary is smaller.
json lzma_filters(int level, std::uint64_t tile_bytes) {
  constexpr std::uint32_t kPresets[] = {1 << 18, 1 << 20, 1 << 21, 1 << 22, 1 << 22,
                                        1 << 23, 1 << 23, 1 << 24, 1 << 25, 1 << 26};
  constexpr std::uint64_t kLeast = 4096;
  constexpr std::int64_t kLzma2 = 0x21;
  const std::uint64_t dictionary =
      std::min<std::uint64_t>(kPresets[level], std::bit_ceil(std::max(tile_bytes, kLeast)));
  return json::array_t{json(json::object_t{{"id", json(kLzma2)},
                                           {"preset", json(static_cast<std::int64_t>(level))},
                                           {"dict_size", json(static_cast<std::int64_t>(dictionary))}})};
}

// Most significant bit first. Returns the first item that has more bits, or `count`.
template <class T>
std::size_t pack_row(std::byte* to, const std::byte* from, std::size_t count, std::uint32_t bits, bool mask) noexcept {
  std::uint64_t have = 0;
  std::uint32_t held = 0;
  for (std::size_t i = 0; i < count; ++i) {
    T item;
    std::memcpy(&item, from + i * sizeof(T), sizeof(T));
    const auto value = static_cast<std::uint64_t>(mask ? T{item != 0} : item);
    if (value >> bits != 0) return i;
    have = have << bits | value;
    for (held += bits; held >= 8; held -= 8) *to++ = static_cast<std::byte>(have >> (held - 8));
  }
  if (held > 0) *to = static_cast<std::byte>(have << (8 - held));
  return count;
}

std::size_t encode_packbits_row(std::span<const std::byte> row, std::byte* to) noexcept {
  std::byte* const begin = to;
  std::size_t i = 0;
  while (i < row.size()) {
    std::size_t run = 1;
    while (run < 128 && i + run < row.size() && row[i + run] == row[i]) ++run;
    if (run > 1) {
      *to++ = static_cast<std::byte>(257 - run);
      *to++ = row[i];
      i += run;
      continue;
    }
    // Literals up to the next run that saves at least two bytes.
    std::size_t length = 1;
    while (length < 128 && i + length < row.size()) {
      const std::size_t at = i + length;
      if (at + 2 < row.size() && row[at] == row[at + 1] && row[at] == row[at + 2]) break;
      ++length;
    }
    *to++ = static_cast<std::byte>(length - 1);
    std::memcpy(to, row.data() + i, length);
    to += length;
    i += length;
  }
  return static_cast<std::size_t>(to - begin);
}

}  // namespace

std::size_t encode_tiff_packbits(std::span<const std::byte> from, std::size_t row_bytes, std::byte* to) noexcept {
  std::size_t made = 0;
  for (std::size_t at = 0; at < from.size(); at += row_bytes)
    made += encode_packbits_row(from.subspan(at, row_bytes), to + made);
  return made;
}

result<tiff_tile_encoder> tiff_tile_encoder::make(const tiff_samples& samples, tiff_encoding encoding,
                                                  std::optional<int> level) {
  const bool is_complex = samples.kind == sample_kind::complex_floating;
  if (samples.predictor < 1 || samples.predictor > 3) {
    return error{errc::invalid_argument,
                 fmt::format("there is no predictor {}, there are 1, 2 and 3", samples.predictor)};
  }
  if (samples.predictor == 3 && samples.kind != sample_kind::floating)
    return error{errc::invalid_argument, "predictor 3 is for floats"};
  if (samples.predictor == 2 && is_complex)
    return error{errc::invalid_argument, "predictors do not support complex numbers"};
  if (samples.predictor != 1 &&
      (encoding == tiff_encoding::none || encoding == tiff_encoding::packbits || encoding == tiff_encoding::jpeg))
    return error{errc::invalid_argument, "a predictor needs compression by deflate, lzw, zstd or lzma"};
  PENSTOCK_ASSIGN(const dtype type, type_of_samples(samples.bits, samples.kind));
  if (samples.bits != 8 * type.item_bytes()) {
    if (samples.kind != sample_kind::unsigned_integer || samples.bits > 32)
      return error{errc::unsupported,
                   fmt::format("samples of {} must be unsigned integers", counted(samples.bits, "bit"))};
    if (samples.predictor != 1)
      return error{errc::invalid_argument,
                   fmt::format("predictors do not support samples of {}", counted(samples.bits, "bit"))};
  }
  const std::optional<level_range> levels = levels_of(encoding);
  if (level && !levels) return error{errc::invalid_argument, "this compression has no levels"};
  if (level && (*level < levels->lowest || *level > levels->highest)) {
    return error{errc::invalid_argument,
                 fmt::format("the level must be {} to {}, got {}", levels->lowest, levels->highest, *level)};
  }
  tiff_tile_encoder out;
  out.samples_ = samples;
  out.item_ = type.item_bytes();
  out.encoding_ = encoding;
  if (levels) out.level_ = level.value_or(levels->usual);
  const json setting(static_cast<std::int64_t>(out.level_));
  if (encoding == tiff_encoding::zstd) {
    PENSTOCK_ASSIGN(out.compressor_, make_byte_codec({"numcodecs.zstd", json::object_t{{"level", setting}}}, 1));
  } else if (encoding == tiff_encoding::lzma) {
    PENSTOCK_ASSIGN(
        out.compressor_,
        make_byte_codec({"numcodecs.lzma", json::object_t{{"filters", lzma_filters(out.level_, samples.bytes())}}}, 1));
  } else if (encoding == tiff_encoding::jpeg) {
    PENSTOCK_ASSIGN(out.compressor_, make_tiff_jpeg_encoder(samples, out.level_));
  }
  return out;
}

std::span<std::byte> tiff_tile_encoder::predict(std::span<std::byte> items, std::span<std::byte> to,
                                                std::byte* work) const noexcept {
  const std::uint32_t item = samples_.bits / 8;
  const std::size_t count = samples_.width * samples_.samples, row_bytes = count * item;
  const std::uint32_t unit = samples_.kind == sample_kind::complex_floating ? item / 2 : item;
  constexpr bool kSwap = std::endian::native == std::endian::big;
  if (samples_.predictor == 1) {
    if (kSwap && unit > 1) swap_contiguous(items.data(), items.data(), items.size(), unit);
    return items;
  }
  for (std::uint64_t y = 0; y < samples_.rows; ++y) {
    std::byte* const row = to.data() + y * row_bytes;
    const std::byte* const from = items.data() + y * row_bytes;
    if (samples_.predictor == 2) {
      subtract_row(row, from, count, item, samples_.samples);
    } else {
      split_float_row(row, from, count, item, samples_.samples, work);
    }
  }
  if (kSwap && samples_.predictor == 2 && unit > 1) swap_contiguous(to.data(), to.data(), to.size(), unit);
  return to;
}

result<std::span<std::byte>> tiff_tile_encoder::pack(std::span<const std::byte> items, std::span<std::byte> to) const {
  const std::size_t count = samples_.width * samples_.samples, row_bytes = samples_.row_bytes();
  for (std::uint64_t y = 0; y < samples_.rows; ++y) {
    std::byte* const row = to.data() + y * row_bytes;
    const std::byte* const from = items.data() + y * count * item_;
    const std::size_t done = item_ == 1   ? pack_row<std::uint8_t>(row, from, count, samples_.bits, samples_.mask)
                             : item_ == 2 ? pack_row<std::uint16_t>(row, from, count, samples_.bits, samples_.mask)
                                          : pack_row<std::uint32_t>(row, from, count, samples_.bits, samples_.mask);
    if (done != count) {
      return error{errc::invalid_argument,
                   fmt::format("the value in row {}, column {} of the tile needs more than the {} bits of a sample", y,
                               done / samples_.samples, samples_.bits)};
    }
  }
  return to.first(samples_.bytes());
}

result<std::span<std::byte>> tiff_tile_encoder::encode(std::span<std::byte> items, std::size_t reserve,
                                                       tiff_encoder_room& room, worker_scratch& scratch) const {
  std::span<std::byte> from = items;
  if (packs()) {
    PENSTOCK_ASSIGN(const std::span<std::byte> room_for_bits, room.predicted.reserve(samples_.bytes()));
    PENSTOCK_ASSIGN(from, pack(items, room_for_bits));
  } else if (samples_.predictor == 1) {
    from = predict(items, {}, nullptr);
  } else {
    const std::uint64_t row_bytes = samples_.row_bytes();
    PENSTOCK_ASSIGN(const std::span<std::byte> both, room.predicted.reserve(items.size() + row_bytes));
    from = predict(items, both.first(items.size()), both.data() + items.size());
  }

  std::uint64_t most = from.size();
  switch (encoding_) {
    case tiff_encoding::none:
      break;
    case tiff_encoding::packbits:
      most = max_tiff_packbits_bytes(samples_.rows, samples_.row_bytes());
      break;
    case tiff_encoding::lzw:
      most = max_tiff_lzw_bytes(from.size());
      break;
    case tiff_encoding::deflate:
      most = libdeflate_zlib_compress_bound(nullptr, from.size());
      break;
    default:
      most = compressor_->max_encoded_bytes(from.size());
  }
  PENSTOCK_ASSIGN(const std::span<std::byte> all, room.encoded.reserve(most + 2 * reserve));
  const std::span<std::byte> out = all.subspan(reserve, most);
  std::uint64_t made = 0;
  switch (encoding_) {
    case tiff_encoding::none:
      std::memcpy(out.data(), from.data(), from.size());
      made = from.size();
      break;
    case tiff_encoding::packbits:
      made = encode_tiff_packbits(from, samples_.row_bytes(), out.data());
      break;
    case tiff_encoding::lzw:
      made = encode_tiff_lzw(from, out.data());
      break;
    case tiff_encoding::deflate: {
      PENSTOCK_ASSIGN(libdeflate_compressor* const context, scratch.libraries().gzip_encoder(level_));
      made = libdeflate_zlib_compress(context, from.data(), from.size(), out.data(), out.size());
      if (made == 0) return error{errc::internal, fmt::format("deflate cannot encode {} bytes", from.size())};
      break;
    }
    default: {
      PENSTOCK_ASSIGN(made, compressor_->encode(from, out, scratch));
    }
  }
  return out.first(made);
}

}  // namespace penstock::inline v0
