#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/hdf5/hdf5_file.h"
#include "format/hdf5/hdf5_object.h"

namespace penstock::inline v0 {

/// One link of a group.
struct hdf5_link {
  enum class kind : std::uint8_t { hard, soft, external, user };

  std::string name;  ///< as stored: usually UTF-8, but any bytes other than zero
  kind what = kind::hard;
  std::uint64_t object = 0;      ///< hard: the address of an object header
  std::string target;            ///< soft and external: a path
  std::string file;              ///< external: the name of the other file
  std::uint64_t user_class = 0;  ///< user: the number of its class
  std::uint64_t order = 0;       ///< of creation, if the group has it
  bool ordered = false;
};

/// Whether the object with this header is a group.
bool is_hdf5_group(const std::vector<hdf5_message>& header) noexcept;

/// The links of a group, from a symbol table, the object header, or a fractal heap. They are in the order of creation
/// if the group indexes it, otherwise sorted by name.
///
/// Source: HDF5 File Format Specification 4.0, III.A to III.D, III.G, IV.A.2.c, g and r.
/// \error corrupt_data  The group is damaged. \error unsupported  An unknown version of its parts.
result<std::vector<hdf5_link>> list_hdf5_links(hdf5_file& file, const std::vector<hdf5_message>& header);

/// The link with this name, if the group has an index by name in which it is found without reading all others. If
/// nothing is returned, only list_hdf5_links can decide whether it exists.
/// \error As list_hdf5_links, for the parts that are read. io_error  The group is large, and its nodes are not fetched
/// yet.
result<std::optional<hdf5_link>> look_up_hdf5_link(hdf5_file& file, const std::vector<hdf5_message>& header,
                                                   std::string_view name);

}  // namespace penstock::inline v0
