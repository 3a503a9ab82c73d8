#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <penstock/context.h>
#include <penstock/remote.h>
#include <penstock/result.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

/// Where something is: a store, and a '/'-separated path within it (empty: its root).
struct place {
  std::shared_ptr<penstock::store> store;
  std::string path;
};

struct place_options {
  /// Whose connections a remote place shares, and whose memory limit an archive keeps; null: its own, and none.
  std::shared_ptr<penstock::context> context;
  remote_options remote;
  bool is_file = false;  ///< the path names a file that is no archive: then storage is not asked
};

/// The place that a URI or a path of this machine names; nothing needs to be there yet.
///
/// `file:` and plain paths are folders, except where a file that begins as a zip archive stands on the way: then it is
/// the store, and the rest the path within it (`data.zip/group/array`). So is a path that ends with `.zip` where
/// nothing stands yet. `zip:` says that its first file, or its first part that ends with `.zip`, is an archive.
///
/// `http:` and `https:` name a server's files below the URL's last '/': what stands behind it is the path.
/// `s3://bucket/path` and `gs://bucket/path` name a bucket and the path in it.
/// \error unsupported  No store for that scheme. \error invalid_argument  The path is empty.
PENSTOCK_API result<place> find_place(std::string_view uri, const place_options& options = {});

/// Whether a new Zarr array or group may have this name: names that end as files of other formats do (`x.nc`, `x.tif`)
/// may not. \error invalid_argument  The format, and what writes it.
PENSTOCK_API result<> check_new_name(std::string_view uri);

/// The entries of a zip archive; nothing needs to be there yet. `flush` it after writing.
/// \param with  In whose memory limit that counts which is decoded of compressed entries; null: in none.
PENSTOCK_API std::shared_ptr<store> open_zip_store(std::string path, std::shared_ptr<context> with = nullptr);

}  // namespace penstock::inline v0
