#include "store/sigv4.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "store/http_url.h"

namespace penstock::inline v0 {
namespace {

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& each : out)
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  return out;
}

// Outer blanks are removed, and runs of them become one.
std::string canonical_value(std::string_view text) {
  std::string out;
  for (const char each : text) {
    const bool blank = each == ' ' || each == '\t';
    if (blank && (out.empty() || out.back() == ' ')) continue;
    out.push_back(blank ? ' ' : each);
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

// Each name and value decoded and encoded again, so that every spelling is signed as the server sees it.
std::string canonical_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> fields;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view one = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (one.empty()) continue;
    const std::size_t equals = std::min(one.find('='), one.size());
    const std::string_view value = one.substr(std::min(equals + 1, one.size()));
    fields.emplace_back(percent_encode(percent_decode(one.substr(0, equals)), false),
                        percent_encode(percent_decode(value), false));
  }
  std::sort(fields.begin(), fields.end());
  std::string out;
  for (const auto& [name, value] : fields) {
    if (!out.empty()) out.push_back('&');
    out.append(name).append("=").append(value);
  }
  return out;
}

}  // namespace

std::string signing_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

result<> sign_v4(http_request& request, const s3_credentials& with, std::string_view when, std::string_view region,
                 std::string_view service, std::string_view payload_hash) {
  PENSTOCK_ASSIGN(const http_url url, http_url::parse(request.url));
  request.headers.push_back({"x-amz-date", std::string(when)});
  if (service == "s3") request.headers.push_back({"x-amz-content-sha256", std::string(payload_hash)});
  if (!with.session_token.empty()) request.headers.push_back({"x-amz-security-token", with.session_token, true});

  std::vector<std::pair<std::string, std::string>> fields{{"host", url.authority}};
  for (const http_header& each : request.headers) {
    std::string name = lowered(each.name);
    if (name.compare(0, 6, "x-amz-") == 0 || name == "range" || name == "date")
      fields.emplace_back(std::move(name), canonical_value(each.value));
  }
  std::sort(fields.begin(), fields.end());
  std::string headers, names;
  for (const auto& [name, value] : fields) {
    headers.append(name).append(":").append(value).append("\n");
    if (!names.empty()) names.push_back(';');
    names.append(name);
  }
  const std::string path = url.path.empty() ? "/" : percent_encode(percent_decode(url.path), true);
  const std::string canonical = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", to_string(request.method), path,
                                            canonical_query(url.query), headers, names, payload_hash);
  const std::string_view day = when.substr(0, 8);
  const std::string scope = fmt::format("{}/{}/{}/aws4_request", day, region, service);
  const std::string to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", when, scope, to_hex(sha256::of(canonical)));

  const std::string first = "AWS4" + with.secret;
  sha256::digest key = hmac_sha256(std::as_bytes(std::span(first)), day);
  for (const std::string_view each : {region, service, std::string_view("aws4_request")}) key = hmac_sha256(key, each);
  request.headers.push_back({"Authorization",
                             fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}", with.key,
                                         scope, names, to_hex(hmac_sha256(key, to_sign))),
                             true});
  return {};
}

}  // namespace penstock::inline v0
