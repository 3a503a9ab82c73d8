#include <bzlib.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "codec/byte_codecs.h"
#include "codec/codec_members.h"
#include "codec/library_contexts.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kMostAtOnce = std::numeric_limits<unsigned>::max();  // the library uses 32-bit counts

void* take_memory(void* memory, int items, int bytes) {
  return static_cast<library_memory*>(memory)->take(static_cast<std::size_t>(items) * static_cast<std::size_t>(bytes));
}

error damaged(std::uint64_t at, int code) {
  return {errc::corrupt_data, fmt::format("bz2 stream is damaged before byte {} (libbz2 returned {})", at, code)};
}

// A decoder of one stream; the library's memory is in the worker's scratch.
class stream_decoder {
 public:
  explicit stream_decoder(library_memory& memory) noexcept {
    stream_.bzalloc = take_memory;
    stream_.bzfree = library_memory::give_to;
    stream_.opaque = &memory;
    ok_ = BZ2_bzDecompressInit(&stream_, 0, 0) == BZ_OK;
  }
  stream_decoder(const stream_decoder&) = delete;
  ~stream_decoder() {
    if (ok_) BZ2_bzDecompressEnd(&stream_);
  }
  bool ok() const noexcept { return ok_; }

  // Decodes until the stream, its input or the space ends. Stores the reached positions in `from` and `to`.
  int run(std::span<const std::byte>& from, std::span<std::byte>& to) noexcept {
    while (true) {
      const unsigned in = static_cast<unsigned>(std::min(from.size(), kMostAtOnce));
      const unsigned out = static_cast<unsigned>(std::min(to.size(), kMostAtOnce));
      // libbz2 reads through a pointer that is not const.
      stream_.next_in = const_cast<char*>(reinterpret_cast<const char*>(from.data()));
      stream_.avail_in = in;
      stream_.next_out = reinterpret_cast<char*>(to.data());
      stream_.avail_out = out;
      const int code = BZ2_bzDecompress(&stream_);
      from = from.subspan(in - stream_.avail_in);
      to = to.subspan(out - stream_.avail_out);
      const bool moved = in != stream_.avail_in || out != stream_.avail_out;
      if (code != BZ_OK || !moved) return code;
    }
  }

 private:
  bz_stream stream_{};
  bool ok_ = false;
};

class bz2_codec final : public byte_codec {
 public:
  explicit bz2_codec(int level) noexcept : level_(level) {}

  std::string_view name() const override { return "bz2"; }
  std::string describe() const override { return fmt::format("bz2(level={})", level_); }

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return saturating_add(decoded_bytes, decoded_bytes / 100 + 600);  // see the library's manual
  }

  // One stream after the other, as bzip2 and Python read them.
  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    std::span<const std::byte> from = encoded;
    std::span<std::byte> to = out;
    do {
      stream_decoder decoder(scratch.libraries().memory());
      const int code = decoder.ok() ? decoder.run(from, to) : BZ_MEM_ERROR;
      if (code == BZ_MEM_ERROR) return error{errc::resource_exhausted, "no memory for a bz2 decoder"};
      // The end mark of an unfinished stream is still ahead, so remaining input means that the output is too small.
      if (code == BZ_OK && !from.empty()) {
        scratch.out_of_room = true;
        return error{errc::corrupt_data, fmt::format("bz2 stream decodes to more than {} bytes", out.size())};
      }
      if (code == BZ_OK) {
        return error{errc::corrupt_data, fmt::format("bz2 stream ends early, after {} bytes", encoded.size())};
      }
      if (code != BZ_STREAM_END) return damaged(encoded.size() - from.size(), code);
    } while (!from.empty());
    return std::span<const std::byte>(out.data(), out.size() - to.size());
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch& scratch) const override {
    if (decoded.size() > kMostAtOnce - kMostAtOnce / 64) {
      return error{errc::unsupported, fmt::format("bz2 encodes less than 4 GiB at once, not {} bytes", decoded.size())};
    }
    bz_stream stream{};
    stream.bzalloc = take_memory;
    stream.bzfree = library_memory::give_to;
    stream.opaque = &scratch.libraries().memory();
    if (BZ2_bzCompressInit(&stream, level_, 0, 0) != BZ_OK) {
      return error{errc::resource_exhausted, "no memory for a bz2 encoder"};
    }
    stream.next_in = const_cast<char*>(reinterpret_cast<const char*>(decoded.data()));
    stream.avail_in = static_cast<unsigned>(decoded.size());
    stream.next_out = reinterpret_cast<char*>(out.data());
    stream.avail_out = static_cast<unsigned>(std::min(out.size(), kMostAtOnce));
    const unsigned room = stream.avail_out;
    const int code = BZ2_bzCompress(&stream, BZ_FINISH);
    const unsigned left = stream.avail_out;
    BZ2_bzCompressEnd(&stream);
    if (code != BZ_STREAM_END) {
      return error{errc::internal, fmt::format("bz2 cannot encode {} bytes into {}", decoded.size(), out.size())};
    }
    return room - left;
  }

 private:
  int level_;
};

}  // namespace

result<compiled_codec> make_bz2_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"level"}));
  PENSTOCK_ASSIGN(const std::int64_t level, members.integer("level", 1, 9, 1));
  return compressed_stage(std::make_shared<bz2_codec>(static_cast<int>(level)), input);
}

}  // namespace penstock::inline v0
