#include <penstock/extend/store.h>

#include <fmt/format.h>

namespace penstock::inline v0 {
namespace {

error bad_key(std::string_view key, std::string_view why) {
  std::string shown(key.substr(0, 200));
  for (char& each : shown)
    if (static_cast<unsigned char>(each) < 0x20 || each == '\x7f') each = '?';
  return {errc::invalid_argument, fmt::format("a storage key {}: '{}'", why, shown)};
}

}  // namespace

result<> check_key(std::string_view key) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= key.size(); ++i) {
    if (i < key.size() && key[i] == '\0') return bad_key(key, "must not hold a NUL");
    if (i < key.size() && key[i] != '/') continue;
    const std::string_view segment = key.substr(begin, i - begin);
    if (segment.empty()) return bad_key(key, "must not be empty, nor begin or end with '/', nor hold '//'");
    if (segment == "." || segment == "..") return bad_key(key, "must not hold the segments '.' and '..'");
    begin = i + 1;
  }
  return {};
}

result<> check_prefix(std::string_view prefix) {
  if (prefix.empty()) return {};
  if (prefix.back() != '/') return bad_key(prefix, "that is listed must be empty or end with '/'");
  return check_key(prefix.substr(0, prefix.size() - 1));
}

}  // namespace penstock::inline v0
