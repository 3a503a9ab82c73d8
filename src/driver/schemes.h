#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/context.h>
#include <penstock/extend/scheme.h>
#include <penstock/remote.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// The kinds of remote stores that the library has. schemes.cc has the one table of their schemes and options.
enum class remote_kind : std::uint8_t { http, s3, gs };

/// The kind of store that a URI's scheme has; nothing if the library has none.
std::optional<remote_kind> kind_of_remote(std::string_view uri);

/// The scheme that was added to a context for `uri`; null if none was added.
const uri_scheme* added_scheme(std::string_view uri, const context* with) noexcept;

/// Whether a URI is a remote name, or a chain of URIs.
bool is_elsewhere(std::string_view uri);

struct storage_option;
/// The storage options of a URI, by the names of s3fs and gcsfs, of obstore, and of the AWS command line.
using storage_options = std::vector<storage_option>;

/// The value of a storage option from a caller in another language.
struct option_value {
  enum class kind : std::uint8_t { none, boolean, number, text, fields, other };
  kind is = kind::none;
  std::string type;  ///< its name in the caller's language, for errors
  bool truth = false;
  double number = 0;  ///< also the value of a boolean
  std::string text;
  storage_options fields;
};

struct storage_option {
  std::string name;
  option_value value;
};

/// The library that opens a name.
enum class uri_server : std::uint8_t {
  this_machine,          ///< a path, or a `file:` or `zip:` URI
  library,               ///< a store of the library, or one that was added to the context
  another_if_installed,  ///< another library, which can use the credentials, if it is installed; else the library
  another,               ///< not supported: an unknown scheme or option, or a chain (`zip://x::https://y`)
};

/// Returns the library that opens a name, by its scheme and its options. Storage is not accessed.
/// \param with  For the schemes that were added to it; null: none.
uri_server server_of(std::string_view uri, const storage_options& given, const context* with = nullptr);

/// Returns the options of the library for the storage options of a URI that it serves.
/// \error invalid_argument  A value, by the name of its option.
result<remote_options> remote_options_of(std::string_view uri, const storage_options& given);

/// Sets an option of remote stores by name, with the meaning that the first scheme with this option gives it: for
/// callers without the URI.
/// \error invalid_argument  The value; or no scheme has such an option.
result<> set_remote_option(remote_options& to, std::string_view name, const option_value& value);

/// The names of the storage options of a scheme (`s3`); none if the library has no store for it.
std::vector<std::string_view> storage_option_names(std::string_view scheme);

/// Whether a remote URI of an open array may be passed to another process: false if it may contain a secret, which an
/// open array does not show, or if it is a local name.
bool names_for_others(std::string_view uri);

/// A URI that continues inside an object on another machine, split by the name of the object.
struct object_uri {
  std::string object;  ///< with the URI's query
  std::string inner;   ///< '/'-separated, without '/' at either end; empty: the URI is that of the object
};

/// Splits a remote URI after the first name with the ending of an HDF5 or NetCDF file: `https://host/x.h5` and
/// `group/t2m`.
///
/// A web server does not list folders: without the split, the store of such a URI begins within the file.
object_uri split_at_object(std::string_view uri);

}  // namespace penstock::inline v0
