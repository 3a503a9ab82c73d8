#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <vector>

#include <penstock/extend/json.h>
#include "codec/hdf5/hdf5_number.h"
#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_type.h"

namespace penstock::inline v0 {

/// An element type of a file as Zarr v2 metadata writes it, and the codecs that make its items of the stored ones.
struct hdf5_element {
  /// Text of a fixed length within an item: `count` texts of `bytes` bytes from `offset`.
  struct text {
    std::uint64_t offset = 0, count = 1, bytes = 0;
    bool spaces = false;  ///< padded with spaces; else ended by a zero
    friend bool operator==(const text&, const text&) = default;
  };

  /// What elements are that are elsewhere in the file: the dataset has references to them.
  enum class outside : std::uint8_t {
    nothing,
    text,    ///< of variable length, in heaps
    list,    ///< of variable length, in heaps
    object,  ///< the path of an object
    region   ///< elements of a dataset, as hdf5_region_text writes them
  };

  json dtype;                        ///< a type string, or a list of fields in which fields without a name are gaps
  std::uint32_t item_bytes = 0;      ///< of one item of `dtype`
  std::vector<std::uint64_t> shape;  ///< of an array type: further axes of the dataset
  json bits;                         ///< the codec that makes usual numbers of these; null: they are usual
  std::uint32_t stored_bytes = 0;    ///< of one item in the file
  std::vector<text> texts;           ///< what follows the end of these is not part of the value
  outside elsewhere = outside::nothing;
  json list_item;  ///< of a list: the type of its items, as `dtype`; else null

  bool is_elsewhere() const noexcept { return elsewhere != outside::nothing; }

  /// What makes items of the stored ones, as filters of a .zarray. Empty: they are the same.
  json::array_t codecs() const;

  friend bool operator==(const hdf5_element&, const hdf5_element&) = default;
};

/// How an integer, a bit field or a floating-point number is stored.
hdf5_number_form hdf5_form_of(const hdf5_type& type) noexcept;

/// The element type that an HDF5 type comes to.
/// \error unsupported  Types that no array here has, by name: lists of lists, times, unusual floats.
/// \error corrupt_data  Members of a compound overlap.
result<hdf5_element> hdf5_element_of(const hdf5_type& type);

/// The codec of a filter, with its configuration, as a filter of a .zarray; null where decoding has nothing to do.
///
/// \param element_bytes  Of one element of the dataset.
/// \error unsupported  No decoder for the filter, by name; parameters that the filter does not have.
result<json> hdf5_codec_of(const hdf5_filter& filter, std::uint64_t element_bytes);

}  // namespace penstock::inline v0
