#include "store/s3_account.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "store/http_url.h"

namespace penstock::inline v0 {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string first_of(std::initializer_list<std::string> values) {
  for (const std::string& each : values)
    if (!each.empty()) return each;
  return {};
}

std::string text_of(const std::string& path) {
  constexpr std::streamsize kMax = 1 << 20;  // such files are short
  std::ifstream file(path, std::ios::binary);
  std::string out;
  if (!file) return out;
  out.resize(kMax);
  file.read(out.data(), kMax);
  out.resize(static_cast<std::size_t>(file.gcount()));
  return out;
}

std::string_view trimmed_line(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// The two files of a user. Both are searched, because a profile may be in either.
class profile {
 public:
  explicit profile(std::string name) : name_(std::move(name)) {
    const std::string home = environment("HOME") + "/.aws/";
    credentials_ = text_of(first_of({environment("AWS_SHARED_CREDENTIALS_FILE"), home + "credentials"}));
    config_ = text_of(first_of({environment("AWS_CONFIG_FILE"), home + "config"}));
  }

  std::string find(std::string_view member) const {
    if (auto found = find_in_ini(credentials_, name_, member)) return *found;
    const std::string section = name_ == "default" ? name_ : "profile " + name_;
    return find_in_ini(config_, section, member).value_or("");
  }
  bool exists() const {
    const std::string there = "[" + name_ + "]", also = "[profile " + name_ + "]";
    return credentials_.find(there) != std::string::npos || config_.find(there) != std::string::npos ||
           config_.find(also) != std::string::npos;
  }

 private:
  std::string name_, credentials_, config_;
};

result<std::optional<s3_credentials>> find_credentials(s3_flavour flavour, const remote_options& options,
                                                       const profile& from) {
  if (options.anonymous) return std::optional<s3_credentials>();
  if (options.key.empty() != options.secret.empty())
    return error(errc::invalid_argument, "a key and a secret are both needed, one of them is missing");
  if (!options.key.empty()) return std::optional(s3_credentials{options.key, options.secret, options.session_token});
  // Amazon's names are not used for Google's keys.
  if (flavour == s3_flavour::google) return std::optional<s3_credentials>();
  if (options.profile.empty()) {
    s3_credentials found{environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
                         environment("AWS_SESSION_TOKEN")};
    if (!found.key.empty() && !found.secret.empty()) return std::optional(std::move(found));
  }
  s3_credentials found{from.find("aws_access_key_id"), from.find("aws_secret_access_key"),
                       from.find("aws_session_token")};
  if (!found.key.empty() && !found.secret.empty()) return std::optional(std::move(found));
  return std::optional<s3_credentials>();
}

bool is_bucket_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= 255 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
}

// Valid as the first part of a host name that a certificate for `*.s3.amazonaws.com` covers.
bool is_host_label(std::string_view name) noexcept {
  return name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

}  // namespace

std::optional<std::string> find_in_ini(std::string_view text, std::string_view section, std::string_view name) {
  bool inside = false;
  std::optional<std::string> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end), line = trimmed_line(raw);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      inside = trimmed_line(line.substr(1, line.find(']') - 1)) == section;
      continue;
    }
    const std::size_t equals = line.find('=');
    // Indented lines are members of a member.
    if (!inside || equals == std::string_view::npos || raw.front() == ' ' || raw.front() == '\t') continue;
    if (trimmed_line(line.substr(0, equals)) == name) out = std::string(trimmed_line(line.substr(equals + 1)));
  }
  return out;
}

result<std::shared_ptr<s3_account>> s3_account::make(s3_flavour flavour, std::string bucket,
                                                     const remote_options& options) {
  if (!is_bucket_name(bucket)) return error(errc::invalid_argument, fmt::format("'{}' is not a bucket name", bucket));
  const std::string named = first_of({options.profile, environment("AWS_PROFILE")});
  const profile from(named.empty() ? "default" : named);
  if (!options.profile.empty() && !from.exists())
    return error(errc::invalid_argument, fmt::format("there is no profile '{}'", options.profile));
  std::shared_ptr<s3_account> out(new s3_account(flavour, std::move(bucket)));
  PENSTOCK_ASSIGN(out->credentials_, find_credentials(flavour, options, from));
  out->token_ = options.anonymous ? std::string() : options.token;
  out->headers_ = options.headers;
  if (flavour == s3_flavour::google) {
    out->endpoint_ = first_of({options.endpoint_url, "https://storage.googleapis.com"});
    out->region_ = first_of({options.region, "auto"});
    out->path_style_ = options.path_style.value_or(true);
  } else {
    out->endpoint_ = first_of({options.endpoint_url, environment("AWS_ENDPOINT_URL_S3"),
                               environment("AWS_ENDPOINT_URL"), from.find("endpoint_url")});
    out->region_ = first_of({options.region, environment("AWS_REGION"), environment("AWS_DEFAULT_REGION"),
                             from.find("region"), "us-east-1"});
    out->path_style_ = options.path_style.value_or(!out->endpoint_.empty() || !is_host_label(out->bucket_));
  }
  while (!out->endpoint_.empty() && out->endpoint_.back() == '/') out->endpoint_.pop_back();
  if (!out->endpoint_.empty()) PENSTOCK_TRY(http_url::parse(out->endpoint_));
  return out;
}

result<> s3_account::address(std::string_view key, std::string_view query, std::string_view payload_hash,
                             http_request& out) const {
  const std::string region = this->region();
  const std::string endpoint = endpoint_.empty() ? fmt::format("https://s3.{}.amazonaws.com", region) : endpoint_;
  PENSTOCK_ASSIGN(const http_url base, http_url::parse(endpoint));
  out.url = path_style_ ? fmt::format("{}{}/{}/", base.origin(), base.path, bucket_)
                        : fmt::format("{}://{}.{}{}/", base.scheme, bucket_, base.authority, base.path);
  out.url += percent_encode(key, true);
  if (!query.empty()) out.url.append("?").append(query);
  out.follow_redirects = false;  // a signature is for one host
  out.region = region;
  for (const auto& [name, value] : headers_) out.headers.push_back({name, value, true});
  if (!token_.empty()) {
    out.headers.push_back({"Authorization", "Bearer " + token_, true});
    return {};
  }
  if (!credentials_) return {};
  return sign_v4(out, *credentials_, signing_time(), region, "s3", payload_hash);
}

bool s3_account::learn_region(const http_head& head, std::string_view asked) {
  const std::string_view told = head.find("x-amz-bucket-region");
  if (flavour_ == s3_flavour::google || told.empty() || !is_host_label(told)) return false;
  if (head.status != 301 && head.status != 307 && head.status != 400 && head.status != 403) return false;
  // The answer to another request may have told the region: then this one only has to be repeated.
  if (told == asked) return false;
  const std::lock_guard lock(mutex_);
  region_ = told;
  return true;
}

}  // namespace penstock::inline v0
