#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <memory>
#include <vector>

#include <penstock/extend/json.h>
#include "codec/hdf5/hdf5_number.h"
#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_type.h"

namespace penstock::inline v0 {

struct hdf5_list_item;

/// An element type of a file as Zarr v2 metadata writes it, with the codecs that convert stored items to it.
struct hdf5_element {
  /// Text of a fixed length within an item: `count` texts of `bytes` bytes from `offset`.
  struct text {
    std::uint64_t offset = 0, count = 1, bytes = 0;
    bool spaces = false;  ///< padded with spaces; otherwise terminated by a zero
    friend bool operator==(const text&, const text&) = default;
  };

  /// The kind of elements that are stored elsewhere in the file, for which the dataset has references.
  enum class outside : std::uint8_t {
    nothing,
    text,    ///< of variable length, in heaps
    list,    ///< of variable length, in heaps
    object,  ///< the path of an object
    region,  ///< the selected elements of a dataset, as hdf5_region_text writes them
    any      ///< a reference of HDF5 1.12, as hdf5_reference_text writes it
  };

  json dtype;                        ///< a type string, or a list of fields in which those without a name are gaps
  std::uint32_t item_bytes = 0;      ///< of one item of `dtype`
  std::vector<std::uint64_t> shape;  ///< of an array type: its axes, which are appended to the dataset's
  json bits;                         ///< the codec that converts to machine numbers; null: no conversion is needed
  std::uint32_t stored_bytes = 0;    ///< of one item in the file
  std::vector<text> texts;           ///< bytes after the end of these are not part of the value
  outside elsewhere = outside::nothing;
  std::shared_ptr<const hdf5_list_item> items;  ///< of a list; else null

  bool is_elsewhere() const noexcept { return elsewhere != outside::nothing; }
  bool is_reference() const noexcept {
    return elsewhere == outside::object || elsewhere == outside::region || elsewhere == outside::any;
  }

  /// The codecs that convert stored items, as filters of a .zarray. Empty: no conversion is needed.
  json::array_t codecs() const;

  friend bool operator==(const hdf5_element&, const hdf5_element&) = default;
};

/// How a file stores the items of a list of variable length.
struct hdf5_list_item {
  json type;                       ///< as in a .zarray, with the shape of arrays; the codec of items of variable length
  std::uint32_t stored_bytes = 0;  ///< of one item in the file
  std::uint32_t item_bytes = 0;    ///< of one item of `type`
  json codec;                      ///< converts stored items; null: no conversion is needed
  hdf5_element::outside elsewhere = hdf5_element::outside::nothing;
  std::shared_ptr<const hdf5_list_item> items;  ///< of lists of lists

  bool is_elsewhere() const noexcept { return elsewhere != hdf5_element::outside::nothing; }
  /// Whether the bytes in the file are those in memory, apart from their order.
  bool is_plain() const noexcept { return !is_elsewhere() && codec.is_null(); }
  /// Whether there are references in it, at any depth.
  bool has_references() const noexcept {
    return items ? items->has_references() : is_elsewhere() && elsewhere != hdf5_element::outside::text;
  }
};

/// Checks the size of an element that is stored elsewhere. \error corrupt_data  It differs from that of its kind.
result<> check_hdf5_reference(hdf5_element::outside what, const hdf5_type& type, std::size_t offset_bytes);

/// The storage form of an integer, a bit field or a floating-point number.
hdf5_number_form hdf5_form_of(const hdf5_type& type) noexcept;

/// The element type for an HDF5 type.
/// \error unsupported  Types that arrays cannot have, by name: lists of arrays of text, times, unusual floats.
/// \error corrupt_data  Members of a compound overlap.
result<hdf5_element> hdf5_element_of(const hdf5_type& type);

/// The codec of a filter with its configuration, as a filter of a .zarray; null if decoding does nothing.
///
/// \param element_bytes  Size of one element of the dataset.
/// \error unsupported  The filter has no decoder, or has unknown parameters; by name.
result<json> hdf5_codec_of(const hdf5_filter& filter, std::uint64_t element_bytes);

}  // namespace penstock::inline v0
