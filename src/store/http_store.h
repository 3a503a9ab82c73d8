#pragma once

#include <penstock/remote.h>
#include <penstock/store.h>

#include <memory>
#include <string>

#include "store/http_read.h"
#include "store/http_url.h"
#include "store/validated_store.h"

namespace penstock::inline v0 {

/// Files of an HTTP server below one URL, read by range. Neither writable nor listable: HTTP does not have these
/// operations.
///
/// Requests of one call are sent together. A version is the object's entity tag, or its modification time; it is sent
/// along (`If-Match`) and compared with the response's. An object is absent if the status is 404 or 410; every other
/// failure is an error.
class http_store final : public validated_store {
 public:
  /// \param base  The URL above the keys; its query, if any, is sent with every request.
  http_store(std::shared_ptr<http_transport> through, http_url base, const remote_options& options);

  store_traits traits() const override;
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override;
  std::string uri() const override;

  /// A store of the same server that begins at its root, and the path of this one there.
  struct rooted {
    std::shared_ptr<const store> from;
    std::string path;  ///< decoded; empty: this one begins at the root, or in a name with an encoded '/'
  };
  rooted at_root() const;

 private:
  std::shared_ptr<http_transport> through_;
  http_url base_;
  remote_options options_;
  std::shared_ptr<const http_objects> objects_;
};

/// The common traits of stores over HTTP: gaps between requests and their length.
store_traits http_traits() noexcept;
/// Starts `reads`, except those of bad keys, which fail at once.
void start_http_reads(http_transport& through, const std::shared_ptr<const http_objects>& from,
                      std::span<const byte_read> reads, completion_sink& sink, const std::stop_token& stop);
/// Times are limited to between a millisecond and a day.
std::shared_ptr<const http_settings> http_settings_of(const remote_options& options);

}  // namespace penstock::inline v0
