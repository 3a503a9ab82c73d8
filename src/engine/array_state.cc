#include "engine/array_state.h"

#include <algorithm>
#include <span>
#include <utility>

namespace penstock::inline v0 {

array_parts::array_parts(std::size_t along, std::vector<array> given, std::vector<std::string> prefixes_of,
                         std::shared_ptr<const penstock::store> from, std::shared_ptr<penstock::context> with)
    : axis(along),
      arrays(std::move(given)),
      prefixes(std::move(prefixes_of)),
      store(std::move(from)),
      context_(std::move(with)) {
  std::uint64_t end = 0;
  for (const array& each : arrays) {
    const array_state& state = each.state();
    ends.push_back(end += state.shape[axis]);
    uids.push_back(!state.caches_indexes ? 0 : state.context == context_ ? state.uid : context_->state().next_uid());
  }
}

std::size_t array_parts::part_at(std::uint64_t at) const noexcept {
  return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), at) - ends.begin());
}

array_parts::piece array_parts::piece_at(const axis_range& along, std::uint64_t first) const noexcept {
  const auto at = static_cast<std::uint64_t>(along.at(first));
  const std::size_t which = part_at(at);
  std::uint64_t count = along.count - first;
  if (along.step > 0) count = std::min(count, (ends[which] - 1 - at) / static_cast<std::uint64_t>(along.step) + 1);
  if (along.step < 0) count = std::min(count, (at - begin(which)) / (~static_cast<std::uint64_t>(along.step) + 1) + 1);
  return {which, {static_cast<std::int64_t>(at - begin(which)), along.step, count}};
}

array_parts::~array_parts() {
  for (std::size_t i = 0; i < uids.size(); ++i) {
    if (uids[i] == 0 || arrays[i].state().context == context_) continue;
    context_->state().indexes().drop_all(uids[i]);
    context_->state().cells().drop_all(uids[i]);
  }
}

array_state::array_state(array_site where, std::shared_ptr<const chunk_layout> cells, array_facts what, cache_name name,
                         std::string_view image)
    : array_site(std::move(where)),
      array_facts(std::move(what)),
      layout(std::move(cells)),
      outlived_uid(name == cache_name::lasting && name_lasts()),
      uid(outlived_uid ? context->state().uid_of(lasting_name(image)) : context->state().next_uid()) {}

array_state::array_state(array_site where, array_facts what, const array_state& of)
    : array_site(std::move(where)),
      array_facts(std::move(what)),
      layout(of.layout),
      outlived_uid(of.outlived_uid),
      uid(outlived_uid ? of.uid : context->state().next_uid()) {}

array_state::~array_state() {
  if (!caches_indexes || outlived_uid) return;
  context->state().indexes().drop_all(uid);
  context->state().cells().drop_all(uid);
}

bool array_state::name_lasts() const {
  const bool is_empty = std::find(shape.begin(), shape.end(), 0U) != shape.end();  // and has no objects
  return caches_indexes && store->traits().lasting_versions && !is_empty;
}

std::string array_state::lasting_name(std::string_view image) const {
  std::string identity = store->uri();
  const auto add = [&identity](std::string_view text) { identity.append(1, '\0').append(text); };
  const auto add_numbers = [&add](std::span<const std::uint64_t> numbers) {
    add({reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()});
  };
  add(prefix);
  std::string key;
  layout->key(0, key);
  add(key);
  add_numbers(layout->expected(0).word);
  add(image);
  add_numbers(shape);
  add_numbers(chunks);
  if (shards) add_numbers(*shards);
  add(type.name());
  add(codecs_json);
  add(codecs_text);  // for Zarr 2, also the byte order and the order of dimensions
  return identity;
}

std::shared_ptr<const array_state> array_state::with_attributes(std::string text) const {
  array_facts facts = *this;
  facts.attributes_json = std::move(text);
  return std::shared_ptr<const array_state>(new array_state(*this, std::move(facts), *this));
}

std::shared_ptr<const array_state> array_state::for_reading() const {
  array_site site = *this;
  site.opened_for_reading = true;
  return std::shared_ptr<const array_state>(new array_state(std::move(site), *this, *this));
}

std::shared_ptr<const array_state> array_state::with_saved(std::shared_ptr<const saved_references> manifest) const {
  array_facts facts = *this;
  facts.saved = std::move(manifest);
  return std::shared_ptr<const array_state>(new array_state(*this, std::move(facts), *this));
}

std::shared_ptr<const array_state> array_state::with_shards(std::shared_ptr<const saved_arrays> shards_of) const {
  array_facts facts = *this;
  facts.joined_of = std::move(shards_of);
  return std::shared_ptr<const array_state>(new array_state(*this, std::move(facts), *this));
}

std::shared_ptr<const group_state> group_state::with_attributes(std::string text) const {
  auto out = std::make_shared<group_state>(*this);
  out->attributes_json = std::move(text);
  return out;
}

}  // namespace penstock::inline v0
