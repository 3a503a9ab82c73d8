#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/array.h>
#include <penstock/open.h>

namespace penstock::inline v0 {

class closed_parts;       // engine/closed_parts.h
struct hdf5_facts;        // driver/open_hdf5.h
struct referenced_array;  // driver/open_reference.h

/// The properties of an array that is made from others, except for its elements.
struct joined_facts {
  std::string uri;
  std::string attributes_json = "{}";
  std::vector<std::optional<std::string>> dimension_names;  ///< one for each dimension
  std::shared_ptr<const referenced_array> references;       ///< null: it has none
};

/// Arrays along one dimension, as `join` makes them, with metadata of their own.
/// \error As join's.
result<array> join_as(std::span<const array> parts, std::size_t axis, joined_facts what, std::shared_ptr<context> with);

/// An array of sources whose parts are opened by the reads that need them. Operations that do not open parts, such as
/// `check`, use the layout and the store of the boxes.
array open_later(const array& boxes, std::shared_ptr<const closed_parts> parts);

/// The properties of a group of open arrays, in addition to the arrays.
struct joined_group_facts {
  std::string format, uri;
  std::string attributes_json = "{}";
  std::shared_ptr<const hdf5_facts> hdf5;  ///< null: the attributes have no types of HDF5
};

/// A read-only group without groups in it.
/// \param arrays  By their names. \param from  The store of the group; nothing of the group is read from it.
group group_of(joined_group_facts what, std::map<std::string, array, std::less<>> arrays,
               std::shared_ptr<const store> from, std::shared_ptr<context> with);

}  // namespace penstock::inline v0
