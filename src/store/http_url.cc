#include "store/http_url.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::inline v0 {
namespace {

bool is_unreserved(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void to_lower(std::string& text) {
  for (char& each : text)
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
}

}  // namespace

std::string_view http_url::host() const noexcept {
  const std::string_view all = authority;
  if (!all.empty() && all.front() == '[') return all.substr(0, std::min(all.find(']') + 1, all.size()));
  return all.substr(0, all.find(':'));
}

result<http_url> http_url::parse(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return error(errc::invalid_argument, fmt::format("'{}' is not a URL: {}", without_secrets(text), why));
  };
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos) return bad("it has no '://'");
  // Names in other scripts may be UTF-8; characters that would break a header are not allowed.
  const auto printable = [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != '\x7f'; };
  if (!std::all_of(text.begin(), text.end(), printable)) return bad("it contains spaces or control characters");
  http_url out;
  out.scheme = text.substr(0, colon);
  to_lower(out.scheme);
  if (out.scheme != "http" && out.scheme != "https") return bad("its scheme is neither http nor https");
  text.remove_prefix(colon + 3);
  text = text.substr(0, text.find('#'));
  const std::size_t end = std::min(text.find_first_of("/?"), text.size());
  std::string_view authority = text.substr(0, end);
  text.remove_prefix(end);
  if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
    out.user = percent_decode(authority.substr(0, at));
    authority.remove_prefix(at + 1);
  }
  out.authority = authority;
  to_lower(out.authority);
  // libcurl does not send a scheme's own port either, and the name that is sent is signed.
  const std::string_view port = std::string_view(out.authority).substr(out.host().size());
  if (port == ":" || port == (out.scheme == "https" ? ":443" : ":80")) out.authority.resize(out.host().size());
  if (out.host().empty()) return bad("it has no host");
  const std::size_t question = std::min(text.find('?'), text.size());
  out.path = text.substr(0, question);
  if (question < text.size()) out.query = text.substr(question + 1);
  return out;
}

std::string percent_encode(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char each : text) {
    if (is_unreserved(each) || (keep_slashes && each == '/')) {
      out.push_back(each);
    } else {
      const auto value = static_cast<unsigned char>(each);
      out.push_back('%');
      out.push_back(kDigits[value >> 4]);
      out.push_back(kDigits[value & 15]);
    }
  }
  return out;
}

std::string percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit_of(text[i + 1]) >= 0 && digit_of(text[i + 2]) >= 0) {
      out.push_back(static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

bool ends_with_encoded_slash(std::string_view url) noexcept { return url.ends_with("%2F") || url.ends_with("%2f"); }

std::string without_secrets(std::string_view url) {
  const std::size_t colon = url.find("://");
  const std::size_t begin = colon == std::string_view::npos ? 0 : colon + 3;
  std::string out(url.substr(0, begin));
  std::string_view rest = url.substr(begin);
  rest = rest.substr(0, rest.find_first_of("?#"));
  const std::size_t end = std::min(rest.find('/'), rest.size());
  if (const std::size_t at = rest.substr(0, end).rfind('@'); at != std::string_view::npos) rest.remove_prefix(at + 1);
  out.append(rest);
  for (char& each : out)
    if (static_cast<unsigned char>(each) < 0x20 || each == '\x7f') each = '?';
  return out;
}

}  // namespace penstock::inline v0
