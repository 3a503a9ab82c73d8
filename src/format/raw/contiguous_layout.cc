#include <penstock/extend/contiguous_layout.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/counted.h"
#include "format/raw/raw_layout.h"

namespace penstock::inline v0 {
namespace {

/// A `raw_layout` of one file that can be written.
class contiguous_layout final : public chunk_layout, public object_assembler {
 public:
  contiguous_layout(std::shared_ptr<const raw_layout> blocks, std::vector<std::byte> header, std::uint64_t end)
      : blocks_(std::move(blocks)), header_(std::move(header)), end_(end) {}

  const chunk_grid& grid() const override { return blocks_->grid(); }
  const chunk_grid& write_grid() const override { return blocks_->write_grid(); }
  std::span<const codec_chain> chains() const override { return blocks_->chains(); }
  const chunk_layout* finer() const override { return blocks_->finer(); }
  result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                  std::vector<index_request>& missing) const override {
    return blocks_->locate(cells, known, out, missing);
  }
  result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                          std::uint64_t object_size) const override {
    return blocks_->parse(request, bytes, object_size);
  }
  void key(object_id object, std::string& out) const override { blocks_->key(object, out); }
  std::string describe(cell_id cell) const override { return blocks_->describe(cell); }
  const object_assembler* assembler() const override { return this; }

  result<> assemble(object_id object, const part* old, std::span<const new_cell> cells,
                    assembled_object& out) const override;

 private:
  std::shared_ptr<const raw_layout> blocks_;
  std::vector<std::byte> header_;
  std::uint64_t end_;  // of the elements
};

/// An index that is never requested.
class no_indexes final : public index_lookup {
 public:
  const index_entry* find(const index_key& /*key*/) const override { return nullptr; }
};

result<> contiguous_layout::assemble(object_id /*object*/, const part* old, std::span<const new_cell> cells,
                                     assembled_object& out) const {
  out.clear();
  if (old != nullptr && old->size() < end_)
    return error(errc::corrupt_data,
                 fmt::format("the object has {}, its header needs {}", counted(old->size(), "byte"), end_));
  const std::span<std::byte> header = out.make_room(header_.size());
  std::copy(header_.begin(), header_.end(), header.begin());
  out.parts.emplace_back(header);
  std::vector<const new_cell*> given(static_cast<std::size_t>(grid().cells()));
  for (const new_cell& each : cells) given[static_cast<std::size_t>(each.cell)] = &each;
  std::span<std::byte> zeros;
  std::vector<index_request> none;
  for (cell_id cell = 0; cell < given.size(); ++cell) {  // blocks are in C order, and so are their bytes
    chunk_extent at;
    PENSTOCK_TRY(locate({&cell, 1}, no_indexes(), {&at, 1}, none));
    const auto length = static_cast<std::size_t>(at.range.length);
    const new_cell* const now = given[static_cast<std::size_t>(cell)];
    const bool is_kept = now == nullptr && old != nullptr;
    if (is_kept && cell != 0 && given[static_cast<std::size_t>(cell - 1)] == nullptr) {
      out.parts.back() = part(out.parts.back().data(), out.parts.back().size() + length);
    } else if (is_kept) {
      out.parts.push_back(old->subspan(static_cast<std::size_t>(at.range.offset), length));
    } else if (now != nullptr && !now->absent) {
      out.parts.push_back(now->bytes);
    } else {
      if (zeros.size() < length) {
        zeros = out.make_room(length);
        std::fill(zeros.begin(), zeros.end(), std::byte{0});
      }
      out.parts.emplace_back(zeros.first(length));
    }
  }
  for (const part& each : out.parts) out.bytes += each.size();
  return {};
}

}  // namespace

result<std::shared_ptr<const chunk_layout>> make_contiguous_layout(contiguous_object what) {
  if (what.type.variable_length())
    return error(errc::unsupported,
                 fmt::format("items of {} have no place of their own in the object", what.type.name()));
  raw_part file;
  file.key = std::move(what.key);
  file.length = what.shape.empty() ? 1 : what.shape[0];
  file.offset = what.header.size();
  raw_shape all;
  all.type = what.type;
  all.endian = what.big_endian ? "big" : "little";
  all.shape = what.shape;
  std::vector<raw_part> files;
  files.push_back(std::move(file));
  PENSTOCK_ASSIGN(auto blocks, raw_layout::make(all, std::move(files)));
  std::uint64_t end = what.type.item_bytes();
  for (const std::uint64_t length : what.shape) end *= length;  // raw_layout has checked it
  end += what.header.size();
  if (what.bytes != byte_range::kAll && what.bytes < end)
    return error(errc::corrupt_data,
                 fmt::format("the object has {}, its header needs {}", counted(what.bytes, "byte"), end));
  return std::shared_ptr<const chunk_layout>(
      std::make_shared<const contiguous_layout>(std::move(blocks), std::move(what.header), end));
}

}  // namespace penstock::inline v0
