#pragma once

// Shared by the tests of this folder: chains from metadata text, bytes of known content.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/codec_chain.h"

namespace penstock::inline v0 {

using bytes = std::vector<std::byte>;

/// A codec list as in metadata: objects, or bare names.
inline std::vector<codec_config> parse_codecs(std::string_view text) {
  const json list = json::parse(text).value();
  std::vector<codec_config> codecs;
  for (const json& item : *list.as_array()) {
    if (const std::string* name = item.as_string()) {
      codecs.push_back({*name, {}});
    } else {
      const json* configuration = item.find("configuration");
      codecs.push_back({*item.find("name")->as_string(), configuration ? *configuration : json()});
    }
  }
  return codecs;
}

inline result<codec_chain> compile(std::string_view text, std::string_view type, const extents& cell,
                                   const codec_chain_options& options = {}) {
  return codec_chain::compile(parse_codecs(text), dtype::from_name(type).value(), cell, options);
}

/// `bytes` for single bytes, and one byte-to-byte codec.
inline codec_chain byte_chain(std::string_view codec, std::uint64_t size, const codec_chain_options& options = {}) {
  return compile(std::string("[\"bytes\",") + std::string(codec) + "]", "uint8", {size}, options).value();
}

inline bytes random_bytes(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  bytes made(size);
  for (std::byte& b : made) b = static_cast<std::byte>(random());
  return made;
}

/// Compressible, but not trivial: a slow ramp of 16-bit numbers with some noise.
inline bytes smooth_bytes(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  bytes made(size);
  std::uint32_t level = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (i % 2 == 0) level += random() % 5 == 0 ? static_cast<std::uint32_t>(random() % 3) : 0;
    made[i] = static_cast<std::byte>(i % 2 == 0 ? level : level >> 8);
  }
  return made;
}

/// Decodes a whole cell to C order.
inline result<> decode_all(const codec_chain& chain, std::span<const std::byte> encoded, std::span<std::byte> out,
                           worker_scratch& scratch) {
  decode_target target;
  target.data = out.data();
  target.strides = c_order_strides(chain.cell(), chain.type().item_bytes());
  target.covers_cell = true;
  return chain.decode(encoded, target, scratch);
}

inline bytes encode_all(const codec_chain& chain, bytes cell, worker_scratch& scratch) {
  bytes encoded(chain.max_encoded_bytes());
  auto made = chain.encode(tensor_view::contiguous(cell.data(), chain.type(), chain.cell()), encoded, scratch);
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  encoded.resize(made.ok() ? *made : 0);
  return encoded;
}

/// Decodes into exactly as much memory as the chunk needs, with guards that also detect writes of uninstrumented
/// libraries.
class guarded_decode {
 public:
  /// \param limited  The scratch has a memory limit, and reaching it is a correct answer to hostile bytes.
  /// \param of_kinds  The bytes contain their kind, and some kinds are not supported.
  explicit guarded_decode(bool limited = false, bool of_kinds = false) noexcept
      : limited_(limited), of_kinds_(of_kinds) {}

  result<> operator()(const codec_chain& chain, const bytes& encoded, worker_scratch& scratch) {
    const std::size_t size = chain.decoded_bytes();
    memory_.assign(size + 2 * kGuard, std::byte{0xa5});
    // A copy: a read beyond the end is a read beyond an allocation.
    const auto copy = std::make_unique<std::byte[]>(encoded.size());
    std::copy(encoded.begin(), encoded.end(), copy.get());
    auto done = decode_all(chain, std::span<const std::byte>(copy.get(), encoded.size()),
                           std::span(memory_).subspan(kGuard, size), scratch);
    const auto touched = [](std::byte b) { return b != std::byte{0xa5}; };
    EXPECT_TRUE(std::none_of(memory_.begin(), memory_.begin() + kGuard, touched)) << chain.describe();
    EXPECT_TRUE(std::none_of(memory_.end() - kGuard, memory_.end(), touched)) << chain.describe();
    if (!done.ok() && !(limited_ && done.error().code() == errc::resource_exhausted) &&
        !(of_kinds_ && done.error().code() == errc::unsupported)) {
      EXPECT_EQ(done.error().code(), errc::corrupt_data) << done.error().to_string();
    }
    return done;
  }
  bytes content() const { return bytes(memory_.begin() + kGuard, memory_.end() - kGuard); }

 private:
  static constexpr std::size_t kGuard = 64;
  bool limited_, of_kinds_;
  bytes memory_;
};

/// Every bytes-to-bytes codec, with settings that use different paths in its library.
inline const std::vector<std::string>& byte_codec_texts() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> made = {
        R"({"name":"zstd","configuration":{"level":0}})",
        R"({"name":"zstd","configuration":{"level":-5,"checksum":true}})",
        R"({"name":"zstd","configuration":{"level":19,"checksum":false}})",
        R"({"name":"gzip","configuration":{"level":0}})",
        R"({"name":"gzip","configuration":{"level":5}})",
        R"({"name":"gzip","configuration":{"level":9}})",
        R"({"name":"crc32c"})",
        R"({"name":"conditional","configuration":{"codecs":[{"name":"numcodecs.shuffle"},{"name":"numcodecs.lz4"},"crc32c"]}})",
        R"({"name":"conditional","configuration":{"codecs":[],"header_bits":16}})",
    };
    for (const char* compressor : {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"}) {
      for (const char* shuffle : {"noshuffle", "shuffle", "bitshuffle"}) {
        made.push_back(std::string(R"({"name":"blosc","configuration":{"cname":")") + compressor +
                       R"(","clevel":5,"shuffle":")" + shuffle + R"(","typesize":4,"blocksize":256}})");
      }
    }
    for (const char* codec :
         {R"(zlib","configuration":{"level":-1})",
          R"(zlib","configuration":{"level":9})",
          R"(gzip","configuration":{"level":-1})",
          R"(zstd","configuration":{"level":100})",
          R"(blosc","configuration":{"shuffle":-1})",
          R"(lz4","configuration":{})",
          R"(lz4","configuration":{"acceleration":100})",
          R"(bz2","configuration":{"level":9})",
          R"(bz2","configuration":{})",
          R"(lzma","configuration":{"preset":1,"filters":null})",
          R"(lzma","configuration":{"check":0,"filters":[{"id":3,"dist":2},{"id":33,"preset":0}]})",
          R"(lzma","configuration":{"format":2,"preset":0})",
          R"(lzma","configuration":{"format":3,"filters":[{"id":3,"dist":2},{"id":33,"preset":1}]})",
          R"(base64")",
          R"(adler32","configuration":{})",
          R"(crc32","configuration":{"location":"end"})",
          R"(crc32c","configuration":{"location":"start"})",
          R"(fletcher32")",
          R"(jenkins_lookup3","configuration":{"initval":7})",
          R"(shuffle","configuration":{"elementsize":1})"}) {
      made.push_back(std::string(R"({"name":"numcodecs.)") + codec + "}");
    }
    return made;
  }();
  return texts;
}

}  // namespace penstock::inline v0
