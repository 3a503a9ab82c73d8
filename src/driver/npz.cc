#include "driver/npz.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/drivers.h"
#include "driver/registry.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kFormat = "npz", kEnding = ".npy";

class array_names final : public key_sink {
 public:
  bool key(std::string_view key, std::uint64_t) override {
    if (key.ends_with(kEnding)) names.emplace(key.substr(0, key.size() - kEnding.size()));
    return true;
  }
  std::set<std::string, std::less<>> names;
};

/// The arrays of an archive, opened at first use. A name with '/' is that of an array in a group.
class npz_members final : public member_source, public std::enable_shared_from_this<npz_members> {
 public:
  npz_members(location at, std::set<std::string, std::less<>> names, const open_options& how)
      : at_(std::move(at)), names_(std::move(names)), how_(how) {}

  result<node> open(std::string_view path) const override {
    const std::string prefix = prefix_of(path);
    const std::string name = prefix.substr(0, prefix.size() - (prefix.empty() ? 0 : 1));
    if (names_.contains(name)) {
      location member = at_;
      member.path = name;
      PENSTOCK_ASSIGN(std::optional<found_node> found, find_npz_member(member, how_));
      if (found) return open_found(std::move(*found), how_);
    }
    const auto below = names_.lower_bound(prefix);
    if (below == names_.end() || !below->starts_with(prefix))
      return error(errc::not_found, fmt::format("'{}' has no array '{}'", at_.uri, name));
    return node(group_at(prefix));
  }

  result<std::optional<std::vector<std::string>>> keys(std::string_view path) const override {
    const std::string prefix = prefix_of(path);
    std::set<std::string> found;  // 'a-b' is between 'a' and 'a/b'
    for (auto each = names_.lower_bound(prefix); each != names_.end() && each->starts_with(prefix); ++each) {
      const std::string_view name = std::string_view(*each).substr(prefix.size());
      if (!name.empty()) found.emplace(name.substr(0, name.find('/')));
    }
    return std::optional(std::vector<std::string>(found.begin(), found.end()));
  }

  group group_at(const std::string& prefix) const {
    auto state = std::make_shared<group_state>();
    state->context = at_.context;
    state->store = at_.from;
    state->prefix = prefix;
    state->opened_for_reading = how_.mode == open_mode::read;
    state->attributes_json = "{}";
    state->format = kFormat;
    state->uri = prefix.empty() ? at_.uri : child_uri(at_.from->uri(), prefix);
    state->use_consolidated = consolidation::never;
    state->members = shared_from_this();
    return group(std::move(state));
  }

 private:
  location at_;  ///< of the archive
  std::set<std::string, std::less<>> names_;
  open_options how_;
};

}  // namespace

result<std::optional<found_node>> find_npz_member(const location& at, const open_options& how) {
  const std::string uri = at.from->uri();
  if (!uri.starts_with("zip:") || !uri.ends_with(".npz") || at.head != nullptr) return std::optional<found_node>();
  location member = at;
  if (member.path.empty()) {
    array_names found;
    PENSTOCK_TRY(at.from->list("", listing::objects, found));
    if (found.names.empty()) return error(errc::not_found, fmt::format("'{}' holds no arrays", at.uri));
    if (found.names.size() > 1) {
      const auto members = std::make_shared<const npz_members>(at, std::move(found.names), how);
      return std::optional<found_node>(found_node{nullptr, at, {}, node(members->group_at("")), {}});
    }
    member.path = *found.names.begin();
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
