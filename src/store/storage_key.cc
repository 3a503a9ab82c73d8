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
    if (i < key.size() && key[i] == '\0') return bad_key(key, "must not contain a NUL");
    if (i < key.size() && key[i] != '/') continue;
    const std::string_view segment = key.substr(begin, i - begin);
    if (segment.empty()) return bad_key(key, "must not be empty, nor begin or end with '/', nor contain '//'");
    if (segment == "." || segment == "..") return bad_key(key, "must not contain the segments '.' and '..'");
    begin = i + 1;
  }
  return {};
}

result<> check_prefix(std::string_view prefix) {
  if (prefix.empty()) return {};
  if (prefix.back() != '/') return bad_key(prefix, "that is listed must be empty or end with '/'");
  return check_key(prefix.substr(0, prefix.size() - 1));
}

void key_listing::add(std::string_view key, std::uint64_t size_bytes) {
  if (key.substr(0, prefix_.size()) != prefix_) return;
  const std::size_t slash = what_ == listing::children ? key.find('/', prefix_.size()) : key.npos;
  if (slash == key.npos) {
    found_.emplace_back(key, size_bytes);
  } else if (const std::string_view folder = key.substr(0, slash + 1); !folders_.contains(folder)) {
    folders_.emplace(folder);
    found_.emplace_back(folder, 0);
  }
}

void key_listing::report(key_sink& sink) const {
  for (const auto& [key, size] : found_)
    if (!sink.key(key, size)) return;
}

}  // namespace penstock::inline v0
