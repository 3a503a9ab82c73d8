// Any chain that the device encodes, over chunks of any size: the decoders restore what the encoding kernels produce on
// the host. Some chunks have several blocks of zstd.

#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "codec_fuzz.h"
#include "cuda/decode/host_decode.h"
#include "cuda/decode/host_run.h"
#include "cuda/decode/warp.h"
#include "cuda/encode/encode_parts.h"
#include "cuda/encode/encode_plan.h"
#include "cuda/encode/zstd_encode_parts.h"

using namespace penstock;

namespace {

constexpr std::uint32_t kMostChunks = 3;
constexpr std::uint32_t kMostItemBytes = 20;
constexpr std::size_t kBlocksBytes = device::kMostEncodedBlock + 5000;

struct block_delete {
  void operator()(std::byte* block) const { ::operator delete(block, std::align_val_t{256}); }
};

// In encoding order, often one for which an encoder exists.
std::vector<device::device_step> chain_of(fuzz_input& input) {
  constexpr std::array kKinds{device::step_kind::shuffle,   device::step_kind::bitshuffle, device::step_kind::lz4,
                              device::step_kind::lz4_block, device::step_kind::zstd,       device::step_kind::crc32c};
  std::vector<device::device_step> out(input.below(4));
  std::uint32_t least = 0;
  for (device::device_step& each : out) {
    const std::uint32_t kind = least + input.below(static_cast<std::uint32_t>(kKinds.size()) - least);
    each.kind = kKinds[kind];
    if (kind < 2) {
      each.item_bytes = 1 + input.below(kMostItemBytes);
    } else {
      least = kind < 5 ? 5 : 0;  // after a checksum, any codec, which is refused
      each.settings = each.kind == device::step_kind::zstd ? input.below(2) : 0;
    }
  }
  return out;
}

}  // namespace

extern "C" int run_encode_plan(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  device::host_lane_order = static_cast<device::lane_order>(input.below(3));
  const std::vector<device::device_step> steps = chain_of(input);
  const std::uint32_t chunks = 1 + input.below(kMostChunks);
  const std::uint32_t how = input.byte();
  const bool ample = how % 4 != 0, many_blocks = how >= 252;
  const std::uint64_t room = input.byte() | input.byte() << 8;
  const auto content = repeated(input.rest(), many_blocks ? chunks * kBlocksBytes : 0);
  const std::size_t chunk_bytes = content.size() / chunks;
  const auto plan = device::encode_plan::make(steps, chunk_bytes, ample ? ~0ull : room);
  if (!plan.ok()) return 0;
  const std::unique_ptr<std::byte, block_delete> block(
      static_cast<std::byte*>(::operator new(plan->bytes(chunks), std::align_val_t{256})));
  std::vector<device::kernel_launch> launches;
  plan->emit(chunks, {block.get(), plan->table_bytes(chunks)}, reinterpret_cast<std::uintptr_t>(block.get()), launches);
  for (std::uint32_t i = 0; i < chunks; ++i)
    std::memcpy(block.get() + plan->values_at(chunks, i), content.data() + i * chunk_bytes, chunk_bytes);
  for (const device::kernel_launch& each : launches)
    device::run_on_host(each.kernel, each.grid, each.threads, each.argument.data());

  const std::vector<device::device_step> back(steps.rbegin(), steps.rend());
  std::vector<std::byte> decoded(chunk_bytes);
  for (std::uint32_t i = 0; i < chunks; ++i) {
    std::uint32_t made = 0;
    std::memcpy(&made, block.get() + i * sizeof made, sizeof made);
    if (made == device::kDoesNotFit) {
      require(!ample);
      continue;
    }
    require(made <= plan->room());
    const std::byte* const encoded = block.get() + plan->encoded_at(chunks, i);
    if (back.empty()) {
      require(made == chunk_bytes && std::memcmp(encoded, content.data() + i * chunk_bytes, made) == 0);
      continue;
    }
    require(device::decode_on_host(back, std::span(encoded, made), decoded).ok() &&
            std::memcmp(decoded.data(), content.data() + i * chunk_bytes, chunk_bytes) == 0);
  }
  return 0;
}
