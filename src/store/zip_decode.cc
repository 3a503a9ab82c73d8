#include "store/zip_decode.h"

#include <bzlib.h>
#include <fmt/format.h>
#include <libdeflate.h>
#include <lzma.h>
#include <zstd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string_view>

#include "store/zip_records.h"

namespace penstock::inline v0 {
namespace {

error damaged(std::string_view what) { return {errc::corrupt_data, fmt::format("the zip entry {}", what)}; }

error no_memory() { return {errc::resource_exhausted, "no memory for a decompressor"}; }

result<> inflate(std::span<const std::byte> encoded, std::span<std::byte> out) {
  struct close {
    void operator()(libdeflate_decompressor* which) const noexcept { libdeflate_free_decompressor(which); }
  };
  const std::unique_ptr<libdeflate_decompressor, close> context(libdeflate_alloc_decompressor());
  if (!context) return no_memory();
  std::size_t made = 0;
  const auto outcome =
      libdeflate_deflate_decompress(context.get(), encoded.data(), encoded.size(), out.data(), out.size(), &made);
  if (outcome != LIBDEFLATE_SUCCESS || made != out.size())
    return damaged(fmt::format("does not inflate to its {} bytes", out.size()));
  return {};
}

// libbz2 uses 32-bit counts and reads through a pointer that is not const.
bool decode_bzip2(std::span<const std::byte> encoded, std::span<std::byte> out) noexcept {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
  bz_stream stream{};
  if (BZ2_bzDecompressInit(&stream, 0, 0) != BZ_OK) return false;
  int code = BZ_OK;
  bool moved = true;
  while (code == BZ_OK && moved) {
    const auto in = static_cast<unsigned>(std::min(encoded.size(), kMostAtOnce));
    const auto room = static_cast<unsigned>(std::min(out.size(), kMostAtOnce));
    stream.next_in = const_cast<char*>(reinterpret_cast<const char*>(encoded.data()));  // NOLINT
    stream.avail_in = in;
    stream.next_out = reinterpret_cast<char*>(out.data());
    stream.avail_out = room;
    code = BZ2_bzDecompress(&stream);
    moved = stream.avail_in != in || stream.avail_out != room;
    encoded = encoded.subspan(in - stream.avail_in);
    out = out.subspan(room - stream.avail_out);
  }
  BZ2_bzDecompressEnd(&stream);
  return code == BZ_STREAM_END && out.empty();
}

// The memory that liblzma may use for a window and its tables.
constexpr std::uint64_t kLzmaMemory = std::uint64_t{256} << 20;

// Two bytes of version, two of a length, then that many of properties, then LZMA without a header of its own.
result<bool> decode_lzma(std::span<const std::byte> encoded, std::span<std::byte> out) {
  constexpr std::size_t kHeader = 4;
  if (encoded.size() < kHeader) return false;
  const std::size_t properties = zip::u16(encoded, 2);
  if (encoded.size() - kHeader < properties) return false;
  lzma_filter filters[2] = {{LZMA_FILTER_LZMA1, nullptr}, {LZMA_VLI_UNKNOWN, nullptr}};
  const auto* const from = reinterpret_cast<const std::uint8_t*>(encoded.data());
  if (lzma_properties_decode(&filters[0], nullptr, from + kHeader, properties) != LZMA_OK) return false;
  struct freed {
    void operator()(void* which) const noexcept { std::free(which); }
  };
  const std::unique_ptr<void, freed> owner(filters[0].options);
  // A window larger than the decoded data is never used.
  auto* const options = static_cast<lzma_options_lzma*>(filters[0].options);
  const std::uint64_t window = std::max<std::uint64_t>(out.size(), LZMA_DICT_SIZE_MIN);
  if (options->dict_size > window) options->dict_size = static_cast<std::uint32_t>(window);
  if (lzma_raw_decoder_memusage(filters) > kLzmaMemory)
    return error(errc::unsupported, fmt::format("zip entries of LZMA windows of {} bytes", options->dict_size));
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_raw_decoder(&stream, filters) != LZMA_OK) return no_memory();
  stream.next_in = from + kHeader + properties;
  stream.avail_in = encoded.size() - kHeader - properties;
  stream.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  stream.avail_out = out.size();
  // The end may be marked or not: the number of bytes and their checksum are decisive.
  lzma_ret code = LZMA_OK;
  while (code == LZMA_OK && stream.avail_out > 0) code = lzma_code(&stream, LZMA_RUN);
  const bool whole = (code == LZMA_OK || code == LZMA_STREAM_END) && stream.avail_out == 0;
  lzma_end(&stream);
  return whole;
}

bool decode_xz(std::span<const std::byte> encoded, std::span<std::byte> out) noexcept {
  std::uint64_t memory = kLzmaMemory;
  std::size_t read = 0, made = 0;
  const lzma_ret code =
      lzma_stream_buffer_decode(&memory, 0, nullptr, reinterpret_cast<const std::uint8_t*>(encoded.data()), &read,
                                encoded.size(), reinterpret_cast<std::uint8_t*>(out.data()), &made, out.size());
  return code == LZMA_OK && made == out.size();
}

}  // namespace

result<> check_crc(std::span<const std::byte> out, const zip_entry& entry) {
  const std::uint32_t found = out.empty() ? 0 : libdeflate_crc32(0, out.data(), out.size());
  if (found == entry.crc) return {};
  return damaged(fmt::format("has the checksum {:08x}, its directory has {:08x}", found, entry.crc));
}

result<> check_method(const zip_entry& entry) {
  if (entry.encrypted()) return error(errc::unsupported, "encrypted zip entries are not supported");
  switch (entry.method) {
    case zip_method::stored:
    case zip_method::deflated:
    case zip_method::bzip2:
    case zip_method::lzma:
    case zip_method::zstd:
    case zip_method::xz:
      return {};
  }
  const char* const names[] = {"", "shrunk", "", "", "", "", "imploded", "", "", "deflate64"};
  const auto number = static_cast<unsigned>(entry.method);
  const char* const name = number < std::size(names) ? names[number] : "";
  return error(errc::unsupported, fmt::format("zip entries of compression method {}{}{} are not supported", number,
                                              *name != '\0' ? ", " : "", name));
}

result<> check_growth(const zip_entry& entry) {
  // Deflate expands by at most 1032; the other methods have no such bound.
  if (entry.method == zip_method::deflated && entry.decoded_bytes / 1032 > entry.encoded_bytes)
    return damaged(fmt::format("cannot be {} bytes, deflated to {}", entry.decoded_bytes, entry.encoded_bytes));
  return {};
}

result<> decode_entry(const zip_entry& entry, std::span<const std::byte> encoded, std::span<std::byte> out) {
  bool whole = false;
  switch (entry.method) {
    case zip_method::deflated:
      PENSTOCK_TRY(inflate(encoded, out));
      whole = true;
      break;
    case zip_method::bzip2:
      whole = decode_bzip2(encoded, out);
      break;
    case zip_method::lzma: {
      PENSTOCK_ASSIGN(whole, decode_lzma(encoded, out));
      break;
    }
    case zip_method::zstd:
      whole = ZSTD_decompress(out.data(), out.size(), encoded.data(), encoded.size()) == out.size();
      break;
    case zip_method::xz:
      whole = decode_xz(encoded, out);
      break;
    case zip_method::stored:
      return error(errc::internal, "a stored zip entry has nothing to decode");
  }
  if (!whole) return damaged(fmt::format("does not decompress to its {} bytes", out.size()));
  return check_crc(out, entry);
}

}  // namespace penstock::inline v0
