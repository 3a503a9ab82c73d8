#pragma once

#include <string>
#include <vector>

#include "session.h"

namespace penstock::inline v0::cli {

/// The arguments of `penstock read`.
struct read_arguments {
  std::string uri, selection;
  std::string output, format;
  std::string bounds;  ///< four numbers with commas between them: see `join_bounds`
  std::vector<std::string> shape;
  std::string resampling;
  unsigned threads = 0;
  bool force = false;
};

/// `npy`, `csv`, `bin` or `png`: by option, else by name; empty if neither determines it.
std::string output_format(const read_arguments& given);

/// Whether a window of an image is read, or a TIFF written.
bool is_window(const read_arguments& given);

/// `penstock read scene.tif --bounds ...`; returns the exit status.
int read_window(const session& speak, const read_arguments& given);

/// The command line with the words after each `--bounds` as one: `--bounds=1,-2e5,3,4`. They may be negative numbers,
/// which would be parsed as options, and may already have commas.
std::vector<std::string> join_bounds(int argc, const char* const* argv);

}  // namespace penstock::inline v0::cli
