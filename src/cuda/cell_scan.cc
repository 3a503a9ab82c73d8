#include "cuda/cell_scan.h"

#include <algorithm>
#include <utility>

#include "cuda/chain_split.h"

namespace penstock::inline v0::cuda {

result<std::uint32_t> batch_of(std::vector<std::unique_ptr<wave_batch>>& batches,
                               std::span<const device::device_step> steps, const device::library_use& by_library) {
  for (std::uint32_t i = 0; i < batches.size(); ++i)
    if (std::equal(steps.begin(), steps.end(), batches[i]->steps.begin(), batches[i]->steps.end())) return i;
  PENSTOCK_ASSIGN(device::decode_wave decoder, device::decode_wave::make(steps, true, by_library));
  batches.push_back(std::make_unique<wave_batch>(
      wave_batch{std::vector<device::device_step>(steps.begin(), steps.end()), std::move(decoder), 0, 0, 0}));
  return static_cast<std::uint32_t>(batches.size() - 1);
}

void trim_batches(std::vector<std::unique_ptr<wave_batch>>& batches) noexcept {
  if (batches.size() > kKeptBatches) batches.clear();
  for (const auto& each : batches) each->decoder.clear();
}

result<> cell_scan::add(const parcel& of, std::size_t cell, device_address encoded, device_address decoded,
                        const device::library_use& by_library) {
  const parcel_cell& from = of.cells[cell];
  scanned_cell made{cell, kNoStatus, kNoStatus, decoded};
  if (from.chain->decodes_on_device()) {
    PENSTOCK_ASSIGN(made.batch, batch_of(batches, from.chain->steps, by_library));
    device::decode_wave& decoder = batches[made.batch]->decoder;
    made.status = static_cast<std::uint32_t>(decoder.chunks());
    const std::span<const std::byte> bytes(of.data() + from.offset, static_cast<std::size_t>(from.length));
    PENSTOCK_TRY(decoder.add({bytes, encoded, decoded, from.decoded_bytes}));
  }
  cells.push_back(made);
  return {};
}

void cell_scan::clear() noexcept {
  cells.clear();
  trim_batches(batches);
}

}  // namespace penstock::inline v0::cuda
