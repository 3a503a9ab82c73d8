// Text of variable length that a virtual dataset shows: parts of small sources, from small numbers. Its cells have the
// values that a model copies one by one, however many cells are read together.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codec_fuzz.h"
#include "driver/hdf5_heap_store.h"
#include "driver/hdf5_shown_values.h"
#include "driver/open_reference.h"
#include "hdf5_selections.h"

namespace {

using namespace penstock;

using numbers = std::vector<std::uint64_t>;

/// Text in cells, of which some do not exist and some are damaged.
class some_text final : public hdf5_variable_cells {
 public:
  some_text(fuzz_input& input, std::size_t number) : shape_(small_shape(input)), number_(number) {
    for (std::size_t d = 0; d < shape_.size(); ++d) cell_.push_back(1 + input.below(4));
    grid_ = chunk_grid::regular(extents(std::span<const std::uint64_t>(shape_)), cell_).value();
    for (std::uint64_t i = 0; i < grid_.cells(); ++i) states_.push_back(input.below(8));
  }

  const numbers& shape() const noexcept { return shape_; }
  const chunk_grid& grid() const override { return grid_; }
  result<std::vector<std::uint64_t>> cells() const override { return all_hdf5_cells(grid_.cells()); }
  bool has(std::uint64_t cell) const override { return states_.at(cell) != 0; }
  bool is_damaged(std::uint64_t cell) const { return states_.at(cell) == 1; }

  std::vector<result<cell_bytes>> read(std::span<const hdf5_cell_request> cells) const override {
    std::vector<result<cell_bytes>> out;
    for (const hdf5_cell_request& each : cells) {
      require(has(each.cell));
      if (is_damaged(each.cell))
        out.emplace_back(error(errc::corrupt_data, "damaged"));
      else
        out.emplace_back(bytes_of(each));
    }
    return out;
  }

  store_traits traits() const override { return {}; }
  std::string uri() const override { return "memory:"; }

  /// The cell of an element, by its number in C order.
  std::uint64_t cell_of(std::uint64_t element) const {
    dim_vector<std::uint64_t> at(shape_.size());
    for (std::size_t d = shape_.size(); d-- > 0; element /= shape_[d])
      at[d] = grid_.axis(d).cell_of(element % shape_[d]);
    return grid_.id(at);
  }
  std::string value(std::uint64_t element) const {
    return has(cell_of(element)) ? std::string(element % 3, static_cast<char>('a' + number_)) + std::to_string(element)
                                 : std::string();
  }

 private:
  cell_bytes bytes_of(const hdf5_cell_request& wanted) const {
    dim_vector<std::uint64_t> at;
    grid_.coordinates(wanted.cell, at);
    const numbers lengths(cell_.begin(), cell_.end());
    const auto positions = all_positions(lengths);
    cell_bytes out;
    append_cell_number(out, positions.size());
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const numbers& each = positions[i];
      std::uint64_t element = 0;
      bool inside = true;
      for (std::size_t d = 0; d < shape_.size(); ++d) {
        const std::uint64_t place = at[d] * cell_[d] + each[d];
        inside = inside && place < shape_[d];
        element = element * shape_[d] + place;
      }
      const std::string text = !wanted.needs(i) ? "not needed" : inside ? value(element) : "beyond the end";
      append_cell_number(out, text.size());
      for (const char letter : text) out.push_back(static_cast<std::byte>(letter));
    }
    return out;
  }

  numbers shape_;
  std::size_t number_;
  extents cell_;
  chunk_grid grid_;
  std::vector<std::uint32_t> states_;
};

std::vector<std::string> items_of(const hdf5_variable_cells::cell_bytes& cell) {
  std::span<const std::byte> left(cell);
  std::vector<std::string> out(take_cell_number(left));
  for (std::string& each : out) {
    const std::uint64_t length = take_cell_number(left);
    require(length <= left.size());
    each.assign(reinterpret_cast<const char*>(left.data()), length);
    left = left.subspan(length);
  }
  require(left.empty());
  return out;
}

struct shown_element {
  std::string text;
  bool is_damaged = false;  // also if another source is shown in front of a damaged one
};

}  // namespace

extern "C" int run_hdf5_shown_values(const std::uint8_t* data, std::size_t size) {
  const std::shared_ptr<context> with;  // not used: the sources answer at once
  fuzz_input input(data, size);
  const std::string fill(input.below(2), 'F');
  const numbers shape = small_shape(input);
  std::uint64_t count = 1;
  for (const std::uint64_t each : shape) count *= each;
  std::vector<shown_element> model(count, {fill});

  std::vector<std::shared_ptr<const some_text>> sources;
  std::vector<std::shared_ptr<const referenced_array>> arrays;
  for (std::size_t i = 1 + input.below(3); i != 0; --i) {
    sources.push_back(std::make_shared<const some_text>(input, sources.size()));
    referenced_array made;
    made.metadata.type = dtype::variable_utf8();
    made.cells = std::make_shared<const hdf5_heap_store>(sources.back(), with);
    arrays.push_back(std::make_shared<const referenced_array>(std::move(made)));
  }
  std::vector<shown_part> parts;
  for (std::size_t i = input.below(5); i != 0; --i) {
    const std::size_t which = input.below(static_cast<std::uint32_t>(sources.size()));
    const numbers& theirs = sources[which]->shape();
    const hdf5_selection to = small_selection(input, shape.size()), from = small_selection(input, theirs.size());
    auto matched = match_hdf5_selections(to, shape, from, theirs);
    if (!matched.ok()) continue;
    for (hdf5_part& each : *matched) {
      for (const auto& [into, element] : pairs_of({&each, 1}, shape, theirs)) {
        model[into].text = sources[which]->value(element);
        model[into].is_damaged = model[into].is_damaged || sources[which]->is_damaged(sources[which]->cell_of(element));
      }
      parts.push_back({arrays[which], std::move(each), "a source"});
    }
  }

  const auto made =
      hdf5_shown_values::make(extents(std::span(shape)), std::move(parts), fill, json(), with, "memory:").value();
  const chunk_grid& grid = made->grid();
  require((grid.cells() == 0) == (count == 0));
  std::vector<std::uint64_t> cells = made->cells().value();
  for (std::size_t begin = 0; begin < cells.size();) {
    const std::size_t batch = std::min<std::size_t>(cells.size() - begin, 1 + input.below(4));
    const std::span<const std::uint64_t> wanted(cells.data() + begin, batch);
    const std::size_t words = (hdf5_cell_elements(grid) + 63) / 64;
    std::vector<numbers> bits(batch);
    std::vector<hdf5_cell_request> requests;
    for (std::size_t k = 0; k < batch; ++k) {
      const bool picks = input.below(2) == 1;
      for (std::size_t i = 0; picks && i < words; ++i)
        bits[k].push_back(input.below(256) * 0x0101010101010101U ^ std::uint64_t{input.below(256)} << input.below(56));
      requests.push_back({wanted[k], bits[k]});
    }
    auto read = made->read(requests);
    require(read.size() == batch);
    for (std::size_t k = 0; k < batch; ++k) {
      require(made->has(wanted[k]));
      dim_vector<std::uint64_t> at;
      grid.coordinates(wanted[k], at);
      const auto positions = all_positions({made->cell_shape().begin(), made->cell_shape().end()});
      std::vector<const shown_element*> expected;  // null: after the end
      bool is_damaged = false;
      for (const numbers& each : positions) {
        std::uint64_t element = 0;
        bool inside = true;
        for (std::size_t d = 0; d < shape.size(); ++d) {
          const std::uint64_t place = grid.axis(d).origin(at[d]) + each[d];
          inside = inside && place < shape[d];
          element = element * shape[d] + place;
        }
        const bool is_needed = inside && requests[k].needs(expected.size());
        expected.push_back(is_needed ? &model[element] : nullptr);
        is_damaged = is_damaged || (is_needed && model[element].is_damaged);
      }
      require(read[k].ok() != is_damaged);
      if (!read[k].ok()) continue;
      const std::vector<std::string> items = items_of(*read[k]);
      require(items.size() == expected.size());
      for (std::size_t i = 0; i < items.size(); ++i)
        require(items[i] == (expected[i] != nullptr ? expected[i]->text : std::string()));
    }
    begin += batch;
  }
  return 0;
}
