#include "store/http_store.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <penstock/extend/store.h>

namespace penstock::inline v0 {
namespace {

std::chrono::milliseconds time_of(double seconds) {
  constexpr double kLongest = 86400;
  const double held = std::isfinite(seconds) ? std::clamp(seconds, 0.001, kLongest) : kLongest;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(held * 1000)));
}

}  // namespace

store_traits http_traits() noexcept {
  store_traits out;
  // At 50 ms and 100 Mbit/s a request costs as much as 600 KiB: this much never justifies a request of its own.
  out.max_gap_bytes = out.request_bytes = std::uint64_t{128} << 10;
  // Many parallel responses use a line better than a long one: one connection is slow to start.
  out.max_length_bytes = std::uint64_t{1} << 20;
  out.versions = true;
  out.sizes = true;
  out.blocking = true;
  out.inline_completion = false;
  return out;
}

std::shared_ptr<const http_settings> http_settings_of(const remote_options& options) {
  auto out = std::make_shared<http_settings>();
  out->connect_timeout = time_of(options.connect_timeout_s);
  out->stall_timeout = std::chrono::ceil<std::chrono::seconds>(time_of(options.timeout_s));
  out->retries = options.retries;
  out->ca_bundle = options.ca_bundle;
  out->netrc = options.netrc;
  return out;
}

void start_http_reads(http_transport& through, const std::shared_ptr<const http_objects>& from,
                      std::span<const byte_read> reads, completion_sink& sink, const std::stop_token& stop) {
  for (const byte_read& one : reads) {
    auto bad = stop.stop_requested() ? error(errc::cancelled, "the read was stopped") : check_key(one.key);
    if (bad.ok()) {
      through.start(make_http_read(from, one, sink), from->settings, stop);
    } else {
      sink.complete(one.tag, std::move(bad).error());
    }
  }
}

http_store::rooted http_store::at_root() const {
  rooted out;
  if (base_.path.size() < 2 || base_.path.find("%2") != std::string::npos) return out;
  http_url root = base_;
  root.path.clear();
  out.from = std::make_shared<const http_store>(through_, std::move(root), options_);
  out.path = percent_decode(std::string_view(base_.path).substr(1));
  return out;
}

http_store::http_store(std::shared_ptr<http_transport> through, http_url base, const remote_options& options)
    : through_(std::move(through)), base_(std::move(base)), options_(options) {
  while (!base_.path.empty() && base_.path.back() == '/') base_.path.pop_back();
  auto made = std::make_shared<http_objects>();
  made->settings = http_settings_of(options);
  made->redirects = std::make_shared<redirect_targets>();
  made->address = [base = base_, headers = options.headers, token = options.token](std::string_view key,
                                                                                   http_request& out) -> result<> {
    out.url = base.origin() + base.path + (ends_with_encoded_slash(base.path) ? "" : "/") + percent_encode(key, true);
    if (!base.query.empty()) out.url += "?" + base.query;
    out.user = base.user;
    for (const auto& [name, value] : headers) out.headers.push_back({name, value, true});
    if (!token.empty()) out.headers.push_back({"Authorization", "Bearer " + token, true});
    return {};
  };
  objects_ = std::move(made);
}

store_traits http_store::traits() const { return http_traits(); }

void http_store::read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const {
  start_http_reads(*through_, objects_, reads, sink, stop);
}

std::string http_store::uri() const { return base_.origin() + base_.path; }

}  // namespace penstock::inline v0
