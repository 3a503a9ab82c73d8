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

/// Where the objects of a store are, behind redirects. Thread-safe, and bounded.
///
/// Only who expects a version of an object asks where it was before: a new reader follows the redirects anew, since
/// most of them are said to be for once.
class redirect_targets {
 public:
  redirect_targets() : known_([] { return std::make_unique<targets>(); }) {}
  /// Empty: not known.
  std::string find(std::string_view key);
  /// Empty: it is no longer there.
  void set(std::string_view key, const std::string& url);

 private:
  struct targets {
    std::mutex mutex;
    std::map<std::string, std::string, std::less<>> of_keys;
  };
  fork_local<targets> known_;
};

/// How the objects of a store are asked for over HTTP. Shared by a store and its requests.
struct http_objects {
  /// URL, credentials and method's own fields for one key; called on the transport's thread, before every attempt. The
  /// request's method and headers are set already, and are what a signature is of.
  std::function<result<>(std::string_view key, http_request&)> address;
  /// Whether a refusal told how to ask otherwise: then it is asked again. Called on the transport's thread; may be
  /// empty.
  std::function<bool(const http_head&)> learn;
  std::shared_ptr<const http_settings> settings;
  std::shared_ptr<redirect_targets> redirects;  ///< null: they are followed each time
  std::string unsigned_note;                    ///< of a refusal of requests without credentials
};

/// One `byte_read` as an exchange that completes through `sink`; see `store::read` for what it borrows.
///
/// Nothing is taken on trust: the range that the server says it sends, its length, the size of the object and its
/// version are compared with what was asked for, and the body with what was said. A server that answers a range with
/// the whole object is read up to the range if that is near, else refused. A body that breaks off is asked for again,
/// from where it broke where its version is sure.
std::unique_ptr<http_exchange> make_http_read(std::shared_ptr<const http_objects> from, const byte_read& wanted,
                                              completion_sink& sink);

}  // namespace penstock::inline v0
