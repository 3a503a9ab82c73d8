#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock::inline v0 {

/// An ending of names of files that are opened as one array, and its format.
struct shard_ending {
  std::string_view ending;  ///< lower case, without the dot
  std::string_view format;  ///< `npy`, `raw`, `hdf5`, `npz`, `zarr`, `tiff`, `parquet`, `arrow`
};

/// All of them, in the order in which errors name them.
std::span<const shard_ending> shard_endings() noexcept;

/// The ending of a name's last component, lower case, without the dot; empty: none.
std::string lower_ending(std::string_view name);

/// The format of an ending; empty: none has it.
std::string_view format_of_ending(std::string_view ending) noexcept;

}  // namespace penstock::inline v0
