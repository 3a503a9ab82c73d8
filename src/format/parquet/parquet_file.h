#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// Limits for a file.
struct parquet_limits {
  std::uint64_t rows = 1'000'000;
  std::uint64_t bytes = std::uint64_t{1} << 27;  ///< of all pages that are read, decoded
};

/// Values of one column. Rows without a value are omitted.
struct parquet_values {
  std::vector<std::uint32_t> rows;      ///< ascending
  std::vector<std::int64_t> numbers;    ///< for columns of INT32 and INT64: one for each of `rows`
  std::vector<std::string_view> texts;  ///< for columns of BYTE_ARRAY: the same; views of the file and of `pages`
  std::vector<std::vector<std::byte>> pages;
};

/// A Parquet file of a flat table, for reading columns of whole numbers and bytes whole.
///
/// Data pages of both versions; encodings PLAIN, PLAIN_DICTIONARY and RLE_DICTIONARY; UNCOMPRESSED, SNAPPY, GZIP and
/// ZSTD. Pages are read in order: offsets to data pages that contradict the file are refused.
///
/// The bytes of the file are borrowed, also by the result of `read`. Source: Apache Parquet format 2.10,
/// "parquet.thrift", "Encodings.md".
class parquet_file {
 public:
  /// Parses the footer.
  /// \error corrupt_data  It is not a Parquet file, or contradicts itself.
  /// \error unsupported   It has more rows than `limits` allow, is encrypted or has nested columns.
  static result<parquet_file> open(std::span<const std::byte> file, const parquet_limits& limits = {});

  std::uint64_t rows() const noexcept { return rows_; }
  std::size_t columns() const noexcept { return columns_.size(); }
  const std::string& name(std::size_t which) const noexcept { return columns_[which].name; }

  /// Reads all values of a column.
  /// \error corrupt_data  A page contradicts itself or the footer.
  /// \error unsupported   Its type, compression or encoding, by name; more bytes than the limits allow.
  result<parquet_values> read(std::size_t which) const;

 private:
  struct column {
    std::string name;
    std::int64_t type = -1;
    bool optional = false;
  };
  struct chunk {
    std::int64_t type = -1, codec = 0, values = 0, data_offset = 0, dictionary_offset = 0, bytes = 0;
  };
  struct row_group {
    std::vector<chunk> chunks;
    std::int64_t rows = 0;
  };
  class footer_parser;
  class chunk_reader;

  std::span<const std::byte> file_;
  parquet_limits limits_;
  std::uint64_t rows_ = 0;
  std::vector<column> columns_;
  std::vector<row_group> groups_;
};

}  // namespace penstock::inline v0
