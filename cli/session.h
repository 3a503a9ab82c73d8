#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/extend/json.h>
#include <penstock/remote.h>
#include <penstock/result.h>
#include <penstock/shape.h>
#include "opened.h"
#include "run.h"

namespace penstock::inline v0::cli {

/// The options of the command line for remote storage, also as the Python package's `storage_options`.
struct storage_flags {
  std::map<std::string_view, bool> on;            ///< flags by the option's name
  std::map<std::string_view, std::string> texts;  ///< texts by the option's name; empty: not given
  std::vector<std::string> headers;               ///< `NAME: VALUE`
  bool allow_local = false;                       ///< `open_options::allow_local`

  /// \error invalid_argument  A value, by its flag.
  result<remote_options> options() const;
  /// A JSON object of the given options; `{}` if none were given.
  json document() const;
};

/// The output of all verbs. Each call returns the resulting exit status.
struct session {
  bool as_json = false;                 ///< documents on stdout, also errors
  const opener* others = nullptr;       ///< opens formats that the library does not; null: a Python process does
  const system_namer* namer = nullptr;  ///< names coordinate systems; null: only codes and text in files
  storage_flags storage;                ///< for all URIs that a verb reads
  int argc = 0;                         ///< the command line, for the Python process
  const char* const* argv = nullptr;

  /// Writes text to stdout; if the reader has closed it (`| head`), the program ends quietly.
  int print(std::string_view text) const;
  /// Writes one JSON document, indented, with a final newline.
  int print_document(const json& document) const;
  /// Reports a failure: `penstock: ...` with its notes on stderr, or `{"error": ...}` on stdout.
  int fail(const error& failure) const;
  /// As `fail`, for a failure that another command line would have avoided.
  int refuse(const std::string& why) const;
};

/// Whether text on that descriptor may have colours: it is a terminal, and neither NO_COLOR nor TERM=dumb forbids them.
bool has_colors(int descriptor);

enum class color : std::uint8_t { plain, dim, bold, red, green, yellow, blue };
/// `text` in a colour, if standard output has colours; else unchanged.
std::string painted(color as, std::string_view text);

/// Writes all of `bytes` to a file descriptor.
/// \error cancelled  The reader of a pipe has closed it, or a signal requested a stop. \error io_error
result<> write_all(int descriptor, std::span<const std::byte> bytes);

/// `{"code": ..., "message": ..., "notes": [...]}`.
json to_json(const error& failure);
json to_json(const extents& shape);
/// A count as an integer, or as a float if it may exceed 2^53.
json count_json(double count);
/// A document of the library as a value; null if it cannot be parsed.
json parsed(const std::string& text);

}  // namespace penstock::inline v0::cli
