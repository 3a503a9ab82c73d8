// Chunks that stay on the device and are decoded repeatedly, on the fake driver and by the host forms.

#include "cuda/resident_wave.h"

#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cuda/decode/nvcomp.h"
#include "fake_device.h"

namespace penstock::test {
namespace {

using cuda::resident_wave;
using bytes = std::vector<std::byte>;

bytes bytes_of(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

// A block of LZ4 with literals only: fewer than 15.
bytes literals(const std::string& text) { return bytes_of(static_cast<char>(text.size() << 4) + text); }

class ResidentWave : public FakeDevice {
 protected:
  void SetUp() override {
    FakeDevice::SetUp();
    for (const std::string& text : texts_) encoded_.push_back(literals(text));
  }
  void TearDown() override {
    unsetenv("PENSTOCK_NVCOMP");
    FakeDevice::TearDown();
  }

  result<std::unique_ptr<resident_wave>> make(int ordinal, const device::nvcomp* library = nullptr) {
    const device::device_step step{device::step_kind::lz4_block};
    std::vector<resident_wave::chunk> chunks;
    for (std::size_t i = 0; i < texts_.size(); ++i) chunks.push_back({encoded_[i], texts_[i].size()});
    return resident_wave::make(ordinal, {&step, 1}, chunks, library);
  }
  void expect_decoded(const resident_wave& wave) {
    EXPECT_EQ(*wave.statuses(), std::vector<std::uint32_t>(texts_.size(), 0));
    for (std::size_t i = 0; i < texts_.size(); ++i) EXPECT_EQ(*wave.output(i), bytes_of(texts_[i])) << i;
  }

  const std::vector<std::string> texts_{"one chunk", "and a second", ""};
  std::vector<bytes> encoded_;
};

TEST_F(ResidentWave, DecodesTheSameChunksAgainAndAgain) {
  for (const int ordinal : {resident_wave::kHost, 0, 1}) {
    auto wave = make(ordinal);
    ASSERT_TRUE(wave.ok()) << wave.error().to_string();
    ASSERT_EQ((*wave)->launches(), 1U);
    EXPECT_EQ((*wave)->kernel(0), "penstock_lz");
    for (int turn = 0; turn < 3; ++turn) {
      const auto taken = (*wave)->decode();
      ASSERT_TRUE(taken.ok()) << taken.error().to_string();
      EXPECT_EQ(taken->size(), 1U);
      expect_decoded(**wave);
    }
  }
}

TEST_F(ResidentWave, ShowsBytesThatNoKernelHasWritten) {
  auto wave = make(0);
  ASSERT_TRUE(wave.ok());
  EXPECT_EQ(*(*wave)->output(0), bytes(texts_[0].size(), std::byte{0xa5}));
  ASSERT_TRUE((*wave)->run(0).ok());
  expect_decoded(**wave);
  ASSERT_TRUE((*wave)->clear().ok());
  EXPECT_EQ(*(*wave)->output(0), bytes(texts_[0].size(), std::byte{0xa5}));
}

TEST_F(ResidentWave, ReportsDamagedChunksByTheirStatus) {
  encoded_[1] = bytes_of("\xf0");  // fifteen literals or more, none of which exist
  auto wave = make(0);
  ASSERT_TRUE(wave.ok()) << wave.error().to_string();
  ASSERT_TRUE((*wave)->decode().ok());
  const auto statuses = *(*wave)->statuses();
  EXPECT_EQ(statuses[0], 0U);
  EXPECT_NE(statuses[1], 0U);
  EXPECT_EQ(*(*wave)->output(0), bytes_of(texts_[0]));
}

TEST_F(ResidentWave, DecodesWithALibrary) {
  setenv("PENSTOCK_NVCOMP", PENSTOCK_FAKE_NVCOMP, 1);
  auto library = device::nvcomp::open();
  ASSERT_TRUE(library.ok()) << library.error().to_string();
  auto wave = make(0, library->get());
  ASSERT_TRUE(wave.ok()) << wave.error().to_string();
  EXPECT_EQ((*wave)->kernel(0), "nvcomp");
  ASSERT_TRUE((*wave)->decode().ok());
  expect_decoded(**wave);
  EXPECT_EQ(make(resident_wave::kHost, library->get()).error().code(), errc::unsupported);
}

TEST_F(ResidentWave, ReleasesEverythingOnFailure) {
  const auto before = penstock_fake_cuda_live_bytes();
  {
    ASSERT_TRUE(make(0).ok());
  }
  EXPECT_EQ(penstock_fake_cuda_live_bytes(), before);
  EXPECT_EQ(make(7).error().code(), errc::invalid_argument);
  penstock_fake_cuda_fail("cuMemAlloc", 0, cuda::kOutOfMemory);
  EXPECT_EQ(make(0).error().code(), errc::resource_exhausted);
  for (const auto& [status, code] :
       {std::pair{cuda::kNoBinaryForDevice, errc::unsupported}, std::pair{cuda::kUnsupportedPtx, errc::unsupported},
        std::pair{cuda::kOutOfMemory, errc::resource_exhausted}}) {
    penstock_fake_cuda_fail("cuModuleLoadData", 0, status);
    EXPECT_EQ(make(0).error().code(), code) << status;
  }
  EXPECT_EQ(penstock_fake_cuda_live_bytes(), before);
  EXPECT_EQ(penstock_fake_cuda_retained(), 1);  // the test itself holds it
}

}  // namespace
}  // namespace penstock::test
