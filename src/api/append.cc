#include <penstock/array.h>

#include <utility>

#include <fmt/format.h>

#include "api/append_claim.h"
#include "api/fenced_write.h"
#include "base/checked.h"
#include "driver/metadata_edit.h"
#include "driver/node_mode.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

// \param only_rank  `shape` may be an old one: of it, only the number of dimensions counts.
result<> check_rows(const array_state& state, const extents& shape, const tensor_view& value, std::size_t axis,
                    bool only_rank = false) {
  if (axis >= shape.size())
    return error(errc::out_of_range,
                 fmt::format("axis {} is out of bounds for array of dimension {}", axis, shape.size()));
  bool fits = value.extents.size() == shape.size();
  for (std::size_t d = 0; d < shape.size() && fits; ++d) fits = only_rank || d == axis || value.extents[d] == shape[d];
  if (!fits)
    return error(errc::invalid_argument, fmt::format("a value of shape {} cannot be appended along axis {} to {}",
                                                     to_string(value.extents), axis, to_string(shape)));
  if (!(value.type == state.type))
    return error(errc::invalid_argument,
                 fmt::format("the value has dtype {}, the array {}", value.type.name(), state.type.name()));
  return {};
}

/// What `append_rows` works on, once the claim is held.
struct growth {
  stored_metadata metadata;  // with the new shape
  extents before, after;
};

result<growth> plan_growth(const array_state& state, const tensor_view& value, std::size_t axis) {
  growth out;
  // What is stored counts, and not what this array was when it was opened: another may have appended since.
  PENSTOCK_ASSIGN(out.metadata, read_stored_metadata(state));
  PENSTOCK_ASSIGN(out.before, shape_of(out.metadata));
  PENSTOCK_TRY(check_rows(state, out.before, value, axis));
  out.after = out.before;
  if (!checked_add(out.after[axis], value.extents[axis], out.after[axis]))
    return error(errc::unsupported, fmt::format("axis {} would be longer than 64 bits", axis));
  PENSTOCK_TRY(set_shape(out.metadata, out.after));
  return out;
}

// Data before metadata: readers see the new rows once all of them are there.
result<> write_rows(const array_state& state, const growth& to, const tensor_view& value, std::size_t axis,
                    const write_options& options, append_claim& claim) {
  PENSTOCK_ASSIGN(const array grown, open_resized(state, to.metadata, to.after));
  basic_selection rows;
  for (std::size_t d = 0; d < axis; ++d) rows.items.emplace_back(slice{});
  rows.items.emplace_back(
      slice{static_cast<std::int64_t>(to.before[axis]), static_cast<std::int64_t>(to.after[axis]), {}});
  write_options with = options;
  with.progress = [&](const read_progress& now) {
    return !claim.lost() && (!options.progress || options.progress(now));
  };
  auto written = write_fenced(grown, rows, value, with, claim);
  if (written.ok()) return claim.lost() ? claim.check() : result<>();
  if (claim.lost()) return claim.check();
  // It has this array's name on it already.
  error why(written.error().code(), written.error().message());
  for (std::size_t i = 0; i + 1 < written.error().notes().size(); ++i) why.note(written.error().notes()[i]);
  return why;
}

result<> put_shape(const array_state& state, growth& to, const tensor_view& value, bool durable, append_claim& claim) {
  const bool guarded = state.store->traits().guards;
  for (int attempt = 0;; ++attempt) {
    // Where the store checks no guards: what another owner wrote meanwhile shows here, or in the metadata's version.
    if (!guarded) PENSTOCK_TRY(claim.check());
    auto put = put_stored_metadata(state, to.metadata, durable, claim.guard());
    if (put.ok()) return {};
    auto now = read_stored_metadata(state);
    if (!now.ok()) return std::move(put).error();
    PENSTOCK_ASSIGN(const extents shape, shape_of(*now));
    // An answer may be lost on its way.
    if (shape == to.after && claim.check().ok()) return {};
    if (put.error().code() != errc::version_changed || attempt == kMaxMetadataTries) return std::move(put).error();
    // Attributes may have changed; the shape must not have.
    if (!(shape == to.before))
      return error(errc::conflict, fmt::format("the array got the shape {} while {} was appended to {}",
                                               to_string(shape), to_string(value.extents), to_string(to.before)));
    to.metadata = std::move(*now);
    PENSTOCK_TRY(set_shape(to.metadata, to.after));
  }
}

result<> grow(const array_state& state, const tensor_view& value, std::size_t axis, const write_options& options,
              append_claim& claim) {
  if (claim.dirty_axes() != 0) PENSTOCK_TRY(clear_beyond_edges(state, claim.dirty_axes(), claim));
  PENSTOCK_ASSIGN(growth grows, plan_growth(state, value, axis));
  if (value.extents[axis] == 0) return {};
  auto done = write_rows(state, grows, value, axis, options, claim);
  if (done.ok()) done = put_shape(state, grows, value, options.durable, claim);
  // A later resize must not show what the object at the edge has of these rows.
  const bool left = !done.ok() && !claim.lost();
  if (left && !clear_beyond_edges(state, std::uint32_t{1} << axis, claim).ok()) claim.abandon();
  return done;
}

result<array> append_rows(const array& to, const tensor_view& value, std::size_t axis, const write_options& options) {
  const array_state& state = to.state();
  PENSTOCK_TRY(check_editable(state));
  PENSTOCK_TRY(check_rows(state, state.shape, value, axis, true));
  store& at = writable_store(state);
  std::uint64_t bytes = value.type.item_bytes();
  for (const std::uint64_t each : value.extents) bytes *= each;  // the caller has them
  const auto may_go_on = [&] { return !options.progress || options.progress({0, bytes}); };
  PENSTOCK_ASSIGN(const auto claim,
                  append_claim::take(at, state.prefix + std::string(kClaimKey), std::uint32_t{1} << axis, may_go_on));
  auto done = grow(state, value, axis, options, *claim);
  // An owner before this one may have left elements beyond the edge, which only the next one can clear then.
  if (!done.ok() && claim->dirty_axes() != 0) claim->abandon();
  claim->release();
  auto flushed = at.flush();
  PENSTOCK_TRY(std::move(done));
  PENSTOCK_TRY(std::move(flushed));
  return open_again(state);
}

}  // namespace

result<array> array::append(const tensor_view& value, std::size_t axis, const write_options& options) const {
  auto done = append_rows(*this, value, axis, options);
  if (!done.ok()) return name_array(std::move(done).error(), *state_);
  return done;
}

}  // namespace penstock::inline v0
