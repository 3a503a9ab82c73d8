#pragma once

#include <memory>
#include <stop_token>

#include "store/http_transport.h"

namespace penstock::inline v0 {

/// The thread of a transport, its connections, and the running exchanges. Only one source includes libcurl.
class http_loop {
 public:
  virtual ~http_loop() = default;
  /// \error unsupported  libcurl is not available in this build or on this machine.
  static result<> available();
  static std::shared_ptr<http_loop> make(unsigned connections, unsigned short_ones);

  virtual void start(std::unique_ptr<http_exchange> what, std::shared_ptr<const http_settings> settings,
                     std::stop_token stop) = 0;
};

}  // namespace penstock::inline v0
