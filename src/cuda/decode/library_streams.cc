#include "cuda/decode/library_streams.h"

#include <algorithm>

#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

// Whether nvCOMP can decode the part: one stream, of exactly the part's size, whose checksum (if any) the kernel after
// it can verify.
bool library_streams::takes(std::span<const std::byte> bytes, const planned_part& planned, step_kind kind,
                            stream& out) {
  const auto byte = [&](std::size_t at) { return static_cast<std::uint32_t>(bytes[at]); };
  const std::uint32_t source_bytes = planned.part.source_bytes, target_bytes = planned.part.target_bytes;
  if (source_bytes == 0 || target_bytes == 0) return false;
  switch (kind) {
    case step_kind::lz4:
    case step_kind::lz4_block:
      out = {nvcomp_codec::lz4, 0, 0, content_check::none};
      return true;
    case step_kind::snappy:
      out = {nvcomp_codec::snappy, 0, 0, content_check::none};
      return true;
    case step_kind::deflate:
      out = {nvcomp_codec::deflate, 0, 0, content_check::none};
      return true;
    case step_kind::zlib:
      out = {nvcomp_codec::deflate, 2, 4, content_check::adler32};
      return source_bytes > 6 && (byte(0) & 15) == 8 && byte(0) >> 4 <= 7 && (byte(1) & 32) == 0 &&
             (byte(0) << 8 | byte(1)) % 31 == 0;
    case step_kind::gzip: {
      if (source_bytes < 18) return false;
      std::uint32_t size = 0;  // of the last member: if there is only one, that of all
      for (unsigned i = 0; i < 4; ++i) size |= byte(source_bytes - 4 + i) << (8 * i);
      out = {nvcomp_codec::gzip, 0, 0, content_check::crc32};
      return size == target_bytes;
    }
    case step_kind::zstd: {
      scanned_.clear();
      if (!scan_zstd(bytes, target_bytes, 0, scanned_).ok()) return false;
      if (scanned_.frames.size() != 1 || scanned_.blocks.empty()) return false;
      const zstd_frame& frame = scanned_.frames[0];
      if (frame.content_size != target_bytes || (verify_ && frame.has_checksum != 0)) return false;
      const zstd_block& last = scanned_.blocks.back();
      // The frame must be all of the part's bytes.
      out = {nvcomp_codec::zstd, 0, 0, content_check::none};
      return byte(0) == 0x28 && last.content + last.content_bytes + (frame.has_checksum != 0 ? 4 : 0) == source_bytes;
    }
    default:
      return false;
  }
}

bool library_streams::add(std::span<const std::byte> bytes, const planned_part& planned, step_kind kind,
                          std::uint64_t& scratch_bytes) {
  stream found;
  if (use_.loaded == nullptr || !takes(bytes, planned, kind, found)) return false;
  const std::uint64_t target_bytes = planned.part.target_bytes;
  const bool by_engine = std::max<std::uint64_t>(planned.part.source_bytes, target_bytes) <=
                         use_.engine_bytes[static_cast<std::uint32_t>(found.codec)];
  const int number = static_cast<int>(found.codec) + (by_engine ? kNvcompCodecs : 0);
  batch& into = batches_[number];
  if (target_bytes > into.most_bytes) {
    const auto alone = use_.loaded->workspace_bytes(found.codec, backend_of(number), 1, target_bytes, target_bytes);
    if (!alone.ok() || *alone > use_.most_workspace_bytes) return false;
    into.most_bytes = target_bytes;
    into.reserved_count = 0;
    into.reserved = std::max(into.reserved, *alone);
  }
  const nvcomp_alignment& alignment = use_.loaded->alignment(found.codec);
  if (planned.part.target % alignment.target != 0) return false;
  planned_part given = planned;
  given.part.source += found.front;
  given.part.source_bytes -= found.front + found.back;
  if (given.part.source % alignment.source != 0) {
    planned_part copy = given;
    copy.part.target = scratch_bytes;
    copy.part.target_bytes = copy.part.source_bytes;
    copy.target_in_workspace = true;
    copy.part.parameter = transform_parameter(transform_kind::copy, 1);
    copies_.push_back(copy);
    given.part.source = scratch_bytes;
    given.source_in_workspace = true;
    scratch_bytes += aligned(given.part.source_bytes);
  }
  into.streams.push_back(given);
  into.parts.push_back(planned);
  into.parts.back().part.parameter = static_cast<std::uint32_t>(found.check);
  into.total_bytes += target_bytes;
  if (into.streams.size() > into.reserved_count || into.total_bytes > into.reserved_total) reserve(number);
  return true;
}

void library_streams::append(const library_streams& other, const relocation& by) {
  for (int number = 0; number < kBatches; ++number) {
    batch& into = batches_[number];
    const batch& from = other.batches_[number];
    if (from.streams.empty()) continue;
    for (const planned_part& each : from.streams) into.streams.push_back(by.moved(each));
    for (const planned_part& each : from.parts) into.parts.push_back(by.moved(each));
    into.reserved = std::max(into.reserved, from.reserved);
    if (from.most_bytes > into.most_bytes) {
      into.most_bytes = from.most_bytes;
      into.reserved_count = 0;
    }
    into.total_bytes += from.total_bytes;
    if (into.streams.size() > into.reserved_count || into.total_bytes > into.reserved_total) reserve(number);
  }
  for (const planned_part& each : other.copies_) copies_.push_back(by.moved(each));
}

// Reserves workspace for some more streams than exist, so that nvCOMP is not queried for every one.
void library_streams::reserve(int number) {
  batch& into = batches_[number];
  into.reserved_count = into.streams.size() + into.streams.size() / 8;
  into.reserved_total = std::min(into.total_bytes + into.total_bytes / 8, into.reserved_count * into.most_bytes);
  const auto wanted = use_.loaded->workspace_bytes(codec_of(number), backend_of(number), into.reserved_count,
                                                   into.most_bytes, into.reserved_total);
  const std::uint64_t most = use_.most_workspace_bytes;
  into.reserved = wanted.ok() ? std::max(into.reserved, std::min(*wanted, most)) : most;
}

void library_streams::emit(decode_layout& to, std::uint64_t statuses, int number,
                           std::vector<kernel_launch>& launches) const {
  const batch& from = batches_[number];
  const std::size_t count = from.streams.size();
  if (count == 0) return;
  std::vector<std::uint64_t> sources, source_bytes, targets, target_bytes;
  std::uint64_t most = 0, total = 0;
  for (const planned_part& planned : from.streams) {
    const decode_part part = to.placed(planned);
    sources.push_back(part.source);
    source_bytes.push_back(part.source_bytes);
    targets.push_back(part.target);
    target_bytes.push_back(part.target_bytes);
    most = std::max<std::uint64_t>(most, part.target_bytes);
    total += part.target_bytes;
  }
  // As many streams per call as fit in the acceptable workspace; calls share it, one after the other.
  std::size_t each = count;
  std::uint64_t workspace = 0;
  for (;; each = (each + 1) / 2) {
    const auto wanted =
        use_.loaded->workspace_bytes(codec_of(number), backend_of(number), each, most, std::min(total, each * most));
    workspace = wanted.ok() ? *wanted : 0;
    if ((wanted.ok() && workspace <= from.reserved) || each == 1) break;
  }
  nvcomp_call call{};
  call.codec = codec_of(number);
  call.backend = backend_of(number);
  call.sources = to.put(sources);
  call.source_bytes = to.put(source_bytes);
  call.targets = to.put(targets);
  call.target_bytes = to.put(target_bytes);
  call.actual_bytes = to.take(count * sizeof(std::uint64_t));
  call.outcomes = to.take(count * sizeof(std::int32_t));
  call.workspace = to.take(from.reserved);
  call.workspace_bytes = workspace;
  library_wave wave{};
  wave.parts = to.put(from.parts);
  wave.outcomes = call.outcomes;
  wave.actual_bytes = call.actual_bytes;
  wave.statuses = statuses;
  wave.part_count = static_cast<std::uint32_t>(count);
  for (std::size_t at = 0; at < count; at += each) {
    call.count = static_cast<std::uint32_t>(std::min(each, count - at));
    launches.push_back(make_launch(kernel_id::nvcomp, 0, 0, call));
    for (std::uint64_t* const table :
         {&call.sources, &call.source_bytes, &call.targets, &call.target_bytes, &call.actual_bytes})
      *table += each * sizeof(std::uint64_t);
    call.outcomes += each * sizeof(std::int32_t);
  }
  launches.push_back(make_launch(kernel_id::library_check, wave.part_count, kLanes, wave));
}

void library_streams::emit(decode_layout& to, std::uint64_t statuses, std::vector<kernel_launch>& launches) const {
  for (int number = 0; number < kBatches; ++number) emit(to, statuses, number, launches);
}

std::uint64_t library_streams::descriptor_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const batch& each : batches_)
    bytes +=
        4 * aligned(each.streams.size() * sizeof(std::uint64_t)) + aligned(each.parts.size() * sizeof(decode_part));
  return bytes;
}

std::uint64_t library_streams::workspace_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const batch& each : batches_) {
    if (each.streams.empty()) continue;
    bytes += aligned(each.streams.size() * sizeof(std::uint64_t)) +
             aligned(each.streams.size() * sizeof(std::int32_t)) + aligned(each.reserved);
  }
  return bytes;
}

library_streams::mark library_streams::here() const noexcept {
  mark out;
  for (int i = 0; i < kBatches; ++i) out.streams[i] = batches_[i].streams.size();
  out.copies = copies_.size();
  return out;
}

void library_streams::rewind(const mark& to) {
  for (int i = 0; i < kBatches; ++i) {
    batches_[i].streams.resize(to.streams[i]);
    batches_[i].parts.resize(to.streams[i]);
  }
  copies_.resize(to.copies);
}

void library_streams::clear() {
  rewind({});
  for (batch& each : batches_) {
    each.reserved_count = 0;
    each.reserved = each.most_bytes = each.total_bytes = 0;
  }
}

}  // namespace penstock::inline v0::device
