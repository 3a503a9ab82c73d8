#include "driver/npz.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/drivers.h"
#include "driver/registry.h"
#include "driver/zarr_nodes.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kEnding = ".npy";
constexpr std::size_t kMostNames = 20;

class array_names final : public key_sink {
 public:
  bool key(std::string_view key, std::uint64_t) override {
    if (key.ends_with(kEnding)) names.emplace_back(key.substr(0, key.size() - kEnding.size()));
    return true;
  }
  std::vector<std::string> names;
};

result<std::string> only_array(const location& at) {
  array_names found;
  PENSTOCK_TRY(at.from->list("", listing::objects, found));
  if (found.names.empty()) return error(errc::not_found, fmt::format("'{}' holds no arrays", at.uri));
  if (found.names.size() == 1) return std::move(found.names.front());
  std::sort(found.names.begin(), found.names.end());
  const std::size_t count = found.names.size();
  found.names.resize(std::min(count, kMostNames));
  return error(errc::invalid_argument,
               fmt::format("'{}' holds {} arrays, name one of them: {}", at.uri, count, fmt::join(found.names, ", ")));
}

}  // namespace

result<std::optional<found_node>> find_npz_member(const location& at) {
  const std::string uri = at.from->uri();
  if (!uri.starts_with("zip:") || !uri.ends_with(".npz") || at.head != nullptr) return std::optional<found_node>();
  location member = at;
  if (member.path.empty()) {
    PENSTOCK_ASSIGN(member.path, only_array(at));
  } else if (member.path.ends_with(kEnding)) {
    return std::optional<found_node>();  // its name is the object's
  }
  member.path += kEnding;
  member.uri = child_uri(uri, member.path + "/");
  PENSTOCK_ASSIGN(std::optional<object_head> head, read_head(*member.from, member.path));
  if (!head || !npy_driver().sniff(head->bytes, member.path)) return std::optional<found_node>();
  member.head = std::make_shared<const object_head>(std::move(*head));
  return std::optional<found_node>(found_node{unowned(npy_driver()), std::move(member), {}, {}, {}});
}

}  // namespace penstock::inline v0
