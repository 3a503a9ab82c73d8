#include "format/zarr/shard_index.h"

#include <fmt/format.h>
#include <penstock/tensor.h>

#include <algorithm>

#include "base/checked.h"
#include "codec/bytes/crc32c.h"
#include "codec/worker_scratch.h"

namespace penstock::inline v0 {
namespace {

const dtype kIndexType{dtype_kind::unsigned_integer, 64};
constexpr std::uint64_t kEntryBytes = 16;

/// The size that the codecs add to an index: for chains of fixed size it does not depend on the data.
result<std::uint64_t> encoded_overhead(const std::vector<codec_config>& codecs, std::size_t rank) {
  extents one(rank + 1, 1);
  one[rank] = 2;
  PENSTOCK_ASSIGN(const codec_chain chain, codec_chain::compile(codecs, kIndexType, one));
  std::uint64_t words[2] = {0, 0};
  std::vector<std::byte> encoded(chain.max_encoded_bytes());
  worker_scratch scratch;
  PENSTOCK_ASSIGN(const std::uint64_t bytes,
                  chain.encode(tensor_view::contiguous(words, kIndexType, one), encoded, scratch));
  return bytes - kEntryBytes;
}

}  // namespace

result<shard_index_codec> shard_index_codec::make(const zarr_shard& shard, const std::vector<codec_config>& behind,
                                                  const extents& counts) {
  shard_index_codec out;
  out.at_start_ = shard.index_at_start;
  std::uint64_t bytes = kEntryBytes;
  for (const std::uint64_t count : counts) {
    if (!checked_mul(bytes, count, bytes) || bytes > kMaxBytes) {
      return error(errc::unsupported, fmt::format("a shard of {} chunks has an index of more than {} bytes",
                                                  to_string(counts), kMaxBytes));
    }
  }
  out.entries_ = bytes / kEntryBytes;

  // Without a transpose the index is a plain list of pairs; so it needs one dimension less than the array has.
  const bool plain = std::none_of(shard.index_codecs.begin(), shard.index_codecs.end(),
                                  [](const codec_config& codec) { return codec.name == "transpose"; });
  extents shape = plain ? extents{out.entries_} : counts;
  if (shape.size() == kMaxRank) {
    return error(errc::unsupported, "index codec transpose in an array of 32 dimensions");
  }
  shape.push_back(2);
  PENSTOCK_ASSIGN(out.chain_, codec_chain::compile(shard.index_codecs, kIndexType, shape));
  if (!out.chain_.fixed_size()) {
    return error(errc::unsupported,
                 fmt::format("index_codecs {} make an index of no fixed size", out.chain_.describe()));
  }
  PENSTOCK_ASSIGN(const std::uint64_t overhead, encoded_overhead(shard.index_codecs, shape.size() - 1));
  out.index_bytes_ = bytes + overhead;

  for (const codec_config& codec : behind) {
    if (codec.name != "crc32c") {
      return error(errc::unsupported, fmt::format("codec '{:.80}' after sharding_indexed is not readable", codec.name));
    }
    PENSTOCK_ASSIGN(std::shared_ptr<const byte_codec> checksum, make_byte_codec(codec, 1));
    out.checksum_bytes_ += checksum->max_encoded_bytes(0);
    out.checksums_.push_back(std::move(checksum));
  }
  return out;
}

result<std::shared_ptr<const shard_index>> shard_index_codec::decode(std::span<const std::byte> bytes,
                                                                     std::uint64_t shard_bytes) const {
  worker_scratch scratch;
  std::vector<std::byte> room;
  if (reads_whole_shard()) {
    if (bytes.size() < least_shard_bytes()) {
      return error(errc::corrupt_data,
                   fmt::format("shard has {} bytes, its index needs {}", bytes.size(), least_shard_bytes()));
    }
    for (auto codec = checksums_.rbegin(); codec != checksums_.rend(); ++codec) {
      PENSTOCK_ASSIGN(bytes, (*codec)->decode(bytes, room, scratch));
    }
    shard_bytes = bytes.size();
    bytes = at_start_ ? bytes.first(index_bytes_) : bytes.last(index_bytes_);
  }
  if (bytes.size() != index_bytes_) {
    return error(errc::corrupt_data, fmt::format("shard index has {} bytes, needs {}", bytes.size(), index_bytes_));
  }

  std::vector<std::uint64_t> words(2 * entries_);
  strided_box all;
  for (const std::uint64_t length : chain_.cell()) all.push_back({0, 1, length});
  decode_target target;
  target.data = reinterpret_cast<std::byte*>(words.data());
  target.strides = c_order_strides(chain_.cell(), sizeof(std::uint64_t));
  target.in_cell = &all;
  target.covers_cell = true;
  if (result<> decoded = chain_.decode(bytes, target, scratch); !decoded.ok()) {
    return std::move(decoded).error().note("decoding a shard index");
  }

  for (std::uint64_t i = 0; i < entries_; ++i) {
    const std::uint64_t offset = words[2 * i];
    const std::uint64_t length = words[2 * i + 1];
    if (offset == shard_index::kAbsent && length == shard_index::kAbsent) continue;
    std::uint64_t end = 0;
    if (offset == shard_index::kAbsent || length == shard_index::kAbsent || length == 0 ||
        !checked_add(offset, length, end)) {
      return error(errc::corrupt_data,
                   fmt::format("shard index entry {} has offset {} and length {}", i, offset, length));
    }
    if (end > shard_bytes) {
      return error(errc::corrupt_data, fmt::format("shard index entry {} is at bytes [{}, {}), the shard has {}", i,
                                                   offset, end, shard_bytes));
    }
  }
  return std::make_shared<const shard_index>(std::move(words), shard_bytes);
}

result<> shard_index_codec::encode(std::span<const std::uint64_t> words, std::span<std::byte> out) const {
  // The codecs request the memory that they might need. For these codecs that is the memory that they use.
  worker_scratch scratch;
  const auto* const from = reinterpret_cast<const std::byte*>(words.data());
  const tensor_view view =
      tensor_view::contiguous(const_cast<std::byte*>(from), kIndexType, chain_.cell());  // NOLINT: only read
  auto used = chain_.encode(view, out, scratch);
  if (!used.ok()) return std::move(used).error().note("encoding a shard index");
  if (*used != index_bytes_)
    return error(errc::internal, fmt::format("a shard index has {} bytes, it should have {}", *used, index_bytes_));
  return {};
}

void shard_index_codec::checksum(std::span<const part> shard, std::span<std::byte> out) const {
  constexpr std::size_t kBytes = 4;
  std::uint32_t sum = 0;
  for (const part& each : shard) sum = crc32c(each, sum);
  for (std::size_t at = 0; at + kBytes <= out.size(); at += kBytes) {
    for (std::size_t i = 0; i < kBytes; ++i) out[at + i] = static_cast<std::byte>(sum >> (8 * i));
    sum = crc32c(out.subspan(at, kBytes), sum);  // the next checksum also covers this one
  }
}

std::string shard_index_codec::describe() const {
  return fmt::format("{} at {}", chain_.describe(), at_start_ ? "start" : "end");
}

}  // namespace penstock::inline v0
