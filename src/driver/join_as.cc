#include "driver/join_as.h"

#include <fmt/format.h>
#include <penstock/joined.h>

#include <string_view>
#include <utility>

#include "engine/array_state.h"
#include "store/read_only_store.h"

namespace penstock::inline v0 {
namespace {

/// The members of a group of open arrays. Immutable.
class array_members final : public member_source {
 public:
  array_members(std::map<std::string, array, std::less<>> arrays, std::string uri)
      : arrays_(std::move(arrays)), uri_(std::move(uri)) {}

  result<node> open(std::string_view path) const override {
    while (path.ends_with('/')) path.remove_suffix(1);
    while (path.starts_with('/')) path.remove_prefix(1);
    const auto found = arrays_.find(path);
    if (found != arrays_.end()) return node(found->second);
    return error(errc::not_found, fmt::format("'{}' has no variable '{}'", uri_, path));
  }
  result<std::optional<std::vector<std::string>>> keys(std::string_view) const override {
    std::vector<std::string> out;
    for (const auto& each : arrays_) out.push_back(each.first);
    return std::optional(std::move(out));
  }

 private:
  std::map<std::string, array, std::less<>> arrays_;
  std::string uri_;
};

}  // namespace

result<array> join_as(std::span<const array> parts, std::size_t axis, joined_facts what,
                      std::shared_ptr<context> with) {
  PENSTOCK_ASSIGN(const array made, join(parts, axis, std::move(with)));
  array_site where = made.state();
  where.uri = std::move(what.uri);
  array_facts facts = made.state();
  facts.attributes_json = std::move(what.attributes_json);
  facts.dimension_names = std::move(what.dimension_names);
  facts.references = std::move(what.references);
  return array(std::make_shared<const array_state>(std::move(where), made.state().layout, std::move(facts)));
}

array open_later(const array& boxes, std::shared_ptr<const closed_parts> parts) {
  array_facts facts = boxes.state();
  facts.closed = std::move(parts);
  return array(std::make_shared<const array_state>(boxes.state(), boxes.state().layout, std::move(facts)));
}

group group_of(joined_group_facts what, std::map<std::string, array, std::less<>> arrays,
               std::shared_ptr<const store> from, std::shared_ptr<context> with) {
  auto out = std::make_shared<group_state>();
  out->context = std::move(with);
  out->store = std::make_shared<read_only_store>(std::move(from));
  out->opened_for_reading = true;
  out->attributes_json = std::move(what.attributes_json);
  out->format = std::move(what.format);
  out->members = std::make_shared<const array_members>(std::move(arrays), what.uri);
  out->uri = std::move(what.uri);
  out->use_consolidated = consolidation::never;
  out->hdf5 = std::move(what.hdf5);
  return group(std::move(out));
}

}  // namespace penstock::inline v0
