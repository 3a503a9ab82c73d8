#include "api/shards/shard_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <penstock/extend/json.h>
#include <penstock/shard_writer.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "array/strided_copy.h"
#include "engine/context_state.h"
#include "store/file_status.h"

namespace penstock::inline v0 {
namespace {

namespace fs = std::filesystem;

/// The most digits in the number of a shard.
constexpr std::size_t kMostDigits = 20;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

result<items_in_order> in_c_order(const tensor_view& items, std::uint64_t size, context& with) {
  items_in_order out;
  out.bytes = {items.data, static_cast<std::size_t>(size)};
  const std::uint32_t item = items.type.item_bytes();
  const strides stored = c_order_strides(items.extents, item);
  if (size == 0 || items.strides == stored) return out;
  PENSTOCK_ASSIGN(out.copied, with.state().outputs().take(size));
  strided_copy(out.copied.data(), stored, items.data, items.strides, items.extents, item, 1);
  out.bytes = {out.copied.data(), out.bytes.size()};
  return out;
}

std::string key_of_path(const std::string& path) {
  std::error_code none;
  // The absolute form of an empty path is empty, and the normal form of "run/." ends with a '/'.
  std::string out = fs::absolute(path.empty() ? "." : path, none).lexically_normal().string();
  while (out.ends_with('/')) out.pop_back();
  out.erase(0, out.find_first_not_of('/'));
  return out;
}

result<> sync_names(std::span<const std::string> paths) {
  std::set<std::string> done;
  for (const std::string& path : paths) {
    std::string folder = fs::path('/' + key_of_path(path)).parent_path().string();
    while (done.insert(folder).second) {
      const descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!opened && errno == EACCES) break;  // this process did not create it
      if (!opened) return write_failure(errno, "syncing the folder '" + folder + "'");
      if (::fsync(opened.get()) != 0 && errno != EINVAL && errno != ENOSYS)
        return write_failure(errno, "syncing the folder '" + folder + "'");
      const std::string above = fs::path(folder).parent_path().string();
      struct ::stat here{}, there{};
      if (above == folder || ::fstat(opened.get(), &here) != 0 || ::stat(above.c_str(), &there) != 0 ||
          here.st_dev != there.st_dev)
        break;
      folder = above;
    }
  }
  return {};
}

result<shard_pattern> shard_pattern::parse(std::string_view text) {
  shard_pattern out;
  out.text_ = std::string(text);
  if (text.starts_with("file:")) {
    text.remove_prefix(5);
    if (text.starts_with("//localhost/")) text.remove_prefix(11);
    if (text.starts_with("//")) text.remove_prefix(2);
    out.text_ = std::string(text);
  }
  if (out.text_.find("://") != std::string::npos)
    return error(errc::unsupported, fmt::format("shards are written to files of this machine, not to '{}'", out.text_));
  const auto refuse = [&](std::string_view why) {
    return error(errc::invalid_argument, fmt::format("'{}' is not a pattern with one {{}}{}", out.text_, why));
  };
  bool found = false;
  for (std::size_t at = 0; at < out.text_.size(); ++at) {
    const char each = out.text_[at];
    std::string& literal = found ? out.after_ : out.before_;
    if ((each == '{' || each == '}') && at + 1 < out.text_.size() && out.text_[at + 1] == each) {
      literal += each;
      ++at;
      continue;
    }
    if (each == '}') return refuse(": a single '}' in it");
    if (each != '{') {
      literal += each;
      continue;
    }
    const std::size_t end = out.text_.find('}', at);
    if (end == std::string::npos) return refuse(": a single '{' in it");
    std::string_view field(out.text_.data() + at + 1, end - at - 1);
    if (field.starts_with('0')) field.remove_prefix(1);
    if (field.starts_with(':')) field.remove_prefix(1);
    if (field.ends_with('d') && out.text_[at + 1] != 'd') field.remove_suffix(1);
    const bool digits = field.size() < kMostDigits && std::all_of(field.begin(), field.end(), is_digit);
    const bool has_spec = out.text_.find(':', at) < end;
    if (found || !digits || (!has_spec && !field.empty())) return refuse(", which may have a width ({:05d})");
    out.zeros_ = field.starts_with('0');
    if (!field.empty()) std::from_chars(field.data(), field.data() + field.size(), out.width_);
    if (out.width_ > 255) return refuse(", which may have a width ({:05d})");
    found = true;
    at = end;
  }
  if (found) return out;
  return error(errc::invalid_argument,
               fmt::format("'{}' gives shards of different numbers one name: it has no {{}}", out.text_));
}

std::string shard_pattern::path(std::uint64_t number) const {
  std::string digits = std::to_string(number);
  if (digits.size() < width_) digits.insert(0, width_ - digits.size(), zeros_ ? '0' : ' ');
  return before_ + digits + after_;
}

std::string shard_pattern::folder() const {
  const std::size_t slash = before_.rfind('/');
  if (slash == std::string::npos) return {};
  return slash == 0 ? "/" : before_.substr(0, slash);
}

std::string shard_pattern::suffix() const {
  const std::size_t slash = after_.rfind('/'), dot = after_.rfind('.');
  if (dot == std::string::npos || (slash != std::string::npos && dot < slash + 2)) return {};
  std::string out = after_.substr(dot);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return out;
}

result<std::vector<std::string>> shard_pattern::left_over(std::uint64_t count) const {
  const std::string in = folder();
  const std::string begin = before_.substr(before_.rfind('/') + 1);
  const std::string end = after_.substr(0, after_.find('/'));
  std::vector<std::string> out;
  std::error_code failed;
  fs::directory_iterator entries(in.empty() ? "." : in, failed);
  for (; !failed && entries != fs::directory_iterator(); entries.increment(failed)) {
    const std::string name = entries->path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(end) || name.size() < begin.size() + end.size()) continue;
    std::string_view middle(name.data() + begin.size(), name.size() - begin.size() - end.size());
    while (middle.starts_with(' ')) middle.remove_prefix(1);
    std::uint64_t number = 0;
    const auto [last, bad] = std::from_chars(middle.data(), middle.data() + middle.size(), number);
    if (middle.empty() || bad != std::errc() || last != middle.data() + middle.size() || number < count) continue;
    std::string made = path(number);
    const std::string here = before_.substr(0, before_.size() - begin.size()) + name;
    struct ::stat status{};
    if (made.starts_with(here) && ::lstat(made.c_str(), &status) == 0) out.push_back(std::move(made));
  }
  if (failed && failed != std::errc::no_such_file_or_directory)
    return read_failure(failed.value(), "listing the folder '" + in + "'");
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace penstock::inline v0
