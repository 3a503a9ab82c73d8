// HDF5's bitshuffle on the device's decoders, against the codec that the host engine uses.

#include <lz4.h>
#include <zstd.h>

#include <fmt/format.h>

#include <penstock/extend/json.h>
#include "codec/codec_chain.h"
#include "cuda/decode/decode_fixture.h"
#include "support/cases.h"

namespace penstock::inline v0::device {
namespace {

enum class inside { none, lz4, zstd };

device_step step_of(inside how, std::uint32_t item, std::uint32_t block) {
  const step_kind kind = how == inside::none  ? step_kind::bitshuffle_plain
                         : how == inside::lz4 ? step_kind::bitshuffle_lz4
                                              : step_kind::bitshuffle_zstd;
  return {kind, item, block};
}

codec_chain chain_of(inside how, std::uint32_t item, std::uint32_t block, std::size_t size) {
  const char* const names[] = {"none", "lz4", "zstd"};
  const json settings = *json::parse(fmt::format(R"({{"elementsize":{},"blocksize":{},"compression":"{}"}})", item,
                                                 block, names[static_cast<int>(how)]));
  const std::vector<codec_config> codecs{{"bytes", json()}, {"hdf5.bitshuffle", settings}};
  auto made = codec_chain::compile(codecs, *dtype::from_name("uint8"), extents{size});
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  return std::move(made).value();
}

void put_big(bytes& out, std::uint64_t value, int count) {
  for (int i = count; i-- > 0;) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

// Encodes like the filter, bit by bit. `block` is in elements.
bytes encode(const bytes& content, inside how, std::size_t item, std::size_t block, bool says_block) {
  bytes out;
  if (how != inside::none) {
    put_big(out, content.size(), 8);
    put_big(out, says_block ? block * item : 0, 4);
  }
  const std::size_t elements = content.size() / item, grouped = elements - elements % 8;
  for (std::size_t done = 0; done < grouped; done += block) {
    const std::size_t count = std::min(block, grouped - done);
    bytes planes(count * item);
    for (std::size_t e = 0; e < count; ++e)
      for (std::size_t bit = 0; bit < 8 * item; ++bit)
        if ((static_cast<unsigned>(content[(done + e) * item + bit / 8]) >> (bit % 8) & 1) != 0)
          planes[bit * (count / 8) + e / 8] |= static_cast<std::byte>(1u << (e % 8));
    if (how == inside::none) {
      out.insert(out.end(), planes.begin(), planes.end());
      continue;
    }
    bytes packed(std::max<std::size_t>(ZSTD_compressBound(planes.size()),
                                       static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(planes.size())))));
    const std::size_t size =
        how == inside::zstd ? ZSTD_compress(packed.data(), packed.size(), planes.data(), planes.size(), 3)
                            : static_cast<std::size_t>(LZ4_compress_default(
                                  reinterpret_cast<const char*>(planes.data()), reinterpret_cast<char*>(packed.data()),
                                  static_cast<int>(planes.size()), static_cast<int>(packed.size())));
    put_big(out, size, 4);
    out.insert(out.end(), packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size));
  }
  out.insert(out.end(), content.begin() + static_cast<std::ptrdiff_t>(grouped * item), content.end());
  return out;
}

bool host_decodes(const codec_chain& chain, const bytes& encoded, bytes& out) {
  worker_scratch scratch;
  decode_target target;
  target.data = out.data();
  target.strides = c_order_strides(chain.cell(), 1);
  target.covers_cell = true;
  return chain.decode(encoded, target, scratch).ok();
}

struct blocks {
  std::uint32_t item, block, asked;  // in elements; the codec's parameter, 0: none
};

TEST(DeviceBitshuffle, DecodesLikeTheHostCodec) {
  for (const inside how : {inside::none, inside::lz4, inside::zstd})
    for (const blocks& each : {blocks{4, 2048, 0}, blocks{1, 8192, 0}, blocks{2, 64, 64}, blocks{8, 128, 128},
                               blocks{12, 680, 0}, blocks{300, 128, 0}})
      for (const std::size_t elements : {0u, 1u, 7u, 8u, 100u, 2048u, 5003u}) {
        if (each.item * elements > 200'000) continue;
        const bytes content = content_of("walk", elements * each.item);
        const std::string what = fmt::format("{} of {} in {}", elements, each.item, each.block);
        const bytes encoded = encode(content, how, each.item, each.block, each.asked == 0);
        const device_step step = step_of(how, each.item, each.asked);
        if (!content.empty()) {
          bytes theirs(content.size());
          ASSERT_TRUE(host_decodes(chain_of(how, each.item, each.asked, content.size()), encoded, theirs)) << what;
          ASSERT_EQ(theirs, content) << what;
        }
        expect_decodes({&step, 1}, encoded, content, what);
        bytes other(content.size() + each.item);
        EXPECT_FALSE(decode_on_host({&step, 1}, encoded, other).ok()) << what;
      }
}

TEST(DeviceBitshuffle, DecodesDamagedBytesOnlyAsTheHostDoes) {
  std::mt19937 random(7);
  for (const inside how : {inside::lz4, inside::zstd}) {
    const bytes content = content_of("packed", 4 * 3001);
    const bytes encoded = encode(content, how, 4, 512, true);
    const codec_chain chain = chain_of(how, 4, 0, content.size());
    const device_step step = step_of(how, 4, 0);
    for (std::uint64_t round = test::cases(500); round-- > 0;) {
      bytes damaged = encoded;
      for (std::uint32_t i = 0; i <= random() % 3; ++i) {
        const std::size_t at = random() % 3 == 0 ? random() % 20 : random() % damaged.size();
        damaged[at] ^= std::byte(1u << random() % 8);
      }
      if (random() % 8 == 0) damaged.resize(random() % damaged.size());
      bytes ours(content.size()), theirs(content.size());
      if (!decode_on_host({&step, 1}, damaged, ours).ok()) continue;
      ASSERT_TRUE(host_decodes(chain, damaged, theirs)) << round;
      ASSERT_EQ(ours, theirs) << round;
    }
  }
}

}  // namespace
}  // namespace penstock::inline v0::device
