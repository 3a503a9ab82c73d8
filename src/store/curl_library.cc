#include "store/curl_library.h"

#include <optional>
#include <string>

#include "store/http_transport.h"

#ifdef PENSTOCK_CURL_HEADERS

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>

namespace penstock::inline v0 {
namespace {

constexpr unsigned kOldest = 0x074400;  // 7.68.0: curl_multi_poll and curl_multi_wakeup

#ifdef PENSTOCK_CURL_LINKED
std::string fill(curl_library& out) {
#define PENSTOCK_CURL_FUNCTION(name) out.name = &::curl_##name
#else
std::string fill(curl_library& out) {
  // Debian has two of them, with one interface. The one that is found stays loaded: it keeps threads and handlers.
  void* library = nullptr;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr) return "neither libcurl.so.4 nor libcurl-gnutls.so.4 was found";
  const char* missing = nullptr;
#define PENSTOCK_CURL_FUNCTION(name)                                                \
  out.name = reinterpret_cast<decltype(out.name)>(::dlsym(library, "curl_" #name)); \
  if (out.name == nullptr) missing = "curl_" #name
#endif
  PENSTOCK_CURL_FUNCTION(global_init);
  PENSTOCK_CURL_FUNCTION(version_info);
  PENSTOCK_CURL_FUNCTION(getdate);
  PENSTOCK_CURL_FUNCTION(slist_append);
  PENSTOCK_CURL_FUNCTION(slist_free_all);
  PENSTOCK_CURL_FUNCTION(easy_init);
  PENSTOCK_CURL_FUNCTION(easy_cleanup);
  PENSTOCK_CURL_FUNCTION(easy_reset);
  PENSTOCK_CURL_FUNCTION(easy_setopt);
  PENSTOCK_CURL_FUNCTION(easy_getinfo);
  PENSTOCK_CURL_FUNCTION(easy_strerror);
  PENSTOCK_CURL_FUNCTION(multi_init);
  PENSTOCK_CURL_FUNCTION(multi_cleanup);
  PENSTOCK_CURL_FUNCTION(multi_add_handle);
  PENSTOCK_CURL_FUNCTION(multi_remove_handle);
  PENSTOCK_CURL_FUNCTION(multi_setopt);
  PENSTOCK_CURL_FUNCTION(multi_perform);
  PENSTOCK_CURL_FUNCTION(multi_poll);
  PENSTOCK_CURL_FUNCTION(multi_wakeup);
  PENSTOCK_CURL_FUNCTION(multi_info_read);
#undef PENSTOCK_CURL_FUNCTION
#ifndef PENSTOCK_CURL_LINKED
  if (missing != nullptr) return fmt::format("libcurl is too old: it has no {}", missing);
#endif
  const curl_version_info_data* const found = out.version_info(CURLVERSION_NOW);
  if (found->version_num < kOldest) return fmt::format("libcurl {} is too old, 7.68 is needed", found->version);
  if (out.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return "libcurl cannot be initialised";
  return {};
}

}  // namespace

result<const curl_library*> curl_library::get() {
  static std::once_flag once;
  static curl_library found;
  static std::string trouble;
  std::call_once(once, [] { trouble = fill(found); });
  if (trouble.empty()) return &found;
  return error(errc::unsupported, fmt::format("HTTP needs the libcurl of this machine: {}", trouble));
}

}  // namespace penstock::inline v0

#endif

namespace penstock::inline v0 {

std::optional<std::string> curl_version_text() {
#ifdef PENSTOCK_CURL_HEADERS
  if (const auto found = curl_library::get(); found.ok()) return (*found)->version_info(CURLVERSION_NOW)->version;
#endif
  return std::nullopt;
}

}  // namespace penstock::inline v0
