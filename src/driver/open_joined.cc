#include <fmt/format.h>
#include <penstock/array_source.h>
#include <penstock/joined.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/counted.h"
#include "codec/codec_chain.h"
#include "engine/array_state.h"
#include "engine/borrowed_job.h"
#include "engine/read_job.h"
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
                  fmt::format("{} {} does not match {} {}", each.type().name(), to_string(each.shape()),
                              first.type().name(), to_string(first.shape())));
  }
  return {};
}

bool has_fill_of(const array& each, const array& other) {
  const auto fill = each.fill_value(), expected = other.fill_value();
  return std::equal(fill.begin(), fill.end(), expected.begin(), expected.end());
}

// The names of dimensions that all parts have. Empty if they share none.
std::vector<std::optional<std::string>> shared_names(std::span<const array> parts) {
  std::vector<std::optional<std::string>> out = parts.front().dimension_names();
  for (const array& each : parts) {
    const auto& names = each.dimension_names();
    for (std::size_t d = 0; d < out.size(); ++d)
      if (d >= names.size() || names[d] != out[d]) out[d].reset();
  }
  if (std::none_of(out.begin(), out.end(), [](const auto& name) { return name.has_value(); })) out.clear();
  return out;
}

// Reads a box on the calling thread, which belongs to the read of the joined array.
result<> read_box(const array_state& from, const box& which, std::span<std::byte> out) {
  source wanted;
  wanted.layout = from.layout.get();
  wanted.store = from.store.get();
  wanted.prefix = from.prefix;
  for (std::size_t d = 0; d < which.size.size(); ++d) {
    wanted.from.push_back({static_cast<std::int64_t>(which.origin[d]), 1, which.size[d]});
  }
  wanted.to = out.data();
  wanted.to_strides = c_order_strides(which.size, from.type.item_bytes());
  wanted.fill = from.fill_value.data();
  wanted.uid = from.caches_indexes ? from.uid : 0;
  context_state& with = from.context->state();
  const borrowed_job<read_job> job(with, with.take_job());
  read_job::settings settings;
  settings.io_concurrency = with.io_concurrency();
  settings.limits.trim_cells = settings.limits.whole_objects = true;
  job->begin({&wanted, 1}, std::move(settings));
  with.executor().run(job.shared(), 1, {}, {});
  return job->outcome();
}

// The parts with elements, for reads of the join.
std::shared_ptr<const array_parts> parts_of(std::span<const array> parts, std::size_t axis, const std::string& uri,
                                            const std::shared_ptr<penstock::context>& with) {
  std::vector<array> full;
  std::vector<std::shared_ptr<const store>> stores;
  for (const array& each : parts) {
    if (is_empty(each)) continue;
    full.push_back(each);
    stores.push_back(each.state().store);
  }
  if (full.empty()) return nullptr;
  const auto store = joined_store::make(stores, uri);
  std::vector<std::string> prefixes;
  for (std::size_t i = 0; i < full.size(); ++i) prefixes.push_back(store->prefix(i) + full[i].state().prefix);
  return std::make_shared<const array_parts>(axis, std::move(full), std::move(prefixes), store, with);
}

// Joins the arrays as sources, for joins that one grid with one fill value cannot describe.
result<array> join_boxes(std::span<const array> parts, std::size_t axis, std::shared_ptr<penstock::context> with) {
  std::vector<array_source> sources;
  sources.reserve(parts.size());
  for (const array& each : parts) {
    extents chunks = each.chunks();
    for (std::uint64_t& length : chunks) length = std::max<std::uint64_t>(1, length);
    sources.push_back(
        {each.uri(), each.type(), each.shape(), chunks,
         [each](const box& which, std::span<std::byte> out) { return read_box(each.state(), which, out); }});
  }
  PENSTOCK_ASSIGN(const array made, open_sources(std::move(sources), axis, with));
  array_facts facts = made.state();
  facts.parts = parts_of(parts, axis, made.uri(), with);
  facts.dimension_names = shared_names(parts);
  return array(std::make_shared<const array_state>(made.state(), made.state().layout, std::move(facts)));
}

}  // namespace

result<array> join(std::span<const array> parts, std::size_t axis, std::shared_ptr<penstock::context> with) {
  if (parts.empty()) return error(errc::invalid_argument, "there are no arrays to join");
  const array& first = parts.front();
  if (axis >= first.shape().size())
    return error(errc::invalid_argument, fmt::format("arrays of {} have no axis {} to join along",
                                                     counted(first.shape().size(), "dimension"), axis));
  const std::shared_ptr<penstock::context> context = with ? std::move(with) : first.context();
  std::vector<const array*> full;
  bool one_fill = true;
  array_facts facts;
  facts.shape = first.shape();
  facts.shape[axis] = 0;
  for (const array& each : parts) {
    PENSTOCK_TRY(check(each, first, axis));
    if (!checked_add(facts.shape[axis], each.shape()[axis], facts.shape[axis]))
      return error(errc::unsupported, "the joined arrays have more than 2^64 elements along their axis");
    if (is_empty(each)) continue;
    full.push_back(&each);
    one_fill = one_fill && has_fill_of(each, *full.front());
  }
  if (full.empty() || !one_fill) return join_boxes(parts, axis, context);

  array_site where;
  where.context = context;
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
  if (!layout.ok() && layout.error().code() == errc::unsupported) return join_boxes(parts, axis, context);
  if (!layout.ok()) return std::move(layout).error().note("joining '" + where.uri + "'");
  facts.format = "joined";
  facts.type = first.type();
  facts.fill_value = full.front()->state().fill_value;
  facts.codecs_json = full.front()->codecs_json();
  facts.codecs_text = full.front()->codecs_text();
  facts.dimension_names = shared_names(parts);
  return array(std::make_shared<const array_state>(std::move(where), std::move(*layout), std::move(facts)));
}

}  // namespace penstock::inline v0
