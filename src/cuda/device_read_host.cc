// The part of a read that decodes on the host: stages that the device cannot do, and cells that its decoders refuse.

#include <algorithm>
#include <cstring>

#include "cuda/device_read.h"
#include "plan/placement.h"

namespace penstock::inline v0::cuda {

// `reason`: of the first cell of this chain that the host decodes.
const device_chain& device_read::host_chain_of(const codec_chain& chain, const std::string& reason) {
  const mutex_lock lock(mutex_);
  for (const auto& each : host_chains_)
    if (each->chain == &chain) return *each;
  host_chains_.push_back(std::make_unique<device_chain>(host_chain(chain, reason)));
  return *host_chains_.back();
}

// Runs the host's stages on the output of the first `made` stages, and puts the result into page-locked memory.
result<> device_read::host_part(parcel& into, parcel_cell& cell, std::size_t made, const device_chain& split,
                                std::span<const std::byte> encoded, std::uint32_t worker, worker_scratch& scratch) {
  const codec_chain& chain = *split.chain;
  std::span<std::byte> room;
  const std::uint64_t limit =
      split.decodes_on_host() ? chain.stage_limit(split.device_stages) : static_cast<std::uint64_t>(encoded.size());
  const auto find_room = [&](std::uint64_t bytes) -> result<> {
    into.block = engine_->ring().take(std::max<std::uint64_t>(bytes, 1));
    if (into.block != nullptr) {
      room = {into.block, static_cast<std::size_t>(bytes)};
      return {};
    }
    PENSTOCK_ASSIGN(room, into.ordinary.reserve(bytes));
    return {};
  };
  if (limit != kUnbounded) PENSTOCK_TRY(find_room(limit));
  const std::uint64_t begin_ns = recorded_as_.profile ? recorded_as_.profile->now() : 0;
  PENSTOCK_ASSIGN(const auto decoded, chain.decode_stages(encoded, made, split.device_stages, room, scratch));
  if (recorded_as_.profile && split.decodes_on_host())
    recorded_as_.profile->record({stage::decode, worker, recorded_as_.number, cell.note.cell, begin_ns,
                                  recorded_as_.profile->now(), encoded.size(),
                                  split.decodes_on_device() ? 0 : decoded.size()});
  if (limit == kUnbounded) PENSTOCK_TRY(find_room(decoded.size()));
  if (decoded.size() > room.size()) return error(errc::internal, "a codec returned more bytes than its limit");
  if (decoded.data() != room.data() && !decoded.empty()) std::memcpy(room.data(), decoded.data(), decoded.size());
  into.bytes = decoded.size();
  cell.offset = 0;
  cell.length = decoded.size();
  return {};
}

// Called after a batch is submitted. The host decodes the cells of it that the device refused.
void device_read::keep_refused(std::unique_ptr<parcel> what) {
  if (what->refused.empty()) return give_parcel(std::move(what));
  const std::shared_ptr<parcel> from(what.release(), [this](parcel* done) {
    engine_->drop(*slot_, *done);
    give_parcel(std::unique_ptr<parcel>(done));
  });
  const mutex_lock lock(mutex_);
  for (std::size_t i = 0; i < from->refused.size(); ++i) refused_.push_back({from, i});
  waiting_.fetch_add(from->refused.size(), std::memory_order_relaxed);
  has_refused_.store(true, std::memory_order_relaxed);
}

// Decodes cells that the device's decoders refuse, in parallel with other workers.
result<> device_read::decode_refused(worker_scratch& scratch) {
  for (;;) {
    refused_cell next;
    {
      const mutex_lock lock(mutex_);
      has_refused_.store(!refused_.empty(), std::memory_order_relaxed);
      if (refused_.empty()) return {};
      next = std::move(refused_.back());
      refused_.pop_back();
      waiting_.fetch_sub(1, std::memory_order_relaxed);
    }
    if (abandoned_.load(std::memory_order_relaxed)) continue;
    const parcel::refusal& refusal = next.from->refused[next.refusal];
    const parcel_cell& refused = next.from->cells[refusal.cell];
    const source& from = sources_[refused.note.source];
    placement where;
    if (!place_cell(from, refused.note.cell, where)) continue;
    const device_chain& split = host_chain_of(*refused.chain->chain, refusal.reason);
    const std::span<const std::byte> encoded(next.from->data() + refused.offset,
                                             static_cast<std::size_t>(refused.length));
    std::unique_ptr<parcel> made = take_parcel();
    parcel_cell cell;
    cell.chain = &split;
    cell.note = refused.note;
    // The host's stages of the chain have run already.
    // Whichever worker is in `advance` counts as the first one.
    auto decoded = host_part(*made, cell, refused.chain->device_stages, split, encoded, 0, scratch);
    if (decoded.ok()) decoded = split.chain->check_decoded(cell.length);
    if (!decoded.ok()) {
      engine_->drop(*slot_, *made);
      return name_cell(std::move(decoded).error(), refused.note);
    }
    finish_cell(*made, cell, from, where, refused.direct);
    PENSTOCK_TRY(hand_over(std::move(made)));
  }
}

}  // namespace penstock::inline v0::cuda
