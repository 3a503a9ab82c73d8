// Bytes of items are restored for all sizes of items and all alignments of source and target.

#include "cuda/decode/decode_fixture.h"

namespace penstock::inline v0::device {
namespace {

bytes shuffled(const bytes& content, std::size_t item) {
  bytes out = content;
  const std::size_t items = content.size() / item;
  for (std::size_t i = 0; i < items; ++i)
    for (std::size_t k = 0; k < item; ++k) out[k * items + i] = content[i * item + k];
  return out;
}

void expect_transforms(const device_step& step, const bytes& encoded, const bytes& content, const std::string& what) {
  alignas(64) static std::byte source[6000], target[6000];
  for (const std::size_t from : {0u, 1u, 4u, 10u}) {
    for (const std::size_t to : {0u, 2u, 8u, 16u}) {
      std::copy(encoded.begin(), encoded.end(), source + from);
      std::fill(std::begin(target), std::end(target), std::byte{0xee});
      const std::span<std::byte> out(target + to, content.size());
      const auto done = decode_on_host({&step, 1}, std::span(source + from, encoded.size()), out);
      ASSERT_TRUE(done.ok()) << what << ": " << done.error().to_string();
      ASSERT_TRUE(std::equal(content.begin(), content.end(), out.begin())) << what << " from " << from << " to " << to;
      ASSERT_EQ(target[to + content.size()], std::byte{0xee}) << what;
    }
  }
}

TEST(DeviceTransforms, UnshuffleItemsOfEverySizeAndAlignment) {
  for (const std::uint32_t item : {1u, 2u, 3u, 4u, 5u, 8u, 11u, 12u, 16u, 20u}) {
    for (const std::size_t items : {0u, 1u, 7u, 8u, 9u, 12u, 64u, 72u, 100u, 256u}) {
      for (const std::size_t rest : {0u, 1u}) {
        const bytes content = content_of("noise", items * item + (rest < item ? rest : 0));
        if (content.empty()) continue;
        expect_transforms({step_kind::shuffle, item}, shuffled(content, item), content,
                          std::to_string(items) + " items of " + std::to_string(item));
      }
    }
  }
}

// Each thread takes several turns, of several thread blocks.
TEST(DeviceTransforms, UnshuffleMoreItemsThanThreadsTakeInATurn) {
  for (const std::uint32_t item : {2u, 3u, 4u, 7u, 8u, 12u, 16u, 19u}) {
    const bytes content = content_of("noise", std::size_t{200'000} / (8 * item) * (8 * item));
    const device_step step{step_kind::shuffle, item};
    expect_decodes({&step, 1}, shuffled(content, item), content, "items of " + std::to_string(item));
  }
}

// Bit b of byte k of all items together, eight items per byte; items after the last multiple of eight are unchanged.
bytes bitshuffled(const bytes& content, std::size_t item) {
  bytes out = content;
  const std::size_t groups = content.size() / item / 8;
  for (std::size_t plane = 0; plane < 8 * item; ++plane) {
    for (std::size_t i = 0; i < groups; ++i) {
      std::byte packed{};
      for (std::size_t j = 0; j < 8; ++j)
        packed |= (content[(8 * i + j) * item + plane / 8] >> (plane % 8) & std::byte{1}) << j;
      out[plane * groups + i] = packed;
    }
  }
  return out;
}

TEST(DeviceTransforms, UnbitshuffleItemsOfEverySizeAndAlignment) {
  for (const std::uint32_t item : {1u, 2u, 3u, 4u, 5u, 8u, 16u}) {
    for (const std::size_t items : {0u, 1u, 8u, 9u, 32u, 40u, 64u, 100u, 256u, 321u}) {
      for (const std::size_t rest : {0u, 1u}) {
        const bytes content = content_of("noise", items * item + (rest < item ? rest : 0));
        if (content.empty()) continue;
        expect_transforms({step_kind::bitshuffle, item}, bitshuffled(content, item), content,
                          std::to_string(items) + " bitshuffled items of " + std::to_string(item));
      }
    }
  }
}

TEST(DeviceTransforms, SwapItemsOfEverySize) {
  for (const std::uint32_t item : {2u, 3u, 4u, 8u, 16u}) {
    for (const std::size_t size : {1u, 15u, 16u, 17u, 40u, 1000u, 1001u}) {
      const bytes content = content_of("noise", size);
      bytes swapped = content;
      for (std::size_t i = 0; i + item <= size; i += item)
        std::reverse(swapped.begin() + static_cast<std::ptrdiff_t>(i),
                     swapped.begin() + static_cast<std::ptrdiff_t>(i + item));
      expect_transforms({step_kind::byte_swap, item}, swapped, content,
                        std::to_string(size) + " bytes of items of " + std::to_string(item));
    }
  }
}

TEST(DeviceTransforms, SwapAndReverseAtEveryAlignment) {
  for (const std::size_t size : {1u, 15u, 16u, 17u, 33u, 1000u}) {
    const bytes content = content_of("noise", size);
    bytes reversed = content;
    for (std::byte& each : reversed) {
      std::byte out{};
      for (int bit = 0; bit < 8; ++bit) out |= ((each >> bit) & std::byte{1}) << (7 - bit);
      each = out;
    }
    expect_transforms({step_kind::reverse_bits, 1}, reversed, content, "reverse_bits");
    bytes swapped = content;
    for (std::size_t i = 0; i + 4 <= size; i += 4)
      std::reverse(swapped.begin() + static_cast<std::ptrdiff_t>(i),
                   swapped.begin() + static_cast<std::ptrdiff_t>(i + 4));
    expect_transforms({step_kind::byte_swap, 4}, swapped, content, "byte_swap");
  }
}

}  // namespace
}  // namespace penstock::inline v0::device
