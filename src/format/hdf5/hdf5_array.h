#pragma once

#include <penstock/result.h>
#include <penstock/shape.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/extend/json.h>
#include "format/hdf5/hdf5_chunk_index.h"
#include "format/hdf5/hdf5_compound.h"
#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_element.h"
#include "format/hdf5/hdf5_file.h"
#include "format/hdf5/hdf5_mappings.h"
#include "format/hdf5/hdf5_tree.h"
#include "format/hdf5/hdf5_typed_values.h"

namespace penstock::inline v0 {

/// A dataset as an array whose cells are byte ranges of the file, from its header and its chunk index.
struct hdf5_array {
  /// A chain of codecs that differs from that of most cells.
  struct variant {
    std::vector<std::uint32_t> skipped;  ///< indexes into `filters` of `zarray`
    std::optional<extents> shape;        ///< of cells that are shorter than the others
  };

  /// Elements that are stored elsewhere in the file, for which the dataset has references.
  struct variable_elements {
    hdf5_element::outside what = hdf5_element::outside::text;
    std::uint32_t reference_bytes = 0;
    bool utf8 = false;                                      ///< of text
    std::shared_ptr<const hdf5_list_item> items = nullptr;  ///< of lists
    std::uint32_t stored_bytes = 0;                         ///< of one stored element, with the reference at `offset`
    std::uint32_t offset = 0;
    std::vector<std::byte> fill = {};  ///< the stored element of unwritten ones; empty: unwritten elements are empty

    /// The reference of a stored element.
    std::span<const std::byte> reference(std::span<const std::byte> stored) const noexcept {
      return stored.subspan(offset, reference_bytes);
    }
  };

  /// Values in another file. Several files follow each other.
  struct external_file {
    std::string name;          ///< as in the header
    std::uint64_t offset = 0;  ///< of the first value
    std::uint64_t bytes = 0;
  };

  /// The parts of other datasets that a virtual dataset shows. They replace the chunks of `zarray`.
  struct virtual_parts {
    std::vector<hdf5_mapping> mappings;  ///< in the order of the file
    hdf5_shape shape;                    ///< of the dataspace; mappings without a limit may extend it
  };

  json zarray;      ///< shape, dtype, chunks, filters and fill value, as in a .zarray
  json attributes;  ///< an object, without the attributes that netCDF and dimension scales use internally
  std::vector<hdf5_typed_value> typed_attributes;
  /// How the dataset is stored: `chunks` (null: it has none), `maxshape` (null: without a limit), `filters` (pairs of
  /// name, or number if it has none, and parameters), `dtype` and `shape` of an element, `text` (of variable length:
  /// "utf-8" or "ascii"; else null), `list` (the type of the items of lists), `reference` (true: text that names
  /// objects), `levels` (of a member within arrays of compounds: the shape of the array of each compound, which `shape`
  /// begins with), and of an enumeration whose type has a name `enum_name` and `enum`, pairs of name and number.
  json storage;
  /// Empty, or one for each dimension, from the dimension scales.
  std::vector<std::optional<std::string>> dimension_names;

  std::uint64_t cell_count = 0;
  std::vector<std::uint64_t> cells;  ///< ascending; empty: entry i is cell i
  std::vector<std::uint64_t> offsets, lengths;
  std::vector<std::uint32_t> files;   ///< for each cell, the number of its external file; empty: they are in this file
  std::vector<std::uint16_t> chains;  ///< 0: the usual chain, k: variants[k - 1]; empty: all 0
  std::vector<variant> variants;
  /// For many chunks: finds them, and replaces `cells`, `offsets`, `lengths` and `chains`. Then `variants` has the
  /// chains of all masks, in their order from 1 on.
  std::shared_ptr<const hdf5_chunk_index> index;
  /// The values themselves, if they are in the header: offsets count within them.
  std::optional<std::vector<std::byte>> inline_bytes;
  std::vector<external_file> external;
  /// One of the external files ends inside a row: offsets count within the concatenation of all files.
  bool external_is_one = false;
  /// For values in several external files: the positions along the first dimension where cells end, from 0. Empty:
  /// `zarray` has the chunks.
  std::vector<std::uint64_t> edges;
  std::optional<virtual_parts> mapped;
  /// If set, `zarray` describes the references, as bytes.
  std::optional<variable_elements> variable;
};

/// Whether a dataset has a list of all chunks, or an index that finds them.
enum class hdf5_chunk_listing : std::uint8_t {
  whole,
  by_need,      ///< an index, if there are many chunks
  by_need_most  ///< also an index for few chunks, if reading the list needs a fetch
};

/// Reads everything that an array needs from the dataset at a place.
///
/// Memory is proportional to the size of the dataset's metadata in the file. Values of contiguous datasets must be
/// within the file.
/// \param field  A member of the elements, which becomes the array; null: the elements themselves.
/// \error unsupported   Element types, filters, fill values and layouts that are not readable, by name.
/// \error corrupt_data  The dataset is damaged.
result<hdf5_array> read_hdf5_array(hdf5_file& file, hdf5_tree& tree, const hdf5_place& at,
                                   hdf5_chunk_listing listing = hdf5_chunk_listing::whole,
                                   const hdf5_field* field = nullptr);

/// A fill value as in a .zarray: null if it is undefined.
/// \error unsupported   The fill value of an array type has different elements.
/// \error corrupt_data  Its size differs from that of its type.
result<json> hdf5_fill_json(const hdf5_fill& fill, const hdf5_type& type, const hdf5_element& element);

}  // namespace penstock::inline v0
