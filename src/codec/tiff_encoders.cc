#include "codec/tiff_encoders.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <bit>
#include <cstring>

#include "array/strided_copy.h"
#include "codec/codec_chain.h"
#include "codec/library_contexts.h"
#include "codec/tiff_differences.h"

namespace penstock::inline v0 {
namespace {

struct level_range {
  int lowest, highest, usual;
};

// Nothing: the compression has no levels.
std::optional<level_range> levels_of(tiff_encoding encoding) noexcept {
  switch (encoding) {
    case tiff_encoding::deflate:
      return level_range{1, 12, 6};
    case tiff_encoding::zstd:
      return level_range{1, 22, 9};
    case tiff_encoding::lzma:
      return level_range{0, 9, 6};
    default:
      return std::nullopt;
  }
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
    // Literals up to the next run that is worth two bytes.
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
    return error{errc::invalid_argument, "there is no predictor for complex numbers"};
  if (samples.predictor != 1 && (encoding == tiff_encoding::none || encoding == tiff_encoding::packbits))
    return error{errc::invalid_argument, "a predictor needs compression by deflate, lzw, zstd or lzma"};
  const std::optional<level_range> levels = levels_of(encoding);
  if (level && !levels) return error{errc::invalid_argument, "this compression has no levels"};
  if (level && (*level < levels->lowest || *level > levels->highest)) {
    return error{errc::invalid_argument,
                 fmt::format("the level must be {} to {}, it is {}", levels->lowest, levels->highest, *level)};
  }
  tiff_tile_encoder out;
  out.samples_ = samples;
  out.encoding_ = encoding;
  if (levels) out.level_ = level.value_or(levels->usual);
  const json setting(static_cast<std::int64_t>(out.level_));
  if (encoding == tiff_encoding::zstd) {
    PENSTOCK_ASSIGN(out.compressor_, make_byte_codec({"numcodecs.zstd", json::object_t{{"level", setting}}}, 1));
  } else if (encoding == tiff_encoding::lzma) {
    PENSTOCK_ASSIGN(out.compressor_, make_byte_codec({"numcodecs.lzma", json::object_t{{"preset", setting}}}, 1));
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

result<std::span<std::byte>> tiff_tile_encoder::encode(std::span<std::byte> items, std::size_t reserve,
                                                       tiff_encoder_room& room, worker_scratch& scratch) const {
  std::span<std::byte> from = items;
  if (samples_.predictor == 1) {
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
