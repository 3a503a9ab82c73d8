#include "store/zip_decode.h"

#include <bzlib.h>
#include <gtest/gtest.h>
#include <libdeflate.h>
#include <lzma.h>

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::inline v0 {
namespace {

using bytes = std::vector<std::byte>;

bytes text() {
  bytes out;
  for (int i = 0; i < 5000; ++i) out.push_back(static_cast<std::byte>("penstock"[i % 8] + i / 700));
  return out;
}

zip_entry entry_of(zip_method method, const bytes& encoded, const bytes& decoded) {
  zip_entry out;
  out.method = method;
  out.encoded_bytes = encoded.size();
  out.decoded_bytes = decoded.size();
  out.crc = libdeflate_crc32(0, decoded.data(), decoded.size());
  return out;
}

bytes bzip2(const bytes& from) {
  bytes out(from.size() + 1000);
  auto size = static_cast<unsigned>(out.size());
  EXPECT_EQ(BZ2_bzBuffToBuffCompress(reinterpret_cast<char*>(out.data()), &size,
                                     const_cast<char*>(reinterpret_cast<const char*>(from.data())),  // NOLINT
                                     static_cast<unsigned>(from.size()), 9, 0, 0),
            BZ_OK);
  out.resize(size);
  return out;
}

bytes xz(const bytes& from) {
  bytes out(from.size() + 1000);
  std::size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, nullptr, reinterpret_cast<const std::uint8_t*>(from.data()),
                                    from.size(), reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

// As in APPNOTE 5.8; `window` is the dictionary's size.
bytes lzma(const bytes& from, std::uint32_t window) {
  lzma_options_lzma options;
  EXPECT_FALSE(lzma_lzma_preset(&options, 6));
  options.dict_size = 1 << 16;
  lzma_filter filters[2] = {{LZMA_FILTER_LZMA1, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
  bytes out(from.size() + 1000);
  out[2] = std::byte{5};
  auto* const to = reinterpret_cast<std::uint8_t*>(out.data());
  EXPECT_EQ(lzma_properties_encode(filters, to + 4), LZMA_OK);
  for (int i = 0; i < 4; ++i) to[5 + i] = static_cast<std::uint8_t>(window >> (8 * i));
  std::size_t size = 9;
  EXPECT_EQ(lzma_raw_buffer_encode(filters, nullptr, reinterpret_cast<const std::uint8_t*>(from.data()), from.size(),
                                   to, &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

result<> decoded(const zip_entry& entry, const bytes& encoded, bytes& out) {
  out.assign(static_cast<std::size_t>(entry.decoded_bytes), std::byte{0});
  return decode_entry(entry, encoded, out);
}

TEST(ZipDecode, ReadsEveryMethod) {
  const bytes whole = text();
  bytes out;
  for (const auto& [method, encoded] : {std::pair{zip_method::bzip2, bzip2(whole)},
                                        {zip_method::xz, xz(whole)},
                                        {zip_method::lzma, lzma(whole, 1 << 16)},
                                        // A window of 4 GiB costs no more than the decoded data.
                                        {zip_method::lzma, lzma(whole, 0xffffffff)}}) {
    const result<> done = decoded(entry_of(method, encoded, whole), encoded, out);
    EXPECT_TRUE(done.ok()) << done.error().to_string();
    EXPECT_EQ(out, whole);
  }
}

TEST(ZipDecode, RefusesDamage) {
  const bytes whole = text();
  bytes out;
  for (const auto& [method, encoded] :
       {std::pair{zip_method::bzip2, bzip2(whole)}, {zip_method::xz, xz(whole)}, {zip_method::lzma, lzma(whole, 1)}}) {
    SCOPED_TRACE(static_cast<int>(method));
    const auto refusal = [&, packed = method](bytes input, std::int64_t more, std::uint32_t flip) {
      zip_entry entry = entry_of(packed, input, whole);
      entry.decoded_bytes += static_cast<std::uint64_t>(more);
      entry.crc ^= flip;
      const result<> done = decoded(entry, input, out);
      return done.ok() ? "accepted" : done.error().to_string();
    };
    EXPECT_EQ(refusal(encoded, 1, 0).substr(0, 52), "corrupt_data: the zip entry does not decompress to i");
    EXPECT_EQ(refusal(encoded, 0, 1).substr(0, 45), "corrupt_data: the zip entry has the checksum ");
    // The last bytes of LZMA only mark its end.
    for (std::size_t size = 0; size + 16 < encoded.size(); size += 7) {
      EXPECT_NE(refusal(bytes(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(size)), 0, 0), "accepted")
          << size;
    }
    for (std::size_t at = 0; at < encoded.size(); at += 3) {
      bytes broken = encoded;
      broken[at] ^= std::byte{0x55};
      refusal(broken, 0, 0);  // For any input: it ends, and writes nothing elsewhere.
    }
  }
}

}  // namespace
}  // namespace penstock::inline v0
