#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/array.h>

namespace penstock::inline v0 {

/// An array of references in the form of Zarr 2.
struct exported_array {
  std::string path;  ///< in the group that is exported
  array from;
  std::vector<std::uint64_t> grid;  ///< chunks along each dimension
  char separator = '.';             ///< between the numbers in the keys of its chunks
};

/// The arrays of a group and of the groups below it, as references that can be written for chunks of Zarr 2 arrays.
struct exported_group {
  std::vector<std::pair<std::string, std::string>> documents;  ///< `.zgroup`, `x/.zarray`, ...: key and JSON
  std::vector<exported_array> arrays;
  /// Path, and why: arrays with elements or codecs that such references cannot express, and datasets of HDF5 that are
  /// not readable.
  std::vector<std::pair<std::string, std::string>> omitted;
};

/// References of some cells, in their order; columns of equal length.
struct exported_rows {
  std::vector<std::uint64_t> cells, offsets, lengths;  ///< length 0: the whole object
  std::vector<std::uint32_t> objects;
};

/// An object that references point to: a location, or its bytes if it is in memory.
struct exported_object {
  std::string location;
  std::optional<std::vector<std::byte>> bytes;
};

/// Arrays with codecs that numcodecs does not have, and datasets of HDF5 that are not readable, are omitted.
/// \error unsupported  Such references cannot express an array: chunks of unequal lengths, chunks that other codecs
///                     encoded than the rest; a store without a location. No array remains.
/// \error invalid_argument  A member is not an array of references.
/// \error conflict  A local file changed since it was opened.
result<exported_group> exported_of(const group& from);

/// The references of cells [begin, end) of an array that `exported_of` returned. Cells without a reference are omitted.
/// \error unsupported  A chunk has other codecs than the rest.
result<exported_rows> exported_rows_of(const array& from, std::uint64_t begin, std::uint64_t end);

/// The objects of such an array, by number. Local files are named by their full paths.
result<std::vector<exported_object>> exported_objects_of(const array& from);

/// A document of references, and the arrays that it lacks.
struct kerchunk_document {
  std::string text;
  std::vector<std::pair<std::string, std::string>> omitted;  ///< as exported_group's
};

/// The arrays of a group as kerchunk's references (version 1, JSON), which fsspec and others open.
/// \error As exported_of; unsupported: more than 10^7 references.
/// Source: https://fsspec.github.io/kerchunk/spec.html
result<kerchunk_document> kerchunk_json_of(const group& from);

}  // namespace penstock::inline v0
