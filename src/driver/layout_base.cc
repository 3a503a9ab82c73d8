#include <penstock/extend/layout_base.h>

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/counted.h"
#include "codec/codec_chain.h"
#include "engine/context_state.h"

namespace penstock::inline v0 {
namespace {

/// \error invalid_argument  The text is not a list of codecs.
result<std::vector<codec_config>> parse_codecs(const std::string& text) {
  PENSTOCK_ASSIGN(const json list, json::parse(text));
  if (list.as_array() == nullptr)
    return error(errc::invalid_argument, fmt::format("codecs must be a list, they are a JSON {}", list.kind_name()));
  std::vector<codec_config> out;
  for (const json& each : *list.as_array()) {
    const json* const name = each.as_string() != nullptr ? &each : each.find("name");
    if (name == nullptr || name->as_string() == nullptr)
      return error(errc::invalid_argument,
                   fmt::format("codecs: {} is neither a name nor an object with a name", each.dump()));
    const json* const settings = each.find("configuration");
    out.push_back({*name->as_string(), settings == nullptr ? json() : *settings});
  }
  return out;
}

}  // namespace

struct layout_parts::compiled {
  chunk_grid cells, objects;
  std::vector<codec_chain> chains;
};

result<layout_parts> layout_parts::make(const context& with, const dtype& type, chunk_grid cells,
                                        std::span<const cell_coding> codings) {
  chunk_grid objects = cells;
  return make(with, type, std::move(cells), std::move(objects), codings);
}

result<layout_parts> layout_parts::make(const context& with, const dtype& type, chunk_grid cells, chunk_grid objects,
                                        std::span<const cell_coding> codings) {
  if (codings.empty() || codings.size() > std::numeric_limits<std::uint16_t>::max())
    return error(errc::invalid_argument,
                 fmt::format("a layout has between 1 and 65535 codings, not {}", codings.size()));
  if (objects.rank() != cells.rank())
    return error(errc::invalid_argument, fmt::format("the objects' grid has {}, the cells' grid has {}",
                                                     counted(objects.rank(), "dimension"), cells.rank()));
  auto made = std::make_shared<compiled>();
  codec_chain_options options;
  options.external = with.state().codecs();
  for (const cell_coding& each : codings) {
    if (each.cell.size() != cells.rank())
      return error(errc::invalid_argument, fmt::format("cells of shape {} are in a grid of {}", to_string(each.cell),
                                                       counted(cells.rank(), "dimension")));
    PENSTOCK_ASSIGN(const std::vector<codec_config> codecs, parse_codecs(each.codecs_json));
    PENSTOCK_ASSIGN(codec_chain chain, codec_chain::compile(codecs, type, each.cell, options));
    made->chains.push_back(std::move(chain));
  }
  made->cells = std::move(cells);
  made->objects = std::move(objects);
  return layout_parts(std::move(made));
}

layout_base::layout_base(layout_parts parts) noexcept : parts_(std::move(parts.made_)) {}
layout_base::~layout_base() = default;

const chunk_grid& layout_base::grid() const { return parts_->cells; }
const chunk_grid& layout_base::write_grid() const { return parts_->objects; }
std::span<const codec_chain> layout_base::chains() const { return parts_->chains; }

result<index_ptr> layout_base::parse(const index_request& /*request*/, std::span<const std::byte> /*bytes*/,
                                     std::uint64_t /*object_size*/) const {
  return error(errc::internal, "this layout requested an index and cannot parse one");
}

}  // namespace penstock::inline v0
