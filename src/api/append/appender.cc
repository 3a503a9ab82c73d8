#include <penstock/appender.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "api/append/appender_state.h"

namespace penstock::inline v0 {

result<appender> appender::make(const array& to, std::size_t axis, const appender_options& options) {
  auto made = appender_state::make(to, axis, options);
  if (!made.ok()) return name_array(std::move(made).error(), to.state());
  return appender(std::move(*made));
}

appender::appender(std::shared_ptr<appender_state> state) noexcept : state_(std::move(state)) {}

appender& appender::operator=(appender&& other) noexcept {
  appender before(std::move(*this));  // closes it
  state_ = std::move(other.state_);
  return *this;
}

appender::~appender() {
  if (state_ == nullptr) return;
  if (!state_->is_of_parent()) {
    static_cast<void>(state_->flush(true));
    return;
  }
  // Its locks may be held by threads that a child does not have, and the claim belongs to the parent.
  static_cast<void>(new std::shared_ptr<appender_state>(std::move(state_)));
}

namespace {
error no_array() { return {errc::invalid_argument, "this appender has no array"}; }
}  // namespace

result<> appender::append(const tensor_view& rows, std::shared_ptr<const void> keeps,
                          std::optional<std::uintptr_t> stream) {
  if (state_ == nullptr) return no_array();
  PENSTOCK_TRY(state_->append(rows, keeps, true, stream));
  return {};
}
result<bool> appender::try_append(const tensor_view& rows, std::shared_ptr<const void> keeps) {
  if (state_ == nullptr) return no_array();
  return state_->append(rows, keeps, false);
}
result<array> appender::flush() {
  if (state_ == nullptr) return no_array();
  return state_->flush(false);
}
result<array> appender::close() {
  if (state_ == nullptr) return no_array();
  return state_->flush(true);
}

std::uint64_t appender::rows() const { return state_ == nullptr ? 0 : state_->rows(); }
std::uint64_t appender::stored_rows() const { return state_ == nullptr ? 0 : state_->stored_rows(); }
std::uint64_t appender::queued_bytes() const { return state_ == nullptr ? 0 : state_->queued_bytes(); }
bool appender::closed() const { return state_ == nullptr || state_->closed(); }

}  // namespace penstock::inline v0
