#include <penstock/array.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "api/append/append_claim.h"
#include "api/fenced_write.h"
#include "array/chunk_grid.h"
#include "base/counted.h"
#include "driver/metadata_edit.h"
#include "driver/node_mode.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"

namespace penstock::inline v0 {
namespace {

/// Above this number, listing existing objects costs less than erasing possible ones.
constexpr std::uint64_t kMaxBlindErases = 1024;

/// Objects of the old grid without elements of the new array.
class outside {
 public:
  outside(const chunk_grid& old, const extents& shape) : old_(old) {
    for (std::size_t d = 0; d < old.rank(); ++d) {
      const std::uint64_t extent = std::min(shape[d], old.axis(d).extent());
      keep_.push_back(extent == 0 ? 0 : old.axis(d).cell_of(extent - 1) + 1);
    }
  }

  bool holds(const dim_vector<std::uint64_t>& at) const noexcept {
    for (std::size_t d = 0; d < keep_.size(); ++d)
      if (at[d] >= keep_[d]) return true;
    return false;
  }
  std::uint64_t count() const noexcept {
    std::uint64_t kept = 1;
    for (const std::uint64_t each : keep_) kept *= each;
    return old_.cells() - kept;
  }

  /// Calls `each` with every object; it is counted in the first dimension in which it is outside.
  template <class Each>
  result<> for_each(Each&& each) const {
    const std::size_t rank = keep_.size();
    for (std::size_t first = 0; first < rank; ++first) {
      dim_vector<std::uint64_t> begin(rank, 0), end(rank);
      for (std::size_t d = 0; d < rank; ++d) end[d] = d < first ? keep_[d] : old_.axis(d).cells();
      begin[first] = keep_[first];
      bool any = true;
      for (std::size_t d = 0; d < rank; ++d) any = any && begin[d] < end[d];
      for (dim_vector<std::uint64_t> at = begin; any;) {
        PENSTOCK_TRY(each(old_.id(at)));
        std::size_t d = rank;
        while (d-- > 0) {
          if (++at[d] < end[d]) break;
          at[d] = begin[d];
        }
        any = d != static_cast<std::size_t>(-1);
      }
    }
    return {};
  }

 private:
  const chunk_grid& old_;
  dim_vector<std::uint64_t> keep_;
};

/// Keys of objects that are outside, found by listing: the numbers at a key's end name a possible object, and the
/// layout decides whether it exists.
class outside_keys final : public key_sink {
 public:
  outside_keys(const array_state& state, const outside& which) : state_(state), which_(which) {
    // The text after the last number of a key, taken from the first object: `c/0/0.tiff` or `0.0.tiff`.
    state.layout->key(0, name_);
    const std::size_t rank = state.layout->write_grid().rank();
    suffix_ = name_.substr(name_.front() == 'c' ? 1 + 2 * rank : 2 * rank - 1);
  }

  bool key(std::string_view key, std::uint64_t) override {
    const chunk_grid& grid = state_.layout->write_grid();
    dim_vector<std::uint64_t> at(grid.rank());
    std::string_view rest = key;
    if (rest.size() < suffix_.size() || rest.substr(rest.size() - suffix_.size()) != suffix_) return true;
    rest.remove_suffix(suffix_.size());
    for (std::size_t d = grid.rank(); d-- > 0;) {
      std::size_t digits = rest.size();
      while (digits > 0 && rest[digits - 1] >= '0' && rest[digits - 1] <= '9') --digits;
      const auto [end, failed] = std::from_chars(rest.data() + digits, rest.data() + rest.size(), at[d]);
      if (failed != std::errc() || at[d] >= grid.axis(d).cells()) return true;
      rest = rest.substr(0, digits == 0 ? 0 : digits - 1);
    }
    if (!which_.holds(at)) return true;
    state_.layout->key(grid.id(at), name_);
    if (key.substr(state_.prefix.size()) == name_) found.emplace_back(key);
    return true;
  }

  std::vector<std::string> found;

 private:
  const array_state& state_;
  const outside& which_;
  std::string name_, suffix_;
};

/// Keys that are looked up together.
constexpr std::size_t kProbesTogether = 256;
/// Above this number, objects are always listed: an array cannot grow by more if its store cannot list.
constexpr std::uint64_t kMaxProbes = std::uint64_t{1} << 20;

result<> erase_one(store& at, const std::string& key, const append_claim& claim, const version& seen) {
  write_condition condition;
  condition.guard = claim.guard();
  if (seen.known()) {
    condition.what = write_condition::kind::must_match;
    condition.expected = seen;
  }
  auto erased = at.erase(key, condition);
  if (!erased.ok()) return std::move(erased).error().note(fmt::format("erasing '{}'", key));
  return {};
}

result<> erase_outside(const array_state& old, const extents& shape, const append_claim& claim) {
  const outside which(old.layout->write_grid(), shape);
  if (which.count() == 0) return {};
  store& to = writable_store(old);
  if (which.count() > kMaxBlindErases) {
    outside_keys keys(old, which);
    auto listed = to.list(old.prefix, listing::objects, keys);
    if (listed.ok()) {
      for (const std::string& each : keys.found) PENSTOCK_TRY(erase_one(to, each, claim, {}));
      return {};
    }
    if (listed.error().code() != errc::unsupported) return listed;
  }
  std::string key;
  return which.for_each([&](object_id object) -> result<> {
    old.layout->key(object, key);
    key.insert(0, old.prefix);
    return erase_one(to, key, claim, {});
  });
}

// Erases those of `keys` that exist, and removes them from the list.
result<> erase_found(store& at, std::vector<std::string>& keys, append_claim& claim) {
  const store_traits traits = at.traits();
  const auto looks = read_all_and_wait(at, keys, {0, 0, false}, 0);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!looks[i].ok() && looks[i].error().code() == errc::not_found) continue;
    version seen;
    if (!traits.guards && looks[i].ok()) {
      PENSTOCK_TRY(claim.check());  // after the lookup: an object that another writer put has another version
      seen = looks[i]->seen;
    }
    PENSTOCK_TRY(erase_one(at, keys[i], claim, seen));
  }
  keys.clear();
  return {};
}

// Objects in the new part remain from an unfinished append, or from an older array: they must not become visible. A few
// are looked up, many are listed.
result<> erase_added(const array_state& grown, const array_state& before, append_claim& claim) {
  const outside which(grown.layout->write_grid(), before.shape);
  if (which.count() == 0) return {};
  store& at = writable_store(grown);
  std::vector<std::string> keys;
  if (which.count() > std::min(std::max(kMaxBlindErases, before.layout->write_grid().cells()), kMaxProbes)) {
    outside_keys found(grown, which);
    auto listed = at.list(grown.prefix, listing::objects, found);
    if (listed.ok()) {
      for (std::string& each : found.found) {
        keys.push_back(std::move(each));
        if (keys.size() == kProbesTogether) PENSTOCK_TRY(erase_found(at, keys, claim));
      }
      return erase_found(at, keys, claim);
    }
    if (listed.error().code() != errc::unsupported || which.count() > kMaxProbes)
      return std::move(listed).error().note("looking for objects where the array grows to");
  }
  PENSTOCK_TRY(which.for_each([&](object_id object) -> result<> {
    std::string& key = keys.emplace_back();
    grown.layout->key(object, key);
    key.insert(0, grown.prefix);
    return keys.size() == kProbesTogether ? erase_found(at, keys, claim) : result<>();
  }));
  return erase_found(at, keys, claim);
}

result<> put_new_shape(const array& from, const extents& shape, append_claim& claim) {
  const array_state& state = from.state();
  store& at = writable_store(state);
  if (claim.dirty_axes() != 0) PENSTOCK_TRY(clear_beyond_edges(state, claim.dirty_axes(), claim));
  for (int attempt = 0;; ++attempt) {
    PENSTOCK_ASSIGN(stored_metadata metadata, read_stored_metadata(state));
    PENSTOCK_ASSIGN(const extents old_shape, shape_of(metadata));
    if (old_shape.size() != shape.size())
      return error(errc::conflict, "the array has been replaced by one of another number of dimensions");
    PENSTOCK_ASSIGN(const array before, old_shape == state.shape ? result<array>(from) : open_as(state, metadata));
    PENSTOCK_TRY(set_shape(metadata, shape));
    PENSTOCK_ASSIGN(array after, open_resized(state, metadata, shape));  // refuses arrays that cannot be opened again
    PENSTOCK_TRY(erase_added(after.state(), before.state(), claim));
    if (!at.traits().guards) PENSTOCK_TRY(claim.check());
    // The new shape is on the storage device before an object is erased: the old shape with gaps would be neither.
    bool shrinks = false;
    for (std::size_t d = 0; d < shape.size(); ++d) shrinks = shrinks || shape[d] < old_shape[d];
    auto put = put_stored_metadata(state, metadata, shrinks, claim.guard());
    if (!put.ok()) {
      if (put.error().code() == errc::version_changed && attempt < kMaxMetadataTries) continue;
      return std::move(put).error();
    }
    // Reads of the old shape may still run; the elements that they miss were given up.
    return erase_outside(before.state(), shape, claim);
  }
}

result<array> resize_stored(const array& from, const extents& shape) {
  const array_state& state = from.state();
  PENSTOCK_TRY(check_editable(state));
  if (shape.size() != state.shape.size())
    return error(errc::invalid_argument, fmt::format("an array of {} cannot get the shape {}",
                                                     counted(state.shape.size(), "dimension"), to_string(shape)));
  store& at = writable_store(state);
  // A running append writes where this one may erase.
  PENSTOCK_ASSIGN(const auto claim, append_claim::take(at, state.prefix + std::string(kClaimKey), 0));
  auto done = put_new_shape(from, shape, *claim);
  // An earlier owner may have left elements beyond the edge, which only the next one can clear.
  if (!done.ok() && claim->dirty_axes() != 0) claim->abandon();
  claim->release();
  auto flushed = at.flush();
  PENSTOCK_TRY(std::move(done));
  PENSTOCK_TRY(std::move(flushed));
  return open_again(state);
}

}  // namespace

result<array> array::resize(const extents& shape) const {
  auto done = resize_stored(*this, shape);
  if (!done.ok()) return name_array(std::move(done).error(), *state_);
  return done;
}

}  // namespace penstock::inline v0
