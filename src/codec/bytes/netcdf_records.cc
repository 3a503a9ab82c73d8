// One variable's bytes in consecutive records, taken from the bytes of these records.

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "codec/byte_codecs.h"
#include "codec/codec_members.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kName = "netcdf.records";

template <std::size_t kBytes>
void gather(const std::byte* from, std::size_t step, std::size_t count, std::byte* to) noexcept {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * kBytes, from + i * step, kBytes);
}

/// Other variables' parts are between those of one variable. The last record ends with the variable's part.
class records_codec final : public byte_codec {
 public:
  records_codec(std::size_t bytes, std::size_t step) noexcept : bytes_(bytes), step_(step) {}

  std::string_view name() const override { return kName; }
  std::string describe() const override { return fmt::format("{}(bytes={}, step={})", kName, bytes_, step_); }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return saturating_mul(decoded_bytes / bytes_ + 1, step_);
  }
  result<std::uint64_t> encode(std::span<const std::byte>, std::span<std::byte>, worker_scratch&) const override {
    return error(errc::unsupported, fmt::format("codec '{}' can only decode", kName));
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (encoded.size() < bytes_ || (encoded.size() - bytes_) % step_ != 0)
      return error(errc::corrupt_data,
                   fmt::format("{} data: {} bytes are not a number of records of {} that end after {}", kName,
                               encoded.size(), step_, bytes_));
    const std::size_t count = (encoded.size() - bytes_) / step_ + 1;
    if (count > out.size() / bytes_) {
      scratch.out_of_room = true;
      return error(errc::corrupt_data, fmt::format("{} data: {} parts of {} bytes, the output has room for {}", kName,
                                                   count, bytes_, out.size()));
    }
    switch (bytes_) {
      case 1:
        gather<1>(encoded.data(), step_, count, out.data());
        break;
      case 2:
        gather<2>(encoded.data(), step_, count, out.data());
        break;
      case 4:
        gather<4>(encoded.data(), step_, count, out.data());
        break;
      case 8:
        gather<8>(encoded.data(), step_, count, out.data());
        break;
      default:
        for (std::size_t i = 0; i < count; ++i)
          std::memcpy(out.data() + i * bytes_, encoded.data() + i * step_, bytes_);
    }
    return std::span<const std::byte>(out.first(count * bytes_));
  }

 private:
  std::size_t bytes_, step_;
};

}  // namespace

// `bytes`: of the variable in one record; `step`: from one record to the next.
result<compiled_codec> make_netcdf_records_codec(const codec_config& config, const stage_type& input) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"bytes", "step"}));
  PENSTOCK_ASSIGN(const std::int64_t bytes, members.integer("bytes", 1, kMost));
  PENSTOCK_ASSIGN(const std::int64_t step, members.integer("step", bytes, kMost));
  return compressed_stage(
      std::make_shared<records_codec>(static_cast<std::size_t>(bytes), static_cast<std::size_t>(step)), input);
}

}  // namespace penstock::inline v0
