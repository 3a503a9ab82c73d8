// Facts about an open array or group that need no I/O, so that drivers may query them too.
#include <penstock/array.h>

#include "engine/array_state.h"

namespace penstock::inline v0 {

const extents& array::shape() const noexcept { return state_->shape; }
const dtype& array::type() const noexcept { return state_->type; }
const extents& array::chunks() const noexcept { return state_->chunks; }
const extents* array::shards() const noexcept { return state_->shards ? &*state_->shards : nullptr; }
std::span<const std::byte> array::fill_value() const noexcept { return state_->fill_value; }
const std::string& array::fill_value_json() const noexcept { return state_->fill_value_json; }
const std::string& array::attributes_json() const noexcept { return state_->attributes_json; }
const std::vector<std::optional<std::string>>& array::dimension_names() const noexcept {
  return state_->dimension_names;
}
const std::string& array::format() const noexcept { return state_->format; }
const std::string& array::codecs_json() const noexcept { return state_->codecs_json; }
const std::string& array::codecs_text() const noexcept { return state_->codecs_text; }
const std::string& array::uri() const noexcept { return state_->uri; }
const std::shared_ptr<penstock::context>& array::context() const noexcept { return state_->context; }

const std::string& group::attributes_json() const noexcept { return state_->attributes_json; }
const std::string& group::uri() const noexcept { return state_->uri; }
const std::string& group::format() const noexcept { return state_->format; }

}  // namespace penstock::inline v0
