#include <penstock/dlpack.h>

#include <gtest/gtest.h>

#include <vector>

namespace penstock::test {
namespace {

const dlpack_managed_versioned& content_of(const DLManagedTensorVersioned* made) {
  return *reinterpret_cast<const dlpack_managed_versioned*>(made);
}
void give_back(DLManagedTensorVersioned* made) {
  auto* const managed = reinterpret_cast<dlpack_managed_versioned*>(made);
  managed->deleter(managed);
}

TEST(Dlpack, ExportsShapeStridesAndTypeAndKeepsTheOwnerUntilTheDeleter) {
  auto values = std::make_shared<std::vector<std::int16_t>>(24);
  tensor_view view = tensor_view::contiguous(values->data(), *dtype::from_name("int16"), {2, 3, 4});
  view.data += 12 * 2;
  view.strides[0] = -24;
  auto made = to_dlpack(view, values, {1, 0}, kDlpackReadOnly);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  const dlpack_managed_versioned& seen = content_of(*made);
  EXPECT_EQ(seen.major, 1U);
  EXPECT_EQ(seen.flags, kDlpackReadOnly);
  EXPECT_EQ(seen.tensor.data, values->data() + 12);
  EXPECT_EQ(seen.tensor.byte_offset, 0U);
  EXPECT_EQ(seen.tensor.device.type, 1);
  EXPECT_EQ(seen.tensor.type.code, 0);
  EXPECT_EQ(seen.tensor.type.bits, 16);
  EXPECT_EQ(seen.tensor.type.lanes, 1);
  EXPECT_EQ(std::vector<std::int64_t>(seen.tensor.shape, seen.tensor.shape + 3), (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(std::vector<std::int64_t>(seen.tensor.strides, seen.tensor.strides + 3),
            (std::vector<std::int64_t>{-12, 4, 1}));
  std::weak_ptr<const void> watched = values;
  values.reset();
  EXPECT_FALSE(watched.expired());
  give_back(*made);
  EXPECT_TRUE(watched.expired());
}

struct known {
  const char* name;
  int code, bits;
};

TEST(Dlpack, ExportsTypesThatNumPyDoesNotHave) {
  float room[4] = {};
  for (const known& each :
       {known{"bfloat16", 4, 16}, known{"float8_e5m2", 12, 8}, known{"float8_e4m3fn", 10, 8}, known{"bool", 6, 8},
        known{"complex64", 5, 64}, known{"uint64", 1, 64}, known{"float16", 2, 16}}) {
    const auto type = dtype::from_name(each.name);
    if (!type.ok()) continue;
    auto made = to_dlpack(tensor_view::contiguous(room, *type, {1}), nullptr);
    ASSERT_TRUE(made.ok()) << each.name;
    EXPECT_EQ(content_of(*made).tensor.type.code, each.code) << each.name;
    EXPECT_EQ(content_of(*made).tensor.type.bits, each.bits) << each.name;
    give_back(*made);
  }
}

TEST(Dlpack, RefusesTensorsThatItCannotExpress) {
  std::int32_t room[8] = {};
  tensor_view view = tensor_view::contiguous(room, *dtype::from_name("int32"), {3});
  view.strides[0] = 6;
  EXPECT_EQ(to_dlpack(view, nullptr).error().code(), errc::unsupported);
  const auto text = dtype::from_numpy("<U4");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(to_dlpack(tensor_view::contiguous(room, text->type, {1}), nullptr).error().code(), errc::unsupported);
  auto scalar = to_dlpack(tensor_view::contiguous(room, *dtype::from_name("int32"), {}), nullptr);
  ASSERT_TRUE(scalar.ok());
  EXPECT_EQ(content_of(*scalar).tensor.rank, 0);
  give_back(*scalar);
}

}  // namespace
}  // namespace penstock::test
