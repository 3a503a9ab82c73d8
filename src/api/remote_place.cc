#include "api/remote_place.h"

#include <fmt/format.h>

#include "engine/context_state.h"
#include "store/http_store.h"

namespace penstock::inline v0 {
namespace {

/// Of a store that no context was named for.
constexpr unsigned kConnections = 64;

result<std::shared_ptr<http_transport>> transport_of(const place_options& options) {
  return options.context ? options.context->state().http() : http_transport::make(kConnections);
}

result<place> find_http_place(std::string_view uri, const place_options& options) {
  PENSTOCK_ASSIGN(http_url base, http_url::parse(uri));
  PENSTOCK_ASSIGN(std::shared_ptr<http_transport> through, transport_of(options));
  place out;
  while (!base.path.empty() && base.path.back() == '/') base.path.pop_back();
  // A file and a folder look the same from here: either is the last part of the path, below its parent.
  if (const std::size_t slash = base.path.rfind('/'); slash != std::string::npos) {
    out.path = percent_decode(std::string_view(base.path).substr(slash + 1));
    base.path.resize(slash);
  }
  out.store = std::make_shared<http_store>(std::move(through), std::move(base), options.remote);
  return out;
}

}  // namespace

result<place> find_remote_place(std::string_view uri, const place_options& options) {
  const std::string_view scheme = uri.substr(0, uri.find("://"));
  auto found = scheme == "http" || scheme == "https"
                   ? find_http_place(uri, options)
                   : error(errc::unsupported, fmt::format("no store for '{}:'", scheme));
  if (!found.ok()) return std::move(found).error().note(fmt::format("opening '{}'", without_secrets(uri)));
  return found;
}

}  // namespace penstock::inline v0
