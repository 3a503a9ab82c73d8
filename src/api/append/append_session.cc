#include "api/append/append_session.h"

#include <utility>

#include <fmt/format.h>

#include "api/fenced_write.h"
#include "array/check_view.h"
#include "base/checked.h"
#include "base/counted.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {

result<> check_rows(const array_state& state, const extents& shape, const tensor_view& rows, std::size_t axis,
                    bool only_rank) {
  if (axis >= shape.size())
    return error(errc::out_of_range,
                 fmt::format("axis {} is out of bounds for array of dimension {}", axis, shape.size()));
  bool fits = rows.extents.size() == shape.size();
  for (std::size_t d = 0; d < shape.size() && fits; ++d) fits = only_rank || d == axis || rows.extents[d] == shape[d];
  if (!fits)
    return error(errc::invalid_argument, fmt::format("a value of shape {} cannot be appended along axis {} to {}",
                                                     to_string(rows.extents), axis, to_string(shape)));
  if (!(rows.type == state.type))
    return error(errc::invalid_argument,
                 fmt::format("the value has dtype {}, the array {}", rows.type.name(), state.type.name()));
  return check_view(rows, "the value");
}

result<std::unique_ptr<append_session>> append_session::begin(const array& to, std::size_t axis,
                                                              const std::function<bool()>& may_go_on) {
  std::unique_ptr<append_session> out(new append_session(to, axis));
  const array_state& state = to.state();
  PENSTOCK_ASSIGN(out->claim_, append_claim::take(writable_store(state), state.prefix + std::string(kClaimKey),
                                                  std::uint32_t{1} << axis, may_go_on));
  out->ended_ = false;
  auto seen = out->look();
  if (seen.ok()) return out;
  out->failed_ = true;
  static_cast<void>(out->end());
  return std::move(seen).error();
}

append_session::~append_session() { static_cast<void>(end()); }

result<> append_session::look() {
  if (claim_->dirty_axes() != 0) PENSTOCK_TRY(clear_beyond_edges(state(), claim_->dirty_axes(), *claim_));
  // The stored array counts, not its state when it was opened: another writer may have appended since.
  PENSTOCK_ASSIGN(metadata_, read_stored_metadata(state()));
  PENSTOCK_ASSIGN(stored_, shape_of(metadata_));
  if (stored_.size() != state().shape.size())
    return error(errc::conflict, "the array has been replaced by one of another number of dimensions");
  shape_ = stored_;
  return {};
}

// Data before metadata: readers see the new rows after all of them are stored.
result<> append_session::write(const tensor_view& rows, const write_options& options) {
  PENSTOCK_TRY(check_rows(state(), shape_, rows, axis_));
  extents after = shape_;
  if (!checked_add(after[axis_], rows.extents[axis_], after[axis_]))
    return error(errc::unsupported, fmt::format("axis {} would be longer than 64 bits", axis_));
  if (rows.extents[axis_] == 0) return {};
  stored_metadata grown = metadata_;
  PENSTOCK_TRY(set_shape(grown, after));
  PENSTOCK_ASSIGN(const array to, open_resized(state(), grown, after));
  basic_selection where;
  for (std::size_t d = 0; d < axis_; ++d) where.items.emplace_back(slice{});
  where.items.emplace_back(
      slice{static_cast<std::int64_t>(shape_[axis_]), static_cast<std::int64_t>(after[axis_]), {}});
  write_options with = options;
  with.progress = [&](const read_progress& now) {
    return !claim_->lost() && (!options.progress || options.progress(now));
  };
  auto written = write_fenced(to, where, rows, with, *claim_);
  if (written.ok() && !claim_->lost()) {
    shape_ = after;
    return {};
  }
  failed_ = true;
  if (claim_->lost()) return claim_->check();
  // The error already names this array.
  error why(written.error().code(), written.error().message());
  for (std::size_t i = 0; i + 1 < written.error().notes().size(); ++i) why.note(written.error().notes()[i]);
  return why;
}

result<> append_session::publish(bool durable) {
  if (unnamed_rows() == 0) return {};
  const bool guarded = state().store->traits().guards;
  for (int attempt = 0;; ++attempt) {
    // For stores that do not check guards: changes of another owner are found here, or in the metadata's version.
    if (!guarded) PENSTOCK_TRY(claim_->check());
    stored_metadata grown = metadata_;
    PENSTOCK_TRY(set_shape(grown, shape_));
    auto put = put_stored_metadata(state(), grown, durable, claim_->guard());
    if (put.ok()) {
      stored_ = shape_;
      return {};
    }
    auto now = read_stored_metadata(state());
    if (!now.ok()) return put;
    PENSTOCK_ASSIGN(const extents shape, shape_of(*now));
    // The write may have succeeded although its response was lost.
    if (shape == shape_ && claim_->check().ok()) {
      stored_ = shape_;
      return {};
    }
    if (put.error().code() != errc::version_changed || attempt == kMaxMetadataTries) return put;
    // Attributes may have changed; the shape must not have.
    if (!(shape == stored_))
      return error(errc::conflict, fmt::format("the array got the shape {} during an append of {} to {}",
                                               to_string(shape), counted(unnamed_rows(), "row"), to_string(stored_)));
    metadata_ = std::move(*now);
  }
}

result<> append_session::end() {
  if (std::exchange(ended_, true)) return {};
  const bool left = failed_ || (shape_.size() != 0 && unnamed_rows() > 0);
  // A later resize must not show rows in the object at the edge that no shape included.
  if (left && !claim_->lost()) {
    auto cleared = shape_.size() == 0 ? result<>() : clear_beyond_edges(state(), std::uint32_t{1} << axis_, *claim_);
    // An earlier owner may have left elements beyond the edge, which only the next one can clear.
    if (!cleared.ok() || claim_->dirty_axes() != 0) claim_->abandon();
  }
  claim_->release();
  return writable_store(state()).flush();
}

}  // namespace penstock::inline v0
