#pragma once

// libcurl in this build. Included only by the two sources that call it.

#ifdef PENSTOCK_CURL_HEADERS
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// The used functions of libcurl, loaded or linked.
///
/// Loaded at first use: a program that reads files should not wait for the start of a TLS library, and a wheel uses the
/// libcurl of its system, with that system's certificates. A build with PENSTOCK_CURL=LINK links them instead.
struct curl_library {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_version_info) version_info = nullptr;
  decltype(&::curl_getdate) getdate = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  CURLcode (*easy_setopt)(CURL*, CURLoption, ...) = nullptr;
  CURLcode (*easy_getinfo)(CURL*, CURLINFO, ...) = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  CURLMcode (*multi_setopt)(CURLM*, CURLMoption, ...) = nullptr;
  decltype(&::curl_multi_perform) multi_perform = nullptr;
  decltype(&::curl_multi_poll) multi_poll = nullptr;
  decltype(&::curl_multi_wakeup) multi_wakeup = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;

  /// The library, found and initialised once per process.
  /// \error unsupported  The library is not installed, or is too old; the message names the searched files.
  static result<const curl_library*> get();
};

}  // namespace penstock::inline v0
#endif
