#include <fmt/format.h>
#include <penstock/joined.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "codec/codec_chain.h"
#include "engine/array_state.h"
#include "format/joined/joined_layout.h"
#include "store/joined_store.h"

namespace penstock::inline v0 {
namespace {

bool is_empty(const array& each) {
  const extents& shape = each.shape();
  return std::find(shape.begin(), shape.end(), 0U) != shape.end();
}

// `joined:file:///run/a.zarr ... c.zarr`
std::string uri_of(std::span<const array> parts) {
  std::string out = "joined:" + parts.front().uri();
  if (parts.size() == 1) return out;
  std::string last = parts.back().uri();
  while (last.ends_with('/')) last.pop_back();
  return out + " ... " + last.substr(last.rfind('/') + 1);
}

result<> check(const array& each, const array& first, std::size_t axis) {
  const auto refuse = [&](errc code, std::string why) {
    return error(code, std::move(why)).note("array '" + each.uri() + "'");
  };
  if (each.type().variable_length()) return refuse(errc::unsupported, "elements of variable length are not joined");
  bool alike = each.type() == first.type() && each.shape().size() == first.shape().size();
  for (std::size_t d = 0; alike && d < first.shape().size(); ++d)
    alike = d == axis || each.shape()[d] == first.shape()[d];
  if (!alike) {
    return refuse(errc::invalid_argument,
                  fmt::format("{} {} does not go together with {} {}", each.type().name(), to_string(each.shape()),
                              first.type().name(), to_string(first.shape())));
  }
  const auto fill = each.fill_value(), expected = first.fill_value();
  if (!std::equal(fill.begin(), fill.end(), expected.begin(), expected.end()))
    return refuse(errc::unsupported, "arrays of different fill values are not joined");
  return {};
}

}  // namespace

result<array> join(std::span<const array> parts, std::size_t axis, std::shared_ptr<penstock::context> with) {
  if (parts.empty()) return error(errc::invalid_argument, "there are no arrays to join");
  const array& first = parts.front();
  if (axis >= first.shape().size())
    return error(errc::invalid_argument,
                 fmt::format("arrays of {} dimensions have no axis {} to join along", first.shape().size(), axis));
  std::vector<const array*> full;
  array_facts facts;
  facts.shape = first.shape();
  facts.shape[axis] = 0;
  for (const array& each : parts) {
    PENSTOCK_TRY(check(each, first, axis));
    if (!checked_add(facts.shape[axis], each.shape()[axis], facts.shape[axis]))
      return error(errc::unsupported, "the joined arrays have more than 2^64 elements along their axis");
    if (!is_empty(each)) full.push_back(&each);
  }
  if (full.empty()) return error(errc::unsupported, "arrays without elements are not joined");

  array_site where;
  where.context = with ? std::move(with) : first.context();
  where.uri = uri_of(parts);
  where.opened_for_reading = true;
  where.caches_indexes = true;
  std::vector<std::shared_ptr<const store>> stores;
  for (const array* const each : full) {
    stores.push_back(each->state().store);
    where.caches_indexes = where.caches_indexes && each->state().caches_indexes;
  }
  const auto store = joined_store::make(stores, where.uri);
  std::vector<joined_part> layouts;
  facts.chunks = full.front()->chunks();
  for (std::size_t i = 0; i < full.size(); ++i) {
    layouts.push_back({full[i]->state().layout, store->prefix(i) + full[i]->state().prefix});
    facts.chunks[axis] = std::max(facts.chunks[axis], full[i]->chunks()[axis]);
  }
  where.store = store;
  auto layout = joined_layout::make(std::move(layouts), axis);
  if (!layout.ok()) return std::move(layout).error().note("joining '" + where.uri + "'");
  facts.format = "joined";
  facts.type = first.type();
  facts.fill_value = first.state().fill_value;
  facts.codecs_json = full.front()->codecs_json();
  facts.codecs_text = full.front()->codecs_text();
  facts.dimension_names.resize(facts.shape.size());
  return array(std::make_shared<const array_state>(std::move(where), std::move(*layout), std::move(facts)));
}

}  // namespace penstock::inline v0
