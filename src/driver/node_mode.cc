#include "driver/node_mode.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace penstock::inline v0 {
namespace {

error opened_for_reading(std::string_view kind, std::string_view uri) {
  return {errc::read_only,
          fmt::format("the {} '{}' was opened with mode \"r\": open it with mode \"r+\" to write", kind, uri)};
}

result<> check_store(const store& to, std::string_view kind, std::string_view uri) {
  if (to.traits().writable) return {};
  return error(errc::read_only,
               fmt::format("the {} '{}' is in a store that cannot be written to: {}", kind, uri, to.uri()));
}

node as_read_only(node found) {
  if (const auto* from = std::get_if<array>(&found)) {
    return node(array(from->state().for_reading()));
  }
  auto state = std::make_shared<group_state>(std::get<group>(found).state());
  state->opened_for_reading = true;
  return node(group(std::move(state)));
}

}  // namespace

result<> check_writable(const array_state& state) {
  if (state.layout->assembler() == nullptr)
    return error(errc::read_only, fmt::format("arrays of format {} are read-only", state.format));
  PENSTOCK_TRY(check_store(*state.store, "array", state.uri));
  if (state.opened_for_reading) return opened_for_reading("array", state.uri);
  return {};
}

result<> check_writable(const group_state& state) {
  if (state.members) return error(errc::read_only, fmt::format("groups of format {} are read-only", state.format));
  PENSTOCK_TRY(check_store(*state.store, "group", state.uri));
  if (state.opened_for_reading) return opened_for_reading("group", state.uri);
  return {};
}

result<> check_editable(const array_state& state) {
  PENSTOCK_TRY(check_writable(state));
  if (state.format.starts_with("zarr")) return {};
  return error(errc::unsupported,
               fmt::format("shape and attributes of an array of format {} cannot be changed", state.format));
}

result<> check_editable(const group_state& state) { return check_writable(state); }

result<> check_writable_now(const array_state& state) {
  PENSTOCK_TRY(check_writable(state));
  return state.store->check_writable(state.prefix);
}

result<> check_writable_now(const group_state& state) {
  PENSTOCK_TRY(check_writable(state));
  return state.store->check_writable(state.prefix);
}

result<> check_open_mode(open_mode mode) {
  if (mode != open_mode::create && mode != open_mode::replace) return {};
  return error(errc::invalid_argument,
               "open and open_array create nothing: call create_array, create_group or open_group");
}

result<node> in_mode(result<node> found, open_mode mode) {
  if (!found.ok() || mode == open_mode::existing) return found;
  if (mode == open_mode::read) return as_read_only(std::move(*found));
  const auto check = [](const auto& each) { return check_writable_now(each.state()); };
  result<> writable = std::visit(check, *found);
  if (writable.ok()) return found;
  const auto uri = [](const auto& each) { return each.state().uri; };
  return std::move(writable).error().note(fmt::format("opening '{}' to write", std::visit(uri, *found)));
}

}  // namespace penstock::inline v0
