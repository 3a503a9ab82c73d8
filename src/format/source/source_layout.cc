#include "format/source/source_layout.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <iterator>
#include <utility>

namespace penstock::inline v0 {

void append_box_key(std::string& to, const extents& origin, const extents& shape) {
  to += '[';
  for (std::size_t d = 0; d < origin.size(); ++d)
    fmt::format_to(std::back_inserter(to), "{}{}:{}", d == 0 ? "" : ", ", origin[d], origin[d] + shape[d]);
  to += ']';
}

bool parse_box_key(std::string_view key, extents& origin, extents& shape) noexcept {
  const auto take = [&](std::string_view text) {
    if (!key.starts_with(text)) return false;
    key.remove_prefix(text.size());
    return true;
  };
  const auto number = [&](std::uint64_t& to) {
    const auto [end, failed] = std::from_chars(key.data(), key.data() + key.size(), to);
    if (failed != std::errc()) return false;
    key.remove_prefix(static_cast<std::size_t>(end - key.data()));
    return true;
  };
  if (!take("[")) return false;
  for (std::size_t d = 0; d < origin.size(); ++d) {
    std::uint64_t end = 0;
    if ((d != 0 && !take(", ")) || !number(origin[d]) || !take(":") || !number(end) || end <= origin[d]) return false;
    shape[d] = end - origin[d];
  }
  return key == "]";
}

result<std::shared_ptr<const source_layout>> source_layout::make(const dtype& type, const extents& shape,
                                                                 const extents& cell) {
  std::shared_ptr<source_layout> out(new source_layout);
  PENSTOCK_ASSIGN(out->grid_, chunk_grid::regular(shape, cell));
  const char* const endian = std::endian::native == std::endian::big ? "big" : "little";
  const std::vector<codec_config> codecs{{"bytes", json::object_t{{"endian", json(std::string(endian))}}}};
  PENSTOCK_ASSIGN(codec_chain chain, codec_chain::compile(codecs, type, cell, {}));
  out->chains_.push_back(std::move(chain));
  return std::shared_ptr<const source_layout>(std::move(out));
}

result<> source_layout::locate(std::span<const cell_id> cells, const index_lookup& /*known*/,
                               std::span<chunk_extent> out, std::vector<index_request>& /*missing*/) const {
  for (std::size_t i = 0; i < cells.size(); ++i)
    out[i] = {presence::present, 0, cells[i], {0, chains_[0].decoded_bytes(), false}};
  return {};
}

result<index_ptr> source_layout::parse(const index_request& /*request*/, std::span<const std::byte> /*bytes*/,
                                       std::uint64_t /*object_size*/) const {
  return error(errc::internal, "boxes have no index");
}

void source_layout::key(object_id object, std::string& out) const {
  dim_vector<std::uint64_t> at;
  grid_.coordinates(object, at);
  extents origin(at.size()), shape(at.size());
  for (std::size_t d = 0; d < at.size(); ++d) {
    origin[d] = grid_.axis(d).origin(at[d]);
    shape[d] = grid_.axis(d).valid_length(at[d]);
  }
  out.clear();
  append_box_key(out, origin, shape);
}

std::string source_layout::describe(cell_id cell) const {
  std::string out;
  key(cell, out);
  return "box " + out;
}

}  // namespace penstock::inline v0
