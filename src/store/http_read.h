#pragma once

#include <penstock/store.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/fork_local.h"
#include "store/http_transport.h"

namespace penstock::inline v0 {

/// The most bytes before a range that are read and dropped if a server ignores ranges.
inline constexpr std::uint64_t kMostHttpSkip = std::uint64_t{4} << 20;

/// The targets of a store's objects after redirects. Thread-safe, and bounded.
///
/// Only reads that expect a version of an object use the earlier target: a new reader follows the redirects again,
/// because most of them are temporary.
class redirect_targets {
 public:
  redirect_targets() : known_([] { return std::make_unique<targets>(); }) {}
  /// Returns an empty text if the target is not known.
  std::string find(std::string_view key);
  /// Empty: it no longer exists.
  void set(std::string_view key, const std::string& url);

 private:
  struct targets {
    std::mutex mutex;
    std::map<std::string, std::string, std::less<>> of_keys;
  };
  fork_local<targets> known_;
};

/// How the objects of a store are requested over HTTP. Shared by a store and its requests.
struct http_objects {
  /// URL, credentials and header fields of the method for one key; called on the transport's thread, before every
  /// attempt. The request's method and headers are already set, and are signed.
  std::function<result<>(std::string_view key, http_request&)> address;
  /// Whether a refusal contained another way to request it than with this `http_request::region`: then it is requested
  /// that way. Called on the transport's thread; may be empty.
  std::function<bool(const http_head&, std::string_view region)> learn;
  std::shared_ptr<const http_settings> settings;
  std::shared_ptr<redirect_targets> redirects;  ///< null: they are followed each time
  std::string unsigned_note;                    ///< for a refusal of requests without credentials
};

/// One `byte_read` as an exchange that completes through `sink`; see `store::read` for the borrowed memory.
///
/// Everything is verified: the range that the server announces, its length, the size of the object and its version are
/// compared with the request, and the body with the announcement. If a server returns the whole object instead of a
/// range, it is read up to the range if that is near, else refused. An interrupted body is requested again, from the
/// point of interruption if its version is certain.
std::unique_ptr<http_exchange> make_http_read(std::shared_ptr<const http_objects> from, const byte_read& wanted,
                                              completion_sink& sink);

}  // namespace penstock::inline v0
