#include <penstock/array.h>

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "api/append_claim.h"
#include "api/array_state.h"
#include "api/metadata_edit.h"
#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kClaimKey = ".penstock-append";

result<> check_rows(const array_state& state, const extents& shape, const tensor_view& value, std::size_t axis) {
  if (axis >= shape.size())
    return error(errc::out_of_range,
                 fmt::format("axis {} is out of bounds for array of dimension {}", axis, shape.size()));
  bool fits = value.extents.size() == shape.size();
  for (std::size_t d = 0; d < shape.size() && fits; ++d) fits = d == axis || value.extents[d] == shape[d];
  if (!fits)
    return error(errc::invalid_argument, fmt::format("a value of shape {} cannot be appended along axis {} to {}",
                                                     to_string(value.extents), axis, to_string(shape)));
  if (!(value.type == state.type))
    return error(errc::invalid_argument,
                 fmt::format("the value has dtype {}, the array {}", value.type.name(), state.type.name()));
  return {};
}

result<array> append_rows(const array& to, const tensor_view& value, std::size_t axis, const write_options& options) {
  const array_state& state = to.state();
  if (state.layout->assembler() == nullptr)
    return error(errc::read_only, fmt::format("arrays of format {} are only read", state.format));
  store& at = writable_store(state);
  PENSTOCK_ASSIGN(append_claim claim, append_claim::take(at, state.prefix + std::string(kClaimKey)));

  // What is stored counts, and not what this array was when it was opened: another may have appended since.
  PENSTOCK_ASSIGN(stored_metadata metadata, read_stored_metadata(state));
  PENSTOCK_ASSIGN(const extents old_shape, shape_of(metadata));
  PENSTOCK_TRY(check_rows(state, old_shape, value, axis));
  if (value.extents[axis] == 0) return open_again(state);
  extents shape = old_shape;
  if (!checked_add(shape[axis], value.extents[axis], shape[axis]))
    return error(errc::unsupported, fmt::format("axis {} would be longer than 64 bits", axis));
  PENSTOCK_TRY(set_shape(metadata, shape));

  // Data before metadata: until the last moment nobody sees the new rows, and where this is killed, nobody ever does.
  {
    PENSTOCK_ASSIGN(const array grown, open_resized(state, metadata, shape));
    basic_selection rows;
    for (std::size_t d = 0; d < axis; ++d) rows.items.emplace_back(slice{});
    rows.items.emplace_back(
        slice{static_cast<std::int64_t>(old_shape[axis]), static_cast<std::int64_t>(shape[axis]), {}});
    std::optional<error> lost;
    write_options with = options;
    with.progress = [&](const read_progress& now) {
      auto renewed = claim.renew();
      if (!renewed.ok()) lost.emplace(std::move(renewed).error());
      return !lost && (!options.progress || options.progress(now));
    };
    auto written = grown.write(rows, value, with);
    if (lost) return std::move(*lost);
    if (!written.ok()) {
      // It has this array's name on it already.
      error why(written.error().code(), written.error().message());
      for (std::size_t i = 0; i + 1 < written.error().notes().size(); ++i) why.note(written.error().notes()[i]);
      return why;
    }
  }
  for (int attempt = 0;; ++attempt) {
    auto put = put_stored_metadata(state, metadata, options.durable);
    if (put.ok()) break;
    if (put.error().code() != errc::version_changed || attempt == kMaxMetadataTries) return std::move(put).error();
    // Attributes may have changed; the shape must not have.
    PENSTOCK_ASSIGN(metadata, read_stored_metadata(state));
    PENSTOCK_ASSIGN(const extents now, shape_of(metadata));
    if (!(now == old_shape))
      return error(errc::conflict, fmt::format("the array got the shape {} while {} was appended to {}", to_string(now),
                                               to_string(value.extents), to_string(old_shape)));
    PENSTOCK_TRY(set_shape(metadata, shape));
  }
  PENSTOCK_TRY(at.flush());
  return open_again(state);
}

}  // namespace

result<array> array::append(const tensor_view& value, std::size_t axis, const write_options& options) const {
  auto done = append_rows(*this, value, axis, options);
  if (!done.ok()) return name_array(std::move(done).error(), *state_);
  return done;
}

}  // namespace penstock::inline v0
