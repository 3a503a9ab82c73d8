// The first bytes choose element type, shape, chain and region; the rest is decoded as a hostile chunk, and encoded as
// a cell's content. A part must equal the same part of the whole.

#include "codec_fuzz.h"

namespace {

using namespace penstock;

const dtype kTypes[] = {{dtype_kind::boolean, 8},         {dtype_kind::unsigned_integer, 16},
                        {dtype_kind::floating, 32},       {dtype_kind::signed_integer, 64},
                        {dtype_kind::complex, 128},       {dtype_kind::raw, 24},
                        {dtype_kind::fixed_utf32, 32 * 3}};

codec_config choose_byte_codec(std::uint32_t which) {
  switch (which) {
    case 0:
      return {"zstd", json(json::object_t{{"level", std::int64_t{1}}})};
    case 1:
      return {"gzip", json(json::object_t{{"level", std::int64_t{1}}})};
    case 2:
      return {"crc32c", {}};
    default:
      return {"blosc", json(json::object_t{{"cname", "lz4"},
                                           {"clevel", std::int64_t{1}},
                                           {"shuffle", "bitshuffle"},
                                           {"typesize", std::int64_t{2}},
                                           {"blocksize", std::int64_t{0}}})};
  }
}

std::vector<codec_config> choose_codecs(fuzz_input& input, std::size_t rank) {
  std::vector<codec_config> codecs;
  for (std::uint32_t n = input.below(3); n > 0; --n) {
    std::vector<std::uint64_t> axes;
    for (std::uint32_t d = 0; d < rank; ++d) axes.insert(axes.begin() + input.below(d + 1), d);
    json::array_t order(axes.begin(), axes.end());
    codecs.push_back({"transpose", json(json::object_t{{"order", json(std::move(order))}})});
  }
  codecs.push_back({"bytes", json(json::object_t{{"endian", input.below(2) == 0 ? "little" : "big"}})});
  for (std::uint32_t n = input.below(4); n > 0; --n) codecs.push_back(choose_byte_codec(input.below(4)));
  return codecs;
}

axis_range choose_range(fuzz_input& input, std::uint64_t length) {
  axis_range range;
  range.start = static_cast<std::int64_t>(input.byte() % length);
  const std::int64_t step = input.below(3) + 1;
  range.step = input.below(2) == 0 ? step : -step;
  const std::int64_t reach = range.step > 0 ? static_cast<std::int64_t>(length) - 1 - range.start : range.start;
  range.count = input.byte() % static_cast<std::uint64_t>(reach / step + 1) + 1;
  return range;
}

}  // namespace

extern "C" int run_codec_chain(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  const dtype& type = kTypes[input.below(std::size(kTypes))];
  const std::size_t item = type.item_bytes(), rank = input.below(5);
  extents cell;
  for (std::size_t d = 0; d < rank; ++d) cell.push_back(input.below(9) + 1);
  const auto chain = codec_chain::compile(choose_codecs(input, rank), type, cell);
  require(chain.ok());
  require(!chain->describe().empty());

  strided_box region;
  extents counts;
  for (const std::uint64_t length : cell) {
    region.push_back(choose_range(input, length));
    counts.push_back(region[region.size() - 1].count);
  }
  const strides whole_strides = c_order_strides(cell, item), part_strides = c_order_strides(counts, item);
  const std::size_t part_bytes = element_count(counts).value() * item;
  ledger accounts(std::uint64_t{64} << 20, 0);
  worker_scratch scratch(&accounts);

  // Twice: the input's bytes as a chunk, then the chunk that its content encodes to.
  std::vector<std::byte> content(chain->decoded_bytes());
  const std::span<const std::byte> rest = input.rest();
  for (std::size_t i = 0; i < content.size() && !rest.empty(); ++i) content[i] = rest[i % rest.size()];
  std::vector<std::byte> valid(chain->max_encoded_bytes());
  const auto made = chain->encode(tensor_view::contiguous(content.data(), type, cell), valid, scratch);
  require(made.ok() && *made <= valid.size());
  require(!chain->fixed_size() || *made == chain->max_encoded_bytes());
  valid.resize(*made);

  for (const bool hostile : {true, false}) {
    const auto encoded = hostile ? rest : std::span<const std::byte>(valid);
    const auto whole = std::make_unique<std::byte[]>(chain->decoded_bytes());
    const auto part = std::make_unique<std::byte[]>(part_bytes);
    const bool decoded = chain->decode(encoded, {whole.get(), whole_strides, nullptr, true}, scratch).ok();
    require(decoded == chain->decode(encoded, {part.get(), part_strides, &region, false}, scratch).ok());
    if (!decoded) {
      require(hostile);
      continue;
    }
    require(hostile || std::memcmp(whole.get(), content.data(), content.size()) == 0);
    for (std::size_t i = 0; i < part_bytes / item; ++i) {
      std::size_t number = i;
      std::int64_t from = 0;
      for (std::size_t d = rank; d-- > 0; number /= counts[d])
        from += region[d].at(number % counts[d]) * whole_strides[d];
      require(std::memcmp(part.get() + i * item, whole.get() + from, item) == 0);
    }
  }
  return 0;
}
