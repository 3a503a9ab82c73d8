// Any bytes as an HDF5 file: every dataset in its groups is an array whose cells are within bounds, or refused. A file
// that is fetched in rounds gives the same arrays.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/hdf5/hdf5_array.h"
#include "format/hdf5/hdf5_compound.h"
#include "format/hdf5/hdf5_pages.h"
#include "format/hdf5/hdf5_virtual.h"

namespace {

using namespace penstock;

class bytes_in_memory final : public hdf5_source {
 public:
  explicit bytes_in_memory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const noexcept override { return bytes_.size(); }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::uint64_t length) override {
    if (offset > bytes_.size() || length > bytes_.size() - offset) __builtin_trap();
    return bytes_.subspan(offset, length);
  }

 private:
  std::span<const std::byte> bytes_;
};

std::string text_of(const error& failed) {
  if (failed.code() == errc::not_found) return "not found";
  if (failed.code() != errc::corrupt_data && failed.code() != errc::unsupported) __builtin_trap();
  return failed.message();
}

// Mappings show elements of the dataset and of a source of this shape.
void match(const hdf5_array::virtual_parts& parts) {
  const std::vector<std::uint64_t>& shape = parts.shape.extents;
  for (const hdf5_mapping& each : parts.mappings) {
    if (unlimited_axis(each.to) || unlimited_axis(each.from)) continue;
    const auto made = match_hdf5_selections(each.to, shape, each.from, shape);
    if (!made.ok()) continue;
    for (const hdf5_part& part : *made) {
      if (part.origin.size() != shape.size() || part.runs.size() != shape.size()) __builtin_trap();
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (part.origin[d] >= shape[d]) __builtin_trap();
        for (const hdf5_run& run : part.runs[d]) {
          if (run.count == 0 || run.to >= shape[d] || run.count > shape[d] - run.to) __builtin_trap();
          if (!part.axes[d]) continue;
          const std::uint64_t length = shape[*part.axes[d]];
          if (run.from >= length || run.count > length - run.from) __builtin_trap();
        }
      }
    }
  }
}

std::string describe(const hdf5_array& found) {
  if (found.lengths.size() != found.offsets.size()) __builtin_trap();
  if (!found.cells.empty() && found.cells.size() != found.offsets.size()) __builtin_trap();
  if (!found.chains.empty() && found.chains.size() != found.offsets.size()) __builtin_trap();
  for (const std::uint64_t cell : found.cells)
    if (cell >= found.cell_count) __builtin_trap();
  for (const std::uint16_t chain : found.chains)
    if (chain > found.variants.size()) __builtin_trap();
  if (!found.files.empty() && found.files.size() != found.offsets.size()) __builtin_trap();
  for (const std::uint32_t file : found.files)
    if (file >= found.external.size()) __builtin_trap();
  if (found.mapped) match(*found.mapped);
  if (found.variable) {
    const auto& of = *found.variable;
    if (of.offset > of.stored_bytes || of.reference_bytes > of.stored_bytes - of.offset) __builtin_trap();
    if (!of.fill.empty() && of.fill.size() != of.stored_bytes) __builtin_trap();
  }
  std::string out = found.zarray.dump() + found.attributes.dump();
  for (const auto& name : found.dimension_names) out += name.value_or("-") + ",";
  constexpr std::size_t kMostShown = 4096;  // external files may be stated to have any size
  for (std::size_t i = 0; i < std::min(found.offsets.size(), kMostShown); ++i)
    out += std::to_string(found.offsets[i]) + "+" + std::to_string(found.lengths[i]) + " ";
  return out;
}

// The arrays of the file, as text: at most this many, of groups up to this depth.
result<std::string> arrays_of(hdf5_source& source, hdf5_checksums sums) {
  constexpr std::size_t kMostNodes = 64;
  PENSTOCK_ASSIGN(hdf5_file file, hdf5_file::open(source, sums, 32));
  hdf5_tree tree(file);
  std::vector<std::string> paths{""};
  std::string out;
  for (std::size_t i = 0; i < paths.size() && i < kMostNodes; ++i) {
    const std::string path = paths[i];
    out += "\n" + path + ": ";
    const auto part = find_hdf5_part(file, tree, path);
    if (!part.ok()) {
      if (!file.waiting()) out += text_of(part.error());
      continue;
    }
    if (part->is_member_group()) {
      for (const hdf5_member_name& each : hdf5_field_names(*part->type)) paths.push_back(path + "/" + each.name);
      continue;
    }
    const hdf5_place* const at = &part->at;
    const hdf5_field* const field = part->field ? &*part->field : nullptr;
    const auto header = tree.header(at->object);
    if (header.ok() && find_message(**header, hdf5_message::data_layout) != nullptr) {
      const auto found = read_hdf5_array(file, tree, *at, hdf5_chunk_listing::whole, field);
      if (!file.waiting()) out += found.ok() ? describe(*found) : text_of(found.error());
      continue;
    }
    const auto members = tree.members(*at);
    if (!members.ok()) {
      if (!file.waiting()) out += text_of(members.error());
      continue;
    }
    for (const hdf5_member_name& each : *members) paths.push_back(path + "/" + each.name);
  }
  return out;
}

std::string text_of(const result<std::string>& found) { return found.ok() ? *found : text_of(found.error()); }

std::string in_rounds(std::span<const std::byte> bytes, hdf5_checksums sums) {
  constexpr std::uint64_t kPageBytes = 512;
  hdf5_pages pages(bytes.size(), kPageBytes);
  const auto fetch = [&](std::span<const byte_range> ranges) -> result<> {
    for (const byte_range& each : ranges) PENSTOCK_TRY(pages.add(each, bytes.subspan(each.offset, each.length)));
    return {};
  };
  return text_of(parse_hdf5_in_rounds(pages, {}, [&] { return arrays_of(pages, sums); }, fetch));
}

}  // namespace

extern "C" int run_hdf5_array(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const hdf5_checksums sums : {hdf5_checksums::verified, hdf5_checksums::ignored}) {
    bytes_in_memory source(bytes);
    if (text_of(arrays_of(source, sums)) != in_rounds(bytes, sums)) __builtin_trap();
  }
  return 0;
}
