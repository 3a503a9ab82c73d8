#include <fmt/format.h>

#include <utility>

#include <penstock/extend/driver.h>
#include "array/chunk_grid.h"
#include "base/counted.h"
#include "codec/codec_chain.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"

namespace penstock::inline v0 {
namespace {

/// \error invalid_argument  The description and the layout contradict each other.
result<> check_layout(const chunk_layout& layout, const array_description& what) {
  const auto wrong = [&](std::string message) {
    return error(errc::invalid_argument, fmt::format("a driver of '{}' made a layout whose {}", what.format, message));
  };
  const chunk_grid& grid = layout.grid();
  if (grid.rank() != what.shape.size())
    return wrong(fmt::format("grid has {}, its shape {} has {}", counted(grid.rank(), "dimension"),
                             to_string(what.shape), what.shape.size()));
  for (std::size_t d = 0; d < grid.rank(); ++d) {
    if (grid.axis(d).extent() != what.shape[d])
      return wrong(fmt::format("grid has {} along dimension {}, its shape is {}",
                               counted(grid.axis(d).extent(), "element"), d, to_string(what.shape)));
  }
  if (layout.chains().empty()) return wrong("list of codings is empty");
  for (const codec_chain& each : layout.chains()) {
    if (each.type() != what.type)
      return wrong(fmt::format("codecs decode to {}, its elements are {}", each.type().name(), what.type.name()));
  }
  if (what.fill_value.size() != what.type.item_bytes())
    return wrong(fmt::format("fill value has {}, an element of {} has {}", counted(what.fill_value.size(), "byte"),
                             what.type.name(), what.type.item_bytes()));
  if (what.chunks.size() != what.shape.size())
    return wrong(
        fmt::format("chunks {} have another rank than its shape {}", to_string(what.chunks), to_string(what.shape)));
  if (!what.dimension_names.empty() && what.dimension_names.size() != what.shape.size())
    return wrong(fmt::format("dimension names are {}, its shape {} has {}", what.dimension_names.size(),
                             to_string(what.shape), counted(what.shape.size(), "dimension")));
  return {};
}

}  // namespace

result<object_bytes> read_object(const store& from, std::string_view key, const byte_range& range,
                                 std::uint64_t max_bytes, const version* expected) {
  auto read = read_and_wait(from, key, range, max_bytes, expected);
  if (!read.ok()) return std::move(read).error().note(read_note(std::string(key), range));
  return object_bytes{std::move(read->bytes), std::move(read->seen), read->object_size};
}

result<array> make_array(const location& at, std::shared_ptr<const chunk_layout> layout, array_description what,
                         const open_options& how) {
  array_facts facts;
  static_cast<array_description&>(facts) = std::move(what);
  const chunk_grid& grid = layout->grid();
  if (facts.chunks.empty() && grid.rank() == facts.shape.size()) {
    facts.chunks.resize(grid.rank());
    for (std::size_t d = 0; d < grid.rank(); ++d) facts.chunks[d] = grid.axis(d).codec_length(0);
  }
  if (facts.fill_value.empty()) facts.fill_value.resize(facts.type.item_bytes());
  if (result<> agreed = check_layout(*layout, facts); !agreed.ok())
    return std::move(agreed).error().note(fmt::format("opening '{}'", at.uri));
  if (facts.codecs_text.empty()) facts.codecs_text = layout->chains()[0].describe();
  if (facts.codecs_json.empty()) facts.codecs_json = "[]";
  array_site where;
  where.context = at.context;
  where.store = at.from;
  where.uri = at.uri;
  where.caches_indexes = at.from->traits().versions || how.cache_unversioned_indexes;
  where.opened_for_reading = how.mode == open_mode::read;
  return array(std::make_shared<const array_state>(std::move(where), std::move(layout), std::move(facts)));
}

}  // namespace penstock::inline v0
