#pragma once

#include <penstock/result.h>
#include <penstock/shape.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <penstock/extend/json.h>
#include "array/contiguous_blocks.h"

namespace penstock::inline v0 {

/// The header before the items of a `.npy` file. Source: NumPy, numpy/lib/format.py ("Format Version 1.0", 2.0, 3.0).
struct npy_header {
  /// The dtype as in `dtype.descr`: a type string, or a list of fields (tuples are lists).
  json descr;
  storage_order order = storage_order::c;
  extents shape;
  std::uint64_t data_offset = 0;  ///< of the first item
};

/// The size of the first read of a file: NumPy pads headers to 64 bytes, and most have 128.
inline constexpr std::uint64_t kNpyProbeBytes = 128;
/// The longest header: thousands of fields.
inline constexpr std::uint64_t kMaxNpyHeaderBytes = std::uint64_t{1} << 20;

/// True if the bytes begin a `.npy` file.
bool is_npy(std::span<const std::byte> begin) noexcept;

/// The length of a header, from the first bytes of its file.
///
/// \error corrupt_data  Not a `.npy` file, or a truncated one. \error unsupported  A version, or a header that is
/// longer than kMaxNpyHeaderBytes.
result<std::uint64_t> npy_header_bytes(std::span<const std::byte> begin);

/// Parses a header; `begin` has npy_header_bytes bytes of the file, or more.
///
/// \error corrupt_data  Not a dictionary of descr, fortran_order and shape. \error unsupported  Pickled objects.
result<npy_header> parse_npy_header(std::span<const std::byte> begin);

/// NumPy's type as Python text, for headers of `.npy` files: `'<f4'`, `[('a', '<i4'), ('b', '<f8', (2,))]`.
/// \param descr  A type string, or the JSON of a list of fields.
/// \error invalid_argument  It is neither of them.
result<std::string> python_descr(std::string_view descr);

/// A header as NumPy writes it, padded to 64 bytes. It has the first version that can hold the text.
///
/// \param descr  Python text, as `dtype::numpy_descr` or `python_descr` returns it.
std::string write_npy_header(std::string_view descr, storage_order order, const extents& shape);

}  // namespace penstock::inline v0
