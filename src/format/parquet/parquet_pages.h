#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <penstock/result.h>
#include "format/parquet/parquet_file.h"

namespace penstock::inline v0 {

inline constexpr std::int64_t kParquetInt32 = 1, kParquetInt64 = 2, kParquetByteArray = 6;

/// `BOOLEAN`, `INT96`, ...; the number if the type does not exist.
std::string parquet_type_name(std::int64_t type);

/// Reads the pages of one column chunk.
class parquet_pages {
 public:
  struct column {
    std::int64_t type, codec;
    bool optional;  ///< values have definition levels
  };

  /// \param bytes_left  Of decoded pages; reduced by the bytes that are read.
  parquet_pages(std::span<const std::byte> chunk, column of, std::uint64_t& bytes_left)
      : left_(chunk), of_(of), bytes_left_(bytes_left) {}

  /// Adds the values of `rows` rows to `out`, of which the first is `first`. \error corrupt_data, unsupported
  result<> read(std::uint64_t first, std::uint64_t rows, parquet_values& out);

 private:
  struct page {
    std::int64_t kind = -1, decoded = 0, encoded = 0;
    std::int64_t values = 0, encoding = -1, level_encoding = 3;
    std::int64_t level_bytes = 0, repetition_bytes = 0;  // version 2
    bool is_compressed = true;
  };

  result<page> next_page();
  result<std::span<const std::byte>> decoded(std::span<const std::byte> bytes, std::uint64_t size, bool is_compressed,
                                             parquet_values& out);
  result<> read_dictionary(const page& of, std::span<const std::byte> bytes, parquet_values& out);
  result<> read_data(const page& of, std::span<const std::byte> bytes, std::uint64_t first, parquet_values& out);
  result<> read_values(const page& of, std::span<const std::byte> bytes, std::uint64_t count, parquet_values& out);
  result<> read_plain(std::span<const std::byte> bytes, std::uint64_t count, std::vector<std::int64_t>& numbers,
                      std::vector<std::string_view>& texts) const;

  std::span<const std::byte> left_;
  column of_;
  std::uint64_t& bytes_left_;
  bool has_dictionary_ = false;
  std::vector<std::int64_t> numbers_;  // the dictionary
  std::vector<std::string_view> texts_;
};

}  // namespace penstock::inline v0
