#include "format/reference/reference_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/checked.h"

namespace penstock::inline v0 {

result<std::uint64_t> reference_keys::cells() const {
  std::uint64_t out = 1;
  for (const std::uint64_t length : grid) {
    if (!checked_mul(out, length, out)) return error(errc::corrupt_data, "an array of more than 2^64 chunks");
  }
  return out;
}

std::optional<std::uint64_t> reference_keys::cell(std::string_view key) const noexcept {
  if (!prefix.empty()) {
    if (!key.starts_with(prefix)) return std::nullopt;
    key.remove_prefix(prefix.size());
    if (grid.empty()) return key.empty() ? std::optional<std::uint64_t>(0) : std::nullopt;
    if (key.empty() || key.front() != separator) return std::nullopt;
    key.remove_prefix(1);
  } else if (grid.empty()) {
    return key == "0" ? std::optional<std::uint64_t>(0) : std::nullopt;
  }
  std::uint64_t out = 0;
  for (std::size_t d = 0; d < grid.size(); ++d) {
    const std::size_t end = std::min(key.find(separator), key.size());
    const std::string_view digits = key.substr(0, end);
    std::uint64_t at = 0;
    if (digits.empty()) return std::nullopt;
    for (const char c : digits) {
      if (c < '0' || c > '9' || !checked_mul(at, 10, at) || !checked_add(at, static_cast<std::uint64_t>(c - '0'), at))
        return std::nullopt;
    }
    // The caller has checked that the number of the grid's cells fits 64 bits.
    if (at >= grid[d]) return std::nullopt;
    out = out * grid[d] + at;
    if ((end == key.size()) != (d + 1 == grid.size())) return std::nullopt;
    key.remove_prefix(std::min(end + 1, key.size()));
  }
  return out;
}

result<> reference_rows::add(std::uint64_t cell, std::string_view source, bool is_data, std::uint64_t offset,
                             std::uint64_t length) {
  const auto [found, is_new] =
      known_[is_data ? 1 : 0].try_emplace(std::string(source), static_cast<std::uint32_t>(sources_.size()));
  if (is_new) {
    if (sources_.size() == std::numeric_limits<std::uint32_t>::max())
      return error(errc::unsupported, "references to more than 2^32 objects");
    sources_.push_back({found->first, is_data});
  }
  columns_.cells.push_back(cell);
  columns_.objects.push_back(found->second);
  columns_.offsets.push_back(offset);
  columns_.lengths.push_back(length);
  return {};
}

result<std::shared_ptr<const reference_table>> reference_rows::table(std::uint64_t cells,
                                                                     const std::vector<std::uint32_t>& objects) const {
  std::vector<std::size_t> order(columns_.cells.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return columns_.cells[a] < columns_.cells[b]; });
  reference_table::columns sorted;
  sorted.cells.reserve(order.size());
  sorted.objects.reserve(order.size());
  sorted.offsets.reserve(order.size());
  sorted.lengths.reserve(order.size());
  for (const std::size_t i : order) {
    if (!sorted.cells.empty() && sorted.cells.back() == columns_.cells[i])
      return error(errc::corrupt_data, "references name a chunk twice");
    sorted.cells.push_back(columns_.cells[i]);
    sorted.objects.push_back(objects.empty() ? columns_.objects[i] : objects[columns_.objects[i]]);
    sorted.offsets.push_back(columns_.offsets[i]);
    sorted.lengths.push_back(columns_.lengths[i]);
  }
  return reference_table::make(cells, std::move(sorted));
}

}  // namespace penstock::inline v0
