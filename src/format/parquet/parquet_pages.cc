#include "format/parquet/parquet_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "codec/codec_chain.h"
#include "format/parquet/snappy.h"
#include "format/parquet/thrift_reader.h"

namespace penstock::inline v0 {
namespace {

constexpr std::int64_t kDataPage = 0, kIndexPage = 1, kDictionaryPage = 2, kDataPageV2 = 3;
constexpr std::int64_t kPlain = 0, kPlainDictionary = 2, kRle = 3, kRleDictionary = 8;
constexpr std::int64_t kUncompressed = 0, kSnappy = 1, kGzip = 2, kZstd = 6;
constexpr std::array<std::string_view, 8> kTypes = {"BOOLEAN", "INT32",  "INT64",      "INT96",
                                                    "FLOAT",   "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"};
constexpr std::array<std::string_view, 8> kCodecs = {"UNCOMPRESSED", "SNAPPY", "GZIP", "LZO",
                                                     "BROTLI",       "LZ4",    "ZSTD", "LZ4_RAW"};
constexpr std::array<std::string_view, 10> kEncodings = {
    "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
    "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
    "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};

template <std::size_t kCount>
std::string name_of(const std::array<std::string_view, kCount>& names, std::int64_t which) {
  if (which >= 0 && which < static_cast<std::int64_t>(kCount))
    return std::string(names[static_cast<std::size_t>(which)]);
  return fmt::format("{}", which);
}

error bad_page(std::string_view what) { return {errc::corrupt_data, fmt::format("Parquet page: {}", what)}; }

std::uint64_t little_endian(const std::byte* from, std::size_t bytes) noexcept {
  std::uint64_t out = 0;
  for (std::size_t i = bytes; i-- > 0;) out = out << 8 | static_cast<std::uint64_t>(from[i]);
  return out;
}

/// Decodes `count` numbers of the RLE and bit-packed hybrid encoding; calls `take(value, how often)` for each run.
template <class Take>
result<> read_hybrid(std::span<const std::byte> from, unsigned width, std::uint64_t count, Take take) {
  const std::size_t value_bytes = (width + 7) / 8;
  std::size_t at = 0;
  while (count != 0) {
    std::uint64_t head = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (at == from.size() || shift > 28) return bad_page("a run of numbers ends early");
      const auto byte = static_cast<std::uint64_t>(from[at++]);
      head |= (byte & 0x7F) << shift;
      if (byte < 0x80) break;
    }
    if ((head & 1) == 0) {
      const std::uint64_t times = std::min(head >> 1, count);
      if (times == 0 || from.size() - at < value_bytes) return bad_page("a run of numbers ends early");
      PENSTOCK_TRY(take(little_endian(from.data() + at, value_bytes), times));
      at += value_bytes;
      count -= times;
      continue;
    }
    const std::uint64_t packed = head >> 1;  // groups of 8 numbers, of `width` bytes each
    const std::uint64_t values = std::min(packed * 8, count);
    if (packed == 0 || (values * width + 7) / 8 > from.size() - at) return bad_page("a run of numbers ends early");
    std::uint64_t bits = 0;
    for (std::uint64_t i = 0; i < values; ++i, bits += width) {
      std::uint64_t value = 0;
      for (unsigned b = 0; b < width; ++b) {
        const std::uint64_t bit = bits + b;
        value |= (static_cast<std::uint64_t>(from[at + static_cast<std::size_t>(bit / 8)]) >> (bit % 8) & 1) << b;
      }
      PENSTOCK_TRY(take(value, std::uint64_t{1}));
    }
    at += static_cast<std::size_t>(std::min<std::uint64_t>(packed * width, from.size() - at));
    count -= values;
  }
  return {};
}

result<> decode_with(std::string_view codec, std::span<const std::byte> bytes, std::span<std::byte> out) {
  const json settings = json::object_t{{"level", json(std::int64_t{1})}};
  const std::vector<codec_config> codecs = {{"bytes", {}}, {std::string(codec), settings}};
  PENSTOCK_ASSIGN(const codec_chain chain,
                  codec_chain::compile(codecs, dtype(dtype_kind::unsigned_integer, 8), {out.size()}));
  strided_box all(1);
  all[0] = {0, 1, out.size()};
  decode_target target;
  target.data = out.data();
  target.strides = {1};
  target.in_cell = &all;
  target.covers_cell = true;
  worker_scratch scratch;
  return chain.decode(bytes, target, scratch);
}

}  // namespace

std::string parquet_type_name(std::int64_t type) { return name_of(kTypes, type); }

result<parquet_pages::page> parquet_pages::next_page() {
  thrift_reader in(left_);
  page out;
  const auto data = [&](const thrift_reader::field& each) {
    if (each.id == 1)
      out.values = in.integer(each);
    else if (each.id == 2)
      out.encoding = in.integer(each);
    else if (each.id == 3)
      out.level_encoding = in.integer(each);
    else
      in.skip(each.kind);
  };
  const auto dictionary = [&](const thrift_reader::field& each) {
    if (each.id == 1)
      out.values = in.integer(each);
    else if (each.id == 2)
      out.encoding = in.integer(each);
    else
      in.skip(each.kind);  // whether it is sorted
  };
  const auto data_v2 = [&](const thrift_reader::field& each) {
    switch (each.id) {
      case 1:
        out.values = in.integer(each);
        return;
      case 4:
        out.encoding = in.integer(each);
        return;
      case 5:
        out.level_bytes = in.integer(each);
        return;
      case 6:
        out.repetition_bytes = in.integer(each);
        return;
      case 7:
        out.is_compressed = in.boolean(each);
        return;
      default:
        in.skip(each.kind);
    }
  };
  in.structure([&](const thrift_reader::field& each) {
    const bool nested = each.kind == thrift_reader::type::structure;
    if (each.id == 1)
      out.kind = in.integer(each);
    else if (each.id == 2)
      out.decoded = in.integer(each);
    else if (each.id == 3)
      out.encoded = in.integer(each);
    else if (nested && each.id == 5)
      in.structure(data);
    else if (nested && each.id == 7)
      in.structure(dictionary);
    else if (nested && each.id == 8)
      in.structure(data_v2);
    else
      in.skip(each.kind);
  });
  if (in.failed()) return bad_page("its header is not readable");
  left_ = left_.subspan(in.position());
  if (out.encoded < 0 || out.encoded > static_cast<std::int64_t>(left_.size()) || out.decoded < 0 || out.values < 0)
    return bad_page(fmt::format("{} bytes, {} are left", out.encoded, left_.size()));
  return out;
}

result<std::span<const std::byte>> parquet_pages::decoded(std::span<const std::byte> bytes, std::uint64_t size,
                                                          bool is_compressed, parquet_values& out) {
  if (!is_compressed || of_.codec == kUncompressed) {
    if (bytes.size() != size) return bad_page(fmt::format("{} bytes, {} are expected", bytes.size(), size));
    return bytes;
  }
  if (of_.codec != kSnappy && of_.codec != kGzip && of_.codec != kZstd) {
    return error(errc::unsupported,
                 fmt::format("Parquet page: compression {} is not readable", name_of(kCodecs, of_.codec)));
  }
  if (size > bytes_left_)
    return error(errc::unsupported, fmt::format("Parquet page: {} bytes, {} more are readable", size, bytes_left_));
  bytes_left_ -= size;
  if (size == 0) return std::span<const std::byte>();
  std::vector<std::byte> made(static_cast<std::size_t>(size));
  if (of_.codec == kSnappy) {
    PENSTOCK_TRY(decode_snappy(bytes, made));
  } else {
    PENSTOCK_TRY(decode_with(of_.codec == kGzip ? "gzip" : "zstd", bytes, made));
  }
  return std::span<const std::byte>(out.pages.emplace_back(std::move(made)));
}

result<> parquet_pages::read(std::uint64_t first, std::uint64_t rows, parquet_values& out) {
  std::uint64_t done = 0;
  while (done < rows) {
    if (left_.empty()) return bad_page(fmt::format("{} rows of {} have pages", done, rows));
    PENSTOCK_ASSIGN(const page next, next_page());
    const auto bytes = left_.first(static_cast<std::size_t>(next.encoded));
    left_ = left_.subspan(static_cast<std::size_t>(next.encoded));
    if (next.kind == kIndexPage) continue;
    if (next.kind == kDictionaryPage) {
      PENSTOCK_TRY(read_dictionary(next, bytes, out));
      continue;
    }
    if (next.kind != kDataPage && next.kind != kDataPageV2)
      return error(errc::unsupported, fmt::format("Parquet page: kind {} is not readable", next.kind));
    if (static_cast<std::uint64_t>(next.values) > rows - done)
      return bad_page(fmt::format("{} values, {} rows are left", next.values, rows - done));
    PENSTOCK_TRY(read_data(next, bytes, first + done, out));
    done += static_cast<std::uint64_t>(next.values);
  }
  return {};
}

result<> parquet_pages::read_dictionary(const page& of, std::span<const std::byte> bytes, parquet_values& out) {
  if (has_dictionary_) return bad_page("a second dictionary");
  has_dictionary_ = true;
  if (of.encoding != kPlain && of.encoding != kPlainDictionary) {
    return error(errc::unsupported, fmt::format("Parquet page: a dictionary of encoding {} is not readable",
                                                name_of(kEncodings, of.encoding)));
  }
  PENSTOCK_ASSIGN(const auto plain, decoded(bytes, static_cast<std::uint64_t>(of.decoded), true, out));
  return read_plain(plain, static_cast<std::uint64_t>(of.values), numbers_, texts_);
}

result<> parquet_pages::read_data(const page& of, std::span<const std::byte> bytes, std::uint64_t first,
                                  parquet_values& out) {
  const auto values = static_cast<std::uint64_t>(of.values);
  std::span<const std::byte> levels, body;
  if (of.kind == kDataPageV2) {
    if (of.repetition_bytes != 0 || of.level_bytes < 0 || of.level_bytes > of.encoded || of.level_bytes > of.decoded)
      return bad_page("levels that are longer than the page");
    levels = bytes.first(static_cast<std::size_t>(of.level_bytes));
    PENSTOCK_ASSIGN(body, decoded(bytes.subspan(levels.size()), static_cast<std::uint64_t>(of.decoded - of.level_bytes),
                                  of.is_compressed, out));
  } else {
    PENSTOCK_ASSIGN(body, decoded(bytes, static_cast<std::uint64_t>(of.decoded), true, out));
    if (of_.optional) {
      if (of.level_encoding != kRle) {
        return error(errc::unsupported, fmt::format("Parquet page: definition levels of encoding {} are not readable",
                                                    name_of(kEncodings, of.level_encoding)));
      }
      if (body.size() < 4) return bad_page("it has no definition levels");
      const std::uint64_t size = little_endian(body.data(), 4);
      if (size > body.size() - 4) return bad_page("definition levels that are longer than the page");
      levels = body.subspan(4, static_cast<std::size_t>(size));
      body = body.subspan(4 + levels.size());
    }
  }
  const std::size_t before = out.rows.size();
  std::uint64_t row = first;
  const auto add_rows = [&](std::uint64_t level, std::uint64_t times) -> result<> {
    if (level > 1) return bad_page(fmt::format("a definition level of {}", level));
    for (std::uint64_t i = 0; i < times && level == 1; ++i) out.rows.push_back(static_cast<std::uint32_t>(row + i));
    row += times;
    return {};
  };
  if (of_.optional) {
    PENSTOCK_TRY(read_hybrid(levels, 1, values, add_rows));
  } else {
    PENSTOCK_TRY(add_rows(1, values));
  }
  return read_values(of, body, out.rows.size() - before, out);
}

result<> parquet_pages::read_values(const page& of, std::span<const std::byte> bytes, std::uint64_t count,
                                    parquet_values& out) {
  if (of.encoding == kPlain) return read_plain(bytes, count, out.numbers, out.texts);
  if (of.encoding != kPlainDictionary && of.encoding != kRleDictionary) {
    return error(errc::unsupported,
                 fmt::format("Parquet page: encoding {} is not readable", name_of(kEncodings, of.encoding)));
  }
  if (count == 0) return {};
  if (!has_dictionary_) return bad_page("it has no dictionary");
  if (bytes.empty()) return bad_page("it ends early");
  const auto width = static_cast<unsigned>(bytes.front());
  if (width > 32) return bad_page(fmt::format("numbers of {} bits", width));
  const bool is_text = of_.type == kParquetByteArray;
  const std::size_t known = is_text ? texts_.size() : numbers_.size();
  return read_hybrid(bytes.subspan(1), width, count, [&](std::uint64_t which, std::uint64_t times) -> result<> {
    if (which >= known) return bad_page(fmt::format("number {} in a dictionary of {}", which, known));
    if (is_text)
      out.texts.insert(out.texts.end(), static_cast<std::size_t>(times), texts_[static_cast<std::size_t>(which)]);
    else
      out.numbers.insert(out.numbers.end(), static_cast<std::size_t>(times), numbers_[static_cast<std::size_t>(which)]);
    return {};
  });
}

result<> parquet_pages::read_plain(std::span<const std::byte> bytes, std::uint64_t count,
                                   std::vector<std::int64_t>& numbers, std::vector<std::string_view>& texts) const {
  if (of_.type == kParquetByteArray) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t size = bytes.size() < 4 ? 0 : little_endian(bytes.data(), 4);
      if (bytes.size() < 4 || size > bytes.size() - 4) return bad_page("it ends early");
      texts.emplace_back(reinterpret_cast<const char*>(bytes.data() + 4), static_cast<std::size_t>(size));
      bytes = bytes.subspan(4 + static_cast<std::size_t>(size));
    }
    return {};
  }
  const std::size_t width = of_.type == kParquetInt32 ? 4 : 8;
  if (count > bytes.size() / width) return bad_page("it ends early");
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t value = little_endian(bytes.data() + static_cast<std::size_t>(i) * width, width);
    numbers.push_back(width == 4 ? static_cast<std::int32_t>(static_cast<std::uint32_t>(value))
                                 : static_cast<std::int64_t>(value));
  }
  return {};
}

}  // namespace penstock::inline v0
