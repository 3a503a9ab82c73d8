#include "cuda/decode/wave.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

#include "cuda/decode/bitshuffle_scan.h"
#include "cuda/decode/lz4_frame_scan.h"
#include "cuda/decode/numbers.h"
#include "cuda/decode/zstd_checksum.h"
#include "cuda/decode/zstd_execute.h"
#include "cuda/decode/zstd_literals.h"
#include "cuda/decode/zstd_sequences.h"

namespace penstock::inline v0::device {
namespace {

constexpr std::uint32_t kTransformThreads = 256;
constexpr std::uint32_t kTransformBytesPerBlock = 64 * 1024;
/// A second stream costs four calls of the driver and some 10 us on the device. By the model of docs/design/kernels.md,
/// it pays off if the heaviest block takes at least about 60 us in either kernel.
constexpr std::uint32_t kFewestSymbolsBeside = 1536, kFewestSequencesBeside = 384;
constexpr std::uint32_t kRowBytesPerWarp = 4 * 1024;
constexpr std::uint32_t kMostBlocks = 0x7fffffff;  // of a launch
// The longest step over a chunk's end: that of all threads that share it.
static_assert(kMostChunkBytes + (kMostChunkBytes / kTransformBytesPerBlock + 1) * kTransformThreads <= 0xffffffffu);

error too_long() { return {errc::unsupported, "chunks of more than 4032 MiB are left to the host"}; }

std::uint32_t groups(std::size_t count, int each) {
  return static_cast<std::uint32_t>((count + static_cast<unsigned>(each) - 1) / static_cast<unsigned>(each));
}

bool is_decoder(step_kind kind) {
  switch (kind) {
    case step_kind::crc32c:
    case step_kind::byte_swap:
    case step_kind::shuffle:
    case step_kind::bitshuffle:
    case step_kind::reverse_bits:
    case step_kind::unpack_bits:
    case step_kind::delta:
    case step_kind::rows:
      return false;
    default:
      return true;
  }
}

bool is_number_size(std::uint32_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8; }

// The values by which kernels divide and shift.
result<> check_step(const device_step& step) {
  if (step.item_bytes == 0 || step.item_bytes > 0xffff)
    return error{errc::unsupported, "the device supports items of 1 to 65535 bytes"};
  if (step.kind == step_kind::delta) {
    const delta_layout how = delta_layout::of(step.settings);
    if (!is_number_size(how.stored_bytes) || !is_number_size(how.item_bytes))
      return error{errc::unsupported, "the device sums integers of 1, 2, 4 or 8 bytes"};
  }
  if (step.kind == step_kind::rows) {
    const row_layout& rows = step.rows;
    const bool sizes = is_number_size(rows.item_bytes) || (rows.item_bytes == 16 && rows.predictor == 1);
    bool picks = rows.wanted >= 1 && rows.wanted <= kMostPicked && rows.samples >= 1 && rows.samples <= 255;
    for (std::uint32_t j = 0; picks && j < rows.wanted; ++j) {
      picks = rows.picked[j] < rows.samples;
      for (std::uint32_t before = 0; before < j; ++before) picks = picks && rows.picked[before] != rows.picked[j];
    }
    const std::uint64_t pixels = static_cast<std::uint64_t>(rows.rows) * rows.width;
    if (!sizes || !picks || rows.predictor < 1 || rows.predictor > 3 || !is_number_size(rows.unit_bytes) ||
        rows.item_bytes % rows.unit_bytes != 0 || pixels > 0xffffffffu / (std::uint64_t{255} * 16))
      return error{errc::unsupported, "the device does not support such rows of samples"};
  }
  return {};
}

// The number of input bytes from which a transform makes `bytes`.
result<std::uint64_t> bytes_before(const device_step& step, std::uint64_t bytes) {
  switch (step.kind) {
    case step_kind::unpack_bits:
      return (bytes + 7) / 8 + ((step.settings & (kPaddingInFirstByte | kPaddingInLastByte)) != 0 ? 1 : 0);
    case step_kind::delta: {
      const delta_layout how = delta_layout::of(step.settings);
      if (bytes % how.item_bytes != 0)
        return error{errc::corrupt_data, "holds " + std::to_string(bytes) + " bytes, which are not whole numbers of " +
                                             std::to_string(how.item_bytes)};
      return bytes / how.item_bytes * how.stored_bytes;
    }
    case step_kind::rows:
      if (bytes != step.rows.made_bytes())
        return error{errc::corrupt_data, "rows have " + std::to_string(step.rows.made_bytes()) + " bytes, expected " +
                                             std::to_string(bytes)};
      return step.rows.stored_bytes();
    default:
      return bytes;
  }
}

// The numbers below `count`, those with the largest `weight` first.
template <class Weight>
std::vector<std::uint32_t> heaviest_first(std::size_t count, Weight&& weight) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return weight(a) > weight(b); });
  return order;
}

// The number of symbols of a block that one lane of the literals stage decodes.
std::uint32_t symbols_of_a_stream(const zstd_block& block) { return block.literals_bytes / block.streams; }

// Cycles of the execute stage for a block, from docs/design/kernels.md: 256 sequences are a set of 2,200 to 3,400
// cycles with its matches, plus some 5,000 in which warps take turns (counted for `rounded`); 4 KiB without a sequence
// take some 370.
std::uint64_t execute_weight(const zstd_block& block) {
  if (block.direct != kNotDirect) return 0;
  return 30ull * block.sequence_count + (block.type < 2 ? block.size : block.literals_bytes) / 11;
}

// The number of warps per part in a wave of `parts`: many, so that no part ends late. But if the parts together fill a
// large device with one warp each, one does the same in fewer instructions.
std::uint32_t execute_warps(std::uint32_t parts) {
  constexpr std::uint32_t kWarpsAtOnce = 2048;
  std::uint32_t warps = kExecuteWarps;
  while (warps > 1 && warps * parts > kWarpsAtOnce) warps /= 2;
  return warps;
}

transform_kind transform_of(step_kind kind) {
  switch (kind) {
    case step_kind::shuffle:
      return transform_kind::unshuffle;
    case step_kind::bitshuffle:
      return transform_kind::unbitshuffle;
    case step_kind::byte_swap:
      return transform_kind::byte_swap;
    case step_kind::reverse_bits:
      return transform_kind::reverse_bits;
    case step_kind::unpack_bits:
      return transform_kind::unpack_bits;
    default:
      return transform_kind::copy;
  }
}

std::uint32_t parameter_of(const device_step& step) {
  if (step.kind == step_kind::delta) return step.settings;
  return transform_parameter(transform_of(step.kind),
                             step.kind == step_kind::unpack_bits ? step.settings : step.item_bytes);
}

}  // namespace

result<decode_wave> decode_wave::make(std::span<const device_step> steps, bool verify_checksums,
                                      const library_use& library) {
  decode_wave made;
  made.verify_ = verify_checksums;
  made.by_library_ = library_streams(library, verify_checksums);
  if (steps.empty()) return error{errc::unsupported, "the device decodes chains of at least one step"};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    PENSTOCK_TRY(check_step(steps[i]));
    if (steps[i].kind == step_kind::crc32c) {
      if (i != 0)
        return error{errc::unsupported, "the device verifies CRC-32C only of stored bytes, as the last codec"};
      made.checks_ = true;
    } else if (is_decoder(steps[i].kind)) {
      if (i != (made.checks_ ? 1u : 0u))
        return error{errc::unsupported, "the device decompresses only data whose headers the host can read"};
      made.decodes_ = true;
      made.decoder_ = steps[i];
    } else {
      made.transforms_.push_back(steps[i]);
    }
  }
  // A checksum alone still copies the bytes.
  if (!made.decodes_ && made.transforms_.empty()) made.transforms_.push_back(steps[0]);
  made.transform_parts_.resize(made.transforms_.size());
  return made;
}

result<> decode_wave::add(const wave_chunk& chunk) {
  if (chunk.bytes.size() > kMostChunkBytes || chunk.decoded_bytes > kMostChunkBytes) return too_long();
  if (!checks_) return add_behind_check(chunk);
  if (chunk.bytes.size() < 4) return error{errc::corrupt_data, "damaged crc32c data: no checksum"};
  const planned_part whole = part_of(chunk, 0, false);
  wave_chunk inner = chunk;
  inner.bytes = chunk.bytes.first(chunk.bytes.size() - 4);
  PENSTOCK_TRY(add_behind_check(inner));
  if (verify_) check_parts_.push_back(whole);
  return {};
}

// Fills `sizes_`: the bytes before each transform, and after the last.
result<> decode_wave::find_sizes(std::uint64_t decoded_bytes) {
  sizes_.resize(transforms_.size() + 1);
  sizes_.back() = decoded_bytes;
  for (std::size_t i = transforms_.size(); i-- > 0;) {
    PENSTOCK_ASSIGN(sizes_[i], bytes_before(transforms_[i], sizes_[i + 1]));
    if (sizes_[i] > kMostChunkBytes) return too_long();
  }
  return {};
}

result<> decode_wave::add_behind_check(const wave_chunk& whole) {
  PENSTOCK_TRY(find_sizes(whole.decoded_bytes));
  wave_chunk chunk = whole;
  chunk.decoded_bytes = sizes_[0];  // up to the first transform
  if (decodes_) {
    // After a decoder, the first transform reads the workspace, and the last one writes the target.
    const bool in_workspace = !transforms_.empty();
    const mark before = here();
    const std::uint64_t target = in_workspace ? intermediate_bytes_ : chunk.target;
    if (in_workspace) intermediate_bytes_ += aligned(chunk.decoded_bytes);
    auto added = add_decoder(chunk, target, in_workspace);
    if (!added.ok()) {
      rewind(before);
      return added;
    }
    add_transforms(whole, target, true);
  } else {
    const bool or_more = transforms_[0].kind == step_kind::rows;  // a strip may have bytes after its rows
    if (or_more ? chunk.bytes.size() < chunk.decoded_bytes : chunk.bytes.size() != chunk.decoded_bytes)
      return error{errc::corrupt_data, "holds " + std::to_string(chunk.bytes.size()) + " bytes, expected " +
                                           std::to_string(chunk.decoded_bytes)};
    add_transforms(whole, chunk.device_bytes, false);
  }
  ++chunks_;
  return {};
}

planned_part decode_wave::part_of(const wave_chunk& chunk, std::uint64_t target, bool in_workspace) const {
  return {{chunk.device_bytes, target, static_cast<std::uint32_t>(chunk.bytes.size()),
           static_cast<std::uint32_t>(chunk.decoded_bytes), static_cast<std::uint32_t>(chunks_), 0},
          false,
          in_workspace};
}

result<> decode_wave::add_decoder(const wave_chunk& chunk, std::uint64_t target, bool in_workspace) {
  planned_part planned = part_of(chunk, target, in_workspace);
  if (decoder_.kind == step_kind::blosc) {
    PENSTOCK_ASSIGN(const blosc_frame frame, scan_blosc(chunk.bytes, chunk.decoded_bytes));
    return add_framed(chunk, frame, target, in_workspace);
  }
  if (decoder_.kind == step_kind::bitshuffle_plain || decoder_.kind == step_kind::bitshuffle_lz4 ||
      decoder_.kind == step_kind::bitshuffle_zstd) {
    const bool zstd = decoder_.kind == step_kind::bitshuffle_zstd;
    PENSTOCK_ASSIGN(const blosc_frame frame,
                    scan_bitshuffle(chunk.bytes, chunk.decoded_bytes, decoder_.item_bytes, decoder_.settings,
                                    decoder_.kind != step_kind::bitshuffle_plain,
                                    zstd ? blosc_compressor::zstd : blosc_compressor::lz4));
    return add_framed(chunk, frame, target, in_workspace);
  }
  if (decoder_.kind == step_kind::lz4_frame) PENSTOCK_TRY(check_lz4_frames(chunk.bytes, chunk.decoded_bytes));
  if (decoder_.kind == step_kind::lz4) {
    if (chunk.bytes.size() < 4) return error{errc::corrupt_data, "damaged lz4 data: no size"};
    std::uint32_t size = 0;
    for (unsigned i = 4; i-- > 0;) size = size << 8 | static_cast<std::uint32_t>(chunk.bytes[i]);
    if (size != chunk.decoded_bytes)
      return error{errc::corrupt_data, "lz4 data decodes to " + std::to_string(size) + " bytes, expected " +
                                           std::to_string(chunk.decoded_bytes)};
    planned.part.source += 4;
    planned.part.source_bytes -= 4;
  }
  return add_split(chunk, planned, decoder_.kind);
}

// Adds what one kernel decodes; `chunk.bytes` are the bytes at `planned.part.source`, except for LZ4.
result<> decode_wave::add_split(const wave_chunk& chunk, const planned_part& planned, step_kind kind) {
  if (by_library_.add(chunk.bytes, planned, kind, intermediate_bytes_)) return {};
  const auto add_to = [&](std::vector<planned_part>& parts, auto format) {
    parts.push_back(planned);
    parts.back().part.parameter = static_cast<std::uint32_t>(format);
    return result<>();
  };
  switch (kind) {
    case step_kind::lz4:
    case step_kind::lz4_block:
      return add_to(lz_parts_, lz_format::lz4_block);
    case step_kind::snappy:
      return add_to(lz_parts_, lz_format::snappy);
    case step_kind::packbits:
      return add_to(lz_parts_, lz_format::packbits);
    case step_kind::lz4_frame:
      return add_to(lz4_frame_parts_, 0);
    case step_kind::lzw:
      return add_to(lzw_parts_, 0);
    case step_kind::zlib_or_more:
      return add_to(inflate_parts_, deflate_format::zlib_or_more);
    case step_kind::deflate:
      return add_to(inflate_parts_, deflate_format::raw);
    case step_kind::zlib:
      return add_to(inflate_parts_, deflate_format::zlib);
    case step_kind::gzip:
      return add_to(inflate_parts_, deflate_format::gzip);
    default:
      break;
  }
  PENSTOCK_TRY(
      scan_zstd(chunk.bytes, planned.part.target_bytes, static_cast<std::uint32_t>(zstd_parts_.size()), zstd_));
  zstd_parts_.push_back(planned);
  return {};
}

result<> decode_wave::add_framed(const wave_chunk& chunk, const blosc_frame& frame, std::uint64_t target,
                                 bool in_workspace) {
  const bool shuffled = !frame.blocks.empty();
  const bool whole_blocks = shuffled && frame.splits.empty();  // they are only shuffled
  const std::uint64_t splits_at = whole_blocks ? chunk.device_bytes : shuffled ? intermediate_bytes_ : target;
  if (shuffled && !whole_blocks) intermediate_bytes_ += aligned(chunk.decoded_bytes);
  const planned_part whole = part_of(chunk, 0, shuffled || in_workspace);
  for (const blosc_split& split : frame.splits) {
    planned_part planned = whole;
    planned.part.source = chunk.device_bytes + split.source;
    planned.part.source_bytes = split.source_bytes;
    planned.part.target = splits_at + split.target;
    planned.part.target_bytes = split.target_bytes;
    if (split.stored) {
      planned.part.parameter = transform_parameter(transform_kind::copy, 1);
      copy_parts_.push_back(planned);
      continue;
    }
    wave_chunk inside = chunk;
    inside.bytes = chunk.bytes.subspan(split.source, split.source_bytes);
    if (frame.compressor == blosc_compressor::blosclz) {
      lz_parts_.push_back(planned);
      lz_parts_.back().part.parameter = static_cast<std::uint32_t>(lz_format::blosclz);
      continue;
    }
    const step_kind kind = frame.compressor == blosc_compressor::lz4      ? step_kind::lz4_block
                           : frame.compressor == blosc_compressor::snappy ? step_kind::snappy
                           : frame.compressor == blosc_compressor::zlib   ? step_kind::zlib
                                                                          : step_kind::zstd;
    PENSTOCK_TRY(add_split(inside, planned, kind));
  }
  if (!shuffled) return {};
  for (const blosc_block& block : frame.blocks) {
    planned_part planned = whole;
    planned.part.source = splits_at + block.start;
    planned.source_in_workspace = !whole_blocks;
    planned.part.target = target + block.start;
    planned.target_in_workspace = in_workspace;
    planned.part.source_bytes = planned.part.target_bytes = block.bytes;
    // c-blosc does not shuffle blocks that are not a multiple of eight items; in HDF5's filter this applies to the last
    // one only.
    const bool plain = frame.shuffle == transform_kind::unbitshuffle && block.bytes / frame.item_bytes % 8 != 0;
    planned.part.parameter = transform_parameter(plain ? transform_kind::copy : frame.shuffle, frame.item_bytes);
    unshuffle_parts_.push_back(planned);
  }
  return {};
}

void decode_wave::add_transforms(const wave_chunk& chunk, std::uint64_t first_source, bool in_workspace) {
  std::uint64_t source = first_source;
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    const bool last = i + 1 == transforms_.size();
    const std::uint64_t target = last ? chunk.target : intermediate_bytes_;
    if (!last) intermediate_bytes_ += aligned(sizes_[i + 1]);
    transform_parts_[i].push_back(
        {{source, target, static_cast<std::uint32_t>(sizes_[i]), static_cast<std::uint32_t>(sizes_[i + 1]),
          static_cast<std::uint32_t>(chunks_), parameter_of(transforms_[i])},
         in_workspace,
         !last});
    source = target;
    in_workspace = true;
  }
}

// The copy of a raw block whose position is known.
planned_part decode_wave::raw_block(const zstd_block& block) const {
  planned_part copy = zstd_parts_[block.part];
  copy.part.source += block.content;
  copy.part.target += block.direct;
  copy.part.source_bytes = copy.part.target_bytes = block.size;
  copy.part.parameter = transform_parameter(transform_kind::copy, 1);
  return copy;
}

void decode_wave::emit_zstd(decode_layout& to, std::uint64_t statuses, std::vector<kernel_launch>& launches) const {
  if (zstd_parts_.empty()) return;
  std::vector<std::uint32_t> first_frames(zstd_parts_.size() + 1, 0);
  for (const zstd_frame& frame : zstd_.frames) ++first_frames[frame.part + 1];
  std::partial_sum(first_frames.begin(), first_frames.end(), first_frames.begin());
  // Heavy parts of a stage start first, so that the last ones to start end soon.
  std::vector<std::uint64_t> weights(zstd_parts_.size(), 0);
  std::vector<std::uint32_t> literal_blocks, sequence_blocks, checked_frames;
  std::vector<planned_part> raw_blocks;
  for (std::uint32_t b = 0; b < zstd_.blocks.size(); ++b) {
    const zstd_block& block = zstd_.blocks[b];
    weights[block.part] += execute_weight(block);
    if (block.type == 0 && block.direct != kNotDirect) raw_blocks.push_back(raw_block(block));
    if (block.type == 2 && block.literals_type >= 2) literal_blocks.push_back(b);
    if (block.type == 2 && block.sequence_count != 0) sequence_blocks.push_back(b);
  }
  const auto sort_by = [&](std::vector<std::uint32_t>& blocks, auto&& weight) {
    std::stable_sort(blocks.begin(), blocks.end(), [&](std::uint32_t a, std::uint32_t b) {
      return weight(zstd_.blocks[a]) > weight(zstd_.blocks[b]);
    });
  };
  sort_by(literal_blocks, symbols_of_a_stream);
  sort_by(sequence_blocks, [](const zstd_block& block) { return block.sequence_count; });
  const std::vector<std::uint32_t> order =
      heaviest_first(zstd_parts_.size(), [&](std::uint32_t part) { return weights[part]; });
  for (const std::uint32_t part : order)
    for (std::uint32_t f = first_frames[part]; f < first_frames[part + 1]; ++f)
      if (verify_ && zstd_.frames[f].has_checksum != 0) checked_frames.push_back(f);
  emit_transform(to, statuses, raw_blocks, launches);
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
  const auto launch = [&](kernel_id kernel, std::uint32_t grid, std::uint32_t threads = kLanes) {
    if (grid != 0) launches.push_back(make_launch(kernel, grid, threads, wave));
  };
  launch(kernel_id::zstd_literals, groups(literal_blocks.size(), kLiteralBlocksPerWarp));
  launch(kernel_id::zstd_sequences, groups(sequence_blocks.size(), kSequenceBlocksPerWarp));
  if (!literal_blocks.empty() && !sequence_blocks.empty())
    launches.back().beside_last = symbols_of_a_stream(zstd_.blocks[literal_blocks[0]]) >= kFewestSymbolsBeside &&
                                  zstd_.blocks[sequence_blocks[0]].sequence_count >= kFewestSequencesBeside;
  launch(kernel_id::zstd_execute, wave.part_count, execute_warps(wave.part_count) * kLanes);
  launch(kernel_id::zstd_checksum, groups(checked_frames.size(), kCheckedFramesPerWarp));
}

void decode_wave::emit_parts(decode_layout& to, std::uint64_t statuses, kernel_id kernel,
                             const std::vector<planned_part>& parts, std::vector<kernel_launch>& launches) const {
  if (parts.empty()) return;
  part_wave wave{};
  wave.parts = to.put(parts);
  wave.order = to.put(heaviest_first(parts.size(), [&](std::uint32_t i) { return parts[i].part.source_bytes; }));
  wave.statuses = statuses;
  wave.part_count = static_cast<std::uint32_t>(parts.size());
  launches.push_back(make_launch(kernel, wave.part_count, kLanes, wave));
}

void decode_wave::emit_transform(decode_layout& to, std::uint64_t statuses, const std::vector<planned_part>& parts,
                                 std::vector<kernel_launch>& launches) const {
  if (parts.empty()) return;
  std::uint32_t most = 0;
  for (const planned_part& planned : parts) most = std::max(most, planned.part.target_bytes);
  transform_wave wave{};
  wave.parts = to.put(parts);
  wave.statuses = statuses;
  wave.part_count = static_cast<std::uint32_t>(parts.size());
  wave.blocks_per_part = std::min(most / kTransformBytesPerBlock + 1, kMostBlocks / wave.part_count);
  launches.push_back(
      make_launch(kernel_id::transform, wave.part_count * wave.blocks_per_part, kTransformThreads, wave));
}

void decode_wave::emit_rows(decode_layout& to, std::uint64_t statuses, const row_layout& rows,
                            const std::vector<planned_part>& parts, std::vector<kernel_launch>& launches) const {
  if (parts.empty()) return;
  rows_wave wave{};
  wave.parts = to.put(parts);
  wave.statuses = statuses;
  wave.part_count = static_cast<std::uint32_t>(parts.size());
  const std::uint64_t wanted = rows.stored_bytes() / kRowBytesPerWarp + 1;
  wave.warps_per_part =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(1, std::min<std::uint64_t>(rows.rows, wanted)));
  wave.rows = rows;
  launches.push_back(make_launch(kernel_id::rows, wave.part_count * wave.warps_per_part, kLanes, wave));
}

void decode_wave::emit_all(decode_layout& to, std::uint64_t statuses, std::vector<kernel_launch>& launches) const {
  to.take(intermediate_bytes_);
  emit_parts(to, statuses, kernel_id::crc32c, check_parts_, launches);
  emit_transform(to, statuses, by_library_.copies(), launches);
  by_library_.emit(to, statuses, launches);
  emit_zstd(to, statuses, launches);
  emit_parts(to, statuses, kernel_id::lz, lz_parts_, launches);
  emit_parts(to, statuses, kernel_id::lz4_frame, lz4_frame_parts_, launches);
  emit_parts(to, statuses, kernel_id::lzw, lzw_parts_, launches);
  emit_parts(to, statuses, kernel_id::inflate, inflate_parts_, launches);
  emit_transform(to, statuses, copy_parts_, launches);
  emit_transform(to, statuses, unshuffle_parts_, launches);
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    if (transforms_[i].kind == step_kind::delta) {
      emit_parts(to, statuses, kernel_id::delta, transform_parts_[i], launches);
    } else if (transforms_[i].kind == step_kind::rows) {
      emit_rows(to, statuses, transforms_[i].rows, transform_parts_[i], launches);
    } else {
      emit_transform(to, statuses, transform_parts_[i], launches);
    }
  }
}

void decode_wave::append(const decode_wave& other) {
  const auto first_part = static_cast<std::uint32_t>(zstd_parts_.size());
  const auto first_block = static_cast<std::uint32_t>(zstd_.blocks.size());
  for (zstd_frame frame : other.zstd_.frames) {
    frame.part += first_part;
    frame.first_block += first_block;
    zstd_.frames.push_back(frame);
  }
  for (zstd_block block : other.zstd_.blocks) {
    block.part += first_part;
    if (block.sequence_count != 0) {
      for (std::uint32_t& each : block.table_block) each += first_block;
      block.sequences_buffer += zstd_.sequences;
    }
    if (block.literals_type >= 2) block.literals_buffer += zstd_.literal_bytes;
    zstd_.blocks.push_back(block);
  }
  const relocation by{static_cast<std::uint32_t>(chunks_), intermediate_bytes_};
  for (const auto parts : kParts)
    for (const planned_part& each : other.*parts) (this->*parts).push_back(by.moved(each));
  for (std::size_t i = 0; i < transform_parts_.size(); ++i)
    for (const planned_part& each : other.transform_parts_[i]) transform_parts_[i].push_back(by.moved(each));
  by_library_.append(other.by_library_, by);
  zstd_.literal_bytes += other.zstd_.literal_bytes;
  zstd_.sequences += other.zstd_.sequences;
  intermediate_bytes_ += other.intermediate_bytes_;
  chunks_ += other.chunks_;
}

// Lists that contain only some of the blocks and frames are counted as if they contained all.
std::uint64_t decode_wave::descriptor_bytes() const noexcept {
  const auto rows = [](std::size_t count, std::size_t bytes) { return count == 0 ? 0 : aligned(count * bytes); };
  const auto part_rows = [&](std::size_t count) {
    return rows(count, sizeof(decode_part)) + rows(count, sizeof(std::uint32_t));  // and their order
  };
  std::uint64_t bytes = by_library_.descriptor_bytes() + rows(by_library_.copies().size(), sizeof(decode_part));
  for (const auto parts : kParts) bytes += part_rows((this->*parts).size());
  for (const auto& parts : transform_parts_) bytes += part_rows(parts.size());
  if (!zstd_parts_.empty()) {
    const std::size_t frames = zstd_.frames.size(), blocks = zstd_.blocks.size();
    bytes += rows(frames, sizeof(zstd_frame)) + rows(frames, sizeof(std::uint32_t)) + rows(blocks, sizeof(zstd_block)) +
             2 * rows(blocks, sizeof(std::uint32_t)) + rows(zstd_parts_.size() + 1, sizeof(std::uint32_t)) +
             rows(blocks, sizeof(decode_part));  // copies of raw ones
  }
  return bytes;
}

std::uint64_t decode_wave::workspace_bytes() const noexcept {
  std::uint64_t bytes = aligned(intermediate_bytes_) + by_library_.workspace_bytes();
  if (!zstd_parts_.empty()) {
    bytes += aligned(zstd_.blocks.size() * sizeof(zstd_block_result)) +
             aligned(zstd_.frames.size() * sizeof(std::uint32_t)) + aligned(zstd_.literal_bytes) +
             aligned(zstd_.sequences * sizeof(zstd_sequence));
  }
  return bytes;
}

decode_wave::mark decode_wave::here() const noexcept {
  mark out;
  static_assert(std::size(kParts) == std::size(out.parts));
  out.chunks = chunks_;
  out.frames = zstd_.frames.size();
  out.blocks = zstd_.blocks.size();
  for (std::size_t i = 0; i < std::size(kParts); ++i) out.parts[i] = (this->*kParts[i]).size();
  out.streams = by_library_.here();
  out.intermediate_bytes = intermediate_bytes_;
  out.literal_bytes = zstd_.literal_bytes;
  out.sequences = zstd_.sequences;
  return out;
}

void decode_wave::rewind(const mark& to) {
  chunks_ = to.chunks;
  zstd_.frames.resize(to.frames);
  zstd_.blocks.resize(to.blocks);
  for (std::size_t i = 0; i < std::size(kParts); ++i) (this->*kParts[i]).resize(to.parts[i]);
  for (auto& parts : transform_parts_) parts.resize(to.chunks);
  by_library_.rewind(to.streams);
  intermediate_bytes_ = to.intermediate_bytes;
  zstd_.literal_bytes = to.literal_bytes;
  zstd_.sequences = to.sequences;
}

void decode_wave::emit(std::span<std::byte> descriptors, std::uint64_t device_descriptors, std::uint64_t workspace,
                       std::uint64_t statuses, std::vector<kernel_launch>& launches) const {
  decode_layout to(descriptors, device_descriptors, workspace);
  emit_all(to, statuses, launches);
}

void decode_wave::clear() {
  rewind({});
  by_library_.clear();
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
        return "its decoded size differs from that of the chunk";
      case chunk_status::wrong_checksum:
        return "the checksum does not match the content";
      case chunk_status::corrupt_stream:
        return "the stream is damaged";
      case chunk_status::library_failed:
      case chunk_status::ok:
        break;
    }
    return "unknown device status";
  };
  if (static_cast<chunk_status>(status) == chunk_status::library_failed)
    return {errc::io_error,
            "nvCOMP failed to decode " + std::string(codec) + " data, for a reason other than the data"};
  return {errc::corrupt_data, "damaged " + std::string(codec) + " data: " + sentence()};
}

}  // namespace penstock::inline v0::device
