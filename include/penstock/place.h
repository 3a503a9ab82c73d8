#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <penstock/context.h>
#include <penstock/remote.h>
#include <penstock/result.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

/// A location: a store, and a '/'-separated path within it (empty: its root).
struct place {
  std::shared_ptr<penstock::store> store;
  std::string path;
};

struct place_options {
  /// The context whose connections a remote place shares, and whose memory limit an archive uses; null: none.
  std::shared_ptr<penstock::context> context;
  remote_options remote;
  bool is_file = false;  ///< the path is known to name a file that is not an archive: storage is not checked
};

/// The place that a URI or a local path names; it does not have to exist.
///
/// `file:` and plain paths are folders, unless a component is a file that begins as a zip archive: then that file is
/// the store, and the rest the path within it (`data.zip/group/array`). The same holds for a path that ends with `.zip`
/// and does not exist. In a `zip:` URI, the first file, or the first component that ends with `.zip`, is an archive.
///
/// `http:` and `https:` name a server's files below the URL's last '/': the rest is the path. `s3://bucket/path` and
/// `gs://bucket/path` name a bucket and the path in it.
/// \error unsupported  The scheme has no store. \error invalid_argument  The path is empty.
PENSTOCK_API result<place> find_place(std::string_view uri, const place_options& options = {});

/// Whether a new Zarr array or group may have this name. Names with the endings of other formats (`x.nc`, `x.tif`) are
/// refused: those of the context's drivers (null: the library's), and of files that other programs read (`x.csv`).
/// \error invalid_argument  Names the format, and the function that writes it.
PENSTOCK_API result<> check_new_name(std::string_view uri, const context* with = nullptr);

/// The entries of a zip archive; it does not have to exist. Call `flush` after writing.
/// \param with  The context whose memory limit counts the decoded bytes of compressed entries; null: none.
PENSTOCK_API std::shared_ptr<store> open_zip_store(std::string path, std::shared_ptr<context> with = nullptr);

}  // namespace penstock::inline v0
