#include "cuda/encode_choice.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/counted.h"
#include "codec/device_form.h"
#include "cuda/encode_chain.h"

namespace penstock::inline v0::cuda {
namespace {

/// The device must be faster by this factor: its encoders have not been measured yet.
constexpr double kMargin = 2;
/// The least time to save: for less, a stream, launches and copies are not worthwhile.
constexpr double kLeastSavedSeconds = 2e-3;
/// Either way, bytes are copied over the bus: values, or at worst as many encoded bytes.
constexpr double kBusBytesPerSecond = 20e9;
/// 16 KiB of shared memory a warp.
constexpr unsigned kWarpsAMultiprocessor = 13;
/// A ratio above which the device's encoder, which is about as good as level 1, is not used.
constexpr std::int64_t kMostZstdLevel = 3;

/// The cost of a codec for float32 temperatures with 13 bits of the mantissa, unshuffled and shuffled. Of the host:
/// bytes a second and core (liblz4 and libzstd at levels 1 to 3). Of the device: a warp's cycles for 32 bytes by the
/// model of the machine code (docs/design/kernels.md, with loads from L1).
struct codec_cost {
  device_form::kind what;
  struct costs {
    double of_items, of_planes;
  } host, warp_cycles;
};
constexpr codec_cost kCosts[] = {
    {device_form::kind::lz4, {560e6, 4100e6}, {6090, 482}},
    {device_form::kind::zstd, {200e6, 1500e6}, {7998, 808}},
    {device_form::kind::shuffle, {2300e6, 2300e6}, {40, 40}},
    {device_form::kind::crc32c, {8000e6, 8000e6}, {60, 60}},
};

const codec_cost* cost_of(device_form::kind what) {
  const auto* const found =
      std::find_if(std::begin(kCosts), std::end(kCosts), [&](const codec_cost& each) { return each.what == what; });
  return found == std::end(kCosts) ? nullptr : found;
}

encode_choice host_because(std::string why) {
  encode_choice out;
  out.why = "the host: " + std::move(why);
  return out;
}

}  // namespace

encode_choice choose_encoder(const codec_chain& chain, const encode_work& work) {
  if (chain.is_plain()) return host_because("there is nothing to encode");
  if (work.chunks == 0) return host_because("no whole chunk is replaced");
  if (work.multiprocessors == 0) return host_because("there is no device");
  const auto plan = plan_encode(chain);
  if (!plan.ok()) return host_because(plan.error().message());
  const std::uint64_t of_wave = std::min(work.chunks, most_wave_chunks(*plan, work.memory_bytes));
  if (of_wave == 0) return host_because("a chunk needs more memory than the device's encoder may use");
  double host = 0, cycles = 0;  // for a byte, on one core; for 32 bytes, by one warp
  bool is_shuffled = false;
  for (std::size_t i = 0; i < chain.stages(); ++i) {
    const auto form = chain.stage_codec(i).form_on_device();
    const codec_cost* const cost = form ? cost_of(form->what) : nullptr;
    if (cost == nullptr) return host_because(chain.stage_codec(i).describe() + " has no estimate");
    if (form->level > kMostZstdLevel)
      return host_because(fmt::format("zstd of level {} compresses better than the device's encoder", form->level));
    host += 1 / (is_shuffled ? cost->host.of_planes : cost->host.of_items);
    cycles += is_shuffled ? cost->warp_cycles.of_planes : cost->warp_cycles.of_items;
    is_shuffled = is_shuffled || form->what == device_form::kind::shuffle;
  }
  encode_choice out;
  const auto chunk = static_cast<double>(chain.decoded_bytes());
  const auto chunks = static_cast<double>(work.chunks);
  const double on_bus = chunks * chunk / kBusBytesPerSecond;
  // Rounded up: the caller also waits for the last chunks when they do not occupy all workers.
  const double turns = std::ceil(chunks / std::max(1U, work.workers));
  const double warps = static_cast<double>(work.multiprocessors) * kWarpsAMultiprocessor;
  const double waves = std::ceil(chunks / static_cast<double>(of_wave));
  const double parts = std::ceil(chunks / waves) * plan->warps(), part = chunk / plan->warps();
  out.host_seconds = std::max(on_bus, turns * chunk * host);
  out.device_seconds = std::max(on_bus, waves * std::ceil(parts / warps) * part / 32 * cycles / work.clock_hz);
  out.on_device =
      out.host_seconds >= kMargin * out.device_seconds && out.host_seconds - out.device_seconds >= kLeastSavedSeconds;
  out.why = fmt::format("the {}: {} take about {:.3g} ms there, {:.3g} ms on {}", out.on_device ? "device" : "host",
                        counted(work.chunks, "chunk"), 1e3 * (out.on_device ? out.device_seconds : out.host_seconds),
                        1e3 * (out.on_device ? out.host_seconds : out.device_seconds),
                        out.on_device ? fmt::format("{} host workers", work.workers) : "the device");
  return out;
}

result<encode_work> device_part_of(const driver& with, device_number device) {
  constexpr double kUsualClock = 1.5e9;
  encode_work out;
  int multiprocessors = 0, kilohertz = 0;
  PENSTOCK_TRY(with.check(with.device_get_attribute(&multiprocessors, kAttributeMultiprocessors, device),
                          "cuDeviceGetAttribute"));
  out.multiprocessors = static_cast<unsigned>(std::max(0, multiprocessors));
  const bool known = with.device_get_attribute(&kilohertz, kAttributeClockKilohertz, device) == kSuccess;
  out.clock_hz = known && kilohertz > 0 ? 1e3 * kilohertz : kUsualClock;
  return out;
}

}  // namespace penstock::inline v0::cuda
