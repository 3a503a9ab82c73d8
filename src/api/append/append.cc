#include <penstock/array.h>

#include <utility>

#include "api/append/append_session.h"
#include "driver/metadata_edit.h"
#include "driver/node_mode.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

result<array> append_rows(const array& to, const tensor_view& value, std::size_t axis, const write_options& options) {
  const array_state& state = to.state();
  PENSTOCK_TRY(check_editable(state));
  PENSTOCK_TRY(check_rows(state, state.shape, value, axis, true));
  std::uint64_t bytes = value.type.item_bytes();
  for (const std::uint64_t each : value.extents) bytes *= each;  // for the progress only
  const auto may_go_on = [&] { return !options.progress || options.progress({0, bytes}); };
  PENSTOCK_ASSIGN(const auto session, append_session::begin(to, axis, may_go_on));
  auto done = session->write(value, options);
  if (done.ok()) done = session->publish(options.durable);
  auto ended = session->end();
  PENSTOCK_TRY(std::move(done));
  PENSTOCK_TRY(std::move(ended));
  return open_again(state);
}

}  // namespace

result<array> array::append(const tensor_view& value, std::size_t axis, const write_options& options) const {
  auto done = append_rows(*this, value, axis, options);
  if (!done.ok()) return name_array(std::move(done).error(), *state_);
  return done;
}

}  // namespace penstock::inline v0
