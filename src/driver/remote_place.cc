#include "driver/remote_place.h"

#include <fmt/format.h>

#include <algorithm>

#include "driver/schemes.h"
#include "engine/context_state.h"
#include "store/http_store.h"
#include "store/s3_store.h"

namespace penstock::inline v0 {
namespace {

/// Connections for a store without a context.
constexpr unsigned kConnections = 64;

result<std::shared_ptr<http_transport>> transport_of(const place_options& options) {
  return options.context ? options.context->state().http() : http_transport::make(kConnections);
}

// The position at which the last component of a URL's path begins: after a '/', or an encoded one, which remains
// encoded.
std::size_t last_part_of(std::string_view path) {
  for (std::size_t at = path.size(); at-- != 0;) {
    if (path[at] == '/') return at + 1;
    if (ends_with_encoded_slash(path.substr(0, at))) return at;
  }
  return 0;
}

// `from` with the context's disk cache, if it has one.
std::shared_ptr<store> cached(std::shared_ptr<store> from, std::string origin, std::string variant,
                              const place_options& options) {
  if (options.context == nullptr || options.context->state().disk_cache() == nullptr) return from;
  return options.context->state().disk_cache()->wrap(std::move(from), std::move(origin), std::move(variant));
}

// Settings that select contents in addition to the URL: headers may, credentials do not.
std::string variant_of(std::string variant, const remote_options& options) {
  for (const auto& [name, value] : options.headers) variant += "\n" + name + ": " + value;
  return variant;
}

result<place> find_http_place(std::string_view uri, const place_options& options) {
  PENSTOCK_ASSIGN(http_url base, http_url::parse(uri));
  PENSTOCK_ASSIGN(std::shared_ptr<http_transport> through, transport_of(options));
  place out;
  while (!base.path.empty() && base.path.back() == '/') base.path.pop_back();
  // A file and a folder cannot be distinguished here: either is the last component of the path, below its parent.
  if (const std::size_t begin = last_part_of(base.path); begin != 0) {
    out.path = percent_decode(std::string_view(base.path).substr(begin));
    base.path.resize(begin);
  }
  std::string origin = base.origin() + base.path, variant = variant_of(base.query, options.remote);
  out.store = cached(std::make_shared<http_store>(std::move(through), std::move(base), options.remote),
                     std::move(origin), std::move(variant), options);
  return out;
}

result<place> find_bucket_place(std::string_view uri, s3_flavour flavour, const place_options& options) {
  std::string_view rest = uri.substr(uri.find("://") + 3);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  PENSTOCK_ASSIGN(std::shared_ptr<s3_account> account,
                  s3_account::make(flavour, std::string(rest.substr(0, slash)), options.remote));
  PENSTOCK_ASSIGN(std::shared_ptr<http_transport> through, transport_of(options));
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  while (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
  auto found = std::make_shared<s3_store>(std::move(through), account, options.remote);
  std::string origin = fmt::format("{}\n{}", account->endpoint(), found->uri());
  return place{cached(std::move(found), std::move(origin), variant_of({}, options.remote), options), std::string(rest)};
}

}  // namespace

result<place> find_remote_place(std::string_view uri, const place_options& options) {
  const auto find = [&]() -> result<place> {
    const std::optional<remote_kind> kind = kind_of_remote(uri);
    if (kind == remote_kind::http) return find_http_place(uri, options);
    if (kind == remote_kind::s3) return find_bucket_place(uri, s3_flavour::aws, options);
    if (kind == remote_kind::gs) return find_bucket_place(uri, s3_flavour::google, options);
    return error(errc::unsupported, fmt::format("no store for '{}:'", uri.substr(0, uri.find("://"))));
  };
  auto found = find();
  if (!found.ok()) return std::move(found).error().note(fmt::format("opening '{}'", without_secrets(uri)));
  return found;
}

}  // namespace penstock::inline v0
