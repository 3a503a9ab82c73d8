#include "format/zarr/shard_codec.h"

#include <fmt/format.h>
#include <penstock/tensor.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "array/equals_fill.h"
#include "array/strided_copy.h"
#include "base/buffer.h"
#include "base/checked.h"
#include "base/counted.h"
#include "codec/unknown_codec.h"
#include "codec/worker_scratch.h"
#include "format/zarr/shard_index.h"
#include "format/zarr/zarr_codecs.h"

namespace penstock::inline v0 {
namespace {

/// The value of absent chunks.
struct fill_item {
  std::vector<std::byte> item;
  std::shared_ptr<const std::string> text;  // what a variable_item points to
};

/// The largest size that one chunk may have. A chain's own bound allows 64 KiB for other writers' overhead. Thousands
/// of small chunks do not each need that much.
std::uint64_t most_entry_bytes(const codec_chain& chain) noexcept {
  constexpr std::uint64_t kChainMargin = std::uint64_t{64} << 10, kMargin = 1024;
  const std::uint64_t most = chain.max_encoded_bytes();
  if (chain.fixed_size() || most == kUnbounded || most <= kChainMargin) return most;
  return most - kChainMargin + kMargin;
}

/// Converts between the bytes of a shard and its array.
class shard_codec final : public byte_codec {
 public:
  shard_codec(shard_index_codec index, codec_chain chain, const extents& shape, fill_item fill)
      : index_(std::move(index)), chain_(std::move(chain)), shape_(shape), fill_(std::move(fill)) {
    const extents& chunk = chain_.cell();
    strides_ = c_order_strides(shape_, chain_.type().item_bytes());
    bytes_ = chain_.decoded_bytes() * index_.entries();
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      counts_.push_back(shape_[d] / chunk[d]);
      all_.push_back({0, 1, chunk[d]});
    }
    std::uint64_t chunks = 0;
    const std::uint64_t most = most_entry_bytes(chain_);
    if (most == kUnbounded || !checked_mul(most, index_.entries(), chunks) ||
        !checked_add(chunks, index_.index_bytes(), most_bytes_)) {
      most_bytes_ = kUnbounded;
    }
  }

  std::string_view name() const override { return "sharding_indexed"; }
  std::string describe() const override {
    return fmt::format("sharding_indexed({}, {}; index: {})", to_string(chain_.cell()), chain_.describe(),
                       index_.describe());
  }
  std::uint64_t max_encoded_bytes(std::uint64_t) const override { return most_bytes_; }
  bool via_python() const noexcept override { return chain_.via_python(); }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (out.size() < bytes_) {
      scratch.out_of_room = true;
      return error{errc::corrupt_data, fmt::format("a shard of {} bytes needs more than {}", bytes_, out.size())};
    }
    if (encoded.size() < index_.least_shard_bytes()) {
      return error{errc::corrupt_data,
                   fmt::format("shard has {} bytes, its index needs {}", encoded.size(), index_.least_shard_bytes())};
    }
    const auto index_bytes = static_cast<std::size_t>(index_.index_bytes());
    PENSTOCK_ASSIGN(
        const auto index,
        index_.decode(index_.at_start() ? encoded.first(index_bytes) : encoded.last(index_bytes), encoded.size()));
    PENSTOCK_ASSIGN(const std::vector<std::byte> fill, fill_for(scratch));
    decode_target target;
    target.strides = strides_;
    target.in_cell = &all_;
    target.covers_cell = true;
    for (std::uint64_t entry = 0; entry < index_.entries(); ++entry) {
      target.data = out.data() + offset_of(entry);
      const shard_index::entry found = (*index)[entry];
      if (found.absent()) {
        strided_fill(target.data, strides_, chain_.cell(), fill.data(), chain_.type().item_bytes());
        continue;
      }
      if (found.length > chain_.max_encoded_bytes()) {
        return error{errc::corrupt_data,
                     fmt::format("shard index has {} bytes for a chunk whose codecs make at most {}", found.length,
                                 chain_.max_encoded_bytes())};
      }
      const auto chunk =
          encoded.subspan(static_cast<std::size_t>(found.offset), static_cast<std::size_t>(found.length));
      if (result<> decoded = chain_.decode(chunk, target, scratch.inner()); !decoded.ok())
        return std::move(decoded).error().note(fmt::format("decoding entry {} of the shard", entry));
    }
    return std::span<const std::byte>(out.data(), bytes_);
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch& scratch) const override {
    return encode_with(decoded, scratch, [&](std::uint64_t, std::uint64_t bytes) -> result<std::span<std::byte>> {
      if (bytes > out.size())
        return error{errc::invalid_argument,
                     fmt::format("a shard needs {} bytes, the output has room for {}", bytes, out.size())};
      return out;
    });
  }

  result<std::span<const std::byte>> encode_growing(std::span<const std::byte> decoded, buffer& room,
                                                    worker_scratch& scratch) const override {
    PENSTOCK_ASSIGN(
        const std::uint64_t length, encode_with(decoded, scratch, [&](std::uint64_t used, std::uint64_t bytes) {
          // Half of its present size, so that growing costs no more than writing.
          return bytes <= room.capacity() ? room.reserve(room.capacity()) : room.extend(used, bytes + used / 2);
        }));
    return std::span<const std::byte>(room.data(), length);
  }

 private:
  std::uint64_t offset_of(std::uint64_t entry) const noexcept {
    std::uint64_t offset = 0;
    for (std::size_t d = counts_.size(); d-- > 0;) {
      offset += entry % counts_[d] * chain_.cell()[d] * static_cast<std::uint64_t>(strides_[d]);
      entry /= counts_[d];
    }
    return offset;
  }

  // An item of variable length must outlive this codec.
  result<std::vector<std::byte>> fill_for(worker_scratch& scratch) const {
    std::vector<std::byte> out = fill_.item;
    if (fill_.text == nullptr) return out;
    PENSTOCK_ASSIGN(const variable_item item, scratch.items().copy(std::as_bytes(std::span(*fill_.text))));
    std::memcpy(out.data(), &item, sizeof item);
    return out;
  }

  bool is_fill(const std::byte* chunk) const noexcept {
    return !chain_.type().variable_length() &&
           equals_fill(chunk, strides_, chain_.cell(), fill_.item.data(), chain_.type());
  }

  /// `room(used, bytes)` returns at least `bytes` bytes, of which the first `used` are kept.
  template <class Room>
  result<std::uint64_t> encode_with(std::span<const std::byte> decoded, worker_scratch& scratch, Room&& room) const {
    if (decoded.size() != bytes_) {
      return error{errc::invalid_argument, fmt::format("a shard takes {} bytes, it got {}", bytes_, decoded.size())};
    }
    std::uint64_t used = index_.at_start() ? index_.index_bytes() : 0;
    std::vector<std::uint64_t> words(static_cast<std::size_t>(2 * index_.entries()), shard_index::kAbsent);
    tensor_view chunk;
    chunk.type = chain_.type();
    chunk.extents = chain_.cell();
    chunk.strides = strides_;
    for (std::uint64_t entry = 0; entry < index_.entries(); ++entry) {
      const std::byte* const at = decoded.data() + offset_of(entry);
      if (is_fill(at)) continue;
      chunk.data = const_cast<std::byte*>(at);  // NOLINT(cppcoreguidelines-pro-type-const-cast): only read
      auto bytes = chain_.encode(chunk, scratch.stage(3), scratch.inner());
      if (!bytes.ok()) return std::move(bytes).error().note(fmt::format("encoding entry {} of the shard", entry));
      PENSTOCK_ASSIGN(const std::span<std::byte> to, room(used, used + bytes->size()));
      std::memcpy(to.data() + used, bytes->data(), bytes->size());
      words[static_cast<std::size_t>(2 * entry)] = used;
      words[static_cast<std::size_t>(2 * entry + 1)] = bytes->size();
      used += bytes->size();
    }
    const std::uint64_t whole = index_.at_start() ? used : used + index_.index_bytes();
    PENSTOCK_ASSIGN(const std::span<std::byte> to, room(used, whole));
    const std::uint64_t index_at = index_.at_start() ? 0 : used;
    PENSTOCK_TRY(index_.encode(
        words, to.subspan(static_cast<std::size_t>(index_at), static_cast<std::size_t>(index_.index_bytes()))));
    return whole;
  }

  shard_index_codec index_;
  codec_chain chain_;
  extents shape_;
  fill_item fill_;
  strides strides_;  // of the whole shard
  extents counts_;
  strided_box all_;  // of a chunk
  std::uint64_t bytes_ = 0;
  std::uint64_t most_bytes_ = 0;
};

}  // namespace

shard_codecs::shard_codecs(const zarr_metadata& metadata, const codec_provider* others)
    : type_(metadata.type), fill_value_(metadata.fill_value), fill_text_(metadata.fill_text), others_(others) {}

result<shard_codecs> shard_codecs::behind(const zarr_codecs& list) const {
  shard_codecs out = *this;
  if (list.shard == nullptr) return out;
  std::vector<codec_config> maps;
  for (const codec_config& codec : list.chain) {
    if (codec.name == "transpose") continue;
    if (codec.name != "scale_offset" && codec.name != "cast_value") {
      return error{errc::unsupported,
                   fmt::format("codec '{:.80}' before sharding_indexed is not readable", codec.name)};
    }
    maps.push_back(codec);
  }
  if (maps.empty()) return out;
  constexpr bool kLittle = std::endian::native == std::endian::little;
  maps.push_back({"bytes", json::object_t{{"endian", kLittle ? "little" : "big"}}});
  const extents one{1};
  PENSTOCK_ASSIGN(const codec_chain chain, codec_chain::compile(maps, type_, one));
  out.fill_value_.resize(static_cast<std::size_t>(chain.max_encoded_bytes()));
  worker_scratch scratch;
  std::vector<std::byte> item = fill_value_;
  auto bytes = chain.encode(tensor_view::contiguous(item.data(), type_, one), out.fill_value_, scratch);
  if (!bytes.ok()) return std::move(bytes).error().note("encoding the fill value for the chunks that a shard lacks");
  out.fill_value_.resize(static_cast<std::size_t>(*bytes));
  return out;
}

result<compiled_codec> shard_codecs::make(const codec_config& config, const stage_type& input) const {
  if (config.name != "sharding_indexed") {
    if (others_ != nullptr) return others_->make(config, input);
    return unknown_codec(config.name);
  }
  if (!input.is_array) {
    return error{errc::corrupt_data, "codec 'sharding_indexed' works on arrays, it follows the array-to-bytes codec"};
  }
  if (input.type.item_bytes() != fill_value_.size()) {
    return error{errc::internal,
                 fmt::format("a fill value of {} bytes for a shard of {}", fill_value_.size(), input.type.name())};
  }
  PENSTOCK_ASSIGN(const auto shard, parse_zarr_shard(config.configuration, "sharding_indexed"));
  const std::size_t rank = input.shape.size();
  if (shard->chunk.size() != rank) {
    return error{errc::corrupt_data, fmt::format("sharding_indexed has chunk_shape {}, its input has {}",
                                                 to_string(shard->chunk), counted(rank, "dimension"))};
  }
  extents counts(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    if (input.shape[d] % shard->chunk[d] != 0) {
      return error{errc::corrupt_data, fmt::format("sharding_indexed has chunk_shape {}, which does not divide {}",
                                                   to_string(shard->chunk), to_string(input.shape))};
    }
    counts[d] = input.shape[d] / shard->chunk[d];
  }
  PENSTOCK_ASSIGN(shard_index_codec index, shard_index_codec::make(*shard, {}, counts));
  PENSTOCK_ASSIGN(const std::vector<codec_config> inner, whole_chain(shard->codecs, rank));
  shard_codecs here = *this;
  here.type_ = input.type;
  PENSTOCK_ASSIGN(const shard_codecs within, here.behind(shard->codecs));
  codec_chain_options options;
  options.external = &within;
  PENSTOCK_ASSIGN(codec_chain chain, codec_chain::compile(inner, input.type, shard->chunk, options));
  auto made = std::make_shared<shard_codec>(std::move(index), std::move(chain), input.shape,
                                            fill_item{fill_value_, fill_text_});
  return compiled_codec{std::move(made), stage_type::bytes_of(input.type, kUnbounded, false)};
}

}  // namespace penstock::inline v0
