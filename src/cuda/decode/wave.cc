#include "cuda/decode/wave.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

#include "cuda/decode/zstd_checksum.h"
#include "cuda/decode/zstd_literals.h"
#include "cuda/decode/zstd_sequences.h"

namespace penstock::inline v0::device {
namespace {

constexpr std::uint64_t kAlignment = 256;
constexpr std::uint32_t kTransformThreads = 256;
constexpr std::uint32_t kTransformBytesPerBlock = 64 * 1024;

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::uint32_t groups(std::size_t count, int each) {
  return static_cast<std::uint32_t>((count + static_cast<unsigned>(each) - 1) / static_cast<unsigned>(each));
}

bool is_decoder(step_kind kind) { return kind == step_kind::zstd; }

transform_kind transform_of(step_kind kind) {
  switch (kind) {
    case step_kind::shuffle:
      return transform_kind::unshuffle;
    case step_kind::bitshuffle:
      return transform_kind::unbitshuffle;
    case step_kind::byte_swap:
      return transform_kind::byte_swap;
    default:
      return transform_kind::copy;
  }
}

}  // namespace

// Hands out places in the descriptors and in the workspace, in the same order when it counts and when it writes.
class decode_wave::layout {
 public:
  layout(std::span<std::byte> descriptors, std::uint64_t device_descriptors, std::uint64_t workspace)
      : descriptors_(descriptors), device_(device_descriptors), workspace_(workspace) {}

  // Copies `items` to the descriptors; their address on the device.
  template <class T>
  std::uint64_t put(std::span<const T> items) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::uint64_t at = used_;
    used_ += aligned(items.size_bytes());
    if (!descriptors_.empty() && !items.empty())
      std::memcpy(descriptors_.data() + at, items.data(), items.size_bytes());
    return device_ + at;
  }

  template <class T>
  std::uint64_t put(const std::vector<T>& items) {
    return put(std::span<const T>(items));
  }

  std::uint64_t put(const std::vector<planned_part>& parts) {
    std::vector<decode_part> made;
    made.reserve(parts.size());
    for (const planned_part& planned : parts) {
      decode_part part = planned.part;
      if (planned.source_in_workspace) part.source += workspace_;
      if (planned.target_in_workspace) part.target += workspace_;
      made.push_back(part);
    }
    return put(made);
  }

  // Room in the workspace behind what was taken before.
  std::uint64_t take(std::uint64_t bytes) {
    const std::uint64_t at = workspace_used_;
    workspace_used_ += aligned(bytes);
    return workspace_ + at;
  }

  std::uint64_t used() const { return used_; }
  std::uint64_t workspace_used() const { return workspace_used_; }

 private:
  std::span<std::byte> descriptors_;
  std::uint64_t device_, workspace_;
  std::uint64_t used_ = 0, workspace_used_ = 0;
};

result<decode_wave> decode_wave::make(std::span<const device_step> steps, bool verify_checksums) {
  decode_wave made;
  made.verify_ = verify_checksums;
  if (steps.empty()) return error{errc::unsupported, "the device decodes chains of at least one step"};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].item_bytes == 0 || steps[i].item_bytes > 0xffff)
      return error{errc::unsupported, "the device takes items of 1 to 65535 bytes"};
    if (is_decoder(steps[i].kind)) {
      if (i != 0) return error{errc::unsupported, "the device decompresses only what the host can see"};
      made.decodes_ = true;
    } else {
      made.transforms_.push_back(steps[i]);
    }
  }
  made.transform_parts_.resize(made.transforms_.size());
  return made;
}

result<> decode_wave::add(const wave_chunk& chunk) {
  constexpr std::uint64_t kMost = 0xffffffffu;
  if (chunk.bytes.size() > kMost || chunk.decoded_bytes > kMost)
    return error{errc::unsupported, "chunks of 4 GiB or more are left to the host"};
  if (decodes_) {
    // Behind a decoder the first transform reads the workspace, and the last one writes the target.
    const bool in_workspace = !transforms_.empty();
    const std::uint64_t target = in_workspace ? intermediate_bytes_ : chunk.target;
    PENSTOCK_TRY(add_decoder(chunk, target, in_workspace));
    if (in_workspace) intermediate_bytes_ += aligned(chunk.decoded_bytes);
    add_transforms(chunk, target, true);
  } else {
    if (chunk.bytes.size() != chunk.decoded_bytes)
      return error{errc::corrupt_data, "holds " + std::to_string(chunk.bytes.size()) + " bytes, expected " +
                                           std::to_string(chunk.decoded_bytes)};
    add_transforms(chunk, chunk.device_bytes, false);
  }
  ++chunks_;
  return {};
}

result<> decode_wave::add_decoder(const wave_chunk& chunk, std::uint64_t target, bool in_workspace) {
  const auto part = static_cast<std::uint32_t>(zstd_parts_.size());
  PENSTOCK_TRY(scan_zstd(chunk.bytes, chunk.decoded_bytes, part, zstd_));
  zstd_parts_.push_back({{chunk.device_bytes, target, static_cast<std::uint32_t>(chunk.bytes.size()),
                          static_cast<std::uint32_t>(chunk.decoded_bytes), static_cast<std::uint32_t>(chunks_), 0},
                         false,
                         in_workspace});
  return {};
}

void decode_wave::add_transforms(const wave_chunk& chunk, std::uint64_t first_source, bool in_workspace) {
  std::uint64_t source = first_source;
  const auto bytes = static_cast<std::uint32_t>(chunk.decoded_bytes);
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    const bool last = i + 1 == transforms_.size();
    const std::uint64_t target = last ? chunk.target : intermediate_bytes_;
    if (!last) intermediate_bytes_ += aligned(bytes);
    transform_parts_[i].push_back({{source, target, bytes, bytes, static_cast<std::uint32_t>(chunks_),
                                    transform_parameter(transform_of(transforms_[i].kind), transforms_[i].item_bytes)},
                                   in_workspace,
                                   !last});
    source = target;
    in_workspace = true;
  }
}

void decode_wave::emit_zstd(layout& to, std::uint64_t statuses, std::vector<kernel_launch>& launches) const {
  if (zstd_parts_.empty()) return;
  // Heavy parts first, and their blocks too: what starts last should end soon.
  std::vector<std::uint32_t> order(zstd_parts_.size()), first_frames(zstd_parts_.size() + 1, 0);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return zstd_parts_[a].part.source_bytes > zstd_parts_[b].part.source_bytes;
  });
  for (const zstd_frame& frame : zstd_.frames) ++first_frames[frame.part + 1];
  std::partial_sum(first_frames.begin(), first_frames.end(), first_frames.begin());
  std::vector<std::uint32_t> literal_blocks, sequence_blocks, checked_frames;
  for (const std::uint32_t part : order) {
    for (std::uint32_t f = first_frames[part]; f < first_frames[part + 1]; ++f) {
      const zstd_frame& frame = zstd_.frames[f];
      if (verify_ && frame.has_checksum != 0) checked_frames.push_back(f);
      for (std::uint32_t b = frame.first_block; b < frame.first_block + frame.blocks; ++b) {
        if (zstd_.blocks[b].type != 2) continue;
        if (zstd_.blocks[b].literals_type >= 2) literal_blocks.push_back(b);
        if (zstd_.blocks[b].sequence_count != 0) sequence_blocks.push_back(b);
      }
    }
  }
  zstd_wave wave{};
  wave.parts = to.put(zstd_parts_);
  wave.frames = to.put(zstd_.frames);
  wave.blocks = to.put(zstd_.blocks);
  wave.first_frames = to.put(first_frames);
  wave.literal_blocks = to.put(literal_blocks);
  wave.sequence_blocks = to.put(sequence_blocks);
  wave.checked_frames = to.put(checked_frames);
  wave.order = to.put(order);
  wave.results = to.take(zstd_.blocks.size() * sizeof(zstd_block_result));
  wave.frame_starts = to.take(zstd_.frames.size() * sizeof(std::uint32_t));
  wave.literals = to.take(zstd_.literal_bytes);
  wave.sequences = to.take(zstd_.sequences * sizeof(zstd_sequence));
  wave.statuses = statuses;
  wave.part_count = static_cast<std::uint32_t>(zstd_parts_.size());
  wave.frame_count = static_cast<std::uint32_t>(zstd_.frames.size());
  wave.literal_block_count = static_cast<std::uint32_t>(literal_blocks.size());
  wave.sequence_block_count = static_cast<std::uint32_t>(sequence_blocks.size());
  wave.checked_frame_count = static_cast<std::uint32_t>(checked_frames.size());
  const auto launch = [&](kernel_id kernel, std::uint32_t grid) {
    if (grid != 0) launches.push_back(make_launch(kernel, grid, kLanes, wave));
  };
  launch(kernel_id::zstd_literals, groups(literal_blocks.size(), kLiteralBlocksPerWarp));
  launch(kernel_id::zstd_sequences, groups(sequence_blocks.size(), kSequenceBlocksPerWarp));
  launch(kernel_id::zstd_execute, wave.part_count);
  launch(kernel_id::zstd_checksum, groups(checked_frames.size(), kCheckedFramesPerWarp));
}

void decode_wave::emit_transforms(layout& to, std::uint64_t statuses, std::vector<kernel_launch>& launches) const {
  for (const auto& parts : transform_parts_) {
    if (parts.empty()) continue;
    std::uint32_t most = 0;
    for (const planned_part& planned : parts) most = std::max(most, planned.part.target_bytes);
    transform_wave wave{};
    wave.parts = to.put(parts);
    wave.statuses = statuses;
    wave.part_count = static_cast<std::uint32_t>(parts.size());
    wave.blocks_per_part = most / kTransformBytesPerBlock + 1;
    launches.push_back(
        make_launch(kernel_id::transform, wave.part_count * wave.blocks_per_part, kTransformThreads, wave));
  }
}

template <class Visit>
void decode_wave::lay_out(Visit&& visit) const {
  layout counter({}, 0, 0);
  std::vector<kernel_launch> launches;
  counter.take(intermediate_bytes_);
  emit_zstd(counter, 0, launches);
  emit_transforms(counter, 0, launches);
  visit(counter);
}

std::uint64_t decode_wave::descriptor_bytes() const noexcept {
  std::uint64_t bytes = 0;
  lay_out([&](const layout& counter) { bytes = counter.used(); });
  return bytes;
}

std::uint64_t decode_wave::workspace_bytes() const noexcept {
  std::uint64_t bytes = 0;
  lay_out([&](const layout& counter) { bytes = counter.workspace_used(); });
  return bytes;
}

void decode_wave::emit(std::span<std::byte> descriptors, std::uint64_t device_descriptors, std::uint64_t workspace,
                       std::uint64_t statuses, std::vector<kernel_launch>& launches) const {
  layout to(descriptors, device_descriptors, workspace);
  to.take(intermediate_bytes_);
  emit_zstd(to, statuses, launches);
  emit_transforms(to, statuses, launches);
}

void decode_wave::clear() {
  chunks_ = 0;
  intermediate_bytes_ = 0;
  zstd_parts_.clear();
  zstd_.clear();
  for (auto& parts : transform_parts_) parts.clear();
}

error status_error(std::uint32_t status, std::string_view codec) {
  const auto sentence = [&]() -> const char* {
    switch (static_cast<chunk_status>(status)) {
      case chunk_status::corrupt_literals:
        return "a Huffman table or stream is damaged";
      case chunk_status::corrupt_sequences:
        return "a table or the bits of the sequences are damaged";
      case chunk_status::corrupt_match:
        return "a match reaches before the start of its frame";
      case chunk_status::wrong_size:
        return "decodes to another size than the chunk has";
      case chunk_status::wrong_checksum:
        return "the checksum does not fit the content";
      case chunk_status::corrupt_stream:
        return "the stream is damaged";
      case chunk_status::ok:
        break;
    }
    return "unknown device status";
  };
  return {errc::corrupt_data, "damaged " + std::string(codec) + " data: " + sentence()};
}

}  // namespace penstock::inline v0::device
