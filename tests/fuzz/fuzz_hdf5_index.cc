// Any bytes as an HDF5 file: refused, or the dataset "x" (else the root as one) has chunks that are cells of its grid.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/checked.h"
#include "format/hdf5/hdf5_attributes.h"
#include "format/hdf5/hdf5_chunks.h"
#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_group.h"

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

bool is_refusal(const error& what) {
  return what.code() == errc::corrupt_data || what.code() == errc::unsupported || what.code() == errc::not_found;
}

result<> look(std::span<const std::byte> bytes, hdf5_checksums sums) {
  bytes_in_memory source(bytes);
  PENSTOCK_ASSIGN(hdf5_file file, hdf5_file::open(source, sums));
  auto found = find_hdf5_object(file, "x");
  if (!found.ok() && !is_refusal(found.error())) __builtin_trap();
  PENSTOCK_ASSIGN(const auto header, read_hdf5_object(file, found.ok() ? *found : file.root()));
  if (auto meaning = hdf5_meaning_of_values(file, header); !meaning.ok() && !is_refusal(meaning.error()))
    __builtin_trap();
  PENSTOCK_ASSIGN(const hdf5_shape shape, parse_hdf5_shape(file, header));
  PENSTOCK_ASSIGN(const hdf5_layout layout, parse_hdf5_layout(file, header));
  if (layout.what != hdf5_layout::kind::chunked) return {};
  PENSTOCK_ASSIGN(const hdf5_chunks chunks, list_hdf5_chunks(file, shape, layout));
  std::uint64_t cells = 1;
  for (std::size_t d = 0; d < layout.chunk.size(); ++d)
    if (!checked_mul(cells, ceil_div(shape.extents[d], layout.chunk[d]), cells)) __builtin_trap();
  const std::size_t count = chunks.cells.size();
  if (chunks.offsets.size() != count || chunks.lengths.size() != count || chunks.masks.size() != count)
    __builtin_trap();
  for (std::size_t i = 0; i < count; ++i) {
    if (chunks.cells[i] >= cells || (i != 0 && chunks.cells[i] <= chunks.cells[i - 1])) __builtin_trap();
    if (chunks.lengths[i] == 0) __builtin_trap();
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const hdf5_checksums sums : {hdf5_checksums::verified, hdf5_checksums::ignored}) {
    const auto done = look({reinterpret_cast<const std::byte*>(data), size}, sums);
    if (!done.ok() && !is_refusal(done.error())) __builtin_trap();
  }
  return 0;
}
