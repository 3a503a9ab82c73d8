#pragma once

// Arrays of the tests' models: opened in a context of the test's choice, and read by the host.

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/penstock.h>

namespace penstock::test {

/// The array "a" of a store.
inline array open_in(const std::shared_ptr<store>& from, const std::shared_ptr<context>& ctx) {
  open_options where;
  where.context = ctx;
  where.path = "a";
  auto opened = open_array(from, where);
  EXPECT_TRUE(opened.ok()) << opened.error().to_string();
  return std::move(opened).value();
}

/// All elements, in C order.
inline std::vector<std::byte> read_all(const array& from) {
  std::uint64_t bytes = from.type().item_bytes();
  for (const std::uint64_t each : from.shape()) bytes *= each;
  std::vector<std::byte> out(bytes);
  const auto done = from.read(tensor_view::contiguous(out.data(), from.type(), from.shape()));
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  return out;
}

}  // namespace penstock::test
