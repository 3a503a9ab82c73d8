#include "cuda/encode/encode_plan.h"

#include <algorithm>
#include <cstring>

#include "cuda/decode/decode_layout.h"
#include "cuda/encode/lz4_encode.h"
#include "cuda/encode/zstd_encode_parts.h"

namespace penstock::inline v0::device {
namespace {

constexpr std::uint32_t kShuffleThreads = 256;
constexpr std::uint32_t kShuffleBytesPerBlock = 64 * 1024;
constexpr std::uint32_t kLz4PrefixBytes = 4;

bool is_shuffle(step_kind kind) { return kind == step_kind::shuffle || kind == step_kind::bitshuffle; }

}  // namespace

result<encode_plan> encode_plan::make(std::span<const device_step> steps, std::uint64_t chunk_bytes,
                                      std::uint64_t most_encoded_bytes) {
  if (chunk_bytes == 0 || chunk_bytes > kMostEncodedChunk)
    return error{errc::unsupported, "the device encodes chunks of 1 to 2016 MiB"};
  encode_plan made;
  made.chunk_bytes_ = chunk_bytes;
  made.steps_.assign(steps.begin(), steps.end());
  std::uint64_t bound = chunk_bytes;
  enum { shuffles, compressed, checked } so_far = shuffles;
  bool has_compressor = false;
  for (const device_step& each : steps) {
    const bool compresses =
        each.kind == step_kind::lz4 || each.kind == step_kind::lz4_block || each.kind == step_kind::zstd;
    if (each.kind == step_kind::shuffle && each.item_bytes != 0 && chunk_bytes % each.item_bytes != 0)
      return error{errc::unsupported, "the device shuffles whole items"};
    if (is_shuffle(each.kind) && so_far == shuffles && each.item_bytes >= 1 && each.item_bytes <= 0xffff) {
      ++made.moves_;
    } else if (compresses && so_far == shuffles) {
      so_far = compressed;
      has_compressor = true;
      ++made.moves_;
      bound = each.kind == step_kind::zstd ? zstd_bound(chunk_bytes) : lz4_bound(chunk_bytes);
      if (each.kind == step_kind::lz4) bound += kLz4PrefixBytes;
      if (each.kind == step_kind::zstd) {
        made.part_blocks_ = zstd_blocks_of(chunk_bytes);
        made.workspace_bytes_ =
            made.part_blocks_ == 1 ? kZstdWorkspaceBytes : made.part_blocks_ * kZstdBlockWorkspaceBytes;
      }
    } else if (each.kind == step_kind::crc32c && so_far != checked) {
      so_far = checked;
      bound += 4;
    } else {
      return error{errc::unsupported,
                   "the device encodes shuffles, then lz4 or zstd, then crc32c: not these codecs in this order"};
    }
  }
  if (steps.empty()) return error{errc::unsupported, "the chain has no codec"};
  if (!has_compressor && most_encoded_bytes < bound)
    return error{errc::unsupported, "without a compressor, the output must have room for the whole chunk"};
  made.room_ = std::min(bound, most_encoded_bytes);
  made.stride_ = aligned(std::max(chunk_bytes, made.room_));
  return made;
}

std::uint64_t encode_plan::table_bytes(std::uint32_t chunks) const noexcept {
  return aligned(std::uint64_t{chunks} * sizeof(std::uint32_t)) +
         steps_.size() * aligned(std::uint64_t{chunks} * sizeof(encode_part));
}

std::uint64_t encode_plan::half_at(std::uint32_t chunks, std::size_t half) const noexcept {
  return table_bytes(chunks) + half % 2 * chunks * stride_;
}

std::uint64_t encode_plan::bytes(std::uint32_t chunks) const noexcept {
  return half_at(chunks, 0) + (moves_ == 0 ? 1 : 2) * chunks * stride_ + chunks * workspace_bytes_;
}

std::uint64_t encode_plan::values_at(std::uint32_t chunks, std::uint32_t which) const noexcept {
  return half_at(chunks, 0) + which * stride_;
}

std::uint64_t encode_plan::encoded_at(std::uint32_t chunks, std::uint32_t which) const noexcept {
  return half_at(chunks, moves_) + which * stride_;
}

void encode_plan::emit(std::uint32_t chunks, std::span<std::byte> tables, std::uint64_t block,
                       std::vector<kernel_launch>& launches) const {
  decode_layout to(tables, block, 0);
  const auto whole = static_cast<std::uint32_t>(chunk_bytes_), room = static_cast<std::uint32_t>(room_);
  // Without a compressor, the encoded size is known in advance.
  const std::uint64_t sizes = to.put(std::vector<std::uint32_t>(chunks, whole));
  std::vector<encode_part> parts(chunks);
  std::size_t half = 0;
  for (const device_step& step : steps_) {
    const bool shuffles = is_shuffle(step.kind), checks = step.kind == step_kind::crc32c;
    const std::uint64_t from = block + half_at(chunks, half);
    if (!checks) ++half;
    const std::uint64_t target = block + half_at(chunks, half);
    for (std::uint32_t i = 0; i < chunks; ++i)
      parts[i] = {from + i * stride_, target + i * stride_, whole, shuffles ? whole : room};
    const std::uint64_t table = to.put(parts);
    if (shuffles) {
      const std::uint32_t blocks = (whole - 1) / kShuffleBytesPerBlock + 1;
      launches.push_back(make_launch(
          kernel_id::shuffle, blocks * chunks, kShuffleThreads,
          shuffle_wave{table, chunks, blocks, step.item_bytes, step.kind == step_kind::bitshuffle ? 1u : 0u}));
      continue;
    }
    const encode_wave wave{table, sizes, chunks, step.kind == step_kind::lz4 ? kLz4PrefixBytes : 0};
    if (step.kind == step_kind::zstd) {
      const std::uint64_t workspaces = block + half_at(chunks, 0) + 2 * chunks * stride_;
      if (part_blocks_ == 1) {
        launches.push_back(
            make_launch(kernel_id::encode_zstd, chunks, kLanes, zstd_encode_wave{wave, workspaces, step.settings, 0}));
        continue;
      }
      const zstd_encode_blocks_wave blocks{wave, workspaces, part_blocks_, step.settings};
      for (const kernel_id each : {kernel_id::encode_zstd_blocks, kernel_id::join_zstd_blocks})
        launches.push_back(make_launch(each, chunks * part_blocks_, kLanes, blocks));
    } else {
      launches.push_back(make_launch(checks ? kernel_id::append_crc32c : kernel_id::encode_lz4, chunks, kLanes, wave));
    }
  }
}

}  // namespace penstock::inline v0::device
