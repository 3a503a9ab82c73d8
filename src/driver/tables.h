#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::inline v0 {

/// The kinds of files that the driver of tables recognises.
enum class table_kind : std::uint8_t { none, parquet, arrow_file, arrow_stream };

/// The kind of a file with these first bytes.
table_kind kind_of_table(std::span<const std::byte> begin) noexcept;

}  // namespace penstock::inline v0
