// Frames of other programs, compared with their known content. Sources and licences: tests/data/codecs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "codec/byte_codecs.h"
#include "codec/codec_fixture.h"
#include "codec/hdf5/blosc2_chunk.h"

namespace penstock::inline v0 {
namespace {

namespace fs = std::filesystem;

fs::path folder() { return fs::path(PENSTOCK_SOURCE_DIR) / "tests" / "data" / "codecs"; }

bytes file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return bytes(first, first + text.size());
}

std::string settings_of(std::string_view codec) {
  if (codec == "zstd") return R"({"name":"zstd","configuration":{"level":0}})";
  if (codec == "gzip") return R"({"name":"gzip","configuration":{"level":5}})";
  if (codec == "blosc") {
    return R"({"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"noshuffle","blocksize":0}})";
  }
  return R"({"name":"crc32c"})";
}

void expect_decodes(std::string_view codec, const bytes& encoded, const bytes& expected, const fs::path& what) {
  worker_scratch scratch;
  const codec_chain chain = byte_chain(settings_of(codec), expected.size());
  bytes out(expected.size());
  const auto done = decode_all(chain, encoded, out, scratch);
  ASSERT_TRUE(done.ok()) << what << ": " << done.error().to_string();
  EXPECT_EQ(out, expected) << what;
}

bytes npy_content(const fs::path& path) {
  bytes all = file(path);
  const std::size_t header = 10 + static_cast<std::size_t>(all.at(8)) + 256 * static_cast<std::size_t>(all.at(9));
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(header));
  return all;
}

TEST(GoldenFrames, BloscSince2014HoldsARamp) {
  bytes ramp(4'000'000);
  for (std::int32_t i = 0; i < 1'000'000; ++i) std::memcpy(ramp.data() + 4 * i, &i, 4);
  int found = 0;
  for (const auto& entry : fs::directory_iterator(folder() / "Blosc__c-blosc" / "compat")) {
    expect_decodes("blosc", file(entry.path()), ramp, entry.path());
    ++found;
  }
  EXPECT_EQ(found, 5);
}

TEST(GoldenFrames, Blosc2IsRefusedByItsVersion) {
  worker_scratch scratch;
  int found = 0;
  for (const auto& entry : fs::directory_iterator(folder() / "Blosc__c-blosc2" / "compat")) {
    bytes out(1'000'000);
    const auto done = decode_all(byte_chain(settings_of("blosc"), out.size()), file(entry.path()), out, scratch);
    ASSERT_FALSE(done.ok());
    EXPECT_NE(done.error().message().find("blosc frame has format version"), std::string::npos);
    ++found;
  }
  EXPECT_EQ(found, 4);
}

TEST(GoldenFrames, Blosc2HoldsARamp) {
  bytes ramp(4'000'000);
  for (std::int32_t i = 0; i < 1'000'000; ++i) std::memcpy(ramp.data() + 4 * i, &i, 4);
  worker_scratch scratch;
  for (const char* name : {"blosclz", "lz4", "zstd"}) {  // the last two with a dictionary
    const bytes encoded =
        file(folder() / "Blosc__c-blosc2" / "compat" / (std::string("blosc-") + name + "-3.0.0.cdata"));
    const auto chunk = blosc2_chunk::parse(encoded);
    ASSERT_TRUE(chunk.ok()) << name << ": " << chunk.error().to_string();
    ASSERT_EQ(chunk->decoded_bytes(), ramp.size());
    bytes out(ramp.size());
    const auto done = chunk->decode(out, scratch);
    ASSERT_TRUE(done.ok()) << name << ": " << done.error().to_string();
    EXPECT_EQ(out, ramp) << name;
  }
}

TEST(GoldenFrames, Blosc2InChunksAndBlocksHoldsItsArray) {
  bytes ramp(2 * 63);
  for (std::size_t i = 0; i < 63; ++i) ramp[2 * i] = static_cast<std::byte>(i);
  const auto codec = make_byte_codec({"hdf5.blosc2", json(json::object_t{})}, 1);
  ASSERT_TRUE(codec.ok());
  worker_scratch scratch;
  bytes out(ramp.size());
  const auto done = (*codec)->decode(file(folder() / "blosc2" / "several_chunks.b2nd"), out, scratch);
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_EQ(out, ramp);
}

TEST(GoldenFrames, FramesOfNumcodecsHoldTheirArrays) {
  int found = 0;
  for (const char* codec : {"blosc", "crc32c", "gzip", "zstd"}) {
    const fs::path here = folder() / "zarr-developers__numcodecs" / "fixture" / codec;
    for (const auto& entry : fs::recursive_directory_iterator(here)) {
      if (entry.path().extension() != ".dat") continue;
      const std::string number = entry.path().stem().extension().string();  // encoded.00.dat -> .00
      expect_decodes(codec, file(entry.path()), npy_content(here / ("array" + number + ".npy")), entry.path());
      ++found;
    }
  }
  EXPECT_EQ(found, 28);
}

TEST(GoldenFrames, ZstdsRandomCorpusDecodesToItsReferences) {
  int found = 0;
  for (const auto& entry :
       fs::directory_iterator(folder() / "KillingSpark__zstd-rs" / "ruzstd" / "decodecorpus_files")) {
    if (entry.path().extension() != ".zst") continue;
    fs::path twin = entry.path();
    expect_decodes("zstd", file(entry.path()), file(twin.replace_extension()), entry.path());
    ++found;
  }
  EXPECT_EQ(found, 21);
}

TEST(GoldenFrames, ZstdsOwnTestsDecodeOrAreRefused) {
  const fs::path tests = folder() / "facebook__zstd" / "tests";
  expect_decodes("zstd", file(tests / "golden-decompression" / "empty-block.zst"), {}, "empty-block");
  expect_decodes("zstd", file(tests / "golden-decompression" / "rle-first-block.zst"), bytes(1 << 20),
                 "rle-first-block");
  // Whether a libzstd accepts the others depends on its version; any other result is an error.
  worker_scratch scratch;
  for (const auto& entry : fs::recursive_directory_iterator(tests)) {
    if (!entry.is_regular_file()) continue;
    bytes out(1 << 20);
    const auto done = decode_all(byte_chain(settings_of("zstd"), out.size()), file(entry.path()), out, scratch);
    if (!done.ok()) {
      EXPECT_EQ(done.error().code(), errc::corrupt_data) << entry.path();
    }
  }
}

TEST(GoldenFrames, FramesOfWuffsDecodeToTheirReferences) {
  const fs::path data = folder() / "google__wuffs" / "test" / "data";
  expect_decodes("gzip", file(data / "256.bytes.gz"), file(data / "256.bytes"), "256.bytes.gz");
  expect_decodes("gzip", file(data / "archive.tar.gz"), file(data / "archive.tar"), "archive.tar.gz");
  // One text by two codecs, neither of which has another implementation here: 942 bytes.
  worker_scratch scratch;
  bytes by_gzip(942), by_zstd(942);
  ASSERT_TRUE(decode_all(byte_chain(settings_of("gzip"), 942), file(data / "romeo.txt.gz"), by_gzip, scratch).ok());
  ASSERT_TRUE(decode_all(byte_chain(settings_of("zstd"), 942), file(data / "romeo.txt.zst"), by_zstd, scratch).ok());
  EXPECT_EQ(by_gzip, by_zstd);
  EXPECT_EQ(std::memcmp(by_gzip.data(), "Romeo and Juliet", 16), 0);
}

TEST(GoldenFrames, ZlibsPastFaultsAreRefusedOrDecoded) {
  worker_scratch scratch;
  int found = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder() / "zlib-ng__zlib-ng" / "test")) {
    if (!entry.is_regular_file()) continue;
    ++found;
    const bytes encoded = file(entry.path());
    for (const std::size_t size : {0, 1, 100, 100'000}) {
      bytes out(size);
      const auto done = decode_all(byte_chain(settings_of("gzip"), size), encoded, out, scratch);
      if (!done.ok()) {
        EXPECT_EQ(done.error().code(), errc::corrupt_data) << entry.path();
      }
    }
  }
  EXPECT_EQ(found, 5);
}

}  // namespace
}  // namespace penstock::inline v0
