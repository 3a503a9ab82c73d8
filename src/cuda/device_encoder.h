#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "codec/worker_scratch.h"
#include "cuda/device_values.h"
#include "cuda/encode/encode_plan.h"
#include "engine/object_walk.h"

namespace penstock::inline v0::cuda {

/// Values in device memory that the device encodes: their encoded bytes are copied to the host.
///
/// Cells that the write replaces as a whole are encoded in waves, in the order of the write: one wave is encoded while
/// workers take the cells of the one before. All other cells, those whose encoded bytes do not fit their bound, and
/// those for which memory was not available are left to the host, which receives their values. The host decodes one
/// cell of each wave and compares it with its values: a faulty encoder on some device must not lose data silently.
class device_encoder final : public cell_source {
 public:
  /// \param how   Converts the caller's elements to the array's; may be no conversion.
  /// \param from  The write's source, a box; `to` is device memory. Borrowed.
  /// \error unsupported  The device has no encoder for the codecs. Names the codec.
  static result<std::unique_ptr<device_encoder>> make(std::shared_ptr<device_engine> engine, const conversion& how,
                                                      const source& from);
  ~device_encoder() override;

  void record_as(const recorded_read& write) override { recorded_as_ = write; }
  result<lent_values> take(const placement& where, buffer& spare) override { return host_.take(where, spare); }
  void give(const lent_values& values) noexcept override { host_.give(values); }
  result<std::optional<lent_encoded>> take_encoded(cell_id cell) override;
  void give_encoded(const lent_encoded& encoded) noexcept override;

 private:
  struct wave {
    std::vector<cell_id> cells;
    std::uint32_t chunks = 0;      // the cells; in the first wave, also the cell of fill values
    device_block memory;           // address 0: returned
    std::byte* head = nullptr;     // page-locked: tables on their way to the device, then sizes on their way back
    std::byte* block = nullptr;    // page-locked: encoded bytes
    std::vector<std::byte> spare;  // the same if page-locked memory has no space
    std::vector<std::span<const std::byte>> encoded;
    event_ref ready = nullptr;  // the sizes are in `head`
    // If a profile records the write: from the first gather to the end of the last kernel, and for each kernel.
    std::vector<timed_span*> spans;
    bool fetched = false;
    std::size_t waiting = 0, lent = 0;  // cells that are not taken, and cells that are not returned
  };
  struct place {
    wave* in;
    std::size_t number;
  };

  device_encoder(std::shared_ptr<device_engine> engine, const conversion& how, const source& from,
                 device::encode_plan plan) noexcept
      : engine_(std::move(engine)), host_(engine_, how), how_(how), from_(from), plan_(std::move(plan)) {}
  result<> start();
  result<> open_wave() PENSTOCK_REQUIRES(mutex_);
  std::vector<cell_id> next_cells() PENSTOCK_REQUIRES(mutex_);
  result<> queue(wave& what) PENSTOCK_REQUIRES(mutex_);
  result<std::uint64_t> gather(const placement& where, device_address to);
  result<std::uint64_t> gather_fill(device_address item, device_address to);
  result<> fetch(wave& what) PENSTOCK_REQUIRES(mutex_);
  result<> check_one(const wave& what) PENSTOCK_REQUIRES(mutex_);
  void close(const wave& what) noexcept PENSTOCK_REQUIRES(mutex_);
  void give_back(wave& what) noexcept;
  void record(wave& what, std::uint64_t cells, std::uint64_t encoded_bytes) noexcept;

  const std::shared_ptr<device_engine> engine_;
  device_values host_;
  const conversion how_;
  const source& from_;
  const device::encode_plan plan_;
  stream_ref encode_ = nullptr, fetch_ = nullptr;
  recorded_read recorded_as_;  // set before the first worker runs

  mutex mutex_;
  object_walk walk_ PENSTOCK_GUARDED_BY(mutex_);
  // Cells from number `next_` on are not in a wave yet.
  touched_object object_ PENSTOCK_GUARDED_BY(mutex_);
  std::size_t next_ PENSTOCK_GUARDED_BY(mutex_) = 0, most_cells_ PENSTOCK_GUARDED_BY(mutex_) = 1;
  bool ended_ PENSTOCK_GUARDED_BY(mutex_) = false;  // no more waves
  bool fill_queued_ PENSTOCK_GUARDED_BY(mutex_) = false;
  // The encoded form of a cell that contains only the fill value.
  std::vector<std::byte> fill_ PENSTOCK_GUARDED_BY(mutex_);
  std::list<wave> waves_ PENSTOCK_GUARDED_BY(mutex_);  // in order of launch
  std::unordered_map<cell_id, place> places_ PENSTOCK_GUARDED_BY(mutex_);
  // Used by `check_one`.
  worker_scratch scratch_ PENSTOCK_GUARDED_BY(mutex_);
  buffer spare_ PENSTOCK_GUARDED_BY(mutex_), decoded_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::inline v0::cuda
