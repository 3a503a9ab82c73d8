// Ranges for profilers, with a library of the tests in place of a profiler's.

#include <cstdlib>

#include <penstock/penstock.h>
#include "fake_device.h"
#include "support/model_array.h"
#include "support/nvtx_recorder/nvtx_recorder.h"

namespace penstock::test {
namespace {

// Before any check for a listener: this program is profiled from its start.
const bool listens = setenv("NVTX_INJECTION64_PATH", PENSTOCK_NVTX_RECORDER, 1) == 0;

class Nvtx : public FakeDevice {
 protected:
  static std::uint64_t opened(const char* name) { return penstock_nvtx_opened("penstock", name); }
};

TEST_F(Nvtx, RangesOfAReadAreReportedAndClosed) {
  ASSERT_TRUE(listens);
  const auto store = make_memory_store();
  model_options options;
  options.shape = {64, 64};
  options.chunks = {8, 64};
  options.codecs =
      R"([{"name":"bytes","configuration":{"endian":"big"}},{"name":"zstd","configuration":{"level":1,"checksum":true}}])";
  const model_array model = write_model(*store, "a/", options);
  open_options where;
  where.context = context::make({}).value();
  where.path = "a";
  const array opened_array = open_array(store, where).value();

  const std::uint64_t disk = opened("read::disk"), decode = opened("read::decode"), scatter = opened("read::scatter");
  const std::uint64_t transfer = opened("read::transfer");
  std::vector<std::byte> here(model.values.size());
  ASSERT_TRUE(opened_array.read(tensor_view::contiguous(here.data(), opened_array.type(), opened_array.shape())).ok());
  EXPECT_EQ(here, model.values);
  EXPECT_EQ(opened("read::disk") - disk, 8U);      // each chunk is an object
  EXPECT_EQ(opened("read::decode") - decode, 8U);  // with its scatter: one pass
  EXPECT_EQ(opened("read::transfer"), transfer);

  const std::uint64_t decoded_here = opened("read::decode");
  auto made = read_to_device(opened_array, basic_selection());
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  ASSERT_TRUE(made->synchronize().ok());
  EXPECT_EQ(opened("read::disk") - disk, 16U);
  EXPECT_GT(opened("read::transfer"), transfer);
  EXPECT_GT(opened("read::decode"), decoded_here);
  EXPECT_GT(opened("read::scatter"), scatter);
  EXPECT_EQ(penstock_nvtx_open(), 0);
  EXPECT_EQ(penstock_nvtx_mistakes(), 0U);
}

}  // namespace
}  // namespace penstock::test
