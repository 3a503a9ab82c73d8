#include "store/http_transfer.h"

#ifdef PENSTOCK_CURL_HEADERS

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <string_view>
#include <utility>

#include <penstock/config.h>
#include "store/http_url.h"

namespace penstock::inline v0 {
namespace {

constexpr unsigned kMaxRedirects = 10;
/// An unknown host name is usually a typing error, so the user is notified soon.
constexpr unsigned kConnectRetries = 2;
constexpr std::size_t kMaxErrorBody = 4096;
constexpr std::uint64_t kLeastUploadBuffer = std::uint64_t{16} << 10, kUploadBuffer = std::uint64_t{512} << 10;
constexpr auto kFirstWait = std::chrono::milliseconds(100);
constexpr auto kLongestWait = std::chrono::milliseconds(10'000);
/// If a server requires a longer wait than this, the request fails.
constexpr auto kLongestPatience = std::chrono::seconds(60);

std::chrono::milliseconds backoff(unsigned attempts) {
  // Half of it is random, so that requests that failed together do not return together.
  static thread_local std::minstd_rand random{std::random_device{}()};
  const auto whole = std::min<std::chrono::milliseconds>(kFirstWait * (1U << std::min(attempts, 10U)), kLongestWait);
  return whole / 2 + std::chrono::milliseconds(random() % (static_cast<unsigned>(whole.count()) / 2 + 1));
}

// The file of certificates to trust that the environment names, or null: libcurl then uses its own. A libcurl that was
// built for any system, as that inside a wheel, has none, so the usual places of systems are searched.
const char* system_certificates(const curl_library& curl) {
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"})
    if (const char* file = std::getenv(name); file != nullptr && *file != '\0') return file;
  const curl_version_info_data* const version = curl.version_info(CURLVERSION_NOW);
#if LIBCURL_VERSION_NUM >= 0x074600  // from 7.70 on, the version has the paths of its certificates
  if (version->age < CURLVERSION_SEVENTH || version->cainfo != nullptr || version->capath != nullptr) return nullptr;
#else
  if (version != nullptr) return nullptr;
#endif
  static const char* const found = []() -> const char* {
    for (const char* file : {"/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Alpine
                             "/etc/pki/tls/certs/ca-bundle.crt",                   // RHEL, Rocky, Fedora
                             "/etc/ssl/ca-bundle.pem",                             // SUSE
                             "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Fedora's later place
                             "/etc/ssl/cert.pem"})                                 // BSDs, Alpine without the package
      if (::access(file, R_OK) == 0) return file;
    return nullptr;
  }();
  return found;
}

}  // namespace

bool is_worth_another_try(int status) noexcept {
  return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504;
}

http_transfer::~http_transfer() {
  if (headers_ != nullptr) curl_.slist_free_all(headers_);
}

void http_transfer::finish(result<> outcome) noexcept {
  watch_.reset();
  exchange_->finish(std::move(outcome));
}

http_transfer::verdict http_transfer::over(result<> outcome) {
  finish(std::move(outcome));
  return verdict::finished;
}

result<> http_transfer::begin(CURL* handle) {
  request_ = {};
  head_.clear();
  head_is_whole_ = has_enough_ = has_no_memory_ = false;
  refused_.reset();
  error_body_.clear();
  part_ = part_offset_ = 0;
  reason_[0] = '\0';
  PENSTOCK_TRY(exchange_->prepare(request_));
  if (redirect_.empty() && !asks_anew_) {
    redirect_ = request_.redirect;
    remembered_ = !redirect_.empty();
  }
  if (!redirect_.empty()) {
    PENSTOCK_ASSIGN(const http_url from, http_url::parse(request_.url));
    PENSTOCK_ASSIGN(const http_url to, http_url::parse(redirect_));
    if (from.scheme == "https" && to.scheme == "http")
      return error(errc::io_error,
                   fmt::format("the server redirects to '{}', which is not encrypted", without_secrets(redirect_)));
    if (from.origin() != to.origin()) {
      request_.user.clear();
      std::erase_if(request_.headers, [](const http_header& each) { return each.secret; });
    }
    request_.url = redirect_;
  }
  set_options(handle);
  return {};
}

void http_transfer::set_options(CURL* handle) {
  const auto set = [&](CURLoption option, auto value) { curl_.easy_setopt(handle, option, value); };
  set(CURLOPT_PRIVATE, static_cast<void*>(this));
  set(CURLOPT_URL, request_.url.c_str());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_ERRORBUFFER, reason_.data());
  set(CURLOPT_PATH_AS_IS, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https");
#else
  set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  // Over TLS the first connection may be able to carry all requests; plain HTTP never is.
  if (request_.url.compare(0, 6, "https:") == 0) set(CURLOPT_PIPEWAIT, 1L);
  set(CURLOPT_BUFFERSIZE, 256L * 1024);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_USERAGENT, "penstock/" PENSTOCK_VERSION);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(settings_->connect_timeout.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, 1024L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(settings_->stall_timeout.count()));
  const char* const bundle = settings_->ca_bundle.empty() ? system_certificates(curl_) : settings_->ca_bundle.c_str();
  if (bundle != nullptr) set(CURLOPT_CAINFO, bundle);
  if (!settings_->netrc.empty()) {
    set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
    if (settings_->netrc != "~") set(CURLOPT_NETRC_FILE, settings_->netrc.c_str());
  }
  if (!request_.user.empty()) {
    set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
    set(CURLOPT_USERPWD, request_.user.c_str());
  }

  if (headers_ != nullptr) curl_.slist_free_all(headers_);
  headers_ = nullptr;
  const auto add = [&](const std::string& line) {
    if (curl_slist* const longer = curl_.slist_append(headers_, line.c_str())) headers_ = longer;
  };
  add("Accept-Encoding: identity");  // ranges are of the object's own bytes
  add("Accept: */*");
  add("Expect:");  // would cost a round trip
  for (const http_header& each : request_.headers)
    add(each.value.empty() ? each.name + ";" : each.name + ": " + each.value);
  set(CURLOPT_HTTPHEADER, headers_);

  set(CURLOPT_HEADERFUNCTION, &http_transfer::take_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &http_transfer::take_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  switch (request_.method) {
    case http_method::get:
      set(CURLOPT_HTTPGET, 1L);
      break;
    case http_method::head:
      set(CURLOPT_NOBODY, 1L);
      break;
    case http_method::erase:
      set(CURLOPT_CUSTOMREQUEST, "DELETE");
      break;
    case http_method::put:
    case http_method::post: {
      const auto size = static_cast<curl_off_t>(size_of(request_.body));
      set(request_.method == http_method::put ? CURLOPT_UPLOAD : CURLOPT_POST, 1L);
      set(request_.method == http_method::put ? CURLOPT_INFILESIZE_LARGE : CURLOPT_POSTFIELDSIZE_LARGE, size);
      // The most bytes of a body that the system takes at once: with libcurl's 64 KiB a thread serves too few
      // connections.
      set(CURLOPT_UPLOAD_BUFFERSIZE,
          static_cast<long>(std::clamp<std::uint64_t>(size_of(request_.body), kLeastUploadBuffer, kUploadBuffer)));
      set(CURLOPT_READFUNCTION, &http_transfer::give_body);
      set(CURLOPT_READDATA, static_cast<void*>(this));
      set(CURLOPT_SEEKFUNCTION, &http_transfer::rewind_body);
      set(CURLOPT_SEEKDATA, static_cast<void*>(this));
      break;
    }
  }
}

std::size_t http_transfer::take_header(char* text, std::size_t one, std::size_t size, void* self) {
  auto& me = *static_cast<http_transfer*>(self);
  try {
    return me.add_header(text, one * size);
  } catch (const std::exception&) {  // of an allocation; must not pass through libcurl
    me.has_no_memory_ = true;
    return 0;
  }
}

std::size_t http_transfer::add_header(const char* text, std::size_t all) {
  if (head_is_whole_) return all;  // trailers contain nothing that is needed
  std::string_view line(text, all);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (line.substr(0, 5) == "HTTP/") {
    head_.clear();
    const std::size_t space = line.find(' ');
    const auto status = space == std::string_view::npos ? std::nullopt : parse_number(line.substr(space + 1, 3));
    head_.status = status ? static_cast<int>(*status) : 0;
    head_.is_http1 = line.size() > 5 && line[5] == '1';
    return all;
  }
  if (line.empty()) return end_of_head() ? all : 0;
  if (head_.add(line)) return all;
  refused_.emplace(errc::io_error, "the server's response has too many header fields");
  return 0;
}

bool http_transfer::is_redirect() const noexcept {
  const int status = head_.status;
  const bool known = status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
  return known && request_.follow_redirects && !head_.find("location").empty();
}

bool http_transfer::is_outdated() const noexcept {
  const int status = head_.status;
  // Some servers return 400 for an expired signature. A missing range does not depend on the location.
  return remembered_ && status >= 400 && status < 500 && status != 416 && !is_worth_another_try(status);
}

http_transfer::verdict http_transfer::ask_anew() {
  redirect_.clear();
  remembered_ = false;
  asks_anew_ = true;
  exchange_->led_to({});
  due_ = clock::now();
  return verdict::again;
}

http_transfer::verdict http_transfer::ask_otherwise() {
  if (++redirects_ > kMaxRedirects) return over(error(errc::io_error, "the server refuses the request in every form"));
  redirect_.clear();
  due_ = clock::now();
  return verdict::again;
}

// False: the attempt is over.
bool http_transfer::end_of_head() {
  if (head_.status / 100 == 1) return true;  // another head follows
  head_is_whole_ = true;
  if (head_.status >= 300) return true;
  auto taken = exchange_->head(head_);
  if (taken.ok()) return true;
  refused_.emplace(std::move(taken).error());
  return false;
}

std::size_t http_transfer::take_body(char* bytes, std::size_t one, std::size_t size, void* self) {
  auto& me = *static_cast<http_transfer*>(self);
  try {
    return me.add_body({reinterpret_cast<const std::byte*>(bytes), one * size});
  } catch (const std::exception&) {  // of an allocation; must not pass through libcurl
    me.has_no_memory_ = true;
    return 0;
  }
}

std::size_t http_transfer::add_body(std::span<const std::byte> bytes) {
  if (!takes_body()) {
    if (error_body_.size() > 16 * kMaxErrorBody) return 0;  // the text of an error is short; the rest is not needed
    error_body_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return bytes.size();
  }
  auto taken = exchange_->body(bytes);
  if (!taken.ok()) {
    refused_.emplace(std::move(taken).error());
    return 0;
  }
  if (*taken == http_exchange::appetite::more) return bytes.size();
  has_enough_ = true;
  return 0;
}

std::size_t http_transfer::give_body(char* to, std::size_t one, std::size_t size, void* self) {
  auto& me = *static_cast<http_transfer*>(self);
  std::size_t room = one * size, given = 0;
  while (room != 0 && me.part_ < me.request_.body.size()) {
    const part& from = me.request_.body[me.part_];
    const std::size_t take = std::min(room, from.size() - me.part_offset_);
    if (take != 0) std::memcpy(to + given, from.data() + me.part_offset_, take);
    given += take;
    room -= take;
    me.part_offset_ += take;
    if (me.part_offset_ == from.size()) {
      ++me.part_;
      me.part_offset_ = 0;
    }
  }
  return given;
}

int http_transfer::rewind_body(void* self, curl_off_t offset, int origin) {
  auto& me = *static_cast<http_transfer*>(self);
  if (offset != 0 || origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  me.part_ = me.part_offset_ = 0;
  return CURL_SEEKFUNC_OK;
}

http_transfer::verdict http_transfer::ended(CURL* handle, CURLcode code) {
  if (stop_requested()) return over(error(errc::cancelled, "the read was stopped"));
  if (has_no_memory_) return over(error(errc::resource_exhausted, "not enough memory for the server's response"));
  if (refused_) return over(std::move(*refused_));
  const bool is_error = head_is_whole_ && head_.status >= 300;
  // The status of a response is known even if its text did not arrive.
  if (code != CURLE_OK && !has_enough_ && !is_error) return network_failed(code);
  if (!head_is_whole_) return retry({errc::io_error, "the server did not respond"}, {}, settings_->retries);
  if (is_redirect()) return redirect(handle);
  if (is_outdated()) return ask_anew();
  if (!is_error && !redirect_.empty() && redirect_ != request_.redirect) exchange_->led_to(redirect_);
  if (is_worth_another_try(head_.status)) {
    doubtful_ = true;
    return retry(error_of_status(head_, std::string_view(error_body_).substr(0, kMaxErrorBody)), retry_after(head_),
                 settings_->retries);
  }
  if (auto failure = is_error ? std::nullopt : exchange_->temporary_failure()) {
    doubtful_ = true;
    return retry(std::move(*failure), retry_after(head_), settings_->retries);
  }
  const std::string_view text = std::string_view(error_body_).substr(0, kMaxErrorBody);
  auto end = is_error ? exchange_->failed(head_, text, doubtful_) : exchange_->end();
  if (!end.ok()) return over(std::move(end).error());
  if (*end == http_exchange::ending::whole) return over({});
  if (*end == http_exchange::ending::otherwise) return ask_otherwise();
  return retry({errc::io_error, "the response ended early"}, {}, settings_->retries);
}

http_transfer::verdict http_transfer::network_failed(CURLcode code) {
  doubtful_ = true;
  const std::string why = reason_[0] != '\0' ? std::string(reason_.data()) : curl_.easy_strerror(code);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      return retry({errc::io_error, why}, {}, std::min(kConnectRetries, settings_->retries));
    case CURLE_OPERATION_TIMEDOUT:
      return retry({errc::deadline_exceeded, why}, {}, settings_->retries);
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SSL_CONNECT_ERROR:
      return retry({errc::io_error, why}, {}, settings_->retries);
    case CURLE_OUT_OF_MEMORY:
      return over(error(errc::resource_exhausted, why));
    case CURLE_URL_MALFORMAT:
      return over(error(errc::invalid_argument, why));
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return over(error(errc::permission_denied, why + " (ca_bundle, or SSL_CERT_FILE, names certificates to trust)"));
    default:
      return over(error(errc::io_error, why));
  }
}

http_transfer::verdict http_transfer::retry(error why, std::optional<std::chrono::seconds> wait, unsigned most) {
  if (std::exchange(remembered_, false)) {
    asks_anew_ = true;
    exchange_->led_to({});
  }
  redirect_.clear();
  redirects_ = 0;
  if (exchange_->has_progressed()) attempts_ = 0;  // each such attempt gets further than the last, so this ends
  if (attempts_ >= most || (wait && *wait > kLongestPatience)) {
    if (attempts_ != 0) why.note(fmt::format("after {} attempts", attempts_ + 1));
    return over(std::move(why));
  }
  due_ = clock::now() + std::max<std::chrono::milliseconds>(backoff(attempts_), wait.value_or(std::chrono::seconds(0)));
  ++attempts_;
  return verdict::again;
}

http_transfer::verdict http_transfer::redirect(CURL* handle) {
  const char* to = nullptr;
  curl_.easy_getinfo(handle, CURLINFO_REDIRECT_URL, &to);
  if (to == nullptr || ++redirects_ > kMaxRedirects)
    return over(
        error(errc::io_error, fmt::format("the server redirects {}", to == nullptr ? "to nowhere" : "too often")));
  if (request_.method != http_method::get && request_.method != http_method::head)
    return over(error(errc::io_error, fmt::format("the server redirects a {}", to_string(request_.method))));
  redirect_ = to;
  due_ = clock::now();
  return verdict::again;
}

}  // namespace penstock::inline v0

#endif
