#pragma once

#include <optional>
#include <string>
#include <vector>

namespace penstock::inline v0 {

/// A library that this build uses, and its version as it states it.
struct library_version {
  std::string name;
  std::optional<std::string> version;  ///< nothing: this build does not use it, or this machine does not have it
};

/// The libraries of the codecs. Those that are loaded at first use are loaded.
std::vector<library_version> codec_library_versions();

}  // namespace penstock::inline v0
