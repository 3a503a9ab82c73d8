#include "driver/schemes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include <penstock/extend/scheme.h>
#include "driver/drivers.h"
#include "engine/context_state.h"

namespace penstock::inline v0 {
namespace {

using value_kind = option_value::kind;

constexpr double kMostRetries = 1000;

error wrong(std::string message) { return error(errc::invalid_argument, std::move(message)); }

result<std::string> text_of(const option_value& value) {
  if (value.is != value_kind::text) return wrong(fmt::format("not a text but a {}", value.type));
  const auto controls = [](char each) { return static_cast<unsigned char>(each) < 0x20; };
  if (std::any_of(value.text.begin(), value.text.end(), controls)) return wrong("a text with control characters");
  return value.text;
}

result<double> number_of(const option_value& value) {
  if (value.is == value_kind::number || value.is == value_kind::boolean) return value.number;
  if (value.is != value_kind::text) return wrong(fmt::format("not a number but a {}", value.type));
  double out = 0;
  const char *const begin = value.text.data(), *const end = begin + value.text.size();
  const auto [stopped, failed] = std::from_chars(begin, end, out);
  if (failed != std::errc() || stopped != end) return wrong(fmt::format("not a number: '{}'", value.text));
  return out;
}

template <std::string remote_options::* Member>
result<> take_text(remote_options& out, const option_value& value) {
  PENSTOCK_ASSIGN(out.*Member, text_of(value));
  return {};
}

template <double remote_options::* Member>
result<> take_seconds(remote_options& out, const option_value& value) {
  PENSTOCK_ASSIGN(const double seconds, number_of(value));
  if (!(seconds > 0)) return wrong("not a time above 0");
  out.*Member = seconds;
  return {};
}

result<> take_headers(remote_options& out, const option_value& value) {
  if (value.is != value_kind::fields) return wrong(fmt::format("not names and values but a {}", value.type));
  for (const auto& [name, field] : value.fields) {
    option_value named;
    named.is = value_kind::text;
    named.text = name;
    PENSTOCK_ASSIGN(std::string checked, text_of(named));
    PENSTOCK_ASSIGN(std::string text, text_of(field));
    out.headers.emplace_back(std::move(checked), std::move(text));
  }
  return {};
}

result<> take_netrc(remote_options& out, const option_value& value) {
  if (value.is != value_kind::boolean) return take_text<&remote_options::netrc>(out, value);
  if (value.truth) out.netrc.assign(1, '~');
  return {};
}

result<> take_retries(remote_options& out, const option_value& value) {
  PENSTOCK_ASSIGN(const double count, number_of(value));
  if (!(count >= 0 && count <= kMostRetries)) return wrong("not between 0 and 1000");
  if (value.is == value_kind::text && count != std::floor(count)) return wrong("not a whole number");
  out.retries = static_cast<unsigned>(count);
  return {};
}

result<> take_anonymous(remote_options& out, const option_value& value) {
  out.anonymous = value.truth;
  return {};
}

result<> take_path_style(remote_options& out, const option_value& value) {
  out.path_style = value.truth;
  return {};
}

struct known_option {
  std::string_view name;
  result<> (*take)(remote_options&, const option_value&);
};

constexpr std::array kOfAll = {
    known_option{"headers", take_headers},
    known_option{"ca_bundle", take_text<&remote_options::ca_bundle>},
    known_option{"connect_timeout", take_seconds<&remote_options::connect_timeout_s>},
    known_option{"timeout", take_seconds<&remote_options::timeout_s>},
    known_option{"retries", take_retries},
};
constexpr std::array kOfHttp = {
    known_option{"token", take_text<&remote_options::token>},
    known_option{"netrc", take_netrc},
};
constexpr std::array kOfBuckets = {
    known_option{"anon", take_anonymous},
    known_option{"skip_signature", take_anonymous},
    known_option{"key", take_text<&remote_options::key>},
    known_option{"aws_access_key_id", take_text<&remote_options::key>},
    known_option{"secret", take_text<&remote_options::secret>},
    known_option{"aws_secret_access_key", take_text<&remote_options::secret>},
    known_option{"endpoint_url", take_text<&remote_options::endpoint_url>},
    known_option{"region", take_text<&remote_options::region>},
    known_option{"path_style", take_path_style},
};
constexpr std::array kOfS3 = {
    known_option{"token", take_text<&remote_options::session_token>},
    known_option{"aws_session_token", take_text<&remote_options::session_token>},
    known_option{"profile", take_text<&remote_options::profile>},
    known_option{"aws_region", take_text<&remote_options::region>},
    known_option{"region_name", take_text<&remote_options::region>},
    known_option{"aws_endpoint", take_text<&remote_options::endpoint_url>},
};
constexpr std::array kOfGs = {known_option{"token", take_text<&remote_options::token>}};

using known_options = std::span<const known_option>;

/// The schemes whose stores the library has, and the options of each.
struct known_scheme {
  std::string_view name;
  remote_kind kind;
  std::array<known_options, 3> options;
};

const std::array<known_scheme, 4> kSchemes = {{
    {"http", remote_kind::http, {kOfAll, kOfHttp}},
    {"https", remote_kind::http, {kOfAll, kOfHttp}},
    {"s3", remote_kind::s3, {kOfAll, kOfBuckets, kOfS3}},
    {"gs", remote_kind::gs, {kOfAll, kOfBuckets, kOfGs}},
}};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& each : out)
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  return out;
}

/// The scheme of a URI in lower case; empty: it is not one with "://".
std::string scheme_of(std::string_view uri) {
  const std::size_t end = uri.find("://");
  return lower(uri.substr(0, end == std::string_view::npos ? 0 : end));
}

const known_scheme* find_scheme(std::string_view uri) {
  const std::string name = scheme_of(uri);
  const auto* const found =
      std::find_if(kSchemes.begin(), kSchemes.end(), [&](const known_scheme& each) { return each.name == name; });
  return found == kSchemes.end() ? nullptr : found;
}

const known_option* find_option(const known_scheme& scheme, std::string_view name) {
  for (const known_options& some : scheme.options)
    for (const known_option& each : some)
      if (each.name == name) return &each;
  return nullptr;
}

option_value* find_value(storage_options& in, std::string_view name) {
  const auto found = std::find_if(in.begin(), in.end(), [&](const auto& each) { return each.name == name; });
  return found == in.end() ? nullptr : &found->value;
}

/// The options, including those that s3fs passes to its client; gcsfs calls anonymous access "anon".
storage_options flat(std::string_view uri, storage_options given) {
  const std::optional<remote_kind> scheme = kind_of_remote(uri);
  constexpr std::string_view kOfClient = "client_kwargs";
  if (const option_value* const inner = find_value(given, kOfClient);
      scheme == remote_kind::s3 && inner != nullptr && inner->is == value_kind::fields) {
    for (const auto& [name, value] : std::vector(inner->fields))
      if (find_value(given, name) == nullptr) given.push_back({name, value});
    std::erase_if(given, [&](const auto& each) { return each.name == kOfClient; });
  }
  if (option_value* const token = find_value(given, "token");
      scheme == remote_kind::gs && token != nullptr && token->is == value_kind::text && token->text == "anon") {
    *token = {};
    option_value anonymous;
    anonymous.is = value_kind::boolean;
    anonymous.truth = true;
    given.push_back({"anon", std::move(anonymous)});
  }
  return given;
}

/// Returns the library that reads a `gs:` URI. Another library is needed if the credentials must be exchanged for
/// tokens: gcsfs's option `token` refers to them, or, without options, Google's environment variable does.
uri_server server_for_google(const storage_options& given) {
  if (given.empty()) {
    const char* const file = std::getenv("GOOGLE_APPLICATION_CREDENTIALS");
    return file != nullptr && *file != '\0' ? uri_server::another_if_installed : uri_server::library;
  }
  for (const auto& [name, value] : given) {
    if (name != "token" || value.is == value_kind::none) continue;
    if (value.is != value_kind::text) return uri_server::another;
    constexpr std::array<std::string_view, 4> kWords = {"google_default", "cloud", "cache", "browser"};
    if (std::find(kWords.begin(), kWords.end(), value.text) != kWords.end() || value.text.ends_with(".json"))
      return uri_server::another;
  }
  return uri_server::library;
}

/// Whether a file of this name is HDF5 or NetCDF.
bool is_hdf5_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string ending = lower(name.substr(dot + 1));
  const auto is = [&](std::string_view each) { return each == ending; };
  const auto hdf5 = hdf5_driver().endings(), netcdf = netcdf_driver().endings();
  return std::any_of(hdf5.begin(), hdf5.end(), is) || std::any_of(netcdf.begin(), netcdf.end(), is);
}

/// Whether text could be the scheme of a URI.
bool is_scheme(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto may_follow = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  };
  return !text.empty() && is_letter(text.front()) && std::all_of(text.begin(), text.end(), may_follow);
}

}  // namespace

const uri_scheme* added_scheme(std::string_view uri, const context* with) noexcept {
  if (with == nullptr) return nullptr;
  for (const auto& each : with->state().options().schemes) {
    const std::string_view name = each->name();
    if (uri.starts_with(name) && uri.substr(name.size()).starts_with(':')) return each.get();
  }
  return nullptr;
}

std::optional<remote_kind> kind_of_remote(std::string_view uri) {
  const known_scheme* const found = find_scheme(uri);
  return found == nullptr ? std::nullopt : std::optional(found->kind);
}

bool is_elsewhere(std::string_view uri) {
  const std::size_t end = uri.find("://");
  if (end == std::string_view::npos) return false;
  std::string_view scheme = uri.substr(0, end);
  const bool chain = scheme.find("::") != std::string_view::npos ||
                     (scheme == "zip" && uri.substr(end + 3).find("::") != std::string_view::npos);
  if (!chain && (scheme == "file" || scheme == "zip")) return false;
  while (true) {
    const std::size_t link = scheme.find("::");
    if (!is_scheme(scheme.substr(0, link))) return false;
    if (link == std::string_view::npos) return true;
    scheme.remove_prefix(link + 2);
  }
}

uri_server server_of(std::string_view uri, const storage_options& given, const context* with) {
  if (added_scheme(uri, with) != nullptr) return uri_server::library;
  if (!is_elsewhere(uri)) return uri_server::this_machine;
  const known_scheme* const scheme = find_scheme(uri);
  if (scheme == nullptr) return uri_server::another;
  const storage_options options = flat(uri, given);
  for (const auto& each : options)
    if (find_option(*scheme, each.name) == nullptr) return uri_server::another;
  return scheme->kind == remote_kind::gs ? server_for_google(options) : uri_server::library;
}

result<remote_options> remote_options_of(std::string_view uri, const storage_options& given) {
  remote_options out;
  const known_scheme* const scheme = find_scheme(uri);
  for (const auto& [name, value] : flat(uri, given)) {
    if (value.is == value_kind::none) continue;
    const known_option* const known = scheme == nullptr ? nullptr : find_option(*scheme, name);
    if (known == nullptr) return wrong(fmt::format("'{}' has no storage option '{}'", scheme_of(uri), name));
    if (auto taken = known->take(out, value); !taken.ok())
      return wrong(fmt::format("storage_options['{}']: {}", name, taken.error().message()));
  }
  return out;
}

result<> set_remote_option(remote_options& to, std::string_view name, const option_value& value) {
  for (const known_scheme& scheme : kSchemes)
    if (const known_option* const known = find_option(scheme, name)) return known->take(to, value);
  return wrong(fmt::format("no scheme has the storage option '{}'", name));
}

std::vector<std::string_view> storage_option_names(std::string_view scheme) {
  std::vector<std::string_view> out;
  const known_scheme* const known = find_scheme(std::string(scheme) + "://");
  if (known == nullptr) return out;
  for (const known_options& some : known->options)
    for (const known_option& each : some) out.push_back(each.name);
  return out;
}

object_uri split_at_object(std::string_view uri) {
  const std::size_t scheme = uri.find("://");
  object_uri whole{std::string(uri), {}};
  if (!is_elsewhere(uri) || uri.starts_with("zip:") || uri.starts_with("reference:")) return whole;
  const std::size_t query = std::min(kind_of_remote(uri) == remote_kind::http ? uri.find('?') : uri.size(), uri.size());
  const std::string_view path = uri.substr(0, query);
  for (std::size_t slash = path.find('/', scheme + 3); slash != std::string_view::npos;) {
    const std::size_t end = path.find('/', slash + 1);
    if (end == std::string_view::npos) return whole;
    if (is_hdf5_name(path.substr(slash + 1, end - slash - 1))) {
      std::string_view inner = path.substr(end);
      while (inner.starts_with('/')) inner.remove_prefix(1);
      while (inner.ends_with('/')) inner.remove_suffix(1);
      return {std::string(path.substr(0, end)) + std::string(uri.substr(query)), std::string(inner)};
    }
    slash = end;
  }
  return whole;
}

bool names_for_others(std::string_view uri) {
  const std::size_t end = uri.find("://");
  if (end == std::string_view::npos) return false;
  const std::string_view scheme = uri.substr(0, end), rest = uri.substr(end + 3);
  if (!is_scheme(scheme) || scheme == "file" || scheme == "zip") return false;
  // '?' is a character of keys in buckets.
  const bool query = rest.find('?') != std::string_view::npos && !scheme.starts_with("s3") && !scheme.starts_with("gs");
  return !query && rest.substr(0, rest.find('/')).find('@') == std::string_view::npos;
}

}  // namespace penstock::inline v0
