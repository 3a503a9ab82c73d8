#include "base/process_limits.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>

#include "base/system_calls.h"

namespace penstock::inline v0 {
namespace {

/// Version 1 writes the largest multiple of a page instead of "max".
constexpr std::uint64_t kNoMemoryLimit = std::uint64_t{1} << 60;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Removes what precedes `end`, and `end`, from `rest`, and returns it.
std::string_view take_until(std::string_view& rest, char end) noexcept {
  const std::size_t at = std::min(rest.find(end), rest.size());
  const std::string_view out = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return out;
}

/// A number of one or more digits. Any other text ("max", "-1", an empty file) means that the limit is not set.
std::optional<std::uint64_t> number(std::string_view text) noexcept {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::uint64_t out = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return out;
}

template <class T>
void lower(std::optional<T>& limit, T to) noexcept {
  limit = limit ? std::min(*limit, to) : to;
}

void read_processors(const std::string& quota, const std::string& period, std::optional<double>& limit) noexcept {
  const auto share = number(quota), of = number(period);
  if (share && of && *share != 0 && *of != 0) lower(limit, static_cast<double>(*share) / static_cast<double>(*of));
}

void read_folder(const std::string& folder, process_limits& limits) {
  for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
    const auto bytes = number(text_of(folder + name));
    if (bytes && *bytes != 0 && *bytes < kNoMemoryLimit) lower(limits.cgroup_memory, *bytes);
  }
  const std::string both = text_of(folder + "/cpu.max");
  std::string_view rest = both;
  const std::string_view quota = take_until(rest, ' ');
  read_processors(std::string(quota), std::string(rest), limits.cgroup_processors);
  read_processors(text_of(folder + "/cpu.cfs_quota_us"), text_of(folder + "/cpu.cfs_period_us"),
                  limits.cgroup_processors);
}

/// A group and those that contain it, but for the hierarchy's own. In a container, the path may be that outside of the
/// container, and no such folder exists; the hierarchy's own folder is its group then.
void read_groups(const std::string& hierarchy, std::string_view path, process_limits& limits) {
  while (path.ends_with('/')) path.remove_suffix(1);
  while (!path.empty()) {
    read_folder(hierarchy + std::string(path), limits);
    const std::size_t slash = path.rfind('/');
    path = path.substr(0, slash == path.npos ? 0 : slash);
  }
}

}  // namespace

unsigned process_limits::processors() const noexcept {
  unsigned out = std::max(1U, allowed_processors);
  if (cgroup_processors && *cgroup_processors < out) out = static_cast<unsigned>(std::ceil(*cgroup_processors));
  return std::max(1U, out);
}

std::uint64_t process_limits::memory() const noexcept {
  if (!cgroup_memory) return machine_memory;
  return machine_memory == 0 ? *cgroup_memory : std::min(machine_memory, *cgroup_memory);
}

process_limits find_process_limits(const std::string& root) {
  process_limits out;
  out.machine_processors = std::max(1U, std::thread::hardware_concurrency());
  out.allowed_processors = processors_of_thread().value_or(out.machine_processors);
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
  if (pages > 0 && page > 0) out.machine_memory = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);

  const std::string groups = root + "/sys/fs/cgroup", own = text_of(root + "/proc/self/cgroup");
  for (const char* hierarchy : {"", "/memory", "/cpu"}) read_folder(groups + hierarchy, out);
  std::string_view lines = own;
  while (!lines.empty()) {  // "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1
    std::string_view path = take_until(lines, '\n');
    take_until(path, ':');
    std::string_view controllers = take_until(path, ':');
    if (controllers.empty()) read_groups(groups, path, out);
    while (!controllers.empty()) {
      const std::string_view each = take_until(controllers, ',');
      if (each == "memory" || each == "cpu") read_groups(groups + "/" + std::string(each), path, out);
    }
  }
  return out;
}

}  // namespace penstock::inline v0
