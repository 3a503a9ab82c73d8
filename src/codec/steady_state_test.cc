// A warm worker decodes without allocating. This file replaces the program's operator new to count, except under
// sanitizers, which replace it themselves.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "codec/codec_fixture.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define PENSTOCK_TEST_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PENSTOCK_TEST_SANITIZED
#endif

namespace {
thread_local std::uint64_t allocations = 0;
}  // namespace

#ifndef PENSTOCK_TEST_SANITIZED
namespace {

void* allocate(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  void* made = nullptr;
  if (posix_memalign(&made, alignment < sizeof(void*) ? sizeof(void*) : alignment, bytes) != 0) throw std::bad_alloc();
  return made;
}

// Out of line: if operator delete is inlined to free, compilers warn of a mismatch.
[[gnu::noinline]] void release(void* memory) noexcept { std::free(memory); }
}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

#endif

namespace penstock::inline v0 {
namespace {

TEST(SteadyState, CountsAllocations) {
#ifdef PENSTOCK_TEST_SANITIZED
  GTEST_SKIP() << "the sanitizer's operator new does not count";
#endif
  const std::uint64_t before = allocations;
  ::operator delete(::operator new(100));
  ::operator delete[](::operator new[](100, std::align_val_t{64}), std::align_val_t{64});
  EXPECT_EQ(allocations - before, 2u);
}

TEST(SteadyState, DecodesWithoutAnAllocation) {
  std::vector<std::string> chains = {"[\"bytes\"]", R"(["bytes","crc32c"])"};
  for (const std::string& text : byte_codec_texts()) {
    chains.push_back("[\"bytes\"," + text + "]");
    chains.push_back("[\"bytes\"," + text + ",\"crc32c\"," + byte_codec_texts()[0] + "]");
  }
  const std::string little = R"({"name":"bytes","configuration":{"endian":"little"}})";
  for (
      const std::string& text :
      {R"({"name":"numcodecs.delta","configuration":{"dtype":"|u1","astype":">i2"}},)" + little,
       R"({"name":"numcodecs.astype","configuration":{"encode_dtype":"<f4","decode_dtype":"|u1"}},)" + little,
       R"({"name":"numcodecs.fixedscaleoffset","configuration":{"offset":0,"scale":1,"dtype":"|u1","astype":">i4"}},)" +
           little + R"(,{"name":"numcodecs.shuffle"},{"name":"numcodecs.lz4"})",
       R"({"name":"cast_value","configuration":{"data_type":"float64"}},{"name":"scale_offset","configuration":{"offset":1}},)" +
           little,
       std::string(R"({"name":"reshape","configuration":{"shape":[-1]}},"packbits")")}) {
    chains.push_back("[" + text + "]");
  }
  const std::uint64_t side = 64;
  for (const std::string& text : chains) {
    ledger accounts(std::uint64_t{1} << 30, 0);
    worker_scratch scratch(&accounts);
    const codec_chain chain = compile(text, "uint8", {side, side}).value();
    const bytes cell = smooth_bytes(side * side, 1), encoded = encode_all(chain, cell, scratch);
    bytes whole(side * side), part(side * side / 4);
    strided_box every_other;
    every_other.push_back({0, 2, side / 2});
    every_other.push_back({side - 1, -2, side / 2});
    const decode_target all{whole.data(), {side, 1}, nullptr, true};
    const decode_target some{part.data(), {side / 2, 1}, &every_other, false};
    ASSERT_TRUE(chain.decode(encoded, all, scratch).ok());
    ASSERT_TRUE(chain.decode(encoded, some, scratch).ok());
    const std::uint64_t before = allocations, held = accounts.held(memory_use::scratch);
    for (int i = 0; i < 3; ++i) {
      const bool good = chain.decode(encoded, all, scratch).ok() && chain.decode(encoded, some, scratch).ok();
      if (!good) FAIL() << text;
    }
    EXPECT_EQ(allocations, before) << text;
    EXPECT_EQ(accounts.held(memory_use::scratch), held);
    EXPECT_EQ(whole, cell);
    for (std::size_t i = 0; i < part.size(); ++i) {
      ASSERT_EQ(part[i], cell[2 * (i / (side / 2)) * side + side - 1 - 2 * (i % (side / 2))]) << text;
    }
  }
}

}  // namespace
}  // namespace penstock::inline v0
