#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <penstock/array.h>
#include <penstock/open.h>
#include <penstock/tiff.h>

namespace penstock::test {
namespace {

using bytes = std::vector<std::byte>;

bytes npy_file() {
  std::string text = "\x93NUMPY";
  text += std::string("\x01\x00", 2);
  std::string header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }";
  header.append(117 - header.size(), ' ').append(1, '\n');
  text.append("\x76\x00", 2).append(header);
  bytes out(text.size() + 12);
  std::memcpy(out.data(), text.data(), text.size());
  for (std::int16_t i = 0; i < 6; ++i) std::memcpy(out.data() + text.size() + 2 * i, &i, 2);
  return out;
}

TEST(OpenBytes, ReadsAnNpyFileInPlaceAndKeepsItsOwner) {
  auto file = std::make_shared<bytes>(npy_file());
  std::weak_ptr<const void> watched = file;
  {
    const std::span<const std::byte> all(*file);
    auto opened = open_array(all, {}, std::move(file));
    ASSERT_TRUE(opened.ok()) << opened.error().to_string();
    EXPECT_EQ(opened->shape(), extents({2, 3}));
    EXPECT_TRUE(opened->read_only());
    std::vector<std::int16_t> values(6, -1);
    ASSERT_TRUE(opened->read(tensor_view::contiguous(values.data(), opened->type(), opened->shape())).ok());
    EXPECT_EQ(values, (std::vector<std::int16_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_FALSE(watched.expired());
    // The current bytes are read: opening copied nothing.
    const_cast<std::byte&>(all[all.size() - 2]) = std::byte{9};
    ASSERT_TRUE(opened->read(tensor_view::contiguous(values.data(), opened->type(), opened->shape())).ok());
    EXPECT_EQ(values[5], 9);
  }
  EXPECT_TRUE(watched.expired());
}

TEST(OpenBytes, ReportsUnsupportedBytes) {
  const bytes file = npy_file();
  EXPECT_EQ(open_array(std::span(file).first(20)).error().code(), errc::corrupt_data);
  EXPECT_EQ(open_array(std::span(file).first(file.size() - 1)).error().code(), errc::corrupt_data);
  EXPECT_EQ(open_array(std::span<const std::byte>()).error().code(), errc::unsupported);
  const bytes none(200, std::byte{0x17});
  EXPECT_EQ(open_array(none).error().code(), errc::unsupported);
  open_options options;
  options.path = "a";
  EXPECT_EQ(open_array(file, options).error().code(), errc::not_found);
}

TEST(OpenBytes, ReadsMembersOfHdf5AndOpensItsGroups) {
  std::ifstream stored("tests/data/fuzz/hdf5_file/old", std::ios::binary);
  auto file = std::make_shared<std::string>(std::istreambuf_iterator<char>(stored), std::istreambuf_iterator<char>());
  const auto all = std::as_bytes(std::span(*file));
  EXPECT_EQ(open_array(all).error().code(), errc::invalid_argument);
  std::weak_ptr<const void> watched = file;
  {
    const auto root = std::get<group>(open(all, {}, std::move(file)).value());
    const std::vector<std::string> names = root.keys().value();
    ASSERT_FALSE(names.empty());
    open_options options;
    options.path = names[0];
    const auto member = open(all, options);
    ASSERT_TRUE(member.ok()) << member.error().to_string();
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

// Little-endian, one strip of 3 x 2 bytes.
TEST(OpenBytes, ReadsATiff) {
  bytes file;
  const auto put = [&](std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) file.push_back(static_cast<std::byte>(value >> (8 * i)));
  };
  put(0x4949, 2);
  put(42, 2);
  put(16, 4);
  for (std::uint32_t i = 0; i < 8; ++i) put(i < 6 ? 10 * i : 0, 1);
  const std::uint32_t tags[][4] = {{256, 3, 1, 3}, {257, 3, 1, 2}, {258, 3, 1, 8}, {259, 3, 1, 1}, {262, 3, 1, 1},
                                   {273, 4, 1, 8}, {277, 3, 1, 1}, {278, 3, 1, 2}, {279, 4, 1, 6}};
  put(std::size(tags), 2);
  for (const auto& each : tags) {
    put(each[0], 2);
    put(each[1], 2);
    put(each[2], 4);
    put(each[3], 4);
  }
  put(0, 4);
  auto opened = open_array(file);
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  EXPECT_NE(tiff_details_of(*opened), nullptr);
  std::vector<std::uint8_t> values(6);
  ASSERT_TRUE(opened->read(tensor_view::contiguous(values.data(), opened->type(), opened->shape())).ok());
  EXPECT_EQ(values, (std::vector<std::uint8_t>{0, 10, 20, 30, 40, 50}));
}

}  // namespace
}  // namespace penstock::test
